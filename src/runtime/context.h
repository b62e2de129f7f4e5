/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts, and the current context of a thread.
 *
 * A context belongs to a device and has streams: a default stream, and those that the user creates in it. Each device
 * has at most one primary context, which the first aclrtSetDevice creates and the last aclrtResetDevice destroys;
 * explicit contexts are created and destroyed by the user. Contexts do not own memory. When a context is destroyed, the
 * handles of its streams stay valid so that they can be destroyed.
 *
 * Called by src/api, src/op and the other files of src/runtime. All functions are thread-safe. */
#ifndef CANNON_RUNTIME_CONTEXT_H
#define CANNON_RUNTIME_CONTEXT_H

#include <pthread.h>

#include "base/lock.h"
#include "runtime/object.h"
#include "runtime/stream.h"
#include "runtime/thread.h"

enum { CONTEXT_N_OPTIONS = 3 }; /* aclSysParamOpt: deterministic, debug kernel, strong consistency */

/* Lives as an object of object.h does; each of its streams has a reference to it. What has no lock named is set
 * when the context is created. */
struct context {
  object o;
  int device;
  bool primary;
  stream *default_stream;
  mutex lock; /* guards the list of streams, default included, closed and stop_words */
  stream *streams;
  bool closed;                  /* the context is being destroyed: no stream can be added any more */
  _Atomic bool stop_on_failure; /* a stream of this context is in mode STREAM_FAIL_STOP */
  _Atomic status stopped;       /* the failure that stopped the context; only an abort of the device's tasks resets
                                   it */
  char *stop_words;             /* that failure's message; freed with the context */
  _Atomic int64_t option[CONTEXT_N_OPTIONS];
  _Atomic uint32_t option_set; /* bit i: option[i] was set */
};

/* The current context of the calling thread. ST_NO_CONTEXT if there is none, or it was destroyed. If the configuration
 * given to aclInit names a default device, a thread without a context gets that device's first. */
static inline status context_current(context **out);

/* As context_current(), but NULL without an error message, and without the default device. */
static inline context *context_peek(void) {
  context *c = thread_own.context;
  return likely(c && object_is_live(&c->o)) ? c : NULL;
}

/* The slow path of context_current(): sets the default device, or fails. */
__attribute__((cold)) status context_find(context **out);
static inline status context_current(context **out) {
  *out = context_peek();
  return likely(*out) ? ST_OK : context_find(out);
}

/* The stream that a handle stands for in the calling thread; a NULL handle stands for the default stream of the current
 * context. The thread keeps a reference until it looks up another stream (thread.h), so the caller needs none.
 * ST_INVALID_VALUE for a stale handle, ST_OTHER_CONTEXT for a stream of another context. */
status context_stream(void *handle, stream **out);

/* Creates and publishes a context with its default stream. primary: only device.c creates primary contexts. */
status context_create(int device, bool primary, context **out);

/* Waits for the tasks of the context's streams, or with `discard` drops them; destroys the default stream; leaves the
 * other streams without a context. The caller has killed the handle; its reference is dropped. */
void context_destroy(context *c, bool discard);
void context_unref(context *c);

/* Whether the context and its list of streams are consistent (base/invariant.h). The caller holds c->lock. */
bool context_is_valid(const context *c);

/* HELD_CONTEXT c = NULL declares a variable that drops its reference at the end of its scope. */
static inline void context_drop(context **c) {
  if (*c) context_unref(*c);
}
#define HELD_CONTEXT __attribute__((cleanup(context_drop))) context *

/* Waits for all streams of the context. Returns the first failure of any of them. timeout_ns 0: no limit. */
status context_synchronize(context *c, uint64_t timeout_ns);

/* For stream.c: adds a stream to the context (ST_NO_CONTEXT if that is being destroyed), and removes it. */
status context_add_stream(context *c, stream *s);
void context_remove_stream(stream *s);

/* For stream.c: a task of the context has failed, which stops the context if one of its streams is in that mode. */
void context_task_failed(context *c, status st, const char *words);

/* For stream.c: the failure that stopped the context, with its words, as that of another stream. */
status context_fail_stopped(context *c, uint32_t stream_id);

/* The failure that stopped the context, or ST_OK. c may be NULL. */
static inline status context_stop_status(const context *c) {
  return c ? atomic_load_explicit(&c->stopped, memory_order_relaxed) : ST_OK;
}
static inline bool context_is_stopped(const context *c) { return context_stop_status(c) != ST_OK; }

#endif
