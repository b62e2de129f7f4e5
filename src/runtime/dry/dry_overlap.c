/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/dry/dry_overlap.h"

#include <string.h>

#include "base/lock.h"
#include "memory/real_ranges.h"
#include "memory/space.h"
#include "trace/stats_write.h"

enum {
  MOST_WORKS = 4096, /* stretches of work that are known; then the older half is forgotten */
  MOST_CALLS = 512,  /* collectives that later work may still hide */
};

typedef struct {
  uint64_t begin_ns, end_ns;
  stats_collective *row;
} overlap_call;

/* Of a device. Stretches of work are sets of nanoseconds, as real_ranges has them of addresses. */
typedef struct {
  real_ranges works;
  overlap_call call[MOST_CALLS]; /* a ring */
  uint64_t n_calls;
} overlap_device;

static mutex overlap_lock = MUTEX_INITIALIZER(DRY); /* guards what follows */
static overlap_device of_device[SPACE_MAX_DEVICES];

/* [begin_ns, end_ns) has work now, and had none before: it hides what is communicated then. */
static void hide(const overlap_device *d, uint64_t begin_ns, uint64_t end_ns) {
  const uint64_t n = d->n_calls < MOST_CALLS ? d->n_calls : MOST_CALLS;
  for (const overlap_call *c = d->call; c < d->call + n; ++c) {
    const uint64_t from = c->begin_ns > begin_ns ? c->begin_ns : begin_ns;
    const uint64_t to = c->end_ns < end_ns ? c->end_ns : end_ns;
    if (from < to) atomic_fetch_sub_explicit(&c->row->dry_exposed_ns, to - from, memory_order_relaxed);
  }
}

static void forget_old(real_ranges *works) {
  const size_t half = works->n / 2;
  works->n -= half;
  memmove(works->items, works->items + half * works->item_bytes, works->n * works->item_bytes);
}

/* The device of a number, with the time of ranges: from 1 on, since a range is looked for with the place before it. */
static overlap_device *take_device(int device, uint64_t *begin_ns, uint64_t *end_ns) {
  mutex_lock(&overlap_lock);
  overlap_device *d = &of_device[device];
  d->works.item_bytes = sizeof(interval);
  ++*begin_ns;
  ++*end_ns;
  return d;
}

void dry_overlap_work(int device, uint64_t begin_ns, uint64_t end_ns) {
  if (begin_ns >= end_ns) return;
  overlap_device *d = take_device(device, &begin_ns, &end_ns);
  bool is_known;
  for (uint64_t at = begin_ns, ns; d->n_calls && at < end_ns; at += ns) {
    ns = real_ranges_stretch(&d->works, at, end_ns - at, &is_known);
    if (!is_known) hide(d, at, at + ns);
  }
  (void)real_ranges_add(&d->works, begin_ns, end_ns - begin_ns);
  if (d->works.n > MOST_WORKS) forget_old(&d->works);
  mutex_unlock(&overlap_lock);
}

void dry_overlap_communicate(int device, stats_collective *row, uint64_t begin_ns, uint64_t end_ns) {
  if (begin_ns >= end_ns) return;
  overlap_device *d = take_device(device, &begin_ns, &end_ns);
  uint64_t exposed_ns = 0;
  bool is_hidden;
  for (uint64_t at = begin_ns, ns; at < end_ns; at += ns) {
    ns = real_ranges_stretch(&d->works, at, end_ns - at, &is_hidden);
    if (!is_hidden) exposed_ns += ns;
  }
  trace_add(&row->dry_exposed_ns, exposed_ns);
  d->call[d->n_calls++ % MOST_CALLS] = (overlap_call){begin_ns, end_ns, row};
  mutex_unlock(&overlap_lock);
}
