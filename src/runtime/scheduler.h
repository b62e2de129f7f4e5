/* SPDX-License-Identifier: Apache-2.0 */
/* The scheduler: library threads that run the streams which no thread waits for.
 *
 *   listed streams   a list of the streams that had tasks submitted lately; searched by workers and by the ticker
 *   workers          threads that run listed streams: as many as there are cores, started when first needed, asleep
 *                    when there is nothing to run. One more for each worker that is inside a user function, so that a
 *                    host function which blocks holds up no other stream
 *   ticker           a thread that looks at the listed streams every half millisecond and wakes workers for those that
 *                    can run; asleep while all listed streams are run or wait for events
 *
 * If a thread cannot be started (for a limit of the user or of the container), and at the end of the process, threads
 * that wait for a stream stand in for these threads: they look at the listed streams and run them, host functions too
 * if no worker is left.
 *
 * So no thread runs in an idle program, and a submission makes no system call but the first one after a pause.
 *
 * In random mode (CANNON_SCHEDULE_SEED=n, n not 0) each thread that submits or waits first runs a few tasks of streams
 * chosen at random, and workers are used as little as possible. So tasks run early or late, in legal orders other than
 * the usual lazy one, which reveals missing synchronisation. A program with one thread and no host functions gets the
 * same order from the same seed.
 *
 * Called by the other files of src/runtime. Thread-safe. */
#ifndef CANNON_RUNTIME_SCHEDULER_H
#define CANNON_RUNTIME_SCHEDULER_H

#include <stdatomic.h>
#include <stdbool.h>

#include "runtime/stream.h"

/* From this estimated time on, a task counts as long: workers and parallel loops inside other tasks leave it a core.
 * Also the least time on one core for which a parallel loop uses several threads. */
enum { SCHEDULER_LONG_NS = 20 * 1000 };

enum { SCHEDULER_TICK_NS = 500 * 1000 };

/* Puts the stream on the list, unless it is there. Starts the ticker. */
void scheduler_list(stream *s);

/* Takes a stream that was closed off the list, if its tasks are done, and drops the list's reference. Otherwise the
 * ticker does so later. The caller has a reference, and holds no lock. */
void scheduler_forget(stream *s);

/* Wakes the ticker: a listed stream may have become able to run. */
void scheduler_rouse(void);

/* Sees to it that a worker runs the stream soon. False if none will, since no thread can be started or the process
 * ends: then the caller may run it as RUN_AS_STAND_IN, if it holds no lock. */
bool scheduler_kick(stream *s);

/* Whether the ticker is missing, a worker was missing when one was needed, or the process ends. A waiting thread must
 * then not sleep for longer than SCHEDULER_TICK_NS between two calls of scheduler_stand_in(). */
bool scheduler_lacks_threads(void);

/* Does what the library's threads would do if they were there: looks at the listed streams as the ticker does, and runs
 * some tasks of one, user code too if no worker is left for it. Starts no task after the deadline (0: none). True if a
 * stream made progress. No lock is held. */
bool scheduler_stand_in(uint64_t deadline_ns);

/* For a thread that waits for a stream which waits for a value or a notify: any other stream may change that, so
 * it sees to it that all of them run. In random mode it runs some tasks of one itself; true if that made
 * progress. No lock is held. */
bool scheduler_run_others(void);

/* Whether random mode is on; and what it does at each submission: it runs some tasks of streams chosen at random,
 * or none. No lock is held. */
extern bool scheduler_is_random;
void scheduler_shuffle(void);

/* Called before and after a task whose estimate is SCHEDULER_LONG_NS or more. */
void scheduler_enter_long(bool as_waiter, bool user_code);
void scheduler_leave_long(bool as_waiter, bool user_code);

/* Whether threads that wait for streams run long tasks on all cores, or the process ends: a worker
 * then stops between two tasks. */
bool scheduler_should_yield(void);

/* The number of long tasks that all threads run now, without user code. */
int scheduler_n_long(void);

/* The number of processors that affinity and the control groups' quotas leave to this
 * process, read at the first call. */
int scheduler_n_cores(void);

/* Starts a detached library thread. Signals are blocked in it, since they are for the program's own threads. Returns 0
 * or the error of pthread_create(); logs nothing. */
int scheduler_start_thread(void *(*body)(void *), void *argument);

/* The number of listed streams. If it is 0, no task is pending that the reader submitted or knows of. */
extern _Atomic int scheduler_n_listed;

/* Fences for memory that was freed while tasks may still use it: see heap_fences (memory/heap/heap.h). */
bool scheduler_has_pending(void);
void *scheduler_fence_take(void);
bool scheduler_fence_passed(void *fence);

/* Ends the workers at the end of the process: they finish the task that they run and start no other; workers inside
 * user code are not waited for. Afterwards, threads that wait for a stream (in exit handlers and destructors of the
 * program) run it themselves. */
void scheduler_stop(void);

/* Whether the list of streams and the counts of threads are consistent (base/invariant.h).
 * The caller holds the lock. */
bool scheduler_is_valid(void);

#endif
