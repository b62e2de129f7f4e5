/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for data types and for queries of the platform; they need no initialisation. */
#include <string.h>

#include "api/api.h"
#include "runtime/device.h"
#include "tensor/dtype.h"

size_t aclDataTypeSize(aclDataType dataType) { return dtype_bytes(dataType); }

/* As in CANN, not IEEE (semantics page, section 19): values without a finite half become the largest finite half, and a
 * half with the exponent of infinity is read as a number of that exponent. */
aclFloat16 aclFloatToFloat16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
  if (value != value) return 0x7bff;
  const uint16_t half = half_from_float(value);
  return (half & 0x7fff) >= 0x7c00 ? (aclFloat16)(sign | 0x7bff) : half;
}

float aclFloat16ToFloat(aclFloat16 value) {
  if ((value & 0x7c00) != 0x7c00) return half_to_float(value);
  const float magnitude = 65536.0f * (1.0f + (float)(value & 0x3ff) / 1024.0f);
  return value & 0x8000 ? -magnitude : magnitude;
}

static const aclCannAttr attributes[] = {ACL_CANN_ATTR_INF_NAN, ACL_CANN_ATTR_BF16, ACL_CANN_ATTR_JIT_COMPILE};
enum { N_ATTRIBUTES = sizeof attributes / sizeof attributes[0] };

aclError aclGetCannAttributeList(const aclCannAttr **cannAttrList, size_t *num) {
  API_ENTER();
  NEED(cannAttrList);
  NEED(num);
  *cannAttrList = attributes;
  *num = N_ATTRIBUTES;
  return ACL_SUCCESS;
}

aclError aclGetCannAttribute(aclCannAttr cannAttr, int32_t *value) {
  API_ENTER();
  NEED(value);
  const device_profile *p = device_profile_of_all();
  switch ((int)cannAttr) {
  case ACL_CANN_ATTR_INF_NAN: *value = p->npu_arch >= 2201; break;
  case ACL_CANN_ATTR_BF16: *value = (int32_t)p->supports_bf16; break;
  case ACL_CANN_ATTR_JIT_COMPILE: *value = 0; break;
  default: API_RETURN(fail(ST_INVALID_PARAM, "cannAttr is %d, expected 0 to %d", cannAttr, N_ATTRIBUTES - 1));
  }
  return ACL_SUCCESS;
}

aclError aclGetDeviceCapability(uint32_t deviceId, aclDeviceInfo deviceInfo, int64_t *value) {
  API_ENTER();
  NEED(value);
  NEED_OK(device_check(deviceId, "deviceId"));
  const device_profile *p = device_profile_of_all();
  switch ((int)deviceInfo) {
  case ACL_DEVICE_INFO_AI_CORE_NUM: *value = (int64_t)p->cube_cores; break;
  case ACL_DEVICE_INFO_VECTOR_CORE_NUM: *value = (int64_t)p->vector_cores; break;
  case ACL_DEVICE_INFO_L2_SIZE: *value = (int64_t)p->l2_bytes; break;
  default: API_RETURN(fail(ST_INVALID_PARAM, "deviceInfo is %d, expected 0, 1 or 2", deviceInfo));
  }
  return ACL_SUCCESS;
}

const char *aclrtGetSocName(void) {
  API_ENTER();
  return device_profile_of_all()->soc_name;
}
