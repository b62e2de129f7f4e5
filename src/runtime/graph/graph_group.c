/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of captured tasks, and updates of groups. */
#include <stdlib.h>

#include "base/invariant.h"
#include "base/lock.h"
#include "runtime/graph/graph.h"

/* ---- members ----------------------------------------------------------------------------------------------------- */

void graph_task_unref(graph_task *t) {
  const uint32_t before = atomic_fetch_sub(&t->refs, 1);
  INVARIANT(before >= 1);
  if (before != 1) return;
  if (t->task.kind->release) t->task.kind->release(&t->task);
  free(t);
}

static graph_task *current(graph_member *m) {
  spin_lock(&m->lock);
  graph_task *now = m->now;
  INVARIANT(now && atomic_load(&now->refs) >= 1);
  atomic_fetch_add(&now->refs, 1);
  spin_unlock(&m->lock);
  return now;
}

static status run_member(task *t, stream *s) {
  graph_task *now = current(t->member);
  status st = graph_check_task(&now->task);
  if (st == ST_OK) st = now->task.kind->run(&now->task, s);
  graph_task_unref(now);
  return st;
}

static void describe_member(const task *t, task_words *words) {
  graph_task *now = current(t->member);
  if (now->task.kind->describe) now->task.kind->describe(&now->task, words);
  graph_task_unref(now);
}

const task_kind graph_member_kind = {
    .name = "task of a group", .tells = TASK_TELLS_WORK, .run = run_member, .describe = describe_member};

/* ---- groups ------------------------------------------------------------------------------------------------------ */

void graph_group_unref(graph_group *group) {
  if (!object_unref(&group->o)) return;
  for (uint32_t i = 0; i < group->n_members; ++i) graph_task_unref(group->members[i].now);
  free(group->members);
  object_release(OBJECT_GROUP, &group->o);
}

void graph_free_groups(graph *g) {
  while (g->groups) {
    graph_group *group = g->groups;
    g->groups = group->next;
    graph_group_unref(group);
  }
}

void graph_close_groups(graph *g) {
  for (graph_group *group = g->groups; group; group = group->next) object_kill(&group->o);
}

/* Moves the task out of its lane into a graph_task, and leaves a task that runs the member. */
static bool make_member(graph_member *m, task *t) {
  graph_task *moved = aligned_alloc(_Alignof(graph_task), sizeof *moved);
  if (!moved) return false;
  *moved = (graph_task){.refs = 1, .task = *t};
  *m = (graph_member){.lock = SPINLOCK_INITIALIZER(GROUP), .now = moved};
  t->kind = &graph_member_kind;
  t->member = m;
  return true;
}

status graph_add_group(graph *g, uint32_t lane, uint32_t first, graph_group **out) {
  const uint32_t n = g->lanes[lane].n_tasks - first;
  graph_group *group = object_new(OBJECT_GROUP);
  if (!group) return fail(ST_NO_HOST_MEMORY, "no room for another group of tasks");
  group->graph = g;
  group->next = g->groups;
  g->groups = group; /* from now on the graph frees it */
  group->members = malloc((n + 1) * sizeof *group->members);
  while (group->members && group->n_members < n &&
         make_member(&group->members[group->n_members], &g->lanes[lane].tasks[first + group->n_members]))
    ++group->n_members;
  if (group->members && group->n_members == n) {
    object_publish(&group->o);
    *out = group;
    return ST_OK;
  }
  return fail(ST_NO_HOST_MEMORY, "no host memory for a group of %u tasks", n);
}

/* ---- update ------------------------------------------------------------------------------------------------------ */

struct graph_update {
  graph_group *group; /* the update has a reference to its graph */
  uint32_t n_replaced;
  graph_task *fresh; /* allocated by graph_update_admit() for graph_update_take() */
};

static status run_update(task *t, stream *s) {
  (void)s;
  graph_member *m = t->update.member;
  spin_lock(&m->lock);
  graph_task *old = m->now;
  INVARIANT(old && t->update.becomes && old != t->update.becomes);
  m->now = t->update.becomes;
  spin_unlock(&m->lock);
  graph_task_unref(old);
  graph_unref(t->update.graph);
  return ST_OK;
}

static void drop_update(task *t, stream *s) {
  (void)s;
  graph_task_unref(t->update.becomes);
  graph_unref(t->update.graph);
}

static const task_kind update_kind = {.name = "task update", .run = run_update, .drop = drop_update};
enum { UPDATE_COST_NS = 50 };

static status no_update(const stream *s) {
  return fail(ST_GROUP_STATUS, "stream %u updates no group, expected aclmdlRICaptureTaskUpdateBegin before", s->id);
}

/* Makes the stream update the group. */
static status graph_update_enter(stream *s, struct graph_update *update) {
  spin_lock(&s->submit_lock);
  const bool captured = s->recording, closed = s->closed, updates = s->update, can = !updates && !captured && !closed;
  if (can) {
    s->update = update;
    s->diverted = true;
  }
  spin_unlock(&s->submit_lock);
  if (can) return ST_OK;
  if (captured) return fail(ST_STREAM_CAPTURED, "stream %u is captured, expected another", s->id);
  if (closed) return fail(ST_INVALID_VALUE, "stream %u was destroyed by another thread", s->id);
  return fail(ST_GROUP_STATUS, "stream %u is updating a group already", s->id);
}

/* Takes a reference to the group's graph, unless that is being destroyed. A group is live only as long as its graph is,
 * so if the group is live after the reference was taken, the slot was still that of its graph. */
static bool take_graph(graph_group *group) {
  if (!object_ref_again(&group->graph->o)) return false;
  if (object_is_live(&group->o)) return true;
  graph_unref(group->graph);
  return false;
}

status graph_update_begin(graph_group *group, stream *s) {
  if (!take_graph(group)) return fail(ST_INVALID_VALUE, "the instance of the group is being destroyed");
  struct graph_update *update = malloc(sizeof *update);
  status st = ST_OK;
  if (!update)
    st = fail(ST_NO_HOST_MEMORY, "no host memory for an update");
  else if (atomic_exchange(&group->updating, true))
    st = fail(ST_GROUP_STATUS, "the group is being updated by another stream");
  else {
    *update = (struct graph_update){.group = group};
    st = graph_update_enter(s, update);
    if (st == ST_OK) return ST_OK;
    atomic_store(&group->updating, false);
  }
  free(update);
  graph_unref(group->graph);
  return st;
}

status graph_update_admit(stream *s, const task_kind *kind) {
  struct graph_update *update = s->update;
  if (!kind->is_operator)
    return fail(ST_TASK_KIND, "stream %u updates a group, and a %s is no operator", s->id, kind->name);
  if (update->n_replaced == update->group->n_members)
    return fail(ST_GROUP_STATUS, "stream %u has updated all of the group's tasks, %u, already", s->id,
                update->n_replaced);
  update->fresh = aligned_alloc(_Alignof(graph_task), sizeof *update->fresh);
  return update->fresh ? ST_OK : fail(ST_NO_HOST_MEMORY, "no host memory for the update of a task");
}

void graph_update_take(stream *s, task *t) {
  struct graph_update *update = s->update;
  INVARIANT(lock_is_held(&s->submit_lock) && update->fresh && update->n_replaced < update->group->n_members);
  INVARIANT(t->kind->is_operator && t->kind->captured);
  graph_task *becomes = update->fresh;
  *becomes = (graph_task){.refs = 1, .task = *t};
  becomes->task.kind = t->kind->captured;
  object_ref(&update->group->graph->o);
  t->kind = &update_kind;
  t->cost_ns = UPDATE_COST_NS;
  t->update.graph = update->group->graph;
  t->update.member = &update->group->members[update->n_replaced++];
  t->update.becomes = becomes;
}

/* Ends the stream's update and returns it; NULL if there was none. */
static struct graph_update *graph_update_leave(stream *s) {
  spin_lock(&s->submit_lock);
  struct graph_update *update = s->update;
  s->update = NULL;
  if (update) s->diverted = stream_is_diverted(s);
  spin_unlock(&s->submit_lock);
  return update;
}

/* Frees the update; the group can be updated again. */
static void graph_update_give_up(struct graph_update *update) {
  INVARIANT(atomic_load(&update->group->updating) && update->n_replaced <= update->group->n_members);
  atomic_store(&update->group->updating, false);
  graph_unref(update->group->graph);
  free(update);
}

status graph_update_end(stream *s) {
  struct graph_update *update = graph_update_leave(s);
  if (!update) return no_update(s);
  const uint32_t n = update->group->n_members, n_replaced = update->n_replaced;
  graph_update_give_up(update);
  if (n_replaced == n) return ST_OK;
  return fail(ST_GROUP_STATUS, "%u of the group's %u tasks were updated, expected all", n_replaced, n);
}

bool graph_updates(stream *s) {
  spin_lock(&s->submit_lock);
  const bool updates = s->update != NULL;
  spin_unlock(&s->submit_lock);
  return updates;
}

/* Calls no fail(), since the caller may be about to return a failure with its message. */
void graph_update_forget(stream *s) {
  struct graph_update *update = graph_update_leave(s);
  if (update) graph_update_give_up(update);
}
