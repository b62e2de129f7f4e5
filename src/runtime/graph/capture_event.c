/* SPDX-License-Identifier: Apache-2.0 */
/* Records, waits and resets of events in captured streams. */
#include "base/invariant.h"
#include "base/lock.h"
#include "runtime/graph/capture.h"
#include "runtime/graph/capture_lane.h"

/* Whether the graph has a step with the event and the flag EXTERNAL already. Events created with EVENT_EXTERNAL do not
 * count: they may be used any number of times, since they are reset. */
static bool is_used_outside(const graph *g, const event *e) {
  if (e->flags & EVENT_EXTERNAL) return false;
  for (const graph_step *p = g->steps; p < g->steps + g->n_steps; ++p)
    if (p->kind >= STEP_RECORD && p->sync.outside && p->sync.event == e) return true;
  return false;
}

/* Adds a step to the lane. The capture's own lock is held. */
static status add_locked(capture_lane *l, graph_step step, const char *what, uint32_t *number) {
  graph *g = l->capture->graph;
  INVARIANT(lock_is_held(&l->capture->lock) && g->capturing && step.kind >= STEP_RECORD);
  TRY(capture_check_group(l, false, what));
  if (step.sync.outside && is_used_outside(g, step.sync.event))
    return fail(ST_INVALID_VALUE, "event %u is used with the flag EXTERNAL in this capture already, expected once",
                step.sync.event->id);
  return graph_add_sync(g, l->number, step, number);
}

/* Adds a step to the lane, behind the tasks that were submitted to the stream before. */
static status add_sync(capture_lane *l, graph_step step, const char *what, uint32_t *number) {
  spin_lock(&l->stream->submit_lock);
  spin_lock(&l->capture->lock);
  const status st = add_locked(l, step, what, number);
  spin_unlock(&l->capture->lock);
  spin_unlock(&l->stream->submit_lock);
  return st;
}

/* Adds a step with an event of the program's, which each execution records, waits for or resets as a stream would. */
static status add_outside(capture_lane *l, graph_step_kind kind, event *e, uint64_t timeout_ns) {
  uint32_t unused;
  const graph_step step = {.kind = kind,
                           .sync = {.event = e, .record = NO_STEP, .outside = true, .timeout_ns = timeout_ns}};
  return add_sync(l, step, "event", &unused);
}

static status refuse_kind(const event *e) {
  return fail(ST_NOT_SUPPORTED,
              "event %u cannot be captured, expected one of aclrtCreateEventExWithFlag with ACL_EVENT_SYNC, "
              "or of aclrtCreateEventWithFlag with ACL_EVENT_EXTERNAL",
              e->id);
}

static status capture_record_locked(event *e, capture_lane *l, bool outside) {
  uint32_t number;
  if (outside || e->flags & EVENT_EXTERNAL) return add_outside(l, STEP_RECORD, e, 0);
  if (e->kind != EVENT_EX || e->flags & EVENT_IPC) return refuse_kind(e);
  if (!(e->flags & EVENT_SYNC)) return ST_OK; /* no stream can wait for it; CANN leaves it out, too */
  TRY(add_sync(l, (graph_step){.kind = STEP_RECORD, .sync = {.record = NO_STEP}}, "event record", &number));
  e->captured_step = number;
  e->captured_by = l->capture->serial;
  return ST_OK;
}

status capture_record(event *e, stream *s, bool outside, bool *taken) {
  mutex_lock(&capture_lock);
  capture_lane *l = s->recording;
  *taken = l != NULL;
  const status st = l ? capture_record_locked(e, l, outside) : ST_OK;
  INVARIANT_WALK(captures_are_valid());
  mutex_unlock(&capture_lock);
  return st;
}

/* A captured stream waits for an event that was not recorded in a captured stream. */
static status wait_for_other(event *e, capture_lane *l) {
  if (e->kind != EVENT_EX || e->flags & EVENT_IPC) return refuse_kind(e);
  if (!event_was_recorded(e)) return ST_OK; /* a wait for an event that was never recorded passes */
  return capture_spoil(l->capture, fail(ST_CAPTURE_DEPENDENCY,
                                        "event %u was recorded outside of the capture of stream %u, expected "
                                        "aclrtStreamWaitEventWithFlag with ACL_EVENT_WAIT_EXTERNAL",
                                        e->id, l->capture->origin->stream->id));
}

static status wait_for_captured(event *e, capture *c, stream *s, uint64_t timeout_ns) {
  capture_lane *l = s->recording;
  uint32_t number;
  if (l && l->capture != c) {
    capture_invalidate(l->capture);
    return capture_spoil(c, fail(ST_CAPTURE_CONFLICT,
                                 "event %u is of the capture of stream %u, and stream %u of that of stream %u", e->id,
                                 c->origin->stream->id, s->id, l->capture->origin->stream->id));
  }
  if (!l) {
    const status st = capture_join(c, s, &l);
    if (st != ST_OK) return capture_spoil(c, st);
  }
  return add_sync(l, (graph_step){.kind = STEP_WAIT, .sync = {.record = e->captured_step, .timeout_ns = timeout_ns}},
                  "event wait", &number);
}

/* A wait in a captured stream, or of a stream that joins the capture c by it. */
static status capture_wait_locked(event *e, capture *c, stream *s, uint64_t timeout_ns, bool outside) {
  capture_lane *l = s->recording;
  TRY(event_check_context(e, s)); /* streams of other contexts cannot run a part of the graph */
  if (l && (outside || e->flags & EVENT_EXTERNAL)) return add_outside(l, STEP_WAIT, e, timeout_ns);
  return c ? wait_for_captured(e, c, s, timeout_ns) : wait_for_other(e, l);
}

status capture_wait(event *e, stream *s, uint64_t timeout_ns, bool outside, bool *taken) {
  mutex_lock(&capture_lock);
  capture *c = capture_of_event(e);
  *taken = s->recording || (c && !outside);
  const status st = *taken ? capture_wait_locked(e, c, s, timeout_ns, outside) : ST_OK;
  INVARIANT_WALK(captures_are_valid());
  mutex_unlock(&capture_lock);
  return st;
}

status capture_reset(event *e, stream *s, bool *taken) {
  mutex_lock(&capture_lock);
  capture_lane *l = s->recording;
  *taken = l != NULL;
  const status st = !l ? ST_OK : e->flags & EVENT_EXTERNAL ? add_outside(l, STEP_RESET, e, 0) : refuse_kind(e);
  INVARIANT_WALK(captures_are_valid());
  mutex_unlock(&capture_lock);
  return st;
}
