/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points of the profiler's library, libprofapi.so, by which clients report spans of their own. The reports'
 * layouts are not public, so they are accepted and left out of the profile; clock and hashes are real. */
#include <string.h>

#include "api/api.h"
#include "base/store/hash.h"

ACL_FUNC_VISIBILITY uint64_t MsprofSysCycleTime(void);
ACL_FUNC_VISIBILITY uint64_t MsprofGetHashId(const char *text, size_t length);
ACL_FUNC_VISIBILITY int32_t MsprofReportApi(uint32_t aging, const void *data);
ACL_FUNC_VISIBILITY int32_t MsprofReportCompactInfo(uint32_t aging, const void *data, uint32_t length);
ACL_FUNC_VISIBILITY int32_t MsprofReportAdditionalInfo(uint32_t aging, const void *data, uint32_t length);
ACL_FUNC_VISIBILITY int32_t MsprofRegisterCallback(uint32_t module, void *callback);
ACL_FUNC_VISIBILITY int32_t MsprofRegTypeInfo(uint16_t level, uint32_t type, const char *name);

/* The profile's own clock, in nanoseconds. */
uint64_t MsprofSysCycleTime(void) {
  API_ENTER();
  return timeline_now();
}

/* The number that stands for a text in reports: the same in every process. 0 for no text. */
uint64_t MsprofGetHashId(const char *text, size_t length) {
  API_ENTER();
  return text ? hash_bytes(HASH_START, text, length) : 0;
}

int32_t MsprofReportApi(uint32_t aging, const void *data) {
  API_ENTER();
  (void)aging;
  NEED(data);
  return 0;
}

int32_t MsprofReportCompactInfo(uint32_t aging, const void *data, uint32_t length) {
  API_ENTER();
  (void)aging, (void)length;
  NEED(data);
  return 0;
}

int32_t MsprofReportAdditionalInfo(uint32_t aging, const void *data, uint32_t length) {
  API_ENTER();
  (void)aging, (void)length;
  NEED(data);
  return 0;
}

/* The callback would learn of starts and stops; it is never called. */
int32_t MsprofRegisterCallback(uint32_t module, void *callback) {
  API_ENTER();
  (void)module, (void)callback;
  return 0;
}

int32_t MsprofRegTypeInfo(uint16_t level, uint32_t type, const char *name) {
  API_ENTER();
  (void)level, (void)type, (void)name;
  return 0;
}
