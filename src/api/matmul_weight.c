/* SPDX-License-Identifier: Apache-2.0 */
/* The entry point that says how many elements a weight needs when TransMatmulWeight lays it out: as many as it has
 * (trans_weight.c). */
#include "aclnnop/aclnn_trans_matmul_weight.h"
#include "api/api.h"
#include "op/op.h"

static status weight_size(const aclIntArray *shape, uint64_t *size) {
  if (!shape) return fail(ST_OP_NULL, "tensorShape is NULL, expected an array");
  if (!size) return fail(ST_OP_NULL, "weightTensorSize is NULL, expected a pointer");
  EXPECT(shape->magic == MAGIC_INT_ARRAY, "tensorShape is no object of its type (destroyed?)");
  EXPECT(shape->size >= 2 && shape->size <= 6, "tensorShape has %ju dimensions, expected 2 to 6",
         (uintmax_t)shape->size);
  uint64_t n = 1;
  for (uint64_t d = 0; d < shape->size; ++d) {
    EXPECT(shape->value[d] > 0, "tensorShape[%ju] is %jd, expected 1 or more", (uintmax_t)d, (intmax_t)shape->value[d]);
    EXPECT(!__builtin_mul_overflow(n, (uint64_t)shape->value[d], &n), "tensorShape has more than 2^64 elements");
  }
  *size = n;
  return ST_OK;
}

aclnnStatus aclnnCalculateMatmulWeightSize(const aclIntArray *tensorShape, uint64_t *weightTensorSize) {
  API(weight_size(tensorShape, weightTensorSize));
}

aclnnStatus aclnnCalculateMatmulWeightSizeV2(const aclIntArray *tensorShape, aclDataType dataType,
                                             uint64_t *weightTensorSize) {
  API_ENTER();
  (void)dataType; /* the result counts elements, not bytes */
  API_RETURN(weight_size(tensorShape, weightTensorSize));
}
