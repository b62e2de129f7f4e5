/* SPDX-License-Identifier: Apache-2.0 */
/* Common parts of the unit tests: cmocka, and random numbers that are the same in every run. */
#ifndef CANNON_TESTS_UNIT_UNIT_H
#define CANNON_TESTS_UNIT_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The library defines a macro `fail`, too; the tests keep the library's and hide cmocka's. */
#pragma push_macro("fail")
#undef fail
#include <cmocka.h>
#undef fail
#pragma pop_macro("fail")

#include "slow.h"

/* How many random cases, of n on an ordinary build. */
#define ROUNDS(n) (SLOWED_DOWN ? (n) / 10 : (n))

/* splitmix64 */
typedef struct {
  uint64_t state;
} random_source;

static inline uint64_t random_next(random_source *r) {
  uint64_t z = r->state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

/* A random number from 0 to n - 1. */
static inline uint32_t random_below(random_source *r, uint32_t n) { return (uint32_t)(random_next(r) >> 32) % n; }

#define COUNT(array) (sizeof(array) / sizeof *(array))

#endif
