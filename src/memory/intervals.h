/* SPDX-License-Identifier: Apache-2.0 */
/* A set of disjoint address intervals: a growing sorted array, searched by bisection. The items are structs of one size
 * whose first member is an `interval`; pointers to them are valid until the next insertion or removal. Used by
 * vmm/reservation.c and registered.c; calls nobody. Not thread-safe: the caller serialises calls.
 *
 * An insertion moves all items behind it, which is fast enough for some thousand intervals; for more, a tree would be
 * better. */
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
  size_t item_bytes; /* set by the owner; the other fields start as 0 */
  size_t n, capacity;
  char *items;
} intervals;

/* The item that holds the address, or NULL. */
void *intervals_find(const intervals *all, uintptr_t address);

/* The first item that overlaps [start, start + bytes), or NULL. */
void *intervals_overlap(const intervals *all, uintptr_t start, uint64_t bytes);

/* Adds a copy of *item, which is not empty and overlaps none; returns the copy, or NULL without memory. */
void *intervals_insert(intervals *all, const void *item);

void intervals_remove(intervals *all, void *item);

/* The lowest address in [low, high) that is a multiple of alignment, a power of two, and from which `bytes` addresses
 * are free; 0 where there is none. */
uintptr_t intervals_gap(const intervals *all, uintptr_t low, uintptr_t high, uint64_t bytes, uint64_t alignment);

/* Only in builds with CANNON_INVARIANTS: whether the items are in order, not empty and disjoint. */
bool intervals_is_valid(const intervals *all);

#endif
