/* SPDX-License-Identifier: Apache-2.0 */
/* The roofline model: a lower bound of the time that an operator takes on a device, from the device's profile.
 *
 * Data passes several tiers of a device's memory before it is computed on, each with a bandwidth of its own. Transfers
 * in all tiers and the computation overlap, so the time is the latency of the farthest tier plus the time of the
 * slowest one:
 *
 *   host link   operands in pinned, registered or managed host memory
 *   HBM or DDR  operands that are not in L2
 *   L2          all operands
 *   UB          all operands of vector operators, which compute one operation for each element of the largest operand
 *   L1, L0      factors of matrix products, for the cube units: a block of results that fills L0C reads the rows of
 *               each factor once from L1, and a tile of 16 x 16 results reads them from L0
 *
 * The model is for comparing plans and for finding what bounds them, not for predicting times (devices/README.md). Pure
 * functions, called by op/account.c and the command-line tool. */
#ifndef CANNON_RUNTIME_DRY_ROOFLINE_H
#define CANNON_RUNTIME_DRY_ROOFLINE_H

#include "runtime/dry/profile.h"
#include "trace/stats.h"

typedef struct {
  uint64_t host_bytes, memory_bytes, l2_bytes; /* read and written: in host memory, in HBM or DDR, in L2 */
  uint64_t multiply_adds;                      /* of the cube units; 0: a vector operator */
  uint64_t elements, element_bytes;            /* elements of the largest operand; size of an element, 1 or more */
} roofline_work;

typedef struct {
  uint64_t ns;       /* latency plus the time of the slowest tier */
  stats_bound bound; /* the larger one of the two */
  uint64_t tier_ns[STATS_N_BOUNDS];
} roofline_time;

roofline_time roofline_of(const device_profile *p, const roofline_work *w);

/* Counts a multiply-add as two operations; a vector operator has one for each element. */
static inline uint64_t roofline_operations(const roofline_work *w) {
  return w->multiply_adds ? 2 * w->multiply_adds : w->elements;
}

#endif
