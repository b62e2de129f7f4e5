/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for memory shared between processes: physical memory by shareable handles, blocks by keys. */
#include "api/api.h"
#include "memory/share/exchange.h"
#include "memory/share/ipc.h"
#include "memory/vmm/vmm.h"
#include "runtime/context.h"
#include "runtime/device.h"

_Static_assert(ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION == 1 &&
                   ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION == 1,
               "one flag for both");

/* Flags of an export: 0 (importing processes must be named) or 1 (every process may import). Flags of an import say
 * whether peer access is enabled, which it always is. */
static status check_flag(uint64_t flags) {
  return flags <= 1 ? ST_OK : fail(ST_INVALID_VALUE, "flags is %ju, expected 0 or 1", (uintmax_t)flags);
}

static status check_pids(size_t n) {
  return n ? ST_OK : fail(ST_INVALID_VALUE, "0 processes are named, expected 1 or more");
}

static status check_shareable_type(aclrtMemSharedHandleType type) {
  if (type == ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT) return ST_OK;
  if (type == ACL_MEM_SHARE_HANDLE_TYPE_FABRIC)
    return fail(ST_NOT_SUPPORTED, "shareType is FABRIC, expected DEFAULT (1): there are no other servers");
  return fail(ST_INVALID_PARAM, "shareType is %d, expected DEFAULT (1)", (int)type);
}

/* ---- physical memory --------------------------------------------------------------------------------------------- */

static status export_physical(aclrtDrvMemHandle handle, uint64_t flags, uint64_t *key) {
  TRY(device_check_child());
  TRY(check_flag(flags));
  return vmm_export(handle, flags == ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION, key);
}

static status allow_physical(uint64_t key, const int32_t *pids, size_t n) {
  TRY(device_check_child());
  TRY(check_pids(n));
  return exchange_allow(key, pids, n, "shareableHandle");
}

static status import_physical(uint64_t key, int device, aclrtDrvMemHandle *handle) {
  TRY(device_open(device));
  return vmm_import(key, device, handle);
}

aclError aclrtMemExportToShareableHandle(aclrtDrvMemHandle handle, aclrtMemHandleType handleType, uint64_t flags,
                                         uint64_t *shareableHandle) {
  API_ENTER();
  NEED(handle);
  NEED(shareableHandle);
  if (handleType != ACL_MEM_HANDLE_TYPE_NONE)
    API_RETURN(fail(ST_INVALID_VALUE, "handleType is %d, expected ACL_MEM_HANDLE_TYPE_NONE, 0", (int)handleType));
  API_RETURN(export_physical(handle, flags, shareableHandle));
}

aclError aclrtMemExportToShareableHandleV2(aclrtDrvMemHandle handle, uint64_t flags, aclrtMemSharedHandleType shareType,
                                           void *shareableHandle) {
  API_ENTER();
  NEED(handle);
  NEED(shareableHandle);
  NEED_OK(check_shareable_type(shareType));
  API_RETURN(export_physical(handle, flags, shareableHandle));
}

aclError aclrtMemSetPidToShareableHandle(uint64_t shareableHandle, int32_t *pid, size_t pidNum) {
  API_ENTER();
  NEED(pid);
  API_RETURN(allow_physical(shareableHandle, pid, pidNum));
}

aclError aclrtMemSetPidToShareableHandleV2(void *shareableHandle, aclrtMemSharedHandleType shareType, int32_t *pid,
                                           size_t pidNum) {
  API_ENTER();
  NEED(shareableHandle);
  NEED(pid);
  NEED_OK(check_shareable_type(shareType));
  API_RETURN(allow_physical(*(const uint64_t *)shareableHandle, pid, pidNum));
}

aclError aclrtMemImportFromShareableHandle(uint64_t shareableHandle, int32_t deviceId, aclrtDrvMemHandle *handle) {
  API_ENTER();
  NEED(handle);
  NEED_OK(device_check(deviceId, "deviceId"));
  API_RETURN(import_physical(shareableHandle, deviceId, handle));
}

aclError aclrtMemImportFromShareableHandleV2(void *shareableHandle, aclrtMemSharedHandleType shareType, uint64_t flags,
                                             aclrtDrvMemHandle *handle) {
  API_ENTER();
  context *c;
  NEED(shareableHandle);
  NEED(handle);
  NEED_OK(check_shareable_type(shareType));
  if (flags) API_RETURN(fail(ST_INVALID_VALUE, "flags is %ju, expected 0", (uintmax_t)flags));
  NEED_OK(context_current(&c));
  API_RETURN(import_physical(*(const uint64_t *)shareableHandle, c->device, handle));
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

aclError aclrtIpcMemGetExportKey(void *devPtr, size_t size, char *key, size_t len, uint64_t flags) {
  API_ENTER();
  NEED(devPtr);
  NEED(key);
  NEED_OK(device_check_child());
  if (len != IPC_KEY_BYTES) API_RETURN(fail(ST_INVALID_VALUE, "len is %zu, expected %d", len, IPC_KEY_BYTES));
  NEED_OK(check_flag(flags));
  API_RETURN(ipc_export(devPtr, size, flags == ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION, key));
}

aclError aclrtIpcMemSetImportPid(const char *key, int32_t *pid, size_t num) {
  API_ENTER();
  NEED(key);
  NEED(pid);
  NEED_OK(device_check_child());
  NEED_OK(check_pids(num));
  API_RETURN(ipc_allow(key, pid, num));
}

aclError aclrtIpcMemImportByKey(void **devPtr, const char *key, uint64_t flags) {
  API_ENTER();
  context *c;
  NEED(devPtr);
  NEED(key);
  NEED_OK(check_flag(flags));
  NEED_OK(context_current(&c));
  API_RETURN(ipc_import(key, c->device, devPtr));
}

aclError aclrtIpcMemClose(const char *key) {
  API_ENTER();
  NEED(key);
  NEED_OK(device_check_child());
  API_RETURN(ipc_close(key));
}

/* The attribute chooses a link between the dies of a chip; there is none here. */
aclError aclrtIpcMemSetAttr(const char *key, aclrtIpcMemAttrType type, uint64_t attr) {
  API_ENTER();
  (void)type, (void)attr;
  NEED(key);
  API_REFUSE(fail(ST_NOT_SUPPORTED, "there are no links between dies to choose from"));
}

aclError aclrtIpcMemImportPidInterServer(const char *key, aclrtServerPid *serverPids, size_t num) {
  API_ENTER();
  (void)num;
  NEED(key);
  NEED(serverPids);
  API_REFUSE(fail(ST_NOT_SUPPORTED, "there are no other servers; aclrtIpcMemSetImportPid names processes of this one"));
}
