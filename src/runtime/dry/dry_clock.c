/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/dry/dry_clock.h"

#include "runtime/dry/dry.h"
#include "runtime/dry/dry_overlap.h"
#include "runtime/wait/event.h"
#include "trace/stats_write.h"

/* By the task that the thread runs: what it took, and for how long it stood still for other ranks. */
static _Thread_local dry_spent spent;
static _Thread_local uint64_t stood_ns;

void dry_spend(uint64_t ns, uint64_t operations) {
  spent.ns += ns;
  spent.operations += operations;
}

dry_spent dry_take_spent(void) {
  const dry_spent taken = spent;
  spent = (dry_spent){0};
  return taken;
}

/* ---- the host ---------------------------------------------------------------------------------------------------- */

/* Of a given time per submission: the clock. Of the measured time: now_ns() where the clock would be 0; 0: it has not
 * begun. */
static _Atomic uint64_t host_ns, host_origin_ns;

static uint64_t measured_now(void) {
  const uint64_t now = now_ns();
  uint64_t origin = 0;
  if (atomic_compare_exchange_strong(&host_origin_ns, &origin, now)) return 0;
  return now > origin ? now - origin : 0;
}

uint64_t dry_host_now(void) {
  const dry_host how = dry_chosen()->host;
  return how == DRY_HOST_MEASURED ? measured_now() : atomic_load(&host_ns);
}

uint64_t dry_host_submit(void) {
  const dry_options *o = dry_chosen();
  if (o->host == DRY_HOST_NONE) return 0;
  const uint64_t ns =
      o->host == DRY_HOST_MEASURED ? measured_now() : atomic_fetch_add(&host_ns, o->host_launch_ns) + o->host_launch_ns;
  trace_max(&trace_stats()->dry.host_ns, ns);
  trace_add(&trace_stats()->dry.n_submitted, 1);
  return ns;
}

void dry_host_waited(uint64_t since_ns, uint64_t done_ns) {
  const dry_options *o = dry_chosen();
  if (o->host == DRY_HOST_NONE) return;
  const uint64_t until_ns = since_ns > done_ns ? since_ns : done_ns;
  if (o->host == DRY_HOST_MEASURED)
    atomic_store(&host_origin_ns, now_ns() - until_ns);
  else
    trace_max(&host_ns, until_ns);
  trace_max(&trace_stats()->dry.host_ns, until_ns);
  trace_add(&trace_stats()->dry.host_waited_ns, until_ns - since_ns);
}

void dry_copied_now(void) {
  const uint64_t since_ns = dry_host_now(), ns = dry_take_spent().ns;
  trace_add(&trace_stats()->dry.waited_ns, ns);
  dry_host_waited(since_ns, since_ns + ns);
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */

/* The clocks of events: the one of the latest record that was reached. */
static void keep_record(event *e, uint64_t generation, uint64_t ns) {
  spin_lock(&e->o.lock);
  e->dry_generation = generation;
  e->dry_ns = ns;
  spin_unlock(&e->o.lock);
}

/* The clock of that record; 0 where a later one was reached already, so that the time stays a lower bound. */
static uint64_t record_ns(event *e, uint64_t generation) {
  spin_lock(&e->o.lock);
  const uint64_t ns = e->dry_generation == generation ? e->dry_ns : 0;
  spin_unlock(&e->o.lock);
  return ns;
}

uint64_t dry_clock(const stream *s) { return s->dry_ns + spent.ns + stood_ns; }

void dry_communicate(stream *s, stats_collective *row, uint64_t begin_ns, uint64_t ns) {
  const uint64_t now = dry_clock(s), from = now > begin_ns ? now : begin_ns;
  stood_ns += from - now;
  spent.ns += ns;
  trace_add(&row->dry_ns, ns);
  trace_add(&row->dry_waited_ns, from - now);
  dry_overlap_communicate(s->device, row, from, from + ns);
}

static void move_clock(stream *s, bool works) {
  const uint64_t from = s->dry_ns + stood_ns, to = from + spent.ns;
  if (works) dry_overlap_work(s->device, from, to);
  __atomic_store_n(&s->dry_ns, to, __ATOMIC_RELAXED); /* the host reads it when it has waited */
  stats_dry *const d = &trace_stats()->dry;
  trace_add(&d->busy_ns, spent.ns);
  trace_max(&d->latest_ns, to);
  stood_ns = 0;
}

status dry_run_task(task *t, stream *s) {
  const uint8_t tells = t->kind->tells;
  event *const e = tells == TASK_TELLS_RECORD || tells == TASK_TELLS_WAIT ? t->sync.event : NULL;
  const uint64_t generation = e ? t->sync.generation : 0, submitted = queue_front_ns(&s->q);
  if (s->dry_ns < submitted) s->dry_ns = submitted;
  if (e) object_ref(&e->o); /* running drops the task's reference */
  if (tells == TASK_TELLS_RECORD) keep_record(e, generation, s->dry_ns);
  (void)dry_take_spent();
  stood_ns = 0;
  const status st = t->kind->run(t, s);
  if (tells == TASK_TELLS_WAIT && st != TASK_BLOCKED) {
    const uint64_t ns = record_ns(e, generation);
    if (s->dry_ns < ns) s->dry_ns = ns;
  }
  if (e) event_unref(e);
  move_clock(s, tells == TASK_TELLS_WORK);
  return st;
}
