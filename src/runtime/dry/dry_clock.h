/* SPDX-License-Identifier: Apache-2.0 */
/* The time of a dry run (dry.h), which is counted by models: the roofline of operators (roofline.h), the bandwidths of
 * links, the cost of collectives (comm/schedule/cost.h).
 *
 * Each stream has a clock. A task begins at the clock of its stream and moves it on; a wait for an event moves it to
 * the time of the record, and a collective to the latest of its ranks' streams. The latest clock is a lower bound of
 * the devices' time, since tasks that were not modelled take none.
 *
 * The host has a clock, too, if the user wants its time to count (--host-time): one for the process, which begins with
 * the first submission. Then no task begins before the time of its submission, and where the host waits for a stream or
 * an event, its clock moves to theirs. `measured` lets it run as long as the program really does, without its waits, in
 * which dry tasks run and not those of a device; a number lets each submission take so long, and nothing else any time.
 * Where several threads wait at the same time, a measured clock is that of the thread that comes back last.
 *
 * Communication is exposed as long as no other task of its device works in the same modelled time; this is brought up
 * to date as tasks of other streams are run, whichever are run first.
 *
 * Called where tasks run and where the host waits. Any thread; the lock is a leaf. Clocks of streams belong to their
 * runners. */
#ifndef CANNON_RUNTIME_DRY_DRY_CLOCK_H
#define CANNON_RUNTIME_DRY_DRY_CLOCK_H

#include "runtime/stream.h"
#include "trace/stats.h"

/* Adds to the time of the task that the calling thread runs; or, outside of tasks, of the synchronous copy that it
 * makes, which dry_copied_now() ends. Operations are those that roofline.h counts. */
void dry_spend(uint64_t ns, uint64_t operations);
void dry_copied_now(void);

/* What the calling thread has spent since it was asked last; it has then spent nothing. For recordings, also of runs
 * that are not dry, in which dry_model_copy() and dry_model_fill() do the counting of dry_copy() and dry_fill(). */
typedef struct {
  uint64_t ns, operations;
} dry_spent;
dry_spent dry_take_spent(void);

/* Runs a task and moves its stream's clock. For the stream's runner, as the following two. */
status dry_run_task(task *t, stream *s);

/* When the task that runs has begun, or how far it has come. */
uint64_t dry_clock(const stream *s);

/* The clock of a stream that the calling thread does not run. */
static inline uint64_t dry_stream_ns(const stream *s) { return __atomic_load_n(&s->dry_ns, __ATOMIC_RELAXED); }

/* The collective of the row that runs is over: the last of its ranks came to it at begin_ns, and it took ns. */
void dry_communicate(stream *s, stats_collective *row, uint64_t begin_ns, uint64_t ns);

/* The host's clock: when it submits a task (0: its time does not count); how far it is; and that it has waited, since
 * its clock was at since_ns, for something that was done at done_ns. */
uint64_t dry_host_submit(void);
uint64_t dry_host_now(void);
void dry_host_waited(uint64_t since_ns, uint64_t done_ns);

#endif
