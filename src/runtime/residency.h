/* What a cache holds: the ranges that were used last, whole, as far as they fit. A model of a device's L2, for the
 * roofline. The caller serialises. */
#ifndef CANNON_RUNTIME_RESIDENCY_H
#define CANNON_RUNTIME_RESIDENCY_H

#include <stdbool.h>
#include <stdint.h>

/* More than these are forgotten, least recently used first. */
enum { RESIDENCY_RANGES = 64 };

typedef struct {
  struct {
    uintptr_t start, end;
  } range[RESIDENCY_RANGES]; /* disjoint, least recently used first */
  int n;
  uint64_t bytes; /* their sum */
} residency;

/* Uses [start, start + bytes) in a cache of `capacity` bytes: how many of them it held before. A range larger than the
 * cache leaves it empty: what a second pass asks for first went last. */
uint64_t residency_touch(residency *r, uint64_t capacity, uintptr_t start, uint64_t bytes);

/* Whether the ranges are disjoint and their sum is right (base/invariant.h). */
bool residency_is_valid(const residency *r);

#endif
