/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/thread.h"

#include <pthread.h>

#include "runtime/context.h"
#include "runtime/stream.h"

_Thread_local thread_holdings thread_own;

static pthread_key_t at_end;
static pthread_once_t once = PTHREAD_ONCE_INIT;

#ifdef CANNON_INVARIANTS
bool thread_is_valid(void) {
  for (int i = 0; i < THREAD_STREAMS; ++i) {
    const stream *s = thread_own.streams[i];
    if (s && (thread_place(s) != &thread_own.streams[i] || !atomic_load(&s->o.refs))) return false;
  }
  return !thread_own.context || atomic_load(&thread_own.context->o.refs) >= 1;
}
#endif

static void thread_drop_all(void *unused) {
  (void)unused;
  thread_own.ends = false; /* if another destructor looks up a stream later, this one is called again */
  for (int i = 0; i < THREAD_STREAMS; ++i) {
    stream *s = thread_own.streams[i];
    thread_own.streams[i] = NULL;
    if (s) stream_unref(s);
  }
  thread_set_context(NULL);
}

static void thread_make_key(void) { pthread_key_create(&at_end, thread_drop_all); }

/* Sees to it that the references are dropped when the thread ends. If this fails for lack of memory, they never are. */
static void expect_end(void) {
  if (thread_own.ends) return;
  pthread_once(&once, thread_make_key);
  thread_own.ends = pthread_setspecific(at_end, &thread_own) == 0;
}

stream *thread_hold_other(const void *handle) {
  stream **place = thread_place(handle), *before = *place;
  *place = object_acquire(OBJECT_STREAM, handle);
  if (*place) expect_end();
  INVARIANT_WALK(thread_is_valid());
  if (before) stream_unref(before);
  return *place;
}

void thread_set_context(context *c) {
  context *before = thread_own.context;
  if (c == before) return;
  thread_own.context = c;
  if (c) {
    object_ref(&c->o);
    expect_end();
  }
  INVARIANT_WALK(thread_is_valid());
  if (before) context_unref(before);
}

void thread_drop_stream(const stream *s) {
  stream **place = thread_place(s);
  if (*place != s) return;
  stream_unref(*place);
  *place = NULL;
}

void thread_forget(void) { thread_own = (thread_holdings){.ends = thread_own.ends}; }
