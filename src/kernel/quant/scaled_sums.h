/* SPDX-License-Identifier: Apache-2.0 */
/* The last step of quantised GEMMs: out = (sums + before) * scale * row scale + after, for the int32 sums of products
 * of int8. It is computed in double and rounded once (sums.h). Called by quant_matmul.c and grouped_matmul.c. */
#ifndef CANNON_KERNEL_QUANT_SCALED_SUMS_H
#define CANNON_KERNEL_QUANT_SCALED_SUMS_H

#include "kernel/product/product.h"
#include "kernel/quant/sums.h"

/* A vector along columns, or one number, of a floating-point type, int32, or words of quant_param.h. */
typedef struct {
  int8_t dtype; /* COLUMN_VALUES_ABSENT: not passed */
  int64_t step; /* stride in bytes; 0: one for all */
} column_values;

enum { COLUMN_VALUES_ABSENT = -1 };

/* Converts n column values to doubles; of words the scale, or the offset if `offsets`. Returns `to`, or NULL if they
 * are absent. */
const double *column_values_load(const column_values *c, const char *from, bool offsets, double *to, int64_t n);

/* The context of a product_call whose plan has scaled_sums_finish. In results of int8, `after` is an offset, and they
 * are rounded to integers. Results of int32 are the sums with `before`. */
typedef struct {
  column_scales columns;
  int64_t rows;   /* of one matrix of the batch */
  int64_t biases; /* more than 1: `before`, or `after` where that is no offset, has this many vectors, one for each
                            matrix of the batch */
  const char *row_scale;        /* floats; or NULL */
  int64_t row_scale_step;       /* in bytes */
  elementwise_loop *activation; /* applied at the end, to results of floats; NULL: none */
  compute_value activation_parameter;
} scaled_sums;

product_finisher scaled_sums_finish;

#endif
