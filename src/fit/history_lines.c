/* SPDX-License-Identifier: Apache-2.0 */
/* Programs in C and C++ often allocate in one function of their own, whose line would then stand for all blocks. Such a
 * wrapper is recognised by the stacks: nearly all allocations go through it, and it is called from more lines than it
 * allocates in. Their own line becomes the caller's. Wrappers may lie on top of each other, and several on one: those
 * above the first are of its source file, and call it from a single line. */
#include <stdlib.h>
#include <string.h>

#include "fit/history_build.h"

enum { FEWEST_SITES = 3, MOST_LEVELS = 8 };

/* An allocation's own line and the next one around it. */
typedef struct {
  uint32_t site, line, caller; /* indices into sites and lines; caller: or HISTORY_NONE */
} own_place;

/* The texts of equal lines are the same ones: they were found in debug information. */
static int compare_text(const char *a, const char *b) { return a == b ? 0 : strcmp(a, b); }

static int compare_function(const history_line *a, const history_line *b) {
  const int by_file = compare_text(a->file, b->file);
  return by_file ? by_file : compare_text(a->function, b->function);
}

static int compare_line(const history_line *a, const history_line *b) {
  const int by_function = compare_function(a, b);
  return by_function ? by_function : a->line < b->line ? -1 : a->line > b->line;
}

/* Comparisons for qsort_r; lines: the history's. */
typedef int compare_places(const void *left, const void *right, void *lines);

static int by_own_line(const void *left, const void *right, void *lines) {
  const own_place *a = left, *b = right;
  const history_line *l = lines;
  return compare_line(&l[a->line], &l[b->line]);
}

static int by_caller(const void *left, const void *right, void *lines) {
  const own_place *a = left, *b = right;
  const history_line *l = lines;
  if (a->caller == HISTORY_NONE || b->caller == HISTORY_NONE)
    return (a->caller != HISTORY_NONE) - (b->caller != HISTORY_NONE);
  return compare_line(&l[a->caller], &l[b->caller]);
}

/* The next line around the own one that may be an own line; lines of C only. */
static uint32_t caller_of(const history *h, const history_site *s) {
  for (uint32_t i = s->own + 1; i < s->first + s->n; ++i)
    if (!history_is_installed(h->lines[i].file)) return i;
  return HISTORY_NONE;
}

/* The sites in C that allocate; their number. */
static size_t list_places(const history_build *b, own_place *out) {
  const history *h = b->h;
  size_t n = 0;
  bool *seen = calloc(h->n_sites + 1, sizeof *seen);
  for (size_t i = 0; seen && i < h->n_blocks; ++i) {
    const uint32_t site = h->blocks[i].site;
    if (site == HISTORY_NONE || seen[site] || b->is_python[site] || h->sites[site].own == HISTORY_NONE) continue;
    seen[site] = true;
    if (*h->lines[h->sites[site].own].function) out[n++] = (own_place){.site = site};
  }
  free(seen);
  return n;
}

static size_t count_distinct(const history *h, own_place *p, size_t n, compare_places *compare) {
  size_t distinct = n != 0;
  qsort_r(p, n, sizeof *p, compare, h->lines);
  for (size_t i = 1; i < n; ++i) distinct += compare(&p[i - 1], &p[i], h->lines) != 0;
  return distinct;
}

/* Whether the function of these n of all places is a wrapper. below: the file of the first one, NULL before that. */
static bool is_wrapper(const history *h, own_place *p, size_t n, size_t n_all, const char *below) {
  const char *file = h->lines[p->line].file;
  for (size_t i = 0; i < n; ++i)
    if (p[i].caller == HISTORY_NONE) return false;
  const size_t n_lines = count_distinct(h, p, n, by_own_line), n_callers = count_distinct(h, p, n, by_caller);
  if (n_callers <= n_lines) return false;
  return 4 * n >= 3 * n_all || (below && n_lines == 1 && compare_text(below, file) == 0);
}

/* Moves the own lines of one level of wrappers to their callers; false if there are none. */
static bool skip_level(history *h, own_place *p, size_t n, const char **below) {
  const char *found = NULL;
  for (size_t i = 0; i < n; ++i) {
    p[i].line = h->sites[p[i].site].own;
    p[i].caller = caller_of(h, &h->sites[p[i].site]);
  }
  qsort_r(p, n, sizeof *p, by_own_line, h->lines);
  for (size_t i = 0, end; i < n; i = end) {
    for (end = i + 1; end < n && compare_function(&h->lines[p[i].line], &h->lines[p[end].line]) == 0;) ++end;
    if (!is_wrapper(h, p + i, end - i, n, *below)) continue;
    found = h->lines[p[i].line].file;
    for (size_t k = i; k < end; ++k) h->sites[p[k].site].own = p[k].caller;
  }
  if (!*below) *below = found;
  return found;
}

void history_skip_wrappers(history_build *b) {
  history *h = b->h;
  own_place *p = malloc((h->n_sites + 1) * sizeof *p);
  const char *below = NULL;
  b->no_memory |= !p;
  const size_t n = p ? list_places(b, p) : 0;
  for (int level = 0; n >= FEWEST_SITES && level < MOST_LEVELS && skip_level(h, p, n, &below); ++level) {
  }
  free(p);
}
