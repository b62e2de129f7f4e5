/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points of the driver's library, libascend_hal.so: the two functions that torch_npu looks up to decide which
 * clock its events are stamped with, and two that MindSpore links. They return the driver's error codes. */
#include <stdint.h>
#include <time.h>

#include "api/api.h"
#include "runtime/device.h"

typedef enum {
  DRV_ERROR_NONE = 0,
  DRV_ERROR_INVALID_DEVICE = 2,
  DRV_ERROR_PARA_ERROR = 8,
  DRV_ERROR_NOT_SUPPORT = 0xfffe,
} drv_error;

ACL_FUNC_VISIBILITY int halGetAPIVersion(int *version);
ACL_FUNC_VISIBILITY int halGetDeviceInfo(uint32_t device, int32_t module, int32_t info, int64_t *value);
ACL_FUNC_VISIBILITY int halHostRegister(void *host, uint64_t bytes, uint32_t flags, uint32_t device, void **address);
ACL_FUNC_VISIBILITY int halHostUnregister(void *host, uint32_t device);

/* The version is 7.25.0, that of drivers from the time of CANN 8.1: major, minor and patch are a byte each. */
int halGetAPIVersion(int *version) {
  API_ENTER();
  if (!version) return DRV_ERROR_PARA_ERROR;
  *version = 0x071900;
  return DRV_ERROR_NONE;
}

/* A device's clock is the host's, in nanoseconds, and its cores are those of its profile. The frequency of the
 * processor's counter (module system, info 24) is not known exactly, so it is not supported, and clients use the
 * clock. */
int halGetDeviceInfo(uint32_t device, int32_t module, int32_t info, int64_t *value) {
  API_ENTER();
  enum { SYSTEM = 0, AI_CORE = 4, VECTOR_CORE = 7 };
  enum { CORES = 3, MONOTONIC_RAW = 14 };
  if (!value) return DRV_ERROR_PARA_ERROR;
  if (device >= (uint32_t)device_count()) return DRV_ERROR_INVALID_DEVICE;
  const device_profile *profile = device_profile_of_all();
  if (module == SYSTEM && info == MONOTONIC_RAW) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_RAW, &now);
    *value = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
  } else if (module == AI_CORE && info == CORES) {
    *value = profile->cube_cores;
  } else if (module == VECTOR_CORE && info == CORES) {
    *value = profile->vector_cores;
  } else {
    return DRV_ERROR_NOT_SUPPORT;
  }
  return DRV_ERROR_NONE;
}

/* Host memory is made known to devices by aclrtHostRegister. */
int halHostRegister(void *host, uint64_t bytes, uint32_t flags, uint32_t device, void **address) {
  API_ENTER();
  (void)host, (void)bytes, (void)flags, (void)device, (void)address;
  return DRV_ERROR_NOT_SUPPORT;
}

int halHostUnregister(void *host, uint32_t device) {
  API_ENTER();
  (void)host, (void)device;
  return DRV_ERROR_NOT_SUPPORT;
}
