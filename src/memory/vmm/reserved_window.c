/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/vmm/reserved_window.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/invariant.h"
#include "base/store/sparse.h"
#include "memory/budget.h"
#include "memory/space.h"

enum { FILE_SHIFT = 40 };

/* What is mapped in a granule. 0: nothing; else (file + 1) << FILE_SHIFT | the page of the file at the granule's start;
 * or SCATTERED | the number of pieces in it. A granule that continues the one before it is in the same mapping of the
 * kernel. */
typedef uint64_t content;
#define SCATTERED (UINT64_C(1) << 63)

/* The two views of the window. */
typedef enum { KERNELS, PROGRAMS, N_SIDES } side;
static content *contents[N_SIDES];

static uint64_t window_granule_of(uintptr_t address) { return (address - space.vmm_base) >> HEAP_GRANULE_SHIFT; }
static uint64_t window_granules_of(uint64_t bytes) { return (bytes + HEAP_GRANULE_BYTES - 1) >> HEAP_GRANULE_SHIFT; }
static void *window_address(side s, uintptr_t at) { return (void *)(at + (s == KERNELS ? space.vmm_distance : 0)); }

status window_open(void) {
  if (contents[0]) return ST_OK;
  TRY(space_check_reservations());
  const size_t n = space.vmm_bytes >> HEAP_GRANULE_SHIFT;
  content *table = sparse_new(N_SIDES * n * sizeof *table);
  if (!table) return fail(ST_NO_HOST_MEMORY, "no host memory for the table of reserved addresses");
  for (side s = 0; s < N_SIDES; ++s) contents[s] = table + s * n;
  return ST_OK;
}

/* ---- counting ---------------------------------------------------------------------------------------------------- */

/* Whether a mapping of the kernel begins with granule g. */
static bool window_is_seam(side s, uint64_t g) {
  const content before = g ? contents[s][g - 1] : 0, after = contents[s][g];
  if (!before || !after) return before != after;
  return (before | after) & SCATTERED || after != before + GRANULE_PAGES;
}

/* Upper bound of the number of mappings that begin in the n granules from `first` and at the one behind them. */
static uint64_t window_count_mappings(side s, uint64_t first, uint64_t n) {
  uint64_t sum = 0;
  const uint64_t end = space.vmm_bytes >> HEAP_GRANULE_SHIFT;
  for (uint64_t g = first; g < first + n; ++g)
    sum += window_is_seam(s, g) + (contents[s][g] & SCATTERED ? contents[s][g] & ~SCATTERED : 0);
  return sum + (first + n < end && window_is_seam(s, first + n));
}

/* Notes the pieces as contents of the granules from `first`. */
static void window_note(side s, uint64_t first, int file, const heap_piece *pieces, size_t n) {
  uint64_t at = 0; /* bytes from the first granule on */
  for (size_t i = 0; i < n; at += pieces[i++].bytes) {
    const uint64_t end = at + pieces[i].bytes;
    for (uint64_t g = at >> HEAP_GRANULE_SHIFT; g << HEAP_GRANULE_SHIFT < end; ++g) {
      const uint64_t start = g << HEAP_GRANULE_SHIFT;
      content *c = &contents[s][first + g];
      if (start >= at && end - start >= HEAP_GRANULE_BYTES)
        *c = (uint64_t)(file + 1) << FILE_SHIFT | (pieces[i].offset + start - at) >> PAGE_SHIFT;
      else
        *c = (*c + 1) | SCATTERED;
    }
  }
}

/* ---- mapping ----------------------------------------------------------------------------------------------------- */

/* Replaces mappings by the flags that the window was reserved with, so that the kernel merges empty parts again. Where
 * the kernel refuses, the memory's pages are dropped, and a mapping stays that no call of the program leads to. */
static void window_hide(void *at, uint64_t bytes) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  if (mmap(at, bytes, PROT_NONE, flags, -1, 0) == MAP_FAILED)
    madvise(at, bytes, MADV_DONTNEED);
  else
    madvise(at, bytes, MADV_DONTFORK);
}

static bool map_pieces(char *at, int file, const heap_piece *pieces, size_t n) {
  for (size_t i = 0; i < n; at += pieces[i++].bytes)
    if (mmap(at, pieces[i].bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, (off_t)pieces[i].offset) ==
            MAP_FAILED ||
        madvise(at, pieces[i].bytes, MADV_DONTFORK))
      return false;
  return true;
}

static void window_clear_view(side s, uintptr_t at, uint64_t bytes) {
  const uint64_t first = window_granule_of(at), n = window_granules_of(bytes),
                 before = window_count_mappings(s, first, n);
  window_hide(window_address(s, at), n << HEAP_GRANULE_SHIFT);
  memset(&contents[s][first], 0, n * sizeof(content));
  budget_adjust((int64_t)(window_count_mappings(s, first, n) - before));
}

static uint64_t window_sum_bytes(const heap_piece *pieces, size_t n) {
  uint64_t sum = 0;
  for (size_t i = 0; i < n; ++i) sum += pieces[i].bytes;
  return sum;
}

static status window_put_view(side s, uintptr_t at, int file, const heap_piece *pieces, size_t n) {
  const uint64_t bytes = window_sum_bytes(pieces, n), first = window_granule_of(at),
                 granules = window_granules_of(bytes);
  INVARIANT(at % HEAP_GRANULE_BYTES == 0 && bytes > 0 && n > 0);
  INVARIANT(first + granules <= space.vmm_bytes >> HEAP_GRANULE_SHIFT && !contents[s][first]);
  const uint64_t before = window_count_mappings(s, first, granules);
  window_note(s, first, file, pieces, n);
  const uint64_t after = window_count_mappings(s, first, granules);
  const status st = after > before ? budget_take(after - before) : ST_OK;
  if (st != ST_OK) {
    memset(&contents[s][first], 0, granules * sizeof(content));
    return st;
  }
  if (after < before) budget_adjust((int64_t)(after - before));
  if (map_pieces(window_address(s, at), file, pieces, n)) return ST_OK;
  const int error = errno;
  window_clear_view(s, at, bytes);
  return fail(ST_NO_MEMORY, "%ju bytes can't be mapped at %p: %s", (uintmax_t)bytes, (void *)at, strerror(error));
}

status window_put(uintptr_t at, int file, const heap_piece *pieces, size_t n, bool host) {
  TRY(window_put_view(KERNELS, at, file, pieces, n));
  const status st = host ? window_put_view(PROGRAMS, at, file, pieces, n) : ST_OK;
  if (st != ST_OK) window_clear_view(KERNELS, at, window_sum_bytes(pieces, n));
  return st;
}

void window_clear(uintptr_t at, uint64_t bytes, bool host) {
  window_clear_view(KERNELS, at, bytes);
  if (host) window_clear_view(PROGRAMS, at, bytes);
}

void window_hide_from_host(uintptr_t at, uint64_t bytes) { window_clear_view(PROGRAMS, at, bytes); }
