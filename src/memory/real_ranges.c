/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/real_ranges.h"

static uintptr_t real_end_of(const interval *i) { return i->start + i->bytes; }

bool real_ranges_add(real_ranges *r, uintptr_t start, uint64_t bytes) {
  uintptr_t end = start + bytes;
  if (!bytes) return true;
  /* One byte more on either side, so that neighbours are found as well. */
  for (interval *i; (i = intervals_overlap(r, start - 1, end - start + 2));) {
    if (i->start <= start && real_end_of(i) >= end) return true;
    if (i->start < start) start = i->start;
    if (real_end_of(i) > end) end = real_end_of(i);
    intervals_remove(r, i);
  }
  return intervals_insert(r, &(interval){start, end - start});
}

void real_ranges_remove(real_ranges *r, uintptr_t start, uint64_t bytes) {
  const uintptr_t end = start + bytes;
  if (!bytes) return;
  for (interval *i; (i = intervals_overlap(r, start, bytes));) {
    const uintptr_t from = i->start, to = real_end_of(i);
    if (from < start)
      i->bytes = start - from;
    else
      intervals_remove(r, i);
    if (to > end) (void)intervals_insert(r, &(interval){end, to - end});
  }
}

bool real_ranges_cover(const real_ranges *r, uintptr_t start, uint64_t bytes) {
  const interval *i = bytes ? intervals_find(r, start) : NULL;
  return !bytes || (i && real_end_of(i) >= start + bytes);
}

uint64_t real_ranges_stretch(const real_ranges *r, uintptr_t start, uint64_t bytes, bool *is_real) {
  const interval *i = bytes ? intervals_overlap(r, start, bytes) : NULL;
  *is_real = i && i->start <= start;
  if (!i) return bytes;
  const uint64_t length = (*is_real ? real_end_of(i) : i->start) - start;
  return length < bytes ? length : bytes;
}
