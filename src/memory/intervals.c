/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/intervals.h"

#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"

enum { FIRST_CAPACITY = 16 };

static interval *intervals_at(const intervals *all, size_t i) {
  return (interval *)(void *)(all->items + i * all->item_bytes);
}

/* The index of the first item that ends behind the address. */
static size_t intervals_index_of(const intervals *all, uintptr_t address) {
  size_t low = 0, high = all->n;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (intervals_at(all, middle)->start + intervals_at(all, middle)->bytes > address)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

void *intervals_find(const intervals *all, uintptr_t address) { return intervals_overlap(all, address, 1); }

void *intervals_overlap(const intervals *all, uintptr_t start, uint64_t bytes) {
  const size_t i = intervals_index_of(all, start);
  return i < all->n && intervals_at(all, i)->start < start + bytes ? intervals_at(all, i) : NULL;
}

void *intervals_insert(intervals *all, const void *item) {
  INVARIANT(all->item_bytes >= sizeof(interval) && ((const interval *)item)->bytes > 0);
  INVARIANT(!intervals_overlap(all, ((const interval *)item)->start, ((const interval *)item)->bytes));
  if (all->n == all->capacity) {
    const size_t capacity = all->capacity ? 2 * all->capacity : FIRST_CAPACITY;
    char *grown = realloc(all->items, capacity * all->item_bytes);
    if (!grown) return NULL;
    all->items = grown;
    all->capacity = capacity;
  }
  const size_t i = intervals_index_of(all, ((const interval *)item)->start);
  memmove(intervals_at(all, i + 1), intervals_at(all, i), (all->n - i) * all->item_bytes);
  ++all->n;
  memcpy(intervals_at(all, i), item, all->item_bytes);
  INVARIANT_WALK(intervals_is_valid(all));
  return intervals_at(all, i);
}

void intervals_remove(intervals *all, void *item) {
  INVARIANT((char *)item >= all->items && (char *)item < all->items + all->n * all->item_bytes);
  INVARIANT((size_t)((char *)item - all->items) % all->item_bytes == 0);
  const size_t behind = (size_t)(all->items + all->n * all->item_bytes - (char *)item) - all->item_bytes;
  memmove(item, (char *)item + all->item_bytes, behind);
  --all->n;
  INVARIANT_WALK(intervals_is_valid(all));
}

uintptr_t intervals_gap(const intervals *all, uintptr_t low, uintptr_t high, uint64_t bytes, uint64_t alignment) {
  INVARIANT(low <= high && bytes > 0 && alignment > 0 && (alignment & (alignment - 1)) == 0);
  uintptr_t from = low;
  for (size_t i = intervals_index_of(all, low); from < high; ++i) {
    const bool last = i >= all->n || intervals_at(all, i)->start >= high;
    const uintptr_t start = (from + alignment - 1) & -alignment, stop = last ? high : intervals_at(all, i)->start;
    if (start >= from && start <= stop && bytes <= stop - start) return start;
    if (last) break;
    from = intervals_at(all, i)->start + intervals_at(all, i)->bytes;
  }
  return 0;
}

#ifdef CANNON_INVARIANTS

bool intervals_is_valid(const intervals *all) {
  if (all->n > all->capacity) return false;
  for (size_t i = 0; i < all->n; ++i) {
    const interval *this = intervals_at(all, i);
    if (!this->bytes || this->bytes > UINTPTR_MAX - this->start) return false;
    if (i && intervals_at(all, i - 1)->start + intervals_at(all, i - 1)->bytes > this->start) return false;
  }
  return true;
}

#endif
