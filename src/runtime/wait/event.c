/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/wait/event.h"

#include <stdio.h>

#include "base/hooks.h"
#include "base/invariant.h"
#include "base/lock.h"
#include "memory/pool/stream_pool.h"
#include "runtime/abort.h"
#include "runtime/context.h"
#include "runtime/dry/dry.h"
#include "runtime/dry/dry_clock.h"
#include "runtime/graph/capture.h"
#include "runtime/scheduler.h"
#include "runtime/task_tell.h"
#include "runtime/wait/event_share.h"
#include "runtime/wait/stream_order.h"
#include "trace/stats_write.h"

enum { CONTROL_COST_NS = 30 };

status event_create(context *c, event_kind kind, uint32_t flags, event **out) {
  event *e = object_new(OBJECT_EVENT);
  if (!e) return fail(ST_NO_EVENTS, "no event is left on device %d", c->device);
  e->context_serial = c->o.serial;
  e->device = c->device;
  e->kind = kind;
  e->flags = flags;
  e->id = (uint32_t)e->o.serial;
  trace_add(&trace_stats()->n_events, 1);
  *out = e;
  return ST_OK;
}

void event_unref(event *e) {
  if (!object_unref(&e->o)) return;
  INVARIANT(!e->first_open && !e->waiters); /* each task that uses the event has a reference */
  if (hooks_tasks_wanted())
    hooks_order((hook_order){.kind = HOOK_OBJECT_GONE, .object = HOOK_BY_EVENT, .device = e->device, .number = e->id});
  if (e->share) event_unshare(e);
  free(e->clock);
  object_release(OBJECT_EVENT, &e->o);
}

void event_note_end(event *e, void *site) {
  spin_lock(&e->o.lock);
  e->ended = stall_end_of_object(site);
  spin_unlock(&e->o.lock);
}

status event_check_context(const event *e, const stream *s) {
  const context *c = s->context;
  if (c && c->o.serial == e->context_serial) return ST_OK;
  return fail(ST_OTHER_CONTEXT, "event %u is not of the context of stream %u", e->id, s->id);
}

/* ---- record ------------------------------------------------------------------------------------------------------ */

/* The record of this generation if it is open, else NULL. There are few older ones that are
 * open: those of other streams. */
static task *open_record(const event *e, uint64_t generation) {
  task *t = e->first_open;
  while (t && t->sync.generation < generation) t = t->sync.next;
  return t && t->sync.generation == generation ? t : NULL;
}

/* Takes over the records of other processes. The caller holds the lock. */
static void event_update(event *e) {
  if (unlikely(e->share)) e->submitted = event_share_latest(e->share);
}

/* Whether order passes from records to waits within this process. Where other processes may record, it does not. */
static bool event_passes_order(const event *e) { return order_is_wanted() && !(e->flags & EVENT_IPC); }

/* Whether a wait for this generation is over; generation 0 waits for nothing. A wait for a generation that was undone
 * is over when any later one is reached. */
static bool event_is_over(const event *e, uint64_t generation) {
  if (!generation) return true;
  if (generation <= e->reset_floor) return e->completed > e->reset_floor;
  if (generation > e->submitted || open_record(e, generation)) return false;
  return !e->share || event_share_reached(e->share, generation);
}

#ifdef CANNON_INVARIANTS
static bool event_open_is_valid(const event *e) {
  uint64_t generation = 0;
  const task *previous = NULL;
  for (const task *t = e->first_open; t; previous = t, t = t->sync.next) {
    if (t->sync.previous != previous || t->sync.event != e || t->sync.generation <= generation) return false;
    generation = t->sync.generation;
  }
  return e->last_open == previous && generation <= e->submitted;
}

static bool event_waiters_are_valid(const event *e) {
  for (const stream *s = e->waiters; s; s = s->next_waiter)
    if (atomic_load(&s->waits_for) != e || !atomic_load(&s->o.refs) ||
        (!e->share && event_is_over(e, s->waits_generation)))
      return false;
  return true;
}

bool event_is_valid(const event *e) {
  return spin_is_held(&e->o.lock, memory_order_relaxed) && e->completed <= e->submitted &&
         e->consumed <= e->submitted && e->reset_floor <= e->submitted && (e->submitted || !e->recorded) &&
         e->n_waits_done <= e->n_waits && event_open_is_valid(e) && event_waiters_are_valid(e);
}
#endif

static void event_count_waiting(const event *e, int change) {
  if (unlikely(e->share)) atomic_fetch_add(&event_n_shared_waiting, change);
}

/* As event_take_satisfied(); the lock is held. */
static stream *take_satisfied(event *e, stream *satisfied) {
  stream **link = &e->waiters;
  while (*link) {
    stream *s = *link;
    if (!event_is_over(e, s->waits_generation)) {
      link = &s->next_waiter;
      continue;
    }
    *link = s->next_waiter;
    atomic_store(&s->waits_for, NULL);
    atomic_store(&s->released, true);
    s->next_waiter = satisfied;
    satisfied = s;
    event_count_waiting(e, -1);
  }
  return satisfied;
}

stream *event_take_satisfied(event *e, stream *satisfied) {
  spin_lock(&e->o.lock);
  satisfied = take_satisfied(e, satisfied);
  INVARIANT_WALK(event_is_valid(e));
  spin_unlock(&e->o.lock);
  return satisfied;
}

void event_set_share(event *e, event_share *s) {
  spin_lock(&e->o.lock);
  atomic_store(&s->marks->submitted, e->submitted);
  for (uint64_t i = 0; i < EVENT_MARKS && i < e->submitted; ++i) {
    uint64_t generation = e->submitted - i;
    while (open_record(e, generation)) generation -= generation > EVENT_MARKS ? EVENT_MARKS : generation;
    if (generation) event_share_reach(s, generation);
  }
  e->share = s;
  for (const stream *w = e->waiters; w; w = w->next_waiter) event_count_waiting(e, 1);
  INVARIANT_WALK(event_is_valid(e));
  spin_unlock(&e->o.lock);
}

static void open_append(event *e, task *t) {
  t->sync.next = NULL;
  t->sync.previous = e->last_open;
  *(e->last_open ? &e->last_open->sync.next : &e->first_open) = t;
  e->last_open = t;
}

static void open_remove(event *e, task *t) {
  INVARIANT(t->sync.previous || e->first_open == t);
  INVARIANT(t->sync.next || e->last_open == t);
  *(t->sync.previous ? &t->sync.previous->sync.next : &e->first_open) = t->sync.next;
  *(t->sync.next ? &t->sync.next->sync.previous : &e->last_open) = t->sync.previous;
}

static status event_run_record(task *t, stream *s) {
  event *e = t->sync.event;
  const uint64_t now = dry_is_on() ? s->dry_ns + 1 : now_ns(); /* 0 would be no time */
  INVARIANT(t->sync.stream == s && t->sync.position == s->q.next + 1);
  spin_lock(&e->o.lock);
  open_remove(e, t);
  if (e->completed < t->sync.generation) {
    e->completed = t->sync.generation;
    e->time_ns = now;
  }
  if (unlikely(e->share)) event_share_reach(e->share, t->sync.generation);
  stream *satisfied = e->waiters ? take_satisfied(e, NULL) : NULL;
  INVARIANT_WALK(event_is_valid(e));
  spin_unlock(&e->o.lock);
  stream_unblock_all(satisfied);
  event_unref(e);
  return ST_OK;
}

static void drop_sync(task *t, stream *s) {
  (void)s;
  event_unref(t->sync.event);
}

/* A record that is dropped completes as well, since streams that wait for it must not hang. */
static void event_drop_record(task *t, stream *s) { event_run_record(t, s); }

static void event_record_orders(const task *t, hook_order *out) {
  out->kind = HOOK_SIGNALS;
  out->object = HOOK_BY_EVENT;
  out->number = t->sync.event->id;
  out->generation = t->sync.event->flags & EVENT_IPC ? 0 : t->sync.generation;
}

static const task_kind record_kind = {.name = "event record",
                                      .run = event_run_record,
                                      .drop = event_drop_record,
                                      .control = true,
                                      .orders = event_record_orders,
                                      .tells = TASK_TELLS_RECORD};

status event_submit_record(event *e, stream *s) {
  task *t;
  if (event_passes_order(e)) order_prepare(&e->clock);
  hooks_tell_step(HOOK_EVENT_RECORDED, s->device, s->id, e->id); /* has no effect if the next line fails */
  TRY(stream_new_task(s, &record_kind, &t));
  object_ref(&e->o);
  t->cost_ns = CONTROL_COST_NS;
  t->sync.event = e;
  t->sync.stream = s;
  t->sync.position = atomic_load_explicit(&s->q.submitted, memory_order_relaxed) + 1;
  spin_lock(&e->o.lock);
  e->recorded = true;
  if (unlikely(atomic_load_explicit(&e->captured_by, memory_order_relaxed))) atomic_store(&e->captured_by, 0);
  e->submitted = unlikely(e->share) ? event_share_add(e->share) : e->submitted + 1;
  t->sync.generation = e->submitted;
  open_append(e, t);
  INVARIANT_WALK(event_is_valid(e));
  if (event_passes_order(e)) order_record(e->clock, s);
  spin_unlock(&e->o.lock);
  stream_submit(s, t);
  return ST_OK;
}

status event_record(event *e, stream *s) {
  if (capture_records(s)) {
    bool taken;
    const status st = capture_record(e, s, false, &taken);
    if (taken) return st;
  }
  return event_submit_record(e, s);
}

/* ---- reset ------------------------------------------------------------------------------------------------------- */

/* Undoes all generations that were recorded before the reset was submitted, and those that have ended a
 * wait since: on a device, a wait in front of the reset passes by a record that the host submits after
 * both. Later records are kept. */
static status run_reset(task *t, stream *s) {
  (void)s;
  event *e = t->sync.event;
  spin_lock(&e->o.lock);
  const uint64_t undone = e->consumed > t->sync.generation ? e->consumed : t->sync.generation;
  if (e->reset_floor < undone) e->reset_floor = undone;
  /* If a later record, in another stream, was reached already, waits for generations that are undone now are over. */
  stream *satisfied = e->waiters ? take_satisfied(e, NULL) : NULL;
  INVARIANT_WALK(event_is_valid(e));
  spin_unlock(&e->o.lock);
  stream_unblock_all(satisfied);
  event_unref(e);
  return ST_OK;
}

static const task_kind reset_kind = {.name = "event reset", .run = run_reset, .drop = drop_sync};

status event_reset(event *e, stream *s) {
  task *t;
  if (capture_records(s)) {
    bool taken;
    const status st = capture_reset(e, s, &taken);
    if (taken) return st;
  }
  TRY(stream_new_task(s, &reset_kind, &t));
  object_ref(&e->o);
  spin_lock(&e->o.lock);
  e->recorded = false;
  e->was_reset = true;
  t->sync.generation = e->submitted;
  INVARIANT_WALK(event_is_valid(e));
  spin_unlock(&e->o.lock);
  t->cost_ns = CONTROL_COST_NS;
  t->sync.event = e;
  stream_submit(s, t);
  return ST_OK;
}

/* ---- wait -------------------------------------------------------------------------------------------------------- */

/* Blocks s and puts it into the event's list of waiters, unless its wait is over. */
static bool must_wait(event *e, stream *s, uint64_t generation) {
  stream_await_unblock(s);
  spin_lock(&e->o.lock);
  INVARIANT(!atomic_load(&s->waits_for) && spin_is_held(&s->run_lock, memory_order_relaxed));
  const bool wait = !event_is_over(e, generation);
  if (wait) {
    object_ref(&s->o);
    atomic_store(&s->blocked, true);
    atomic_store(&s->waits_for, e);
    s->waits_generation = generation;
    s->next_waiter = e->waiters;
    e->waiters = s;
    event_count_waiting(e, 1);
    INVARIANT_WALK(event_is_valid(e));
  } else {
    ++e->n_waits_done;
    const uint64_t by = generation > e->reset_floor ? generation : e->reset_floor + 1;
    if (generation && e->consumed < by) e->consumed = by;
  }
  const bool rouse = wait && e->share;
  spin_unlock(&e->o.lock);
  if (unlikely(rouse)) scheduler_rouse();
  return wait;
}

static stream *event_record_source(const task *t, uint64_t *position);

/* Takes s off the list of waiters; false if a record has done so, or s was never there. Counts the wait as over if it
 * was dropped, or s was on the list. */
static bool event_leave(event *e, stream *s, bool dropped) {
  spin_lock(&e->o.lock);
  stream **link = &e->waiters;
  while (*link && *link != s) link = &(*link)->next_waiter;
  const bool found = *link;
  if (found) {
    *link = s->next_waiter;
    atomic_store(&s->waits_for, NULL);
    event_count_waiting(e, -1);
  }
  if (found || dropped) ++e->n_waits_done;
  INVARIANT_WALK(event_is_valid(e));
  spin_unlock(&e->o.lock);
  if (found) stream_unref(s);
  return found;
}

/* Drops the references of a wait that is over: it has passed, timed out, or was dropped. */
static void event_end_wait(task *t) {
  if (t->sync.ahead) atomic_fetch_sub(&order_n_ahead, 1);
  event_unref(t->sync.event);
}

static status event_run_wait(task *t, stream *s) {
  event *e = t->sync.event;
  const uint64_t deadline = atomic_load(&s->wait_deadline_ns);
  if (deadline && now_ns() >= deadline && event_leave(e, s, false)) {
    atomic_store(&s->wait_deadline_ns, 0);
    const uint32_t id = e->id;
    task_tell_passed(s);
    event_end_wait(t);
    return fail(ST_WAIT_TIMEOUT, "event %u was not recorded within the wait's %ju ms", id,
                (uintmax_t)(t->sync.timeout_ns / 1000000));
  }
  if (t->sync.timeout_ns && !deadline) atomic_store(&s->wait_deadline_ns, now_ns() + t->sync.timeout_ns);
  if (must_wait(e, s, t->sync.generation)) return TASK_BLOCKED;
  if (t->sync.timeout_ns) atomic_store(&s->wait_deadline_ns, 0);
  task_tell_passed(s);
  event_end_wait(t);
  return ST_OK;
}

/* Here a stream leaves the list of waiters if its tasks are dropped while it waits. */
static void event_drop_wait(task *t, stream *s) {
  event_leave(t->sync.event, s, true);
  atomic_store(&s->blocked, false);
  event_end_wait(t);
}

static void event_wait_orders(const task *t, hook_order *out) {
  event *e = t->sync.event;
  event_record_orders(t, out);
  out->kind = HOOK_AWAITS;
  spin_lock(&e->o.lock);
  if (e->was_reset || e->flags & EVENT_IPC) out->generation = HOOK_ANY_MARK;
  spin_unlock(&e->o.lock);
}

/* The references of an event are those of its handle, of its tasks, and of graphs and calls that may record it. */
static void event_awaits(const task *t, const stream *s, task_wait *out) {
  event *e = t->sync.event;
  uint64_t position;
  spin_lock(&e->o.lock);
  const task *record = open_record(e, t->sync.generation);
  if (!record && t->sync.generation <= e->reset_floor) record = e->first_open;
  uint64_t n_tasks = e->n_waits - e->n_waits_done;
  for (const task *open = e->first_open; open; open = open->sync.next) ++n_tasks;
  const bool is_held = object_is_live(&e->o) || atomic_load(&e->o.refs) > n_tasks;
  out->state = is_held ? WAIT_UNSIGNALED : WAIT_ORPHANED;
  /* A queued record ends the wait, whoever has the event. */
  if (record) out->source = event_record_source(record, &position);
  if (out->source) out->state = WAIT_ORPHANED;
  if (e->share || atomic_load(&s->wait_deadline_ns) || (record && !out->source)) out->state = WAIT_OPEN;
  if (!is_held) out->ended = e->ended;
  spin_unlock(&e->o.lock);
  snprintf(out->what, sizeof out->what, "%sevent %u", record ? "" : "a record of ", e->id);
  out->handle = e;
  out->handle_kind = HOOK_EVENT;
}

static const task_kind wait_kind = {.name = "event wait",
                                    .run = event_run_wait,
                                    .awaits = event_awaits,
                                    .drop = event_drop_wait,
                                    .orders = event_wait_orders,
                                    .tells = TASK_TELLS_WAIT};

status event_submit_wait(event *e, stream *s, uint64_t timeout_ns) {
  task *t;
  if (order_is_wanted()) order_prepare(&s->clock);
  TRY(stream_new_task(s, &wait_kind, &t));
  object_ref(&e->o);
  spin_lock(&e->o.lock);
  event_update(e);
  ++e->n_waits;
  if (e->kind == EVENT_EX)
    t->sync.generation = e->submitted; /* the latest record so far; if there is none, it passes */
  else
    t->sync.generation = e->recorded ? e->submitted : e->submitted + 1;
  t->sync.ahead = t->sync.generation > e->submitted || e->share;
  const bool is_void = !t->sync.generation; /* never recorded: the stream does not wait */
  if (event_passes_order(e) && !t->sync.ahead && !timeout_ns) order_wait(e->clock, s);
  spin_unlock(&e->o.lock);
  if (t->sync.ahead) atomic_fetch_add(&order_n_ahead, 1);
  t->cost_ns = CONTROL_COST_NS;
  t->sync.event = e;
  t->sync.timeout_ns = timeout_ns;
  stream_submit(s, t);
  hooks_tell_step(HOOK_EVENT_AWAITED, s->device, s->id, e->id);
  if (unlikely(is_void) && object_is_live(&e->o)) hooks_tell_use(HOOK_USE_UNRECORDED_EVENT, s->device);
  return ST_OK;
}

status event_wait(event *e, stream *s, uint64_t timeout_ns) {
  if (capture_any() && (capture_records(s) || atomic_load_explicit(&e->captured_by, memory_order_relaxed))) {
    bool taken;
    const status st = capture_wait(e, s, timeout_ns, false, &taken);
    if (taken) return st;
  }
  return event_submit_wait(e, s, timeout_ns);
}

status event_order(stream *source, stream *s) {
  context *c = s->context;
  event *e;
  if (!c) return fail(ST_NO_CONTEXT, "stream %u has no context any more", s->id);
  TRY(event_create(c, EVENT_EX, EVENT_SYNC, &e));
  status st = event_submit_record(e, source);
  if (st == ST_OK) st = event_submit_wait(e, s, 0);
  event_unref(e);
  return st;
}

/* The generation of the latest record; 0: there was none. */
static uint64_t latest_record(event *e) {
  spin_lock(&e->o.lock);
  event_update(e);
  const uint64_t generation = e->submitted;
  spin_unlock(&e->o.lock);
  return generation;
}

bool event_was_recorded(event *e) { return latest_record(e); }

/* The stream of an open record, with a reference, and the position behind the record. The event's lock is held, so that
 * the task is still in its queue. NULL if the stream has lost its last reference and is about to drop the record. */
static stream *event_record_source(const task *t, uint64_t *position) {
  *position = t->sync.position;
  return object_ref_again(&t->sync.stream->o) ? t->sync.stream : NULL;
}

stream *event_source_of_wait(stream *s, uint64_t *position) {
  event *e = atomic_load(&s->waits_for);
  if (!e) return NULL;
  stream *source = NULL;
  spin_lock(&e->o.lock); /* if the event was freed meanwhile, its slot still has the lock, and the next line notices */
  if (atomic_load(&s->waits_for) == e) {
    const task *t = open_record(e, s->waits_generation);
    /* If the generation was undone, any record that is reached next ends the wait. */
    if (!t && s->waits_generation <= e->reset_floor) t = e->first_open;
    if (t) source = event_record_source(t, position);
  }
  spin_unlock(&e->o.lock);
  return source;
}

/* ---- on the host ------------------------------------------------------------------------------------------------- */

/* The stream of the latest record, with a reference; NULL if that was reached, or there is none. */
static stream *pending_source(event *e, uint64_t *position) {
  stream *source = NULL;
  spin_lock(&e->o.lock);
  event_update(e);
  const task *t = e->recorded ? open_record(e, e->submitted) : NULL;
  if (t) source = event_record_source(t, position);
  spin_unlock(&e->o.lock);
  return source;
}

/* Tells stream_order.c that the latest record was reached, if it was. */
static void event_saw(event *e) {
  if (!event_passes_order(e)) return;
  spin_lock(&e->o.lock);
  if (e->submitted && event_is_over(e, e->submitted)) order_saw_event(e);
  spin_unlock(&e->o.lock);
}

/* Tells the hooks that the host knows the mark to be reached. */
static void event_tell_host(const event *e, uint64_t generation, bool is_query) {
  hooks_tell_step(HOOK_EVENT_DONE, e->device, 0, e->id);
  if (hooks_tasks_wanted() && generation)
    hooks_order((hook_order){.kind = HOOK_MARK_AWAITED,
                             .object = HOOK_BY_EVENT,
                             .device = e->device,
                             .number = e->id,
                             .generation = e->flags & EVENT_IPC ? 0 : generation,
                             .is_query = is_query});
}

/* Waits for the latest record if another process has made it. */
static status reach_outside(event *e, uint64_t timeout_ns) {
  const uint64_t generation = latest_record(e), deadline = timeout_ns ? now_ns() + timeout_ns : 0;
  for (uint64_t nap_ns = 1000;; nap_ns += nap_ns < SCHEDULER_TICK_NS ? nap_ns : 0) {
    spin_lock(&e->o.lock);
    const bool over = event_is_over(e, generation);
    spin_unlock(&e->o.lock);
    if (over) return ST_OK;
    if (abort_is_running(e->device)) return abort_refuse(e->device);
    if (deadline && now_ns() >= deadline) return ST_STREAM_TIMEOUT;
    lock_expect_none(NULL);
    nanosleep(&(struct timespec){.tv_nsec = (long)nap_ns}, NULL);
  }
}

/* event_reach(). *source: the stream that was waited for, with a reference; NULL if there was nothing to wait for. */
static status reach(event *e, uint64_t timeout_ns, stream **source) {
  uint64_t position;
  *source = NULL;
  if (abort_is_running(e->device)) return abort_refuse(e->device);
  const uint64_t generation = hooks_tasks_wanted() ? latest_record(e) : 0;
  const uint64_t since_ns = dry_is_on() ? dry_host_now() : 0;
  *source = pending_source(e, &position);
  status st = ST_OK;
  if (*source)
    st = stream_wait(*source, position, timeout_ns);
  else if (e->flags & EVENT_IPC)
    st = reach_outside(e, timeout_ns);
  if (dry_is_on()) dry_host_waited(since_ns, e->dry_ns);
  if (st == ST_STREAM_TIMEOUT)
    return fail(ST_EVENT_TIMEOUT, "event %u is not reached after %ju ms", e->id, (uintmax_t)(timeout_ns / 1000000));
  event_tell_host(e, generation, false);
  return st;
}

status event_reach(event *e, uint64_t timeout_ns) {
  stream *source;
  const status st = reach(e, timeout_ns, &source);
  if (source) stream_unref(source);
  return st;
}

static status event_wait_on_host(event *e, uint64_t timeout_ns) {
  stream *source;
  status st = reach(e, timeout_ns, &source);
  if (!source) return st;
  if (st == ST_OK && atomic_load(&source->error)) st = stream_take_failure(source);
  stream_unref(source);
  return st;
}

status event_synchronize(event *e, uint64_t timeout_ns) {
  TRY(event_wait_on_host(e, timeout_ns));
  event_saw(e);
  if (order_is_wanted()) pools_synchronized(e->device);
  return ST_OK;
}

bool event_is_complete(event *e) {
  uint64_t position;
  spin_lock(&e->o.lock);
  event_update(e);
  const uint64_t generation = e->submitted;
  const bool complete = generation ? event_is_over(e, generation) : e->kind == EVENT_EX;
  spin_unlock(&e->o.lock);
  if (complete) {
    event_saw(e);
    event_tell_host(e, generation, true);
    return true;
  }
  stream *source = pending_source(e, &position);
  if (source) {
    stream_is_idle(source);
    stream_unref(source);
  }
  return false;
}

bool event_waits_are_complete(event *e) {
  spin_lock(&e->o.lock);
  const bool complete = e->n_waits_done >= e->n_waits;
  spin_unlock(&e->o.lock);
  return complete;
}

uint64_t event_time_ns(event *e) {
  spin_lock(&e->o.lock);
  const uint64_t time = e->time_ns;
  spin_unlock(&e->o.lock);
  return time;
}
