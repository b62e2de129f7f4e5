/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for user functions in streams: host functions and callbacks; and for the function that is told tasks
 * that failed. */
#include "runtime/callback.h"

#include "api/api.h"
#include "runtime/context.h"
#include "runtime/device.h"
#include "runtime/exception.h"

aclError aclrtLaunchHostFunc(aclrtStream handle, aclrtHostFunc fn, void *args) {
  API_ENTER();
  stream *s;
  NEED(fn);
  NEED_OK(context_stream(handle, &s));
  API_RETURN(host_function_submit(s, fn, args));
}

aclError aclrtSubscribeReport(uint64_t threadId, aclrtStream handle) {
  API_ENTER();
  stream *s;
  if (!threadId)
    API_RETURN(fail(ST_INVALID_PARAM, "threadId is 0, expected what pthread_self gives in the serving thread"));
  NEED_OK(context_stream(handle, &s));
  API_RETURN(callback_subscribe(threadId, s));
}

aclError aclrtUnSubscribeReport(uint64_t threadId, aclrtStream handle) {
  API_ENTER();
  stream *s;
  NEED_OK(context_stream(handle, &s));
  API_RETURN(callback_unsubscribe(threadId, s));
}

aclError aclrtLaunchCallback(aclrtCallback fn, void *userData, aclrtCallbackBlockType blockType, aclrtStream handle) {
  API_ENTER();
  stream *s;
  NEED(fn);
  if (blockType != ACL_CALLBACK_NO_BLOCK && blockType != ACL_CALLBACK_BLOCK)
    API_RETURN(fail(ST_INVALID_PARAM, "blockType is %d, expected 0 or 1", blockType));
  NEED_OK(context_stream(handle, &s));
  API_RETURN(callback_submit(s, fn, userData, blockType == ACL_CALLBACK_BLOCK));
}

aclError aclrtProcessReport(int32_t timeout) {
  API_ENTER();
  uint64_t ns;
  NEED_OK(device_check_child());
  NEED_OK(api_timeout_ns(timeout, &ns));
  const status st = callback_process(ns);
  if (st != ST_REPORT_TIMEOUT && st != ST_THREAD_SUBSCRIBED) API_RETURN(st);
  /* What a thread that serves streams gets all the time, with the first one before it is subscribed. As messages they
   * would stand in front of the real ones, since clients show all that are not yet taken. */
  (void)fail_take();
  return st;
}

/* ---- exceptions -------------------------------------------------------------------------------------------------- */

aclError aclrtSetExceptionInfoCallback(aclrtExceptionInfoCallback callback) {
  API_ENTER();
  NEED_OK(device_check_child());
  exception_set_function(callback);
  return ACL_SUCCESS;
}

/* What no task has is CANN's 0xffffffff. */
#define EXCEPTION_GETTER(name, member)                                                                                 \
  uint32_t aclrtGet##name##FromExceptionInfo(const aclrtExceptionInfo *info) {                                         \
    API_ENTER();                                                                                                       \
    return info ? (uint32_t)info->member : UINT32_MAX;                                                                 \
  }
EXCEPTION_GETTER(TaskId, task)
EXCEPTION_GETTER(StreamId, stream)
EXCEPTION_GETTER(ThreadId, thread)
EXCEPTION_GETTER(DeviceId, device)
EXCEPTION_GETTER(ErrorCode, code)
