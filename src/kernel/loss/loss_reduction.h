/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions of losses: CANN's codes, and checks that all losses make. Used while operators are prepared. */
#ifndef CANNON_KERNEL_LOSS_LOSS_REDUCTION_H
#define CANNON_KERNEL_LOSS_LOSS_REDUCTION_H

#include "op/op.h"

typedef enum { REDUCTION_NONE, REDUCTION_MEAN, REDUCTION_SUM, REDUCTION_BATCH_MEAN } reduction_code;

/* Checks that the reduction is one of the codes up to `last`. */
static inline status loss_expect_reduction(int64_t reduction, reduction_code last) {
  EXPECT(reduction >= REDUCTION_NONE && reduction <= (int64_t)last, "reduction is %jd, expected 0 (none), 1 (mean)%s",
         (intmax_t)reduction, last == REDUCTION_BATCH_MEAN ? ", 2 (sum) or 3 (mean over the batch)" : " or 2 (sum)");
  return ST_OK;
}

/* Checks that t is a float tensor with one element; its rank may be any. */
static inline status loss_expect_one(const tensor *t, const char *name) {
  TRY(op_expect_dtype(t, name, DTYPES_FLOAT));
  return t->n == 1 ? ST_OK : op_expect_shape(t, name, NULL, 0);
}

/* Sets *reduction to the code of "none", "mean", "sum" or "batchmean", as operators that are called by name have it. */
status loss_reduction_of(const char *words, int64_t *reduction);

#endif
