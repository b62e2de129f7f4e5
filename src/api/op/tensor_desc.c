/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for tensor descriptions (tensor/desc.h). */
#include "api/api.h"
#include "tensor/desc.h"
#include "tensor/dtype.h"

/* ---- life -------------------------------------------------------------------------------------------------------- */

aclTensorDesc *aclCreateTensorDesc(aclDataType dataType, int numDims, const int64_t *dims, aclFormat format) {
  API_ENTER();
  aclTensorDesc *desc = desc_new((int)dataType, numDims, dims, (int)format);
  if (!desc)
    API_RESULT(ST_INVALID_PARAM);
  else
    API_TELL_HANDLE(HOOK_TENSOR_DESC, HOOK_HANDLE_CREATED, desc);
  return desc;
}

void aclDestroyTensorDesc(const aclTensorDesc *desc) {
  API_ENTER();
  API_TELL_HANDLE(HOOK_TENSOR_DESC, HOOK_HANDLE_DESTROYED, desc);
  desc_free((aclTensorDesc *)desc);
}

/* ---- what it says ------------------------------------------------------------------------------------------------ */

aclDataType aclGetTensorDescType(const aclTensorDesc *desc) {
  API_ENTER();
  return desc ? (aclDataType)desc->dtype : ACL_DT_UNDEFINED;
}

aclFormat aclGetTensorDescFormat(const aclTensorDesc *desc) {
  API_ENTER();
  return desc ? (aclFormat)desc->format : ACL_FORMAT_UNDEFINED;
}

size_t aclGetTensorDescElementCount(const aclTensorDesc *desc) {
  API_ENTER();
  size_t n = 0;
  if (!desc || desc_elements(desc, &n) == ST_OK) return n;
  API_RESULT(ST_INVALID_PARAM);
  return 0;
}

size_t aclGetTensorDescSize(const aclTensorDesc *desc) {
  API_ENTER();
  size_t bytes;
  if (!desc) return 0;
  if (!__builtin_mul_overflow(aclGetTensorDescElementCount(desc), dtype_bytes(desc->dtype), &bytes)) return bytes;
  API_RESULT(fail(ST_INVALID_PARAM, "desc has more bytes than can be counted"));
  return 0;
}

size_t aclGetTensorDescNumDims(const aclTensorDesc *desc) {
  API_ENTER();
  if (!desc) return 0;
  const bool unknown = desc->shape.rank == 1 && desc->shape.dims[0] == DESC_UNKNOWN_RANK;
  return unknown ? (size_t)ACL_UNKNOWN_RANK : (size_t)desc->shape.rank;
}

static status dim_of(const aclTensorDesc *desc, size_t index, int64_t *dim) {
  if (!desc) return fail(ST_INVALID_PARAM, "desc is NULL, expected a tensor description");
  if (index >= (size_t)desc->shape.rank)
    return fail(ST_INVALID_PARAM, "index is %zu, expected less than the %d dimensions", index, desc->shape.rank);
  *dim = desc->shape.dims[index];
  return ST_OK;
}

int64_t aclGetTensorDescDim(const aclTensorDesc *desc, size_t index) {
  API_ENTER();
  int64_t dim;
  const status st = dim_of(desc, index, &dim);
  return st == ST_OK ? dim : ((void)API_RESULT(st), -1);
}

aclError aclGetTensorDescDimV2(const aclTensorDesc *desc, size_t index, int64_t *dimSize) {
  API_ENTER();
  NEED(dimSize);
  API_RETURN(dim_of(desc, index, dimSize));
}

aclError aclGetTensorDescDimRange(const aclTensorDesc *desc, size_t index, size_t dimRangeNum, int64_t *dimRange) {
  API_ENTER();
  NEED(desc);
  NEED(dimRange);
  if (dimRangeNum < ACL_TENSOR_SHAPE_RANGE_NUM)
    API_RETURN(fail(ST_INVALID_PARAM, "dimRangeNum is %zu, expected %d", dimRangeNum, ACL_TENSOR_SHAPE_RANGE_NUM));
  if (index >= desc->shape_range.n)
    API_RETURN(fail(ST_INVALID_PARAM, "index is %zu, expected less than the %zu ranges", index, desc->shape_range.n));
  dimRange[0] = desc->shape_range.pairs[index][0];
  dimRange[1] = desc->shape_range.pairs[index][1];
  return ACL_SUCCESS;
}

const char *aclGetTensorDescName(aclTensorDesc *desc) {
  API_ENTER();
  return desc && desc->name ? desc->name : "";
}

/* ---- what it is told --------------------------------------------------------------------------------------------- */

void aclSetTensorDescName(aclTensorDesc *desc, const char *name) {
  API_ENTER();
  const status st =
      desc ? desc_set_text(&desc->name, name) : fail(ST_INVALID_PARAM, "desc is NULL, expected a tensor description");
  API_RESULT(st);
}

aclError aclSetTensorFormat(aclTensorDesc *desc, aclFormat format) {
  API_ENTER();
  NEED(desc);
  desc->storage_format = (int)format;
  return ACL_SUCCESS;
}

aclError aclSetTensorShape(aclTensorDesc *desc, int numDims, const int64_t *dims) {
  API_ENTER();
  NEED(desc);
  NEED_OK(desc_set_shape(&desc->storage_shape, numDims, dims));
  desc->has_storage_shape = true;
  return ACL_SUCCESS;
}

aclError aclSetTensorStorageFormat(aclTensorDesc *desc, aclFormat format) {
  API_ENTER();
  return aclSetTensorFormat(desc, format);
}

aclError aclSetTensorStorageShape(aclTensorDesc *desc, int numDims, const int64_t *dims) {
  API_ENTER();
  return aclSetTensorShape(desc, numDims, dims);
}

aclError aclSetTensorOriginFormat(aclTensorDesc *desc, aclFormat format) {
  API_ENTER();
  NEED(desc);
  desc->format = (int)format;
  return ACL_SUCCESS;
}

aclError aclSetTensorOriginShape(aclTensorDesc *desc, int numDims, const int64_t *dims) {
  API_ENTER();
  NEED(desc);
  API_RETURN(desc_set_shape(&desc->shape, numDims, dims));
}

aclError aclSetTensorShapeRange(aclTensorDesc *desc, size_t dimsCount,
                                int64_t dimsRange[][ACL_TENSOR_SHAPE_RANGE_NUM]) {
  API_ENTER();
  NEED(desc);
  API_RETURN(desc_set_ranges(&desc->shape_range, dimsCount, dimsRange, "dimsRange"));
}

aclError aclSetTensorValueRange(aclTensorDesc *desc, size_t valueCount,
                                int64_t valueRange[][ACL_TENSOR_VALUE_RANGE_NUM]) {
  API_ENTER();
  NEED(desc);
  API_RETURN(desc_set_ranges(&desc->value_range, valueCount, valueRange, "valueRange"));
}

aclError aclSetTensorConst(aclTensorDesc *desc, void *dataBuffer, size_t length) {
  API_ENTER();
  NEED(desc);
  API_RETURN(desc_set_constant(desc, dataBuffer, length));
}

aclError aclSetTensorPlaceMent(aclTensorDesc *desc, aclMemType memType) {
  API_ENTER();
  NEED(desc);
  if ((int)memType < ACL_MEMTYPE_DEVICE || (int)memType > ACL_MEMTYPE_HOST_COMPILE_INDEPENDENT)
    API_RETURN(
        fail(ST_INVALID_PARAM, "memType is %d, expected 0 to %d", (int)memType, ACL_MEMTYPE_HOST_COMPILE_INDEPENDENT));
  desc->placement = (int)memType;
  return ACL_SUCCESS;
}

aclError aclSetTensorDynamicInput(aclTensorDesc *desc, const char *dynamicInputName) {
  API_ENTER();
  NEED(desc);
  NEED(dynamicInputName);
  API_RETURN(desc_set_text(&desc->dynamic_input, dynamicInputName));
}
