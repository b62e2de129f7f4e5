/* SPDX-License-Identifier: Apache-2.0 */
#include "feed/meter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/stats_write.h"
#include "trace/timeline.h"

enum { NOTE_COST_NS = 30 };

struct meter {
  _Atomic uint32_t refs;
  char name[32];
  meter_wait *_Atomic asked; /* between meter_ask() and meter_got() */
  stats_feed *row;           /* in the process's counters, or `own` */
  stats_feed own;
};

struct meter_wait {
  _Atomic uint32_t refs; /* the caller, and the tasks */
  meter *meter;
  _Atomic uint64_t arrived_ns;
};

status meter_open(const char *name, int device, meter **out) {
  meter *m = calloc(1, sizeof *m);
  if (!m) return fail(ST_NO_HOST_MEMORY, "no host memory for a feed");
  atomic_store(&m->refs, 1);
  snprintf(m->name, sizeof m->name, "%s", name);
  m->row = trace_feed_open(name, device);
  if (!m->row) m->row = &m->own;
  *out = m;
  return ST_OK;
}

stats_feed *meter_counts(meter *m) { return m->row; }

static void meter_unref(meter *m) {
  if (atomic_fetch_sub(&m->refs, 1) == 1) free(m);
}

void meter_close(meter *m) {
  meter_forget(atomic_exchange(&m->asked, NULL));
  if (m->row != &m->own) trace_feed_close(m->row);
  meter_unref(m);
}

void meter_work(meter *m, const char *what, uint64_t batch, uint64_t start_ns, uint64_t end_ns) {
  trace_add(&m->row->decode_ns, end_ns - start_ns);
  if (!timeline_wants(TIMELINE_WANTS_MARKS | TIMELINE_WANTS_TASKS)) return;
  char text[80];
  static const char domain[] = "cannon.feed", type[] = "start/end";
  const int n = snprintf(text, sizeof text, "%s: %s batch %ju", m->name, what, (uintmax_t)batch);
  timeline_record r = {.kind = TIMELINE_MARK,
                       .name = timeline_name(text, (size_t)n),
                       .type = timeline_name(type, sizeof type - 1),
                       .bytes = timeline_name(domain, sizeof domain - 1),
                       .device = -1,
                       .start_ns = start_ns,
                       .end_ns = end_ns};
  timeline_add(&r);
}

/* ---- waits ------------------------------------------------------------------------------------------------------- */

void meter_forget(meter_wait *w) {
  if (!w || atomic_fetch_sub(&w->refs, 1) != 1) return;
  meter_unref(w->meter);
  free(w);
}

static status meter_run_arrive(task *t, stream *s) {
  (void)s;
  meter_wait *w = t->host.argument;
  atomic_store(&w->arrived_ns, timeline_now());
  meter_forget(w);
  return ST_OK;
}

static void meter_drop(task *t, stream *s) {
  (void)s;
  meter_forget(t->host.argument);
}

static status meter_run_pass(task *t, stream *s) {
  (void)s;
  meter_wait *w = t->host.argument;
  const uint64_t arrived_ns = atomic_load(&w->arrived_ns), now = timeline_now();
  if (arrived_ns) {
    trace_add(&w->meter->row->device_ns, now - arrived_ns);
    trace_max(&w->meter->row->last_ns, now);
  }
  meter_forget(w);
  return ST_OK;
}

/* The row begins where the stream has come to the request. */
static void meter_describe(const task *t, task_words *words) {
  const meter_wait *w = t->host.argument;
  words->start_ns = atomic_load(&w->arrived_ns);
}

static const task_kind arrive_kind = {
    .name = "data asked for", .run = meter_run_arrive, .drop = meter_drop, .control = true};
static const task_kind pass_kind = {
    .name = "wait for data", .run = meter_run_pass, .drop = meter_drop, .describe = meter_describe, .control = true};

static status meter_submit(meter_wait *w, stream *s, const task_kind *kind) {
  task *t;
  TRY(stream_new_task(s, kind, &t));
  atomic_fetch_add(&w->refs, 1);
  t->cost_ns = NOTE_COST_NS;
  t->host.argument = w;
  stream_submit(s, t);
  return ST_OK;
}

status meter_arrive(meter *m, stream *s, meter_wait **out) {
  *out = NULL;
  if (!trace_is_on() && !timeline_wants(TIMELINE_WANTS_TASKS)) return ST_OK;
  meter_wait *w = calloc(1, sizeof *w);
  if (!w) return fail(ST_NO_HOST_MEMORY, "no host memory for a wait");
  atomic_store(&w->refs, 1);
  w->meter = m;
  atomic_fetch_add(&m->refs, 1);
  uint64_t none = 0;
  atomic_compare_exchange_strong(&m->row->first_ns, &none, timeline_now());
  const status st = meter_submit(w, s, &arrive_kind);
  if (st != ST_OK)
    meter_forget(w);
  else
    *out = w;
  return st;
}

status meter_pass(meter_wait *w, stream *s) {
  const status st = w ? meter_submit(w, s, &pass_kind) : ST_OK;
  meter_forget(w);
  return st;
}

status meter_ask(meter *m, stream *s) {
  meter_wait *w;
  TRY(meter_arrive(m, s, &w));
  meter_forget(atomic_exchange(&m->asked, w));
  return ST_OK;
}

status meter_got(meter *m, stream *s, uint64_t records, uint64_t bytes) {
  TRY(meter_pass(atomic_exchange(&m->asked, NULL), s));
  trace_add(&m->row->n_batches, 1);
  trace_add(&m->row->n_records, records);
  trace_add(&m->row->record_bytes, bytes);
  return ST_OK;
}
