#include "memory/heap/pages.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/lock.h"
#include "base/sparse.h"
#include "memory/heap/mapping.h"
#include "memory/heap/ranges.h"
#include "memory/host.h"
#include "memory/huge.h"
#include "memory/share/ledger.h"

/* Left to the host when a heap grows: below this a desktop starts to swap. */
static const uint64_t HOST_MARGIN_BYTES = 256u << 20;

struct pages {
  pages_config config;
  mapping mapping;          /* where the file is -1: only calls are counted in it */
  uint16_t *charged_pages;  /* of a granule of the window, where there is a file */
  ranges *loose;            /* granules of the file behind the window's */
  range_id *taken;          /* of each of those: the range that starts there */
  _Atomic uint64_t charged; /* read by others, see pages_promised */
  uint64_t n_loose;
  pages *next_backed;
  uint64_t peak;            /* highest charged */
  uint64_t granted;         /* charged may grow to this before the host is asked again */
  uint64_t ledger_granules; /* what the ledger has of charged, rounded up */
};

static uintptr_t view_of(const pages *p, uint64_t granule) { return p->config.view + (granule << GRANULE_SHIFT); }

/* Those whose memory the host has to have: what one has promised is missing for all. */
static mutex backed_lock = MUTEX_INITIALIZER(BACKED); /* guards the list; taken under a heap's */
static pages *backed;

static uint64_t n_granules(const pages *p) { return p->config.window_bytes >> GRANULE_SHIFT; }

/* Puts memory behind the kernels' view: a sparse shared file for a device (any block may have to be exported), private
 * pages for pinned memory (which a forked child inherits like any other). */
static bool map_view(pages *p) {
  void *const at = (void *)p->config.view; // NOLINT(performance-no-int-to-ptr)
  const uint64_t bytes = p->config.window_bytes, loose = p->config.size_bytes >> GRANULE_SHIFT;
  if (!p->config.shared)
    return mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) ==
           at;
  p->mapping.file = file_in_memory("cannon-device", bytes + (loose << GRANULE_SHIFT));
  if (p->mapping.file < 0) return false;
  if (loose && !ranges_add(p->loose, (uint32_t)n_granules(p), (uint32_t)loose, RANGE_BARE)) return false;
  return mapping_open(&p->mapping);
}

static size_t charged_pages_bytes(const pages *p) { return n_granules(p) * sizeof *p->charged_pages; }
static size_t taken_bytes(const pages *p) { return ((p->config.size_bytes >> GRANULE_SHIFT) + 1) * sizeof *p->taken; }

static void destroy(pages *p) {
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
  destroy(p);
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
  destroy(p);
  return fail(ST_NO_MEMORY, "the memory of %s can't be set up: %s", name, file_error(error));
}

/* ---- charging ---------------------------------------------------------------------------------------------------- */

static uint64_t difference(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

/* Of private pages it is not known which are touched; taking all of the process's for these refuses nothing that there
 * is. */
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
  p->granted = wanted + (room - (wanted - p->charged)) / 8; /* asking again costs more than a small block */
  return true;
}

/* Tells the ledger, by granules. Down by one is told only with the next one: charges that go to and fro cost nothing. */
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

/* Against the limits. */
static bool charge(pages *p, uint64_t n) {
  const uint64_t size = p->config.size_bytes >> PAGE_SHIFT;
  if (n > size || p->charged > size - n || !host_has(p, p->charged + n)) return false;
  p->charged += n;
  if (!tell_ledger(p)) {
    p->charged -= n;
    return false;
  }
  if (p->peak < p->charged) p->peak = p->charged;
  return true;
}

static void discharge(pages *p, uint64_t n) {
  p->charged -= n;
  tell_ledger(p);
}

/* Pages from `first` up to `end` that are in one granule with it. */
static uint64_t in_granule(uint64_t first, uint64_t end) {
  const uint64_t n = GRANULE_PAGES - first % GRANULE_PAGES;
  return n < end - first ? n : end - first;
}

/* Sees to it that the granules of the pages own places. */
static bool own_places(pages *p, uint64_t first, uint64_t n) {
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

/* What is not charged is empty, and filled when it is touched. */
bool pages_charge(pages *p, uint64_t first, uint64_t n) {
  if (!charge(p, n)) return false;
  if (p->mapping.file >= 0) {
    if (!own_places(p, first, n)) {
      discharge(p, n);
      return false;
    }
    for (uint64_t at = first, k; at < first + n; at += k)
      p->charged_pages[at / GRANULE_PAGES] += (uint16_t)(k = in_granule(at, first + n));
  }
  return true;
}

/* Empties pages that are charged, by what is one piece in the file. */
static void empty(pages *p, uint64_t first, uint64_t n) {
  const uint64_t end = first + n;
  for (uint64_t at = first, stop; at < end; at = stop) {
    const uint64_t away = mapping_place(&p->mapping, at / GRANULE_PAGES) - at / GRANULE_PAGES;
    stop = at;
    do stop += in_granule(stop, end);
    while (stop < end && mapping_place(&p->mapping, stop / GRANULE_PAGES) - stop / GRANULE_PAGES == away);
    mapping_empty(&p->mapping, pages_offset(p, at << PAGE_SHIFT), (stop - at) << PAGE_SHIFT);
  }
}

void pages_discharge(pages *p, uint64_t first, uint64_t n) {
  discharge(p, n);
  if (p->mapping.file < 0) {
    const uint64_t begun = mapping_begin_call(&p->mapping);
    madvise((char *)p->config.view + (first << PAGE_SHIFT), n << PAGE_SHIFT, // NOLINT(performance-no-int-to-ptr)
            MADV_DONTNEED);
    mapping_end_call(&p->mapping, begun);
    return;
  }
  empty(p, first, n);
  for (uint64_t at = first, k; at < first + n; at += k) {
    const uint64_t g = at / GRANULE_PAGES;
    p->charged_pages[g] -= (uint16_t)(k = in_granule(at, first + n));
    if (p->charged_pages[g]) continue;
    mapping_disown(&p->mapping, g);
    huge_forget(view_of(p, g), 1);
  }
}

uint64_t pages_move(pages *p, uint64_t from, uint64_t to, uint64_t n) {
  const uint64_t k = p->mapping.file < 0 ? 0 : mapping_move(&p->mapping, from, to, n);
  for (uint64_t i = 0; i < k; ++i) {
    p->charged_pages[from + i] = 0;
    p->charged_pages[to + i] = GRANULE_PAGES;
  }
  huge_move(view_of(p, from), view_of(p, to), k);
  return k;
}

uint64_t pages_charged(const pages *p) { return p->charged; }
uint64_t pages_peak(const pages *p) { return p->peak; }
uint64_t pages_loose(const pages *p) { return p->n_loose; }
uint64_t pages_n_calls(const pages *p) { return p->mapping.n_calls; }
uint64_t pages_call_ns(const pages *p) { return p->mapping.call_ns; }

/* ---- without an address ------------------------------------------------------------------------------------------ */

bool pages_take_loose(pages *p, uint64_t n, uint64_t *offset) {
  uint32_t first;
  const range_id id = n <= UINT32_MAX ? ranges_take(p->loose, RANGE_BARE, (uint32_t)n, &first) : 0;
  if (!id) return false;
  if (!charge(p, n * GRANULE_PAGES)) {
    ranges_give(p->loose, id, RANGE_BARE);
    return false;
  }
  p->taken[first - n_granules(p)] = id;
  p->n_loose += n * GRANULE_PAGES;
  *offset = (uint64_t)first << GRANULE_SHIFT;
  return true;
}

void pages_give_loose(pages *p, uint64_t offset, uint64_t n) {
  discharge(p, n * GRANULE_PAGES);
  p->n_loose -= n * GRANULE_PAGES;
  mapping_empty(&p->mapping, offset, n << GRANULE_SHIFT);
  ranges_give(p->loose, p->taken[(offset >> GRANULE_SHIFT) - n_granules(p)], RANGE_BARE);
}

int pages_file(const pages *p) { return p->mapping.file; }

uint64_t pages_offset(const pages *p, uint64_t distance) {
  return (mapping_place(&p->mapping, distance >> GRANULE_SHIFT) << GRANULE_SHIFT) + distance % GRANULE_BYTES;
}
