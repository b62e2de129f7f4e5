/* SPDX-License-Identifier: Apache-2.0 */
/* A plan made the way an online allocator makes it, visiting the items in order of time: each item gets a free range
 * that is long enough, by two-level segregated fit, and free neighbours are merged. Sorting takes O(n log n), each
 * item constant time after that; this is for problems too large for a greedy pass. Called by plan.c; not
 * thread-safe. */
#ifndef CANNON_PLAN_SWEEP_H
#define CANNON_PLAN_SWEEP_H

#include "plan/instance.h"

/* A range of the arena, used or free. Ranges form a doubly linked list by address, and free ranges also one for each
 * size class. 0 as an index means none. */
typedef struct {
  int64_t base, size;
  uint32_t before, after;            /* neighbours by address */
  uint32_t free_before, free_behind; /* neighbours in the list of its size class */
  bool is_free;
} sweep_range;

enum { SWEEP_STEPS = 16, SWEEP_CLASSES = 64 * SWEEP_STEPS };

typedef struct {
  keyed *born, *dead, *spare;
  /* index of an item's range: its number within the part + 1; free ranges have other indices */
  sweep_range *ranges;
  uint32_t *spent, n_spent, n_used; /* indices that are free for reuse */
  uint32_t first[SWEEP_CLASSES];
  uint64_t classes[SWEEP_CLASSES / 64]; /* bits: size classes with a non-empty list */
} sweep;

void sweep_layout(sweep *w, arena *a, const cannon_plan_problem *problem);

/* Fills `base`, by item, for the items of the part. Returns the peak in bytes, or UINT64_MAX, with unusable bases,
 * if an item is fixed or no range is long enough. */
uint64_t sweep_part(sweep *w, const instance *in, const part *q, int64_t *base);

#endif
