/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/memory/residency.h"

#include <string.h>

#include "base/invariant.h"

#ifdef CANNON_INVARIANTS
bool residency_is_valid(const residency *r) {
  uint64_t bytes = 0;
  if (r->n < 0 || r->n > RESIDENCY_RANGES) return false;
  for (int i = 0; i < r->n; ++i) {
    if (r->range[i].start > r->range[i].end) return false;
    for (int k = 0; k < i; ++k)
      if (r->range[i].start < r->range[k].end && r->range[k].start < r->range[i].end) return false;
    bytes += r->range[i].end - r->range[i].start;
  }
  return bytes == r->bytes;
}
#endif

static void remove_at(residency *r, int i) {
  INVARIANT(i >= 0 && i < r->n);
  r->bytes -= r->range[i].end - r->range[i].start;
  memmove(&r->range[i], &r->range[i + 1], (size_t)(--r->n - i) * sizeof r->range[0]);
}

/* If the table is full, the least recently used range is forgotten. */
static void insert_at(residency *r, int i, uintptr_t start, uintptr_t end) {
  if (r->n == RESIDENCY_RANGES) {
    remove_at(r, 0);
    if (i) --i;
  }
  memmove(&r->range[i + 1], &r->range[i], (size_t)(r->n++ - i) * sizeof r->range[0]);
  r->range[i].start = start;
  r->range[i].end = end;
  r->bytes += end - start;
}

/* Removes [start, end). What a range has on either side stays, at its place in the order. Returns the removed bytes. */
static uint64_t residency_remove(residency *r, uintptr_t start, uintptr_t end) {
  uint64_t held = 0;
  for (int i = r->n - 1; i >= 0; --i) {
    const uintptr_t from = r->range[i].start, to = r->range[i].end;
    if (to <= start || from >= end) continue;
    held += (to < end ? to : end) - (from > start ? from : start);
    remove_at(r, i);
    if (to > end) insert_at(r, i, end, to);
    if (from < start) insert_at(r, i, from, start);
  }
  return held;
}

uint64_t residency_touch(residency *r, uint64_t capacity, uintptr_t start, uint64_t bytes) {
  const uint64_t held = residency_remove(r, start, start + bytes);
  if (bytes > capacity) {
    r->n = 0;
    r->bytes = 0;
    return held;
  }
  insert_at(r, r->n, start, start + bytes);
  while (r->bytes > capacity) remove_at(r, 0);
  INVARIANT_WALK(residency_is_valid(r));
  return held;
}
