/* SPDX-License-Identifier: Apache-2.0 */
/* A ring of slots between producers and consumers, in the order of sequence numbers from 0. It has no data of its own:
 * sequence number s stands for slot s % n_slots of an array of the caller's. The work of filling a slot is cut into
 * pieces, which any number of producers claim in order, and finish in any order.
 *
 *   free ──claim──▶ filling ──the last piece is done──▶ filled ──leave──▶ leaving ──publish──▶ ready ──take──▶ taken
 *     ▲                                                                                                      │
 *     └────────────────────────────────────────────release───────────────────────────────────────────────────┘
 *
 * Slots leave the producers one at a time, in the order of their numbers, whatever the order in which they are filled.
 *
 * Back-pressure: a claim waits until the slot is free. Slots are taken in the order of their numbers and may be
 * released in any order. The ring knows nothing of devices: that a slot's memory may be used again is for the caller to
 * settle, by events.
 *
 * Called by feed.c. Thread-safe; a ring is freed when no thread uses it any more. No function holds the lock while it
 * waits or returns. */
#ifndef CANNON_FEED_RING_H
#define CANNON_FEED_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct ring ring;

typedef enum {
  RING_OK,
  RING_ENDED,   /* there is no slot with this number, or a later one */
  RING_STOPPED, /* ring_stop() was called */
  RING_TIMEOUT, /* the time is over */
  RING_HELD,    /* all slots are taken, so that no further one can become ready before a release */
} ring_result;

/* n_slots and n_pieces are 1 or more. ST_NO_HOST_MEMORY. */
status ring_create(uint32_t n_slots, uint32_t n_pieces, ring **out);

/* No thread uses the ring any more. NULL is allowed. */
void ring_free(ring *r);

/* Claims the next piece; waits until its slot is free. RING_ENDED or RING_STOPPED. */
ring_result ring_claim(ring *r, uint64_t *sequence, uint32_t *piece);

/* A piece is done. A producer calls ring_leave() afterwards. */
void ring_done(ring *r, uint64_t sequence);

/* True if the next slot in the order is filled and no slot is leaving. The caller then owns that slot, and either
 * publishes it and calls this function again, or ends or stops the ring. */
bool ring_leave(ring *r, uint64_t *sequence);

/* The slot that is leaving is ready to be taken. */
void ring_publish(ring *r, uint64_t sequence);

/* There is no slot from this number on; earlier ones are still taken. The lowest number counts that it was called
 * with. */
void ring_end(ring *r, uint64_t sequence);

/* Takes the next slot; waits until it is ready. timeout_ns 0: without limit. Any result. */
ring_result ring_take(ring *r, uint64_t timeout_ns, uint64_t *sequence);

/* The slot is free. False if it was not taken. */
bool ring_release(ring *r, uint64_t sequence);

/* Ends all waits, now and later, with RING_STOPPED. May be called again. */
void ring_stop(ring *r);

bool ring_is_stopped(ring *r);

/* Whether the ring is consistent (base/invariant.h). The caller holds its lock, or is the only thread. */
bool ring_is_valid(const ring *r);

#endif
