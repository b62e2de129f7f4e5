/* SPDX-License-Identifier: Apache-2.0 */
/* Exponent ranges of float32 data. A float32 is exactly the sum of three bfloat16 values (high, middle, low), so a
 * float32 GEMM can be computed from bfloat16 products (TILE_F32_PARTS; conv/direct/direct_pairs.h) as long as the
 * exponents are within limits. Packing records the exponents, and float_parts_suffice decides. */
#ifndef CANNON_KERNEL_PRODUCT_FLOAT_PARTS_H
#define CANNON_KERNEL_PRODUCT_FLOAT_PARTS_H

#include <stdbool.h>
#include <stdint.h>

/* Biased exponents of the smallest and the largest magnitude that is not 0. */
typedef struct {
  uint8_t least, most;
} float_exponents;

static const float_exponents float_no_exponents = {.least = UINT8_MAX};

/* Extends the range *to by the range x. */
static inline void float_add_exponents(float_exponents *to, float_exponents x) {
  if (to->least > x.least) to->least = x.least;
  if (to->most < x.most) to->most = x.most;
}

/* As float_add_exponents, but `to` may be updated by several threads at once. */
static inline void float_join_exponents(float_exponents *to, float_exponents x) {
  uint8_t least = __atomic_load_n(&to->least, __ATOMIC_RELAXED), most = __atomic_load_n(&to->most, __ATOMIC_RELAXED);
  while (x.least < least &&
         !__atomic_compare_exchange_n(&to->least, &least, x.least, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  while (x.most > most &&
         !__atomic_compare_exchange_n(&to->most, &most, x.most, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

static inline bool float_all_finite(float_exponents x) { return x.most < UINT8_MAX; }

/* Whether products of such numbers are as exact from bfloat16 parts as in float arithmetic: all are finite, no relevant
 * part or product of parts is below 2^-126, which AMX would flush to 0, and no sum comes close to overflow. */
static inline bool float_parts_suffice(float_exponents a, float_exponents b) {
  enum { BIAS = 127, LEAST = BIAS - 100, LEAST_SUM = 2 * BIAS - 102, MOST = 2 * BIAS - 1, MOST_SUM = 2 * BIAS + 100 };
  return a.least >= LEAST && b.least >= LEAST && a.least + b.least >= LEAST_SUM && a.most < MOST && b.most < MOST &&
         a.most + b.most <= MOST_SUM;
}

#endif
