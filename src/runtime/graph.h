/* Graphs: tasks that were captured from streams (capture.h), to be executed any number of times. What exists:
 *
 *   graph   what a handle means; all of the following, and the events between its lanes
 *   lane    the tasks of one captured stream, in order. The first is executed in the stream that the caller gives, each
 *           other in a stream of the graph's own
 *   step    what an execution submits, in the order of capture: one task that plays a run of tasks of a lane where they
 *           are, a copy of one (of those that block, or run the user's code), or an event's record, wait or reset
 *   range   memory that the tasks use, checked before each execution: a program may have freed it since
 *   group   tasks whose parameters can be replaced, also while an execution is under way: they are read when the task is
 *           reached (member)
 *
 * So an execution costs a task per step, not per captured task, and events between lanes are ordinary ones. Executions
 * of one graph come one after the other, in whatever streams: each waits for the one before.
 *
 * A graph is built by one capture, under that one's locks, until graph_finish. Then all calls are safe from any thread.
 * Lock order: graph.lock, submit_lock, event.lock. */
#ifndef CANNON_RUNTIME_GRAPH_H
#define CANNON_RUNTIME_GRAPH_H

#include <pthread.h>
#include <stdio.h>

#include "runtime/stream.h"

typedef struct {
  stream *stream;           /* not of the first */
  event *end;               /* of what the stream had to do, for executions in another stream; not of the first */
  uint32_t id, priority;    /* of the captured stream */
  task *tasks;              /* their ids are their places */
  uint32_t n_tasks, n_room; /* n_room: allocated */
  uint32_t n_stepped;       /* tasks below this are in steps */
  uint64_t cost_ns;         /* of those that are not */
  bool comes_back;          /* graph_find_unjoined's */
} graph_lane;

typedef enum { STEP_NONE, STEP_PLAY, STEP_SUBMIT, STEP_RECORD, STEP_WAIT, STEP_RESET } graph_step_kind;

enum { NO_STEP = UINT32_MAX };

typedef struct {
  graph_step_kind kind;
  uint32_t lane;
  union {
    struct {
      uint32_t first, end; /* tasks of the lane; STEP_SUBMIT: first only */
      uint32_t cost_ns;
    } tasks;
    struct {
      event *event;    /* with a reference; of a record that nobody waits for: NULL */
      uint32_t record; /* of a wait inside of the graph: the step that it waits for; else NO_STEP */
      bool waited;     /* of a record inside of the graph */
      bool comes_back; /* graph_find_unjoined's */
      bool outside;    /* the program's own event */
      uint64_t timeout_ns;
    } sync;
  };
} graph_step;

typedef struct {
  uintptr_t start, end; /* the user's addresses */
  unsigned access;
} graph_range;

/* A task that can be replaced while it runs. */
typedef struct graph_task {
  _Atomic uint32_t refs;
  task task; /* of a kind that a graph keeps */
} graph_task;

typedef struct graph_member {
  spinlock lock;
  graph_task *now;
} graph_member;

typedef struct graph_group {
  object o; /* goes with the graph, which has its first reference; others are those of calls */
  struct graph *graph;
  struct graph_group *next;
  _Atomic bool updating; /* a stream submits tasks for it */
  uint32_t n_members;
  graph_member *members;
} graph_group;

/* Memory that only the graph's tasks use: a block of a pool that was freed in a captured stream, or one that the library
 * took for an operator. It stays until the graph goes. */
typedef struct graph_block {
  struct graph_block *next;
  void *block, *site;
} graph_block;

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
  pthread_mutex_t lock;  /* held while an execution is submitted; guards the rest */
  event *done;           /* the latest execution */
  uint64_t last_serial;  /* of the stream of that one */
  stream *home;          /* where graph_execute_alone goes; made when first needed */
  _Atomic uint64_t pace; /* grows while tasks are played */
} graph;

/* ---- building ---------------------------------------------------------------------------------------------------- */

/* A graph in the making with one lane, for tasks of s; published, since users may ask for its handle. */
status graph_new(stream *s, graph **out);

/* A lane for the tasks of s: its number. */
status graph_add_lane(graph *g, stream *s, uint32_t *lane);

/* Sees to room for one more task of the lane, and for the steps that it may take. */
status graph_reserve(graph *g, uint32_t lane);

/* Adds a task, whose references become the graph's; graph_reserve has been called. */
void graph_add_task(graph *g, uint32_t lane, const task *t);

/* Adds an event's step, where everything but the lane is filled in: its number. Takes a reference to the event. */
status graph_add_sync(graph *g, uint32_t lane, graph_step step, uint32_t *number);

/* The lane's tasks from `first` on become a group. */
status graph_add_group(graph *g, uint32_t lane, uint32_t first, graph_group **out);

/* The block, of a pool or of a device, is freed when the graph goes. */
status graph_keep_block(graph *g, void *block, void *site);

/* No more will be added. Whether all that the other lanes do comes back to the first: NO_STEP, or the number of a step
 * that does not. Waits that nothing follows do nothing, and are left out. */
uint32_t graph_find_unjoined(graph *g);

/* From here on it can be executed. */
status graph_finish(graph *g);

/* Of a graph that was never finished: its handle ends, and it goes. */
void graph_abandon(graph *g);

/* ---- use --------------------------------------------------------------------------------------------------------- */

/* Submits one execution to the stream, which is of the graph's context and not captured. ST_INVALID_VALUE where memory
 * that it uses is gone. */
status graph_execute(graph *g, stream *s);

/* Executes in a stream of the graph's own and waits (timeout_ns 0: for ever): a failure of its tasks. */
status graph_execute_alone(graph *g, uint64_t timeout_ns);

/* Destroys the handle; the caller has a reference of its own. Waits for executions that are under way as long as they
 * proceed: ST_MODEL_RUNNING when nothing has happened in them for two seconds. */
status graph_destroy(graph *g);

void graph_unref(graph *g);
void graph_group_unref(graph_group *group);

/* HELD_GRAPH g = NULL, HELD_GROUP group = NULL: variables that drop their references at the end of their scope. */
static inline void graph_drop(graph **g) {
  if (*g) graph_unref(*g);
}
static inline void graph_group_drop(graph_group **group) {
  if (*group) graph_group_unref(*group);
}
#define HELD_GRAPH __attribute__((cleanup(graph_drop))) graph *
#define HELD_GROUP __attribute__((cleanup(graph_group_drop))) graph_group *

/* Whether the graph's parts agree (base/invariant.h). The caller holds what guards it: while it is built, its capture's
 * locks; then, of a live graph, its own. */
bool graph_is_valid(const graph *g);

/* One line for the graph, one for each step and task. */
status graph_print(graph *g, FILE *out);

/* ---- between the files of graphs (graph*.c) ---------------------------------------------------------------------- */

/* Collects the ranges of all tasks but those of groups. */
status graph_collect_ranges(graph *g);
status graph_check_ranges(const graph *g);

/* Whether the memory that the task uses is still there: ST_DEVICE_EXCEPTION. */
status graph_check_task(const task *t);

/* The task's kind that reads a member's current parameters. */
extern const task_kind graph_member_kind;
void graph_task_unref(graph_task *t);
void graph_close_groups(graph *g);
void graph_free_groups(graph *g);

/* ---- updates: the stream's operators replace a group's ----------------------------------------------------------- */

/* Between the two, each operator that is submitted to the stream replaces the next member when the stream reaches it.
 * ST_GROUP_STATUS: the stream, or the group, is being updated already; or (end) is not, or members are left. */
status graph_update_begin(graph_group *group, stream *s);
status graph_update_end(stream *s);

/* From stream.c, for a stream that updates, with its submit_lock held: whether a task of the kind may come next, which
 * is then made the one that replaces. */
status graph_update_admit(stream *s, const task_kind *kind);
void graph_update_take(stream *s, task *t);

bool graph_updates(stream *s);

/* The stream goes. */
void graph_update_forget(stream *s);

#endif
