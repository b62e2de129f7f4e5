/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that rearrange a weight to the format that an NPU's matrix unit reads best: TransMatmulWeight,
 * TransConvolutionWeight and NpuFormatCast. Our GEMM reads weights in place, so its private format is the plain one:
 * the first does nothing, the others copy. */
#include "kernel/families.h"
#include "kernel/move/check.h"

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

static status prepare_plain_copy(executor *e, int to_operand, const tensor *to, int from_operand, const tensor *from) {
  const view v = view_of(to), w = view_of(from);
  move_prepare_copy(e, to_operand, &v, from_operand, &w);
  return ST_OK;
}

/* Converts to FLOAT16. */
status prepare_trans_convolution_weight(executor *e, const trans_convolution_weight_args *a) {
  TRY(op_expect_dtype(a->weight_in, "weightIn", DTYPE_BIT(ACL_FLOAT) | DTYPE_BIT(ACL_FLOAT16)));
  TRY(op_expect_dtype(a->weight_out, "weightOut", DTYPE_BIT(ACL_FLOAT16)));
  TRY(op_expect_rank(a->weight_in, "weightIn", 4, 4));
  EXPECT(!a->transposed, "transposed is true, expected %s", "false");
  EXPECT(a->groups >= 1 && a->groups <= 65535, "groups is %jd, expected 1 to 65535", (intmax_t)a->groups);
  TRY(op_expect_same_shape(a->weight_out, "weightOut", a->weight_in));
  return prepare_plain_copy(e, TRANS_CONVOLUTION_WEIGHT_WEIGHT_OUT, a->weight_out, TRANS_CONVOLUTION_WEIGHT_WEIGHT_IN,
                            a->weight_in);
}

status prepare_format_cast(executor *e, const format_cast_args *a) {
  TRY(move_expect_same_dtype(a->src_tensor, "srcTensor", a->dst_tensor, "dstTensor"));
  TRY(op_expect_same_shape(a->dst_tensor, "dstTensor", a->src_tensor));
  return prepare_plain_copy(e, FORMAT_CAST_DST_TENSOR, a->dst_tensor, FORMAT_CAST_SRC_TENSOR, a->src_tensor);
}
