/* How losses are reduced: CANN's codes, and the checks that all of them make. */
#ifndef CANNON_KERNEL_LOSS_LOSS_REDUCTION_H
#define CANNON_KERNEL_LOSS_LOSS_REDUCTION_H

#include "op/op.h"

typedef enum { REDUCTION_NONE, REDUCTION_MEAN, REDUCTION_SUM, REDUCTION_BATCH_MEAN } reduction_code;

/* One of the codes up to `last`. */
static inline status expect_reduction(int64_t reduction, reduction_code last) {
  EXPECT(reduction >= REDUCTION_NONE && reduction <= (int64_t)last, "reduction is %jd, expected 0 (none), 1 (mean)%s",
         (intmax_t)reduction, last == REDUCTION_BATCH_MEAN ? ", 2 (sum) or 3 (mean over the batch)" : " or 2 (sum)");
  return ST_OK;
}

/* A float tensor of one element, of any rank. */
static inline status expect_one(const tensor *t, const char *name) {
  TRY(op_expect_dtype(t, name, DTYPES_FLOAT));
  return t->n == 1 ? ST_OK : op_expect_shape(t, name, NULL, 0);
}

#endif
