/* Places for blocks: which addresses of a window are free, and which of those have memory behind them. What exists:
 *
 *   line      a part of the window in order: one for small blocks, by units, one for large ones, by pages, so that small
 *             blocks that live long do not cut up the room of large ones
 *   cached    free and with memory behind it: handed out first, at no cost
 *   bare      free addresses, no more
 *
 * Addresses are many times the memory, so a place is never wanting. Where no cached range is long enough, bare addresses get
 * memory: fresh memory while there is little fragmentation, else the granules of cached ranges move there (pages.h), and
 * what is too short to move goes back to the host. So what is charged stays within some 2 % of what was in use at the peak,
 * and nothing is refused while enough memory is free anywhere. The caller serialises calls. */
#ifndef CANNON_MEMORY_HEAP_STORE_H
#define CANNON_MEMORY_HEAP_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "memory/heap/pages.h"
#include "memory/heap/ranges.h"

enum {
  STORE_SMALL_BYTES = 256 << 10, /* the small line's longest */
};

typedef struct store store;

typedef struct {
  uint64_t offset; /* in the window */
  uint32_t n_units;
  range_id range;
  bool large;
} placement;

/* Bytes at the start of the window that are the large line's. */
static inline uint64_t store_large_bytes(uint64_t window_bytes) {
  return window_bytes - ((window_bytes / 4) & -(uint64_t)GRANULE_BYTES);
}

/* unit_shift: of the small line. */
status store_create(const pages_config *config, const char *name, unsigned unit_shift, store **out);
void store_destroy(store *s); /* only before anything was taken */

/* What a block of so many bytes takes: units of its line, of which there are 2^shift bytes each. */
static inline bool store_is_large(uint64_t bytes) { return bytes > STORE_SMALL_BYTES; }
static inline uint64_t store_units(uint64_t bytes, unsigned shift) { return bytes ? ((bytes - 1) >> shift) + 1 : 0; }

/* A place for `bytes`; only a cached one unless `grow`. False where there is none. */
bool store_take(store *s, uint64_t bytes, bool grow, placement *out);
void store_give(store *s, const placement *p);

/* Cuts a place after its first n_units, and joins it to the one before; false where that can't be. */
bool store_cut(store *s, placement *p, uint32_t n_units, placement *rest);
bool store_join(store *s, placement *p, const placement *after);

/* Memory without an address (pages.h), in bytes, a multiple of the granule; caches make room for it. */
bool store_take_loose(store *s, uint64_t bytes, uint64_t *offset);
void store_give_loose(store *s, uint64_t offset, uint64_t bytes);

/* Gives cached memory back to the host, the longest ranges first, until n_pages are or none is left. */
void store_trim(store *s, uint64_t n_pages);

/* In bytes; used is what places take, loose memory (pages.h) included; committed is all that is charged. */
uint64_t store_used(const store *s);
uint64_t store_peak(const store *s); /* highest so far */
uint64_t store_committed(const store *s);

/* In bytes, at the cost of a walk over the free ranges: the whole pages that are cached, and the longest place that is. */
uint64_t store_idle(const store *s, uint64_t *longest);

pages *store_pages(const store *s);

#endif
