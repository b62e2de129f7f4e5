/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/heap/pages.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/invariant.h"
#include "base/lock.h"
#include "base/store/sparse.h"
#include "memory/heap/mapping.h"
#include "memory/heap/ranges.h"
#include "memory/host.h"
#include "memory/huge.h"
#include "memory/share/ledger.h"

/* Available memory that a growing heap leaves to the host; with less, a desktop starts to swap. */
static const uint64_t HOST_MARGIN_BYTES = 256u << 20;

struct pages {
  pages_config config;
  mapping mapping;          /* without a file (mapping.file is -1) only its counts of calls are used */
  uint16_t *charged_pages;  /* with a file: number of charged pages per granule of the window */
  ranges *loose;            /* which granules of the file beyond the window's are free (bare) or taken */
  range_id *taken;          /* for the first granule of each taken loose range: the range's id */
  _Atomic uint64_t charged; /* pages; other threads read it in pages_promised */
  uint64_t n_loose;         /* charged pages without an address */
  pages *next_backed;       /* in the list `backed` */
  uint64_t granted;         /* pages up to which charged may grow before the host's memory is looked at again */
  uint64_t ledger_granules; /* what the ledger was told: charged in granules, rounded up, or one more */
};

static uintptr_t pages_view(const pages *p, uint64_t granule) { return p->config.view + (granule << GRANULE_SHIFT); }

/* The list of all pages with check_host: what one of them has promised is missing for all. */
static mutex backed_lock = MUTEX_INITIALIZER(BACKED); /* guards the list; taken under a heap's */
static pages *backed;

static uint64_t pages_n_granules(const pages *p) { return p->config.window_bytes >> GRANULE_SHIFT; }

/* Maps the kernels' view: to a sparse shared file for a device, since any block may have to be exported, and to private
 * pages for host memory, which a forked child inherits as it does any other. */
static bool map_view(pages *p) {
  void *const at = (void *)p->config.view; // NOLINT(performance-no-int-to-ptr)
  const uint64_t bytes = p->config.window_bytes, loose = p->config.size_bytes >> GRANULE_SHIFT;
  if (!p->config.shared)
    return mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) ==
           at;
  p->mapping.file = file_in_memory("cannon-device", bytes + (loose << GRANULE_SHIFT));
  if (p->mapping.file < 0) return false;
  if (loose && !ranges_add(p->loose, (uint32_t)pages_n_granules(p), (uint32_t)loose, RANGE_BARE)) return false;
  return mapping_open(&p->mapping);
}

static size_t charged_pages_bytes(const pages *p) { return pages_n_granules(p) * sizeof *p->charged_pages; }
static size_t taken_bytes(const pages *p) { return ((p->config.size_bytes >> GRANULE_SHIFT) + 1) * sizeof *p->taken; }

static void pages_free(pages *p) {
  if (p->mapping.file >= 0) close(p->mapping.file);
  mapping_close(&p->mapping);
  sparse_drop(p->charged_pages, charged_pages_bytes(p));
  sparse_drop(p->taken, taken_bytes(p));
  ranges_destroy(p->loose);
  free(p);
}

void pages_destroy(pages *p) {
  if (!p) return;
  mutex_lock(&backed_lock);
  pages **at = &backed;
  while (*at && *at != p) at = &(*at)->next_backed;
  if (*at) *at = p->next_backed;
  mutex_unlock(&backed_lock);
  pages_free(p);
}

static void enter_backed(pages *p) {
  mutex_lock(&backed_lock);
  p->next_backed = backed;
  backed = p;
  mutex_unlock(&backed_lock);
}

status pages_create(const pages_config *config, const char *name, pages **out) {
  pages *p = malloc(sizeof *p);
  if (!p) return fail(ST_NO_HOST_MEMORY, "no host memory for the pages of %s", name);
  *p = (pages){.config = *config,
               .loose = ranges_create(),
               .mapping = {.file = -1,
                           .view = config->view,
                           .n_granules = config->window_bytes >> GRANULE_SHIFT,
                           .time_calls = config->time_calls}};
  p->charged_pages = sparse_new(charged_pages_bytes(p));
  p->taken = sparse_new(taken_bytes(p));
  if (p->loose && p->charged_pages && p->taken && map_view(p)) {
    if (config->check_host) enter_backed(p);
    *out = p;
    return ST_OK;
  }
  const int error = errno;
  pages_free(p);
  return fail(ST_NO_MEMORY, "the memory of %s can't be set up: %s", name, file_error(error));
}

/* ---- charging ---------------------------------------------------------------------------------------------------- */

static uint64_t difference(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

/* Which private pages were touched is not known. All private memory that the process has touched is taken for such
 * pages, so that too little is counted as promised rather than too much, and nothing is refused that could be had. */
uint64_t pages_promised(void) {
  uint64_t promised = 0, private = 0;
  struct stat s;
  mutex_lock(&backed_lock);
  for (const pages *p = backed; p; p = p->next_backed) {
    const uint64_t charged = atomic_load_explicit(&p->charged, memory_order_relaxed) << PAGE_SHIFT;
    if (p->mapping.file < 0)
    private += charged;
    else if (fstat(p->mapping.file, &s) == 0) promised += difference(charged, (uint64_t)s.st_blocks * 512);
  }
  mutex_unlock(&backed_lock);
  return promised + (private ? difference(private, host_own_bytes()) : 0);
}

uint64_t pages_host_room(const pages *p) {
  if (!p->config.check_host) return UINT64_MAX;
  return difference(host_available_bytes(), pages_promised() + HOST_MARGIN_BYTES) & -(uint64_t)PAGE_BYTES;
}

static bool host_has(pages *p, uint64_t wanted) {
  if (!p->config.check_host || wanted <= p->granted) return true;
  const uint64_t room = pages_host_room(p) >> PAGE_SHIFT;
  if (wanted - p->charged > room) return false;
  p->granted = wanted + (room - (wanted - p->charged)) / 8; /* looking again costs more than a small block */
  return true;
}

/* Tells the ledger the charge, in whole granules. A decrease by one granule is told only together with the next one, so
 * that charges that go up and down by a page cost nothing. False where the ledger refuses an increase. */
static bool tell_ledger(pages *p) {
  const uint64_t wanted = (p->charged + GRANULE_PAGES - 1) / GRANULE_PAGES, had = p->ledger_granules;
  if (p->config.device < 0 || wanted == had || wanted + 1 == had) return true;
  if (wanted < had)
    ledger_return(p->config.device, (had - wanted) << GRANULE_SHIFT);
  else if (!ledger_charge(p->config.device, (wanted - had) << GRANULE_SHIFT, p->config.size_bytes))
    return false;
  p->ledger_granules = wanted;
  return true;
}

/* Counts n more charged pages; false where a limit forbids it. */
static bool pages_charge_account(pages *p, uint64_t n) {
  const uint64_t size = p->config.size_bytes >> PAGE_SHIFT;
  if (n > size || p->charged > size - n || !host_has(p, p->charged + n)) return false;
  p->charged += n;
  if (!tell_ledger(p)) {
    p->charged -= n;
    return false;
  }
  INVARIANT(p->charged <= size && (!p->config.check_host || p->charged <= p->granted));
  return true;
}

static void pages_discharge_account(pages *p, uint64_t n) {
  INVARIANT(n <= p->charged);
  p->charged -= n;
  tell_ledger(p);
}

/* Number of pages from `first` on that are below `end` and in the same granule as `first`. */
static uint64_t pages_in_granule(uint64_t first, uint64_t end) {
  const uint64_t n = GRANULE_PAGES - first % GRANULE_PAGES;
  return n < end - first ? n : end - first;
}

/* Gives a place in the file to those granules of the pages that own none yet. False, and nothing is changed, where one
 * can't have any. */
static bool pages_own_places(pages *p, uint64_t first, uint64_t n) {
  const uint64_t stop = (first + n + GRANULE_PAGES - 1) / GRANULE_PAGES;
  for (uint64_t g = first / GRANULE_PAGES, end; g < stop; g = end + 1) {
    for (end = g; end < stop && !p->charged_pages[end];) ++end;
    if (end == g || mapping_own(&p->mapping, g, end - g)) continue;
    for (uint64_t i = first / GRANULE_PAGES; i < g; ++i)
      if (!p->charged_pages[i]) mapping_disown(&p->mapping, i);
    return false;
  }
  return true;
}

/* The pages are empty, and the kernel fills them when they are touched. */
bool pages_charge(pages *p, uint64_t first, uint64_t n) {
  INVARIANT(first + n <= p->config.window_bytes >> PAGE_SHIFT);
  if (!pages_charge_account(p, n)) return false;
  if (p->mapping.file >= 0) {
    if (!pages_own_places(p, first, n)) {
      pages_discharge_account(p, n);
      return false;
    }
    for (uint64_t at = first, k; at < first + n; at += k)
      p->charged_pages[at / GRANULE_PAGES] += (uint16_t)(k = pages_in_granule(at, first + n));
  }
  INVARIANT(!n || p->mapping.file < 0 || p->charged_pages[first / GRANULE_PAGES] <= GRANULE_PAGES);
  INVARIANT_WALK(pages_is_valid(p));
  return true;
}

/* Gives the memory of n charged pages back to the host, by one system call per piece that is contiguous in the file. */
static void pages_empty(pages *p, uint64_t first, uint64_t n) {
  const uint64_t end = first + n;
  for (uint64_t at = first, stop; at < end; at = stop) {
    const uint64_t away = mapping_place(&p->mapping, at / GRANULE_PAGES) - at / GRANULE_PAGES;
    stop = at;
    do stop += pages_in_granule(stop, end);
    while (stop < end && mapping_place(&p->mapping, stop / GRANULE_PAGES) - stop / GRANULE_PAGES == away);
    mapping_empty(&p->mapping, pages_offset(p, at << PAGE_SHIFT), (stop - at) << PAGE_SHIFT);
  }
}

void pages_discharge(pages *p, uint64_t first, uint64_t n) {
  INVARIANT(first + n <= p->config.window_bytes >> PAGE_SHIFT);
  pages_discharge_account(p, n);
  if (p->mapping.file < 0) {
    const uint64_t begun = mapping_begin_call(&p->mapping);
    madvise((char *)p->config.view + (first << PAGE_SHIFT), n << PAGE_SHIFT, // NOLINT(performance-no-int-to-ptr)
            MADV_DONTNEED);
    mapping_end_call(&p->mapping, begun);
    return;
  }
  pages_empty(p, first, n);
  for (uint64_t at = first, k; at < first + n; at += k) {
    const uint64_t g = at / GRANULE_PAGES;
    INVARIANT(p->charged_pages[g] >= pages_in_granule(at, first + n));
    p->charged_pages[g] -= (uint16_t)(k = pages_in_granule(at, first + n));
    if (p->charged_pages[g]) continue;
    mapping_disown(&p->mapping, g);
    huge_forget(pages_view(p, g), 1);
  }
  INVARIANT_WALK(pages_is_valid(p));
}

uint64_t pages_move(pages *p, uint64_t from, uint64_t to, uint64_t n) {
  const uint64_t k = p->mapping.file < 0 ? 0 : mapping_move(&p->mapping, from, to, n);
  for (uint64_t i = 0; i < k; ++i) {
    INVARIANT(p->charged_pages[from + i] == GRANULE_PAGES && !p->charged_pages[to + i]);
    p->charged_pages[from + i] = 0;
    p->charged_pages[to + i] = GRANULE_PAGES;
  }
  huge_move(pages_view(p, from), pages_view(p, to), k);
  INVARIANT_WALK(pages_is_valid(p));
  return k;
}

uint64_t pages_charged(const pages *p) { return p->charged; }
uint64_t pages_loose(const pages *p) { return p->n_loose; }
uint64_t pages_n_calls(const pages *p) { return p->mapping.n_calls; }
uint64_t pages_call_ns(const pages *p) { return p->mapping.call_ns; }

/* ---- without an address ------------------------------------------------------------------------------------------ */

bool pages_take_loose(pages *p, uint64_t n, uint64_t *offset) {
  uint32_t first;
  const range_id id = n <= UINT32_MAX ? ranges_take(p->loose, RANGE_BARE, (uint32_t)n, &first) : 0;
  if (!id) return false;
  if (!pages_charge_account(p, n * GRANULE_PAGES)) {
    ranges_give(p->loose, id, RANGE_BARE);
    return false;
  }
  p->taken[first - pages_n_granules(p)] = id;
  p->n_loose += n * GRANULE_PAGES;
  *offset = (uint64_t)first << GRANULE_SHIFT;
  INVARIANT(*offset >= p->config.window_bytes);
  INVARIANT_WALK(pages_is_valid(p));
  return true;
}

void pages_give_loose(pages *p, uint64_t offset, uint64_t n) {
  INVARIANT(offset % GRANULE_BYTES == 0 && offset >= p->config.window_bytes && n * GRANULE_PAGES <= p->n_loose);
  pages_discharge_account(p, n * GRANULE_PAGES);
  p->n_loose -= n * GRANULE_PAGES;
  mapping_empty(&p->mapping, offset, n << GRANULE_SHIFT);
  INVARIANT(ranges_is_taken(p->loose, p->taken[(offset >> GRANULE_SHIFT) - pages_n_granules(p)],
                            (uint32_t)(offset >> GRANULE_SHIFT), (uint32_t)n));
  ranges_give(p->loose, p->taken[(offset >> GRANULE_SHIFT) - pages_n_granules(p)], RANGE_BARE);
  INVARIANT_WALK(pages_is_valid(p));
}

int pages_file(const pages *p) { return p->mapping.file; }

uint64_t pages_offset(const pages *p, uint64_t distance) {
  INVARIANT(p->mapping.file >= 0 && distance < p->config.window_bytes);
  return (mapping_place(&p->mapping, distance >> GRANULE_SHIFT) << GRANULE_SHIFT) + distance % GRANULE_BYTES;
}

/* ---- invariants -------------------------------------------------------------------------------------------------- */

#ifdef CANNON_INVARIANTS

unsigned pages_charged_in(const pages *p, uint64_t granule) {
  return p->mapping.file < 0 ? 0 : p->charged_pages[granule];
}

/* The granules that hold memory have some charged pages each, and together all charged pages of the window. */
static bool pages_granules_are_valid(const pages *p) {
  uint64_t charged = p->n_loose;
  for (uint64_t i = 0; i < pages_n_granules(p) / 64 + 1; ++i)
    for (uint64_t bits = p->mapping.holds[i]; bits; bits &= bits - 1) {
      const uint16_t n = p->charged_pages[i * 64 + (unsigned)__builtin_ctzll(bits)];
      if (!n || n > GRANULE_PAGES) return false;
      charged += n;
    }
  return charged == p->charged;
}

bool pages_is_valid(const pages *p) {
  const uint64_t granules = (p->charged + GRANULE_PAGES - 1) / GRANULE_PAGES;
  if (p->charged > p->config.size_bytes >> PAGE_SHIFT || p->n_loose > p->charged) return false;
  if (p->config.check_host && p->charged > p->granted) return false;
  if (p->config.device < 0 ? p->ledger_granules != 0
                           : p->ledger_granules != granules && p->ledger_granules != granules + 1)
    return false;
  if (p->mapping.file < 0) return p->n_loose == 0;
  return ranges_is_valid(p->loose) && ranges_taken_units(p->loose) * GRANULE_PAGES == p->n_loose &&
         pages_granules_are_valid(p) && mapping_is_valid(&p->mapping);
}

#endif
