/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/graph/graph.h"

#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "base/lock.h"
#include "memory/memory.h"
#include "memory/pool/stream_pool.h"
#include "runtime/context.h"
#include "runtime/wait/event.h"

static status no_memory(const graph *g) {
  return fail(ST_NO_HOST_MEMORY, "no host memory for %u lanes and %u steps of graph %u", g->n_lanes, g->n_steps, g->id);
}

/* ---- invariants -------------------------------------------------------------------------------------------------- */

#ifdef CANNON_INVARIANTS
static bool graph_lane_is_valid(const graph *g, uint32_t lane) {
  const graph_lane *l = &g->lanes[lane];
  if (l->n_stepped > l->n_tasks || l->n_tasks > l->n_room || (l->n_tasks && (uintptr_t)l->tasks % sizeof *l->tasks))
    return false;
  for (uint32_t i = 0; i < l->n_tasks; ++i)
    if (!l->tasks[i].kind || !l->tasks[i].kind->run || l->tasks[i].id != i) return false;
  if (g->capturing) return !l->stream && !l->end;
  return l->n_stepped == l->n_tasks && !lane == !l->stream && !lane == !l->end;
}

/* A wait that is not for an outside event is for an earlier record step, which is marked as waited for. */
static bool graph_sync_is_valid(const graph *g, uint32_t i) {
  const graph_step *p = &g->steps[i];
  const event *e = p->sync.event;
  if (e && !atomic_load(&e->o.refs)) return false;
  if (p->sync.outside || p->kind == STEP_RESET) return e && p->sync.record == NO_STEP;
  if (p->kind == STEP_RECORD) return p->sync.record == NO_STEP && (g->capturing || !p->sync.waited == !e);
  if (p->sync.record >= i) return false;
  const graph_step *record = &g->steps[p->sync.record];
  return record->kind == STEP_RECORD && record->sync.waited && (g->capturing || e == record->sync.event);
}

/* The steps of a lane have the tasks from 0 to n_stepped - 1, in order. */
static bool graph_steps_are_valid(const graph *g) {
  uint32_t stepped[g->n_lanes];
  memset(stepped, 0, sizeof stepped);
  for (uint32_t i = 0; i < g->n_steps; ++i) {
    const graph_step *p = &g->steps[i];
    if (p->lane >= g->n_lanes || p->kind > STEP_RESET) return false;
    if (p->kind >= STEP_RECORD && !graph_sync_is_valid(g, i)) return false;
    if (p->kind != STEP_PLAY && p->kind != STEP_SUBMIT) continue;
    if (p->tasks.first != stepped[p->lane] || p->tasks.end <= p->tasks.first) return false;
    if (p->kind == STEP_SUBMIT && p->tasks.end != p->tasks.first + 1) return false;
    stepped[p->lane] = p->tasks.end;
  }
  for (uint32_t lane = 0; lane < g->n_lanes; ++lane)
    if (stepped[lane] != g->lanes[lane].n_stepped) return false;
  return true;
}

static bool graph_group_is_valid(const graph *g, const graph_group *group) {
  for (uint32_t i = 0; i < group->n_members; ++i) {
    graph_member *m = &group->members[i];
    spin_lock(&m->lock);
    const bool valid = m->now && atomic_load(&m->now->refs) && m->now->task.kind->run;
    spin_unlock(&m->lock);
    if (!valid) return false;
  }
  return group->graph == g && atomic_load(&group->o.refs) >= 1;
}

bool graph_is_valid(const graph *g) {
  if (!g->n_lanes || g->n_steps > g->step_room || !g->context || (!g->capturing && !g->done)) return false;
  for (uint32_t lane = 0; lane < g->n_lanes; ++lane)
    if (!graph_lane_is_valid(g, lane)) return false;
  for (uint32_t i = 0; i < g->n_ranges; ++i)
    if (g->ranges[i].start >= g->ranges[i].end || (i && g->ranges[i - 1].access > g->ranges[i].access)) return false;
  for (const graph_group *group = g->groups; group; group = group->next)
    if (!graph_group_is_valid(g, group)) return false;
  for (const graph_block *b = g->blocks; b; b = b->next)
    if (!b->block) return false;
  return graph_steps_are_valid(g);
}
#endif

/* ---- building ---------------------------------------------------------------------------------------------------- */

status graph_new(stream *s, graph **out) {
  uint32_t first;
  graph *g = object_new(OBJECT_GRAPH);
  if (!g) return fail(ST_NO_HOST_MEMORY, "no room for another graph");
  mutex_init(&g->lock, LOCK_GRAPH);
  g->id = (uint32_t)g->o.serial;
  g->context = s->home;
  object_ref(&g->context->o);
  g->capturing = true;
  const status st = graph_add_lane(g, s, &first);
  if (st == ST_OK)
    object_publish(&g->o);
  else
    graph_abandon(g);
  *out = st == ST_OK ? g : NULL;
  return st;
}

status graph_add_lane(graph *g, stream *s, uint32_t *lane) {
  graph_lane *lanes = realloc(g->lanes, (g->n_lanes + 1) * sizeof *lanes);
  if (!lanes) return no_memory(g);
  g->lanes = lanes;
  lanes[g->n_lanes] = (graph_lane){.id = s->id, .priority = s->priority};
  *lane = g->n_lanes++;
  return ST_OK;
}

/* Reserves room for one more step, and for one for each lane that plays the tasks which are in no step yet. */
static status reserve_steps(graph *g) {
  if (g->n_steps + g->n_lanes + 1 <= g->step_room) return ST_OK;
  const uint32_t room = g->step_room * 2 + g->n_lanes + 8;
  graph_step *steps = realloc(g->steps, room * sizeof *steps);
  if (!steps) return no_memory(g);
  g->steps = steps;
  g->step_room = room;
  return ST_OK;
}

status graph_reserve(graph *g, uint32_t lane) {
  graph_lane *l = &g->lanes[lane];
  TRY(reserve_steps(g));
  if (l->n_tasks < l->n_room) return ST_OK;
  const uint32_t room = l->n_room * 2 + 16;
  task *tasks = aligned_alloc(64, room * sizeof *tasks);
  if (!tasks) return no_memory(g);
  if (l->n_tasks) memcpy(tasks, l->tasks, l->n_tasks * sizeof *tasks);
  free(l->tasks);
  l->tasks = tasks;
  l->n_room = room;
  return ST_OK;
}

/* Makes a step that plays the tasks of the lane which are in no step yet. Room is reserved. */
static void end_run(graph *g, uint32_t lane) {
  graph_lane *l = &g->lanes[lane];
  INVARIANT(l->n_stepped <= l->n_tasks);
  if (l->n_stepped == l->n_tasks) return;
  INVARIANT(g->n_steps < g->step_room);
  const uint32_t cost = l->cost_ns < TASK_COST_UNKNOWN ? (uint32_t)l->cost_ns : TASK_COST_UNKNOWN - 1;
  g->steps[g->n_steps++] = (graph_step){.kind = STEP_PLAY, .lane = lane, .tasks = {l->n_stepped, l->n_tasks, cost}};
  l->n_stepped = l->n_tasks;
  l->cost_ns = 0;
}

void graph_add_task(graph *g, uint32_t lane, const task *t) {
  graph_lane *l = &g->lanes[lane];
  INVARIANT(g->capturing && lane < g->n_lanes && l->n_tasks < l->n_room);
  INVARIANT(t->kind->again || t->kind->captured);
  if (t->kind->again) end_run(g, lane);
  task *kept = &l->tasks[l->n_tasks];
  *kept = *t;
  kept->id = l->n_tasks++;
  if (!t->kind->again) {
    kept->kind = t->kind->captured;
    l->cost_ns += t->cost_ns;
    return;
  }
  g->steps[g->n_steps++] = (graph_step){.kind = STEP_SUBMIT, .lane = lane, .tasks = {kept->id, l->n_tasks, 0}};
  l->n_stepped = l->n_tasks;
}

status graph_add_sync(graph *g, uint32_t lane, graph_step step, uint32_t *number) {
  TRY(reserve_steps(g));
  end_run(g, lane);
  INVARIANT(g->capturing && lane < g->n_lanes && (step.sync.record == NO_STEP || step.sync.record < g->n_steps));
  step.lane = lane;
  if (step.sync.event) object_ref(&step.sync.event->o);
  if (step.kind == STEP_WAIT && step.sync.record != NO_STEP) g->steps[step.sync.record].sync.waited = true;
  *number = g->n_steps;
  g->steps[g->n_steps++] = step;
  return ST_OK;
}

status graph_keep_block(graph *g, void *block, void *site) {
  graph_block *b = g->blocks;
  while (b && b->block != block) b = b->next;
  if (b) return fail(ST_INVALID_VALUE, "ptr is %p, which was freed in this capture before", block);
  b = malloc(sizeof *b);
  if (!b) return no_memory(g);
  *b = (graph_block){.next = g->blocks, .block = block, .site = site};
  g->blocks = b;
  return ST_OK;
}

/* Goes through the steps backwards: a lane is joined ("comes back") in front of each record for
 * which a joined lane waits. */
uint32_t graph_find_unjoined(graph *g) {
  INVARIANT(g->capturing);
  for (uint32_t lane = 0; lane < g->n_lanes; ++lane) end_run(g, lane);
  g->lanes[0].comes_back = true;
  for (uint32_t i = g->n_steps; i--;) {
    graph_step *p = &g->steps[i];
    if (p->kind == STEP_RECORD && p->sync.comes_back) g->lanes[p->lane].comes_back = true;
    if (!g->lanes[p->lane].comes_back) {
      if (p->kind != STEP_WAIT || p->sync.outside) return i;
      p->kind = STEP_NONE;
    }
    if (p->kind == STEP_WAIT && p->sync.record != NO_STEP) g->steps[p->sync.record].sync.comes_back = true;
  }
  return NO_STEP;
}

/* Creates the events that executions need, and one for each record that is waited for, which its waits share. */
static status make_events(graph *g) {
  TRY(event_create(g->context, EVENT_EX, EVENT_SYNC, &g->done));
  for (uint32_t lane = 1; lane < g->n_lanes; ++lane)
    TRY(event_create(g->context, EVENT_EX, EVENT_SYNC, &g->lanes[lane].end));
  for (graph_step *p = g->steps; p < g->steps + g->n_steps; ++p) {
    if (p->kind == STEP_RECORD && p->sync.waited && !p->sync.event)
      TRY(event_create(g->context, EVENT_EX, EVENT_SYNC, &p->sync.event));
    if (p->kind == STEP_WAIT && p->sync.record != NO_STEP) {
      p->sync.event = g->steps[p->sync.record].sync.event;
      object_ref(&p->sync.event->o);
    }
  }
  return ST_OK;
}

status graph_finish(graph *g) {
  for (uint32_t lane = 1; lane < g->n_lanes; ++lane)
    TRY(stream_create(g->context, g->lanes[lane].priority, 0, &g->lanes[lane].stream));
  TRY(make_events(g));
  TRY(graph_collect_ranges(g));
  g->capturing = false;
  INVARIANT_WALK(graph_is_valid(g));
  return ST_OK;
}

/* ---- end --------------------------------------------------------------------------------------------------------- */

static void graph_close_stream(stream **slot) {
  stream *s = *slot;
  *slot = NULL;
  if (s) stream_destroy(s, true);
}

/* Destroys the graph's own streams. They have no tasks left, unless the tasks that they wait for were dropped. */
static void close_streams(graph *g) {
  for (uint32_t lane = 1; lane < g->n_lanes; ++lane) graph_close_stream(&g->lanes[lane].stream);
  graph_close_stream(&g->home);
}

void graph_abandon(graph *g) {
  object_kill(&g->o);
  close_streams(g);
  graph_close_groups(g);
  graph_unref(g);
}

/* How long executions may make no progress before graph_destroy() gives up. CANN gives up after ten seconds. */
static const uint64_t PATIENCE_NS = UINT64_C(2) * 1000000000;

/* Waits until all submitted executions are over. */
static status graph_settle(graph *g) {
  for (uint64_t seen = atomic_load(&g->pace);;) {
    const status st = event_reach(g->done, PATIENCE_NS);
    if (st != ST_EVENT_TIMEOUT) return st;
    const uint64_t now = atomic_load(&g->pace);
    if (now == seen) return fail(ST_MODEL_RUNNING, "graph %u is being executed and makes no progress", g->id);
    seen = now;
  }
}

status graph_destroy(graph *g) {
  if (g->capturing) return fail(ST_MODEL_CAPTURED, "graph %u is being captured", g->id);
  for (bool idle = false; !idle;) {
    TRY(graph_settle(g));
    mutex_lock(&g->lock);
    idle = event_is_complete(g->done);
    const bool ours = idle && object_kill(&g->o);
    mutex_unlock(&g->lock);
    if (ours) hooks_tell_handle(HOOK_GRAPH, HOOK_HANDLE_DESTROYED, g, "aclmdlRIDestroy");
    if (idle && !ours) return fail(ST_INVALID_VALUE, "graph %u is being destroyed", g->id);
  }
  close_streams(g);
  graph_close_groups(g);
  graph_unref(g);
  return ST_OK;
}

static void free_lane(graph_lane *l) {
  INVARIANT(!l->stream);
  event_drop(&l->end);
  for (task *t = l->tasks; t < l->tasks + l->n_tasks; ++t)
    if (t->kind->release) t->kind->release(t);
  free(l->tasks);
}

static void free_blocks(graph *g) {
  while (g->blocks) {
    graph_block *b = g->blocks;
    g->blocks = b->next;
    if (pool_holds(b->block))
      (void)pool_free(NULL, b->block, NULL, "ptr", b->site);
    else
      (void)memory_free(b->block, FREE_DEVICE, b->site);
    free(b);
  }
}

void graph_unref(graph *g) {
  if (!object_unref(&g->o)) return;
  INVARIANT(!g->home);
  for (uint32_t i = 0; i < g->n_steps; ++i)
    if (g->steps[i].kind >= STEP_RECORD) event_drop(&g->steps[i].sync.event);
  event_drop(&g->done);
  for (uint32_t lane = 0; lane < g->n_lanes; ++lane) free_lane(&g->lanes[lane]);
  graph_free_groups(g);
  free_blocks(g);
  free(g->lanes);
  free(g->steps);
  free(g->ranges);
  context_unref(g->context);
  mutex_destroy(&g->lock);
  object_release(OBJECT_GRAPH, &g->o);
}
