/* Stable sorting of indices by 64-bit keys: radix sort, linear, without allocation. */
#ifndef CANNON_PLAN_RADIX_SORT_H
#define CANNON_PLAN_RADIX_SORT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
  uint64_t key;
  uint32_t index;
} keyed;

/* Ascending by key; equal keys stay in order. spare has n elements, too. */
void sort_keyed(keyed *a, keyed *spare, size_t n);

/* A key that orders doubles from the largest to the smallest. */
static inline uint64_t descending_key(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits >> 63 ? bits : ~bits & ~((uint64_t)1 << 63);
}

#endif
