/* Contexts, and which one a thread is in.
 *
 * A context belongs to a device and owns streams: a default one, and those made in it. Each device has at most one
 * primary context, made by the first set-device and gone with the last reset; explicit ones are made and destroyed by
 * the user. Memory is not owned by contexts. When a context goes, handles of its streams stay valid for destruction. */
#ifndef CANNON_RUNTIME_CONTEXT_H
#define CANNON_RUNTIME_CONTEXT_H

#include <pthread.h>

#include "runtime/object.h"
#include "runtime/stream.h"
#include "runtime/thread.h"

enum { CONTEXT_N_OPTIONS = 3 }; /* aclSysParamOpt: deterministic, debug kernel, strong consistency */

struct context {
  object o;
  int device;
  bool primary;
  stream *default_stream;
  pthread_mutex_t lock; /* guards the list of streams, default included, and closed */
  stream *streams;
  bool closed;                  /* takes no stream any more: it is being destroyed */
  _Atomic bool stop_on_failure; /* a stream of this context is in mode stop */
  _Atomic status stopped;       /* the failure that stopped the context, for good */
  _Atomic int64_t option[CONTEXT_N_OPTIONS];
  _Atomic uint32_t option_set; /* bit per option */
};

/* The calling thread's context. ST_NO_CONTEXT where there is none, or it is gone. Where the init config names a
 * default device, that one is set first. */
static inline status context_current(context **out);

/* The same without words, or NULL. */
static inline context *context_peek(void) {
  context *c = thread_own.context;
  return likely(c && object_is_live(&c->o)) ? c : NULL;
}

/* Sets the default device, or fails with words. */
__attribute__((cold)) status context_find(context **out);
static inline status context_current(context **out) {
  *out = context_peek();
  return likely(*out) ? ST_OK : context_find(out);
}

/* The stream that a handle means in this thread: NULL is the current context's default stream. It stays valid until the
 * thread looks up another one (thread.h). ST_INVALID_VALUE for a stale handle, ST_OTHER_CONTEXT for a stream of another
 * context. */
status context_stream(void *handle, stream **out);

/* An explicit context (or, from device.c, a primary one), with its default stream; published. */
status context_create(int device, bool primary, context **out);

/* Waits for the context's work (or drops it), destroys its default stream, orphans the others. The caller has killed
 * the handle. */
void context_destroy(context *c, bool discard);
void context_unref(context *c);

/* Whether the context and its list of streams agree (base/invariant.h); the caller holds the lock. */
bool context_is_valid(const context *c);

/* HELD_CONTEXT c = NULL: a variable that drops its reference at the end of its scope. */
static inline void context_drop(context **c) {
  if (*c) context_unref(*c);
}
#define HELD_CONTEXT __attribute__((cleanup(context_drop))) context *

/* Waits for all streams of the context: the first failure of any. timeout_ns 0: for ever. */
status context_synchronize(context *c, uint64_t timeout_ns);

/* From stream.c: membership, and the stop mode. c may be NULL in the last three. A context that was destroyed takes no
 * stream: ST_NO_CONTEXT. */
status context_add_stream(context *c, stream *s);
void context_remove_stream(stream *s);
void context_task_failed(context *c, status st);
static inline status context_stop_status(const context *c) {
  return c ? atomic_load_explicit(&c->stopped, memory_order_relaxed) : ST_OK;
}
static inline bool context_is_stopped(const context *c) { return context_stop_status(c) != ST_OK; }

#endif
