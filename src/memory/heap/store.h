/* SPDX-License-Identifier: Apache-2.0 */
/* Decides at which addresses of a heap's window blocks are placed, and which free addresses have memory. Used by the
 * heap; calls ranges.h and pages.h. Terms:
 *
 *   line      a contiguous part of the window. There are two, so that long-lived small blocks do not fragment the
 *             addresses for large ones: the small line for blocks of up to 256 KiB, in units of 1 << unit_shift
 *             bytes, and the large line, in pages
 *   cached    a free range of addresses with memory: handed out first, at no cost
 *   bare      a free range of addresses without memory
 *
 * The window has many times the memory's addresses, so they do not run out. Where no cached range is long enough, bare
 * addresses get memory: fresh memory while fragmentation is low, else granules of cached ranges move there (pages.h),
 * and cached ranges that are too short to move are given back to the host. So charged memory stays within some 2 % of
 * the peak of memory in use, and nothing is refused while enough memory is free anywhere. Not thread-safe: the caller
 * serialises calls. */
#ifndef CANNON_MEMORY_HEAP_STORE_H
#define CANNON_MEMORY_HEAP_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "memory/heap/pages.h"
#include "memory/heap/ranges.h"

enum {
  STORE_SMALL_BYTES = 256 << 10, /* longest block of the small line */
};

typedef struct store store;

/* Where a block is: its owner gives it back by store_give. */
typedef struct {
  uint64_t offset;  /* in bytes from the start of the window */
  uint32_t n_units; /* of its line */
  range_id range;   /* in its line's ranges */
  bool large;       /* which line */
} placement;

/* Length of the large line, which is at the start of the window; the small line is the rest. */
static inline uint64_t store_large_bytes(uint64_t window_bytes) {
  return window_bytes - ((window_bytes / 4) & -(uint64_t)GRANULE_BYTES);
}

/* unit_shift: units of the small line have 1 << unit_shift bytes (9 to 12). name: for messages. ST_NO_HOST_MEMORY or
 * ST_NO_MEMORY. */
status store_create(const pages_config *config, const char *name, unsigned unit_shift, store **out);
void store_destroy(store *s); /* allowed only while nothing is taken */

/* The line of a block of so many bytes, and the number of units of 1 << shift bytes that it takes. */
static inline bool store_is_large(uint64_t bytes) { return bytes > STORE_SMALL_BYTES; }
static inline uint64_t store_units(uint64_t bytes, unsigned shift) { return bytes ? ((bytes - 1) >> shift) + 1 : 0; }

/* Takes a place for a block of `bytes` >= 1. Without `grow` only a cached range is used, and nothing is charged. False
 * where there is no place. */
bool store_take(store *s, uint64_t bytes, bool grow, placement *out);

/* Gives a place back; its memory stays cached. */
void store_give(store *s, const placement *p);

/* Cuts a place behind its first n_units, and the rest becomes a place of its own; false without memory. */
bool store_cut(store *s, placement *p, uint32_t n_units, placement *rest);

/* Joins the place `after` to *p, after which `after` is no place any more; false where it does not start where *p
 * ends. */
bool store_join(store *s, placement *p, const placement *after);

/* Takes memory without an address (pages.h): `bytes` is a multiple of the granule; *offset is its place in the file.
 * Gives cached memory back where there is no room otherwise. False where it is refused. */
bool store_take_loose(store *s, uint64_t bytes, uint64_t *offset);
void store_give_loose(store *s, uint64_t offset, uint64_t bytes);

/* Gives n_pages of cached memory back to the host, or all of it where that is less. */
void store_trim(store *s, uint64_t n_pages);

/* In bytes: what places take, loose memory included; the highest value of that; all that is charged. */
uint64_t store_used(const store *s);
uint64_t store_peak(const store *s);
uint64_t store_committed(const store *s);

/* Bytes of whole cached pages; *longest: bytes of the longest cached range. Walks over all cached ranges. */
uint64_t store_idle(const store *s, uint64_t *longest);

pages *store_pages(const store *s);

/* Only in builds with CANNON_INVARIANTS: whether lines, accounts and charged pages agree; whether the place is one that
 * was taken; bytes of all places, without loose memory. */
bool store_is_valid(const store *s);
bool store_has(const store *s, const placement *p);
uint64_t store_placed_bytes(const store *s);

#endif
