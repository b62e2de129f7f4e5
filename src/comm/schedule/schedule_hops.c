/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/schedule/schedule_hops.h"

static uint32_t log2_up(uint32_t n) { return n <= 1 ? 0 : 32 - (uint32_t)__builtin_clz(n - 1); }

uint32_t schedule_hop_rounds(schedule_algorithm a, uint32_t size) {
  if (size <= 1) return 0;
  if (a == SCHEDULE_DIRECT) return 1;
  return a == SCHEDULE_RING ? size - 1 : log2_up(size);
}

/* member + by, modulo size; by may be negative, but not below -size. */
static uint32_t around(uint32_t size, uint32_t member, int64_t by) { return (uint32_t)((member + by + size) % size); }

/* What the member `from` sends to its one peer in a round of a ring, NHR or NB. */
static bool hop_forward(schedule_algorithm a, uint32_t size, uint32_t from, uint32_t round, schedule_hop *out) {
  if (a == SCHEDULE_RING) {
    *out = (schedule_hop){around(size, from, 1), around(size, from, -(int64_t)round), 1, 1};
    return true;
  }
  if (a == SCHEDULE_NB) { /* the blocks of the member and of those before it; as many as the receiver lacks */
    const uint32_t distance = (uint32_t)1 << round, count = distance < size - distance ? distance : size - distance;
    *out = (schedule_hop){around(size, from, distance), around(size, from, 1 - (int64_t)count), count, 1};
    return true;
  }
  /* NHR: block j is at the members j + multiples of 2 * distance; they pass it on by distance, unless that is beyond
   * the last member, counted from j. */
  const uint32_t distance = (uint32_t)1 << (log2_up(size) - 1 - round), stride = 2 * distance;
  const uint32_t count = (size - distance + stride - 1) / stride;
  *out =
      (schedule_hop){around(size, from, distance), around(size, from, -(int64_t)(count - 1) * stride), count, stride};
  return count > 0;
}

/* A group of members from lo to hi, halved at mid. */
typedef struct {
  uint32_t lo, mid, hi;
} halves;

/* The group that a member is in after `depth` halvings; false if the member was alone before. */
static bool halves_of(uint32_t size, uint32_t member, uint32_t depth, halves *h) {
  *h = (halves){0, 0, size};
  for (uint32_t d = 0;; ++d) {
    h->mid = h->lo + (h->hi - h->lo + 1) / 2;
    if (h->hi - h->lo < 2) return false;
    if (d == depth) return true;
    if (member < h->mid)
      h->hi = h->mid;
    else
      h->lo = h->mid;
  }
}

/* Doubling: each member of the lower half exchanges with one of the upper half. The lower half may have one member
 * more, whose partner is the last of the upper half, but that sends nothing upwards. */
static bool hop_doubling(uint32_t size, uint32_t member, uint32_t round, uint32_t i, bool sends, schedule_hop *out) {
  halves h;
  if (!halves_of(size, member, log2_up(size) - 1 - round, &h)) return false;
  const uint32_t n_low = h.mid - h.lo, n_high = h.hi - h.mid;
  const bool is_low = member < h.mid;
  const uint32_t place = member - (is_low ? h.lo : h.mid);
  const bool has_extra = n_low > n_high && place == n_high - 1; /* of a member of the upper half */
  const schedule_hop lower = {0, h.lo, n_low, 1}, upper = {0, h.mid, n_high, 1};
  if (is_low) {
    *out = sends ? lower : upper;
    out->peer = h.mid + (place < n_high ? place : n_high - 1);
    return i == 0 && (!sends || place < n_high);
  }
  *out = sends ? upper : lower;
  out->peer = h.lo + place + i;
  return i == 0 || (i == 1 && sends && has_extra);
}

bool schedule_hop_send(schedule_algorithm a, uint32_t size, uint32_t member, uint32_t round, uint32_t i,
                       schedule_hop *out) {
  if (a == SCHEDULE_HALVING_DOUBLING) return hop_doubling(size, member, round, i, true, out);
  if (a != SCHEDULE_DIRECT) return i == 0 && hop_forward(a, size, member, round, out);
  *out = (schedule_hop){i < member ? i : i + 1, member, 1, 1};
  return i + 1 < size;
}

bool schedule_hop_receive(schedule_algorithm a, uint32_t size, uint32_t member, uint32_t round, uint32_t i,
                          schedule_hop *out) {
  if (a == SCHEDULE_HALVING_DOUBLING) return hop_doubling(size, member, round, i, false, out);
  if (a == SCHEDULE_DIRECT) {
    const uint32_t peer = i < member ? i : i + 1;
    *out = (schedule_hop){peer, peer, 1, 1};
    return i + 1 < size;
  }
  if (i > 0 || !hop_forward(a, size, 0, round, out)) return false;
  const uint32_t from = around(size, member, -(int64_t)out->peer); /* all members send equally far */
  hop_forward(a, size, from, round, out);
  out->peer = from;
  return true;
}

/* The blocks that the member at distance v from the root sends in a round: from *first, `*count` of them, counted from
 * the root, too. Returns the distance of the receiver, or 0: it sends nothing. */
static uint32_t down_from(schedule_algorithm a, uint32_t size, uint32_t v, uint32_t round, uint32_t *first,
                          uint32_t *count) {
  *first = *count = 1;
  if (a == SCHEDULE_RING) { /* the farthest block leaves first, so that all are there at the same time */
    *first = size - 1 - round + v;
    return v <= round && *first > v && *first < size ? v + 1 : 0;
  }
  const uint32_t distance = (uint32_t)1 << (log2_up(size) - 1 - round);
  if (v % (2 * distance) != 0 || v + distance >= size) return 0;
  *first = v + distance;
  *count = size - *first < distance ? size - *first : distance;
  return *first;
}

bool schedule_hop_down(schedule_algorithm a, uint32_t size, uint32_t root, uint32_t member, uint32_t round, uint32_t i,
                       bool sends, schedule_hop *out) {
  const uint32_t v = around(size, member, -(int64_t)root);
  uint32_t first, count;
  if (a == SCHEDULE_DIRECT) {
    const uint32_t peer = sends ? (i < member ? i : i + 1) : root;
    *out = (schedule_hop){peer, sends ? peer : member, 1, 1};
    return sends ? v == 0 && i + 1 < size : v != 0 && i == 0;
  }
  if (i > 0) return false;
  if (sends) {
    const uint32_t to = down_from(a, size, v, round, &first, &count);
    *out = (schedule_hop){around(size, root, to), around(size, root, first % size), count, 1};
    return to != 0;
  }
  if (v == 0) return false;
  const uint32_t step = a == SCHEDULE_RING ? 1 : v & -v; /* to the parent */
  if (down_from(a, size, v - step, round, &first, &count) != v) return false;
  *out = (schedule_hop){around(size, member, -(int64_t)step), around(size, root, first), count, 1};
  return true;
}
