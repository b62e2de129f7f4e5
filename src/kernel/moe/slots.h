/* SPDX-License-Identifier: Apache-2.0 */
/* Slots of a mixture of experts: a slot is a pair (token, choice), numbered row by row. They are sorted stably by their
 * experts. Called by permute.c and init_routing_v2.c; a slot_sort is not changed by runs. */
#ifndef CANNON_KERNEL_MOE_SLOTS_H
#define CANNON_KERNEL_MOE_SLOTS_H

#include "kernel/engine/loops.h"
#include "op/executor.h"

typedef struct {
  view experts;
  int64_t n; /* number of slots */
  uint8_t compute;
  load_loop *load;
  uint64_t keys, entries, spare, order; /* in scratch; order: int32, the slot number at each sorted position */
} slot_sort;

/* Plans sorting of the slots whose experts are a tensor [n] or [n, choices], and asks for workspace. */
void slots_plan(executor *e, slot_sort *s, const tensor *experts);

/* Sorts the slots, of which there may be none, and returns their order. The sorted expert numbers, in the compute type,
 * are left in `keys`. */
const int32_t *slots_sort(const slot_sort *s, const char *experts, char *scratch);

#endif
