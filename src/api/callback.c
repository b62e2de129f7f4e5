/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for user functions in streams: host functions and callbacks. */
#include "runtime/callback.h"

#include <time.h>

#include "api/api.h"
#include "runtime/context.h"
#include "runtime/device.h"

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

/* A thread that serves callbacks calls this in a loop, also before its subscription: that nothing has arrived, or that
 * there is no subscription yet, is nothing that went wrong. Such a message must not stand in front of an error's cause
 * in aclGetRecentErrMsg, so it is neither kept nor logged. */
aclError aclrtProcessReport(int32_t timeout) {
  API_ENTER();
  uint64_t ns;
  NEED_OK(device_check_child());
  NEED_OK(api_timeout_ns(timeout, &ns));
  const status st = callback_process(ns);
  if (st != ST_REPORT_TIMEOUT && st != ST_THREAD_SUBSCRIBED) API_RETURN(st);
  (void)fail_take();
  if (st == ST_THREAD_SUBSCRIBED) nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL); /* spares a core */
  return st;
}
