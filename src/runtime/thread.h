/* SPDX-License-Identifier: Apache-2.0 */
/* The references that a thread holds between calls: to its current context, and to the streams that it used last.
 *
 * They keep an object that another thread destroys during a call valid until the call is over, and they make looking up
 * the stream of an earlier call cost no atomic operation. A destroyed object stays in memory until the thread uses
 * another one in its place, or ends. There are THREAD_STREAMS places for streams; the address of a stream determines
 * its place, so a thread that alternates between a few streams usually holds all of them.
 *
 * Called by context.c, device.c and src/api, each for the calling thread. */
#ifndef CANNON_RUNTIME_THREAD_H
#define CANNON_RUNTIME_THREAD_H

#include "runtime/object.h"

typedef struct context context;
typedef struct stream stream;

enum { THREAD_STREAMS = 4 };

typedef struct {
  context *context;                /* with a reference; NULL: none was set */
  stream *streams[THREAD_STREAMS]; /* with references, or NULL */
  bool ends;                       /* a destructor is registered, which drops them when the thread ends */
} thread_holdings;
extern INTERNAL _Thread_local thread_holdings thread_own;

/* Makes c the thread's context; NULL: none. The caller has a reference, and keeps it. The reference to the
 * former context is dropped. */
void thread_set_context(context *c);

/* Drops the thread's reference to a stream that it has destroyed, if it holds one. */
void thread_drop_stream(const stream *s);

/* For the child of a fork: forgets the references without touching the objects, which other
 * threads may have been changing. */
void thread_forget(void);

/* Whether the calling thread's references are consistent (base/invariant.h). */
bool thread_is_valid(void);

static inline stream **thread_place(const void *handle) {
  return &thread_own.streams[((uintptr_t)handle >> STREAM_SLOT_SHIFT) % THREAD_STREAMS];
}

/* The live stream of a handle; NULL for any other pointer. The caller may use it until the thread looks up another
 * stream, whatever other threads destroy meanwhile. */
__attribute__((cold)) stream *thread_hold_other(const void *handle);
static inline stream *thread_hold_stream(const void *handle) {
  stream *held = *thread_place(handle);
  return likely(held && held == handle && object_is_live((const object *)held)) ? held : thread_hold_other(handle);
}

#endif
