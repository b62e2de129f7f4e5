/* What a thread holds between calls: its current context, and the streams that it used last.
 *
 * Both are references. So an object that another thread destroys in the middle of a call stays what it was until the
 * call is over, and looking up the stream of the last call again costs no atomic operation. A destroyed object stays in
 * memory until the thread uses another one or ends. There are a few places for streams, and a stream's slot chooses its
 * place: a thread that alternates between a few streams usually holds all of them. */
#ifndef CANNON_RUNTIME_THREAD_H
#define CANNON_RUNTIME_THREAD_H

#include "runtime/object.h"

typedef struct context context;
typedef struct stream stream;

enum { THREAD_STREAMS = 4 };

typedef struct {
  context *context; /* NULL: none was set */
  stream *streams[THREAD_STREAMS];
  bool ends; /* what is held is dropped when the thread ends */
} thread_holdings;
extern INTERNAL _Thread_local thread_holdings thread_own;

/* Makes the context, which the caller has a reference to, or NULL the thread's. Drops the one before. */
void thread_set_context(context *c);

/* Drops what the thread holds of the stream, which it has destroyed. */
void thread_drop_stream(const stream *s);

/* In the child of a fork: forgets everything, without touching objects that threads may have been about to change. */
void thread_forget(void);

/* Whether the calling thread's holdings agree (base/invariant.h). */
bool thread_is_valid(void);

static inline stream **thread_place(const void *handle) {
  return &thread_own.streams[((uintptr_t)handle >> STREAM_SLOT_SHIFT) % THREAD_STREAMS];
}

/* The live stream of a handle, NULL for any other pointer. The caller may use it until the thread looks up another
 * stream, whatever other threads destroy meanwhile. */
__attribute__((cold)) stream *thread_hold_other(const void *handle);
static inline stream *thread_hold_stream(const void *handle) {
  stream *held = *thread_place(handle);
  return likely(held && held == handle && object_is_live((const object *)held)) ? held : thread_hold_other(handle);
}

#endif
