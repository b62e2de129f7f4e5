/* SPDX-License-Identifier: Apache-2.0 */
/* User functions in streams: host functions (aclrtLaunchHostFunc), which a library thread calls, and callbacks
 * (aclrtLaunchCallback), which a thread of the user's calls that is subscribed for the stream and inside
 * callback_process(). Called by src/api and context.c. Thread-safe. */
#ifndef CANNON_RUNTIME_CALLBACK_H
#define CANNON_RUNTIME_CALLBACK_H

#include "runtime/stream.h"

status host_function_submit(stream *s, void (*function)(void *), void *argument);

/* The same for a function of src/api that may wait for threads of the program. It is called once, with `dropped` where
 * it must only free its argument. */
typedef status library_function(void *argument, bool dropped);
status library_function_submit(stream *s, library_function *function, void *argument);

/* Subscribes a thread for a stream, or ends that. thread: the numeric value of its pthread_t. A thread can serve
 * several streams, all of one device; a stream has one thread. */
status callback_subscribe(uint64_t thread, stream *s);
status callback_unsubscribe(uint64_t thread, stream *s);

/* Submits a callback for the stream's thread. blocks: later tasks of the stream wait until it has returned. */
status callback_submit(stream *s, void (*function)(void *), void *argument, bool blocks);

/* Calls one callback that has arrived for the calling thread, and waits for it first. ST_REPORT_TIMEOUT after
 * timeout_ns (0: no limit), ST_THREAD_SUBSCRIBED if the thread is not subscribed. */
status callback_process(uint64_t timeout_ns);

/* Ends the stream's subscription. It has been removed from its context, so that no new one can come. */
void callback_forget(stream *s);

/* Whether subscriptions and mailboxes are consistent (base/invariant.h). The caller holds the lock of callback.c. */
bool callbacks_are_valid(void);

#endif
