/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions over any dimensions of a view, by kind. Called by the reduction operators and by other families (norms,
 * pooling).
 *
 * The shape alone fixes the order of operations, so strides, offsets and the number of threads change no bit: the
 * elements of an output, in logical (row-major) order, form blocks of FOLD_BLOCK, each of which is reduced by a loop of
 * fold.h; 64 blocks form a chunk, in which the blocks' results are merged in order; then the chunks' results are merged
 * in order. Merging is done in double, for moments by Chan's formula.
 *
 * The functions are called while an operator is planned; they are thread-safe, since they change only the executor of
 * the call. */
#ifndef CANNON_KERNEL_REDUCE_REDUCTION_H
#define CANNON_KERNEL_REDUCE_REDUCTION_H

#include "kernel/engine/walk.h"
#include "op/executor.h"

typedef enum {
  REDUCTION_SUM,
  REDUCTION_MEAN,
  REDUCTION_SUM_NOT_NAN,
  REDUCTION_LOG_SUM,
  REDUCTION_PRODUCT,
  REDUCTION_MAX,
  REDUCTION_MIN,
  REDUCTION_MIN_MAX, /* two outputs */
  REDUCTION_ARG_MAX, /* two outputs: the value (may be absent) and its index */
  REDUCTION_ARG_MIN,
  REDUCTION_ANY,
  REDUCTION_ALL,
  REDUCTION_NORM_0, /* the number of nonzero elements */
  REDUCTION_NORM_1,
  REDUCTION_NORM_2,
  REDUCTION_NORM_P,
  REDUCTION_SUM_SQUARE,
  REDUCTION_SUM_POWER, /* the sum of |x| ^ parameter */
  REDUCTION_MAX_ABS,
  REDUCTION_MIN_ABS,
  REDUCTION_VARIANCE, /* two outputs: the variance and the mean (may be absent) */
  REDUCTION_STANDARD,
  REDUCTION_LOG_SUM_EXP,
  N_REDUCTIONS
} reduction_kind;

enum { REDUCTION_OUTPUTS = 2 };

typedef struct {
  reduction_kind kind;
  double parameter; /* exponent of the norm or power, or correction of the variance */
  const view *in;
  const bool *is_reduced; /* for each dimension of in */
  bool keep;              /* the outputs have the reduced dimensions, with size 1 */
  bool of_integers;       /* the result is an integer, whatever dtype it is stored in */
  const view *out[REDUCTION_OUTPUTS];
  uint8_t operand[1 + REDUCTION_OUTPUTS]; /* indices of the input and the outputs among the call's tensors */
} reduction_request;

/* Plans a reduction, whose dtypes and shapes have been checked, as the whole work of the executor. Complex inputs are
 * possible for REDUCTION_SUM and REDUCTION_MEAN, with a complex out[0]; real inputs may have a complex out[0] with any
 * kind of one output. */
void reduction_plan(executor *e, const reduction_request *r);

/* As reduction_plan, for products of complex numbers (complex_product.c). */
void complex_product_plan(executor *e, const reduction_request *r);

/* The reduced dimensions of the input: those of the elements of one output. */
typedef struct {
  int rank; /* at least 1, after merging */
  int64_t n, dims[MAX_RANK], strides[MAX_RANK];
} reduced_dims;

/* Sets a cursor to element number `element` of the output whose first element is at `from`. */
static inline void reduced_start(const reduced_dims *d, cursor *c, void *from, int64_t element) {
  cursor_init(c, d->dims, d->strides, MAX_RANK, d->rank, 1);
  cursor_seek(c, &from, element);
}

/* Sets the walks of a request: *outputs over the kept dimensions of the input and of the outputs that are wanted, whose
 * operand indices are stored in operand[]; *reduced: the reduced dimensions. */
void reduction_walks(const reduction_request *r, walk *outputs, reduced_dims *reduced, uint8_t *operand);

/* Whether the reduction has a result for an empty input. */
bool reduction_takes_nothing(reduction_kind kind);

#endif
