/* SPDX-License-Identifier: Apache-2.0 */
/* Events: marks that are recorded in one stream and that other streams, or the host, wait for.
 *
 * Each record of an event has a generation: a number from 1, in the order of submission. Records in one stream are
 * reached in that order, records in several streams in any order, so those not reached yet ("open") are kept in a list.
 * A wait is for one generation, the latest one when it was submitted. Where the three functions of CANN that create
 * events differ, event_kind and the flags say how.
 *
 * Called by src/api and the other files of src/runtime. Thread-safe. */
#ifndef CANNON_RUNTIME_WAIT_EVENT_H
#define CANNON_RUNTIME_WAIT_EVENT_H

#include "runtime/stream.h"
#include "runtime/wait/stall.h"

/* The values of ACL_EVENT_SYNC and so on; and the functions that create events: aclrtCreateEvent,
 * ...WithFlag, ...ExWithFlag. */
enum { EVENT_SYNC = 1, EVENT_PROGRESS = 2, EVENT_TIME_LINE = 8, EVENT_EXTERNAL = 0x20, EVENT_IPC = 0x40 };
typedef enum { EVENT_PLAIN, EVENT_WITH_FLAG, EVENT_EX } event_kind;

typedef struct event_share event_share; /* runtime/wait/event_share.h */

/* Lives as an object of object.h does; each task that uses the event has a reference. */
struct event {
  object o;
  uint64_t context_serial; /* of the context it was created in: streams of others can only wait for it */
  int device;
  event_kind kind;
  uint32_t flags, id;
  uint64_t place; /* where it was created (runtime/python_place.h) */
  /* o.lock guards the following fields, and the waits_* fields of the streams that wait for the event. */
  bool was_reset;                 /* ever: resets that run later may have waits pass by later records */
  bool recorded;                  /* in the order of submission: it was recorded, and not reset since */
  uint64_t submitted, completed;  /* generations: of the latest record, and the highest one that was reached */
  task *first_open, *last_open;   /* open records, by generation */
  uint64_t consumed;              /* the highest generation that ended a wait */
  uint64_t reset_floor;           /* generations up to this were undone by a reset that was reached */
  uint64_t n_waits, n_waits_done; /* tasks that wait: submitted, and over */
  uint64_t time_ns;               /* when the latest completed record was reached; 0: none was. In a dry run, the
                                     modelled time, from 1 on */
  uint64_t dry_ns;                /* of dry.c: the clock of the latest record that was reached, ... */
  uint64_t dry_generation;        /* ... and its generation */
  stream *waiters;                /* blocked streams, chained through next_waiter, each with a reference */
  order_clock *_Atomic clock;     /* of the latest record (stream_order.h) */
  _Atomic uint64_t captured_by;   /* serial of the capture that has the latest record; 0, or that of a capture which is
                                    over: none. capture*.c guard it, and the step, by capture_lock */
  uint32_t captured_step;
  event_share *share;           /* with other processes; NULL: none. Set once; it has `submitted` then */
  object_end ended;             /* who destroyed it */
  uint8_t record_use, wait_use; /* how its records and waits were made so far: EVENT_USE_... */
};

/* Creates an event with one reference, not published. ST_NO_EVENTS. */
status event_create(context *c, event_kind kind, uint32_t flags, event **out);

void event_unref(event *e);

/* The calling thread is about to destroy the event, by a call that returns to `site`. */
void event_note_end(event *e, void *site);

/* Whether the fields of the event are consistent (base/invariant.h). The caller holds its lock. */
bool event_is_valid(const event *e);

/* HELD_EVENT e = NULL declares a variable that drops its reference at the end of its scope. */
static inline void event_drop(event **e) {
  if (*e) event_unref(*e);
}
#define HELD_EVENT __attribute__((cleanup(event_drop))) event *

/* The flag that aclrtRecordEventWithFlag or aclrtStreamWaitEventWithFlag was first given for an event: later
 * calls must give the same. */
enum { EVENT_USE_NONE, EVENT_USE_DEFAULT, EVENT_USE_OUTSIDE };

/* ST_OTHER_CONTEXT if the event was created in another context than the stream. */
status event_check_context(const event *e, const stream *s);

/* Submit the three tasks; or add steps to a graph, if s is being captured or (event_wait) joins a capture by it. The
 * caller has checked that e and s are of the same context; a stream that waits may be of another one, unless it or the
 * event is captured. timeout_ns 0: no limit. */
status event_record(event *e, stream *s);
status event_reset(event *e, stream *s);
status event_wait(event *e, stream *s, uint64_t timeout_ns);

/* Submit a record or a wait as executions of graphs do, which are never captured.
 * ST_STREAM_CAPTURED if s is captured. */
status event_submit_record(event *e, stream *s);
status event_submit_wait(event *e, stream *s, uint64_t timeout_ns);

/* Makes tasks that are submitted to s from now on run after all tasks submitted to source so far. ST_STREAM_CAPTURED if
 * one of the streams is being captured. */
status event_order(stream *source, stream *s);

/* Whether the event was ever recorded outside of captures. */
bool event_was_recorded(event *e);

/* Waits on the host until the latest record is reached; returns at once if there is none. Returns and takes the failure
 * that the record's stream has kept. ST_EVENT_TIMEOUT; timeout_ns 0: no limit. */
status event_synchronize(event *e, uint64_t timeout_ns);

/* As event_synchronize(), but leaves failures of tasks to others. */
status event_reach(event *e, uint64_t timeout_ns);

/* Whether the latest record was reached; of an event without records, whether it is of kind EVENT_EX. If not, sees to
 * it that the record's stream is run. */
bool event_is_complete(event *e);

/* Whether all waits submitted so far are over: passed, timed out, or dropped. */
bool event_waits_are_complete(event *e);

/* When the latest completed record was reached, in nanoseconds of CLOCK_MONOTONIC; 0 if none was. */
uint64_t event_time_ns(event *e);

/* For event_share.c. Makes an event share its generations, and from then on the ticker looks after its waiters; and
 * takes the streams whose wait is over off its list of waiters, in front of a chain, each with its reference. */
void event_set_share(event *e, event_share *s);
stream *event_take_satisfied(event *e, stream *satisfied);

/* If s is blocked and waits for an event: the stream whose record will end the wait, with a reference, and the position
 * behind that record. NULL if no such record has been submitted. */
stream *event_source_of_wait(stream *s, uint64_t *position);

#endif
