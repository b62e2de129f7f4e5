/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/stream.h"

#include <string.h>

#include "base/hooks.h"
#include "base/lock.h"
#include "base/log.h"
#include "memory/pool/stream_pool.h"
#include "runtime/abort.h"
#include "runtime/context.h"
#include "runtime/dry/dry.h"
#include "runtime/dry/dry_clock.h"
#include "runtime/exception.h"
#include "runtime/fpmode.h"
#include "runtime/graph/capture.h"
#include "runtime/scheduler.h"
#include "runtime/task_record.h"
#include "runtime/task_tell.h"
#include "runtime/wait/event.h"
#include "runtime/wait/notify.h"
#include "runtime/wait/outside.h"
#include "runtime/wait/stall.h"
#include "runtime/wait/stream_order.h"
#include "runtime/wait/value.h"
#include "trace/stats_write.h"

enum {
  KICK_NS = 200 * 1000,  /* pending work that is worth waking a worker for, which takes 24 to 39 us */
  PUBLISH_NS = 5 * 1000, /* `completed` is stored after each task of this length, ... */
  PUBLISH_TASKS = 64,    /* ... and after so many shorter ones */
  SPIN_TURNS = 1000,     /* about 20 us of spinning for the run lock before sleeping, which costs as much */
  MAX_DEPENDENCIES = 32, /* how many streams a waiting thread follows from event to event before it leaves them to
                            workers */
};
static const uint64_t ALL_TASKS = UINT64_MAX; /* the value of dropped_below in a stream that was discarded */

/* ---- invariants -------------------------------------------------------------------------------------------------- */

#ifdef CANNON_INVARIANTS
static bool stream_home_is_valid(const stream *s) {
  const context *c = atomic_load(&s->context);
  return !s->home || ((!c || c == s->home) && s->device == s->home->device);
}

bool stream_submission_is_valid(const stream *s) {
  const bool diverted = s->closed || s->recording || s->update || scheduler_is_random;
  const uint64_t retired_ns = atomic_load(&s->retired_cost_ns);
  return spin_is_held(&s->submit_lock, memory_order_relaxed) && queue_producer_is_valid(&s->q) &&
         (!diverted || s->diverted) && !(s->recording && s->update) &&
         retired_ns <= atomic_load(&s->submitted_cost_ns) && stream_home_is_valid(s);
}

/* If the stream is blocked, waits for an event or has a deadline, its front task does. `blocked` is read first: other
 * threads end the blocked state after they have taken the stream off the list of waiters. */
bool stream_running_is_valid(const stream *s) {
  const bool blocked = atomic_load(&s->blocked);
  const uint64_t deadline_ns = atomic_load(&s->wait_deadline_ns);
  const bool waits = blocked || atomic_load(&s->waits_for) || deadline_ns;
  return spin_is_held(&s->run_lock, memory_order_relaxed) && queue_consumer_is_valid(&s->q) &&
         (!waits || s->q.next < atomic_load(&s->q.submitted)) &&
         (!atomic_load(&s->waits_for) || blocked || deadline_ns) &&
         atomic_load(&s->kept_below) <= atomic_load(&s->dropped_below) && stream_home_is_valid(s);
}

bool stream_is_valid(const stream *s) {
  const bool waits = atomic_load(&s->blocked) || atomic_load(&s->waits_for);
  return queue_is_valid(&s->q) && !(s->recording && s->update) && (!waits || s->q.next < s->q.submitted) &&
         atomic_load(&s->retired_cost_ns) <= atomic_load(&s->submitted_cost_ns) &&
         atomic_load(&s->kept_below) <= atomic_load(&s->dropped_below) && stream_home_is_valid(s);
}
#endif

/* ---- submission -------------------------------------------------------------------------------------------------- */

static uint64_t pending_cost(stream *s) {
  return atomic_load_explicit(&s->submitted_cost_ns, memory_order_relaxed) -
         atomic_load_explicit(&s->retired_cost_ns, memory_order_relaxed);
}

bool stream_is_diverted(const stream *s) {
  return scheduler_is_random || s->closed || s->recording || s->update || hooks_tasks_wanted() ||
         abort_is_running(s->device);
}

task *stream_peek(stream *s, uint32_t n) {
  INVARIANT(spin_is_held(&s->run_lock, memory_order_relaxed) && n < SEGMENT_TASKS);
  if (s->q.next + n < atomic_load(&s->dropped_below) || context_is_stopped(s->context)) return NULL;
  return queue_peek(&s->q, n);
}

void stream_divert_anew(stream *s) {
  spin_lock(&s->submit_lock);
  s->diverted = stream_is_diverted(s);
  INVARIANT_WALK(stream_submission_is_valid(s));
  spin_unlock(&s->submit_lock);
}

/* Checks that there is a slot and that the stream and the device take tasks; if the task is for a capture or an update,
 * that this takes tasks of the kind. submit_lock is held. */
__attribute__((cold)) static status admit(stream *s, const task *slot, const task_kind *kind) {
  if (!slot) return fail(ST_NO_HOST_MEMORY, "no host memory for the queue of stream %u", s->id);
  if (s->closed) return fail(ST_INVALID_VALUE, "stream %u was destroyed by another thread during this call", s->id);
  if (abort_is_running(s->device)) return abort_refuse(s->device);
  if (s->recording) return capture_admit(s, kind);
  return s->update ? graph_update_admit(s, kind) : ST_OK;
}

status stream_new_task(stream *s, const task_kind *kind, task **out) {
  spin_lock(&s->submit_lock);
  task *t = queue_slot(&s->q);
  if (unlikely(!t || s->diverted)) {
    const status st = admit(s, t, kind);
    if (st != ST_OK) spin_unlock(&s->submit_lock);
    if (st != ST_OK) return st;
  }
  INVARIANT(kind->run && (uintptr_t)t % sizeof *t == 0);
  INVARIANT(!s->closed);
  t->kind = kind;
  *out = t;
  return ST_OK;
}

/* Returns the time at which the task was submitted, if that is to be recorded; else 0. */
__attribute__((cold, noinline)) static uint64_t note_submission(stream *s) {
  if (dry_is_on()) queue_note_ns(&s->q, dry_host_submit());
  return timeline_wants(TIMELINE_WANTS_TASKS) ? timeline_now() : 0;
}

/* Makes the slot a task of the queue, and releases submit_lock. */
static inline void enqueue(stream *s, task *t) {
  INVARIANT(lock_is_held(&s->submit_lock) && !s->closed);
  INVARIANT(t == &s->q.tail->tasks[s->q.tail_index]);
  const uint64_t recorded_ns = timeline_wants(TIMELINE_WANTS_TASKS | TIMELINE_WANTS_DRY) ? note_submission(s) : 0;
  const uint64_t cost = t->cost_ns;
  const uint32_t id = t->id = (uint32_t)atomic_load_explicit(&s->q.submitted, memory_order_relaxed);
  atomic_store_explicit(&s->submitted_cost_ns, atomic_load_explicit(&s->submitted_cost_ns, memory_order_relaxed) + cost,
                        memory_order_relaxed);
  queue_push(&s->q);
  INVARIANT_WALK(stream_submission_is_valid(s));
  spin_unlock_fence(&s->submit_lock); /* scheduler_unlist() clears `listed` and then reads `submitted` */
  if (unlikely(!atomic_load_explicit(&s->listed, memory_order_relaxed))) scheduler_list(s);
  if (unlikely(recorded_ns)) task_record_submission(s, id, recorded_ns);
}

/* Returns whether a worker may be woken for the task. */
__attribute__((noinline)) static bool submit_diverted(stream *s, task *t) {
  INVARIANT(lock_is_held(&s->submit_lock) && !(s->recording && s->update));
  if (s->recording) {
    capture_take(s, t); /* which copies the task: the slot is used for the next one */
    spin_unlock(&s->submit_lock);
    return false;
  }
  if (s->update) graph_update_take(s, t);
  if (hooks_tasks_wanted()) task_tell(t, s);
  enqueue(s, t);
  if (!scheduler_is_random) return true;
  scheduler_shuffle();
  return false;
}

void stream_submit_awaited(stream *s, task *t) {
  if (unlikely(s->diverted))
    submit_diverted(s, t);
  else
    enqueue(s, t);
}

void stream_submit(stream *s, task *t) {
  if (likely(!s->diverted))
    enqueue(s, t);
  else if (!submit_diverted(s, t))
    return;
  if (unlikely(pending_cost(s) > KICK_NS) && !atomic_load_explicit(&s->kicked, memory_order_relaxed)) scheduler_kick(s);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

void stream_keep_failure(stream *s, const task *t, status st) {
  INVARIANT(st != ST_OK && st != TASK_BLOCKED && st != TASK_GOES_ON);
  const char *words = fail_take();
  log_line(LOG_ERROR, "stream %u, task %u (%s) failed with %d: %s", s->id, t->id, t->kind->name, st, words);
  status none = ST_OK;
  if (atomic_compare_exchange_strong(&s->error, &none, st)) free(atomic_exchange(&s->error_text, strdup(words)));
  context *c = s->context;
  if (c) context_task_failed(c, st, words);
  exception_tell(s->device, s->id, t->id, st);
}

/* Decides whether the front task, which is below dropped_below, is dropped. When a stream is discarded, a device would
 * already have begun the tasks that the scheduler has left to waiting threads here: those whose estimated times add up
 * to less than what a worker is woken for. They still run, until one of them waits (which is dropped too), or including
 * the first user function or long task. The run lock is held. */
__attribute__((noinline, cold)) static bool is_dropped(stream *s, const task *front) {
  if (atomic_load_explicit(&s->dropped_below, memory_order_relaxed) != ALL_TASKS) return true;
  if (atomic_load(&s->blocked)) s->begun_ns = KICK_NS;
  if (s->q.next < atomic_load_explicit(&s->kept_below, memory_order_relaxed)) return atomic_load(&s->blocked);
  if (s->begun_ns >= KICK_NS) return true;
  s->begun_ns += front->kind->user_code ? KICK_NS : front->cost_ns;
  atomic_store(&s->kept_below, s->q.next + 1);
  return false;
}

/* Whether the front task is to be dropped. The run lock is held. */
static inline bool front_is_dropped(stream *s, const task *front) {
  return unlikely(s->q.next < atomic_load_explicit(&s->dropped_below, memory_order_relaxed)) && is_dropped(s, front);
}

/* Runs or drops the front task. The caller pops it, unless the result is TASK_BLOCKED or TASK_GOES_ON. */
static status run_front(stream *s, task *t, run_mode mode) {
  if (front_is_dropped(s, t) || (unlikely(context_is_stopped(s->context)) && !t->kind->control)) {
    if (t->kind->drop) t->kind->drop(t, s);
    return ST_OK;
  }
  if (t->cost_ns < SCHEDULER_LONG_NS) return task_run(t, s);
  scheduler_enter_long(mode != RUN_AS_WORKER, t->kind->user_code);
  const status st = task_run(t, s);
  scheduler_leave_long(mode != RUN_AS_WORKER, t->kind->user_code);
  /* If the stream was discarded meanwhile, a device would not have begun the tasks behind this one. */
  if (unlikely(atomic_load_explicit(&s->dropped_below, memory_order_relaxed) == ALL_TASKS)) s->begun_ns = KICK_NS;
  return st;
}

static void stream_publish(stream *s, uint64_t retired_ns) {
  INVARIANT(spin_is_held(&s->run_lock, memory_order_relaxed));
  INVARIANT(atomic_load_explicit(&s->q.completed, memory_order_relaxed) <= s->q.next);
  INVARIANT(s->q.next <= stream_submitted(s));
  atomic_store_explicit(&s->q.completed, s->q.next, memory_order_release);
  atomic_store_explicit(&s->retired_cost_ns,
                        atomic_load_explicit(&s->retired_cost_ns, memory_order_relaxed) + retired_ns,
                        memory_order_relaxed);
}

void stream_wake(stream *s) {
  atomic_store(&s->sleep_target, UINT64_MAX);
  atomic_fetch_add(&s->wake, 1);
  futex_wake(&s->wake, INT_MAX);
}

static bool sleeper_is_served(stream *s) {
  return atomic_load(&s->sleepers) && atomic_load(&s->q.completed) >= atomic_load(&s->sleep_target);
}

/* Whether a worker should leave the stream to a waiting thread, or its core to others. */
static bool must_step_aside(stream *s) {
  return atomic_load_explicit(&s->wanted, memory_order_relaxed) || scheduler_should_yield();
}

/* Whether a waiting thread leaves the task to a worker, or a stand-in has reached its deadline. */
static bool must_leave(const task *t, uint64_t deadline_ns, run_mode mode) {
  if (mode == RUN_AS_STAND_IN) return deadline_ns && now_ns() >= deadline_ns;
  return t->kind->user_code || (deadline_ns && now_ns() + t->cost_ns > deadline_ns);
}

/* Runs tasks at positions below target. The run lock is held. */
static run_result run_batch(stream *s, uint64_t target, uint64_t deadline_ns, run_mode mode) {
  queue *q = &s->q;
  run_result result = RUN_DONE;
  uint64_t end = 0, retired_ns = 0;
  unsigned unpublished = 0;
  for (;;) {
    if (q->next >= end) {
      end = stream_submitted(s);
      if (end > target) end = target;
      if (q->next >= end) break;
    }
    task *t = queue_front(q);
    const uint64_t cost = t->cost_ns;
    if (!front_is_dropped(s, t)) {
      if (atomic_load_explicit(&s->blocked, memory_order_acquire)) {
        result = RUN_BLOCKED;
        break;
      }
      if (mode != RUN_AS_WORKER && must_leave(t, deadline_ns, mode)) {
        result = RUN_LEFT;
        break;
      }
    }
    const status st = run_front(s, t, mode);
    if (unlikely(st != ST_OK)) {
      if (st == TASK_BLOCKED) {
        result = RUN_BLOCKED;
        break;
      }
      if (st == TASK_GOES_ON) {
        if (mode == RUN_AS_WORKER && must_step_aside(s)) break;
        continue;
      }
      stream_keep_failure(s, t, st);
    }
    INVARIANT(t->cost_ns == cost);
    INVARIANT(!atomic_load_explicit(&s->blocked, memory_order_relaxed)); /* drop() ends the blocked state */
    retired_ns += cost;
    queue_pop(q);
    if (cost > PUBLISH_NS || ++unpublished == PUBLISH_TASKS) {
      stream_publish(s, retired_ns);
      retired_ns = unpublished = 0;
      if (sleeper_is_served(s)) stream_wake(s);
    }
    if (mode == RUN_AS_WORKER && must_step_aside(s)) break;
  }
  stream_publish(s, retired_ns);
  return result;
}

run_result stream_run(stream *s, uint64_t target, uint64_t deadline_ns, run_mode mode) {
  for (;;) {
    if (!spin_trylock(&s->run_lock)) return RUN_BUSY;
    atomic_store_explicit(&s->kicked, false, memory_order_relaxed);
    const fp_mode fp = fp_mode_enter();
    const run_result result = run_batch(s, target, deadline_ns, mode);
    fp_mode_leave(fp);
    INVARIANT(result != RUN_LEFT || mode != RUN_AS_WORKER);
    INVARIANT_WALK(stream_running_is_valid(s));
    /* sleep_for() counts itself as a sleeper and then reads `completed`; the ticker sleeps and then reads the lock */
    spin_unlock_fence(&s->run_lock);
    scheduler_rouse();
    if (unlikely(atomic_load_explicit(&s->sleepers, memory_order_relaxed))) {
      const bool left_over = mode != RUN_AS_WORKER && stream_completed(s) < stream_submitted(s);
      if (left_over || sleeper_is_served(s)) stream_wake(s);
    }
    if (unlikely(value_any())) value_look();
    /* The stream was unblocked, or its task is to be dropped, since the check above, by a thread
     * that found the lock taken. */
    if (unlikely(result == RUN_BLOCKED && !stream_is_blocked(s))) continue;
    return result;
  }
}

uint64_t stream_drop_submitted(stream *s) {
  spin_lock(&s->submit_lock);
  s->diverted = stream_is_diverted(s);
  const uint64_t position = stream_submitted(s);
  if (stream_completed(s) < position && atomic_load(&s->dropped_below) < position)
    atomic_store(&s->dropped_below, position);
  INVARIANT_WALK(stream_submission_is_valid(s));
  spin_unlock_fence(&s->submit_lock); /* stream_run() releases its lock and then reads dropped_below */
  scheduler_rouse();
  return position;
}

void stream_unblock(stream *s) {
  atomic_store(&s->blocked, false);
  atomic_exchange(&s->released, false); /* the ticker and waiting threads say that they sleep and then read these */
  scheduler_rouse();
  if (atomic_load(&s->sleepers))
    stream_wake(s);
  else if (pending_cost(s) > KICK_NS)
    scheduler_kick(s);
}

void stream_unblock_all(stream *first) {
  while (first) {
    INVARIANT(atomic_load(&first->o.refs) >= 1 && atomic_load(&first->released) && first->next_waiter != first);
    stream *next = first->next_waiter; /* read now, since the stream may wait again, or be freed, after the next line */
    stream_unblock(first);
    stream_unref(first);
    first = next;
  }
}

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

/* Runs s up to target. If it is blocked, runs the stream that it waits for, and so on. */
static run_result stream_advance(stream *s, uint64_t target, uint64_t deadline_ns, unsigned depth) {
  if (unlikely(scheduler_is_random)) scheduler_shuffle();
  for (;;) {
    run_result result = stream_run(s, target, deadline_ns, RUN_AS_WAITER);
    if (likely(result == RUN_DONE)) return result;
    if (result == RUN_LEFT && !scheduler_kick(s)) result = stream_run(s, target, deadline_ns, RUN_AS_STAND_IN);
    if (result != RUN_BLOCKED || depth == MAX_DEPENDENCIES) return result;
    uint64_t position;
    stream *source = event_source_of_wait(s, &position);
    if (!source) return result;
    const run_result there =
        stream_completed(source) < position ? stream_advance(source, position, deadline_ns, depth + 1) : RUN_DONE;
    stream_unref(source);
    if (there != RUN_DONE || atomic_load(&s->blocked)) return result;
  }
}

/* Spins until the target is reached or the run lock is free, or for some time. A worker that runs s steps aside. */
static bool spin_for_turn(stream *s, uint64_t target) {
  bool turn = false;
  atomic_fetch_add(&s->wanted, 1);
  for (int i = 0; i < SPIN_TURNS && !turn; ++i) {
    cpu_relax();
    turn = stream_completed(s) >= target || !spin_is_held(&s->run_lock, memory_order_relaxed);
  }
  const uint32_t n_wanted = atomic_fetch_sub(&s->wanted, 1);
  INVARIANT(n_wanted >= 1);
  return turn;
}

/* Sleeps until something changes for a thread whose last attempt to run s had the result `found`, for most_ns at most.
 * False if the deadline has passed. */
static bool sleep_for(stream *s, uint64_t target, uint64_t deadline_ns, run_result found, uint64_t most_ns) {
  const uint64_t now = deadline_ns ? now_ns() : 0;
  if (deadline_ns && now >= deadline_ns) return false;
  atomic_fetch_add(&s->sleepers, 1);
  uint64_t lowest = atomic_load(&s->sleep_target);
  while (target < lowest && !atomic_compare_exchange_weak(&s->sleep_target, &lowest, target)) {
  }
  const uint32_t seen = atomic_load(&s->wake);
  /* A change before this thread counted as a sleeper has woken nobody. */
  const bool changed = atomic_load(&s->q.completed) >= target ||
                       (found == RUN_BUSY && !spin_is_held(&s->run_lock, memory_order_seq_cst)) ||
                       (found == RUN_BLOCKED && !stream_is_blocked(s)) || atomic_load(&s->sleep_target) > target;
  if (deadline_ns && deadline_ns - now < most_ns) most_ns = deadline_ns - now;
  /* Checked after `wake` was read: a thread that ends the library's threads first says so
   * and then wakes all sleepers. */
  if (unlikely(scheduler_lacks_threads()) && most_ns > SCHEDULER_TICK_NS) most_ns = SCHEDULER_TICK_NS;
  lock_expect_none(NULL);
  if (!changed) futex_wait(&s->wake, seen, most_ns);
  const uint32_t n_sleepers = atomic_fetch_sub(&s->sleepers, 1);
  INVARIANT(n_sleepers >= 1);
  return true;
}

/* The same, and looks first whether the wait is one that never ends. */
static bool sleep_in_wait(stream *s, uint64_t target, uint64_t deadline_ns, run_result found, stall_watch *watch) {
  if (!deadline_ns) atomic_fetch_add(&stall_n_waiting, 1);
  const uint64_t most_ns = found == RUN_BLOCKED ? stall_look(s, watch) : STALL_NS;
  const bool in_time = sleep_for(s, target, deadline_ns, found, most_ns);
  if (!deadline_ns) atomic_fetch_sub(&stall_n_waiting, 1);
  return in_time;
}

status stream_wait(stream *s, uint64_t target, uint64_t timeout_ns) {
  if (stream_completed(s) >= target) return ST_OK;
  INVARIANT(atomic_load(&s->o.refs) >= 1);
  const uint64_t deadline_ns = timeout_ns ? now_ns() + timeout_ns : 0;
  stall_watch watch = {0};
  for (;;) {
    const run_result result = stream_advance(s, target, deadline_ns, 0);
    if (stream_completed(s) >= target) break;
    if (result == RUN_BUSY && spin_for_turn(s, target)) continue;
    if (unlikely(scheduler_lacks_threads()) && scheduler_stand_in(deadline_ns)) continue;
    if (result == RUN_BLOCKED && unlikely(value_any() || notify_any() || outside_any()) && !deadline_ns &&
        scheduler_run_others())
      continue;
    if (!sleep_in_wait(s, target, deadline_ns, result, &watch))
      return fail(ST_STREAM_TIMEOUT, "stream %u is not done after %ju ms", s->id, (uintmax_t)(timeout_ns / 1000000));
  }
  const uint64_t dropped_below = atomic_load_explicit(&s->dropped_below, memory_order_relaxed);
  if (likely(target > dropped_below || dropped_below == ALL_TASKS)) return ST_OK;
  return fail(ST_DEVICE_ABORT, "tasks of stream %u were dropped while it was waited for: aclrtDeviceTaskAbort", s->id);
}

status stream_take_failure(stream *s) {
  const status st = atomic_exchange(&s->error, ST_OK);
  char *words = atomic_exchange(&s->error_text, NULL);
  if (st != ST_OK) fail(st, "a task of stream %u failed: %s", s->id, words ? words : "");
  free(words);
  return st;
}

void stream_forget_failure(stream *s) {
  atomic_store(&s->error, ST_OK);
  free(atomic_exchange(&s->error_text, NULL));
}

status stream_synchronize(stream *s, uint64_t timeout_ns) {
  if (abort_is_running(s->device)) return abort_refuse(s->device);
  const uint64_t target = stream_submitted(s), since_ns = dry_is_on() ? dry_host_now() : 0;
  TRY(stream_wait(s, target, timeout_ns));
  if (dry_is_on()) dry_host_waited(since_ns, dry_stream_ns(s));
  if (unlikely(atomic_load(&s->dropped_below) == ALL_TASKS && target > atomic_load(&s->kept_below)))
    return fail(ST_INVALID_VALUE, "stream %u was destroyed by force while it was waited for, and tasks were dropped",
                s->id);
  hooks_tell_step(HOOK_STREAM_DONE, s->device, s->id, 0);
  task_tell_waited(s, false);
  if (order_is_wanted()) {
    order_saw_stream(s, target);
    pools_synchronized(s->device);
  }
  if (unlikely(atomic_load_explicit(&s->error, memory_order_relaxed))) return stream_take_failure(s);
  context *c = s->context;
  if (unlikely(context_is_stopped(c))) return context_fail_stopped(c, s->id);
  return ST_OK;
}

bool stream_is_idle(stream *s) {
  const uint64_t target = stream_submitted(s);
  if (stream_completed(s) >= target) {
    if (order_is_wanted()) order_saw_stream(s, target);
    hooks_tell_step(HOOK_STREAM_DONE, s->device, s->id, 0);
    task_tell_waited(s, true);
    return true;
  }
  scheduler_kick(s);
  if (unlikely(scheduler_lacks_threads())) scheduler_stand_in(0);
  return false;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

status stream_create(context *c, uint32_t priority, uint32_t flags, stream **out) {
  stream *s = object_new(OBJECT_STREAM);
  if (!s) return fail(ST_NO_STREAMS, "no stream is left on device %d", c->device);
  s->priority = priority;
  s->flags = flags;
  spin_init(&s->submit_lock, LOCK_SUBMIT);
  s->sleep_target = UINT64_MAX;
  const status st = context_add_stream(c, s);
  if (st != ST_OK) {
    stream_unref(s);
    return st;
  }
  trace_add(&trace_stats()->n_streams, 1);
  INVARIANT(s->home == c && stream_is_valid(s));
  hooks_tell_step(HOOK_STREAM_CREATED, s->device, s->id, 0);
  *out = s;
  return ST_OK;
}

void stream_close(stream *s) {
  spin_lock(&s->submit_lock);
  s->closed = s->diverted = true;
  INVARIANT_WALK(stream_submission_is_valid(s));
  spin_unlock(&s->submit_lock);
}

void stream_discard(stream *s) {
  stream_close(s);
  atomic_store(&s->dropped_below, ALL_TASKS);
  atomic_thread_fence(memory_order_seq_cst); /* stream_run() releases its lock and then reads dropped_below */
  /* If another thread runs the stream, it does this. Long tasks and user functions are left to a worker. */
  if (stream_run(s, UINT64_MAX, now_ns() + KICK_NS, RUN_AS_WAITER) == RUN_LEFT && !scheduler_kick(s))
    stream_run(s, UINT64_MAX, 0, RUN_AS_STAND_IN);
}

void stream_destroy(stream *s, bool discard) {
  stream_close(s);
  if (discard) {
    stream_discard(s);
  } else {
    stream_wait(s, stream_submitted(s), 0);
  }
  hooks_tell_step(HOOK_STREAM_DESTROYED, s->device, s->id, 0);
  trace_stream_end(s->device, s->id);
  context_remove_stream(s);
  stream_unref(s);
}

void stream_unref(stream *s) {
  if (!object_unref(&s->o)) return;
  INVARIANT(!s->recording && !s->update && !atomic_load(&s->listed));
  INVARIANT(!spin_is_held(&s->run_lock, memory_order_seq_cst) && !spin_is_held(&s->submit_lock, memory_order_relaxed) &&
            !atomic_load(&s->sleepers));
  INVARIANT_WALK(stream_is_valid(s));
  while (s->q.next < stream_submitted(s)) {
    task *t = queue_front(&s->q);
    if (t->kind->drop) t->kind->drop(t, s);
    queue_pop(&s->q);
  }
  INVARIANT(!atomic_load(&s->waits_for));
  queue_free(&s->q);
  free(s->error_text);
  free(s->clock);
  if (s->home) context_unref(s->home);
  object_release(OBJECT_STREAM, &s->o);
}
