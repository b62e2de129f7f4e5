/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for initialisation, errors and the log. */
#include <stdarg.h>

#include "api/api.h"
#include "base/log.h"
#include "runtime/process.h"

/* A repeated aclInit is harmless, and several libraries of one process do it as a matter of course. So its message is
 * logged but not kept: it must not precede the next error's text or count in a summary of errors. */
aclError aclInit(const char *configPath) {
  API_ENTER();
  const status st = process_init(configPath);
  if (st != ST_REPEATED_INIT) API_RETURN(st);
  log_line(LOG_WARNING, "aclInit: %s (error %d)", fail_take(), st);
  return st;
}
aclError aclFinalize(void) { API(process_finalize(true, NULL)); }
aclError aclFinalizeReference(uint64_t *refCount) { API(process_finalize(false, refCount)); }

const char *aclGetRecentErrMsg(void) {
  API_ENTER();
  return error_recent();
}

static status check_level(aclrtLastErrLevel level) {
  if (level == ACL_RT_THREAD_LEVEL) return ST_OK;
  return fail(ST_INVALID_PARAM, "level is %d, expected ACL_RT_THREAD_LEVEL (0)", level);
}

aclError aclrtPeekAtLastError(aclrtLastErrLevel level) {
  API_ENTER();
  NEED_OK(check_level(level));
  return error_last_peek();
}

aclError aclrtGetLastError(aclrtLastErrLevel level) {
  API_ENTER();
  NEED_OK(check_level(level));
  return error_last_take();
}

void aclAppLog(aclLogLevel logLevel, const char *func, const char *file, uint32_t line, const char *fmt, ...) {
  API_ENTER();
  if (!fmt || logLevel < ACL_DEBUG || logLevel > ACL_ERROR || !log_wanted((log_level)logLevel)) return;
  va_list args;
  va_start(args, fmt);
  log_user_line((log_level)logLevel, func, file, line, fmt, args);
  va_end(args);
}
