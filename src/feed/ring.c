/* SPDX-License-Identifier: Apache-2.0 */
#include "feed/ring.h"

#include <errno.h>
#include <stdlib.h>

#include "base/invariant.h"
#include "base/lock.h"

typedef enum { SLOT_FREE, SLOT_FILLING, SLOT_FILLED, SLOT_LEAVING, SLOT_READY, SLOT_TAKEN } ring_state;

typedef struct {
  ring_state state;
  uint32_t n_done;
  uint64_t sequence; /* unless the slot is free */
} ring_slot;

struct ring {
  mutex lock;                   /* guards the other fields */
  pthread_cond_t freed, filled; /* producers wait for the first, consumers for the second */
  uint32_t n_slots, n_pieces;   /* never change */
  uint64_t next_claim;          /* the piece that is claimed next: piece next_piece of this number */
  uint32_t next_piece;
  uint64_t next_leave, next_take;
  uint64_t end; /* UINT64_MAX: not known */
  bool stopped;
  ring_slot slots[];
};

static ring_slot *ring_slot_of(ring *r, uint64_t sequence) { return &r->slots[sequence % r->n_slots]; }

bool ring_is_valid(const ring *r) {
  if (r->next_take > r->next_leave || r->next_leave > r->next_claim + (r->next_piece > 0) ||
      r->next_piece >= r->n_pieces)
    return false;
  for (uint32_t i = 0; i < r->n_slots; ++i) {
    const ring_slot *s = &r->slots[i];
    if (s->state == SLOT_FREE) continue;
    const bool claimed = s->sequence < r->next_claim + (r->next_piece > 0);
    if (s->sequence % r->n_slots != i || !claimed || s->n_done > r->n_pieces) return false;
    if ((s->state == SLOT_TAKEN) != (s->sequence < r->next_take)) return false;
    if ((s->state == SLOT_FILLING) != (s->n_done < r->n_pieces)) return false;
    if ((s->state >= SLOT_READY) != (s->sequence < r->next_leave)) return false;
  }
  return true;
}

static void ring_unlock(ring *r) {
  INVARIANT_WALK(ring_is_valid(r));
  mutex_unlock(&r->lock);
}

status ring_create(uint32_t n_slots, uint32_t n_pieces, ring **out) {
  pthread_condattr_t monotonic;
  INVARIANT(n_slots && n_pieces);
  ring *r = calloc(1, sizeof *r + n_slots * sizeof *r->slots);
  if (!r) return fail(ST_NO_HOST_MEMORY, "no host memory for a ring of %u slots", n_slots);
  mutex_init(&r->lock, LOCK_RING);
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&r->freed, &monotonic);
  pthread_cond_init(&r->filled, &monotonic);
  pthread_condattr_destroy(&monotonic);
  r->n_slots = n_slots;
  r->n_pieces = n_pieces;
  r->end = UINT64_MAX;
  *out = r;
  return ST_OK;
}

void ring_free(ring *r) {
  if (!r) return;
  pthread_cond_destroy(&r->freed);
  pthread_cond_destroy(&r->filled);
  mutex_destroy(&r->lock);
  free(r);
}

/* Whether the next piece can be claimed, or never will be. The lock is held. */
static bool ring_claim_is_settled(ring *r) {
  return r->stopped || r->next_claim >= r->end || r->next_piece || ring_slot_of(r, r->next_claim)->state == SLOT_FREE;
}

ring_result ring_claim(ring *r, uint64_t *sequence, uint32_t *piece) {
  mutex_lock(&r->lock);
  while (!ring_claim_is_settled(r)) mutex_wait(&r->lock, &r->freed, NULL);
  ring_result result = RING_OK;
  if (r->stopped) {
    result = RING_STOPPED;
  } else if (r->next_claim >= r->end) {
    result = RING_ENDED;
  } else {
    ring_slot *s = ring_slot_of(r, r->next_claim);
    if (!r->next_piece) *s = (ring_slot){SLOT_FILLING, 0, r->next_claim};
    *sequence = r->next_claim;
    *piece = r->next_piece;
    r->next_piece = (r->next_piece + 1) % r->n_pieces;
    r->next_claim += !r->next_piece;
    if (ring_claim_is_settled(r)) pthread_cond_signal(&r->freed); /* for the next piece */
  }
  ring_unlock(r);
  return result;
}

void ring_done(ring *r, uint64_t sequence) {
  mutex_lock(&r->lock);
  ring_slot *s = ring_slot_of(r, sequence);
  INVARIANT(s->state == SLOT_FILLING && s->sequence == sequence);
  if (++s->n_done == r->n_pieces) s->state = SLOT_FILLED;
  ring_unlock(r);
}

bool ring_leave(ring *r, uint64_t *sequence) {
  mutex_lock(&r->lock);
  ring_slot *s = ring_slot_of(r, r->next_leave);
  const bool leaves = s->state == SLOT_FILLED && s->sequence == r->next_leave;
  if (leaves) {
    s->state = SLOT_LEAVING;
    *sequence = s->sequence;
  }
  ring_unlock(r);
  return leaves;
}

void ring_publish(ring *r, uint64_t sequence) {
  mutex_lock(&r->lock);
  ring_slot *s = ring_slot_of(r, sequence);
  INVARIANT(s->state == SLOT_LEAVING && s->sequence == sequence);
  s->state = SLOT_READY;
  r->next_leave = sequence + 1;
  pthread_cond_broadcast(&r->filled);
  ring_unlock(r);
}

void ring_end(ring *r, uint64_t sequence) {
  mutex_lock(&r->lock);
  if (sequence < r->end) r->end = sequence;
  pthread_cond_broadcast(&r->freed);
  pthread_cond_broadcast(&r->filled);
  ring_unlock(r);
}

/* What a take gives now; RING_TIMEOUT: it has to wait. The lock is held. */
static ring_result ring_look(ring *r) {
  const ring_slot *s = ring_slot_of(r, r->next_take);
  if (r->stopped) return RING_STOPPED;
  if (r->next_take >= r->end) return RING_ENDED;
  if (s->state == SLOT_READY) return RING_OK;
  return s->state == SLOT_TAKEN ? RING_HELD : RING_TIMEOUT;
}

ring_result ring_take(ring *r, uint64_t timeout_ns, uint64_t *sequence) {
  const uint64_t end_ns = timeout_ns ? now_ns() + timeout_ns : 0;
  const struct timespec end = {.tv_sec = (time_t)(end_ns / 1000000000u), .tv_nsec = (long)(end_ns % 1000000000u)};
  ring_result result;
  mutex_lock(&r->lock);
  while ((result = ring_look(r)) == RING_TIMEOUT)
    if (mutex_wait(&r->lock, &r->filled, timeout_ns ? &end : NULL) == ETIMEDOUT) {
      result = ring_look(r);
      break;
    }
  if (result == RING_OK) {
    ring_slot_of(r, r->next_take)->state = SLOT_TAKEN;
    *sequence = r->next_take++;
  }
  ring_unlock(r);
  return result;
}

bool ring_release(ring *r, uint64_t sequence) {
  mutex_lock(&r->lock);
  ring_slot *s = ring_slot_of(r, sequence);
  const bool taken = s->state == SLOT_TAKEN && s->sequence == sequence;
  if (taken) {
    s->state = SLOT_FREE;
    pthread_cond_signal(&r->freed);
  }
  ring_unlock(r);
  return taken;
}

void ring_stop(ring *r) {
  mutex_lock(&r->lock);
  r->stopped = true;
  pthread_cond_broadcast(&r->freed);
  pthread_cond_broadcast(&r->filled);
  ring_unlock(r);
}

bool ring_is_stopped(ring *r) {
  mutex_lock(&r->lock);
  const bool stopped = r->stopped;
  mutex_unlock(&r->lock);
  return stopped;
}
