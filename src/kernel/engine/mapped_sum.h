/* The sum of an elementwise function over all elements of its operands, without the function's values being stored: a
 * block at a time is brought into L1, mapped and added up.
 *
 * What is added to what is fixed by the shape alone: blocks of REDUCE_BLOCK in logical (row-major) order, summed in the
 * compute type by lanes and a tree (loops->sum_*); chunks of 64 blocks or more, at most MAPPED_CHUNKS of them, whose
 * blocks are added in double (of integers as such, where they wrap), in order; and so the chunks. No bit depends on
 * strides or threads, and no workspace is needed. */
#ifndef CANNON_KERNEL_ENGINE_MAPPED_SUM_H
#define CANNON_KERNEL_ENGINE_MAPPED_SUM_H

#include "kernel/engine/loops.h"
#include "kernel/engine/walk.h"

enum { MAPPED_INPUTS = 4, MAPPED_CHUNKS = 256 };

typedef struct {
  walk at;
  load_loop *load[MAPPED_INPUTS];
  bool direct[MAPPED_INPUTS]; /* contiguous along rows, in the compute type */
  int16_t function;
  uint8_t compute; /* one of COMPUTE_F32, F64, I64 */
  uint8_t size;    /* of a value of that */
  uint8_t n_inputs;
  int64_t chunk; /* elements */
  compute_value parameter[ELEMENTWISE_PARAMETERS];
} mapped_sum;

/* Of the operands broadcast to dims; the caller has checked that they can be, and sets the parameters. */
void mapped_sum_init(mapped_sum *p, int function, compute_type compute, const int64_t *dims, int rank,
                     const view *const *in, int n_inputs);

/* at: the operands' addresses. */
double mapped_sum_run(const mapped_sum *p, void *const *at, uint64_t cost_ns);
int64_t mapped_sum_run_i64(const mapped_sum *p, void *const *at, uint64_t cost_ns); /* of COMPUTE_I64 */

#endif
