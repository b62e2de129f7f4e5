/* SPDX-License-Identifier: Apache-2.0 */
/* Stream capture: tasks that are submitted to a stream between begin and end are put into a graph (graph.h) and not
 * run.
 *
 *   capture   exists from begin to end, in a list with one lock. It begins in one stream, its origin. A stream that
 *             waits for an event recorded in a captured stream joins the capture, and must be joined back by another
 *             event
 *   mode      which calls a capture forbids: synchronous copies and fills, and copies of pageable host memory. Each
 *             thread has a mode too, which says whether captures of other threads, or its own, may forbid it such calls
 *   invalid   state of a capture after a forbidden call: the capture goes on, but its end fails
 *
 * While nothing is captured, a submission costs one branch on the stream's `diverted`, and a call that may be forbidden
 * one on capture_n_active.
 *
 * Called by src/api, src/op, and the files of src/runtime that submit tasks. Thread-safe. Lock order: capture_lock,
 * which guards the list, a stream's submit_lock, a capture's own lock. */
#ifndef CANNON_RUNTIME_GRAPH_CAPTURE_H
#define CANNON_RUNTIME_GRAPH_CAPTURE_H

#include "runtime/graph/graph.h"
#include "runtime/wait/event.h"

/* The values are those of aclmdlRICaptureMode and aclmdlRICaptureStatus. */
typedef enum { CAPTURE_GLOBAL, CAPTURE_THREAD_LOCAL, CAPTURE_RELAXED, N_CAPTURE_MODES } capture_mode;
typedef enum { CAPTURE_NONE, CAPTURE_ACTIVE, CAPTURE_INVALIDATED } capture_status;

/* Begins a capture with s as its origin. */
status capture_begin(stream *s, capture_mode mode);

/* Ends the capture whose origin is s. *out: the graph, whose reference is the caller's. On failure the
 * capture is over too and its graph is freed, unless the failure is ST_STREAM_NOT_CAPTURED,
 * ST_CAPTURE_UNMATCHED or ST_CAPTURE_THREAD. */
status capture_end(stream *s, graph **out);

/* The state of the capture that s belongs to, and its unfinished graph in *g (without a
 * reference; NULL if there is none). */
capture_status capture_info(stream *s, graph **g);

/* Whether all captures, their streams and their graphs are consistent (base/invariant.h). The caller holds
 * capture_lock, and no capture's own lock. */
bool captures_are_valid(void);

/* Exchanges the calling thread's mode, at first CAPTURE_GLOBAL, with *mode. */
status capture_exchange_mode(capture_mode *mode);

/* Begin and end a group: the tasks captured from s in between, which must be operators, can be updated later. */
status capture_group_begin(stream *s);
status capture_group_end(stream *s, graph_group **out);

/* ---- calls that a capture forbids: they fail and make that capture invalid --------------------------------------- */

/* The number of captures. */
extern _Atomic int capture_n_active;
static inline bool capture_any(void) {
  return unlikely(atomic_load_explicit(&capture_n_active, memory_order_relaxed) != 0);
}

/* For calls that a mode can forbid: ST_CAPTURE_MODE, or ST_CAPTURE_MODE_ASYNC for an asynchronous copy. */
status capture_check_unsafe(bool async);
static inline status capture_allow_unsafe(bool async) { return capture_any() ? capture_check_unsafe(async) : ST_OK; }

/* For queries and for waiting on the host: ST_STREAM_CAPTURED or ST_EVENT_CAPTURED if the object is captured. */
status capture_refuse_stream(stream *s);
status capture_refuse_event(event *e);
status capture_refuse_context(context *c);

/* ---- events ------------------------------------------------------------------------------------------------------ */

/* Add a record, wait or reset to the capture that it belongs to. *taken: whether there is such a capture; if not, the
 * caller submits an ordinary task. outside: the flag EXTERNAL of aclrtRecordEventWithFlag was given, for an event that
 * streams outside of the graph record or wait for during an execution. */
status capture_record(event *e, stream *s, bool outside, bool *taken);
status capture_wait(event *e, stream *s, uint64_t timeout_ns, bool outside, bool *taken);
status capture_reset(event *e, stream *s, bool *taken);

/* ---- for stream.c, pools and operators --------------------------------------------------------------------------- */

/* Whether s is being captured. */
static inline bool capture_records(const stream *s) {
  return unlikely(atomic_load_explicit(&s->recording, memory_order_relaxed) != NULL);
}

/* For a captured stream whose submit_lock is held: whether a task of the kind can be captured, and reserves
 * room for it; then puts a copy of the task into the graph. The capture's own lock is held from a successful
 * first call to the second. */
status capture_admit(stream *s, const task_kind *kind);
void capture_take(stream *s, const task *t);

/* Gives up the capture and the update that the stream takes part in, since it is being destroyed. */
void capture_forget(stream *s);

/* For a block of a pool that is freed in a captured stream: it belongs to the graph from now on, and is freed with it.
 * *taken: whether s is captured. */
status capture_free_block(stream *s, void *block, void *site, bool *taken);

/* Likewise for a block of device memory that the library has allocated for a task of a captured stream. Called
 * before the task is submitted. */
status capture_keep_block(stream *s, void *block, void *site, bool *taken);

#endif
