/* The roofline: what a piece of work takes at least on a device, from its profile.
 *
 * Data passes the tiers of a device's memory on its way to where it is computed on, each with a bandwidth of its own;
 * all of them and the computing overlap, so that the slowest bounds the work, after the latency of the farthest tier:
 *
 *   host link   operands in pinned, registered or managed host memory
 *   HBM or DDR  operands that L2 does not hold
 *   L2          all operands
 *   UB          all operands, where vector units compute: one operation for each element of the largest operand
 *   L1, L0      factors of products, for the cube units: a block of results that fills L0C reads each factor's rows
 *               once from L1, a tile of 16 x 16 results from L0
 *
 * A model: for comparing plans and finding what bounds them, not for predicting time (devices/README.md). */
#ifndef CANNON_RUNTIME_ROOFLINE_H
#define CANNON_RUNTIME_ROOFLINE_H

#include "runtime/profile.h"
#include "trace/stats.h"

typedef struct {
  uint64_t host_bytes, memory_bytes, l2_bytes; /* read and written, by where they live: on the host, beyond L2, in L2 */
  uint64_t multiply_adds;                      /* of the cube units; 0: the vector units compute */
  uint64_t elements, element_bytes;            /* of the largest operand; of one element of an operand, 1 or more */
} roofline_work;

typedef struct {
  uint64_t ns;       /* latency and the slowest tier */
  stats_bound bound; /* what most of it is */
  uint64_t tier_ns[STATS_N_BOUNDS];
} roofline_time;

roofline_time roofline_of(const device_profile *p, const roofline_work *w);

/* Two for each multiply-add, else one for each element. */
static inline uint64_t roofline_operations(const roofline_work *w) {
  return w->multiply_adds ? 2 * w->multiply_adds : w->elements;
}

#endif
