/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for streams. */
#include "runtime/stream.h"

#include "api/api.h"
#include "runtime/context.h"
#include "runtime/device.h"
#include "runtime/graph/capture.h"

enum { KNOWN_FLAGS = ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC | ACL_STREAM_HUGE };

static status create_stream(aclrtStream *out, uint32_t priority, uint32_t flags) {
  context *c;
  stream *s;
  TRY(context_current(&c));
  const uint32_t n = (uint32_t)device_profile_of_all()->stream_priorities;
  if (priority >= n) return fail(ST_INVALID_PARAM, "priority is %u, expected 0 to %u", priority, n - 1);
  TRY(stream_create(c, priority, flags & KNOWN_FLAGS, &s));
  hooks_tell_handle(HOOK_STREAM, HOOK_HANDLE_CREATED, s, "aclrtCreateStream");
  object_publish(&s->o);
  *out = s;
  return ST_OK;
}

aclError aclrtCreateStream(aclrtStream *stream) {
  API_ENTER();
  NEED(stream);
  API_RETURN(create_stream(stream, 0, 0));
}

aclError aclrtCreateStreamWithConfig(aclrtStream *stream, uint32_t priority, uint32_t flag) {
  API_ENTER();
  NEED(stream);
  /* These kinds only make sense with captured or device-side models, which are not implemented. */
  if (flag & (ACL_STREAM_PERSISTENT | ACL_STREAM_CPU_SCHEDULE | ACL_STREAM_DEVICE_USE_ONLY))
    API_RETURN(fail(ST_NOT_SUPPORTED, "flag is %#x, expected an OR of 1, 2 and 8", flag));
  API_RETURN(create_stream(stream, priority, flag));
}

/* A stream whose context is destroyed may be destroyed by any thread, with or without a current context. */
static status destroy_stream(aclrtStream handle, bool discard) {
  TRY(device_check_child());
  stream *s = thread_hold_stream(handle);
  if (!s) {
    hooks_tell_handle(HOOK_STREAM, HOOK_HANDLE_NOT_DESTROYED, handle, "aclrtDestroyStream");
    return fail(ST_INVALID_VALUE, "stream %p is no stream (destroyed?)", handle);
  }
  context *own = s->context, *current;
  if (own) {
    TRY(context_current(&current));
    if (own != current) return fail(ST_OTHER_CONTEXT, "stream %p is not of the current context", handle);
    if (s == own->default_stream) return fail(ST_INVALID_VALUE, "stream %p is the context's default stream", handle);
    TRY(capture_refuse_stream(s));
  }
  if (!object_kill(&s->o)) return fail(ST_INVALID_VALUE, "stream %p was destroyed by another thread", handle);
  if (!discard && hooks_any())
    hooks_use((hook_use){.kind = HOOK_USE_STREAM_DESTROY, .device = s->device, .stream = s->id});
  hooks_tell_handle(HOOK_STREAM, HOOK_HANDLE_DESTROYED, s, "aclrtDestroyStream");
  stream_destroy(s, discard);
  thread_drop_stream(s);
  return ST_OK;
}

aclError aclrtDestroyStream(aclrtStream stream) {
  API_ENTER();
  NEED(stream);
  API_RETURN(destroy_stream(stream, false));
}

aclError aclrtDestroyStreamForce(aclrtStream stream) {
  API_ENTER();
  NEED(stream);
  API_RETURN(destroy_stream(stream, true));
}

/* Looks up a stream that the host waits for or queries; a stream that is being captured is refused. */
static status asked_stream(aclrtStream handle, stream **out) {
  TRY(context_stream(handle, out));
  return capture_refuse_stream(*out);
}

aclError aclrtStreamQuery(aclrtStream handle, aclrtStreamStatus *status) {
  API_ENTER();
  stream *s;
  NEED(status);
  NEED_OK(asked_stream(handle, &s));
  *status = stream_is_idle(s) ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
  return ACL_SUCCESS;
}

aclError aclrtSynchronizeStream(aclrtStream handle) {
  API_ENTER();
  stream *s;
  NEED_OK(asked_stream(handle, &s));
  API_RETURN(api_synchronised(stream_synchronize(s, 0)));
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream handle, int32_t timeout) {
  API_ENTER();
  stream *s;
  uint64_t ns;
  NEED_OK(api_timeout_ns(timeout, &ns));
  NEED_OK(asked_stream(handle, &s));
  API_RETURN(api_synchronised(stream_synchronize(s, ns)));
}

aclError aclrtStreamGetId(aclrtStream handle, int32_t *streamId) {
  API_ENTER();
  stream *s;
  NEED(streamId);
  NEED_OK(context_stream(handle, &s));
  *streamId = (int32_t)s->id;
  return ACL_SUCCESS;
}

aclError aclrtStreamGetFlags(aclrtStream handle, uint32_t *flags) {
  API_ENTER();
  stream *s;
  NEED(flags);
  NEED_OK(context_stream(handle, &s));
  *flags = s->flags;
  return ACL_SUCCESS;
}

aclError aclrtStreamGetPriority(aclrtStream handle, uint32_t *priority) {
  API_ENTER();
  stream *s;
  NEED(priority);
  NEED_OK(context_stream(handle, &s));
  *priority = s->priority;
  return ACL_SUCCESS;
}

/* Sets the failure mode, which is possible once per stream. The mode "stop" holds for the whole context. */
static status set_failure_mode(stream *s, uint64_t mode) {
  if (mode != STREAM_FAIL_CONTINUE && mode != STREAM_FAIL_STOP)
    return fail(ST_INVALID_VALUE, "mode is %ju, expected 0 (continue) or 1 (stop)", (uintmax_t)mode);
  if (atomic_exchange(&s->fail_mode_set, true)) {
    if (mode == STREAM_FAIL_CONTINUE && atomic_load(&s->home->stop_on_failure))
      return fail(ST_NOT_SUPPORTED, "mode is 0 (continue), but the stream is set to stop");
    return fail(ST_INVALID_VALUE, "the failure mode of stream %u is set already", s->id);
  }
  if (mode == STREAM_FAIL_STOP) atomic_store(&s->home->stop_on_failure, true);
  return ST_OK;
}

aclError aclrtSetStreamFailureMode(aclrtStream handle, uint64_t mode) {
  API_ENTER();
  stream *s;
  NEED_OK(context_stream(handle, &s));
  API_RETURN(set_failure_mode(s, mode));
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */

static status stream_set_switch(_Atomic uint32_t *to, uint32_t on) {
  if (on > 1) return fail(ST_INVALID_VALUE, "value is %u, expected 0 (off) or 1 (on)", on);
  atomic_store(to, on);
  return ST_OK;
}

static status stream_unknown_attribute(int attribute) {
  return fail(ST_INVALID_VALUE, "stmAttrType is %d, expected 1 to %d", attribute, ACL_STREAM_ATTR_PRIORITY);
}

static status set_priority(stream *s, uint32_t priority) {
  const uint32_t n = (uint32_t)device_profile_of_all()->stream_priorities;
  if (priority >= n) return fail(ST_INVALID_VALUE, "streamPriority is %u, expected 0 to %u", priority, n - 1);
  atomic_store(&s->priority, priority);
  return ST_OK;
}

static status stream_set_attribute(stream *s, aclrtStreamAttr attribute, const aclrtStreamAttrValue *value) {
  switch (attribute) {
  case ACL_STREAM_ATTR_FAILURE_MODE: return set_failure_mode(s, value->failureMode);
  case ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK: return stream_set_switch(&s->overflow_watch, value->overflowSwitch);
  case ACL_STREAM_ATTR_USER_CUSTOM_TAG: atomic_store(&s->tag, value->userCustomTag); return ST_OK;
  case ACL_STREAM_ATTR_CACHE_OP_INFO: return stream_set_switch(&s->names_switch, value->cacheOpInfoSwitch);
  case ACL_STREAM_ATTR_PRIORITY: return set_priority(s, value->streamPriority);
  default: return stream_unknown_attribute((int)attribute);
  }
}

static status stream_get_attribute(const stream *s, aclrtStreamAttr attribute, aclrtStreamAttrValue *value) {
  switch (attribute) {
  case ACL_STREAM_ATTR_FAILURE_MODE: value->failureMode = atomic_load(&s->home->stop_on_failure); return ST_OK;
  case ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK: value->overflowSwitch = atomic_load(&s->overflow_watch); return ST_OK;
  case ACL_STREAM_ATTR_USER_CUSTOM_TAG: value->userCustomTag = atomic_load(&s->tag); return ST_OK;
  case ACL_STREAM_ATTR_CACHE_OP_INFO: value->cacheOpInfoSwitch = atomic_load(&s->names_switch); return ST_OK;
  case ACL_STREAM_ATTR_PRIORITY: value->streamPriority = s->priority; return ST_OK;
  default: return stream_unknown_attribute((int)attribute);
  }
}

aclError aclrtSetStreamAttribute(aclrtStream handle, aclrtStreamAttr stmAttrType, aclrtStreamAttrValue *value) {
  API_ENTER();
  stream *s;
  NEED(value);
  NEED_OK(context_stream(handle, &s));
  API_RETURN(stream_set_attribute(s, stmAttrType, value));
}

aclError aclrtGetStreamAttribute(aclrtStream handle, aclrtStreamAttr stmAttrType, aclrtStreamAttrValue *value) {
  API_ENTER();
  stream *s;
  NEED(value);
  NEED_OK(context_stream(handle, &s));
  API_RETURN(stream_get_attribute(s, stmAttrType, value));
}
