/* SPDX-License-Identifier: Apache-2.0 */
#include "check/finding.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "check/stack.h"

enum { MAX_FINDINGS = 4096 }; /* causes; more are only counted */

static mutex findings_lock = MUTEX_INITIALIZER(FINDINGS); /* guards the variables below */
static finding *all;
static size_t n_findings, room;
static uint64_t n_untold;

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

static void add_finding(const finding *f) {
  for (size_t i = 0; i < n_findings; ++i) {
    if (!is_same_cause(&all[i], f)) continue;
    all[i].count += f->count;
    return;
  }
  if (n_findings == room && room < MAX_FINDINGS) {
    finding *more = realloc(all, (room * 2 + 16) * sizeof *all);
    if (more) all = more;
    if (more) room = room * 2 + 16;
  }
  if (n_findings < room)
    all[n_findings++] = *f;
  else
    n_untold += f->count;
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

void findings_write(void) {
  size_t n;
  finding *f = findings_copy(&n);
  for (size_t i = 0; i < n; ++i)
    fprintf(stderr, "cannon: %s: %s (%" PRIu64 " times)\n", finding_word(f[i].kind), f[i].message, f[i].count);
  free(f);
}
