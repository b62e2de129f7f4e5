/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for events. */
#include "runtime/wait/event.h"

#include <string.h>

#include "api/api.h"
#include "runtime/context.h"
#include "runtime/device.h"
#include "runtime/graph/capture.h"
#include "runtime/python_place.h"
#include "runtime/wait/event_share.h"

enum { PLAIN_FLAGS = ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE };

/* The timeout, in seconds, of waits that have none of their own; 0: no limit. */
static _Atomic uint32_t op_wait_timeout_s;

static aclrtEvent publish(event *e, const char *call) {
  e->place = python_places_wanted() ? python_place_note() : 0;
  hooks_tell_handle(HOOK_EVENT, HOOK_HANDLE_CREATED, e, call);
  object_publish(&e->o);
  return e;
}

static status create_event(aclrtEvent *out, event_kind kind, uint32_t flags, uint32_t known) {
  context *c;
  event *e;
  if (!flags || flags & ~known)
    return fail(ST_INVALID_PARAM, "flag is %#x, expected an OR of bits in %#x", flags, known);
  if (flags & ACL_EVENT_EXTERNAL && flags != ACL_EVENT_EXTERNAL)
    return fail(ST_INVALID_PARAM, "flag is %#x, expected ACL_EVENT_EXTERNAL alone", flags);
  if (flags & ACL_EVENT_IPC && flags != ACL_EVENT_IPC)
    return fail(ST_INVALID_PARAM, "flag is %#x, expected ACL_EVENT_IPC alone", flags);
  TRY(context_current(&c));
  TRY(device_take_event(c->device));
  const status st = event_create(c, kind, flags, &e);
  if (st == ST_OK)
    *out = publish(e, "aclrtCreateEvent");
  else
    device_give_event(c->device);
  return st;
}

aclError aclrtCreateEvent(aclrtEvent *event) {
  API_ENTER();
  NEED(event);
  API_RETURN(create_event(event, EVENT_PLAIN, PLAIN_FLAGS, PLAIN_FLAGS));
}

aclError aclrtCreateEventWithFlag(aclrtEvent *event, uint32_t flag) {
  API_ENTER();
  NEED(event);
  API_RETURN(create_event(event, EVENT_WITH_FLAG, flag,
                          ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE |
                              ACL_EVENT_DEVICE_USE_ONLY | ACL_EVENT_EXTERNAL));
}

aclError aclrtCreateEventExWithFlag(aclrtEvent *event, uint32_t flag) {
  API_ENTER();
  NEED(event);
  API_RETURN(create_event(event, EVENT_EX, flag,
                          ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE | ACL_EVENT_IPC));
}

/* Looks up the event and takes a reference to it, which the caller drops (HELD_EVENT). */
static status event_found(aclrtEvent handle, event **out, hook_handle_act refusal) {
  TRY(device_check_child());
  *out = object_acquire(OBJECT_EVENT, handle);
  if (*out) return ST_OK;
  hooks_tell_handle(HOOK_EVENT, refusal, handle, NULL);
  return fail(ST_INVALID_VALUE, "event %p is no event (destroyed?)", handle);
}

static status event_of(aclrtEvent handle, event **out) { return event_found(handle, out, HOOK_HANDLE_REFUSED); }

/* Looks up an event and a stream, which must both belong to the current context. */
static status event_and_stream(aclrtEvent event_handle, aclrtStream stream_handle, event **e, stream **s) {
  TRY(event_of(event_handle, e));
  TRY(context_stream(stream_handle, s));
  return event_check_context(*e, *s);
}

aclError aclrtDestroyEvent(aclrtEvent handle) {
  API_ENTER();
  HELD_EVENT e = NULL;
  NEED(handle);
  NEED_OK(event_found(handle, &e, HOOK_HANDLE_NOT_DESTROYED));
  event_note_end(e, CALLER);
  if (!object_kill(&e->o)) API_RETURN(fail(ST_INVALID_VALUE, "event %p was destroyed by another thread", handle));
  API_TELL_HANDLE(HOOK_EVENT, HOOK_HANDLE_DESTROYED, e);
  device_give_event(e->device);
  event_unref(e);
  return ACL_SUCCESS;
}

/* All records of an event have the same flag, and so have all its waits: the first call decides, even if it fails. */
static status keep_use(uint8_t *use, uint32_t flag, const event *e) {
  static const char *const names[] = {"", "DEFAULT", "EXTERNAL"};
  const uint8_t now = flag == ACL_EVENT_RECORD_EXTERNAL ? EVENT_USE_OUTSIDE : EVENT_USE_DEFAULT;
  const uint8_t seen = __atomic_load_n(use, __ATOMIC_RELAXED);
  if (likely(seen == now)) return ST_OK;
  if (!seen) __atomic_store_n(use, now, __ATOMIC_RELAXED);
  if (!seen) return ST_OK;
  return fail(ST_INVALID_VALUE, "flag is %s, but event %u was used with %s before", names[now], e->id, names[seen]);
}

static status record_event(aclrtEvent event_handle, aclrtStream stream_handle) {
  HELD_EVENT e = NULL;
  stream *s;
  TRY(event_and_stream(event_handle, stream_handle, &e, &s));
  TRY(keep_use(&e->record_use, ACL_EVENT_RECORD_DEFAULT, e));
  TRY(event_record(e, s));
  if (python_places_wanted()) python_place_recorded(stream_handle, e->place);
  return ST_OK;
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream) {
  API_ENTER();
  NEED(event);
  API_RETURN(record_event(event, stream));
}

/* The flag EXTERNAL needs a stream that is being captured, and an event of a certain kind. */
static status check_outside(const event *e, const stream *s) {
  if (!capture_records(s))
    return fail(ST_STREAM_NOT_CAPTURED, "flag is EXTERNAL, and stream %u is not being captured", s->id);
  if (e->kind == EVENT_EX && e->flags == EVENT_SYNC) return ST_OK;
  return fail(ST_INVALID_VALUE, "flag is EXTERNAL, expected an event of aclrtCreateEventExWithFlag with ACL_EVENT_SYNC "
                                "alone");
}

static status record_outside(aclrtEvent event_handle, aclrtStream stream_handle) {
  HELD_EVENT e = NULL;
  stream *s;
  bool taken;
  TRY(event_and_stream(event_handle, stream_handle, &e, &s));
  TRY(keep_use(&e->record_use, ACL_EVENT_RECORD_EXTERNAL, e));
  TRY(check_outside(e, s));
  return capture_record(e, s, true, &taken);
}

aclError aclrtRecordEventWithFlag(aclrtEvent event, aclrtStream stream, uint32_t flag) {
  API_ENTER();
  NEED(event);
  if (flag > ACL_EVENT_RECORD_EXTERNAL) API_RETURN(fail(ST_INVALID_PARAM, "flag is %u, expected 0 or 1", flag));
  API_RETURN(flag == ACL_EVENT_RECORD_EXTERNAL ? record_outside(event, stream) : record_event(event, stream));
}

aclError aclrtResetEvent(aclrtEvent event_handle, aclrtStream stream_handle) {
  API_ENTER();
  HELD_EVENT e = NULL;
  stream *s;
  NEED(event_handle);
  NEED_OK(event_and_stream(event_handle, stream_handle, &e, &s));
  if (e->kind != EVENT_WITH_FLAG || !(e->flags & (EVENT_SYNC | EVENT_EXTERNAL)))
    API_RETURN(fail(ST_INVALID_VALUE,
                    "event %p can't be reset, expected one of aclrtCreateEventWithFlag with ACL_EVENT_SYNC",
                    event_handle));
  API_RETURN(event_reset(e, s));
}

static status wait_outside(aclrtStream stream_handle, aclrtEvent event_handle, uint32_t timeout_s) {
  HELD_EVENT e = NULL;
  stream *s;
  bool taken;
  TRY(event_and_stream(event_handle, stream_handle, &e, &s));
  TRY(keep_use(&e->wait_use, ACL_EVENT_WAIT_EXTERNAL, e));
  TRY(check_outside(e, s));
  if (timeout_s) return fail(ST_INVALID_VALUE, "timeout is %u, expected 0 with the flag EXTERNAL", timeout_s);
  return capture_wait(e, s, 0, true, &taken);
}

/* The stream may be of another device or context than the event: torch_npu (2.8, 2.9) waits that way when it copies
 * from device to device. */
static status wait(aclrtStream stream_handle, aclrtEvent event_handle, int64_t timeout_s) {
  HELD_EVENT e = NULL;
  stream *s;
  TRY(event_of(event_handle, &e));
  TRY(context_stream(stream_handle, &s));
  TRY(keep_use(&e->wait_use, ACL_EVENT_WAIT_DEFAULT, e));
  if (e->kind != EVENT_PLAIN && !(e->flags & (EVENT_SYNC | EVENT_EXTERNAL | EVENT_IPC)))
    return fail(ST_INVALID_VALUE, "event %p can't be waited for, expected one made with ACL_EVENT_SYNC", event_handle);
  if (timeout_s < 0)
    return fail(ST_INVALID_VALUE, "timeout is %jd, expected 0 (for ever) or more seconds", (intmax_t)timeout_s);
  return event_wait(e, s, (uint64_t)timeout_s * 1000000000u);
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) {
  API_ENTER();
  NEED(event);
  API_RETURN(wait(stream, event, op_wait_timeout_s));
}

aclError aclrtStreamWaitEventWithTimeout(aclrtStream stream, aclrtEvent event, int32_t timeout) {
  API_ENTER();
  NEED(event);
  API_RETURN(wait(stream, event, timeout));
}

aclError aclrtStreamWaitEventWithFlag(aclrtStream stream, aclrtEvent event, uint32_t timeout, uint32_t flag) {
  API_ENTER();
  NEED(event);
  if (flag > ACL_EVENT_WAIT_EXTERNAL) API_RETURN(fail(ST_INVALID_PARAM, "flag is %u, expected 0 or 1", flag));
  API_RETURN(flag == ACL_EVENT_WAIT_EXTERNAL ? wait_outside(stream, event, timeout) : wait(stream, event, timeout));
}

aclError aclrtSetOpWaitTimeout(uint32_t timeout) {
  API_ENTER();
  op_wait_timeout_s = timeout;
  return ACL_SUCCESS;
}

/* Looks up, with a reference, an event that the host waits for or queries. */
static status asked_event_of(aclrtEvent handle, event **out) {
  TRY(event_of(handle, out));
  return capture_refuse_event(*out);
}

static status synchronize_event(aclrtEvent handle, int32_t timeout_ms) {
  HELD_EVENT e = NULL;
  uint64_t ns;
  TRY(api_timeout_ns(timeout_ms, &ns));
  TRY(asked_event_of(handle, &e));
  return api_synchronised(event_synchronize(e, ns));
}

aclError aclrtSynchronizeEvent(aclrtEvent event) {
  API_ENTER();
  NEED(event);
  API_RETURN(synchronize_event(event, -1));
}

aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout) {
  API_ENTER();
  NEED(event);
  API_RETURN(synchronize_event(event, timeout));
}

/* As asked_event_of; the older entry points refuse events of the Ex creator. */
static status old_event_of(aclrtEvent handle, event **out) {
  TRY(asked_event_of(handle, out));
  if ((*out)->kind != EVENT_EX) return ST_OK;
  return fail(ST_INVALID_VALUE, "event %p was made by aclrtCreateEventExWithFlag, expected aclrtQueryEventStatus",
              handle);
}

aclError aclrtQueryEvent(aclrtEvent handle, aclrtEventStatus *status) {
  API_ENTER();
  HELD_EVENT e = NULL;
  NEED(handle);
  NEED(status);
  NEED_OK(old_event_of(handle, &e));
  *status = event_is_complete(e) ? ACL_EVENT_STATUS_COMPLETE : ACL_EVENT_STATUS_NOT_READY;
  return ACL_SUCCESS;
}

aclError aclrtQueryEventStatus(aclrtEvent handle, aclrtEventRecordedStatus *status) {
  API_ENTER();
  HELD_EVENT e = NULL;
  NEED(handle);
  NEED(status);
  NEED_OK(asked_event_of(handle, &e));
  *status = event_is_complete(e) ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
  return ACL_SUCCESS;
}

aclError aclrtQueryEventWaitStatus(aclrtEvent handle, aclrtEventWaitStatus *status) {
  API_ENTER();
  HELD_EVENT e = NULL;
  NEED(handle);
  NEED(status);
  NEED_OK(old_event_of(handle, &e));
  *status = event_waits_are_complete(e) ? ACL_EVENT_WAIT_STATUS_COMPLETE : ACL_EVENT_WAIT_STATUS_NOT_READY;
  return ACL_SUCCESS;
}

/* Plain events record times; other events do so only if made with ACL_EVENT_TIME_LINE. */
static status time_of(aclrtEvent handle, uint64_t *ns) {
  HELD_EVENT e = NULL;
  TRY(asked_event_of(handle, &e));
  *ns = e->flags & EVENT_TIME_LINE ? event_time_ns(e) : 0;
  return *ns ? ST_OK : fail(ST_NO_TIMESTAMP, "event %p has no time, expected a completed record", handle);
}

static status elapsed(float *ms, aclrtEvent start, aclrtEvent end) {
  uint64_t from, to;
  TRY(time_of(start, &from));
  TRY(time_of(end, &to));
  if (to < from)
    return fail(ST_REVERSED_TIMESTAMP, "endEvent was recorded %ju ns before startEvent", (uintmax_t)(from - to));
  *ms = (float)((double)(to - from) * 1e-6);
  return ST_OK;
}

aclError aclrtEventElapsedTime(float *ms, aclrtEvent startEvent, aclrtEvent endEvent) {
  API_ENTER();
  NEED(ms);
  NEED(startEvent);
  NEED(endEvent);
  API_RETURN(elapsed(ms, startEvent, endEvent));
}

aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t *timestamp) {
  API_ENTER();
  uint64_t ns;
  NEED(event);
  NEED(timestamp);
  NEED_OK(time_of(event, &ns));
  *timestamp = ns / 1000;
  return ACL_SUCCESS;
}

aclError aclrtGetEventId(aclrtEvent handle, uint32_t *eventId) {
  API_ENTER();
  HELD_EVENT e = NULL;
  NEED(handle);
  NEED(eventId);
  NEED_OK(event_of(handle, &e));
  if (e->flags & EVENT_IPC)
    API_RETURN(fail(ST_NOT_SUPPORTED, "event %p is one between processes, which have no ids", handle));
  *eventId = e->id;
  return ACL_SUCCESS;
}

/* ---- between processes ------------------------------------------------------------------------------------------- */

_Static_assert(ACL_EVENT_IPC == EVENT_IPC && sizeof(aclrtIpcEventHandle) + 1 == EXCHANGE_TEXT_BYTES,
               "a handle is the text of a key without its terminating 0");

aclError aclrtIpcGetEventHandle(aclrtEvent handle_of, aclrtIpcEventHandle *handle) {
  API_ENTER();
  HELD_EVENT e = NULL;
  char key[EXCHANGE_TEXT_BYTES];
  NEED(handle_of);
  NEED(handle);
  NEED_OK(event_of(handle_of, &e));
  NEED_OK(event_export(e, key));
  memcpy(handle->reserved, key, sizeof handle->reserved);
  return ACL_SUCCESS;
}

static status open_event(const aclrtIpcEventHandle *handle, aclrtEvent *out) {
  context *c;
  event *e;
  char key[EXCHANGE_TEXT_BYTES] = {0};
  memcpy(key, handle->reserved, sizeof handle->reserved);
  TRY(context_current(&c));
  TRY(device_take_event(c->device));
  const status st = event_import(key, c, &e);
  if (st == ST_OK)
    *out = publish(e, "aclrtIpcOpenEventHandle");
  else
    device_give_event(c->device);
  return st;
}

aclError aclrtIpcOpenEventHandle(aclrtIpcEventHandle handle, aclrtEvent *event) {
  API_ENTER();
  NEED(event);
  API_RETURN(open_event(&handle, event));
}
