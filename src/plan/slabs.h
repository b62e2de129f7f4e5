/* What is placed already, for finding the lowest room at a time: rectangles by time, each time's by address.
 *
 * A rectangle of w sections is kept in the level of slabs of at least w sections (powers of two), in the slab that it
 * begins in; so those of a level that meet some time are in the slabs of that time and the one before. A slab's are
 * ascending by their lower end. How many each slab can get is known from the start, so memory is linear. */
#ifndef CANNON_PLAN_SLABS_H
#define CANNON_PLAN_SLABS_H

#include "plan/instance.h"

enum { SLAB_LEVELS = 32 };

typedef struct {
  int64_t low, high; /* addresses, in units */
  int32_t lo, up;    /* sections */
  uint32_t piece;
} slab_entry;

typedef struct {
  uint32_t begin, count; /* entries */
} slab;

/* A slab's entries that a search for room has not passed yet. */
typedef struct {
  int64_t low; /* of the next; INT64_MAX: none */
  const slab_entry *next, *end;
} slab_cursor;

typedef struct {
  const instance *in;
  slab_entry *entries;
  slab *slabs;
  slab_cursor *cursors;
  uint32_t
      level_first[SLAB_LEVELS + 1];  /* a level's slabs are slabs[level_first[l]] to slabs[level_first[l + 1] - 1] */
  uint32_t level_count[SLAB_LEVELS]; /* entries there */
  int n_levels;
  int32_t lo; /* section that the slabs begin with */
} slabs;

void slabs_layout(slabs *s, arena *a, size_t n_pieces, size_t n_sections);

/* Empties it, for the items of a part. */
void slabs_open(slabs *s, const instance *in, const part *q);

/* The lowest base that is free for an item during its life. */
int64_t slabs_find(slabs *s, uint32_t i);
void slabs_add(slabs *s, uint32_t i, int64_t base);

#endif
