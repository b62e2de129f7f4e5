/* A float is exactly the sum of three bfloat16s, so that its products may be made of theirs (TILE_F32_PARTS; conv/direct_pairs.h):
 * where exponents allow it, which packing looks at. */
#ifndef CANNON_KERNEL_PRODUCT_FLOAT_PARTS_H
#define CANNON_KERNEL_PRODUCT_FLOAT_PARTS_H

#include <stdbool.h>
#include <stdint.h>

/* Exponents, as floats have them, of the least and the largest number that is not 0. */
typedef struct {
  uint8_t least, most;
} float_exponents;

static const float_exponents float_no_exponents = {.least = UINT8_MAX};

static inline void float_add_exponents(float_exponents *to, float_exponents x) {
  if (to->least > x.least) to->least = x.least;
  if (to->most < x.most) to->most = x.most;
}

/* The same by several threads. */
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

/* Whether products of these are as exact by parts as in float: all are finite, no part and no product of parts that counts
 * is below 2^-126, which AMX takes for 0, and no sum comes near to an infinity. */
static inline bool float_parts_suffice(float_exponents a, float_exponents b) {
  enum { BIAS = 127, LEAST = BIAS - 100, LEAST_SUM = 2 * BIAS - 102, MOST = 2 * BIAS - 1, MOST_SUM = 2 * BIAS + 100 };
  return a.least >= LEAST && b.least >= LEAST && a.least + b.least >= LEAST_SUM && a.most < MOST && b.most < MOST &&
         a.most + b.most <= MOST_SUM;
}

#endif
