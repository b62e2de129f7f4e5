#include "memory/heap/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sparse.h"
#include "memory/budget.h"
#include "memory/heap/ranges.h"
#include "memory/host.h"
#include "memory/share/ledger.h"

/* Left to the host when a heap grows: below this a desktop starts to swap. */
static const uint64_t HOST_MARGIN_BYTES = 256u << 20;

/* What is moved about takes at most so many of the kernel's mappings (budget.h), so that others find some, too; one move
 * makes at most MOST_BORDERS more. */
enum { MOST_PIECES = 24000, MOST_BORDERS = 4 };

struct pages {
  pages_config config;
  int file;
  uint32_t *place;   /* of a granule of the window: its granule in the file, less its own number (so 0: at home) */
  uint64_t n_pieces; /* neighbours in the window that are none in the file */
  ranges *loose;     /* granules of the file behind the window's */
  range_id *taken;   /* of each of those: the range that starts there */
  uint64_t charged, n_loose;
  uint64_t peak;            /* highest charged */
  uint64_t granted;         /* charged may grow to this before the host is asked again */
  uint64_t ledger_granules; /* what the ledger has of charged, rounded up */
  uint64_t n_calls;
};

static uint64_t n_granules(const pages *p) { return p->config.window_bytes >> GRANULE_SHIFT; }
static char *view_of(const pages *p, uint64_t granule) {
  return (char *)p->config.view + (granule << GRANULE_SHIFT); // NOLINT(performance-no-int-to-ptr)
}
static uint64_t place_of(const pages *p, uint64_t granule) { return (uint32_t)(granule + p->place[granule]); }

/* Puts memory behind the kernels' view: a sparse shared file for a device (any block may have to be exported), private
 * pages for pinned memory (which a forked child inherits like any other). */
static bool map_view(pages *p) {
  const int protection = PROT_READ | PROT_WRITE, common = MAP_FIXED | MAP_NORESERVE;
  const uint64_t bytes = p->config.window_bytes, loose = p->config.size_bytes >> GRANULE_SHIFT;
  void *const at = view_of(p, 0);
  if (!p->config.shared) return mmap(at, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | common, -1, 0) == at;
  p->file = memfd_create("cannon-device", MFD_CLOEXEC);
  if (p->file < 0 || ftruncate(p->file, (off_t)(bytes + (loose << GRANULE_SHIFT)))) return false;
  if (loose && !ranges_add(p->loose, (uint32_t)n_granules(p), (uint32_t)loose, RANGE_BARE)) return false;
  if (mmap(at, bytes, protection, MAP_SHARED | common, p->file, 0) != at) return false;
  return madvise(at, bytes, MADV_DONTFORK) == 0;
}

static size_t place_bytes(const pages *p) { return n_granules(p) * sizeof *p->place; }
static size_t taken_bytes(const pages *p) { return ((p->config.size_bytes >> GRANULE_SHIFT) + 1) * sizeof *p->taken; }

static void destroy(pages *p) {
  if (p->file >= 0) close(p->file);
  sparse_drop(p->place, place_bytes(p));
  sparse_drop(p->taken, taken_bytes(p));
  ranges_destroy(p->loose);
  free(p);
}

void pages_destroy(pages *p) {
  if (p) destroy(p);
}

status pages_create(const pages_config *config, const char *name, pages **out) {
  pages *p = malloc(sizeof *p);
  if (!p) return fail(ST_NO_HOST_MEMORY, "no host memory for the pages of %s", name);
  *p = (pages){.config = *config, .file = -1, .loose = ranges_create()};
  p->place = sparse_new(place_bytes(p));
  p->taken = sparse_new(taken_bytes(p));
  if (p->loose && p->place && p->taken && map_view(p)) {
    *out = p;
    return ST_OK;
  }
  const int error = errno;
  destroy(p);
  return fail(ST_NO_MEMORY, "the memory of %s can't be set up: %s", name, strerror(error));
}

/* ---- charging ---------------------------------------------------------------------------------------------------- */

/* Bytes that are charged but not yet touched, which the host still counts as available. */
static uint64_t promised_bytes(const pages *p) {
  const uint64_t charged = p->charged << PAGE_SHIFT;
  struct stat s;
  if (p->file < 0 || fstat(p->file, &s)) return 0;
  const uint64_t touched = (uint64_t)s.st_blocks * 512;
  return charged > touched ? charged - touched : 0;
}

static bool host_has(pages *p, uint64_t wanted) {
  if (!p->config.check_host || wanted <= p->granted) return true;
  const uint64_t keep = promised_bytes(p) + HOST_MARGIN_BYTES, available = host_available_bytes();
  const uint64_t room = available > keep ? (available - keep) >> PAGE_SHIFT : 0;
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

/* What is not charged is empty, and filled when it is touched. */
bool pages_charge(pages *p, uint64_t n) {
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

uint64_t pages_charged(const pages *p) { return p->charged; }
uint64_t pages_peak(const pages *p) { return p->peak; }
uint64_t pages_loose(const pages *p) { return p->n_loose; }
uint64_t pages_n_calls(const pages *p) { return p->n_calls; }

static void punch(pages *p, uint64_t offset, uint64_t bytes) {
  ++p->n_calls;
  fallocate(p->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes);
}

void pages_discharge(pages *p, uint64_t first, uint64_t n) {
  discharge(p, n);
  uint64_t at = first << PAGE_SHIFT;
  const uint64_t end = (first + n) << PAGE_SHIFT;
  if (p->file < 0) {
    ++p->n_calls;
    madvise((char *)p->config.view + at, end - at, MADV_DONTNEED); // NOLINT(performance-no-int-to-ptr)
    return;
  }
  while (at < end) { /* by what is in one piece in the file */
    uint64_t stop = at;
    do stop = ((stop >> GRANULE_SHIFT) + 1) << GRANULE_SHIFT;
    while (stop < end && p->place[stop >> GRANULE_SHIFT] == p->place[at >> GRANULE_SHIFT]);
    if (stop > end) stop = end;
    punch(p, pages_offset(p, at), stop - at);
    at = stop;
  }
}

/* ---- moving ------------------------------------------------------------------------------------------------------ */

/* Whether the file goes on from granule g - 1 to g as the window does. */
static bool is_joint(const pages *p, uint64_t g) {
  return g == 0 || g >= n_granules(p) || p->place[g] == p->place[g - 1];
}

/* Borders at the ends of, and within, two runs of n granules; one that both have counts once. */
static uint64_t borders(const pages *p, uint64_t a, uint64_t b, uint64_t n) {
  uint64_t count = 0;
  for (uint64_t g = a; g <= a + n; ++g) count += !is_joint(p, g);
  for (uint64_t g = b; g <= b + n; ++g) count += g - a > n && !is_joint(p, g);
  return count;
}

static void exchange_places(pages *p, uint64_t a, uint64_t b, uint64_t n) {
  for (uint64_t i = 0; i < n; ++i) {
    const uint64_t at_a = place_of(p, a + i), at_b = place_of(p, b + i);
    p->place[a + i] = (uint32_t)(at_b - (a + i));
    p->place[b + i] = (uint32_t)(at_a - (b + i));
  }
}

/* Granules from g, at most n, that are one piece of the file. */
static uint64_t piece(const pages *p, uint64_t g, uint64_t n) {
  uint64_t k = 1;
  while (k < n && p->place[g + k] == p->place[g]) ++k;
  return k;
}

/* The memory keeps its page tables, so nothing is faulted in again: 8 µs for a granule beside 2,500 by mapping it
 * anew. At no moment are the addresses without a mapping, into which another thread's mmap() could come. The places say
 * already how it will be. */
static bool remap(pages *p, uint64_t from, uint64_t to, uint64_t n) {
  char *const source = view_of(p, from), *const target = view_of(p, to);
  const uint64_t bytes = n << GRANULE_SHIFT, emptied = place_of(p, from) << GRANULE_SHIFT;
  const int move = MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP;
  const int protection = PROT_READ | PROT_WRITE, map = MAP_SHARED | MAP_FIXED | MAP_NORESERVE;
  p->n_calls += 3;
  if (mremap(source, bytes, bytes, move, target) != target) return false;
  if (mmap(source, bytes, protection, map, p->file, (off_t)emptied) != source)
    abort(); /* mremap() moves nothing unless three more mappings are to be had */
  madvise(source, bytes, MADV_DONTFORK);
  return true;
}

/* Whatever the budget, a move that saves mappings is welcome. */
uint64_t pages_move(pages *p, uint64_t from, uint64_t to, uint64_t n) {
  if (p->file < 0 || budget_take(MOST_BORDERS) != ST_OK) return 0;
  const uint64_t at_from = piece(p, from, n), at_to = piece(p, to, n), k = at_from < at_to ? at_from : at_to;
  const uint64_t before = borders(p, from, to, k);
  exchange_places(p, from, to, k);
  const int64_t more = (int64_t)(borders(p, from, to, k) - before);
  if ((more > 0 && p->n_pieces + (uint64_t)more > MOST_PIECES) || !remap(p, from, to, k)) {
    exchange_places(p, from, to, k);
    budget_adjust(-MOST_BORDERS);
    return 0;
  }
  budget_adjust(more - MOST_BORDERS);
  p->n_pieces += (uint64_t)more;
  return k;
}

/* ---- without an address ------------------------------------------------------------------------------------------ */

bool pages_take_loose(pages *p, uint64_t n, uint64_t *offset) {
  uint32_t first;
  const range_id id = n <= UINT32_MAX ? ranges_take(p->loose, RANGE_BARE, (uint32_t)n, &first) : 0;
  if (!id) return false;
  if (!pages_charge(p, n * GRANULE_PAGES)) {
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
  punch(p, offset, n << GRANULE_SHIFT);
  ranges_give(p->loose, p->taken[(offset >> GRANULE_SHIFT) - n_granules(p)], RANGE_BARE);
}

int pages_file(const pages *p) { return p->file; }

uint64_t pages_offset(const pages *p, uint64_t distance) {
  const uint64_t g = distance >> GRANULE_SHIFT;
  return (place_of(p, g) << GRANULE_SHIFT) + (distance & (GRANULE_BYTES - 1));
}
