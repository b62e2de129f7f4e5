/* User functions in streams: host functions, which a library thread calls, and callbacks, which the user's own thread
 * calls inside callback_process after it was subscribed for the stream. All calls from any thread. */
#ifndef CANNON_RUNTIME_CALLBACK_H
#define CANNON_RUNTIME_CALLBACK_H

#include "runtime/stream.h"

status host_function_submit(stream *s, void (*function)(void *), void *argument);

/* thread: the numeric value of its pthread_t. One thread serves any number of streams of one device, a stream has one
 * thread. */
status callback_subscribe(uint64_t thread, stream *s);
status callback_unsubscribe(uint64_t thread, stream *s);

/* A callback on the stream's thread; blocks: later tasks of the stream wait until it returned. */
status callback_submit(stream *s, void (*function)(void *), void *argument, bool blocks);

/* Calls what has arrived for the calling thread, waiting for a first one: ST_REPORT_TIMEOUT after timeout_ns
 * (0: for ever), ST_THREAD_SUBSCRIBED for a thread that is not subscribed. */
status callback_process(uint64_t timeout_ns);

/* The stream has left its context, and is about to go. */
void callback_forget(stream *s);

/* Whether subscriptions, mailboxes and callbacks agree (base/invariant.h); the caller holds the lock that guards them. */
bool callbacks_are_valid(void);

#endif
