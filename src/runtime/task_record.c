/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/task_record.h"

#include <string.h>

#include "base/hooks.h"
#include "runtime/dry/dry.h"
#include "runtime/dry/dry_clock.h"
#include "runtime/wait/event.h"
#include "trace/load.h"
#include "trace/overlap.h"

static uint32_t task_name_number(const char *text) { return timeline_name(text, strlen(text)); }

static timeline_record record_of(timeline_kind kind, const stream *s, uint32_t task, uint64_t start_ns) {
  return (timeline_record){.kind = kind, .device = s->device, .stream = s->id, .task = task, .start_ns = start_ns};
}

void task_record_submission(const stream *s, uint32_t id, uint64_t start_ns) {
  timeline_record r = record_of(TIMELINE_SUBMISSION, s, id, start_ns);
  r.end_ns = timeline_now();
  timeline_add(&r);
}

/* The unit on which a device would run a task of this type; LOAD_N_UNITS: none. */
static load_unit task_unit(const char *type) {
  if (strcmp(type, "cube") == 0) return LOAD_CUBE;
  return strcmp(type, "vector") == 0 ? LOAD_VECTOR : LOAD_N_UNITS;
}

/* Runs the task, and sets the times of the record. */
static status run_timed(task *t, stream *s, const char *type, timeline_record *r) {
  const int device = s->device;
  const load_unit unit = timeline_wants(TIMELINE_WANTS_LOAD) ? task_unit(type) : LOAD_N_UNITS;
  r->start_ns = timeline_now();
  const bool overlaps = timeline_wants(TIMELINE_WANTS_OVERLAP) && t->kind->tells == TASK_TELLS_WORK;
  if (unit < LOAD_N_UNITS) load_begin(device, unit, r->start_ns);
  if (overlaps) overlap_begin(device);
  const status st = dry_is_on() ? dry_run_task(t, s) : t->kind->run(t, s);
  r->end_ns = timeline_now();
  if (overlaps) overlap_end(device);
  if (unit < LOAD_N_UNITS) load_end(device, unit, r->start_ns, r->end_ns);
  return st;
}

/* What the task's kind has to tell, before it runs: running releases the event, and lets others pass. */
static hook_step task_step(const task *t, const stream *s) {
  hook_step step = {.device = s->device, .stream = s->id};
  if (t->kind->tells != TASK_TELLS_RECORD && t->kind->tells != TASK_TELLS_WAIT) return step;
  step.kind = t->kind->tells == TASK_TELLS_RECORD ? HOOK_EVENT_REACHED : HOOK_EVENT_PASSED;
  step.event = t->sync.event->id;
  step.generation = t->sync.generation;
  return step;
}

/* The same as run_timed, and tells the recorder. */
static status run_told(task *t, stream *s, const char *type, timeline_record *r) {
  const uint8_t tells = t->kind->tells;
  const hook_step step = task_step(t, s);
  const uint64_t position = s->q.next;
  if (tells == TASK_TELLS_RECORD) hooks_step(step);
  (void)dry_take_spent();
  const status st = run_timed(t, s, type, r);
  if (st == TASK_BLOCKED) return st;
  if (tells == TASK_TELLS_WAIT) hooks_step(step);
  if (tells != TASK_TELLS_WORK) return st;
  const dry_spent spent = dry_take_spent();
  hooks_work((hook_work){s->device, s->id, r->start_ns, r->end_ns, position, spent.ns, spent.operations});
  return st;
}

status task_run_recorded(task *t, stream *s) {
  task_words words = {.name = t->kind->name, .type = t->kind->name};
  if (t->kind->describe) t->kind->describe(t, &words); /* before run(), which releases what the task refers to */
  timeline_record r = record_of(TIMELINE_TASK, s, t->id, 0);
  const bool recorded = timeline_wants(TIMELINE_WANTS_TASKS), is_outside = t->kind->ready;
  if (recorded) {
    r.name = task_name_number(words.name);
    r.type = task_name_number(words.type);
    r.detail = words.detail;
    r.implementation = words.implementation;
    r.reason = words.reason;
    r.bytes = words.bytes;
  }
  const bool is_told = timeline_wants(TIMELINE_WANTS_WORK);
  const status st = is_told ? run_told(t, s, words.type, &r) : run_timed(t, s, words.type, &r);
  if (words.start_ns) r.start_ns = words.start_ns;
  if (recorded && st != TASK_BLOCKED && (st != TASK_GOES_ON || !is_outside)) timeline_add(&r);
  return st;
}

/* ---- points ------------------------------------------------------------------------------------------------------ */

static status run_point(task *t, stream *s) {
  (void)t;
  (void)s;
  return ST_OK;
}

static const task_kind point_kind = {.name = "mark", .run = run_point, .control = true, .captured = &point_kind};

status task_record_point(timeline_record *r, stream *s) {
  enum { POINT_COST_NS = 10 };
  task *t;
  TRY(stream_new_task(s, &point_kind, &t));
  t->cost_ns = POINT_COST_NS;
  r->device = s->device;
  r->stream = s->id;
  r->task = (uint32_t)atomic_load_explicit(&s->q.submitted, memory_order_relaxed); /* the task's id */
  r->start_ns = r->end_ns = timeline_now();
  stream_submit(s, t);
  timeline_add(r);
  return ST_OK;
}
