/* Notifies: numbers on a device that streams change and wait for. A binary notify is 0 or 1: a record sets it, a wait
 * passes where it is 1 and clears it. A count notify has 32 bits, and records and waits of several modes.
 *
 * A wait is a state of its stream. What makes its condition hold unblocks the stream, whose front then takes the
 * number, or, where another wait was first, blocks again. */
#ifndef CANNON_RUNTIME_NOTIFY_H
#define CANNON_RUNTIME_NOTIFY_H

#include "runtime/notify_share.h"
#include "runtime/stream.h"

struct notify {
  object o; /* its lock guards what follows, and is an inner one as an event's */
  int device;
  uint32_t id;
  bool counts;
  uint32_t value;
  notify_share *_Atomic share; /* NULL: this process's alone; else the number is there */
  stream *waiters;             /* chained through next_waiter; each with a reference */
  /* A binary notify passes order on (order.h) as long as one stream records it and one waits for it: the n-th wait comes
   * after the n-th record then, whichever records were lost in between. Streams by serial; 0: none yet. */
  uint64_t recorder, waiter;
  bool unordered;
  uint64_t n_records, n_waits; /* submitted */
  order_clock *_Atomic clock;  /* of the latest record */
};

enum { NOTIFIES_OF_DEVICE = 8192 }; /* of each kind */

/* The numbers are CANN's. */
enum { RECORD_SET, RECORD_ADD, RECORD_OR, RECORD_AND = 4 };
enum { WAIT_LESS, WAIT_EQUAL, WAIT_GREATER, WAIT_GREATER_EQUAL, WAIT_ALL_BITS, N_WAIT_MODES };

/* A notify with one reference, not published. What is queued keeps it. */
status notify_create(int device, bool counts, notify **out);

void notify_unref(notify *n);

/* Whether the notify's parts agree (base/invariant.h); the caller holds its lock. */
bool notify_is_valid(const notify *n);

/* HELD_NOTIFY n = NULL: a variable that drops its reference at the end of its scope. */
static inline void notify_drop(notify **n) {
  if (*n) notify_unref(*n);
}
#define HELD_NOTIFY __attribute__((cleanup(notify_drop))) notify *

/* Takes the streams whose condition holds off the notify's list, to those chained through next_waiter after
 * `satisfied`; each has a reference. */
stream *notify_take_satisfied(notify *n, stream *satisfied);

/* At once: makes it 0. */
void notify_clear(notify *n);

/* The tasks. Another process's can't be waited for. A wait that is over its time fails with ST_WAIT_TIMEOUT; 0: for
 * ever. */
status notify_record(notify *n, int mode, uint32_t value, stream *s);
status notify_wait(notify *n, int mode, uint32_t value, bool clears, uint64_t timeout_ns, stream *s);

/* Whether any stream waits. Who will record is not known, so whoever waits for such a stream has all others run. */
extern _Atomic int notify_n_waiting;
static inline bool notify_any(void) { return atomic_load_explicit(&notify_n_waiting, memory_order_relaxed); }

#endif
