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

/* run()'s third kind of answer besides ST_OK and an error: not yet. The stream stays at this task, blocked, until
 * stream_unblock(), and then runs it again. run() has arranged for that call before it returns. */
enum { TASK_BLOCKED = -1 };

typedef struct {
  const char *name; /* in reports */
  status (*run)(task *t, stream *s);
  void (*drop)(task *t, stream *s); /* instead of run, where a stream goes with tasks in it; NULL: nothing to release */
  bool user_code; /* runs the user's function: on library threads only, it may block on the waiter's locks */
  bool control;   /* order only (events): never dropped for a failure of an earlier task */
} task_kind;

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
      stream *stream;        /* of a record */
      task *previous, *next; /* records of the event that were not reached yet, in the order of submission */
    } sync;
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
