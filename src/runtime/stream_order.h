/* What comes after what: for pools (memory/pool/stream_pool.h), which pass a block on to another stream only behind all that may still
 * use it. What exists:
 *
 *   lane    a number for each stream that has freed a block of a pool, while there is such a stream
 *   stamp   a position of a lane's stream, counted on over all streams that ever had the lane
 *   clock   of a stream, for each of the first 64 lanes: what comes next in the stream comes after that stamp. Recording an
 *           event or a notify copies the stream's clock to it, waiting for that takes the later stamps over, so that order
 *           is passed on from stream to stream (vector clocks)
 *   seen    for each lane, the stamp that the host has waited for, or saw done
 *
 * Until the first pool is made nothing is kept, and each place costs a load. A wait with a timeout passes on no order, since
 * the stream goes on when it is over; neither does one for a record still to come. A reset that another stream runs before
 * the wait lets the wait pass without its record: that is for the program to see to, as on a device. */
#ifndef CANNON_RUNTIME_STREAM_ORDER_H
#define CANNON_RUNTIME_STREAM_ORDER_H

#include "memory/pool/stream_pool_order.h"
#include "runtime/event.h"

extern const pool_order order_of_streams;

extern _Atomic bool order_is_kept;

/* From the first pool on. */
void order_keep(void);

/* Sees to it that a stream, an event or a notify has a clock, or does without. No lock is held. */
void order_prepare(order_clock *_Atomic *clock);

/* The stream records an event or a notify, or waits for what was recorded last. clock: that one's, or NULL; both are locked,
 * the stream's lock first. */
void order_record(order_clock *clock, stream *s);
void order_wait(const order_clock *clock, stream *s);

/* The host knows that the stream has done what was submitted below the position, or that the latest record of the event,
 * which is locked, was reached. */
void order_saw_stream(stream *s, uint64_t position);
void order_saw_event(event *e);

/* Whether lanes and streams agree (base/invariant.h); the caller holds the lock of the lanes. */
bool order_lanes_are_valid(void);

/* Whether order is kept, as it is from the first pool on. */
static inline bool order_is_wanted(void) {
  return unlikely(atomic_load_explicit(&order_is_kept, memory_order_relaxed));
}

/* Waits that may have been submitted before what ends them: for a record still to come, a notify or a value. While there is one, a
 * wait of our own could close a circle. */
extern _Atomic uint64_t order_n_ahead;

#endif
