/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/huge.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "memory/heap/pages.h"
#include "memory/space.h"

#ifndef MADV_POPULATE_READ
#  define MADV_POPULATE_READ 22
#endif
#ifndef MADV_COLLAPSE
#  define MADV_COLLAPSE 25
#endif

enum { MOST_REFUSALS = 16 }; /* after so many in a row, the host is not asked any more */
_Static_assert((int)HUGE_BYTES == (int)GRANULE_BYTES, "a granule is a huge page");

/* Per granule of all devices' windows: whether the host was asked since the granule has memory. */
static _Atomic uint8_t asked[(uint64_t)SPACE_MAX_DEVICES << SPACE_STRIDE_SHIFT >> GRANULE_SHIFT];
static _Atomic unsigned n_refusals;

static uintptr_t huge_base(void) { return space.device_base + space.view_distance; }
static uint64_t huge_granule_of(uintptr_t view) { return (view - huge_base()) >> GRANULE_SHIFT; }
static bool is_of_device(uintptr_t view) { return space_device_of(view - space.view_distance) >= 0; }

/* MADV_COLLAPSE needs a page table to replace, so one page is touched first. */
static bool make_huge(uint64_t granule) {
  char *const at = (char *)huge_base() + (granule << GRANULE_SHIFT); // NOLINT(performance-no-int-to-ptr)
  return !madvise(at, PAGE_BYTES, MADV_POPULATE_READ) && !madvise(at, HUGE_BYTES, MADV_COLLAPSE);
}

void huge_before_write(void *view, uint64_t bytes) {
  const uintptr_t start = (uintptr_t)view;
  if (bytes < HUGE_BYTES || !is_of_device(start)) return;
  const uint64_t first = huge_granule_of(start + HUGE_BYTES - 1), end = huge_granule_of(start + bytes);
  for (uint64_t g = first; g < end; ++g) {
    if (atomic_load_explicit(&asked[g], memory_order_relaxed)) continue;
    if (atomic_load_explicit(&n_refusals, memory_order_relaxed) >= MOST_REFUSALS) return;
    atomic_store_explicit(&asked[g], 1, memory_order_relaxed);
    if (make_huge(g))
      atomic_store_explicit(&n_refusals, 0, memory_order_relaxed);
    else
      atomic_fetch_add_explicit(&n_refusals, 1, memory_order_relaxed);
  }
}

void huge_forget(uintptr_t view, uint64_t n) {
  if (!is_of_device(view)) return;
  for (uint64_t g = huge_granule_of(view), end = g + n; g < end; ++g)
    if (atomic_load_explicit(&asked[g], memory_order_relaxed))
      atomic_store_explicit(&asked[g], 0, memory_order_relaxed);
}

void huge_move(uintptr_t from, uintptr_t to, uint64_t n) {
  if (!is_of_device(from)) return;
  for (uint64_t a = huge_granule_of(from), b = huge_granule_of(to), end = a + n; a < end; ++a, ++b) {
    const uint8_t was = atomic_load_explicit(&asked[a], memory_order_relaxed);
    if (was != atomic_load_explicit(&asked[b], memory_order_relaxed))
      atomic_store_explicit(&asked[b], was, memory_order_relaxed);
  }
  huge_forget(from, n);
}
