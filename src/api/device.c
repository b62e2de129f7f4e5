/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for devices. */
#include "runtime/device.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "base/store/hash.h"
#include "memory/memory.h"
#include "runtime/abort.h"
#include "runtime/memory/peer.h"
#include "trace/load.h"

aclError aclrtSetDevice(int32_t deviceId) { API(device_set(deviceId)); }
aclError aclrtResetDevice(int32_t deviceId) { API(device_reset(deviceId, false)); }
aclError aclrtResetDeviceForce(int32_t deviceId) { API(device_reset(deviceId, true)); }

aclError aclrtGetDevice(int32_t *deviceId) {
  API_ENTER();
  NEED(deviceId);
  context *c;
  NEED_OK(context_current(&c));
  *deviceId = c->device;
  return ACL_SUCCESS;
}

aclError aclrtGetDeviceCount(uint32_t *count) {
  API_ENTER();
  NEED(count);
  NEED_OK(device_machine_check());
  *count = (uint32_t)device_count();
  return ACL_SUCCESS;
}

aclError aclrtGetRunMode(aclrtRunMode *runMode) {
  API_ENTER();
  NEED(runMode);
  *runMode = ACL_HOST;
  return ACL_SUCCESS;
}

static status synchronize_device(int32_t timeout_ms) {
  context *c;
  uint64_t ns;
  TRY(api_timeout_ns(timeout_ms, &ns));
  TRY(context_current(&c));
  return api_synchronised(context_synchronize(c, ns));
}

aclError aclrtSynchronizeDevice(void) { API(synchronize_device(-1)); }
aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout) { API(synchronize_device(timeout)); }

aclError aclrtGetLogicDevIdByUserDevId(const int32_t userDevid, int32_t *const logicDevId) {
  API_ENTER();
  NEED(logicDevId);
  NEED_OK(device_check(userDevid, "userDevid"));
  *logicDevId = device_physical(userDevid);
  return ACL_SUCCESS;
}

aclError aclrtGetUserDevIdByLogicDevId(const int32_t logicDevId, int32_t *const userDevid) {
  API_ENTER();
  NEED(userDevid);
  NEED_OK(device_machine_check());
  const int device = device_of_physical(logicDevId);
  if (device < 0) API_RETURN(fail(ST_INVALID_DEVICE, "logicDevId is %d, expected a visible device", logicDevId));
  *userDevid = device;
  return ACL_SUCCESS;
}

/* A hash of the machine's id, or of its name, which begins with the bytes of `salt`. */
static uint64_t machine_hash(const char *salt) {
  char text[128] = "";
  uint64_t hash = hash_bytes(HASH_START, salt, strlen(salt));
  FILE *f = fopen("/etc/machine-id", "re");
  if (!f || !fgets(text, sizeof text, f)) gethostname(text, sizeof text - 1);
  if (f) fclose(f);
  return hash_bytes(hash, text, strlen(text));
}

aclError aclrtDeviceGetUuid(int32_t deviceId, aclrtUuid *uuid) {
  API_ENTER();
  NEED(uuid);
  NEED_OK(device_check(deviceId, "deviceId"));
  const int physical = device_physical(deviceId);
  const char *const salts[] = {"cannon device", device_profile_of_all()->soc_name};
  for (int i = 0; i < 2; ++i) {
    const uint64_t half = hash_bytes(machine_hash(salts[i]), &physical, sizeof physical);
    memcpy(uuid->bytes + i * (int)sizeof half, &half, sizeof half);
  }
  return ACL_SUCCESS;
}

aclError aclrtDeviceGetBareTgid(int32_t *pid) {
  API_ENTER();
  NEED(pid);
  *pid = getpid();
  return ACL_SUCCESS;
}

aclError aclrtDeviceCanAccessPeer(int32_t *canAccessPeer, int32_t deviceId, int32_t peerDeviceId) {
  API_ENTER();
  NEED(canAccessPeer);
  NEED_OK(device_check(deviceId, "deviceId"));
  NEED_OK(device_check(peerDeviceId, "peerDeviceId"));
  if (deviceId == peerDeviceId)
    API_RETURN(fail(ST_INVALID_VALUE, "peerDeviceId is %d, expected another than deviceId", peerDeviceId));
  *canAccessPeer = 1;
  return ACL_SUCCESS;
}

aclError aclrtDeviceEnablePeerAccess(int32_t peerDeviceId, uint32_t flags) {
  API_ENTER();
  context *c;
  if (flags) API_RETURN(fail(ST_INVALID_PARAM, "flags is %u, expected 0", flags));
  NEED_OK(context_current(&c));
  API_RETURN(peer_enable(c->device, peerDeviceId));
}

aclError aclrtDeviceDisablePeerAccess(int32_t peerDeviceId) {
  API_ENTER();
  context *c;
  NEED_OK(context_current(&c));
  API_RETURN(peer_disable(c->device, peerDeviceId));
}

aclError aclrtDevicePeerAccessStatus(int32_t deviceId, int32_t peerDeviceId, int32_t *status) {
  API_ENTER();
  NEED(status);
  NEED_OK(device_check(deviceId, "deviceId"));
  NEED_OK(device_check(peerDeviceId, "peerDeviceId"));
  *status = peer_is_enabled(deviceId, peerDeviceId);
  return ACL_SUCCESS;
}

/* Devices with peer access can use each other's memory without a mapping, so that only the arguments are checked. */
static status check_peer_map(const void *p, size_t size, int32_t peer, uint64_t flags) {
  void *view;
  TRY(device_check_child());
  if (flags) return fail(ST_INVALID_VALUE, "flags is %ju, expected 0", (uintmax_t)flags);
  if (!size) return fail(ST_INVALID_VALUE, "size is 0, expected 1 or more");
  TRY(device_check(peer, "dstDevId"));
  const int owner = memory_device_of(p);
  if (owner < 0) return fail(ST_INVALID_VALUE, "devPtr is %p, expected device memory", p);
  if (owner == peer) return fail(ST_INVALID_VALUE, "dstDevId is %d, whose memory it is, expected another device", peer);
  TRY(memory_view(p, size, 0, "devPtr", &view));
  if (peer_is_enabled(peer, owner) || peer_is_enabled(owner, peer)) return ST_OK;
  return fail(ST_INVALID_VALUE, "dstDevId is %d, expected aclrtDeviceEnablePeerAccess between it and device %d before",
              peer, owner);
}

aclError aclrtMemP2PMap(void *devPtr, size_t size, int32_t dstDevId, uint64_t flags) {
  API_ENTER();
  NEED(devPtr);
  API_RETURN(check_peer_map(devPtr, size, dstDevId, flags));
}

aclError aclrtDeviceGetStreamPriorityRange(int32_t *leastPriority, int32_t *greatestPriority) {
  API_ENTER();
  NEED(leastPriority);
  NEED(greatestPriority);
  *leastPriority = (int32_t)device_profile_of_all()->stream_priorities - 1;
  *greatestPriority = 0;
  return ACL_SUCCESS;
}

/* Attributes that this product lacks are 0, except two that CANN documents as failing. */
aclError aclrtGetDeviceInfo(uint32_t deviceId, aclrtDevAttr attr, int64_t *value) {
  API_ENTER();
  NEED(value);
  NEED_OK(device_check(deviceId, "deviceId"));
  const device_profile *p = device_profile_of_all();
  switch ((int)attr) {
  case ACL_DEV_ATTR_AICPU_CORE_NUM: *value = (int64_t)p->ai_cpus; break;
  case ACL_DEV_ATTR_AICORE_CORE_NUM:
  case ACL_DEV_ATTR_CUBE_CORE_NUM: *value = (int64_t)p->cube_cores; break;
  case ACL_DEV_ATTR_VECTOR_CORE_NUM: *value = (int64_t)p->vector_cores; break;
  case ACL_DEV_ATTR_UBUF_PER_VECTOR_CORE: *value = (int64_t)p->ub_bytes; break;
  case ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE: *value = (int64_t)device_memory_bytes(); break;
  case ACL_DEV_ATTR_L2_CACHE_SIZE: *value = (int64_t)p->l2_bytes; break;
  case ACL_DEV_ATTR_PHY_CHIP_ID: *value = deviceId; break;
  case ACL_DEV_ATTR_IS_VIRTUAL: *value = 0; break;
  case ACL_DEV_ATTR_NPU_ARCH: *value = (int64_t)p->npu_arch; break;
  case ACL_DEV_ATTR_WARP_SIZE:
  case ACL_DEV_ATTR_MAX_THREAD_PER_VECTOR_CORE:
  case ACL_DEV_ATTR_MAX_GRID_DIM_X:
  case ACL_DEV_ATTR_MAX_GRID_DIM_Y:
  case ACL_DEV_ATTR_MAX_GRID_DIM_Z:
  case ACL_DEV_ATTR_MAX_BLOCK_PER_GRID:
  case ACL_DEV_ATTR_MAX_THREADS_PER_BLOCK:
  case ACL_DEV_ATTR_MAX_BLOCK_DIM_X:
  case ACL_DEV_ATTR_MAX_BLOCK_DIM_Y:
  case ACL_DEV_ATTR_MAX_BLOCK_DIM_Z:
  case ACL_DEV_ATTR_SMP_ID:
  case ACL_DEV_ATTR_SUPER_POD_DEVICE_ID:
  case ACL_DEV_ATTR_SUPER_POD_SERVER_ID:
  case ACL_DEV_ATTR_SUPER_POD_ID:
  case ACL_DEV_ATTR_CUST_OP_PRIVILEGE:
  case ACL_DEV_ATTR_MAINBOARD_ID: *value = 0; break;
  case ACL_DEV_ATTR_HD_CONNECT_TYPE:
  case ACL_DEV_ATTR_DEVICE_FORM_FACTOR:
    API_RETURN(fail(ST_NOT_SUPPORTED, "attr %d means nothing without an NPU", attr));
  default: API_RETURN(fail(ST_INVALID_PARAM, "attr is %d, expected a value of aclrtDevAttr", attr));
  }
  return ACL_SUCCESS;
}

aclError aclrtQueryDeviceStatus(int32_t deviceId, aclrtDeviceStatus *deviceStatus) {
  API_ENTER();
  NEED(deviceStatus);
  NEED_OK(device_check(deviceId, "deviceId"));
  *deviceStatus = ACL_RT_DEVICE_STATUS_NORMAL;
  return ACL_SUCCESS;
}

/* Fills the utilization of the device's units. AI CPUs are not simulated and count as idle. CANN does not report the
 * use of memory here either: -1. */
static status measure_utilization(int device, aclrtUtilizationInfo *info) {
  TRY(device_check_child());
  const bool has_vector_cores =
      device_profile_of_all()->npu_arch >= 2201; /* otherwise the AI cores do the vector work too */
  unsigned percent[LOAD_N_UNITS];
  TRY(device_check(device, "deviceId"));
  if (info->utilizationExtend)
    return fail(ST_INVALID_PARAM, "utilizationInfo->utilizationExtend is %p, expected NULL",
                (void *)info->utilizationExtend);
  load_sample(device, percent);
  const unsigned sum = percent[LOAD_CUBE] + percent[LOAD_VECTOR];
  info->cubeUtilization = has_vector_cores ? (int32_t)percent[LOAD_CUBE] : sum < 100 ? (int32_t)sum : 100;
  info->vectorUtilization = has_vector_cores ? (int32_t)percent[LOAD_VECTOR] : -1;
  info->aicpuUtilization = 0;
  info->memoryUtilization = -1;
  return ST_OK;
}

aclError aclrtGetDeviceUtilizationRate(int32_t deviceId, aclrtUtilizationInfo *utilizationInfo) {
  API_ENTER();
  NEED(utilizationInfo);
  API_RETURN(measure_utilization(deviceId, utilizationInfo));
}

/* ---- abort ------------------------------------------------------------------------------------------------------- */

_Static_assert((int)ACL_RT_DEVICE_TASK_ABORT_PRE == ABORT_BEFORE && (int)ACL_RT_DEVICE_TASK_ABORT_POST == ABORT_AFTER,
               "a cast will do");

static int32_t call_back(void (*function)(void), int32_t device, abort_stage stage, uint32_t timeout_ms, void *args) {
  return ((aclrtDeviceTaskAbortCallback)function)(device, (aclrtDeviceTaskAbortStage)stage, timeout_ms, args);
}

aclError aclrtSetDeviceTaskAbortCallback(const char *regName, aclrtDeviceTaskAbortCallback callback, void *args) {
  API_ENTER();
  const abort_callback called = {.function = (void (*)(void))callback, .call = call_back, .argument = args};
  NEED(regName);
  NEED_OK(device_check_child());
  if (!*regName) API_RETURN(fail(ST_INVALID_PARAM, "regName is empty, expected a name"));
  API_RETURN(abort_register(regName, callback ? &called : NULL));
}

aclError aclrtDeviceTaskAbort(int32_t deviceId, uint32_t timeout) {
  API_ENTER();
  NEED_OK(device_check_child());
  NEED_OK(device_check(deviceId, "deviceId"));
  API_RETURN(abort_device(deviceId, timeout));
}
