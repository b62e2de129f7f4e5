/* SPDX-License-Identifier: Apache-2.0 */
/* Index of the placed pieces, to find the lowest free room at a given time. Used by greedy.c; not thread-safe.
 *
 * There is a level for each power of two. A piece that covers w sections is kept in the level whose slabs cover at
 * least w sections, in the slab that it begins in. So the pieces of a level that overlap a time are in that time's
 * slab or the one before. The entries of a slab are in ascending order of their lower ends. The number of entries
 * each slab can get is counted at the start, so memory is linear. */
#ifndef CANNON_PLAN_SLABS_H
#define CANNON_PLAN_SLABS_H

#include "plan/instance.h"

enum { SLAB_LEVELS = 32 };

typedef struct {
  int64_t low, high; /* lower and upper end, in units */
  int32_t lo, up;    /* range of sections, half-open */
  uint32_t piece;
} slab_entry;

typedef struct {
  uint32_t begin, count; /* entries[begin] to entries[begin + count - 1] */
} slab;

/* The entries of a slab that a search for room has not passed yet. */
typedef struct {
  int64_t low; /* lower end of the next entry; INT64_MAX: there is none */
  const slab_entry *next, *end;
} slab_cursor;

typedef struct {
  const instance *in;
  slab_entry *entries;
  slab *slabs;
  slab_cursor *cursors;
  /* the slabs of level l are slabs[level_first[l]] to slabs[level_first[l + 1] - 1] */
  uint32_t level_first[SLAB_LEVELS + 1];
  uint32_t level_count[SLAB_LEVELS]; /* number of entries in the level */
  int n_levels;
  int32_t lo; /* first section of the part */
} slabs;

void slabs_layout(slabs *s, arena *a, size_t n_pieces, size_t n_sections);

/* Empties the index and lays it out for the items of a part. */
void slabs_open(slabs *s, const instance *in, const part *q);

/* Returns the lowest base, in units, at which the item overlaps no entry during its life. */
int64_t slabs_find(slabs *s, uint32_t i);

/* Adds an item that is placed at `base`. */
void slabs_add(slabs *s, uint32_t i, int64_t base);

#endif
