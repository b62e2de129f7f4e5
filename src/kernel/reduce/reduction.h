/* Reductions over any dimensions of a view, by kind.
 *
 * What an output element is made of is fixed by the shape alone: the elements that are reduced, in logical (row-major)
 * order, make blocks of FOLD_BLOCK; a block is folded (fold.h); 64 blocks make a chunk, whose result is that of its
 * blocks, merged in order; the chunks' results are merged in order again. Blocks are merged in double, moments by
 * Chan's formula. So strides, offsets and threads change no bit. */
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
  REDUCTION_ARG_MAX, /* two outputs: the value (may be absent) and its place */
  REDUCTION_ARG_MIN,
  REDUCTION_ANY,
  REDUCTION_ALL,
  REDUCTION_NORM_0, /* the number of elements that are not 0 */
  REDUCTION_NORM_1,
  REDUCTION_NORM_2,
  REDUCTION_NORM_P,
  REDUCTION_SUM_SQUARE,
  REDUCTION_SUM_POWER, /* of absolute values */
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
  double parameter; /* the norm's or power's exponent, the variance's correction */
  const view *in;
  const bool *is_reduced; /* per dimension of in */
  bool keep;              /* the outputs have reduced dimensions, of 1 */
  bool of_integers;       /* the result is an integer, whatever it is stored as */
  const view *out[REDUCTION_OUTPUTS];
  uint8_t operand[1 + REDUCTION_OUTPUTS]; /* which of the call's tensors are the input and the outputs */
} reduction_request;

/* Plans a reduction whose dtypes and shapes have been checked, as all that the executor does. Complex numbers are summed
 * (REDUCTION_SUM, REDUCTION_MEAN), and go where out[0] is complex; real ones may go there by any kind of one output. */
void reduction_plan(executor *e, const reduction_request *r);

/* The same for the product of complex numbers (complex_product.c). */
void complex_product_plan(executor *e, const reduction_request *r);

/* The dimensions of the input that make one output: a walk of one operand, small enough for plans. */
typedef struct {
  int rank;
  int64_t n, dims[MAX_RANK], strides[MAX_RANK];
} reduced_dims;

walk reduced_walk(const reduced_dims *d);

/* What a request walks: the dimensions that are kept, of the input and then of the outputs that are wanted, whose operands
 * are in operand[]; and the reduced ones. */
void reduction_walks(const reduction_request *r, walk *outputs, reduced_dims *reduced, uint8_t *operand);

/* The reduction has a result for no elements. */
bool reduction_takes_nothing(reduction_kind kind);

#endif
