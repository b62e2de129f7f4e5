/* A plan as an allocator makes it that sees the items as time goes by: each gets the smallest free range that is long enough
 * (a good fit: two-level segregated lists), and neighbours that are free are joined. n log n to sort, then constant time per
 * item; for problems of which a greedy pass is too slow. */
#ifndef CANNON_PLAN_SWEEP_H
#define CANNON_PLAN_SWEEP_H

#include "plan/instance.h"

/* A range of the arena, used or free: addresses are doubly linked lists, and so are the free ones of a class. */
typedef struct {
  int64_t base, size;
  uint32_t before, after;            /* by address */
  uint32_t free_before, free_behind; /* in its class's list */
  bool is_free;
} sweep_range;

enum { SWEEP_STEPS = 16, SWEEP_CLASSES = 64 * SWEEP_STEPS };

typedef struct {
  keyed *born, *dead, *spare;
  sweep_range *ranges;              /* an item's has its number among those of the part; others follow, 0 is none */
  uint32_t *spent, n_spent, n_used; /* ranges that are none now */
  uint32_t first[SWEEP_CLASSES];
  uint64_t classes[SWEEP_CLASSES / 64]; /* with ranges in them */
} sweep;

void sweep_layout(sweep *w, arena *a, const cannon_plan_problem *problem);

/* Fills base, by item, for the part's. The peak in bytes; UINT64_MAX, and nothing of use, where an item has a fixed
 * place or sizes add up to the most there can be. */
uint64_t sweep_part(sweep *w, const instance *in, const part *q, int64_t *base);

#endif
