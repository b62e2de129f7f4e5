/* SPDX-License-Identifier: Apache-2.0 */
#include "fit/account.h"

#include <stdlib.h>
#include <string.h>

#include "fit/must_alloc.h"

/* ---- lines ------------------------------------------------------------------------------------------------------- */

/* The line for which a site stands, or HISTORY_NONE. */
static uint32_t chosen_line(const history *h, const history_site *s) {
  if (s->own != HISTORY_NONE) return s->own;
  for (uint32_t i = s->first; i < s->first + s->n; ++i)
    if (*h->lines[i].file) return i;
  return s->n ? s->first : HISTORY_NONE;
}

static uint64_t hash_text(uint64_t hash, const char *text) { /* FNV-1a */
  for (; *text; ++text) hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
  return hash;
}

static bool account_is_same_line(const history_line *a, const history_line *b) {
  return a->line == b->line && strcmp(a->file, b->file) == 0 && strcmp(a->function, b->function) == 0;
}

uint32_t *account_first_lines(const history *h) {
  size_t room = 16;
  while (room < 2 * h->n_lines) room *= 2;
  uint32_t *table = must_alloc(room, sizeof *table); /* lines plus 1; 0: free */
  uint32_t *first = must_alloc(h->n_lines, sizeof *first);
  for (uint32_t i = 0; i < h->n_lines; ++i) {
    const history_line *line = &h->lines[i];
    uint64_t at = hash_text(hash_text(0xcbf29ce484222325u + line->line, line->file), line->function);
    for (at %= room; table[at] && !account_is_same_line(&h->lines[table[at] - 1], line);) at = (at + 1) % room;
    if (!table[at]) table[at] = i + 1;
    first[i] = table[at] - 1;
  }
  free(table);
  return first;
}

void account_lines_make(const history *h, account_lines *out) {
  uint32_t *first = account_first_lines(h), *number = must_alloc(h->n_lines, sizeof *number); /* from 1 */
  *out = (account_lines){0, must_alloc(h->n_sites, sizeof *out->line), must_alloc(h->n_sites, sizeof *out->of_site)};
  for (size_t s = 0; s < h->n_sites; ++s) {
    const uint32_t chosen = chosen_line(h, &h->sites[s]);
    out->of_site[s] = HISTORY_NONE;
    if (chosen == HISTORY_NONE) continue;
    const uint32_t line = first[chosen];
    if (!number[line]) {
      out->line[out->n++] = line;
      number[line] = (uint32_t)out->n;
    }
    out->of_site[s] = number[line] - 1;
  }
  free(first);
  free(number);
}

void account_lines_free(account_lines *lines) {
  free(lines->line);
  free(lines->of_site);
  *lines = (account_lines){0};
}

static uint32_t line_number(const account_lines *lines, uint32_t site) {
  return site == HISTORY_NONE ? HISTORY_NONE : lines->of_site[site];
}

const history_line *account_line_of(const history *h, const account_lines *lines, uint32_t site) {
  const uint32_t n = line_number(lines, site);
  return n == HISTORY_NONE ? NULL : &h->lines[lines->line[n]];
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

static void add_block_to_sum(account_sum *sum, const history *h, uint32_t block) {
  const history_block *b = &h->blocks[block];
  sum->total += b->bytes;
  sum->bytes[b->class] += b->bytes;
  if (!sum->n_blocks++ || b->bytes > h->blocks[sum->largest].bytes) sum->largest = block;
}

static account_sum *new_sums(size_t n) {
  account_sum *sums = must_alloc(n, sizeof *sums);
  for (size_t i = 0; i < n; ++i) sums[i].largest = HISTORY_NONE;
  return sums;
}

typedef struct {
  uint64_t key; /* sorted from the largest */
  uint32_t index;
} ranked;

static int compare_ranked(const void *left, const void *right) {
  const ranked *a = left, *b = right;
  if (a->key != b->key) return a->key > b->key ? -1 : 1;
  return a->index < b->index ? -1 : a->index > b->index;
}

/* The indices of the ranked elements in their order; frees these. */
static uint32_t *sorted(ranked *elements, size_t n) {
  uint32_t *order = must_alloc(n, sizeof *order);
  qsort(elements, n, sizeof *elements, compare_ranked);
  for (size_t i = 0; i < n; ++i) order[i] = elements[i].index;
  free(elements);
  return order;
}

uint32_t *account_order(const account_sum *sum, size_t n) {
  ranked *elements = must_alloc(n, sizeof *elements);
  for (size_t i = 0; i < n; ++i) elements[i] = (ranked){sum[i].total, (uint32_t)i};
  return sorted(elements, n);
}

static bool lives(const history_block *b, uint64_t moment) { return b->born <= moment && moment < b->died; }

static void find_live_blocks(const history *h, uint32_t device, account *a) {
  ranked *elements = must_alloc(h->n_blocks, sizeof *elements);
  for (uint32_t i = 0; i < h->n_blocks; ++i)
    if (curve_counts(h, i, device) && lives(&h->blocks[i], a->point.moment))
      elements[a->n_live++] = (ranked){h->blocks[i].bytes, i};
  a->live = sorted(elements, a->n_live);
}

/* ---- the cache --------------------------------------------------------------------------------------------------- */

typedef struct {
  uint64_t from, to;
  uint32_t segment;
} piece;

static int compare_pieces(const void *left, const void *right) {
  const piece *a = left, *b = right;
  if (a->segment != b->segment) return a->segment < b->segment ? -1 : 1;
  return a->from < b->from ? -1 : a->from > b->from;
}

static void note_gap(account_cache *cache, uint64_t from, uint64_t to) {
  if (from >= to) return;
  cache->bytes += to - from;
  cache->n_gaps++;
  if (to - from > cache->largest_gap) cache->largest_gap = to - from;
}

/* Each segment has a piece without length at its begin, before its tensors. */
static void find_gaps(const history *h, uint32_t device, account *a) {
  piece *pieces = must_alloc(h->n_blocks, sizeof *pieces);
  size_t n = 0;
  for (uint32_t i = 0; i < h->n_blocks; ++i) {
    const history_block *b = &h->blocks[i];
    if (b->device != device || !lives(b, a->point.moment)) continue;
    if (b->is_segment)
      pieces[n++] = (piece){b->address, b->address, i};
    else if (b->segment != HISTORY_NONE)
      pieces[n++] = (piece){b->address, b->address + b->bytes, b->segment};
  }
  qsort(pieces, n, sizeof *pieces, compare_pieces);
  for (size_t i = 0; i < n;) {
    const history_block *segment = &h->blocks[pieces[i].segment];
    uint64_t at = segment->address;
    a->cache.n_segments++;
    for (const uint32_t s = pieces[i].segment; i < n && pieces[i].segment == s; ++i) {
      note_gap(&a->cache, at, pieces[i].from);
      if (pieces[i].to > at) at = pieces[i].to;
    }
    note_gap(&a->cache, at, segment->address + segment->bytes);
  }
  free(pieces);
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

void account_make(const curve *c, const account_lines *lines, uint64_t moment, account *out) {
  const history *h = c->h;
  *out = (account){.point = curve_at(c, moment), .module = new_sums(h->n_modules + 1), .line = new_sums(lines->n + 1)};
  find_live_blocks(h, c->device, out);
  for (size_t i = 0; i < out->n_live; ++i) {
    const history_block *b = &h->blocks[out->live[i]];
    const uint32_t line = line_number(lines, b->site);
    add_block_to_sum(&out->line[line == HISTORY_NONE ? lines->n : line], h, out->live[i]);
    if (b->module == HISTORY_NONE) add_block_to_sum(&out->module[h->n_modules], h, out->live[i]);
    for (uint32_t m = b->module; m != HISTORY_NONE; m = h->modules[m].parent)
      add_block_to_sum(&out->module[m], h, out->live[i]);
  }
  find_gaps(h, c->device, out);
}

void account_free(account *a) {
  free(a->live);
  free(a->module);
  free(a->line);
  *a = (account){0};
}
