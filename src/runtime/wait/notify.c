/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/wait/notify.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/hooks.h"
#include "base/invariant.h"
#include "base/lock.h"
#include "memory/space.h"
#include "runtime/graph/capture.h"
#include "runtime/scheduler.h"
#include "runtime/task_tell.h"
#include "runtime/wait/stream_order.h"

enum { NOTIFY_COST_NS = 30 };

_Atomic int notify_n_waiting;

/* ---- life -------------------------------------------------------------------------------------------------------- */

static _Atomic int n_alive[SPACE_MAX_DEVICES][2];

status notify_create(int device, bool counts, notify **out) {
  _Atomic int *alive = &n_alive[device][counts];
  notify *n = atomic_fetch_add(alive, 1) < NOTIFIES_OF_DEVICE ? object_new(OBJECT_NOTIFY) : NULL;
  if (!n) {
    atomic_fetch_sub(alive, 1);
    return fail(ST_NO_NOTIFIES, "no %snotify is left on device %d, which has %d", counts ? "count " : "", device,
                NOTIFIES_OF_DEVICE);
  }
  n->device = device;
  n->id = (uint32_t)n->o.serial;
  n->counts = n->unordered = counts;
  n->is_counted = true;
  *out = n;
  return ST_OK;
}

/* The device has room for another notify. */
static void give_back_number(notify *n) {
  if (!n->is_counted) return;
  n->is_counted = false;
  const int before = atomic_fetch_sub(&n_alive[n->device][n->counts], 1);
  INVARIANT(before >= 1 && before <= NOTIFIES_OF_DEVICE);
}

void notify_unref(notify *n) {
  if (!object_unref(&n->o)) return;
  INVARIANT(!n->waiters); /* each task that uses the notify has a reference */
  if (n->share) notify_unshare(n);
  free(n->clock);
  if (hooks_tasks_wanted())
    hooks_order((hook_order){.kind = HOOK_OBJECT_GONE, .object = HOOK_BY_NOTIFY, .device = n->device, .number = n->id});
  give_back_number(n);
  object_release(OBJECT_NOTIFY, &n->o);
}

bool notify_end(notify *n, void *site) {
  spin_lock(&n->o.lock);
  n->ended = stall_end_of_object(site);
  spin_unlock(&n->o.lock);
  if (!object_kill(&n->o)) return false;
  give_back_number(n);
  return true;
}

/* ---- the number and who waits for it ----------------------------------------------------------------------------- */

static uint32_t recorded(uint32_t value, int mode, uint32_t with) {
  switch (mode) {
  case RECORD_ADD: return value + with;
  case RECORD_OR: return value | with;
  case RECORD_AND: return value & with;
  default: return with;
  }
}

static uint32_t notify_number(const notify *n) { return n->share ? atomic_load(n->share->word) : n->value; }

static void notify_set_number(notify *n, uint32_t value) {
  if (n->share)
    atomic_store(n->share->word, value);
  else
    n->value = value;
}

static bool notify_holds(const notify *n, const task *t) {
  const uint32_t value = notify_number(n), wanted = t->notify.value;
  switch (t->notify.mode) {
  case WAIT_LESS: return value < wanted;
  case WAIT_GREATER: return value > wanted;
  case WAIT_GREATER_EQUAL: return value >= wanted;
  case WAIT_ALL_BITS: return (value & wanted) == wanted;
  default: return value == wanted;
  }
}

#ifdef CANNON_INVARIANTS
/* The number of a shared notify may change at any time, without a check of conditions. */
bool notify_is_valid(const notify *n) {
  int n_waiters = 0;
  for (const stream *s = n->waiters; s; s = s->next_waiter, ++n_waiters) {
    const task *t = s->waits_task;
    if (!atomic_load(&s->o.refs) || !t || t->notify.notify != n || s->next_waiter == s) return false;
    if (!n->share && notify_holds(n, t)) return false;
  }
  return spin_is_held(&n->o.lock, memory_order_relaxed) && n_waiters <= atomic_load(&notify_n_waiting) &&
         (n->counts || n->share || n->value <= 1) && (n->unordered || !n->share);
}
#endif

static void count_waiting(const notify *n, int change) {
  atomic_fetch_add_explicit(&notify_n_waiting, change, memory_order_relaxed);
  if (n->share) atomic_fetch_add(&notify_n_shared_waiting, change);
}

/* As notify_take_satisfied(); the lock is held. */
static stream *notify_take_satisfied_locked(notify *n, stream *satisfied) {
  stream **link = &n->waiters;
  while (*link) {
    stream *s = *link;
    if (!notify_holds(n, s->waits_task)) {
      link = &s->next_waiter;
      continue;
    }
    *link = s->next_waiter;
    atomic_store(&s->released, true);
    s->next_waiter = satisfied;
    satisfied = s;
    count_waiting(n, -1);
  }
  return satisfied;
}

stream *notify_take_satisfied(notify *n, stream *satisfied) {
  spin_lock(&n->o.lock);
  satisfied = notify_take_satisfied_locked(n, satisfied);
  INVARIANT_WALK(notify_is_valid(n));
  spin_unlock(&n->o.lock);
  return satisfied;
}

static void notify_set(notify *n, int mode, uint32_t value) {
  spin_lock(&n->o.lock);
  notify_set_number(n, recorded(notify_number(n), mode, value));
  stream *satisfied = n->waiters ? notify_take_satisfied_locked(n, NULL) : NULL;
  INVARIANT_WALK(notify_is_valid(n));
  spin_unlock(&n->o.lock);
  stream_unblock_all(satisfied);
}

void notify_clear(notify *n) { notify_set(n, RECORD_SET, 0); }

/* Takes s off the list if it is there; the list's reference is the caller's then. The lock is held. */
static bool notify_leave(notify *n, stream *s) {
  for (stream **link = &n->waiters; *link; link = &(*link)->next_waiter) {
    if (*link != s) continue;
    *link = s->next_waiter;
    count_waiting(n, -1);
    return true;
  }
  return false;
}

static void notify_enter(notify *n, stream *s, task *t) {
  INVARIANT(!atomic_load(&s->waits_for) && spin_is_held(&s->run_lock, memory_order_relaxed));
  object_ref(&s->o);
  atomic_store(&s->blocked, true);
  s->waits_task = t;
  s->next_waiter = n->waiters;
  n->waiters = s;
  count_waiting(n, 1);
}

/* ---- record ------------------------------------------------------------------------------------------------------ */

static void notify_keep(task *t) { object_ref(&t->notify.notify->o); }
static void notify_let_go(task *t) { notify_unref(t->notify.notify); }

static void notify_keep_record(task *t) {
  notify *n = t->notify.notify;
  notify_keep(t);
  spin_lock(&n->o.lock);
  ++n->n_recording;
  spin_unlock(&n->o.lock);
}

static void notify_end_record(task *t) {
  notify *n = t->notify.notify;
  spin_lock(&n->o.lock);
  INVARIANT(n->n_recording);
  --n->n_recording;
  spin_unlock(&n->o.lock);
  notify_let_go(t);
}

static status notify_run_record(task *t, stream *s) {
  (void)s;
  notify_set(t->notify.notify, t->notify.mode, t->notify.value);
  notify_end_record(t);
  return ST_OK;
}

/* A record that is dropped has its effect as well, since streams that wait for it must not hang. */
static void notify_drop_record(task *t, stream *s) { notify_run_record(t, s); }

/* The object and the mark. A shared notify may stand for order that passes through another process. */
static void notify_orders(const task *t, hook_order *out) {
  notify *n = t->notify.notify;
  spin_lock(&n->o.lock);
  out->object = n->share ? HOOK_BY_OUTSIDE : HOOK_BY_NOTIFY;
  out->number = n->id;
  const uint64_t number = out->kind == HOOK_SIGNALS ? n->n_records : n->n_waits;
  out->generation = n->unordered ? 0 : number;
  spin_unlock(&n->o.lock);
}

static void notify_record_orders(const task *t, hook_order *out) {
  out->kind = HOOK_SIGNALS;
  notify_orders(t, out);
}

static const task_kind record_kind = {.name = "notify record",
                                      .run = notify_run_record,
                                      .drop = notify_drop_record,
                                      .control = true,
                                      .again = true,
                                      .copied = notify_keep_record,
                                      .orders = notify_record_orders,
                                      .release = notify_end_record};

/* Whether the notify still passes order on after a task of stream s. `only` is the one stream that records it, or waits
 * for it, so far. Tasks in graphs end it, since they run any number of times, in any stream. Both locks are held. */
static bool in_order(notify *n, uint64_t *only, stream *s) {
  if (!*only) *only = s->o.serial;
  if (capture_records(s) || *only != s->o.serial) n->unordered = true;
  return !n->unordered;
}

status notify_record(notify *n, int mode, uint32_t value, stream *s) {
  task *t;
  if (order_is_wanted()) order_prepare(&n->clock);
  hooks_tell_step(HOOK_EVENT_RECORDED, s->device, s->id, n->id); /* has no effect unless the wait is told too */
  TRY(stream_new_task(s, &record_kind, &t));
  t->cost_ns = NOTIFY_COST_NS;
  t->notify.notify = n;
  t->notify.mode = (uint8_t)mode;
  t->notify.value = value;
  notify_keep_record(t);
  spin_lock(&n->o.lock);
  ++n->n_records;
  if (in_order(n, &n->recorder, s) && order_is_wanted()) order_record(n->clock, s);
  spin_unlock(&n->o.lock);
  stream_submit(s, t);
  return ST_OK;
}

/* ---- wait -------------------------------------------------------------------------------------------------------- */

static void notify_end_wait(task *t) {
  atomic_fetch_sub(&order_n_ahead, 1);
  notify_let_go(t);
}

static status notify_run_wait(task *t, stream *s) {
  notify *n = t->notify.notify;
  const uint64_t deadline = atomic_load(&s->wait_deadline_ns);
  if (t->notify.timeout_ns && !deadline) atomic_store(&s->wait_deadline_ns, now_ns() + t->notify.timeout_ns);
  stream *satisfied = NULL;
  stream_await_unblock(s);
  spin_lock(&n->o.lock);
  const bool was_there = deadline && notify_leave(n, s), passes = notify_holds(n, t),
             late = deadline && now_ns() >= deadline;
  if (passes && t->notify.clears) {
    notify_set_number(n, 0);
    if (n->waiters) satisfied = notify_take_satisfied_locked(n, NULL); /* whose condition holds for 0 */
  }
  if (!passes && !late) notify_enter(n, s, t);
  INVARIANT_WALK(notify_is_valid(n));
  spin_unlock(&n->o.lock);
  stream_unblock_all(satisfied);
  if (was_there) stream_unref(s);
  if (!passes && !late) {
    scheduler_rouse();
    return TASK_BLOCKED;
  }
  if (t->notify.timeout_ns) atomic_store(&s->wait_deadline_ns, 0);
  const uint32_t id = n->id;
  task_tell_passed(s);
  notify_end_wait(t);
  if (passes) return ST_OK;
  return fail(ST_WAIT_TIMEOUT, "notify %u was not recorded within the wait's %ju s", id,
              (uintmax_t)(t->notify.timeout_ns / 1000000000));
}

static void notify_drop_wait(task *t, stream *s) {
  notify *n = t->notify.notify;
  spin_lock(&n->o.lock);
  const bool was_there = notify_leave(n, s);
  spin_unlock(&n->o.lock);
  if (was_there) stream_unref(s);
  atomic_store(&s->wait_deadline_ns, 0);
  atomic_store(&s->blocked, false);
  notify_end_wait(t);
}

static void keep_wait(task *t) {
  notify_keep(t);
  atomic_fetch_add(&order_n_ahead, 1);
}

static void notify_wait_orders(const task *t, hook_order *out) {
  out->kind = HOOK_AWAITS;
  notify_orders(t, out);
}

static bool is_record_for(const task *candidate, const task *wait) {
  return candidate->kind == &record_kind && candidate->notify.notify == wait->notify.notify;
}

static void notify_awaits(const task *t, const stream *s, task_wait *out) {
  notify *n = t->notify.notify;
  spin_lock(&n->o.lock);
  const bool is_live = object_is_live(&n->o);
  out->state = is_live ? WAIT_UNSIGNALED : WAIT_ORPHANED;
  if (n->share || atomic_load(&s->wait_deadline_ns)) out->state = WAIT_OPEN;
  out->n_ends = n->n_recording;
  if (!is_live) out->ended = n->ended;
  const uint32_t value = notify_number(n);
  spin_unlock(&n->o.lock);
  if (n->counts)
    snprintf(out->what, sizeof out->what, "count notify %u, which is %u", n->id, value);
  else
    snprintf(out->what, sizeof out->what, "a record of notify %u", n->id);
  out->ends = is_record_for;
  out->handle = n;
  out->handle_kind = HOOK_NOTIFY;
}

static const task_kind wait_kind = {.name = "notify wait",
                                    .run = notify_run_wait,
                                    .awaits = notify_awaits,
                                    .drop = notify_drop_wait,
                                    .again = true,
                                    .copied = keep_wait,
                                    .orders = notify_wait_orders,
                                    .release = notify_end_wait};

status notify_wait(notify *n, int mode, uint32_t value, bool clears, uint64_t timeout_ns, stream *s) {
  task *t;
  if (n->share && n->share->imported)
    return fail(ST_INVALID_VALUE, "notify %u is another process's, expected that process to wait for it", n->id);
  if (order_is_wanted()) order_prepare(&s->clock);
  TRY(stream_new_task(s, &wait_kind, &t));
  t->cost_ns = NOTIFY_COST_NS;
  t->notify.notify = n;
  t->notify.mode = (uint8_t)mode;
  t->notify.value = value;
  t->notify.clears = clears;
  t->notify.timeout_ns = timeout_ns;
  keep_wait(t);
  spin_lock(&n->o.lock);
  ++n->n_waits;
  /* The n-th wait comes after the latest record if that is the n-th. A wait that times out
   * passes without its record. */
  if (timeout_ns) n->unordered = true;
  const bool ordered = in_order(n, &n->waiter, s) && n->n_waits == n->n_records;
  if (ordered && order_is_wanted()) order_wait(n->clock, s);
  spin_unlock(&n->o.lock);
  stream_submit(s, t);
  if (ordered) hooks_tell_step(HOOK_EVENT_AWAITED, s->device, s->id, n->id);
  return ST_OK;
}
