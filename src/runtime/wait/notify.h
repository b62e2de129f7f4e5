/* SPDX-License-Identifier: Apache-2.0 */
/* Notifies: numbers on a device that streams change and wait for. A binary notify is 0 or 1: a record sets it to 1, a
 * wait passes when it is 1 and sets it to 0. A count notify has 32 bits; its records and waits have several modes.
 *
 * Waiting is a state of the stream. Whoever makes the condition of a wait hold unblocks the stream. Its front task then
 * runs again: it passes, or blocks again if another wait has changed the number first.
 *
 * Called by src/api, and notify_share.c and the scheduler. Thread-safe. */
#ifndef CANNON_RUNTIME_WAIT_NOTIFY_H
#define CANNON_RUNTIME_WAIT_NOTIFY_H

#include "runtime/stream.h"
#include "runtime/wait/notify_share.h"
#include "runtime/wait/stall.h"

/* Lives as an object of object.h does; each task that uses the notify has a reference. */
struct notify {
  object o; /* o.lock guards the fields below that change; it is an inner lock, as an event's is */
  int device;
  uint32_t id;
  bool counts;                 /* a count notify */
  bool is_counted;             /* among those that the device has */
  uint32_t value;              /* unless it is shared */
  notify_share *_Atomic share; /* of a notify that is shared between processes: the number is there; else NULL */
  stream *waiters;             /* blocked streams, chained through next_waiter, each with a reference */
  /* A binary notify passes order on (stream_order.h) as long as one stream records it and one waits for it: then the
   * n-th wait comes after the n-th record, even if records in between were lost (recorded twice before a wait). */
  uint64_t recorder, waiter;   /* serials of these streams; 0: none yet */
  bool unordered;              /* it does not, or not any more */
  uint32_t n_recording;        /* tasks that record it, in queues and graphs */
  uint64_t n_records, n_waits; /* that were submitted */
  order_clock *_Atomic clock;  /* of the latest record */
  object_end ended;            /* who destroyed it */
};

enum { NOTIFIES_OF_DEVICE = 8192 }; /* of each of both kinds */

/* Modes of records and of waits. The numbers are CANN's. */
enum { RECORD_SET, RECORD_ADD, RECORD_OR, RECORD_AND = 4 };
enum { WAIT_LESS, WAIT_EQUAL, WAIT_GREATER, WAIT_GREATER_EQUAL, WAIT_ALL_BITS, N_WAIT_MODES };

/* Creates a notify with one reference, not published. ST_NO_NOTIFIES. */
status notify_create(int device, bool counts, notify **out);

void notify_unref(notify *n);

/* Destroys the notify's handle, by a call that returns to `site`; another notify may be created in its place at once,
 * although tasks may use this one still. False if another thread has destroyed it. Drops no reference. */
bool notify_end(notify *n, void *site);

/* Whether the fields of the notify are consistent (base/invariant.h). The caller holds its lock. */
bool notify_is_valid(const notify *n);

/* HELD_NOTIFY n = NULL declares a variable that drops its reference at the end of its scope. */
static inline void notify_drop(notify **n) {
  if (*n) notify_unref(*n);
}
#define HELD_NOTIFY __attribute__((cleanup(notify_drop))) notify *

/* Takes the streams whose condition holds off the notify's list, marks them as released, and puts them before the chain
 * `satisfied` (through next_waiter), which it returns for stream_unblock_all(). */
stream *notify_take_satisfied(notify *n, stream *satisfied);

/* Sets the number to 0, at once. */
void notify_clear(notify *n);

/* Submit a record or a wait. A notify of another process can't be waited for. The task of a wait that times out fails
 * with ST_WAIT_TIMEOUT; timeout_ns 0: no limit. */
status notify_record(notify *n, int mode, uint32_t value, stream *s);
status notify_wait(notify *n, int mode, uint32_t value, bool clears, uint64_t timeout_ns, stream *s);

/* The number of streams that wait for a notify. Since it is not known which stream will record one, a thread that waits
 * for such a stream sees to it that all others run (scheduler_run_others()). */
extern _Atomic int notify_n_waiting;
static inline bool notify_any(void) { return atomic_load_explicit(&notify_n_waiting, memory_order_relaxed); }

#endif
