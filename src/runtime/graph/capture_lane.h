/* SPDX-License-Identifier: Apache-2.0 */
/* The structs of a capture, for capture*.c only. */
#ifndef CANNON_RUNTIME_GRAPH_CAPTURE_LANE_H
#define CANNON_RUNTIME_GRAPH_CAPTURE_LANE_H

#include <pthread.h>

#include "base/lock.h"
#include "runtime/graph/capture.h"

typedef struct capture_lane capture_lane;

/* A capture, in the list that capture_lock guards; freed at its end. Fields without a lock named
 * are guarded by that, too. */
typedef struct capture {
  struct capture *next;
  uint64_t serial; /* from 1, unique in the process */
  graph *graph;
  capture_mode mode;
  pthread_t thread; /* which began it */
  _Atomic bool invalid;
  spinlock lock;                /* guards the unfinished graph, grouped and group_first */
  capture_lane *lanes, *origin; /* one for each captured stream; that of the first */
  capture_lane *grouped;        /* the lane that has an open group; NULL: none */
  uint32_t group_first;         /* the index in its lane of the group's first task */
} capture;

/* A captured stream: stream->recording points here. Freed with the capture. */
struct capture_lane {
  capture_lane *next;
  capture *capture;
  stream *stream;  /* with a reference */
  uint32_t number; /* of the graph's lane */
};

/* Guards the list of captures, and which streams and events are captured. Taken first of all. */
extern mutex capture_lock;

/* The capture that has the event's latest record; NULL if there is none, or it is over. capture_lock is held. */
capture *capture_of_event(event *e);

static inline void capture_invalidate(capture *c) { atomic_store(&c->invalid, true); }

/* Makes the capture invalid because of a failure, and returns that. */
static inline status capture_spoil(capture *c, status st) {
  capture_invalidate(c);
  return st;
}

/* Makes s part of the capture, since it waits for an event of a captured stream. capture_lock is held. */
status capture_join(capture *c, stream *s, capture_lane **out);

/* Fails, and makes the capture invalid, if a group is open and the lane is not the group's or the task is no operator.
 * what: the task's kind, for the message. The capture's own lock is held. */
status capture_check_group(capture_lane *l, bool is_operator, const char *what);

#endif
