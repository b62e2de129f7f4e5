#include "memory/heap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hooks.h"
#include "memory/heap_stats.h"
#include "memory/host.h"
#include "memory/ranges.h"

/* Left to the host when the heap grows: below this a desktop starts to swap. */
static const uint64_t HOST_MARGIN_BYTES = 256u << 20;

enum { MAX_BLOCKS = 1 << 26 };

typedef _Atomic uint32_t block_id; /* index into heap.block; 0 is none */

typedef struct {
  block_id block; /* the block that owns this granule's run */
  range_id run;   /* arena: its run of one granule */
  bool charged;   /* counted against the size */
  bool used;      /* in a run that is taken: not to be trimmed, whether the block is live or waits for its tasks */
} granule;

struct heap {
  heap_config config;
  heap_stats stats;
  int file;             /* memfd with the window's contents at the same offsets; -1: anonymous memory */
  pthread_mutex_t lock; /* guards all below but what heap_find reads */
  granule *granules;
  block_id *units; /* of the whole window: the small block that owns each unit */
  heap_block *block;
  uint32_t n_blocks, unused_block; /* chain of freed ids through .next */
  uint32_t parked, closing;        /* freed blocks: since the fence was taken, and those that wait for it to pass */
  void *fence;                     /* of closing; NULL: closing is empty */
  ranges *runs, *arenas;
  uint64_t n_charged, n_used; /* granules: charged (used or cached), and with a live block */
  uint64_t n_commits;         /* granules that were charged so far: tells whether an allocation needed one */
  uint64_t granted;           /* n_charged may grow to this before the host is asked again */
  uint64_t top;               /* granules at and above this were never charged */
  uint64_t n_allocations;
};

static void *table(size_t bytes) {
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

static uint64_t n_granules(const heap *h) { return h->config.window_bytes >> HEAP_GRANULE_SHIFT; }
static size_t units_bytes(const heap *h) { return (h->config.window_bytes >> h->config.unit_shift) * sizeof(block_id); }
static uint64_t granules_of(uint64_t bytes) {
  return (bytes >> HEAP_GRANULE_SHIFT) + !!(bytes & (HEAP_GRANULE_BYTES - 1));
}
static unsigned units_shift(const heap *h) { return HEAP_GRANULE_SHIFT - h->config.unit_shift; }
static uintptr_t view_of(const heap *h, uint64_t g) {
  return h->config.window + h->config.view_distance + (g << HEAP_GRANULE_SHIFT);
}

/* Puts memory behind the kernels' view: a sparse shared file for a device (any block may have to be exported), private
 * pages for pinned memory (which a forked child inherits like any other). */
static bool map_view(heap *h) {
  const int common = MAP_FIXED | MAP_NORESERVE;
  void *const at = (void *)view_of(h, 0);
  if (!h->config.view_distance)
    return mmap(at, h->config.window_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | common, -1, 0) == at;
  h->file = memfd_create("cannon-device", MFD_CLOEXEC);
  if (h->file < 0 || ftruncate(h->file, (off_t)h->config.window_bytes)) return false;
  if (mmap(at, h->config.window_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | common, h->file, 0) != at) return false;
  return madvise(at, h->config.window_bytes, MADV_DONTFORK) == 0;
}

status heap_create(const heap_config *config, heap **out) {
  heap *h = calloc(1, sizeof *h);
  if (!h) return fail(ST_NO_HOST_MEMORY, "no host memory for the heap of %s", config->name);
  *h = (heap){.config = *config, .file = -1, .runs = ranges_create(), .arenas = ranges_create()};
  pthread_mutex_init(&h->lock, NULL);
  h->granules = table(n_granules(h) * sizeof *h->granules);
  h->units = table(units_bytes(h));
  h->block = table(MAX_BLOCKS * sizeof *h->block);
  h->n_blocks = 1;
  if (!h->runs || !h->arenas || !h->granules || !h->units || !h->block || !map_view(h) ||
      !ranges_add(h->runs, 0, (uint32_t)n_granules(h))) {
    const int error = errno;
    if (h->file >= 0) close(h->file);
    ranges_destroy(h->runs);
    ranges_destroy(h->arenas);
    if (h->granules) munmap(h->granules, n_granules(h) * sizeof *h->granules);
    if (h->units) munmap(h->units, units_bytes(h));
    if (h->block) munmap(h->block, MAX_BLOCKS * sizeof *h->block);
    free(h);
    return fail(ST_NO_MEMORY, "the memory of %s can't be set up: %s", config->name, strerror(error));
  }
  heap_stats_init(&h->stats, config->stats, config->name, config->size_bytes);
  *out = h;
  return ST_OK;
}

static void count_pages(heap *h) {
  heap_stats_pages(&h->stats, h->n_charged << HEAP_GRANULE_SHIFT, h->n_used << HEAP_GRANULE_SHIFT);
}

/* Gives charged granules that no block uses back to the host until at most `most` are charged. */
static void trim(heap *h, uint64_t most) {
  for (uint64_t g = 0; g < h->top && h->n_charged > most; ++g) {
    granule *it = &h->granules[g];
    if (!it->charged || it->used) continue;
    const uint64_t offset = g << HEAP_GRANULE_SHIFT;
    if (h->file >= 0)
      fallocate(h->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, HEAP_GRANULE_BYTES);
    else
      madvise((void *)view_of(h, g), HEAP_GRANULE_BYTES, MADV_DONTNEED);
    it->charged = false;
    --h->n_charged;
  }
  count_pages(h);
}

/* Bytes that are charged but not yet touched, which the host still counts as available. */
static uint64_t promised_bytes(const heap *h) {
  const uint64_t charged = h->n_charged << HEAP_GRANULE_SHIFT;
  struct stat s;
  if (h->file < 0 || fstat(h->file, &s)) return 0;
  const uint64_t touched = (uint64_t)s.st_blocks * 512;
  return charged > touched ? charged - touched : 0;
}

static bool host_has(heap *h, uint64_t wanted) {
  if (!h->config.check_host || wanted <= h->granted) return true;
  const uint64_t keep = promised_bytes(h) + HOST_MARGIN_BYTES, available = host_available_bytes();
  const uint64_t room = available > keep ? (available - keep) >> HEAP_GRANULE_SHIFT : 0;
  if (wanted - h->n_charged > room) return false;
  h->granted = wanted + (room - (wanted - h->n_charged)) / 8; /* asking again costs more than a small block */
  return true;
}

/* Charges the n granules from `first`, which are in no one's use, and counts them as used. */
static bool charge(heap *h, uint64_t first, uint64_t n) {
  const uint64_t size = h->config.size_bytes >> HEAP_GRANULE_SHIFT;
  uint64_t fresh = 0;
  for (uint64_t g = first; g < first + n; ++g) fresh += !h->granules[g].charged;
  if (h->n_charged + fresh > size || !host_has(h, h->n_charged + fresh)) {
    if (h->n_used + n > size) return false;
    trim(h, h->n_used); /* caches go first, ours too */
    fresh = n;
    if (!host_has(h, h->n_charged + fresh)) return false;
  }
  for (uint64_t g = first; g < first + n; ++g) h->granules[g].charged = h->granules[g].used = true;
  h->n_charged += fresh;
  h->n_commits += fresh;
  h->n_used += n;
  count_pages(h);
  if (h->top < first + n) h->top = first + n;
  return true;
}

static range_id take_run(heap *h, uint32_t n, uint32_t *first) {
  const range_id run = ranges_take(h->runs, n, first);
  if (!run) return 0;
  if (charge(h, *first, n)) return run;
  range_id whole;
  ranges_give(h->runs, run, &whole);
  return 0;
}

static void give_run(heap *h, range_id run, uint64_t first, uint64_t n) {
  range_id whole;
  ranges_give(h->runs, run, &whole);
  for (uint64_t g = first; g < first + n; ++g) h->granules[g].used = false;
  h->n_used -= n;
  count_pages(h);
}

static bool add_arena(heap *h) {
  uint32_t g;
  const range_id run = take_run(h, 1, &g);
  if (!run) return false;
  if (!ranges_add(h->arenas, g << units_shift(h), 1u << units_shift(h))) {
    give_run(h, run, g, 1);
    return false;
  }
  h->granules[g].run = run;
  return true;
}

static uint32_t block_new(heap *h) {
  const uint32_t id = h->unused_block;
  if (id) {
    h->unused_block = h->block[id].next;
    return id;
  }
  return h->n_blocks < MAX_BLOCKS ? h->n_blocks++ : 0;
}

static void block_drop(heap *h, uint32_t id) {
  h->block[id].next = h->unused_block;
  h->unused_block = id;
}

/* ---- freed blocks ------------------------------------------------------------------------------------------------ */

/* The arena that holds `offset` became empty; its granule stays charged, so making it an arena again is cheap. */
static void drop_arena(heap *h, uint64_t offset, range_id whole) {
  const uint64_t g = offset >> HEAP_GRANULE_SHIFT;
  ranges_remove(h->arenas, whole);
  give_run(h, h->granules[g].run, g, 1);
}

/* Makes a freed block's memory available again. */
static void release(heap *h, uint32_t id) {
  heap_block *b = &h->block[id];
  const uint64_t bytes = b->parked_bytes,
                 offset = atomic_load_explicit(&b->address, memory_order_relaxed) - h->config.window;
  range_id whole;
  if (bytes > HEAP_SMALL_BYTES)
    give_run(h, b->range, offset >> HEAP_GRANULE_SHIFT, granules_of(bytes));
  else if (ranges_give(h->arenas, b->range, &whole))
    drop_arena(h, offset, whole);
  block_drop(h, id);
}

static void release_all(heap *h, uint32_t *list) {
  while (*list) {
    const uint32_t id = *list;
    *list = h->block[id].next;
    release(h, id);
  }
}

/* Releases what no task can use any more. Blocks wait in two lists, so that one fence at a time serves for all: those
 * freed while it is out are covered by the next. */
static void settle(heap *h) {
  if (h->fence && h->config.fences->passed(h->fence)) {
    h->fence = NULL;
    release_all(h, &h->closing);
  }
  if (h->fence || !h->parked) return;
  if (!h->config.fences->pending()) {
    release_all(h, &h->parked);
    return;
  }
  h->fence = h->config.fences->take();
  if (!h->fence) return;
  h->closing = h->parked;
  h->parked = 0;
}

/* Marks the block's granules or units as its own (id) or nobody's (0). */
static void mark(heap *h, uint64_t offset, uint64_t bytes, uint32_t id) {
  if (bytes > HEAP_SMALL_BYTES) {
    const uint64_t first = offset >> HEAP_GRANULE_SHIFT;
    for (uint64_t g = first; g << HEAP_GRANULE_SHIFT < offset + bytes; ++g)
      atomic_store_explicit(&h->granules[g].block, id, memory_order_release);
    return;
  }
  const uint64_t first = offset >> h->config.unit_shift;
  const uint64_t n = (bytes + (1u << h->config.unit_shift) - 1) >> h->config.unit_shift;
  for (uint64_t u = first; u < first + n; ++u) atomic_store_explicit(&h->units[u], id, memory_order_release);
}

/* Finds room for the block; its offset in the window, or UINT64_MAX. */
static uint64_t place(heap *h, uint64_t bytes, range_id *range) {
  uint32_t start;
  if (bytes > HEAP_SMALL_BYTES) {
    const uint64_t n = granules_of(bytes);
    if (n > n_granules(h) || !(*range = take_run(h, (uint32_t)n, &start))) return UINT64_MAX;
    return (uint64_t)start << HEAP_GRANULE_SHIFT;
  }
  const uint32_t n = (uint32_t)((bytes + (1u << h->config.unit_shift) - 1) >> h->config.unit_shift);
  *range = ranges_take(h->arenas, n, &start);
  if (!*range && add_arena(h)) *range = ranges_take(h->arenas, n, &start);
  return *range ? (uint64_t)start << h->config.unit_shift : UINT64_MAX;
}

static status refuse(heap *h, uint64_t requested, uint64_t used) {
  heap_stats_refuse(&h->stats);
  return fail(ST_NO_MEMORY,
              "size is %ju bytes, more than %s has left: %ju of %ju bytes are in use, the host has %ju available",
              (uintmax_t)requested, h->config.name, (uintmax_t)used, (uintmax_t)h->config.size_bytes,
              (uintmax_t)host_available_bytes());
}

static hook_block told(const heap *h, const heap_block *b) {
  return (hook_block){h->config.device, b->address, b->bytes, b->requested, b->number, b->call, b->site};
}

status heap_alloc(heap *h, uint64_t bytes, uint64_t requested, const char *call, void *site, void **out) {
  const uint64_t begun = heap_stats_begin(&h->stats);
  pthread_mutex_lock(&h->lock);
  const uint64_t commits = h->n_commits;
  range_id range = 0;
  if (unlikely(h->parked || h->fence)) settle(h);
  const uint32_t id = block_new(h);
  uint64_t offset = id ? place(h, bytes, &range) : UINT64_MAX;
  if (unlikely(offset == UINT64_MAX && id && (h->parked || h->closing) &&
               granules_of(bytes) <= h->config.size_bytes >> HEAP_GRANULE_SHIFT)) {
    release_all(h, &h->closing);
    release_all(h, &h->parked);
    offset = place(h, bytes, &range);
  }
  if (offset == UINT64_MAX) {
    if (id) block_drop(h, id);
    const uint64_t used = h->n_used << HEAP_GRANULE_SHIFT;
    pthread_mutex_unlock(&h->lock);
    return refuse(h, requested, used);
  }
  heap_block *b = &h->block[id];
  b->range = range;
  atomic_store_explicit(&b->address, h->config.window + offset, memory_order_relaxed);
  atomic_store_explicit(&b->requested, requested, memory_order_relaxed);
  atomic_store_explicit(&b->number, ++h->n_allocations, memory_order_relaxed);
  atomic_store_explicit(&b->call, call, memory_order_relaxed);
  atomic_store_explicit(&b->site, site, memory_order_relaxed);
  atomic_store_explicit(&b->bytes, bytes, memory_order_release);
  mark(h, offset, bytes, id);
  const bool hit = h->n_commits == commits;
  if (unlikely(hooks_any())) hooks_alloc(told(h, b));
  pthread_mutex_unlock(&h->lock);
  heap_stats_alloc(&h->stats, begun, bytes, requested, hit);
  *out = (void *)(h->config.window + offset);
  return ST_OK;
}

static uint32_t find_id(const heap *h, uintptr_t address) {
  const uint64_t offset = address - h->config.window;
  if (offset >= h->config.window_bytes) return 0;
  const uint32_t id = atomic_load_explicit(&h->granules[offset >> HEAP_GRANULE_SHIFT].block, memory_order_acquire);
  return id ? id : atomic_load_explicit(&h->units[offset >> h->config.unit_shift], memory_order_acquire);
}

const heap_block *heap_find(const heap *h, uintptr_t address) {
  const uint32_t id = find_id(h, address);
  return id ? &h->block[id] : NULL;
}

status heap_free(heap *h, uintptr_t address, const char *name, void *site) {
  const uint64_t begun = heap_stats_begin(&h->stats);
  pthread_mutex_lock(&h->lock);
  const uint32_t id = find_id(h, address);
  heap_block *b = &h->block[id];
  if (!id || atomic_load_explicit(&b->address, memory_order_relaxed) != address) {
    const uintptr_t start = id ? atomic_load_explicit(&b->address, memory_order_relaxed) : 0;
    const uint64_t requested = id ? atomic_load_explicit(&b->requested, memory_order_relaxed) : 0;
    pthread_mutex_unlock(&h->lock);
    if (start)
      return fail(ST_INVALID_VALUE, "%s is %p, inside the block of %ju bytes at %p, expected a block's start", name,
                  (void *)address, (uintmax_t)requested, (void *)start);
    return fail(ST_INVALID_VALUE, "%s is %p, no live block of %s (freed before?)", name, (void *)address,
                h->config.name);
  }
  const uint64_t bytes = atomic_load_explicit(&b->bytes, memory_order_relaxed);
  const uint64_t requested = atomic_load_explicit(&b->requested, memory_order_relaxed);
  if (unlikely(hooks_any())) hooks_free(told(h, b), site);
  mark(h, address - h->config.window, bytes, 0);
  atomic_store_explicit(&b->bytes, 0, memory_order_relaxed);
  b->parked_bytes = bytes;
  if (h->config.fences && h->config.fences->pending()) {
    b->next = h->parked;
    h->parked = id;
  } else {
    release(h, id);
  }
  if (h->parked) settle(h);
  heap_stats_free(&h->stats, begun, bytes, requested);
  pthread_mutex_unlock(&h->lock);
  return ST_OK;
}

status heap_take_pages(heap *h, uint64_t bytes, uint64_t *offset) {
  uint32_t first;
  const uint64_t n = granules_of(bytes), begun = heap_stats_begin(&h->stats);
  pthread_mutex_lock(&h->lock);
  const uint64_t commits = h->n_commits;
  if (h->parked || h->fence) settle(h);
  range_id run = n <= n_granules(h) ? take_run(h, (uint32_t)n, &first) : 0;
  if (!run && (h->parked || h->closing)) {
    release_all(h, &h->closing);
    release_all(h, &h->parked);
    run = n <= n_granules(h) ? take_run(h, (uint32_t)n, &first) : 0;
  }
  const uint64_t used = h->n_used << HEAP_GRANULE_SHIFT;
  if (run) {
    h->granules[first].run = run;
    *offset = (uint64_t)first << HEAP_GRANULE_SHIFT;
  }
  const bool hit = h->n_commits == commits;
  pthread_mutex_unlock(&h->lock);
  if (!run) return refuse(h, bytes, used);
  heap_stats_alloc(&h->stats, begun, bytes, bytes, hit);
  return ST_OK;
}

void heap_give_pages(heap *h, uint64_t offset, uint64_t bytes) {
  const uint64_t first = offset >> HEAP_GRANULE_SHIFT, begun = heap_stats_begin(&h->stats);
  pthread_mutex_lock(&h->lock);
  give_run(h, h->granules[first].run, first, granules_of(bytes));
  heap_stats_free(&h->stats, begun, bytes, bytes);
  pthread_mutex_unlock(&h->lock);
}

int heap_file(const heap *h) { return h->file; }

void heap_info(heap *h, uint64_t *free_bytes, uint64_t *total_bytes) {
  pthread_mutex_lock(&h->lock);
  if (h->parked || h->fence) settle(h);
  const uint64_t used = h->n_used << HEAP_GRANULE_SHIFT;
  pthread_mutex_unlock(&h->lock);
  *total_bytes = h->config.size_bytes;
  *free_bytes = used < h->config.size_bytes ? h->config.size_bytes - used : 0;
}

void heap_each_block(heap *h, void (*visit)(const heap_block *, void *), void *argument) {
  pthread_mutex_lock(&h->lock);
  for (uint32_t id = 1; id < h->n_blocks; ++id)
    if (atomic_load_explicit(&h->block[id].bytes, memory_order_relaxed)) visit(&h->block[id], argument);
  pthread_mutex_unlock(&h->lock);
}
