/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of an elementwise function over all elements of its operands, e.g. of a loss. The function's values are not
 * stored: one block at a time is loaded into L1, mapped and added. Called by kernels (losses, gradients of weights).
 *
 * The shape alone fixes the order of additions, so strides and the number of threads change no bit, and no workspace is
 * needed: blocks of REDUCE_BLOCK elements in logical (row-major) order are summed in the compute type by lanes and a
 * tree (loops->sum_*); the sums of the blocks of a chunk are added in order, in double (integers in int64_t, which
 * wraps); so are the sums of the chunks. A chunk has at least 64 blocks, and there are at most MAPPED_CHUNKS chunks.
 *
 * A mapped_sum is plain data without pointers to its operands. Running it does not change it, so threads may share
 * it. */
#ifndef CANNON_KERNEL_ENGINE_MAPPED_SUM_H
#define CANNON_KERNEL_ENGINE_MAPPED_SUM_H

#include "kernel/engine/loops.h"
#include "kernel/engine/walk.h"

enum { MAPPED_INPUTS = 4, MAPPED_CHUNKS = 256 };

typedef struct {
  walk at;
  load_loop *load[MAPPED_INPUTS];
  bool direct[MAPPED_INPUTS]; /* rows are contiguous and stored in the compute type */
  int16_t function;
  uint8_t compute; /* COMPUTE_F32, COMPUTE_F64 or COMPUTE_I64 */
  uint8_t size;    /* bytes of a value of the compute type */
  uint8_t n_inputs;
  int64_t chunk; /* elements */
  compute_value parameter[ELEMENTWISE_PARAMETERS];
} mapped_sum;

/* The compute type for a sum of values of this dtype, which is stored as `out`: at least as precise as both. */
compute_type mapped_sum_compute(int dtype, int out);

/* Plans the sum over the operands broadcast to dims. The caller has checked that they broadcast, and sets
 * p->parameter. */
void mapped_sum_init(mapped_sum *p, int function, compute_type compute, const int64_t *dims, int rank,
                     const view *const *in, int n_inputs);

/* Computes the sum; at[k] is the address of operand k. Runs in a team of threads if cost_ns is worth one (0: never). */
double mapped_sum_run(const mapped_sum *p, void *const *at, uint64_t cost_ns);
int64_t mapped_sum_run_i64(const mapped_sum *p, void *const *at, uint64_t cost_ns); /* only for COMPUTE_I64 */

#endif
