/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/wait/stream_order.h"

#include <stdlib.h>

#include "base/invariant.h"
#include "base/lock.h"
#include "runtime/context.h"
#include "runtime/graph/capture.h"

enum {
  MAX_LANES = 1 << 15, /* more than all devices can have streams */
  CLOCK_LANES = 64,
};

struct order_clock {
  uint32_t n; /* number of stamps: for lanes 1 to n; those of further lanes count as 0 */
  uint64_t at[CLOCK_LANES];
};

/* The stamps of the lane's stream are base + position. Stamps below base are those of
 * former streams, which are gone. */
typedef struct {
  stream *_Atomic stream; /* with a reference; NULL: the lane is free */
  _Atomic uint64_t base, seen;
} lane;

_Atomic bool order_is_kept;
_Atomic uint64_t order_n_ahead;

static lane lanes[MAX_LANES + 1]; /* numbered from 1 */
static uint32_t n_lanes;
static spinlock lanes_lock = SPINLOCK_INITIALIZER(VECTOR_CLOCK); /* guards n_lanes, and which stream has which lane */

void order_keep(void) { atomic_store(&order_is_kept, true); }

void order_prepare(order_clock *_Atomic *clock) {
  if (atomic_load_explicit(clock, memory_order_relaxed)) return;
  order_clock *fresh = calloc(1, sizeof *fresh), *none = NULL;
  if (!atomic_compare_exchange_strong(clock, &none, fresh)) free(fresh);
}

static void raise(_Atomic uint64_t *stamp, uint64_t to) {
  uint64_t seen = atomic_load_explicit(stamp, memory_order_relaxed);
  while (seen < to && !atomic_compare_exchange_weak(stamp, &seen, to)) {
  }
}

/* ---- lanes ------------------------------------------------------------------------------------------------------- */

#ifdef CANNON_INVARIANTS
bool order_lanes_are_valid(void) {
  if (n_lanes > MAX_LANES) return false;
  for (uint32_t i = 1; i <= n_lanes; ++i) {
    const stream *s = lanes[i].stream;
    if (s && (atomic_load(&s->lane) != i || s->lane_base != lanes[i].base || !atomic_load(&s->o.refs))) return false;
  }
  return true;
}
#endif

/* Frees the lane of a stream that was destroyed and whose tasks are done. Returns the stream, with the lane's
 * reference; NULL if there is none. */
static stream *free_a_lane(void) {
  stream *gone = NULL;
  spin_lock(&lanes_lock);
  for (uint32_t i = 1; i <= n_lanes && !gone; ++i) {
    stream *s = lanes[i].stream;
    if (!s || atomic_load(&s->context) || stream_completed(s) < stream_submitted(s)) continue;
    /* Leaves room for a thread that is still about to record an event in the stream. */
    lanes[i].base += stream_submitted(s) + UINT32_MAX;
    lanes[i].stream = NULL;
    gone = s;
  }
  INVARIANT_WALK(order_lanes_are_valid());
  spin_unlock(&lanes_lock);
  return gone;
}

static void order_free_lanes(void) {
  for (stream *gone; (gone = free_a_lane());) stream_unref(gone);
}

void order_forget(stream *s) {
  if (atomic_load(&s->lane)) order_free_lanes();
}

static uint32_t first_free_lane(void) {
  for (uint32_t i = 1; i <= n_lanes; ++i)
    if (!lanes[i].stream) return i;
  return n_lanes < MAX_LANES ? ++n_lanes : 0;
}

/* The stream's lane, which it gets at the first call; 0 if there are too many streams. */
static uint32_t order_lane_of(stream *s) {
  uint32_t own = atomic_load_explicit(&s->lane, memory_order_acquire);
  if (likely(own)) return own;
  order_free_lanes();
  spin_lock(&lanes_lock);
  own = atomic_load(&s->lane);
  if (!own && (own = first_free_lane())) {
    if (!lanes[own].base) lanes[own].base = 1;
    object_ref(&s->o);
    lanes[own].stream = s;
    s->lane_base = lanes[own].base;
    atomic_store_explicit(&s->lane, own, memory_order_release);
  }
  INVARIANT_WALK(order_lanes_are_valid());
  spin_unlock(&lanes_lock);
  return own;
}

/* The stamp of a position in a stream that has a lane. */
static uint64_t stamp_of(const stream *s, uint64_t position) {
  INVARIANT(s->lane_base);
  return s->lane_base + position;
}

/* ---- clocks ------------------------------------------------------------------------------------------------------ */

static void take_over(order_clock *to, const order_clock *from) {
  INVARIANT(to->n <= CLOCK_LANES && from->n <= CLOCK_LANES);
  for (; to->n < from->n; ++to->n) to->at[to->n] = 0;
  for (uint32_t i = 0; i < from->n; ++i)
    if (to->at[i] < from->at[i]) to->at[i] = from->at[i];
}

void order_record(order_clock *to, stream *s) {
  const order_clock *own = s->clock;
  INVARIANT(lock_is_held(&s->submit_lock));
  const uint32_t l = atomic_load_explicit(&s->lane, memory_order_acquire);
  if (!to) return;
  to->n = 0;
  if (own) take_over(to, own);
  if (!l || l > CLOCK_LANES) return;
  for (; to->n < l; ++to->n) to->at[to->n] = 0;
  to->at[l - 1] = stamp_of(s, atomic_load_explicit(&s->q.submitted, memory_order_relaxed));
}

void order_wait(const order_clock *clock, stream *s) {
  INVARIANT(lock_is_held(&s->submit_lock));
  if (clock && s->clock) take_over(s->clock, clock);
}

/* ---- what the host knows ----------------------------------------------------------------------------------------- */

static void order_saw(const order_clock *clock) {
  for (uint32_t i = 0; clock && i < clock->n; ++i) raise(&lanes[i + 1].seen, clock->at[i]);
}

void order_saw_stream(stream *s, uint64_t position) {
  const uint32_t l = atomic_load_explicit(&s->lane, memory_order_acquire);
  if (l) raise(&lanes[l].seen, stamp_of(s, position));
  spin_lock(&s->submit_lock);
  /* If tasks were submitted since, the clock may include waits that the host knows nothing of. */
  if (atomic_load_explicit(&s->q.submitted, memory_order_relaxed) == position) order_saw(s->clock);
  spin_unlock(&s->submit_lock);
}

void order_saw_event(event *e) { order_saw(e->clock); }

/* ---- for pools --------------------------------------------------------------------------------------------------- */

static bool take_point(void *stream_of_free, pool_point *out) {
  stream *s = stream_of_free;
  const uint32_t l = order_lane_of(s);
  *out = (pool_point){l, l ? stamp_of(s, stream_submitted(s)) : 0};
  return l;
}

static bool has_passed(pool_point p) {
  spin_lock(&lanes_lock);
  stream *s = lanes[p.lane].stream;
  const bool passed = !s || p.stamp <= stamp_of(s, stream_completed(s));
  spin_unlock(&lanes_lock);
  return passed;
}

static bool comes_after_by_events(stream *s, pool_point p) {
  if (p.lane > CLOCK_LANES || !atomic_load(&s->clock)) return false;
  spin_lock(&s->submit_lock);
  const order_clock *c = s->clock;
  const bool after = p.lane <= c->n && p.stamp <= c->at[p.lane - 1];
  spin_unlock(&s->submit_lock);
  return after;
}

/* How the next task of a stream (NULL: the host) is related to a point. A captured stream counts as none: its tasks run
 * when the graph is executed, in whatever stream. */
static pool_relation relation(void *of_stream, pool_point p) {
  stream *s = of_stream;
  if (s && capture_records(s)) s = NULL;
  if (!p.lane || p.stamp < atomic_load(&lanes[p.lane].base) || p.stamp <= atomic_load(&lanes[p.lane].seen))
    return POOL_AFTER;
  if (s && atomic_load_explicit(&s->lane, memory_order_acquire) == p.lane) return POOL_AFTER;
  if (s && comes_after_by_events(s, p)) return POOL_BY_EVENT;
  return has_passed(p) ? POOL_PASSED : POOL_UNORDERED;
}

/* The stream that the point is in, with a reference; NULL if it is gone. */
static stream *order_source_of(pool_point p) {
  spin_lock(&lanes_lock);
  stream *s = p.stamp >= atomic_load(&lanes[p.lane].base) ? lanes[p.lane].stream : NULL;
  if (s) object_ref(&s->o);
  spin_unlock(&lanes_lock);
  return s;
}

/* Makes the next task of a stream wait for all tasks submitted so far to the point's stream. False if it cannot. */
static bool order_insert(void *of_stream, pool_point p) {
  stream *s = of_stream, *source = p.lane ? order_source_of(p) : NULL;
  if (!source) return true;
  const bool inserted =
      !atomic_load(&order_n_ahead) && atomic_load(&source->context) && event_order(source, s) == ST_OK;
  stream_unref(source);
  return inserted;
}

static uint32_t order_number(void *of_stream) { return ((const stream *)of_stream)->id; }

const pool_order order_of_streams = {
    .point = take_point, .relation = relation, .insert = order_insert, .number = order_number};
