/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for the callback that is told about failed tasks. */
#include "runtime/exception.h"

#include "api/api.h"

enum { NO_INFO = 0xffffffff };

aclError aclrtSetExceptionInfoCallback(aclrtExceptionInfoCallback callback) {
  API_ENTER();
  exception_set_callback(callback);
  return ACL_SUCCESS;
}

uint32_t aclrtGetTaskIdFromExceptionInfo(const aclrtExceptionInfo *info) {
  API_ENTER();
  return info ? info->task : NO_INFO;
}

uint32_t aclrtGetStreamIdFromExceptionInfo(const aclrtExceptionInfo *info) {
  API_ENTER();
  return info ? info->stream : NO_INFO;
}

uint32_t aclrtGetThreadIdFromExceptionInfo(const aclrtExceptionInfo *info) {
  API_ENTER();
  return info ? info->thread : NO_INFO;
}

uint32_t aclrtGetDeviceIdFromExceptionInfo(const aclrtExceptionInfo *info) {
  API_ENTER();
  return info ? info->device : NO_INFO;
}

uint32_t aclrtGetErrorCodeFromExceptionInfo(const aclrtExceptionInfo *info) {
  API_ENTER();
  return info ? info->code : NO_INFO;
}
