/* SPDX-License-Identifier: Apache-2.0 */
/* A task: what a stream does at one position of its queue. It has 64 bytes and is built in a slot of the queue. It owns
 * a reference to each object it refers to (an executor, an event), from its submission until it was run or dropped.
 *
 * Each file that submits tasks defines kinds of them (task_kind); stream.c runs them, and graph*.c keeps copies. */
#ifndef CANNON_RUNTIME_TASK_H
#define CANNON_RUNTIME_TASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hooks.h"
#include "base/status.h"

typedef struct stream stream;
typedef struct event event;
typedef struct task task;
typedef struct order_clock order_clock; /* stream_order.h */

/* What run() may return besides ST_OK and an error code. The task stays at the front of its stream and is run again. */
enum {
  TASK_BLOCKED = -1, /* after stream_unblock(), which run() has arranged for */
  TASK_GOES_ON = -2, /* at once: the task has more to do, and lets the stream look whether it is wanted otherwise */
};

/* What a recording (trace/record/record.h) has of a task that has run: nothing, its time as work of the device, or that
 * the stream came to the record of an event or passed the wait for one. Collectives are told by src/comm. */
enum { TASK_TELLS_NOTHING, TASK_TELLS_WORK, TASK_TELLS_RECORD, TASK_TELLS_WAIT };

/* What the profiler's timeline records of a task. */
typedef struct {
  const char *name, *type;
  uint32_t detail, implementation, reason;
  uint64_t bytes;
  uint64_t start_ns; /* timeline_now() when the task ran for the first time; 0: this is the first time */
} task_words;

typedef struct task_kind task_kind;
typedef struct task_wait task_wait; /* stall.h */

/* A range of memory that a task reads or writes. */
typedef struct {
  const void *view; /* the address as kernels see it (memory/memory.h) */
  uint64_t bytes;
  unsigned access;           /* VMM_READ, VMM_WRITE */
  unsigned reads;            /* what is read: HOOK_READS_PART, ...; 0: all bytes */
  bool is_scratch;           /* a workspace */
  const char *name;          /* of an operator's argument; NULL: none */
  const hook_tensor *tensor; /* of an operator's argument; NULL: not known. Valid during the call, as is: */
  const hook_shape *shape;   /* which of the bytes; NULL: all */
} task_range;

/* Is called for each of them. */
typedef void task_use(void *argument, const task_range *range);

struct task_kind {
  const char *name; /* for messages and profiles */
  status (*run)(task *t, stream *s);
  void (*drop)(task *t, stream *s); /* called instead of run() for a task that is dropped; NULL: there is nothing to
                                       release. Ends the blocked state that an earlier run() has begun */
  bool (*ready)(
      const task *t); /* for tasks that wait outside (outside.h): whether the wait is over. Called by any thread,
                                   under a spin lock */
  void (*awaits)(const task *t, const stream *s, task_wait *out); /* for tasks that block: what the front task of s
                                                                     waits for, as stall.h wants it. For the holder
                                                                     of the run lock, while s is blocked. NULL: it may
                                                                     end at any time */
  void (*describe)(const task *t, task_words *words); /* called before run(); NULL: the name is all there is to say */
  bool user_code; /* runs a function of the user's: on library threads only, as it may wait for locks that a thread
                     holds which waits for the stream */
  uint8_t tells;  /* TASK_TELLS_...: what a recording has of the task */
  bool control;   /* only orders other tasks (events): not dropped in a context that a failure has stopped */
  /* For graphs (graph.h). */
  bool is_operator;          /* may be in a group of tasks that can be updated */
  bool again;                /* the graph submits a copy of the task at each execution */
  const task_kind *captured; /* if not `again`: the kind of the task that the graph keeps and plays. Its run() may be
                                called any number of times and releases nothing. NULL for kinds that graphs treat by
                                themselves (events), and for tasks that cannot be captured */
  void (*copied)(task *t);   /* a copy was made for one more run(): takes its references; NULL: it needs none */
  void (*release)(task *t);  /* the graph is freed: drops the references of the task that it kept; NULL: there are
                                none */
  void (*uses)(const task *t, task_use *tell, void *argument); /* calls tell() for the task's memory; NULL: it has
                                                                  none. Where there is a `captured` that has it, that
                                                                  one's serves both */
  uint8_t effect;                                              /* hook_effect of that memory */
  void (*orders)(const task *t, hook_order *out); /* for tasks that pass on order: fills in kind, object, number and
                                                     generation. NULL: it passes on none */
};

struct task {
  const task_kind *kind;
  uint32_t cost_ns; /* estimated time on one core; TASK_COST_UNKNOWN counts as long */
  uint32_t id;      /* the low bits of the position; in a graph, the index in its lane */
  union {
    struct {
      void *dst;
      const void *src;
      size_t width, height, dst_pitch; /* height 1: the pitches do not matter */
      union {
        size_t src_pitch;
        size_t value; /* of a dry run, height 1: fault_copy.value */
      };
    } copy;
    struct {
      void *dst;
      size_t bytes;
      uint32_t pattern; /* the four bytes that dst is filled with, over and over */
    } set;
    struct {
      const void *dst, *src; /* where the parameters of a copy are, which are read when it runs (copy_indirect.h) */
      size_t dst_offset, src_offset, bytes;
    } indirect;
    struct {
      const char *what, *spec; /* fault_task.h */
      status code;
    } fault;
    struct {
      uint64_t *word, value;
      int condition;
    } value;
    struct {
      struct notify *notify; /* with a reference */
      uint64_t timeout_ns;   /* of a wait; 0: no limit */
      uint32_t value;
      uint8_t mode; /* RECORD_... or WAIT_... (notify.h) */
      bool clears;  /* a wait sets the number to 0 when it passes */
    } notify;
    struct {
      void (*function)(void *);
      void *argument;
      bool blocks; /* of a callback: later tasks of the stream wait for its return */
    } host;
    struct {
      status (*function)(void *argument, bool dropped);
      void *argument;
    } library;
    struct {
      event *event;
      uint64_t generation;
      union {
        uint64_t timeout_ns; /* of a wait; 0: no limit */
        uint64_t position;   /* of a record: the position behind it in its stream */
      };
      union {
        stream *stream; /* of a record: its stream */
        bool ahead;     /* of a wait: it was submitted before the record that it waits for */
      };
      task *previous, *next; /* the event's list of records that were not reached yet; guarded by its lock */
    } sync;
    struct {
      struct graph *graph; /* with a reference */
      task *tasks;
      uint32_t next, end; /* tasks[next] to tasks[end - 1] are still to be run */
    } play;
    struct graph_member *member; /* of a task in a graph that can be updated: its current parameters */
    struct {
      struct graph *graph; /* with a reference */
      struct graph_member *member;
      struct graph_task *becomes;
    } update;
    struct collective *collective; /* of src/comm, which the task owns */
    struct model_run *model;       /* of src/graph, likewise */
    struct {
      struct aclOpExecutor *executor;
      void *scratch;
      void *view[4]; /* the operands' addresses; if there are more than 4, view[0] is an array of them (op/launch.c) */
    } launch;
  };
};
_Static_assert(sizeof(task) == 64, "one cache line");

#define TASK_COST_UNKNOWN UINT32_MAX

#endif
