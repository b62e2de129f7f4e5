/* User functions in streams. */
#include "runtime/callback.h"

#include "api/api.h"
#include "runtime/context.h"
#include "runtime/device.h"

aclError aclrtLaunchHostFunc(aclrtStream handle, aclrtHostFunc fn, void *args) {
  stream *s;
  NEED(fn);
  NEED_OK(context_stream(handle, &s));
  API(host_function_submit(s, fn, args));
}

aclError aclrtSubscribeReport(uint64_t threadId, aclrtStream handle) {
  stream *s;
  if (!threadId) API(fail(ST_INVALID_PARAM, "threadId is 0, expected what pthread_self gives in the serving thread"));
  NEED_OK(context_stream(handle, &s));
  API(callback_subscribe(threadId, s));
}

aclError aclrtUnSubscribeReport(uint64_t threadId, aclrtStream handle) {
  stream *s;
  NEED_OK(context_stream(handle, &s));
  API(callback_unsubscribe(threadId, s));
}

aclError aclrtLaunchCallback(aclrtCallback fn, void *userData, aclrtCallbackBlockType blockType, aclrtStream handle) {
  stream *s;
  NEED(fn);
  if (blockType != ACL_CALLBACK_NO_BLOCK && blockType != ACL_CALLBACK_BLOCK)
    API(fail(ST_INVALID_PARAM, "blockType is %d, expected 0 or 1", blockType));
  NEED_OK(context_stream(handle, &s));
  API(callback_submit(s, fn, userData, blockType == ACL_CALLBACK_BLOCK));
}

aclError aclrtProcessReport(int32_t timeout) {
  uint64_t ns;
  NEED_OK(device_check_child());
  NEED_OK(api_timeout_ns(timeout, &ns));
  API(callback_process(ns));
}
