/* Workers: library threads that run streams nobody waits for.
 *
 *   listed streams   those with something submitted lately; looked through by workers and by the ticker
 *   workers          as many as there are cores, made when first needed, asleep when nothing is to run; one more
 *                    for each that sits in user code, so that a blocked host function stops nobody else
 *   ticker           a thread that looks at the listed streams each half millisecond and wakes workers for what
 *                    waits; asleep while nothing is listed but streams that wait for events
 *
 * Where a thread cannot be started (a limit of the user or the container), and at the end of the process, waiters stand
 * in for these threads: they look and run themselves, host functions too if no worker is left.
 *
 * So an idle program has no running thread, and a submission makes no system call but the first after a pause.
 *
 * Random mode (CANNON_SCHEDULE_SEED=n, n not 0): whoever submits or waits first runs a few tasks of streams drawn by
 * lot, and workers are left out for as long as they can be. So tasks are run early or late, in other legal orders than
 * the usual lazy one, which shows up missing synchronisation. A program of one thread without host functions gets the
 * same order from the same seed. */
#ifndef CANNON_RUNTIME_SCHEDULER_H
#define CANNON_RUNTIME_SCHEDULER_H

#include <stdatomic.h>
#include <stdbool.h>

#include "runtime/stream.h"

/* A task this long counts as a runner of its own: parallel loops inside a task, and workers, leave it the cores. Also
 * what a parallel loop must be worth before it opens a team. */
enum { SCHEDULER_LONG_NS = 20 * 1000 };

enum { SCHEDULER_TICK_NS = 500 * 1000 };

/* Puts the stream on the list (idempotent). */
void scheduler_list(stream *s);

/* A listed stream that was blocked is so no more: the ticker looks again. */
void scheduler_rouse(void);

/* Sees to it that a worker runs the stream soon. False: none will, since no thread can be started or the process ends,
 * and the caller may run it as RUN_AS_STAND_IN where it holds no lock. */
bool scheduler_kick(stream *s);

/* Whether the ticker is missing, or a worker was when one was needed, or the process ends. A waiter must then not sleep
 * for longer than SCHEDULER_TICK_NS between two calls of scheduler_stand_in. */
bool scheduler_lacks_threads(void);

/* Does what the library's threads would, where they are lacking: looks at the listed streams as the ticker does, and
 * runs some tasks of one, user code too where no worker is left for it. True where something went on. Tasks start
 * before the deadline only (0: none). No lock is held. */
bool scheduler_stand_in(uint64_t deadline_ns);

/* For a waiter whose stream waits for a value, which any other may write: sees to it that all others run. In random
 * mode it runs some of one itself, and true says so. No lock is held. */
bool scheduler_run_others(void);

/* In random mode: runs what the lot says. No lock is held. */
extern bool scheduler_is_random;
void scheduler_shuffle(void);

/* Around a long task (its estimate above SCHEDULER_LONG_NS). */
void scheduler_enter_long(bool as_waiter, bool user_code);
void scheduler_leave_long(bool as_waiter, bool user_code);

/* Whether waiters have all cores, so that a worker should step aside between tasks. */
bool scheduler_should_yield(void);

/* Long tasks that run now, over all threads, user code not counted. */
int scheduler_n_long(void);

/* The processors that affinity and the control groups' quotas leave this process, as they were at the first call. */
int scheduler_n_cores(void);

/* Starts a library thread, which nobody joins. It takes no signals: those are for the program's own threads. Returns 0,
 * or the error of pthread_create; nothing is logged. Thread-safe. */
int scheduler_start_thread(void *(*body)(void *), void *argument);

/* How many streams are listed; where it is 0, nothing that the reader submitted, or was told of, is pending. */
extern _Atomic int scheduler_n_listed;

/* Fences, for memory that was freed while tasks may still use it: see heap_fences. */
bool scheduler_has_pending(void);
void *scheduler_fence_take(void);
bool scheduler_fence_passed(void *fence);

/* At the end of the process: workers finish the task they are in and start no other; user code is not waited for. What
 * is still waited for then, by exit handlers and destructors of the program's, is run by who waits. */
void scheduler_stop(void);

/* Whether the list of streams and the counts of threads agree (base/invariant.h); the caller holds the lock. */
bool scheduler_is_valid(void);

#endif
