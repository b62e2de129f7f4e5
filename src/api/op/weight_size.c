/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points that say how many elements, and which shape, a weight has in the private format: those that it has
 * (trans_weight.c). */
#include <stdlib.h>
#include <string.h>

#include "aclnnop/aclnn_npu_format_cast.h"
#include "aclnnop/aclnn_trans_convolution_weight.h"
#include "aclnnop/aclnn_trans_matmul_weight.h"
#include "api/api.h"
#include "op/op.h"

static status weight_size(const aclIntArray *shape, uint64_t least, uint64_t most, uint64_t *size) {
  if (!shape) return fail(ST_OP_NULL, "tensorShape is NULL, expected an array");
  if (!size) return fail(ST_OP_NULL, "weightTensorSize is NULL, expected a pointer");
  EXPECT(shape->magic == MAGIC_INT_ARRAY, "tensorShape is no object of its type (destroyed?)");
  EXPECT(shape->size >= least && shape->size <= most, "tensorShape has %ju dimensions, expected %ju to %ju",
         (uintmax_t)shape->size, (uintmax_t)least, (uintmax_t)most);
  uint64_t n = 1;
  for (uint64_t d = 0; d < shape->size; ++d) {
    EXPECT(shape->value[d] > 0, "tensorShape[%ju] is %jd, expected 1 or more", (uintmax_t)d, (intmax_t)shape->value[d]);
    EXPECT(!__builtin_mul_overflow(n, (uint64_t)shape->value[d], &n), "tensorShape has more than 2^64 elements");
  }
  *size = n;
  return ST_OK;
}

aclnnStatus aclnnCalculateMatmulWeightSize(const aclIntArray *tensorShape, uint64_t *weightTensorSize) {
  API(weight_size(tensorShape, 2, 6, weightTensorSize));
}

aclnnStatus aclnnCalculateMatmulWeightSizeV2(const aclIntArray *tensorShape, aclDataType dataType,
                                             uint64_t *weightTensorSize) {
  API_ENTER();
  (void)dataType; /* the result counts elements, not bytes */
  API_RETURN(weight_size(tensorShape, 2, 6, weightTensorSize));
}

static status convolution_weight_size(const aclIntArray *shape, bool transposed, int64_t groups, aclDataType dtype,
                                      uint64_t *size) {
  EXPECT(!transposed, "transposed is true, expected %s", "false");
  EXPECT(groups >= 1 && groups <= 65535, "groups is %jd, expected 1 to 65535", (intmax_t)groups);
  EXPECT(dtype == ACL_FLOAT16, "dataType is %s, expected FLOAT16", dtype_name(dtype));
  return weight_size(shape, 4, 4, size);
}

aclnnStatus aclnnCalculateConvolutionWeightSize(const aclIntArray *tensorShape, bool transposed, int64_t groups,
                                                aclDataType dataType, uint64_t *weightTensorSize) {
  API(convolution_weight_size(tensorShape, transposed, groups, dataType, weightTensorSize));
}

/* The caller frees the shape (by delete[], which is free() here). The plain format stays. */
static status format_cast_shape(const aclTensor *src, int64_t **shape, uint64_t *rank, int *format) {
  if (!src) return fail(ST_OP_NULL, "srcTensor is NULL, expected a tensor");
  if (!shape || !rank || !format)
    return fail(ST_OP_NULL, "dstShape, dstShapeSize or actualFormat is NULL, expected a pointer");
  TRY(op_expect_tensor(src, "srcTensor"));
  *shape = malloc((src->rank + 1) * sizeof **shape);
  if (!*shape) return fail(ST_NO_HOST_MEMORY, "the host has no memory for a shape");
  memcpy(*shape, src->dims, src->rank * sizeof **shape);
  *rank = src->rank;
  *format = src->format;
  return ST_OK;
}

aclnnStatus aclnnNpuFormatCastCalculateSizeAndFormat(const aclTensor *srcTensor, const int dstFormat,
                                                     int additionalDtype, int64_t **dstShape, uint64_t *dstShapeSize,
                                                     int *actualFormat) {
  API_ENTER();
  (void)dstFormat, (void)additionalDtype; /* formats mean nothing beyond the strides */
  API_RETURN(format_cast_shape(srcTensor, dstShape, dstShapeSize, actualFormat));
}
