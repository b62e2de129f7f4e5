/* CANN's entry points, a file per family. Each checks what only it can (null pointers, enums), calls the core and
 * returns through API(), which publishes a failure under the entry point's name. Signatures, units and errors are
 * documented in the public headers. */
#ifndef CANNON_API_API_H
#define CANNON_API_API_H

#include <stddef.h>

#include "acl/acl.h"
#include "base/status.h"
#include "trace/timeline.h"

static inline aclError api_result(status st, const char *call) {
  return likely(st == ST_OK) ? ACL_SUCCESS : error_publish(st, call);
}

/* The return address of the entry point. */
#define CALLER __builtin_return_address(0)

/* The last statement of an entry point; a call in the profiler's timeline. */
#define API(expression) API_AS(__func__, expression)

/* The same in a function that does an entry point's work. */
#define API_AS(call, expression)                                                                                       \
  do {                                                                                                                 \
    const uint64_t api_start_ns_ = timeline_wants(TIMELINE_WANTS_CALLS) ? timeline_now() : 0;                          \
    const int api_status_ = (expression);                                                                              \
    if (unlikely(api_start_ns_)) timeline_call(call, api_start_ns_);                                                   \
    return api_result(api_status_, call);                                                                              \
  } while (0)

/* Returns from the entry point unless the pointer is there. */
#define NEED(pointer)                                                                                                  \
  do {                                                                                                                 \
    if (unlikely(!(pointer)))                                                                                          \
      return api_result(fail(ST_INVALID_PARAM, #pointer " is NULL, expected a pointer"), __func__);                    \
  } while (0)

/* Returns from the entry point unless the status is ST_OK. */
#define NEED_OK(expression)                                                                                            \
  do {                                                                                                                 \
    const int need_status_ = (expression);                                                                             \
    if (unlikely(need_status_ != ST_OK)) return api_result(need_status_, __func__);                                    \
  } while (0)

/* Timeouts in milliseconds: -1 is for ever (0 here), else more than 0. */
static inline status api_timeout_ns(int32_t timeout_ms, uint64_t *ns) {
  if (timeout_ms != -1 && timeout_ms <= 0)
    return fail(ST_INVALID_VALUE, "timeout is %d, expected -1 or more than 0 (ms)", timeout_ms);
  *ns = timeout_ms == -1 ? 0 : (uint64_t)timeout_ms * 1000000;
  return ST_OK;
}

#endif
