/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: each is a queue of tasks in order, and is run by one thread at a time.
 *
 * Any thread submits tasks. The thread that runs the stream, its runner, holds the run lock: it is either a thread that
 * waits for the stream (stream_wait(), which runs tasks up to the position it waits for) or a worker (scheduler.h).
 * Waiting for an event, a notify or a value is a state of the stream ("blocked"), not of a thread. Handing work to
 * another thread costs 24 to 39 microseconds, so short tasks are left to the thread that waits.
 *
 * All functions are thread-safe. Lock order: context.lock, submit_lock, event.lock, the scheduler's lock. The
 * run lock is only ever tried, never waited for. While a task runs, its runner holds the run lock and no
 * other lock of the library. */
#ifndef CANNON_RUNTIME_STREAM_H
#define CANNON_RUNTIME_STREAM_H

#include "base/lock.h"
#include "base/sync.h"
#include "runtime/object.h"
#include "runtime/queue.h"

typedef struct context context;

enum { STREAM_FAIL_CONTINUE = 0, STREAM_FAIL_STOP = 1 };
enum { LIMIT_CUBE_CORES, LIMIT_VECTOR_CORES, N_CORE_LIMITS };

/* Lives as an object of object.h does. Fields without a lock named are set when the stream is created. */
struct stream {
  object o;
  context *home;            /* the context it was created in, with a reference */
  context *_Atomic context; /* home, or NULL after the stream was removed from it; the handle can still be destroyed */
  int device;
  uint32_t id, flags;
  _Atomic uint32_t priority;
  spinlock submit_lock;
  bool closed;   /* the stream is being destroyed and takes no further task; guarded by submit_lock */
  bool diverted; /* submissions take the slow path: the stream is captured, updates a group of tasks, is closed, its
                    device's tasks are being aborted, or the scheduler is in random mode; guarded by submit_lock */
  struct capture_lane *_Atomic recording; /* where tasks go while the stream is captured; changed with capture_lock and
                                             submit_lock held */
  struct graph_update *update;        /* of graph_group.c, while the stream updates a group; guarded by submit_lock */
  _Atomic uint64_t submitted_cost_ns; /* the sum over all submitted tasks; written with submit_lock held */
  queue q;
  /* Written by the runner, with the run lock held, unless said otherwise. */
  _Alignas(64) spinlock run_lock;
  _Atomic bool blocked;           /* the front task waits for something; ended by any thread, with stream_unblock() */
  _Atomic bool released;          /* was taken off a list of waiters, by a thread that will call stream_unblock() */
  _Atomic bool called;            /* the callback that the front task waits for has returned; set by callback.c */
  _Atomic uint64_t dropped_below; /* tasks at positions below this (set by any thread) are dropped and not run, ... */
  _Atomic uint64_t kept_below;    /* ... but not those below this, which a device would have begun already */
  uint64_t begun_ns;              /* the estimated time of the tasks below kept_below */
  uint64_t dry_ns;                /* the clock in a dry run (dry.h) */
  _Atomic status error;           /* the first failure since the last synchronisation, and its message (malloc'ed) */
  char *_Atomic error_text;
  _Atomic uint64_t retired_cost_ns; /* the part of submitted_cost_ns that is done */
  /* Between the runner and the threads that wait for the stream. */
  _Atomic uint32_t wanted;       /* number of threads that want the run lock now: workers step aside */
  _Atomic uint32_t sleepers;     /* number of waiting threads that sleep on the futex `wake` */
  _Atomic uint32_t wake;         /* grows with each wake-up */
  _Atomic uint64_t sleep_target; /* lowest position that a sleeping thread waits for */
  /* What the front task waits for. The first three are guarded by the lock of the event that it waits for; next_waiter
   * and waits_task by the lock of the list (waiters.h) or the notify, where it waits by one of these. */
  event *_Atomic waits_for;
  stream *next_waiter; /* in the list of streams that wait for the same */
  uint64_t waits_generation;
  _Atomic uint64_t wait_deadline_ns; /* when the wait times out; 0: never */
  task *waits_task;                  /* the front task, where it is in such a list */
  /* These fields belong to scheduler.c, whose lock guards them. */
  _Atomic bool listed, kicked; /* is in the list of streams; a worker was woken for it */
  stream *next_listed, *previous_listed;
  uint64_t idle_seen;  /* `submitted` at the last look */
  uint32_t idle_ticks; /* looks since the stream had work */
  /* In the context's list of streams, guarded by the context's lock. */
  stream *next_in_context, *previous_in_context;
  _Atomic bool fail_mode_set;
  _Atomic uint32_t core_limit[N_CORE_LIMITS]; /* of limits.c; 0: none is set */
  _Atomic uint32_t overflow_watch;            /* 0 or 1 */
  _Atomic uint32_t tag, names_switch;         /* attributes that are only stored */
  /* These fields belong to stream_order.c. lane and lane_base are set once, under its lock; the clock's content
   * is guarded by submit_lock. */
  _Atomic uint32_t lane;
  uint64_t lane_base;
  order_clock *_Atomic clock;
};

/* Begins the submission of a task: takes submit_lock, which stays held until stream_submit(), and returns a slot. The
 * caller fills in cost_ns and the kind's fields. On failure the lock is not held. ST_NO_HOST_MEMORY, or the reason why
 * the stream takes no such task. */
status stream_new_task(stream *s, const task_kind *kind, task **out);

/* Ends the submission: makes the slot a task of the queue, and wakes a worker if enough work is pending. In a stream
 * that is being captured the task goes to its graph instead. */
void stream_submit(stream *s, task *t);
/* The same by a thread that waits for the task at once, and then runs it itself: wakes no worker. */
void stream_submit_awaited(stream *s, task *t);

/* What `diverted` should be. submit_lock is held. */
bool stream_is_diverted(const stream *s);

/* Keeps the failure of a task, with the message of fail(), for the next synchronisation,
 * and logs it. For the runner. */
__attribute__((cold)) void stream_keep_failure(stream *s, const task *t, status st);

/* Waits until all tasks at positions below `target` are done; runs tasks itself where it may. timeout_ns 0: no limit.
 * ST_STREAM_TIMEOUT when the time is over; the tasks stay queued. ST_DEVICE_ABORT if the last of the tasks was dropped
 * by an abort, or was done when the abort came. Dropped tasks are done like any others, so the memory that they used is
 * the caller's again. No lock is held. */
status stream_wait(stream *s, uint64_t target, uint64_t timeout_ns);

/* Waits for all tasks submitted so far, then returns the first failure of a task since the last such call. */
status stream_synchronize(stream *s, uint64_t timeout_ns);

/* Returns the first failure of a task since the last call, with its message, and forgets
 * it. ST_OK if there was none. */
__attribute__((cold)) status stream_take_failure(stream *s);
void stream_forget_failure(stream *s);

/* Whether all submitted tasks are done. If not, sees to it that they are run. */
bool stream_is_idle(stream *s);

/* Marks all tasks submitted so far to be dropped by whoever runs the stream. A task that is running goes on. Updates
 * `diverted`. Returns the position behind the last of these tasks. */
uint64_t stream_drop_submitted(stream *s);

/* Updates `diverted`. */
void stream_divert_anew(stream *s);

/* For the run() of a task: the task n positions behind it, n below SEGMENT_TASKS, if that was submitted already and is
 * not to be dropped; else NULL. */
task *stream_peek(stream *s, uint32_t n);

/* Wakes all threads that sleep in stream_wait(), which then look again what they can do. */
void stream_wake(stream *s);

/* Ends the blocked state, so that the front task is run again. */
void stream_unblock(stream *s);

/* Unblocks a chain of streams (next_waiter) that were marked as released when they were taken off their list of
 * waiters. Drops the reference that comes with each. No lock is held. */
void stream_unblock_all(stream *first);

/* For the runner, before the stream waits for something new: waits until the thread that released the stream has called
 * stream_unblock(). That may be still to come if the previous wait was dropped, or timed out, at the same time. No lock
 * but the run lock is held. */
static inline void stream_await_unblock(const stream *s) {
  while (unlikely(atomic_load(&s->released))) sched_yield();
}

/* Who runs the stream. Workers run all tasks, but step aside for waiting threads. Waiting threads run no
 * user code and stop at `target`. Where no worker will come, they stand in for one: they run all tasks that
 * start before the deadline. */
typedef enum { RUN_AS_WORKER, RUN_AS_WAITER, RUN_AS_STAND_IN } run_mode;
typedef enum {
  RUN_DONE,    /* the target is reached, there are no more tasks, or a worker has stepped aside */
  RUN_BUSY,    /* another thread runs the stream */
  RUN_BLOCKED, /* the front task waits for something */
  RUN_LEFT,    /* the front task is left to a worker: user code, or longer than the time to the deadline. For a
                  stand-in: the deadline has passed */
} run_result;

/* Runs tasks at positions below target, until one of the results above. deadline_ns 0: none. No lock is held. */
run_result stream_run(stream *s, uint64_t target, uint64_t deadline_ns, run_mode mode);

/* The positions of queue.h: behind the last submitted task, and behind the last of those done. */
static inline uint64_t stream_submitted(stream *s) {
  return atomic_load_explicit(&s->q.submitted, memory_order_acquire);
}
static inline uint64_t stream_completed(stream *s) {
  return atomic_load_explicit(&s->q.completed, memory_order_acquire);
}

/* Whether the front task waits for something and will not be dropped. */
static inline bool stream_is_blocked(stream *s) {
  return atomic_load(&s->blocked) && stream_completed(s) >= atomic_load(&s->dropped_below);
}

/* Creates a stream with one reference, not published. ST_NO_STREAMS, or ST_NO_CONTEXT if the
 * context is being destroyed. */
status stream_create(context *c, uint32_t priority, uint32_t flags, stream **out);

/* Makes the stream refuse further tasks: threads that have looked up its handle before get ST_INVALID_VALUE. */
void stream_close(stream *s);

/* Closes the stream and drops its tasks, but those that a device would have begun by now: these still run, a long one
 * or a user function in a worker. Waits for no task that blocks or takes long. */
void stream_discard(stream *s);

/* Closes the stream, waits for its tasks or discards them, and removes it from its context. The caller must have killed
 * the handle (object_kill()) unless the stream was never published; its reference is dropped. */
void stream_destroy(stream *s, bool discard);
void stream_unref(stream *s);

/* Checks of invariants (base/invariant.h): of what submissions write, for a caller that holds submit_lock; of what the
 * runner writes, for a caller that holds the run lock; of a stream that nobody else uses. */
bool stream_submission_is_valid(const stream *s);
bool stream_running_is_valid(const stream *s);
bool stream_is_valid(const stream *s);

#endif
