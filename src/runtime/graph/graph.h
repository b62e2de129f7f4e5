/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs: tasks that were captured from streams (capture.h) and can be executed any number of times.
 *
 *   graph   the object behind a handle: has all of the following, and the events between its lanes
 *   lane    the tasks of one captured stream, in order. The first lane is executed in the stream that the caller gives,
 *           each other lane in a stream that belongs to the graph
 *   step    what an execution submits, in the order of capture: one task that runs ("plays") a sequence of a lane's
 *           tasks where they are stored, a copy of a single task (of those that block or run user code), or a record,
 *           wait or reset of an event
 *   range   memory that the tasks use. It is checked before each execution, since the program may have freed it
 *   group   tasks whose parameters can be replaced, also while the graph is executed; they are read when a task is
 *           reached
 *   member  a task of a group
 *
 * So an execution submits a task for each step, not for each captured task, and events between lanes are ordinary ones.
 * Executions of one graph never overlap, whatever streams they are in: each waits for the one before.
 *
 * A graph is built by one capture, under that one's locks, until graph_finish(). From then on all functions are
 * thread-safe. Lock order: graph.lock, submit_lock, event.lock. Called by capture*.c, stream.c and src/api. */
#ifndef CANNON_RUNTIME_GRAPH_GRAPH_H
#define CANNON_RUNTIME_GRAPH_GRAPH_H

#include <pthread.h>
#include <stdio.h>

#include "base/lock.h"
#include "runtime/stream.h"

/* Fields change while the graph is built, and then no more. */
typedef struct {
  stream *stream;           /* which the lane is executed in; NULL in the first lane */
  event *end;               /* recorded for an execution in another stream; NULL in the first lane */
  uint32_t id, priority;    /* of the captured stream */
  task *tasks;              /* a task's id is its index */
  uint32_t n_tasks, n_room; /* n_room: how many are allocated */
  uint32_t n_stepped;       /* tasks below this index are in steps */
  uint64_t cost_ns;         /* the sum over the tasks that are not */
  bool comes_back;          /* of graph_find_unjoined(): a later task of the first lane waits for the lane */
} graph_lane;

typedef enum { STEP_NONE, STEP_PLAY, STEP_SUBMIT, STEP_RECORD, STEP_WAIT, STEP_RESET } graph_step_kind;

enum { NO_STEP = UINT32_MAX };

/* NO_STEP: no step's number. STEP_NONE: a step that was left out. */
typedef struct {
  graph_step_kind kind;
  uint32_t lane;
  union {
    struct {
      uint32_t first, end; /* the lane's tasks first to end - 1; STEP_SUBMIT: just one */
      uint32_t cost_ns;    /* the sum over these tasks */
    } tasks;
    struct {
      event *event;    /* with a reference; NULL for a record that no step waits for, and until graph_finish() */
      uint32_t record; /* of a wait for a record in the graph: the number of that step; else NO_STEP */
      bool waited;     /* of a record in the graph: a step waits for it */
      bool comes_back; /* of graph_find_unjoined() */
      bool outside;    /* the event is the program's, and used outside of the graph too */
      uint64_t timeout_ns;
    } sync;
  };
} graph_step;

typedef struct {
  uintptr_t start, end; /* user addresses */
  unsigned access;      /* VMM_READ or VMM_WRITE, or both */
} graph_range;

/* The parameters of a member. An update replaces them, while the member may be running with the old ones:
 * each of both has a reference. */
typedef struct graph_task {
  _Atomic uint32_t refs;
  task task; /* of a kind that a graph keeps (task_kind.captured) */
} graph_task;

typedef struct graph_member {
  spinlock lock;   /* guards now */
  graph_task *now; /* with a reference */
} graph_member;

typedef struct graph_group {
  object o; /* the graph has the first reference, and calls in progress the others */
  struct graph *graph;
  struct graph_group *next;
  _Atomic bool updating; /* a stream is updating the group */
  uint32_t n_members;
  graph_member *members;
} graph_group;

/* Memory that only the graph's tasks use: a block of a pool that was freed in a captured stream, or one
 * that the library allocated for an operator. Freed with the graph. site: the return address of the
 * call, for the memory debugger. */
typedef struct graph_block {
  struct graph_block *next;
  void *block, *site;
} graph_block;

/* Lives as an object of object.h does; each task of an execution has a reference. */
typedef struct graph {
  object o;
  context *context; /* with a reference */
  uint32_t id;
  _Atomic bool capturing;
  uint32_t n_lanes, n_steps, step_room;
  uint32_t n_ranges;
  graph_lane *lanes;
  graph_step *steps;
  graph_range *ranges;
  graph_group *groups;
  graph_block *blocks;
  mutex lock;            /* held while an execution is submitted; guards the rest */
  event *done;           /* recorded behind the latest execution */
  uint64_t last_serial;  /* serial of the stream of that execution */
  stream *home;          /* the stream for graph_execute_alone(); created when first needed */
  _Atomic uint64_t pace; /* grows with each batch of tasks that is played: shows that executions make progress */
} graph;

/* ---- building ---------------------------------------------------------------------------------------------------- */

/* Creates an unfinished graph with one lane, for tasks of s. It is published, since users may ask for its handle. */
status graph_new(stream *s, graph **out);

/* Adds a lane for the tasks of s. *lane: its number. */
status graph_add_lane(graph *g, stream *s, uint32_t *lane);

/* Reserves memory for one more task of the lane, and for the steps that it may add. */
status graph_reserve(graph *g, uint32_t lane);

/* Adds a copy of the task, whose references become the graph's. graph_reserve() has been called. */
void graph_add_task(graph *g, uint32_t lane, const task *t);

/* Adds a step for an event, in which everything but the lane is filled in; takes a further reference to the event.
 * *number: the number of the step. */
status graph_add_sync(graph *g, uint32_t lane, graph_step step, uint32_t *number);

/* Makes the lane's tasks from index `first` on a group. */
status graph_add_group(graph *g, uint32_t lane, uint32_t first, graph_group **out);

/* Makes the graph own a block of a pool or of device memory. */
status graph_keep_block(graph *g, void *block, void *site);

/* Called when nothing is added any more. Checks that the first lane waits for all that the other lanes do: returns
 * NO_STEP, or the number of a step that no later step of the first lane waits for. Waits at the end of a lane, which
 * change nothing, are left out. */
uint32_t graph_find_unjoined(graph *g);

/* Creates the streams and events that executions need. From now on the graph can be executed. */
status graph_finish(graph *g);

/* Destroys a graph that was not finished: its handle becomes stale, and the caller's reference is dropped. */
void graph_abandon(graph *g);

/* ---- use --------------------------------------------------------------------------------------------------------- */

/* Submits one execution to s, which must be of the graph's context and not captured. ST_INVALID_VALUE if memory
 * that the tasks use was freed. */
status graph_execute(graph *g, stream *s);

/* Executes the graph in a stream of its own and waits. Returns the first failure of its
 * tasks. timeout_ns 0: no limit. */
status graph_execute_alone(graph *g, uint64_t timeout_ns);

/* Destroys the graph's handle; the caller has a reference of its own, which it keeps. Waits for executions for as long
 * as they make progress: ST_MODEL_RUNNING after two seconds without. */
status graph_destroy(graph *g);

void graph_unref(graph *g);
void graph_group_unref(graph_group *group);

/* HELD_GRAPH g = NULL and HELD_GROUP group = NULL declare variables that drop their reference
 * at the end of their scope. */
static inline void graph_drop(graph **g) {
  if (*g) graph_unref(*g);
}
static inline void graph_group_drop(graph_group **group) {
  if (*group) graph_group_unref(*group);
}
#define HELD_GRAPH __attribute__((cleanup(graph_drop))) graph *
#define HELD_GROUP __attribute__((cleanup(graph_group_drop))) graph_group *

/* Whether the graph is consistent (base/invariant.h). The caller holds the locks that guard it: those of its capture
 * while it is built, then its own. */
bool graph_is_valid(const graph *g);

/* Prints one line for the graph, and one for each step and task. */
status graph_print(graph *g, FILE *out);

/* ---- between graph.c, graph_run.c and graph_group.c -------------------------------------------------------------- */

/* Collects the memory ranges of all tasks but those of groups; then checks that they are still allocated. */
status graph_collect_ranges(graph *g);
status graph_check_ranges(const graph *g);

/* The n tasks that a task of this file plays; NULL: it plays none. */
const task *graph_played(const task *t, uint32_t *n);

/* ST_DEVICE_EXCEPTION if memory that the task uses was freed. */
status graph_check_task(const task *t);

/* The kind of the task that runs a member with its current parameters. */
extern const task_kind graph_member_kind;

/* Drops a reference; makes the handles of the groups stale; frees the groups. */
void graph_task_unref(graph_task *t);
void graph_close_groups(graph *g);
void graph_free_groups(graph *g);

/* ---- updates: operators submitted to a stream replace the members of a group ------------------------------------- */

/* Begin and end an update: in between, each operator that is submitted to the stream replaces the group's next member,
 * at the time when the stream reaches it. ST_GROUP_STATUS if the stream or the group is being updated already; at the
 * end, if the stream updates no group, or not all members were replaced. */
status graph_update_begin(graph_group *group, stream *s);
status graph_update_end(stream *s);

/* For stream.c, with the submit_lock of a stream that updates a group held: whether a task of the kind can replace a
 * member; then turns the submitted task into one that does so. */
status graph_update_admit(stream *s, const task_kind *kind);
void graph_update_take(stream *s, task *t);

/* Whether the stream updates a group. */
bool graph_updates(stream *s);

/* Gives up the stream's update, since the stream is being destroyed. */
void graph_update_forget(stream *s);

#endif
