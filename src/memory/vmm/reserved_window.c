#include "memory/vmm/reserved_window.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/sparse.h"
#include "memory/budget.h"
#include "memory/space.h"

enum { FILE_SHIFT = 40 };

/* A granule's content: 0, nothing; else the file, and the page of it that the granule begins with; or SCATTERED and
 * how many pieces. Granules that continue each other share a mapping of the kernel's. */
typedef uint64_t content;
#define SCATTERED (UINT64_C(1) << 63)

/* The two views of the window. */
typedef enum { KERNELS, PROGRAMS, N_SIDES } side;
static content *contents[N_SIDES];

static uint64_t granule_of(uintptr_t address) { return (address - space.vmm_base) >> HEAP_GRANULE_SHIFT; }
static uint64_t granules_of(uint64_t bytes) { return (bytes + HEAP_GRANULE_BYTES - 1) >> HEAP_GRANULE_SHIFT; }
static void *place(side s, uintptr_t at) { return (void *)(at + (s == KERNELS ? space.vmm_distance : 0)); }

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

/* Whether the kernel begins another mapping with granule g. */
static bool is_seam(side s, uint64_t g) {
  const content before = g ? contents[s][g - 1] : 0, after = contents[s][g];
  if (!before || !after) return before != after;
  return (before | after) & SCATTERED || after != before + GRANULE_PAGES;
}

/* Mappings that begin in these granules and the one behind, at most. */
static uint64_t count(side s, uint64_t first, uint64_t n) {
  uint64_t sum = 0;
  const uint64_t end = space.vmm_bytes >> HEAP_GRANULE_SHIFT;
  for (uint64_t g = first; g < first + n; ++g)
    sum += is_seam(s, g) + (contents[s][g] & SCATTERED ? contents[s][g] & ~SCATTERED : 0);
  return sum + (first + n < end && is_seam(s, first + n));
}

/* Notes what the pieces fill. */
static void note(side s, uint64_t first, int file, const heap_piece *pieces, size_t n) {
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

/* With the flags that the window was reserved with, so that what is empty joins up again. Where the system refuses, the
 * memory stays, unreachable by any call. */
static void hide(void *at, uint64_t bytes) {
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

static void clear(side s, uintptr_t at, uint64_t bytes) {
  const uint64_t first = granule_of(at), n = granules_of(bytes), before = count(s, first, n);
  hide(place(s, at), n << HEAP_GRANULE_SHIFT);
  memset(&contents[s][first], 0, n * sizeof(content));
  budget_adjust((int64_t)(count(s, first, n) - before));
}

static uint64_t bytes_of(const heap_piece *pieces, size_t n) {
  uint64_t sum = 0;
  for (size_t i = 0; i < n; ++i) sum += pieces[i].bytes;
  return sum;
}

static status put(side s, uintptr_t at, int file, const heap_piece *pieces, size_t n) {
  const uint64_t bytes = bytes_of(pieces, n), first = granule_of(at), granules = granules_of(bytes);
  const uint64_t before = count(s, first, granules);
  note(s, first, file, pieces, n);
  const uint64_t after = count(s, first, granules);
  const status st = after > before ? budget_take(after - before) : ST_OK;
  if (st != ST_OK) {
    memset(&contents[s][first], 0, granules * sizeof(content));
    return st;
  }
  if (after < before) budget_adjust((int64_t)(after - before));
  if (map_pieces(place(s, at), file, pieces, n)) return ST_OK;
  const int error = errno;
  clear(s, at, bytes);
  return fail(ST_NO_MEMORY, "%ju bytes can't be mapped at %p: %s", (uintmax_t)bytes, (void *)at, strerror(error));
}

status window_put(uintptr_t at, int file, const heap_piece *pieces, size_t n, bool host) {
  TRY(put(KERNELS, at, file, pieces, n));
  const status st = host ? put(PROGRAMS, at, file, pieces, n) : ST_OK;
  if (st != ST_OK) clear(KERNELS, at, bytes_of(pieces, n));
  return st;
}

void window_clear(uintptr_t at, uint64_t bytes, bool host) {
  clear(KERNELS, at, bytes);
  if (host) clear(PROGRAMS, at, bytes);
}

void window_hide_from_host(uintptr_t at, uint64_t bytes) { clear(PROGRAMS, at, bytes); }
