/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for contexts and for system options. */
#include "runtime/context.h"

#include "api/api.h"
#include "runtime/device.h"
#include "runtime/process.h"

static status create_context(aclrtContext *out, int device) {
  context *c;
  TRY(device_open(device));
  TRY(context_create(device, false, &c));
  thread_set_context(c);
  hooks_tell_handle(HOOK_CONTEXT, HOOK_HANDLE_CREATED, c, "aclrtCreateContext");
  *out = c;
  return ST_OK;
}

/* Looks up the context and takes a reference to it, which the caller drops (HELD_CONTEXT). */
static status context_found(aclrtContext handle, context **out, hook_handle_act refusal) {
  TRY(device_check_child());
  *out = object_acquire(OBJECT_CONTEXT, handle);
  if (*out) return ST_OK;
  hooks_tell_handle(HOOK_CONTEXT, refusal, handle, NULL);
  return fail(ST_INVALID_VALUE, "context %p is no context (destroyed, or its device reset?)", handle);
}

static status context_of(aclrtContext handle, context **out) { return context_found(handle, out, HOOK_HANDLE_REFUSED); }

aclError aclrtCreateContext(aclrtContext *context, int32_t deviceId) {
  API_ENTER();
  NEED(context);
  API_RETURN(create_context(context, deviceId));
}

aclError aclrtDestroyContext(aclrtContext handle) {
  API_ENTER();
  HELD_CONTEXT c = NULL;
  NEED(handle);
  NEED_OK(context_found(handle, &c, HOOK_HANDLE_NOT_DESTROYED));
  if (c->primary)
    API_RETURN(fail(ST_INVALID_VALUE, "context %p is the device's own, expected one of aclrtCreateContext", handle));
  if (!object_kill(&c->o)) API_RETURN(fail(ST_INVALID_VALUE, "context %p was destroyed by another thread", handle));
  API_TELL_HANDLE(HOOK_CONTEXT, HOOK_HANDLE_DESTROYED, handle);
  context_destroy(c, false);
  return ACL_SUCCESS;
}

aclError aclrtSetCurrentContext(aclrtContext handle) {
  API_ENTER();
  HELD_CONTEXT c = NULL;
  NEED(handle);
  NEED_OK(context_of(handle, &c));
  thread_set_context(c);
  return ACL_SUCCESS;
}

aclError aclrtGetCurrentContext(aclrtContext *handle) {
  API_ENTER();
  context *c;
  NEED(handle);
  NEED_OK(context_current(&c));
  *handle = c;
  return ACL_SUCCESS;
}

aclError aclrtCtxGetCurrentDefaultStream(aclrtStream *stream) {
  API_ENTER();
  context *c;
  NEED(stream);
  NEED_OK(context_current(&c));
  *stream = c->default_stream;
  return ACL_SUCCESS;
}

aclError aclrtGetPrimaryCtxState(int32_t deviceId, uint32_t *flags, int32_t *active) {
  API_ENTER();
  NEED(active);
  NEED_OK(device_check_child());
  NEED_OK(device_check(deviceId, "deviceId"));
  if (flags) *flags = 0;
  *active = device_has_primary(deviceId);
  return ACL_SUCCESS;
}

aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value) { API(process_option_set((int)opt, value)); }

aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t *value) {
  API_ENTER();
  NEED(value);
  NEED_OK(process_option_check((int)opt));
  *value = process_option((int)opt);
  return ACL_SUCCESS;
}

aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
  API_ENTER();
  context *c;
  NEED_OK(process_option_check_value((int)opt, value));
  NEED_OK(context_current(&c));
  atomic_store(&c->option[opt], value);
  atomic_fetch_or(&c->option_set, 1u << opt);
  return ACL_SUCCESS;
}

aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t *value) {
  API_ENTER();
  context *c;
  NEED(value);
  NEED_OK(process_option_check((int)opt));
  NEED_OK(context_current(&c));
  if (!(atomic_load(&c->option_set) >> opt & 1))
    API_RETURN(fail(ST_NEVER_SET, "opt %d was never set in this context", opt));
  *value = atomic_load(&c->option[opt]);
  return ACL_SUCCESS;
}
