/* SPDX-License-Identifier: Apache-2.0 */
/* What every entry point has in common. src/api has CANN's entry points, a file per family. Each checks what only it
 * can check (null pointers, enums), calls the core below (op, runtime, memory, tensor), and returns a status through
 * the macros here, which publish a failure under the entry point's name. The public headers document signatures, units
 * and errors. All entry points may be called by any thread, unless a public header says otherwise.
 *
 *   aclError aclrtStreamGetId(aclrtStream handle, int32_t *streamId) {
 *     API_ENTER();                            comes first: from here on the call is in the profiler's timeline
 *     stream *s;
 *     NEED(streamId);                         returns ACL_ERROR_INVALID_PARAM if it is NULL
 *     NEED_OK(context_stream(handle, &s));    returns the failure, if it is one
 *     *streamId = (int32_t)s->id;
 *     return ACL_SUCCESS;                     or API_RETURN(status)
 *   }
 *
 *   aclError aclrtSetDevice(int32_t deviceId) { API(device_set(deviceId)); }      an entry point of one statement
 *
 * The compiler refuses the other macros where API_ENTER() is missing; scripts/check-style refuses entry points that
 * have none of them. */
#ifndef CANNON_API_API_H
#define CANNON_API_API_H

#include <stddef.h>

#include "acl/acl.h"
#include "base/error_calls.h"
#include "base/hooks.h"
#include "base/settings/faults.h"
#include "base/status.h"
#include "trace/timeline.h"

/* A running call of an entry point. */
typedef struct {
  const char *name;
  uint64_t start_ns; /* when it began, or TIMELINE_UNTIMED; 0 where neither calls nor handles are told */
} api_call;

static inline void api_leave(const api_call *call) {
  ++error_n_calls;
  if (unlikely(call->start_ns)) timeline_call(call->name, call->start_ns);
}

/* Publishes a failure under the call's name. Returns the status. */
static inline aclError api_result(status st, const api_call *call) {
  return likely(st == ST_OK) ? ACL_SUCCESS : error_publish(st, call->name);
}

/* The status of a call that has waited for tasks with the result st; a failure may be injected
 * (base/settings/faults.h). */
static inline status api_synchronised(status st) {
  const char *const spec = fault_due(FAULT_SYNC, NULL);
  if (likely(!spec || st != ST_OK)) return st;
  return fault_fail(spec, ST_DEVICE_EXCEPTION, "the device reports an exception");
}

/* The return address of the entry point. */
#define CALLER __builtin_return_address(0)

/* Opens the call's scope. Whichever way the function is left, the call ends up in the timeline, if that wants calls:
 * with the profiler off the scope costs one load and a branch. */
#define API_ENTER() API_ENTER_AS(__func__)

/* The same in a function that does the work of the entry point `function`. */
#define API_ENTER_AS(function)                                                                                         \
  const api_call api_call_ __attribute__((unused, cleanup(api_leave))) = {                                             \
      (function), timeline_wants(TIMELINE_WANTS_CALLS | TIMELINE_TELLS_HANDLES) ? timeline_begin_call() : 0}

/* Tells the checker of a handle (base/hook_handles.h), in functions where one more load and branch would count: the
 * branch is that of API_ENTER(). */
#define API_TELL_HANDLE(kind, act, handle)                                                                             \
  do {                                                                                                                 \
    if (unlikely(api_call_.start_ns)) hooks_tell_handle_now(kind, act, handle, api_call_.name);                        \
  } while (0)

/* The status as the entry point returns it, a failure published; for entry points that return something else too. */
#define API_RESULT(expression) api_result((expression), &api_call_)

#define API_RETURN(expression) return API_RESULT(expression)

/* The end of an entry point that refuses every call, for what means nothing here. scripts/gen_coverage.py looks for it:
 * `cannon info --coverage` marks these functions. */
#define API_REFUSE(expression) API_RETURN(expression)

/* The whole of an entry point that is one statement. */
#define API(expression)                                                                                                \
  API_ENTER();                                                                                                         \
  API_RETURN(expression)

/* The ends of the two phases of an operator, which tell the checker of executors. */
#define API_PREPARED(expression, executor)                                                                             \
  do {                                                                                                                 \
    const status prepared_ = (expression);                                                                             \
    if (likely(prepared_ == ST_OK)) API_TELL_HANDLE(HOOK_EXECUTOR, HOOK_HANDLE_CREATED, *(executor));                  \
    API_RETURN(prepared_);                                                                                             \
  } while (0)
#define API_LAUNCHES(executor, expression)                                                                             \
  API_ENTER();                                                                                                         \
  API_TELL_HANDLE(HOOK_EXECUTOR, HOOK_HANDLE_DESTROYED, executor);                                                     \
  const status launched_ = (expression);                                                                               \
  if (unlikely(launched_ != ST_OK)) API_TELL_HANDLE(HOOK_EXECUTOR, HOOK_HANDLE_RESTORED, executor);                    \
  API_RETURN(launched_)

/* Returns from the entry point if the pointer is NULL. */
#define NEED(pointer)                                                                                                  \
  do {                                                                                                                 \
    if (unlikely(!(pointer))) API_RETURN(fail(ST_INVALID_PARAM, #pointer " is NULL, expected a pointer"));             \
  } while (0)

/* Returns from the entry point unless the status is ST_OK. */
#define NEED_OK(expression)                                                                                            \
  do {                                                                                                                 \
    const int need_status_ = (expression);                                                                             \
    if (unlikely(need_status_ != ST_OK)) API_RETURN(need_status_);                                                     \
  } while (0)

/* Converts a timeout in milliseconds, which is more than 0, or -1 for no limit, to nanoseconds, where 0 is no limit.
 * ST_INVALID_VALUE for any other value. */
static inline status api_timeout_ns(int32_t timeout_ms, uint64_t *ns) {
  if (timeout_ms != -1 && timeout_ms <= 0)
    return fail(ST_INVALID_VALUE, "timeout is %d, expected -1 or more than 0 (ms)", timeout_ms);
  *ns = timeout_ms == -1 ? 0 : (uint64_t)timeout_ms * 1000000;
  return ST_OK;
}

#endif
