/* SPDX-License-Identifier: Apache-2.0 */
/* aclnnTransMatmulWeight rearranges a weight to the format that an NPU's matrix unit reads best. Our GEMM reads weights
 * in place, so its private format is the plain one and the operator does nothing. */
#include "kernel/families.h"

static status trans_weight_run(const executor *e, void *const *view, void *scratch) {
  (void)e, (void)view, (void)scratch;
  return ST_OK;
}

status prepare_trans_weight(executor *e, const trans_weight_args *a) {
  const tensor *t = a->mm_weight;
  TRY(op_expect_dtype(t, "mmWeightRef", DTYPES_FLOAT | DTYPE_BIT(ACL_INT8)));
  TRY(op_expect_rank(t, "mmWeightRef", 2, 6));
  executor_cost(e, 0, 0);
  e->run = trans_weight_run;
  return ST_OK;
}
