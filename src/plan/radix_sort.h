/* SPDX-License-Identifier: Apache-2.0 */
/* Stable radix sort of indices by 64-bit keys, in linear time and without allocation. */
#ifndef CANNON_PLAN_RADIX_SORT_H
#define CANNON_PLAN_RADIX_SORT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
  uint64_t key;
  uint32_t index;
} keyed;

/* Sorts ascending by key; elements with equal keys keep their order. `spare` is scratch of n elements. */
void keyed_sort(keyed *a, keyed *spare, size_t n);

/* Returns a key that sorts doubles in descending order. */
static inline uint64_t keyed_descending(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits >> 63 ? bits : ~bits & ~((uint64_t)1 << 63);
}

#endif
