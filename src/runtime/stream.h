/* A stream: a queue of tasks in order, and who runs them.
 *
 * Any thread submits. One runner at a time holds the run lock: a thread that waits for the stream (stream_wait, up to
 * the position it waits for) or a worker (scheduler.h). Waits for events are a state of the stream ("blocked"), not of
 * a thread. Handing work to another thread costs 24 to 39 microseconds, so small work is left to the waiter.
 *
 * Lock order: context.lock, submit_lock, event.lock, scheduler's lock; the run lock is only ever tried, and is held
 * while a task runs. No lock of the library but the run lock is held while a task runs. */
#ifndef CANNON_RUNTIME_STREAM_H
#define CANNON_RUNTIME_STREAM_H

#include "base/sync.h"
#include "runtime/object.h"
#include "runtime/queue.h"

typedef struct context context;

enum { STREAM_FAIL_CONTINUE = 0, STREAM_FAIL_STOP = 1 };
enum { LIMIT_CUBE_CORES, LIMIT_VECTOR_CORES, N_CORE_LIMITS };

struct stream {
  object o;
  context *home;            /* where it was made, with a reference */
  context *_Atomic context; /* home, or NULL once that is gone: the handle can still be destroyed */
  int device;
  uint32_t id, flags, priority;
  spinlock submit_lock;
  bool closed;   /* takes no task any more: it is being destroyed; guarded by submit_lock */
  bool diverted; /* submissions go another way: captured, updating a group, refused since the stream is closed or the
                    device's tasks are aborted, or in random mode; guarded by submit_lock */
  struct capture_lane
      *_Atomic recording;             /* where they are captured; changed with capture.c's lock and submit_lock held */
  struct graph_update *update;        /* graph_group.c's; guarded by submit_lock */
  _Atomic uint64_t submitted_cost_ns; /* sums over all tasks */
  queue q;
  /* Written by the runner. */
  _Alignas(64) spinlock run_lock;
  _Atomic bool blocked;           /* the task at the front waits; stream_unblock() ends it */
  _Atomic bool released;          /* taken off a list of waiters, by who is about to call stream_unblock() */
  _Atomic bool called;            /* the callback that the front waits for has returned */
  _Atomic uint64_t dropped_below; /* tasks at positions below this are dropped instead of run, ... */
  _Atomic uint64_t kept_below;    /* ... but not those below this, which a device would have begun */
  uint64_t begun_ns;              /* the cost of those; guarded by the run lock */
  _Atomic status error;           /* first failure since the last synchronisation, and its words (malloc'ed) */
  char *_Atomic error_text;
  _Atomic uint64_t retired_cost_ns;
  /* Meeting of runner and waiters. */
  _Atomic uint32_t wanted;   /* waiters that would take the run lock at once: workers step aside */
  _Atomic uint32_t sleepers; /* waiters asleep on wake */
  _Atomic uint32_t wake;
  _Atomic uint64_t sleep_target; /* lowest position that a sleeper waits for */
  /* The event that the front waits for; guarded by that event's lock. */
  event *_Atomic waits_for;
  stream *next_waiter; /* also of value.c and notify.c */
  uint64_t waits_generation;
  _Atomic uint64_t wait_deadline_ns; /* 0: none */
  task *waits_task;                  /* the front, where it waits for a value or a notify; their locks guard it */
  /* The scheduler's, see there. */
  _Atomic bool listed, kicked;
  stream *next_listed, *previous_listed;
  uint64_t idle_seen;
  uint32_t idle_ticks;
  /* The context's list; guarded by its lock. */
  stream *next_in_context, *previous_in_context;
  _Atomic bool fail_mode_set;
  _Atomic uint32_t core_limit[N_CORE_LIMITS]; /* limits.c's: 0 where none is set */
  _Atomic uint32_t overflow_watch;            /* 0 or 1 */
  /* The order's, see there; the clock's content is guarded by submit_lock. */
  _Atomic uint32_t lane;
  uint64_t lane_base;
  order_clock *_Atomic clock;
};

/* A slot for a task of the kind, which the queue's lock is held for until stream_submit. The caller fills cost_ns and
 * the kind's fields. */
status stream_new_task(stream *s, const task_kind *kind, task **out);

/* Publishes the slot, and wakes a worker where enough is pending. In a stream that is being captured the task goes to
 * its graph instead. */
void stream_submit(stream *s, task *t);

/* Whether submissions must go the slow way (diverted). */
bool stream_is_diverted(const stream *s);

/* A task of the stream has failed: kept for the next synchronisation, in words, and told. From the runner. */
__attribute__((cold)) void stream_keep_failure(stream *s, const task *t, status st);

/* Waits until all positions below `target` are done, running tasks itself where it may. timeout_ns 0: for ever.
 * ST_STREAM_TIMEOUT where the time is over; tasks stay queued. ST_DEVICE_ABORT where the last one was dropped, or
 * ended as others were; dropped tasks are done as any other, so that what they used is the caller's again. Never called
 * with a lock held. */
status stream_wait(stream *s, uint64_t target, uint64_t timeout_ns);

/* stream_wait for everything submitted so far, then the first failure of a task since the last such call. */
status stream_synchronize(stream *s, uint64_t timeout_ns);

/* The first failure of a task since the last call, in words; ST_OK where there was none. */
__attribute__((cold)) status stream_take_failure(stream *s);
void stream_forget_failure(stream *s);

/* Whether everything submitted is done; starts what is not. */
bool stream_is_idle(stream *s);

/* From now on what was submitted so far is dropped, by whoever runs the stream, but for a task that runs already; what
 * is refused and what not is looked at again. Returns the position behind the last such task. */
uint64_t stream_drop_submitted(stream *s);

/* Looks again which way submissions go. */
void stream_divert_anew(stream *s);

/* Wakes all that sleep in stream_wait, who then look again. */
void stream_wake(stream *s);

/* Ends the blocked state: the front task runs again. */
void stream_unblock(stream *s);

/* Unblocks streams that are chained through next_waiter, and were marked as released when they were taken off their list
 * of waiters. Drops the reference that comes with each. */
void stream_unblock_all(stream *first);

/* For the runner, before the stream may wait again: until whoever released it has called stream_unblock(). It may be at it
 * still when the wait was dropped or timed out meanwhile. No lock but the run lock is held. */
static inline void stream_await_unblock(const stream *s) {
  while (unlikely(atomic_load(&s->released))) sched_yield();
}

/* Who runs: workers take everything but step aside for waiters; waiters run no user code and stop at `target`; where
 * no worker will come they run all that starts before the deadline. */
typedef enum { RUN_AS_WORKER, RUN_AS_WAITER, RUN_AS_STAND_IN } run_mode;
typedef enum {
  RUN_DONE,    /* target reached, or nothing left */
  RUN_BUSY,    /* somebody else runs */
  RUN_BLOCKED, /* the front waits for an event */
  RUN_LEFT,    /* the front is for a worker: user code, or longer than the deadline leaves (stand-in: it has passed) */
} run_result;
run_result stream_run(stream *s, uint64_t target, uint64_t deadline_ns, run_mode mode);

static inline uint64_t stream_submitted(stream *s) {
  return atomic_load_explicit(&s->q.submitted, memory_order_acquire);
}
static inline uint64_t stream_completed(stream *s) {
  return atomic_load_explicit(&s->q.completed, memory_order_acquire);
}

/* Whether the front waits for something, and will not be dropped. */
static inline bool stream_is_blocked(stream *s) {
  return atomic_load(&s->blocked) && stream_completed(s) >= atomic_load(&s->dropped_below);
}

/* A stream, not published. ST_NO_STREAMS, or ST_NO_CONTEXT where the context is destroyed meanwhile. */
status stream_create(context *c, uint32_t priority, uint32_t flags, stream **out);

/* Takes no further task: whoever has looked the handle up before gets ST_INVALID_VALUE. */
void stream_close(stream *s);

/* Ends what is left to do: tasks that a device would have begun by now still run, a long one or a user's function in a
 * worker; later ones are dropped. Waits for none that blocks or takes long. */
void stream_discard(stream *s);

/* Closes the stream, waits for its tasks or discards them, and takes it out of its context. The handle must have been
 * killed by the caller (object_kill), unless it was never published; the caller's reference goes. */
void stream_destroy(stream *s, bool discard);
void stream_unref(stream *s);

/* Whether the stream's parts agree (base/invariant.h): what submissions write, for a caller with submit_lock; what its
 * runner writes, for a caller with the run lock; all of it, which nobody else uses. */
bool stream_submission_is_valid(const stream *s);
bool stream_running_is_valid(const stream *s);
bool stream_is_valid(const stream *s);

#endif
