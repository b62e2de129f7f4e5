/* Capture: tasks that are submitted to a stream between begin and end go to a graph (graph.h) and do not run.
 *
 *   capture   under way from begin to end, in a list with one lock, which is taken first of all. Begins in one stream, its
 *             origin; a stream that waits for an event of a captured stream joins, and must come back by another event
 *   mode      what the capture forbids: synchronous copies and fills, and copies of ordinary host memory. A thread has
 *             one too, which says how far it lets itself be forbidden
 *   invalid   what a forbidden call makes a capture: it goes on, but its end fails
 *
 * Where nothing is captured, submitting costs a branch on the stream's own `diverted`, and what may be forbidden one on
 * capture_n_active. All calls from any thread. Lock order: the list's lock, submit_lock, a capture's own lock. */
#ifndef CANNON_RUNTIME_CAPTURE_H
#define CANNON_RUNTIME_CAPTURE_H

#include "runtime/event.h"
#include "runtime/graph.h"

/* Values are aclmdlRICaptureMode's and aclmdlRICaptureStatus's. */
typedef enum { CAPTURE_GLOBAL, CAPTURE_THREAD_LOCAL, CAPTURE_RELAXED, N_CAPTURE_MODES } capture_mode;
typedef enum { CAPTURE_NONE, CAPTURE_ACTIVE, CAPTURE_INVALIDATED } capture_status;

status capture_begin(stream *s, capture_mode mode);

/* Whatever comes of it but ST_STREAM_NOT_CAPTURED, ST_CAPTURE_UNMATCHED and ST_CAPTURE_THREAD, the capture is over. */
status capture_end(stream *s, graph **out);

/* *g: the graph in the making, NULL where there is none. */
capture_status capture_info(stream *s, graph **g);

/* Whether the captures under way, their streams and their graphs agree (base/invariant.h); the caller holds the list's
 * lock, and no capture's own. */
bool captures_are_valid(void);

/* Sets the calling thread's mode to *mode, which gets what it was; CAPTURE_GLOBAL at first. */
status capture_exchange_mode(capture_mode *mode);

/* Tasks captured from s between the two, operators only, can be updated later. */
status capture_group_begin(stream *s);
status capture_group_end(stream *s, graph_group **out);

/* ---- what a capture forbids: the code, in words, and the captures concerned are invalid --------------------------- */

extern _Atomic int capture_n_active;
static inline bool capture_any(void) {
  return unlikely(atomic_load_explicit(&capture_n_active, memory_order_relaxed) != 0);
}

/* For unsafe calls: ST_CAPTURE_MODE, or for a copy that was asked for asynchronously ST_CAPTURE_MODE_ASYNC. */
status capture_check_unsafe(bool async);
static inline status capture_allow_unsafe(bool async) { return capture_any() ? capture_check_unsafe(async) : ST_OK; }

/* For queries, and for waiting on the host: ST_STREAM_CAPTURED or ST_EVENT_CAPTURED. */
status capture_refuse_stream(stream *s);
status capture_refuse_event(event *e);
status capture_refuse_context(context *c);

/* ---- events ------------------------------------------------------------------------------------------------------ */

/* What an event's record or wait means to a capture, if to any: *taken says so, else it is an ordinary one. outside: as by
 * the flag EXTERNAL of aclrtRecordEventWithFlag: of an event that others record or wait for during an execution. */
status capture_record(event *e, stream *s, bool outside, bool *taken);
status capture_wait(event *e, stream *s, uint64_t timeout_ns, bool outside, bool *taken);
status capture_reset(event *e, stream *s, bool *taken);

/* ---- from stream.c, pools and operators -------------------------------------------------------------------------- */

static inline bool capture_records(const stream *s) {
  return unlikely(atomic_load_explicit(&s->recording, memory_order_relaxed) != NULL);
}

/* With submit_lock held, of a stream that is captured: whether a task of the kind may be; then takes it. Between the two,
 * the capture's own lock is held. */
status capture_admit(stream *s, const task_kind *kind);
void capture_take(stream *s, const task *t);

/* The stream goes: what it captures, or updates, is given up. */
void capture_forget(stream *s);

/* A block of a pool that is freed in a stream that is captured belongs to the graph until that goes. *taken as above. */
status capture_free_block(stream *s, void *block, void *site, bool *taken);

/* So does a block of a device that the library takes for a task of such a stream, from before the task is submitted. */
status capture_keep_block(stream *s, void *block, void *site, bool *taken);

#endif
