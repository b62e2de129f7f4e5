/* SPDX-License-Identifier: Apache-2.0 */
#include "fit/growth.h"

#include <stdlib.h>

#include "fit/must_alloc.h"

enum { MIN_STEPS = 3, STEPS_WITH_WARM_UP = 4 };

/* All steps in one walk. Steps don't overlap. */
static void walk_steps(const curve *c, growth *g) {
  curve_walk w = curve_begin(c);
  for (size_t i = 0; i < g->n_steps; ++i) {
    const history_step *s = &c->h->steps[i];
    g->steps[i].peak = curve_go_to_peak(&w, s->begin, s->end);
    g->steps[i].used = curve_go(&w, s->end).level.used;
  }
}

/* The first step whose end is not before the moment. */
static size_t step_from(const history *h, uint64_t moment) {
  size_t low = 0, high = h->n_steps;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (h->steps[middle].end < moment)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Whether values never fall and rise at least twice: once may be chance. */
static bool rises(const uint64_t *value, size_t n) {
  size_t n_rises = 0;
  for (size_t i = 1; i < n; ++i) {
    if (value[i] < value[i - 1]) return false;
    n_rises += value[i] > value[i - 1];
  }
  return n_rises >= 2;
}

typedef struct {
  uint64_t bytes;
  uint32_t line, blocks;
  size_t from, to; /* ends of steps at which it lives: [from, to) */
} stay;

static int compare_stays(const void *left, const void *right) {
  const stay *a = left, *b = right;
  return a->line < b->line ? -1 : a->line > b->line;
}

static int compare_growth(const void *left, const void *right) {
  const growth_line *a = left, *b = right;
  const uint64_t x = a->after - a->before, y = b->after - b->before;
  if (x != y) return x > y ? -1 : 1;
  return a->line < b->line ? -1 : a->line > b->line;
}

/* Blocks that live at an end of a step from g->first on. */
static size_t find_stays(const curve *c, const account_lines *lines, const growth *g, stay *out) {
  const history *h = c->h;
  size_t n = 0;
  for (uint32_t i = 0; i < h->n_blocks; ++i) {
    const history_block *b = &h->blocks[i];
    if (!curve_counts(h, i, c->device)) continue;
    size_t from = step_from(h, b->born);
    const size_t to = b->died == HISTORY_NEVER ? h->n_steps : step_from(h, b->died);
    if (from < g->first) from = g->first;
    if (from >= to) continue;
    const uint32_t line = b->site == HISTORY_NONE ? HISTORY_NONE : lines->of_site[b->site];
    out[n++] = (stay){b->bytes, line == HISTORY_NONE ? (uint32_t)lines->n : line, 1, from, to};
  }
  return n;
}

static void find_lines(const curve *c, const account_lines *lines, growth *g) {
  stay *stays = must_alloc(c->h->n_blocks, sizeof *stays);
  const size_t n = find_stays(c, lines, g, stays), n_ends = g->n_steps - g->first;
  uint64_t *bytes = must_alloc(n_ends + 1, sizeof *bytes), *blocks = must_alloc(n_ends + 1, sizeof *blocks);
  g->lines = must_alloc(lines->n + 1, sizeof *g->lines);
  qsort(stays, n, sizeof *stays, compare_stays);
  for (size_t i = 0; i < n;) {
    const uint32_t line = stays[i].line;
    for (size_t e = 0; e <= n_ends; ++e) bytes[e] = blocks[e] = 0;
    for (; i < n && stays[i].line == line; ++i) { /* differences first, modulo 2^64 */
      bytes[stays[i].from - g->first] += stays[i].bytes;
      bytes[stays[i].to - g->first] -= stays[i].bytes;
      blocks[stays[i].from - g->first]++;
      blocks[stays[i].to - g->first]--;
    }
    for (size_t e = 1; e < n_ends; ++e) {
      bytes[e] += bytes[e - 1];
      blocks[e] += blocks[e - 1];
    }
    if (rises(bytes, n_ends))
      g->lines[g->n_lines++] =
          (growth_line){line, bytes[0], bytes[n_ends - 1], (uint32_t)blocks[0], (uint32_t)blocks[n_ends - 1]};
  }
  qsort(g->lines, g->n_lines, sizeof *g->lines, compare_growth);
  free(stays);
  free(bytes);
  free(blocks);
}

void growth_make(const curve *c, const account_lines *lines, growth *out) {
  *out = (growth){.n_steps = c->h->n_steps, .steps = must_alloc(c->h->n_steps, sizeof *out->steps)};
  walk_steps(c, out);
  out->is_known = out->n_steps >= MIN_STEPS;
  if (!out->is_known) return;
  out->first = out->n_steps >= STEPS_WITH_WARM_UP;
  const size_t n = out->n_steps - out->first;
  uint64_t *used = must_alloc(n, sizeof *used);
  for (size_t i = 0; i < n; ++i) used[i] = out->steps[out->first + i].used;
  out->grows = rises(used, n);
  out->bytes = used[n - 1] > used[0] ? used[n - 1] - used[0] : 0;
  free(used);
  find_lines(c, lines, out);
}

void growth_free(growth *g) {
  free(g->steps);
  free(g->lines);
  *g = (growth){0};
}
