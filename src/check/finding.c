/* SPDX-License-Identifier: Apache-2.0 */
#include "check/finding.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "base/store/hash.h"
#include "check/findings_write.h"
#include "trace/stack.h"

enum {
  MAX_FINDINGS = 4096, /* causes; more are only counted */
  N_BUCKETS = 1 << 12,
};

static mutex findings_lock = MUTEX_INITIALIZER(FINDINGS); /* guards the variables below */
static finding *all;
static size_t n_findings, room;
static uint64_t n_untold;
static uint16_t newest[N_BUCKETS], older[MAX_FINDINGS]; /* of the same hash; numbers from 1 */
static bool has_ended;

const char *finding_word(finding_kind kind) {
  static const char *const words[] = {
#define FINDING_KIND_WORD(name, word) word,
      FINDING_KINDS(FINDING_KIND_WORD)
#undef FINDING_KIND_WORD
  };
  return words[kind];
}

void finding_say(finding *f, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(f->message, sizeof f->message, format, arguments);
  va_end(arguments);
}

static bool is_same_cause(const finding *a, const finding *b) {
  return a->kind == b->kind && a->here.stack == b->here.stack && a->other.stack == b->other.stack &&
         a->allocation.stack == b->allocation.stack && strcmp(a->here.what, b->here.what) == 0 &&
         strcmp(a->other.what, b->other.what) == 0;
}

static uint16_t *bucket_of(const finding *f) {
  const uint32_t cause[] = {(uint32_t)f->kind, f->here.stack, f->other.stack, f->allocation.stack};
  return &newest[hash_bytes(HASH_START, cause, sizeof cause) % N_BUCKETS];
}

static void add_finding(const finding *f) {
  uint16_t *bucket = bucket_of(f);
  for (uint16_t i = *bucket; i; i = older[i - 1]) {
    if (!is_same_cause(&all[i - 1], f)) continue;
    all[i - 1].count += f->count;
    return;
  }
  if (n_findings == room && room < MAX_FINDINGS) {
    const size_t wider = room ? room * 2 : 64; /* up to MAX_FINDINGS, a power of two */
    finding *more = realloc(all, wider * sizeof *all);
    if (more) all = more;
    if (more) room = wider;
  }
  if (n_findings == room) {
    n_untold += f->count;
    return;
  }
  all[n_findings] = *f;
  older[n_findings] = *bucket;
  findings_file_add(f, n_findings);
  *bucket = (uint16_t)++n_findings;
}

void finding_report(const finding *f) {
  finding told = *f;
  if (!told.here.stack) told.here.stack = stack_take();
  if (!told.count) told.count = 1;
  mutex_lock(&findings_lock);
  add_finding(&told);
  mutex_unlock(&findings_lock);
}

finding *findings_copy(size_t *n) {
  mutex_lock(&findings_lock);
  finding *copy = n_findings ? malloc(n_findings * sizeof *copy) : NULL;
  *n = copy ? n_findings : 0;
  if (copy) memcpy(copy, all, n_findings * sizeof *copy);
  mutex_unlock(&findings_lock);
  return copy;
}

void findings_forget(void) {
  mutex_renew(&findings_lock);
  n_findings = 0;
  n_untold = 0;
  has_ended = false;
  memset(newest, 0, sizeof newest);
  findings_file_forget();
}

void findings_end(void) {
  mutex_lock(&findings_lock);
  const bool ends = !has_ended;
  has_ended = true;
  const uint64_t untold = n_untold;
  mutex_unlock(&findings_lock);
  if (!ends) return;
  size_t n;
  finding *f = findings_copy(&n); /* the report asks the loader for names, so it holds no lock */
  findings_file_end(f, n, untold);
  free(f);
}
