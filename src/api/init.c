/* Initialisation, versions, errors and the log. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "base/log.h"
#include "runtime/process.h"

aclError aclInit(const char *configPath) { API(process_init(configPath)); }
aclError aclFinalize(void) { API(process_finalize(true, NULL)); }
aclError aclFinalizeReference(uint64_t *refCount) { API(process_finalize(false, refCount)); }

const char *aclGetRecentErrMsg(void) { return error_recent(); }

aclError aclrtGetVersion(int32_t *majorVersion, int32_t *minorVersion, int32_t *patchVersion) {
  NEED(majorVersion);
  NEED(minorVersion);
  NEED(patchVersion);
  *majorVersion = ACL_MAJOR_VERSION;
  *minorVersion = ACL_MINOR_VERSION;
  *patchVersion = ACL_PATCH_VERSION;
  return ACL_SUCCESS;
}

aclError aclsysGetCANNVersion(aclCANNPackageName name, aclCANNPackageVersion *version) {
  NEED(version);
  if (name < ACL_PKG_NAME_CANN || name > ACL_PKG_NAME_DRIVER)
    API(fail(ST_INVALID_PARAM, "name is %d, expected %d to %d", name, ACL_PKG_NAME_CANN, ACL_PKG_NAME_DRIVER));
  /* CANN_VERSION is "major.minor.release", the release being "RC1" or a number. */
  memset(version, 0, sizeof *version);
  snprintf(version->version, sizeof version->version, "%s", CANN_VERSION);
  sscanf(CANN_VERSION, "%63[^.].%63[^.].%63s", version->majorVersion, version->minorVersion, version->releaseVersion);
  snprintf(version->patchVersion, sizeof version->patchVersion, "0");
  return ACL_SUCCESS;
}

static status check_level(aclrtLastErrLevel level) {
  if (level == ACL_RT_THREAD_LEVEL) return ST_OK;
  return fail(ST_INVALID_PARAM, "level is %d, expected ACL_RT_THREAD_LEVEL (0)", level);
}

aclError aclrtPeekAtLastError(aclrtLastErrLevel level) {
  NEED_OK(check_level(level));
  return error_last_peek();
}

aclError aclrtGetLastError(aclrtLastErrLevel level) {
  NEED_OK(check_level(level));
  return error_last_take();
}

void aclAppLog(aclLogLevel logLevel, const char *func, const char *file, uint32_t line, const char *fmt, ...) {
  if (!fmt || logLevel < ACL_DEBUG || logLevel > ACL_ERROR || !log_wanted((log_level)logLevel)) return;
  va_list args;
  va_start(args, fmt);
  log_user_line((log_level)logLevel, func, file, line, fmt, args);
  va_end(args);
}
