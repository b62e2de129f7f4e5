/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/graph/capture.h"

#include <stdlib.h>

#include "base/invariant.h"
#include "base/lock.h"
#include "memory/pool/stream_pool.h"
#include "runtime/context.h"
#include "runtime/graph/capture_lane.h"

mutex capture_lock = MUTEX_INITIALIZER(CAPTURE);
static capture *captures;
static uint64_t serials;
_Atomic int capture_n_active;

static const char *const mode_names[] = {"GLOBAL", "THREAD_LOCAL", "RELAXED"};

capture *capture_of_event(event *e) {
  const uint64_t serial = e->captured_by;
  capture *c = captures;
  while (c && c->serial != serial) c = c->next;
  if (!c && serial) e->captured_by = 0;
  return c;
}

/* ---- invariants -------------------------------------------------------------------------------------------------- */

#ifdef CANNON_INVARIANTS
/* Each lane records its own stream, for which no other lane does; the origin is lane 0. */
static bool capture_lanes_are_valid(const capture *c) {
  bool has_origin = false, has_grouped = !c->grouped;
  for (const capture_lane *l = c->lanes; l; l = l->next) {
    if (l->capture != c || l->number >= c->graph->n_lanes || atomic_load(&l->stream->recording) != l) return false;
    if (!atomic_load(&l->stream->o.refs)) return false;
    has_origin |= l == c->origin && l->number == 0;
    has_grouped |= l == c->grouped && c->group_first <= c->graph->lanes[l->number].n_tasks;
  }
  return has_origin && has_grouped;
}

static bool capture_is_valid(capture *c) {
  spin_lock(&c->lock);
  const bool valid = c->serial && c->serial <= serials && c->mode < N_CAPTURE_MODES && c->graph->capturing &&
                     capture_lanes_are_valid(c) && graph_is_valid(c->graph);
  spin_unlock(&c->lock);
  return valid;
}

bool captures_are_valid(void) {
  int n = 0;
  uint64_t serial = UINT64_MAX;
  for (capture *c = captures; c; serial = c->serial, c = c->next, ++n)
    if (c->serial >= serial || !capture_is_valid(c)) return false;
  return n == atomic_load(&capture_n_active);
}
#endif

/* ---- streams ----------------------------------------------------------------------------------------------------- */

/* Makes the tasks that are submitted to the stream from now on go to a new lane. */
static status capture_enter(capture *c, stream *s, uint32_t number, capture_lane **out) {
  capture_lane *l = malloc(sizeof *l);
  if (!l) return fail(ST_NO_HOST_MEMORY, "no host memory for the capture of stream %u", s->id);
  *l = (capture_lane){.next = c->lanes, .capture = c, .stream = s, .number = number};
  spin_lock(&s->submit_lock);
  const bool closed = s->closed, can = !s->update && !closed;
  INVARIANT(!s->recording && number < c->graph->n_lanes);
  if (can) {
    s->recording = l;
    s->diverted = true;
  }
  spin_unlock(&s->submit_lock);
  if (!can) {
    free(l);
    if (closed) return fail(ST_INVALID_VALUE, "stream %u was destroyed by another thread", s->id);
    return fail(ST_GROUP_STATUS, "stream %u updates a group of tasks, expected aclmdlRICaptureTaskUpdateEnd before",
                s->id);
  }
  object_ref(&s->o);
  c->lanes = l;
  *out = l;
  return ST_OK;
}

/* Ends that for all streams of the capture. */
static void leave_all(capture *c) {
  for (capture_lane *l = c->lanes; l; l = l->next) {
    INVARIANT(l->capture == c);
    spin_lock(&l->stream->submit_lock);
    INVARIANT(!l->stream->recording || (l->stream->recording == l && l->stream->diverted));
    l->stream->recording = NULL;
    l->stream->diverted = stream_is_diverted(l->stream);
    spin_unlock(&l->stream->submit_lock);
  }
}

static void free_lanes(capture *c) {
  for (capture_lane *l = c->lanes, *next; l; l = next) {
    next = l->next;
    stream_unref(l->stream);
    free(l);
  }
}

/* Frees the capture, and returns its graph with the reference. */
static graph *dissolve(capture *c) {
  capture **link = &captures;
  while (*link != c) link = &(*link)->next;
  *link = c->next;
  const int before = atomic_fetch_sub(&capture_n_active, 1);
  INVARIANT(before >= 1);
  leave_all(c);
  free_lanes(c);
  graph *g = c->graph;
  free(c);
  return g;
}

static bool is_default(const stream *s) {
  const context *c = s->context;
  return c && c->default_stream == s;
}

static status refuse_default(const stream *s) {
  return fail(ST_CAPTURE_IMPLICIT,
              "stream %u is the context's default stream, which cannot be captured, expected one of "
              "aclrtCreateStream",
              s->id);
}

static status capture_begin_locked(stream *s, capture_mode mode) {
  if (is_default(s)) return refuse_default(s);
  if (s->recording) return fail(ST_STREAM_CAPTURED, "stream %u is being captured already", s->id);
  capture *c = malloc(sizeof *c);
  if (!c) return fail(ST_NO_HOST_MEMORY, "no host memory for a capture");
  *c = (capture){.lock = SPINLOCK_INITIALIZER(CAPTURED),
                 .next = captures,
                 .serial = ++serials,
                 .mode = mode,
                 .thread = pthread_self()};
  status st = graph_new(s, &c->graph);
  if (st == ST_OK && (st = capture_enter(c, s, 0, &c->origin)) != ST_OK) graph_abandon(c->graph);
  if (st != ST_OK) {
    free(c);
    return st;
  }
  captures = c;
  atomic_fetch_add(&capture_n_active, 1);
  return ST_OK;
}

status capture_begin(stream *s, capture_mode mode) {
  mutex_lock(&capture_lock);
  const status st = capture_begin_locked(s, mode);
  INVARIANT_WALK(captures_are_valid());
  mutex_unlock(&capture_lock);
  return st;
}

status capture_join(capture *c, stream *s, capture_lane **out) {
  uint32_t number;
  if (is_default(s)) return refuse_default(s);
  spin_lock(&c->lock);
  status st = graph_add_lane(c->graph, s, &number);
  spin_unlock(&c->lock);
  return st == ST_OK ? capture_enter(c, s, number, out) : st;
}

static status is_invalid(const capture *c) {
  return fail(ST_CAPTURE_INVALIDATED, "the capture of stream %u was made invalid by a call that failed since its begin",
              c->origin->stream->id);
}

/* Checks that the captured tasks make a complete graph. Nothing is added to it any more. */
static status capture_check_complete(capture *c) {
  if (c->invalid) return is_invalid(c);
  if (c->grouped)
    return fail(ST_GROUP_STATUS,
                "a group of tasks of stream %u was not ended, expected aclmdlRICaptureTaskGrpEnd before",
                c->grouped->stream->id);
  const uint32_t left = graph_find_unjoined(c->graph);
  if (left == NO_STEP) return ST_OK;
  return fail(
      ST_STREAM_UNJOINED,
      "stream %u joined the capture of stream %u and has not come back: expected an event recorded in it after its "
      "last task, and waited for",
      c->graph->lanes[c->graph->steps[left].lane].id, c->origin->stream->id);
}

static status capture_end_locked(stream *s, graph **out) {
  capture_lane *l = s->recording;
  if (is_default(s)) return refuse_default(s);
  if (!l)
    return fail(ST_STREAM_NOT_CAPTURED, "stream %u is not being captured, expected aclmdlRICaptureBegin before", s->id);
  capture *c = l->capture;
  if (l != c->origin)
    return fail(ST_CAPTURE_UNMATCHED, "stream %u joined the capture of stream %u, which expects the end in that one",
                s->id, c->origin->stream->id);
  if (c->mode != CAPTURE_RELAXED && !pthread_equal(c->thread, pthread_self()))
    return fail(ST_CAPTURE_THREAD, "the capture of stream %u, mode %s, was begun by another thread, which must end it",
                s->id, mode_names[c->mode]);
  leave_all(c);
  const status st = capture_check_complete(c);
  *out = dissolve(c);
  return st;
}

status capture_end(stream *s, graph **out) {
  graph *g = NULL;
  mutex_lock(&capture_lock);
  status st = capture_end_locked(s, &g);
  INVARIANT_WALK(captures_are_valid());
  mutex_unlock(&capture_lock);
  if (st == ST_OK) st = graph_finish(g);
  if (st != ST_OK && g) graph_abandon(g);
  if (st == ST_OK) hooks_tell_handle(HOOK_GRAPH, HOOK_HANDLE_CREATED, g, "aclmdlRICaptureEnd");
  *out = st == ST_OK ? g : NULL;
  return st;
}

capture_status capture_info(stream *s, graph **g) {
  mutex_lock(&capture_lock);
  const capture_lane *l = s->recording;
  const capture_status found = !l ? CAPTURE_NONE : l->capture->invalid ? CAPTURE_INVALIDATED : CAPTURE_ACTIVE;
  *g = l ? l->capture->graph : NULL;
  mutex_unlock(&capture_lock);
  return found;
}

void capture_forget(stream *s) {
  graph *g = NULL;
  graph_update_forget(s);
  mutex_lock(&capture_lock);
  if (s->recording) g = dissolve(s->recording->capture);
  INVARIANT_WALK(captures_are_valid());
  mutex_unlock(&capture_lock);
  INVARIANT(!s->recording); /* the stream is closed, so no new capture can begin */
  if (g) graph_abandon(g);
}

/* ---- what is forbidden ------------------------------------------------------------------------------------------- */

/* A thread's mode is a value of pthread_setspecific(), as the library's thread-local variables must
 * stay few (CMakeLists.txt). */
static pthread_key_t mode_key;
static pthread_once_t mode_once = PTHREAD_ONCE_INIT;
static void capture_make_mode_key(void) { pthread_key_create(&mode_key, NULL); }

static capture_mode thread_mode(void) {
  pthread_once(&mode_once, capture_make_mode_key);
  return (capture_mode)(intptr_t)pthread_getspecific(mode_key);
}

status capture_exchange_mode(capture_mode *mode) {
  const capture_mode old = thread_mode();
  if (pthread_setspecific(mode_key, (void *)(intptr_t)*mode))
    return fail(ST_NO_HOST_MEMORY, "no host memory for the mode of this thread");
  *mode = old;
  return ST_OK;
}

/* Whether the capture forbids unsafe calls to the calling thread. mode: that of the thread. */
static bool forbids(const capture *c, capture_mode mode) {
  const bool own = pthread_equal(c->thread, pthread_self());
  if (mode == CAPTURE_RELAXED || c->mode == CAPTURE_RELAXED) return false;
  return own || (mode == CAPTURE_GLOBAL && c->mode == CAPTURE_GLOBAL);
}

status capture_check_unsafe(bool async) {
  const capture_mode mode = thread_mode();
  context *current;
  const capture *by = NULL;
  uint32_t id = 0;
  if (context_current(&current) != ST_OK) {
    fail_take();
    return ST_OK;
  }
  mutex_lock(&capture_lock);
  for (capture *c = captures; c; c = c->next) {
    if (c->graph->context != current || !forbids(c, mode)) continue;
    capture_invalidate(c);
    by = c;
    id = c->origin->stream->id;
  }
  const capture_mode its = by ? by->mode : CAPTURE_RELAXED;
  mutex_unlock(&capture_lock);
  if (!by) return ST_OK;
  return fail(async ? ST_CAPTURE_MODE_ASYNC : ST_CAPTURE_MODE,
              "stream %u is being captured in mode %s, and this thread is in mode %s, which forbids %s (and makes the "
              "capture invalid); expected aclmdlRICaptureThreadExchangeMode to RELAXED before",
              id, mode_names[its], mode_names[mode],
              async ? "copies of memory that is not pinned" : "synchronous copies and fills");
}

/* If the stream is captured, fails and makes the capture invalid. capture_lock is held. */
static status capture_refuse(stream *s) {
  if (!s->recording) return ST_OK;
  capture_invalidate(s->recording->capture);
  return fail(ST_STREAM_CAPTURED,
              "stream %u is being captured: its tasks do not run, so there is nothing to wait for or "
              "to ask for before aclmdlRICaptureEnd",
              s->id);
}

status capture_refuse_stream(stream *s) {
  if (likely(!capture_records(s))) return ST_OK;
  mutex_lock(&capture_lock);
  const status st = capture_refuse(s);
  mutex_unlock(&capture_lock);
  return st;
}

status capture_refuse_context(context *c) {
  status st = ST_OK;
  if (likely(!capture_any())) return ST_OK;
  mutex_lock(&capture_lock);
  for (capture *k = captures; k; k = k->next)
    if (k->graph->context == c) st = capture_refuse(k->origin->stream);
  mutex_unlock(&capture_lock);
  return st;
}

status capture_refuse_event(event *e) {
  status st = ST_OK;
  if (likely(!atomic_load_explicit(&e->captured_by, memory_order_relaxed))) return ST_OK;
  mutex_lock(&capture_lock);
  capture *c = capture_of_event(e);
  if (c)
    st = capture_spoil(c, fail(ST_EVENT_CAPTURED,
                               "event %u was recorded in a stream that is being captured, so there is nothing to "
                               "wait for or to ask for before aclmdlRICaptureEnd",
                               e->id));
  mutex_unlock(&capture_lock);
  return st;
}

/* ---- tasks ------------------------------------------------------------------------------------------------------- */

status capture_check_group(capture_lane *l, bool is_operator, const char *what) {
  capture *c = l->capture;
  if (likely(!c->grouped)) return ST_OK;
  if (c->grouped != l)
    return capture_spoil(c, fail(ST_GROUP_INTERRUPTED,
                                 "a group of tasks of stream %u is open, and stream %u got a task (%s)",
                                 c->grouped->stream->id, l->stream->id, what));
  if (is_operator) return ST_OK;
  return capture_spoil(
      c, fail(ST_TASK_KIND, "a group of tasks of stream %u is open, and a %s is no operator", l->stream->id, what));
}

status capture_admit(stream *s, const task_kind *kind) {
  capture_lane *l = s->recording;
  capture *c = l->capture;
  INVARIANT(lock_is_held(&s->submit_lock) && l->stream == s);
  if (!kind->captured && !kind->again)
    return fail(ST_STREAM_CAPTURED, "stream %u began to be captured while a task (%s) was submitted", s->id,
                kind->name);
  spin_lock(&c->lock);
  status st = capture_check_group(l, kind->is_operator, kind->name);
  if (st == ST_OK) st = graph_reserve(c->graph, l->number);
  if (st != ST_OK) spin_unlock(&c->lock);
  return st;
}

void capture_take(stream *s, const task *t) {
  capture_lane *l = s->recording;
  INVARIANT(lock_is_held(&s->submit_lock) && l && l->stream == s && lock_is_held(&l->capture->lock));
  graph_add_task(l->capture->graph, l->number, t);
  spin_unlock(&l->capture->lock);
}

/* ---- groups ------------------------------------------------------------------------------------------------------ */

static status not_captured(const stream *s) {
  return fail(ST_STREAM_NOT_CAPTURED, "stream %u is not being captured, expected aclmdlRICaptureBegin before", s->id);
}

static status group_begin(capture_lane *l) {
  capture *c = l->capture;
  if (c->grouped) return fail(ST_GROUP_STATUS, "a group of tasks of stream %u is open already", c->grouped->stream->id);
  c->grouped = l;
  c->group_first = c->graph->lanes[l->number].n_tasks;
  return ST_OK;
}

status capture_group_begin(stream *s) {
  mutex_lock(&capture_lock);
  capture_lane *l = s->recording;
  if (l) spin_lock(&l->capture->lock);
  const status st = l ? group_begin(l) : not_captured(s);
  if (l) spin_unlock(&l->capture->lock);
  INVARIANT_WALK(captures_are_valid());
  mutex_unlock(&capture_lock);
  return st;
}

static status group_end(capture_lane *l, graph_group **out) {
  capture *c = l->capture;
  if (c->grouped != l) return fail(ST_GROUP_STATUS, "no group of tasks of stream %u is open", l->stream->id);
  c->grouped = NULL;
  if (c->invalid) return is_invalid(c);
  return graph_add_group(c->graph, l->number, c->group_first, out);
}

status capture_group_end(stream *s, graph_group **out) {
  mutex_lock(&capture_lock);
  capture_lane *l = s->recording;
  if (l) spin_lock(&l->capture->lock);
  const status st = l ? group_end(l, out) : not_captured(s);
  if (l) spin_unlock(&l->capture->lock);
  INVARIANT_WALK(captures_are_valid());
  mutex_unlock(&capture_lock);
  return st;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

status capture_keep_block(stream *s, void *block, void *site, bool *taken) {
  *taken = false;
  if (likely(!capture_records(s))) return ST_OK;
  mutex_lock(&capture_lock);
  capture_lane *l = s->recording;
  if (l) spin_lock(&l->capture->lock);
  const status st = l ? graph_keep_block(l->capture->graph, block, site) : ST_OK;
  if (l) spin_unlock(&l->capture->lock);
  mutex_unlock(&capture_lock);
  *taken = l && st == ST_OK;
  return st;
}

status capture_free_block(stream *s, void *block, void *site, bool *taken) {
  if (unlikely(capture_records(s)) && !pool_holds(block))
    return fail(ST_INVALID_VALUE, "ptr is %p, no block of a pool", block);
  return capture_keep_block(s, block, site, taken);
}
