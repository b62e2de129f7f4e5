/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for settings of later tasks: shares of the cores, overflow, time limits. */
#include "runtime/limits.h"

#include "api/api.h"
#include "runtime/context.h"
#include "runtime/device.h"

/* ---- cores ------------------------------------------------------------------------------------------------------- */

aclError aclrtSetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t value) {
  API(limits_set_device_cores(deviceId, (int)type, value));
}

aclError aclrtGetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t *value) {
  API_ENTER();
  NEED(value);
  API_RETURN(limits_device_cores(deviceId, (int)type, value));
}

aclError aclrtResetDeviceResLimit(int32_t deviceId) { API(limits_reset_device_cores(deviceId)); }

aclError aclrtSetStreamResLimit(aclrtStream handle, aclrtDevResLimitType type, uint32_t value) {
  API_ENTER();
  stream *s;
  NEED_OK(context_stream(handle, &s));
  API_RETURN(limits_set_stream_cores(s, (int)type, value));
}

aclError aclrtGetStreamResLimit(aclrtStream handle, aclrtDevResLimitType type, uint32_t *value) {
  API_ENTER();
  stream *s;
  NEED(value);
  NEED_OK(context_stream(handle, &s));
  API_RETURN(limits_stream_cores(s, (int)type, value));
}

aclError aclrtResetStreamResLimit(aclrtStream handle) {
  API_ENTER();
  stream *s;
  NEED_OK(context_stream(handle, &s));
  limits_reset_stream_cores(s);
  return ACL_SUCCESS;
}

aclError aclrtUseStreamResInCurrentThread(aclrtStream handle) {
  API_ENTER();
  stream *s;
  NEED_OK(context_stream(handle, &s));
  limits_use_stream(s);
  return ACL_SUCCESS;
}

aclError aclrtUnuseStreamResInCurrentThread(aclrtStream handle) {
  API_ENTER();
  stream *s;
  NEED_OK(context_stream(handle, &s));
  limits_use_stream(NULL);
  return ACL_SUCCESS;
}

aclError aclrtGetResInCurrentThread(aclrtDevResLimitType type, uint32_t *value) {
  API_ENTER();
  context *c;
  NEED(value);
  NEED_OK(context_current(&c));
  API_RETURN(limits_thread_cores(c->device, (int)type, value));
}

/* ---- overflow ---------------------------------------------------------------------------------------------------- */

/* Kernels produce infinities and NaN on overflow, the default of devices from the 910B on; saturation is not
 * implemented. Clients set the mode before they set a device. */
aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode) {
  API_ENTER();
  NEED_OK(device_check_child());
  if (mode == ACL_RT_OVERFLOW_MODE_INFNAN) return ACL_SUCCESS;
  if (mode == ACL_RT_OVERFLOW_MODE_SATURATION)
    API_RETURN(fail(ST_NOT_SUPPORTED, "mode is 0 (saturation), expected 1: overflow gives infinity and NaN here"));
  API_RETURN(fail(ST_INVALID_PARAM, "mode is %d, expected 0 (saturation) or 1 (infinity and NaN)", (int)mode));
}

aclError aclrtGetDeviceSatMode(aclrtFloatOverflowMode *mode) {
  API_ENTER();
  context *c;
  NEED(mode);
  NEED_OK(context_current(&c));
  *mode = ACL_RT_OVERFLOW_MODE_INFNAN;
  return ACL_SUCCESS;
}

/* The overflow watch of CANN works in saturation mode only; with infinities and NaN nothing raises it. */
aclError aclrtSetStreamOverflowSwitch(aclrtStream handle, uint32_t flag) {
  API_ENTER();
  stream *s;
  if (flag > 1) API_RETURN(fail(ST_INVALID_VALUE, "flag is %u, expected 0 (off) or 1 (on)", flag));
  NEED_OK(context_stream(handle, &s));
  atomic_store(&s->overflow_watch, flag);
  return ACL_SUCCESS;
}

aclError aclrtGetStreamOverflowSwitch(aclrtStream handle, uint32_t *flag) {
  API_ENTER();
  stream *s;
  NEED(flag);
  NEED_OK(context_stream(handle, &s));
  *flag = atomic_load(&s->overflow_watch);
  return ACL_SUCCESS;
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

aclError aclrtSetOpExecuteTimeOut(uint32_t timeout) {
  API_ENTER();
  limits_set_operator_time_us(timeout * 1000000ull);
  return ACL_SUCCESS;
}

aclError aclrtSetOpExecuteTimeOutWithMs(uint32_t timeout) {
  API_ENTER();
  limits_set_operator_time_us(timeout * 1000ull);
  return ACL_SUCCESS;
}

aclError aclrtSetOpExecuteTimeOutV2(uint64_t timeout, uint64_t *actualTimeout) {
  API_ENTER();
  NEED(actualTimeout);
  *actualTimeout = limits_set_operator_time_us(timeout);
  return ACL_SUCCESS;
}

aclError aclrtGetOpExecuteTimeout(uint32_t *const timeoutMs) {
  API_ENTER();
  NEED(timeoutMs);
  *timeoutMs = (uint32_t)(limits_operator_time_us() / 1000);
  return ACL_SUCCESS;
}
