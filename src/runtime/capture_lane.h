/* What a capture consists of: for capture*.c only. */
#ifndef CANNON_RUNTIME_CAPTURE_LANE_H
#define CANNON_RUNTIME_CAPTURE_LANE_H

#include <pthread.h>

#include "base/lock.h"
#include "runtime/capture.h"

typedef struct capture_lane capture_lane;

typedef struct capture {
  struct capture *next;
  uint64_t serial; /* unique, from 1 */
  graph *graph;
  capture_mode mode;
  pthread_t thread; /* that began it */
  _Atomic bool invalid;
  spinlock lock; /* guards the graph in the making, and the group */
  capture_lane *lanes, *origin;
  capture_lane *grouped; /* where a group is open; NULL: there is none */
  uint32_t group_first;
} capture;

struct capture_lane {
  capture_lane *next;
  capture *capture;
  stream *stream; /* with a reference */
  uint32_t number;
};

/* Guards the list of captures, and which streams and events are captured. Taken first of all. */
extern mutex capture_lock;

/* The capture that has the event's latest record; NULL where none is, or that one is over. The lock is held. */
capture *capture_of_event(event *e);

static inline void capture_invalidate(capture *c) { atomic_store(&c->invalid, true); }

/* Invalid because of this failure. */
static inline status capture_spoil(capture *c, status st) {
  capture_invalidate(c);
  return st;
}

/* A captured stream has waited for what the step records: this stream is of the capture, too. The lock is held. */
status capture_join(capture *c, stream *s, capture_lane **out);

/* A group takes operators of its own stream, and nothing else is captured meanwhile. The capture's own lock is held. */
status capture_check_group(capture_lane *l, bool is_operator, const char *what);

#endif
