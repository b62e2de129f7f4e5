/* SPDX-License-Identifier: Apache-2.0 */
/* A model of the content of a device's L2 cache: the address ranges that were used last, each as a whole, as far as
 * they fit. Used by op/account.c for the roofline. Not thread-safe. */
#ifndef CANNON_RUNTIME_MEMORY_RESIDENCY_H
#define CANNON_RUNTIME_MEMORY_RESIDENCY_H

#include <stdbool.h>
#include <stdint.h>

/* If there are more ranges, the least recently used ones are forgotten. */
enum { RESIDENCY_RANGES = 64 };

typedef struct {
  struct {
    uintptr_t start, end;
  } range[RESIDENCY_RANGES]; /* disjoint, least recently used first */
  int n;
  uint64_t bytes; /* their sum */
} residency;

/* Accesses [start, start + bytes) through a cache of `capacity` bytes. Returns how many of these bytes it held before.
 * A range larger than the cache leaves it empty, since a second pass would find none of the bytes it needs first. */
uint64_t residency_touch(residency *r, uint64_t capacity, uintptr_t start, uint64_t bytes);

/* Whether the ranges are disjoint and their sum is `bytes` (base/invariant.h). */
bool residency_is_valid(const residency *r);

#endif
