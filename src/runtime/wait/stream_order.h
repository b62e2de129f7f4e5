/* SPDX-License-Identifier: Apache-2.0 */
/* The order between the tasks of different streams. Pools (memory/pool/stream_pool.h) need it: they give a freed block
 * to another stream only if that stream's next task comes after all tasks that may still use the block.
 *
 *   lane    a number for a stream that has freed a block of a pool; reused when that stream is gone
 *   stamp   a position in a lane's stream, offset so that stamps keep growing when another stream gets the lane
 *   clock   a vector clock, of a stream: for each of the first 64 lanes, a stamp after which the stream's next task
 *           comes. Recording an event or a notify copies the stream's clock to it, and a wait takes over the stamps
 *           that are later, so order passes from stream to stream
 *   seen    for each lane, the stamp up to which the host knows that tasks are done
 *
 * Until the first pool is created no order is kept, and each of the functions costs its caller one load. A wait with a
 * timeout passes on no order, since the stream goes on when the time is over; nor does a wait for a record that is
 * still to come. A reset that another stream runs before the wait makes the wait pass without its record: programs must
 * avoid that, as on a device.
 *
 * Called by stream.c, event.c, notify.c and value.c, and by pools through order_of_streams. */
#ifndef CANNON_RUNTIME_WAIT_STREAM_ORDER_H
#define CANNON_RUNTIME_WAIT_STREAM_ORDER_H

#include "memory/pool/stream_pool_order.h"
#include "runtime/wait/event.h"

/* The functions that pools call. */
extern const pool_order order_of_streams;

extern _Atomic bool order_is_kept;

/* Starts keeping order, before the first pool is used. */
void order_keep(void);

/* Allocates the clock of a stream, an event or a notify, unless it has one. Without host memory it stays without a
 * clock and passes on no order. No lock is held. */
void order_prepare(order_clock *_Atomic *clock);

/* Called when s submits a record of an event or a notify, or a wait for its latest record. clock: that of the event or
 * notify, or NULL. The stream's submit_lock and then the lock of the event or notify are held. */
void order_record(order_clock *clock, stream *s);
void order_wait(const order_clock *clock, stream *s);

/* Called when the host knows that the stream's tasks below the position are done, or that the latest record of the
 * event was reached. The event's lock is held. */
void order_saw_stream(stream *s, uint64_t position);
void order_saw_event(event *e);

/* Frees the lane of a stream that was removed from its context, if its tasks are done; otherwise the next stream that
 * needs a lane does so. The caller has a reference to the stream, and holds no lock. */
void order_forget(stream *s);

/* Whether lanes and streams are consistent (base/invariant.h). The caller holds the lock of the lanes. */
bool order_lanes_are_valid(void);

/* Whether order is kept. */
static inline bool order_is_wanted(void) {
  return unlikely(atomic_load_explicit(&order_is_kept, memory_order_relaxed));
}

/* The number of waits that may have been submitted before the task that ends them: for a record still to come, a notify
 * or a value. While there is one, a wait that the library inserts could cause a deadlock, so pools insert none. */
extern _Atomic uint64_t order_n_ahead;

#endif
