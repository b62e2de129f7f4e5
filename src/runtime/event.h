/* Events: marks in streams that others wait for.
 *
 * Each record has a generation, counted in the order of submission. Records in one stream are reached in that order,
 * those in several streams in any, so the ones not yet reached are kept in a list. A wait is for one generation: the
 * latest when it was submitted. What differs between the three creators of CANN (semantics page, section 7) is
 * event_kind and the flags. */
#ifndef CANNON_RUNTIME_EVENT_H
#define CANNON_RUNTIME_EVENT_H

#include "runtime/stream.h"

enum { EVENT_SYNC = 1, EVENT_PROGRESS = 2, EVENT_TIME_LINE = 8, EVENT_EXTERNAL = 0x20 };
typedef enum { EVENT_PLAIN, EVENT_WITH_FLAG, EVENT_EX } event_kind;

struct event {
  object o;
  uint64_t context_serial; /* events are isolated by context */
  int device;
  event_kind kind;
  uint32_t flags, id;
  /* o.lock guards what follows, and the waits_* fields of the streams that wait here. */
  bool recorded;                 /* in the order of submission: recorded and not reset since */
  uint64_t submitted, completed; /* generations: of the latest record, and the highest that was reached */
  task *first_open, *last_open;  /* records not yet reached */
  uint64_t consumed;             /* the latest generation that ended a wait */
  uint64_t reset_floor;          /* generations up to this are undone: a reset was reached */
  uint64_t n_waits, n_waits_done;
  uint64_t time_ns; /* of the latest completed record; 0: none */
  stream *waiters;
  order_clock *_Atomic clock;   /* of the latest record (order.h) */
  _Atomic uint64_t captured_by; /* the capture that has the latest record; 0, or one that is over: none. capture.c's */
  uint32_t captured_step;
  uint8_t record_use, wait_use; /* what flag its records and waits have had (event_use) */
};

/* An event with one reference, not published. What is queued keeps it. */
status event_create(context *c, event_kind kind, uint32_t flags, event **out);

void event_unref(event *e);

/* Whether the event's parts agree (base/invariant.h); the caller holds its lock. */
bool event_is_valid(const event *e);

/* HELD_EVENT e = NULL: a variable that drops its reference at the end of its scope. */
static inline void event_drop(event **e) {
  if (*e) event_unref(*e);
}
#define HELD_EVENT __attribute__((cleanup(event_drop))) event *

/* What aclrtRecordEventWithFlag and aclrtStreamWaitEventWithFlag may not change between calls. */
enum { EVENT_USE_NONE, EVENT_USE_DEFAULT, EVENT_USE_OUTSIDE };

/* The three tasks, or steps of a graph where s is being captured, or (event_wait) begins to be. e and s must be of the same
 * context (checked by the caller). */
status event_record(event *e, stream *s);
status event_reset(event *e, stream *s);
status event_wait(event *e, stream *s, uint64_t timeout_ns);

/* Records and waits without a look at captures, for executions of graphs. ST_STREAM_CAPTURED where s is captured. */
status event_submit_record(event *e, stream *s);
status event_submit_wait(event *e, stream *s, uint64_t timeout_ns);

/* What is submitted to s from now on comes after all that was submitted to source. ST_STREAM_CAPTURED where one of them is
 * being captured. */
status event_order(stream *source, stream *s);

/* Whether it was ever recorded (and not in a capture). */
bool event_was_recorded(event *e);

/* Waits on the host for the latest record; at once where there is none. Returns a failure of that record's stream. */
status event_synchronize(event *e, uint64_t timeout_ns);

/* The same without the failure: ST_EVENT_TIMEOUT or ST_OK. */
status event_reach(event *e, uint64_t timeout_ns);

/* Whether the latest record was reached; without one: true for EVENT_EX only. Starts what is not running. */
bool event_is_complete(event *e);

/* Whether all waits submitted so far were passed. */
bool event_waits_are_complete(event *e);

/* Time of the latest completed record, nanoseconds since an arbitrary start; 0 where there is none. */
uint64_t event_time_ns(event *e);

/* Of the event that a blocked stream waits for: the stream that will record it (with a reference) and the position
 * behind the record; NULL where nobody will yet. */
stream *event_source_of_wait(stream *s, uint64_t *position);

#endif
