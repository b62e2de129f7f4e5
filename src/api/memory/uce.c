/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for errors of devices, such as uncorrectable ones of their memory. Device memory is host memory here:
 * the host's kernel takes bad pages out of use and ends processes that touch them, so the list is always empty. */
#include <string.h>

#include "api/api.h"
#include "memory/memory.h"
#include "runtime/context.h"
#include "runtime/device.h"

static status check_device(int device) {
  context *c;
  TRY(device_check(device, "deviceId"));
  return context_current(&c);
}

static status check_entry(const aclrtMemUceInfo *entry, size_t i, int device) {
  for (int k = 0; k < UCE_INFO_RESERVED_SIZE; ++k)
    if (entry->reserved[k])
      return fail(ST_INVALID_PARAM, "memUceInfoArray[%zu].reserved[%d] is %zu, expected 0", i, k, entry->reserved[k]);
  const int owner = memory_device_of(entry->addr);
  if (owner != device)
    return fail(ST_INVALID_VALUE, "memUceInfoArray[%zu].addr is %p, expected memory of device %d", i, entry->addr,
                device);
  return ST_OK;
}

static status repair(const aclrtMemUceInfo *entries, size_t n, int device) {
  if (n > MAX_MEM_UCE_INFO_ARRAY_SIZE)
    return fail(ST_INVALID_PARAM, "arraySize is %zu, expected at most %d", n, MAX_MEM_UCE_INFO_ARRAY_SIZE);
  TRY(check_device(device));
  for (size_t i = 0; i < n; ++i) TRY(check_entry(&entries[i], i, device));
  return ST_OK;
}

aclError aclrtGetMemUceInfo(int32_t deviceId, aclrtMemUceInfo *memUceInfoArray, size_t arraySize, size_t *retSize) {
  API_ENTER();
  (void)arraySize;
  NEED(memUceInfoArray);
  NEED(retSize);
  NEED_OK(check_device(deviceId));
  *retSize = 0;
  API_RETURN(ST_OK);
}

aclError aclrtMemUceRepair(int32_t deviceId, aclrtMemUceInfo *memUceInfoArray, size_t arraySize) {
  API_ENTER();
  NEED(memUceInfoArray);
  API_RETURN(repair(memUceInfoArray, arraySize, deviceId));
}

aclError aclrtGetErrorVerbose(int32_t deviceId, aclrtErrorInfo *errorInfo) {
  API_ENTER();
  NEED(errorInfo);
  NEED_OK(check_device(deviceId));
  memset(errorInfo, 0, sizeof *errorInfo); /* ACL_RT_NO_ERROR */
  return ACL_SUCCESS;
}

static status repair_error(const aclrtErrorInfo *error, int device) {
  const aclrtMemUceInfoArray *memory = &error->detail.uceInfo;
  TRY(check_device(device));
  if (error->errorType == ACL_RT_NO_ERROR) return ST_OK;
  if (error->errorType != ACL_RT_ERROR_MEMORY)
    return fail(ST_INVALID_VALUE, "errorType is %d, expected 0 or 1: no device has other errors here",
                (int)error->errorType);
  if (memory->arraySize > ACL_RT_MEM_UCE_INFO_MAX_NUM)
    return fail(ST_INVALID_VALUE, "arraySize is %zu, expected at most %d", memory->arraySize,
                ACL_RT_MEM_UCE_INFO_MAX_NUM);
  return repair(memory->memUceInfoArray, memory->arraySize, device);
}

aclError aclrtRepairError(int32_t deviceId, const aclrtErrorInfo *errorInfo) {
  API_ENTER();
  NEED(errorInfo);
  API_RETURN(repair_error(errorInfo, deviceId));
}
