/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/context.h"

#include <stdlib.h>
#include <string.h>

#include "base/hooks.h"
#include "base/invariant.h"
#include "base/lock.h"
#include "runtime/callback.h"
#include "runtime/device.h"
#include "runtime/graph/capture.h"
#include "runtime/memory/stream_allocator.h"
#include "runtime/scheduler.h"
#include "runtime/task_tell.h"
#include "runtime/wait/stream_order.h"
#include "trace/stats_write.h"

#ifdef CANNON_INVARIANTS
/* The list is linked in both directions, its streams are those of the context, and the default stream is among them
 * until the context is destroyed. */
bool context_is_valid(const context *c) {
  const stream *previous = NULL;
  bool has_default = !c->default_stream;
  for (const stream *s = c->streams; s; previous = s, s = s->next_in_context) {
    if (s->previous_in_context != previous || s->home != c || atomic_load(&s->context) != c || s->device != c->device)
      return false;
    if (!atomic_load(&s->o.refs) || s->next_in_context == s) return false;
    if (s == c->default_stream) has_default = true;
  }
  return atomic_load(&c->o.refs) >= 1 && (has_default || c->closed);
}
#endif

status context_find(context **out) {
  const int device = device_default();
  TRY(device_check_child());
  if (device >= 0) {
    TRY(device_set(device));
    return context_current(out);
  }
  return fail(ST_NO_CONTEXT, "no context in this thread, expected aclrtSetDevice or aclrtSetCurrentContext before");
}

status context_stream(void *handle, stream **out) {
  context *c;
  TRY(context_current(&c));
  stream *s = thread_hold_stream(likely(handle) ? handle : c->default_stream);
  if (unlikely(!s)) {
    if (handle) hooks_tell_handle(HOOK_STREAM, HOOK_HANDLE_REFUSED, handle, NULL);
    if (handle) return fail(ST_INVALID_VALUE, "stream %p is no stream (destroyed?)", handle);
    return fail(ST_NO_CONTEXT, "the current context (device %d) was destroyed by another thread", c->device);
  }
  if (unlikely(s->context != c && !s->context)) hooks_tell_handle(HOOK_STREAM, HOOK_HANDLE_REFUSED, handle, NULL);
  if (unlikely(s->context != c))
    return fail(ST_OTHER_CONTEXT, "stream %p is not of the current context (device %d)", handle, c->device);
  *out = s;
  return ST_OK;
}

status context_create(int device, bool primary, context **out) {
  context *c = object_new(OBJECT_CONTEXT);
  if (!c) return fail(ST_NO_HOST_MEMORY, "no room for another context");
  c->device = device;
  c->primary = primary;
  mutex_init(&c->lock, LOCK_CONTEXT);
  const status st = stream_create(c, 0, 0, &c->default_stream);
  if (st != ST_OK) {
    context_unref(c);
    return st;
  }
  INVARIANT(c->default_stream->home == c && c->default_stream->device == device);
  object_publish(&c->default_stream->o);
  object_publish(&c->o);
  trace_add(&trace_stats()->n_contexts, 1);
  *out = c;
  return ST_OK;
}

void context_unref(context *c) {
  if (!object_unref(&c->o)) return;
  INVARIANT(!c->streams); /* each had a reference */
  free(c->stop_words);
  mutex_destroy(&c->lock);
  object_release(OBJECT_CONTEXT, &c->o);
}

status context_add_stream(context *c, stream *s) {
  INVARIANT(!s->home && !object_is_live(&s->o));
  TRY(device_take_stream(c->device));
  s->device = c->device;
  s->id = device_stream_id(c->device);
  mutex_lock(&c->lock);
  const bool closed = c->closed;
  if (!closed) {
    object_ref(&c->o);
    s->home = c;
    atomic_store(&s->context, c);
    s->next_in_context = c->streams;
    if (c->streams) c->streams->previous_in_context = s;
    c->streams = s;
  }
  INVARIANT_WALK(context_is_valid(c));
  mutex_unlock(&c->lock);
  if (closed) {
    device_give_stream(c->device);
    return fail(ST_NO_CONTEXT, "the context (device %d) was destroyed by another thread", c->device);
  }
  stream_divert_anew(s); /* an abort that came before the stream was in the list is seen here */
  return ST_OK;
}

/* c->lock is held. */
static void unlink_stream(context *c, stream *s) {
  *(s->previous_in_context ? &s->previous_in_context->next_in_context : &c->streams) = s->next_in_context;
  if (s->next_in_context) s->next_in_context->previous_in_context = s->previous_in_context;
  s->next_in_context = s->previous_in_context = NULL;
  atomic_store(&s->context, NULL);
}

void context_remove_stream(stream *s) {
  context *c = s->home;
  stream_close(s);
  capture_forget(s);
  mutex_lock(&c->lock);
  const bool member = s->context == c;
  if (member) unlink_stream(c, s);
  INVARIANT_WALK(context_is_valid(c));
  mutex_unlock(&c->lock);
  if (!member) return;
  if (hooks_tasks_wanted()) hooks_order((hook_order){.kind = HOOK_STREAM_GONE, .device = s->device, .stream = s->id});
  callback_forget(s);
  allocator_forget(s);
  order_forget(s);
  scheduler_forget(s);
  device_give_stream(s->device);
}

/* For iterating over the streams of a context from the newest to the oldest, although waiting for one needs
 * the lock released and streams are created and destroyed meanwhile: the newest stream that is older than
 * `serial`, with a reference. */
static stream *stream_before(context *c, uint64_t serial) {
  stream *found = NULL;
  mutex_lock(&c->lock);
  for (stream *s = c->streams; s; s = s->next_in_context)
    if (s->o.serial < serial && (!found || s->o.serial > found->o.serial)) found = s;
  if (found) object_ref(&found->o);
  mutex_unlock(&c->lock);
  return found;
}

status context_synchronize(context *c, uint64_t timeout_ns) {
  const uint64_t deadline_ns = timeout_ns ? now_ns() + timeout_ns : 0;
  status first = ST_OK;
  TRY(capture_refuse_context(c));
  stream *s;
  for (uint64_t serial = UINT64_MAX; (s = stream_before(c, serial));) {
    serial = s->o.serial;
    const uint64_t now = deadline_ns ? now_ns() : 0;
    const status st = stream_synchronize(s, deadline_ns ? (now < deadline_ns ? deadline_ns - now : 1) : 0);
    stream_unref(s);
    if (first == ST_OK) first = st;
    if (st == ST_STREAM_TIMEOUT) return st;
  }
  return first;
}

void context_destroy(context *c, bool discard) {
  stream *s;
  mutex_lock(&c->lock);
  INVARIANT(!object_is_live(&c->o) && !c->closed);
  c->closed = true;
  mutex_unlock(&c->lock);
  if (!discard)
    for (uint64_t serial = UINT64_MAX; (s = stream_before(c, serial));) {
      serial = s->o.serial;
      stream_wait(s, stream_submitted(s), 0);
      task_tell_waited(s, false);
      stream_unref(s);
    }
  while ((s = stream_before(c, UINT64_MAX))) {
    const bool ours = s == c->default_stream && object_kill(&s->o);
    if (discard) stream_discard(s);
    if (unlikely(hooks_any()))
      hooks_handle((hook_handle){HOOK_STREAM, HOOK_HANDLE_ENDED, (uintptr_t)s, .owner = (uintptr_t)c});
    context_remove_stream(s);
    stream_unref(s);
    if (ours) stream_unref(s);
  }
  INVARIANT(!c->streams);
  context_unref(c);
}

void context_task_failed(context *c, status st, const char *words) {
  if (!atomic_load(&c->stop_on_failure)) return;
  mutex_lock(&c->lock);
  if (!context_is_stopped(c)) {
    free(c->stop_words);
    c->stop_words = strdup(words);
    atomic_store(&c->stopped, st);
  }
  mutex_unlock(&c->lock);
}

status context_fail_stopped(context *c, uint32_t stream_id) {
  mutex_lock(&c->lock);
  const status st = fail(context_stop_status(c), "a failed task has stopped the context of stream %u: %s", stream_id,
                         c->stop_words ? c->stop_words : "");
  mutex_unlock(&c->lock);
  return st;
}
