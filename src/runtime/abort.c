/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/abort.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "base/lock.h"
#include "memory/space.h"
#include "runtime/context.h"
#include "runtime/task_tell.h"

_Static_assert(SPACE_MAX_DEVICES <= 32, "a bit for each");
_Atomic uint32_t abort_running;

status abort_refuse(int device) {
  return fail(ST_DEVICE_ABORT,
              "the tasks of device %d are being aborted, expected this call after aclrtDeviceTaskAbort has returned",
              device);
}

/* ---- callbacks --------------------------------------------------------------------------------------------------- */

typedef struct registration {
  struct registration *next;
  char *name;
  abort_callback callback;
} registration;

static mutex lock = MUTEX_INITIALIZER(ABORT); /* guards the list */
static registration *registrations;           /* the oldest one first */

static registration **abort_find(const char *name) {
  registration **link = &registrations;
  while (*link && strcmp((*link)->name, name) != 0) link = &(*link)->next;
  return link;
}

static status abort_set_callback(const char *name, const abort_callback *callback) {
  registration **link = abort_find(name), *old = *link;
  if (callback && old) return fail(ST_INVALID_VALUE, "regName is %s, which is registered already", name);
  if (callback) {
    registration *added = malloc(sizeof *added);
    char *copy = strdup(name);
    if (!added || !copy) {
      free(added);
      free(copy);
      return fail(ST_NO_HOST_MEMORY, "no host memory for a callback");
    }
    *added = (registration){.name = copy, .callback = *callback};
    *link = added;
  } else if (old) {
    *link = old->next;
    free(old->name);
    free(old);
  }
  return ST_OK;
}

status abort_register(const char *name, const abort_callback *callback) {
  mutex_lock(&lock);
  const status st = abort_set_callback(name, callback);
  mutex_unlock(&lock);
  return st;
}

/* Copies the n-th callback. No lock is held while it is called, as callbacks may register others. */
static bool nth(size_t n, abort_callback *out) {
  mutex_lock(&lock);
  const registration *r = registrations;
  while (r && n--) r = r->next;
  if (r) *out = r->callback;
  mutex_unlock(&lock);
  return r;
}

static uint64_t ns_left(uint64_t deadline_ns) {
  const uint64_t now = now_ns();
  return now < deadline_ns ? deadline_ns - now : 1;
}

static status call_all(int device, abort_stage stage, uint64_t deadline_ns) {
  abort_callback c;
  for (size_t i = 0; nth(i, &c); ++i) {
    const uint32_t ms = deadline_ns ? (uint32_t)(ns_left(deadline_ns) / 1000000) : 0;
    const int32_t answer = c.call(c.function, device, stage, deadline_ns && !ms ? 1 : ms, c.argument);
    if (answer)
      return fail(ST_INTERNAL, "a callback %s the abort answered %d, expected 0", stage ? "after" : "before", answer);
  }
  return ST_OK;
}

/* ---- the streams ------------------------------------------------------------------------------------------------- */

static bool is_of(stream *s, int device) { return atomic_load(&s->context) && s->device == device; }

/* Marks the tasks of all streams before any of them is run: a dropped record ends waits, and no
 * task behind these may run. */
static void abort_drop_all(int device) {
  for (stream *s = NULL; (s = object_next(OBJECT_STREAM, s)); stream_unref(s))
    if (is_of(s, device)) stream_drop_submitted(s);
}

/* Waits until all tasks are done. After the deadline it still drops what can be dropped at once. */
static status drain_all(int device, uint32_t timeout_ms, uint64_t deadline_ns) {
  uint32_t late = 0, n_late = 0;
  for (stream *s = NULL; (s = object_next(OBJECT_STREAM, s)); stream_unref(s)) {
    if (!is_of(s, device)) continue;
    if (stream_wait(s, stream_submitted(s), deadline_ns ? ns_left(deadline_ns) : 0) != ST_STREAM_TIMEOUT) {
      task_tell_waited(s, false);
      continue;
    }
    late = s->id;
    ++n_late;
  }
  if (!n_late) return ST_OK;
  return fail(ST_WAIT_TIMEOUT, "stream %u of device %d, and %u others, still run a task after %u ms", late, device,
              n_late - 1, timeout_ms);
}

static void forget_failures(int device) {
  for (stream *s = NULL; (s = object_next(OBJECT_STREAM, s)); stream_unref(s)) {
    context *c = s->context;
    if (!c || s->device != device) continue;
    stream_forget_failure(s);
    atomic_store(&c->stopped, ST_OK);
  }
}

static bool has_streams(int device) {
  bool found = false;
  for (stream *s = NULL; !found && (s = object_next(OBJECT_STREAM, s)); stream_unref(s)) found = is_of(s, device);
  return found;
}

static status abort_run(int device, uint32_t timeout_ms, uint64_t deadline_ns) {
  abort_drop_all(device);
  TRY(call_all(device, ABORT_BEFORE, deadline_ns));
  TRY(drain_all(device, timeout_ms, deadline_ns));
  TRY(call_all(device, ABORT_AFTER, deadline_ns));
  forget_failures(device);
  return ST_OK;
}

status abort_device(int device, uint32_t timeout_ms) {
  INVARIANT(device >= 0 && device < SPACE_MAX_DEVICES);
  const uint32_t bit = UINT32_C(1) << device;
  if (timeout_ms > ABORT_MAX_MS)
    return fail(ST_INVALID_VALUE, "timeout is %u ms, expected at most %d", timeout_ms, ABORT_MAX_MS);
  if (!has_streams(device)) return fail(ST_NO_CONTEXT, "device %d has no context, expected aclrtSetDevice", device);
  if (atomic_fetch_or(&abort_running, bit) & bit) return abort_refuse(device);
  const status st = abort_run(device, timeout_ms, timeout_ms ? now_ns() + timeout_ms * UINT64_C(1000000) : 0);
  INVARIANT(abort_is_running(device));
  atomic_fetch_and(&abort_running, ~bit);
  for (stream *s = NULL; (s = object_next(OBJECT_STREAM, s)); stream_unref(s))
    if (is_of(s, device)) stream_divert_anew(s);
  return st;
}
