/* SPDX-License-Identifier: Apache-2.0 */
/* What held a device's memory when an allocation was refused, by line: of the first refusal, and of the largest
 * request. Listens in dry runs, and where allocations are counted by site (CANNON_SITES=1), if somebody reads the
 * counters. A line is the innermost one of Python outside of packages, or, without Python, the place that called the
 * library. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hooks.h"
#include "base/lock.h"
#include "base/settings/variables.h"
#include "trace/stack.h"
#include "trace/stats_write.h"

enum { N_BUCKETS = 1 << 12, MOST_LINES = 512 /* those beyond are not told apart */ };

typedef struct held_block {
  struct held_block *next; /* of the bucket */
  uintptr_t address;
  uint64_t bytes;
  const char *call;
  void *site;
  uint32_t stack;
  int device;
} held_block;

/* What one line holds. */
typedef struct {
  const python_line *python; /* NULL: the site counts */
  void *site;
  const char *call;
  uint64_t bytes, blocks;
} held_line;

static mutex holders_lock = MUTEX_INITIALIZER(SHADOW); /* guards what follows */
static held_block *buckets[N_BUCKETS];
static held_line lines[MOST_LINES];

static held_block **held_bucket(uintptr_t address) {
  return &buckets[(uint64_t)address * UINT64_C(0x9e3779b97f4a7c15) >> 52];
}

static void holders_on_alloc(const hook_block *b) {
  held_block *h = b->device >= 0 ? malloc(sizeof *h) : NULL;
  if (!h) return;
  *h = (held_block){.address = b->address,
                    .bytes = b->bytes,
                    .call = b->call,
                    .site = b->site,
                    .stack = stack_take(),
                    .device = b->device};
  mutex_lock(&holders_lock);
  held_block **bucket = held_bucket(b->address);
  h->next = *bucket;
  *bucket = h;
  mutex_unlock(&holders_lock);
}

static void holders_on_free(const hook_block *b, void *site) {
  (void)site;
  if (b->device < 0) return;
  mutex_lock(&holders_lock);
  held_block **at = held_bucket(b->address), *h;
  while (*at && ((*at)->address != b->address || (*at)->device != b->device)) at = &(*at)->next;
  h = *at;
  if (h) *at = h->next;
  mutex_unlock(&holders_lock);
  free(h);
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

static bool is_same_line(const held_line *a, const held_line *b) {
  if (!a->python || !b->python) return a->python == b->python && a->site == b->site;
  return a->python->line == b->python->line && strcmp(a->python->file, b->python->file) == 0;
}

/* Adds a block to its line. Returns how many lines there are. */
static uint32_t add_to_line(const held_block *h, uint32_t n) {
  held_line line = {stack_own_line(h->stack), h->site, h->call, 0, 0};
  uint32_t i = 0;
  while (i < n && !is_same_line(&lines[i], &line)) ++i;
  if (i == MOST_LINES) --i;
  if (i == n) lines[n++] = line;
  lines[i].bytes += h->bytes;
  ++lines[i].blocks;
  return n;
}

static int by_held_bytes(const void *a, const void *b) {
  const held_line *x = a, *y = b;
  return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

static void write_holder(stats_holder *out, const held_line *l) {
  *out = (stats_holder){.bytes = l->bytes, .blocks = l->blocks, .place = trace_place(l->site)};
  snprintf(out->call, sizeof out->call, "%s", l->call ? l->call : "");
  if (!l->python) return;
  const char *slash = strrchr(l->python->file, '/');
  snprintf(out->line, sizeof out->line, "%s:%d", slash ? slash + 1 : l->python->file, l->python->line);
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

static void write_refusal(stats_refusal *out, const hook_block *asked) {
  uint32_t n = 0;
  memset(out, 0, sizeof *out);
  out->device = asked->device;
  out->requested = asked->requested;
  const held_line asks = {stack_own_line(stack_take()), asked->site, asked->call, 0, 0};
  write_holder(&out->asks, &asks);
  for (int i = 0; i < N_BUCKETS; ++i)
    for (const held_block *h = buckets[i]; h; h = h->next) {
      if (h->device != asked->device) continue;
      n = add_to_line(h, n);
      out->held_bytes += h->bytes;
      ++out->held_blocks;
    }
  qsort(lines, n, sizeof *lines, by_held_bytes);
  out->n_lines = n;
  for (uint32_t i = 0; i < n && i < STATS_MAX_HOLDERS; ++i) write_holder(&out->holders[i], &lines[i]);
  memset(lines, 0, sizeof lines);
}

static void holders_on_refusal(const hook_block *asked) {
  if (asked->device < 0) return;
  stats_file *s = trace_stats();
  mutex_lock(&holders_lock);
  const bool is_first = counter_read(&s->n_refusals) == 0, is_largest = asked->requested > s->refused[1].requested;
  if (is_first) write_refusal(&s->refused[0], asked);
  if (is_largest) write_refusal(&s->refused[1], asked);
  trace_add(&s->n_refusals, 1);
  mutex_unlock(&holders_lock);
}

__attribute__((constructor)) static void holders_start(void) {
  static const hooks listener = {.alloc = holders_on_alloc, .free = holders_on_free, .refused = holders_on_refusal};
  uint64_t sites = 0;
  const char *dry = variable_text(VARIABLE_DRY);
  const bool is_dry = dry && strcmp(dry, "0") != 0;
  if (!variable_text(VARIABLE_STATS_DIR) || (!is_dry && !(variable_read(VARIABLE_SITES, &sites) && sites))) return;
  stack_start();
  hooks_add(&listener);
}
