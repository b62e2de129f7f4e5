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
  char text[SHAPE_TEXT];
  TRY(op_expect_dtype(t, "mmWeightRef", DTYPES_FLOAT | DTYPE_BIT(ACL_INT8)));
  EXPECT(t->rank >= 2 && t->rank <= 6, "mmWeightRef has shape %s, expected 2 to 6 dimensions",
         shape_text(t->dims, t->rank, text));
  executor_cost(e, 0, 0);
  e->run = trans_weight_run;
  return ST_OK;
}
