/* Disjoint intervals of addresses, in order: a growing array that is searched by bisection. The items are structs of
 * one size whose first member is an `interval`; pointers to them are good until the next insertion or removal. The
 * caller serialises calls.
 *
 * Inserting moves what is behind: right for some thousand intervals; beyond, a tree would be better. */
#ifndef CANNON_MEMORY_INTERVALS_H
#define CANNON_MEMORY_INTERVALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
  uintptr_t start;
  uint64_t bytes;
} interval;

typedef struct {
  size_t item_bytes; /* set by the owner; the rest starts as 0 */
  size_t n, capacity;
  char *items;
} intervals;

/* The item that holds the address, or NULL. */
void *intervals_find(const intervals *all, uintptr_t address);

/* The first item that touches [start, start + bytes), or NULL. */
void *intervals_overlap(const intervals *all, uintptr_t start, uint64_t bytes);

/* Adds a copy of *item, which overlaps none; NULL without memory. */
void *intervals_insert(intervals *all, const void *item);

void intervals_remove(intervals *all, void *item);

/* The lowest start of `bytes` free ones within [low, high), a multiple of alignment (a power of two); 0 where there is
 * none. */
uintptr_t intervals_gap(const intervals *all, uintptr_t low, uintptr_t high, uint64_t bytes, uint64_t alignment);

#endif
