/* A task: what a stream does at one position of its queue. 64 bytes, copied into the queue; what it refers to (an
 * executor, an event) it owns a reference to, from submission until run or drop. */
#ifndef CANNON_RUNTIME_TASK_H
#define CANNON_RUNTIME_TASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct stream stream;
typedef struct event event;
typedef struct task task;
typedef struct order_clock order_clock; /* order.h */

/* What run() may answer besides ST_OK and an error. The stream stays at this task, and runs it again. */
enum {
  TASK_BLOCKED = -1, /* not before stream_unblock(), for which run() has arranged */
  TASK_GOES_ON = -2, /* at once: there is more to do, but others may want to step in */
};

/* What the profiler's timeline says of a task. */
typedef struct {
  const char *name, *type;
  uint32_t detail;
  uint64_t bytes;
} task_words;

typedef struct task_kind task_kind;

/* Told for each range of bytes that a task reads or writes, as kernels see it (memory/memory.h). */
typedef void task_use(void *argument, const void *view, uint64_t bytes, unsigned access);

struct task_kind {
  const char *name; /* in reports */
  status (*run)(task *t, stream *s);
  void (*drop)(task *t, stream *s); /* instead of run, where a stream goes with tasks in it; NULL: nothing to release */
  void (*describe)(const task *t, task_words *words); /* before run; NULL: the name says it all */
  bool user_code; /* runs the user's function: on library threads only, it may block on the waiter's locks */
  bool control;   /* order only (events): never dropped for a failure of an earlier task */
  /* For graphs (graph.h). */
  bool is_operator;          /* may be in a group whose tasks are updated */
  bool again;                /* a copy is submitted each time that the graph is executed */
  const task_kind *captured; /* else: what stays in the graph, whose run may be repeated and releases nothing; NULL, and
                                not `again`: events, which graphs know of */
  void (*copied)(task *t);   /* a copy was made, for one more run; NULL: needs nothing */
  void (*release)(task *t);  /* what the graph held goes; NULL: nothing to release */
  void (*uses)(const task *t, task_use *tell, void *argument); /* NULL: no memory */
};

struct task {
  const task_kind *kind;
  uint32_t cost_ns; /* estimate; TASK_COST_UNKNOWN counts as large */
  uint32_t id;      /* low bits of its position */
  union {
    struct {
      void *dst;
      const void *src;
      size_t width, height, dst_pitch, src_pitch; /* height 1: width bytes */
    } copy;
    struct {
      void *dst;
      size_t bytes;
      uint32_t pattern; /* repeated from dst on */
    } set;
    struct {
      const void *dst, *src; /* of memcpys whose parameters are read when they run */
      size_t dst_offset, src_offset, bytes;
    } indirect;
    struct {
      uint64_t *word, value;
      int condition;
    } value;
    struct {
      struct notify *notify; /* with a reference */
      uint64_t timeout_ns;   /* of a wait; 0: none */
      uint32_t value;
      uint8_t mode; /* notify_mode */
      bool clears;  /* of a wait */
    } notify;
    struct {
      void (*function)(void *);
      void *argument;
      bool blocks; /* of a callback: later tasks wait for its return */
    } host;
    struct {
      event *event;
      uint64_t generation;
      union {
        uint64_t timeout_ns; /* of a wait; 0: none */
        uint64_t position;   /* of a record: the one behind it, in its stream */
      };
      union {
        stream *stream; /* of a record */
        bool ahead;     /* of a wait: submitted before its record */
      };
      task *previous, *next; /* records of the event that were not reached yet, in the order of submission */
    } sync;
    struct {
      struct graph *graph; /* with a reference */
      task *tasks;
      uint32_t next, end; /* tasks[next, end) are still to be run */
    } play;
    struct graph_member *member; /* of a graph: a task that can be updated */
    struct {
      struct graph *graph; /* with a reference */
      struct graph_member *member;
      struct graph_task *becomes;
    } update;
    struct {
      struct aclOpExecutor *executor;
      void *scratch;
      void *view[4]; /* of the operands; more: view[0] is a malloc'ed array of them */
    } launch;
  };
};
_Static_assert(sizeof(task) == 64, "one cache line");

#define TASK_COST_UNKNOWN UINT32_MAX

#endif
