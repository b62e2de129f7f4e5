/* SPDX-License-Identifier: Apache-2.0 */
/* Waits that never end: a stream waits for an event that was destroyed before it was recorded, streams wait for each
 * other, or for what no thread of the program will do. As on a device, the program goes on waiting; but it is told why,
 * once for each such wait, on stderr and by a finding of the checker.
 *
 * A thread that waits for a blocked stream looks before it sleeps, and again and again, ever more rarely. It tells at
 * once what is certain:
 *
 *   * nobody can end the wait: no queued task will, and no call of the program can, since the handle is destroyed; or
 *     each task that would is queued behind such a wait itself (streams that wait for each other)
 *   * only a call of the program could end the wait, and each thread of the program waits for a stream without a limit
 *
 * Where another thread could still end the wait, it is told after STALL_NS, on stderr only. Waits with a time limit,
 * waits for other processes and for user functions are never told; collectives have words of their own (src/comm).
 *
 * What a blocked task waits for, its kind says (task_kind.awaits). Called by stream.c. Thread-safe. */
#ifndef CANNON_RUNTIME_WAIT_STALL_H
#define CANNON_RUNTIME_WAIT_STALL_H

#include "runtime/stream.h"

#define STALL_NS UINT64_C(2000000000)

/* Who destroyed an object; written before its handle is stale. */
typedef struct {
  void *site;      /* the return address of the call */
  uint32_t thread; /* gettid(); 0: nobody has */
} object_end;

/* The calling thread destroys an object, by a call that returns to `site`. */
object_end stall_end_of_object(void *site);

/* What a blocked task waits for. */
struct task_wait {
  enum {
    WAIT_OPEN,       /* others than this process's calls and streams may end it, or it has a time limit */
    WAIT_UNSIGNALED, /* a call of the program may end it */
    WAIT_ORPHANED,   /* no call may */
  } state;
  bool others_may; /* other processes may end it as well, which nobody here knows */
  char what[96];   /* "event 5", with the article that it needs */
  stream *source;  /* of the task that will end it, with a reference; NULL: none is queued, or it is one of `ends` */
  bool (*ends)(const task *candidate,
               const task *wait); /* whether a queued task ends it; NULL: none but the source's */
  int64_t n_ends;     /* how many tasks there are for which `ends` holds, in queues and graphs; -1: not known */
  object_end ended;   /* of an orphaned wait's object */
  const void *handle; /* the object */
  int handle_kind;    /* hook_handle_kind */
};

/* What a thread remembers that waits for a stream; all 0 at first. */
typedef struct {
  uint64_t next_ns, period_ns; /* when it looks again, and how long after the look before */
  uint64_t serial, position;   /* the wait from which all else hung at the last look; */
  uint64_t since_ns;           /* and since when */
} stall_watch;

/* Looks whether the stream, which is blocked, will ever go on, if it is time to. Called by a thread that is about to
 * wait for the stream. Returns for how many nanoseconds it may sleep before it calls again. No lock is held. */
uint64_t stall_look(stream *s, stall_watch *watch);

/* The number of threads of the program that wait for streams without a time limit; counted by stream.c. */
extern INTERNAL _Atomic int stall_n_waiting;

#endif
