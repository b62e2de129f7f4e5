/* SPDX-License-Identifier: Apache-2.0 */
/* Executions of graphs, the memory that they use, and graph_print(). */
#include <stdlib.h>

#include "base/invariant.h"
#include "base/lock.h"
#include "memory/memory.h"
#include "runtime/context.h"
#include "runtime/graph/graph.h"
#include "runtime/task_record.h"
#include "runtime/wait/event.h"

/* ---- tasks ------------------------------------------------------------------------------------------------------- */

enum {
  TURN_NS = 5 * 1000
}; /* how long a task plays before the stream looks whether it is wanted otherwise, or its
                                tasks were dropped */

static status run_play(task *t, stream *s) {
  graph *g = t->play.graph;
  INVARIANT(!g->capturing && t->play.next < t->play.end);
  int64_t left_ns = TURN_NS;
  uint32_t next = t->play.next;
  while (next < t->play.end && left_ns > 0) {
    task *played = &t->play.tasks[next++];
    left_ns -= played->cost_ns;
    const status st = task_run(played, s);
    INVARIANT(st != TASK_BLOCKED && st != TASK_GOES_ON); /* such tasks are copied, not played */
    if (likely(st == ST_OK)) continue;
    stream_keep_failure(s, played, st);
    left_ns = 0; /* the failure may have stopped the context */
  }
  t->play.next = next;
  atomic_fetch_add_explicit(&g->pace, 1, memory_order_relaxed);
  if (next < t->play.end) return TASK_GOES_ON;
  graph_unref(g);
  return ST_OK;
}

static void drop_play(task *t, stream *s) {
  (void)s;
  graph_unref(t->play.graph);
}

static const task_kind play_kind = {.name = "graph", .run = run_play, .drop = drop_play};

/* The last task of an execution: takes over the first failure in one of the other lanes' streams. */
static status run_collect(task *t, stream *s) {
  (void)s;
  graph *g = t->play.graph;
  status first = ST_OK;
  for (uint32_t lane = 1; lane < g->n_lanes && first == ST_OK; ++lane)
    first = stream_take_failure(g->lanes[lane].stream);
  graph_unref(g);
  return first;
}

static const task_kind collect_kind = {.name = "graph", .run = run_collect, .drop = drop_play};

const task *graph_played(const task *t, uint32_t *n) {
  if (t->kind != &play_kind) return NULL;
  *n = t->play.end - t->play.next;
  return &t->play.tasks[t->play.next];
}

static status submit_play(graph *g, const graph_step *p, stream *s) {
  task *t;
  TRY(stream_new_task(s, &play_kind, &t));
  INVARIANT(p->tasks.first < p->tasks.end && p->tasks.end <= g->lanes[p->lane].n_tasks);
  object_ref(&g->o);
  t->cost_ns = p->tasks.cost_ns;
  t->play.graph = g;
  t->play.tasks = g->lanes[p->lane].tasks;
  t->play.next = p->tasks.first;
  t->play.end = p->tasks.end;
  stream_submit(s, t);
  return ST_OK;
}

static status submit_collect(graph *g, stream *s) {
  task *t;
  TRY(stream_new_task(s, &collect_kind, &t));
  object_ref(&g->o);
  t->cost_ns = 0;
  t->play.graph = g;
  stream_submit(s, t);
  return ST_OK;
}

static status submit_copy(const task *captured, stream *s) {
  task *t;
  TRY(stream_new_task(s, captured->kind, &t));
  *t = *captured;
  if (t->kind->copied) t->kind->copied(t);
  stream_submit(s, t);
  return ST_OK;
}

/* ---- executions -------------------------------------------------------------------------------------------------- */

static status submit_step(graph *g, const graph_step *p, stream *s) {
  switch (p->kind) {
  case STEP_NONE: break;
  case STEP_PLAY: return submit_play(g, p, s);
  case STEP_SUBMIT: return submit_copy(&g->lanes[p->lane].tasks[p->tasks.first], s);
  case STEP_RECORD: return p->sync.event ? event_submit_record(p->sync.event, s) : ST_OK;
  case STEP_WAIT: return event_submit_wait(p->sync.event, s, p->sync.timeout_ns);
  case STEP_RESET: return event_reset(p->sync.event, s);
  }
  return ST_OK;
}

/* Makes the execution come after the one before. In the same stream it does so anyway. In another one, s waits for
 * that execution's lanes as well as for `done`: its stream may have been dropped, and with it the record of
 * `done`, while the lanes go on. */
static status submit_order(graph *g, stream *s) {
  if (g->last_serial == s->o.serial) return ST_OK;
  for (graph_lane *l = g->lanes + 1; l < g->lanes + g->n_lanes; ++l) {
    TRY(event_submit_record(l->end, l->stream));
    TRY(event_submit_wait(l->end, s, 0));
  }
  return event_submit_wait(g->done, s, 0);
}

static status submit_all(graph *g, stream *s) {
  TRY(submit_order(g, s));
  for (const graph_step *p = g->steps; p < g->steps + g->n_steps; ++p)
    TRY(submit_step(g, p, p->lane ? g->lanes[p->lane].stream : s));
  return g->n_lanes > 1 ? submit_collect(g, s) : ST_OK;
}

/* Submits an execution. g->lock is held. On a failure, tasks that were submitted before it are not taken back. */
static status graph_execute_locked(graph *g, stream *s) {
  INVARIANT(!g->capturing && object_is_live(&g->o) && s->home == g->context);
  INVARIANT_WALK(graph_is_valid(g));
  TRY(graph_check_ranges(g));
  const status st = submit_all(g, s);
  g->last_serial = s->o.serial;
  return st == ST_OK ? event_submit_record(g->done, s) : st;
}

/* g->lock is held. */
static status check_live(const graph *g) {
  return object_is_live(&g->o) ? ST_OK : fail(ST_INVALID_VALUE, "graph %u is being destroyed", g->id);
}

static status check_context(const graph *g, const context *c) {
  if (g->capturing) return fail(ST_MODEL_CAPTURED, "graph %u is being captured, expected after its end", g->id);
  if (c == g->context) return ST_OK;
  return fail(ST_MODEL_CONTEXT, "graph %u is of another context than the stream (device %d)", g->id,
              g->context->device);
}

status graph_execute(graph *g, stream *s) {
  TRY(check_context(g, s->context));
  mutex_lock(&g->lock);
  status st = check_live(g);
  if (st == ST_OK) st = graph_execute_locked(g, s);
  mutex_unlock(&g->lock);
  return st;
}

status graph_execute_alone(graph *g, uint64_t timeout_ns) {
  context *c;
  TRY(context_current(&c));
  TRY(check_context(g, c));
  mutex_lock(&g->lock);
  stream *s = NULL;
  status st = check_live(g);
  if (st == ST_OK && !g->home) st = stream_create(c, 0, 0, &g->home);
  if (st == ST_OK) {
    s = g->home;
    object_ref(&s->o); /* as the graph may be destroyed meanwhile, and the stream with it */
    st = graph_execute_locked(g, s);
  }
  mutex_unlock(&g->lock);
  if (st == ST_OK) st = stream_synchronize(s, timeout_ns);
  if (s) stream_unref(s);
  return st;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

typedef struct {
  graph_range *range;
  uint32_t n, room;
  bool no_memory;
} range_list;

static void add_range(void *argument, const task_range *r) {
  range_list *l = argument;
  const uintptr_t start = memory_address_of_view(r->view);
  if (!r->bytes || memory_place_of((void *)start) == PLACE_PAGEABLE) return;
  if (l->n == l->room) {
    const uint32_t room = l->room * 2 + 64;
    graph_range *more = realloc(l->range, room * sizeof *more);
    l->no_memory |= !more;
    if (!more) return;
    l->range = more;
    l->room = room;
  }
  INVARIANT(l->n < l->room && start + r->bytes > start);
  l->range[l->n++] = (graph_range){start, start + r->bytes, r->access};
}

static int compare_ranges(const void *left, const void *right) {
  const graph_range *a = left, *b = right;
  if (a->access != b->access) return a->access < b->access ? -1 : 1;
  return a->start < b->start ? -1 : a->start > b->start;
}

/* Whether both ranges start in the same block of memory. a starts first. */
static bool same_holder(const graph_range *a, const graph_range *b) {
  memory_holder holder;
  if (memory_holder_of((void *)a->start, "memory", &holder) == ST_OK)
    return b->start - holder.start < holder.bytes_usable;
  fail_take();
  return false;
}

/* Sorts the ranges and joins those with the same access in one block. Returns how many are left. */
static uint32_t join_ranges(graph_range *r, uint32_t n) {
  uint32_t kept = 0;
  if (n) qsort(r, n, sizeof *r, compare_ranges);
  for (uint32_t i = 0; i < n; ++i) {
    graph_range *last = kept ? &r[kept - 1] : NULL;
    if (!last || last->access != r[i].access || !same_holder(last, &r[i]))
      r[kept++] = r[i];
    else if (last->end < r[i].end)
      last->end = r[i].end;
  }
  return kept;
}

status graph_collect_ranges(graph *g) {
  range_list l = {0};
  for (uint32_t lane = 0; lane < g->n_lanes; ++lane)
    for (const task *t = g->lanes[lane].tasks; t < g->lanes[lane].tasks + g->lanes[lane].n_tasks; ++t)
      if (t->kind->uses) t->kind->uses(t, add_range, &l);
  g->ranges = l.range;
  g->n_ranges = l.no_memory ? 0 : join_ranges(l.range, l.n);
  return l.no_memory ? fail(ST_NO_HOST_MEMORY, "no host memory for what graph %u uses", g->id) : ST_OK;
}

static status graph_check_range(uintptr_t start, uint64_t bytes, unsigned access) {
  void *view;
  return memory_view((const void *)start, bytes, access, "modelRI, memory that a captured task uses", &view);
}

status graph_check_ranges(const graph *g) {
  for (const graph_range *r = g->ranges; r < g->ranges + g->n_ranges; ++r)
    TRY(graph_check_range(r->start, r->end - r->start, r->access));
  return ST_OK;
}

static void check_use(void *argument, const task_range *r) {
  status *st = argument;
  const uintptr_t start = memory_address_of_view(r->view);
  if (*st == ST_OK && r->bytes && memory_place_of((void *)start) != PLACE_PAGEABLE)
    *st = graph_check_range(start, r->bytes, r->access);
}

status graph_check_task(const task *t) {
  char words[400];
  status st = ST_OK;
  if (t->kind->uses) t->kind->uses(t, check_use, &st);
  if (likely(st == ST_OK)) return ST_OK;
  snprintf(words, sizeof words, "%s", fail_take());
  return fail(ST_DEVICE_EXCEPTION, "%s", words);
}

/* ---- in words ---------------------------------------------------------------------------------------------------- */

static void print_step(const graph *g, const graph_step *p, FILE *out) {
  static const char *const names[] = {
      [STEP_RECORD] = "event record", [STEP_WAIT] = "event wait", [STEP_RESET] = "event reset"};
  const graph_lane *l = &g->lanes[p->lane];
  if (p->kind == STEP_NONE) return;
  if (p->kind >= STEP_RECORD) {
    fprintf(out, "  stream %u: %s", l->id, names[p->kind]);
    if (p->sync.outside) fprintf(out, " of event %u, outside", p->sync.event->id);
    if (p->kind == STEP_WAIT && p->sync.record != NO_STEP) fprintf(out, " of step %u", p->sync.record);
    fputc('\n', out);
    return;
  }
  for (uint32_t i = p->tasks.first; i < p->tasks.end; ++i)
    fprintf(out, "  stream %u: task %u, %s\n", l->id, i, l->tasks[i].kind->name);
}

status graph_print(graph *g, FILE *out) {
  uint32_t n_tasks = 0;
  if (g->capturing) return fail(ST_MODEL_CAPTURED, "graph %u is being captured, expected after its end", g->id);
  for (uint32_t lane = 0; lane < g->n_lanes; ++lane) n_tasks += g->lanes[lane].n_tasks;
  flockfile(out); /* so that output of other threads does not get in between */
  fprintf(out, "model %u: device %d, %u streams, %u tasks, %u steps\n", g->id, g->context->device, g->n_lanes, n_tasks,
          g->n_steps);
  for (uint32_t i = 0; i < g->n_steps; ++i) print_step(g, &g->steps[i], out);
  fflush(out);
  funlockfile(out);
  return ST_OK;
}
