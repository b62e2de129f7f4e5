/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for notifies and count notifies. */
#include "runtime/wait/notify.h"

#include "api/api.h"
#include "runtime/context.h"
#include "runtime/device.h"

_Static_assert(ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION == 2 &&
                   ACL_RT_NOTIFY_IMPORT_FLAG_ENABLE_PEER_ACCESS == 2,
               "one check for both");

_Static_assert((int)ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE == RECORD_SET &&
                   (int)ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE == RECORD_ADD &&
                   (int)ACL_RT_CNT_NOTIFY_RECORD_BIT_OR_MODE == RECORD_OR &&
                   (int)ACL_RT_CNT_NOTIFY_RECORD_BIT_AND_MODE == RECORD_AND &&
                   (int)ACL_RT_CNT_NOTIFY_WAIT_LESS_MODE == WAIT_LESS &&
                   (int)ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE == WAIT_EQUAL &&
                   (int)ACL_RT_CNT_NOTIFY_WAIT_BIGGER_MODE == WAIT_GREATER &&
                   (int)ACL_RT_CNT_NOTIFY_WAIT_BIGGER_OR_EQUAL_MODE == WAIT_GREATER_EQUAL &&
                   (int)ACL_RT_CNT_NOTIFY_WAIT_EQUAL_WITH_BITMASK_MODE == WAIT_ALL_BITS,
               "a cast will do");

static uint64_t seconds(uint32_t s) { return (uint64_t)s * 1000000000; }

static status create_notify(bool counts, uint64_t flag, uint64_t most, notify **out) {
  context *c;
  if (flag > most) return fail(ST_INVALID_VALUE, "flag is %ju, expected 0%s", (uintmax_t)flag, most ? " or 1" : "");
  TRY(context_current(&c));
  TRY(notify_create(c->device, counts, out));
  hooks_tell_handle(HOOK_NOTIFY, HOOK_HANDLE_CREATED, *out, "aclrtCreateNotify");
  object_publish(&(*out)->o);
  return ST_OK;
}

/* Looks up the notify and takes a reference to it, which the caller drops (HELD_NOTIFY), also after a failure because
 * of the wrong kind. */
static status notify_found(const void *handle, bool counts, notify **out, hook_handle_act refusal) {
  static const char *const names[] = {"notify", "count notify"};
  TRY(device_check_child());
  notify *n = *out = object_acquire(OBJECT_NOTIFY, handle);
  if (!n) {
    hooks_tell_handle(HOOK_NOTIFY, refusal, handle, NULL);
    return fail(ST_INVALID_VALUE, "%s %p is none (destroyed?)", names[counts], handle);
  }
  if (n->counts == counts) return ST_OK;
  return fail(ST_INVALID_VALUE, "%p is a %s, expected a %s", handle, names[n->counts], names[counts]);
}

static status notify_of(const void *handle, bool counts, notify **out) {
  return notify_found(handle, counts, out, HOOK_HANDLE_REFUSED);
}

static status destroy_notify(const void *handle, bool counts, void *site) {
  HELD_NOTIFY n = NULL;
  TRY(notify_found(handle, counts, &n, HOOK_HANDLE_NOT_DESTROYED));
  if (!notify_end(n, site)) return fail(ST_INVALID_VALUE, "notify %p was destroyed by another thread", handle);
  hooks_tell_handle(HOOK_NOTIFY, HOOK_HANDLE_DESTROYED, n, "aclrtDestroyNotify");
  notify_unref(n);
  return ST_OK;
}

static status notify_id_of(const void *handle, bool counts, uint32_t *id) {
  HELD_NOTIFY n = NULL;
  TRY(notify_of(handle, counts, &n));
  *id = n->id;
  return ST_OK;
}

aclError aclrtCreateNotify(aclrtNotify *notify, uint64_t flag) {
  API_ENTER();
  NEED(notify);
  API_RETURN(create_notify(false, flag, ACL_NOTIFY_DEVICE_USE_ONLY, (struct notify **)notify));
}

aclError aclrtCntNotifyCreate(aclrtCntNotify *cntNotify, uint64_t flag) {
  API_ENTER();
  NEED(cntNotify);
  API_RETURN(create_notify(true, flag, 0, (struct notify **)cntNotify));
}

aclError aclrtDestroyNotify(aclrtNotify notify) {
  API_ENTER();
  NEED(notify);
  API_RETURN(destroy_notify(notify, false, CALLER));
}

aclError aclrtCntNotifyDestroy(aclrtCntNotify cntNotify) {
  API_ENTER();
  NEED(cntNotify);
  API_RETURN(destroy_notify(cntNotify, true, CALLER));
}

aclError aclrtGetNotifyId(aclrtNotify notify, uint32_t *notifyId) {
  API_ENTER();
  NEED(notify);
  NEED(notifyId);
  API_RETURN(notify_id_of(notify, false, notifyId));
}

aclError aclrtCntNotifyGetId(aclrtCntNotify cntNotify, uint32_t *notifyId) {
  API_ENTER();
  NEED(cntNotify);
  NEED(notifyId);
  API_RETURN(notify_id_of(cntNotify, true, notifyId));
}

aclError aclrtRecordNotify(aclrtNotify handle, aclrtStream stream_handle) {
  API_ENTER();
  HELD_NOTIFY n = NULL;
  stream *s;
  NEED(handle);
  NEED_OK(notify_of(handle, false, &n));
  NEED_OK(context_stream(stream_handle, &s));
  API_RETURN(notify_record(n, RECORD_SET, 1, s));
}

aclError aclrtWaitAndResetNotify(aclrtNotify handle, aclrtStream stream_handle, uint32_t timeout) {
  API_ENTER();
  HELD_NOTIFY n = NULL;
  stream *s;
  NEED(handle);
  NEED_OK(notify_of(handle, false, &n));
  NEED_OK(context_stream(stream_handle, &s));
  API_RETURN(notify_wait(n, WAIT_EQUAL, 1, true, seconds(timeout), s));
}

aclError aclrtNotifyBatchReset(aclrtNotify *notifies, size_t num) {
  API_ENTER();
  NEED(notifies);
  if (!num) API_RETURN(fail(ST_INVALID_VALUE, "num is 0, expected more"));
  for (int pass = 0; pass < 2; ++pass) /* checks all of them before any is changed */
    for (size_t i = 0; i < num; ++i) {
      HELD_NOTIFY n = NULL;
      NEED_OK(notify_of(notifies[i], false, &n));
      if (pass) notify_clear(n);
    }
  API_RETURN(ST_OK);
}

aclError aclrtCntNotifyRecord(aclrtCntNotify handle, aclrtStream stream_handle, aclrtCntNotifyRecordInfo *info) {
  API_ENTER();
  HELD_NOTIFY n = NULL;
  stream *s;
  NEED(handle);
  NEED(info);
  const unsigned mode = info->mode;
  if (mode > RECORD_OR && mode != RECORD_AND)
    API_RETURN(fail(ST_INVALID_VALUE, "info->mode is %u, expected 0, 1, 2 or 4", mode));
  NEED_OK(notify_of(handle, true, &n));
  NEED_OK(context_stream(stream_handle, &s));
  API_RETURN(notify_record(n, (int)mode, info->value, s));
}

aclError aclrtCntNotifyWaitWithTimeout(aclrtCntNotify handle, aclrtStream stream_handle, aclrtCntNotifyWaitInfo *info) {
  API_ENTER();
  HELD_NOTIFY n = NULL;
  stream *s;
  NEED(handle);
  NEED(info);
  const unsigned mode = info->mode;
  if (mode >= N_WAIT_MODES) API_RETURN(fail(ST_INVALID_VALUE, "info->mode is %u, expected 0 to 4", mode));
  NEED_OK(notify_of(handle, true, &n));
  NEED_OK(context_stream(stream_handle, &s));
  API_RETURN(notify_wait(n, (int)mode, info->value, info->isClear, seconds(info->timeout), s));
}

aclError aclrtCntNotifyReset(aclrtCntNotify handle, aclrtStream stream_handle) {
  API_ENTER();
  HELD_NOTIFY n = NULL;
  stream *s;
  NEED(handle);
  NEED_OK(notify_of(handle, true, &n));
  NEED_OK(context_stream(stream_handle, &s));
  API_RETURN(notify_record(n, RECORD_SET, 0, s));
}

/* ---- between processes ------------------------------------------------------------------------------------------- */

/* Flags of an export: 0 (importing processes must be named) or 2 (every process may import). Flags of an import say
 * whether peer access is enabled, which it always is. */
static status notify_check_flags(uint64_t flags) {
  return !flags || flags == 2 ? ST_OK : fail(ST_INVALID_VALUE, "flags is %ju, expected 0 or 2", (uintmax_t)flags);
}

static status import_notify(const char *key, uint64_t flags, notify **out) {
  context *c;
  TRY(notify_check_flags(flags));
  TRY(context_current(&c));
  TRY(notify_import(key, c->device, out));
  hooks_tell_handle(HOOK_NOTIFY, HOOK_HANDLE_CREATED, *out, "aclrtNotifyImportByKey");
  object_publish(&(*out)->o);
  return ST_OK;
}

aclError aclrtNotifyGetExportKey(aclrtNotify handle, char *key, size_t len, uint64_t flags) {
  API_ENTER();
  HELD_NOTIFY n = NULL;
  NEED(handle);
  NEED(key);
  if (len < EXCHANGE_TEXT_BYTES)
    API_RETURN(fail(ST_INVALID_VALUE, "len is %zu, expected at least %d", len, EXCHANGE_TEXT_BYTES));
  NEED_OK(notify_check_flags(flags));
  NEED_OK(notify_of(handle, false, &n));
  API_RETURN(notify_export(n, flags == ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION, key));
}

aclError aclrtNotifySetImportPid(aclrtNotify handle, int32_t *pid, size_t num) {
  API_ENTER();
  HELD_NOTIFY n = NULL;
  NEED(handle);
  NEED(pid);
  if (!num) API_RETURN(fail(ST_INVALID_VALUE, "num is 0, expected more"));
  NEED_OK(notify_of(handle, false, &n));
  API_RETURN(notify_allow(n, pid, num));
}

aclError aclrtNotifySetImportPidInterServer(aclrtNotify handle, aclrtServerPid *serverPids, size_t num) {
  API_ENTER();
  HELD_NOTIFY n = NULL;
  (void)num;
  NEED(handle);
  NEED(serverPids);
  NEED_OK(notify_of(handle, false, &n));
  API_REFUSE(fail(ST_NOT_SUPPORTED, "there are no other servers; aclrtNotifySetImportPid names processes of this one"));
}

aclError aclrtNotifyImportByKey(aclrtNotify *notify, const char *key, uint64_t flags) {
  API_ENTER();
  NEED(notify);
  NEED(key);
  API_RETURN(import_notify(key, flags, (struct notify **)notify));
}
