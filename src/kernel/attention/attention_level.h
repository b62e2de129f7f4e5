/* SPDX-License-Identifier: Apache-2.0 */
/* Inner loops of attention over rows, for one instruction set level (engine/level.h). Arrays are contiguous floats in
 * cache, unless stated otherwise. The functions have no state. exp2: relative error below 2^-22; results below 2^-126
 * are flushed to 0. */
#ifndef CANNON_KERNEL_ATTENTION_ATTENTION_LEVEL_H
#define CANNON_KERNEL_ATTENTION_ATTENTION_LEVEL_H

#include <stdint.h>

#define LOG2_E 1.44269504088896340736f

typedef enum { OPERAND_F32, OPERAND_BF16, OPERAND_F16, N_OPERAND } operand_type;

typedef struct {
  /* Maximum, ignoring NaN; -inf for an empty row. */
  float (*max)(const float *x, int64_t n);
  /* y[i] = 2^(factor x[i] - shift), rounded to the type. Returns the sum of the values before rounding. y may be x. */
  float (*exp2[N_OPERAND])(void *y, const float *x, float factor, float shift, int64_t n);
  /* x = a x; x = a x + b y; x = x y (elementwise) */
  void (*scale)(float *x, float a, int64_t n);
  void (*axpby)(float *x, float a, const float *y, float b, int64_t n);
  void (*multiply)(float *x, const float *y, int64_t n);
  /* x[i] = -inf where mask[i] is not 0 */
  void (*hide)(float *x, const uint8_t *mask, int64_t n);
  /* y[i] = bit `first + i` of bits ? keep : 0 */
  void (*bits)(float *y, const uint8_t *bits, int64_t first, float keep, int64_t n);
  /* ds[i] = p[i] (dp[i] - delta); ds may be dp */
  void (*gradient)(float *ds, const float *p, const float *dp, float delta, int64_t n);
  float (*dot)(const float *x, const float *y, int64_t n);
  /* Converts rows to floats, to[i * ld + c]; row_bytes is the distance of the source rows. */
  void (*widen[N_OPERAND])(float *to, int64_t ld, const void *from, int64_t row_bytes, int64_t rows, int64_t n);
  void (*narrow[N_OPERAND])(void *to, const float *x, int64_t n);
  /* Dot products s[r * lds + k] = q_r . key_k for r < rows, k < n; keys are ld floats apart, queries ldq. */
  void (*dots)(float *s, int64_t lds, const float *q, int64_t ldq, int64_t rows, int64_t d, const float *key,
               int64_t ld, int64_t n);
  /* o_r += sum over k of p[r * ldp + k] * value_k. */
  void (*sums)(float *o, int64_t ldo, const float *p, int64_t ldp, int64_t rows, int64_t d, const float *value,
               int64_t ld, int64_t n);
} attention_loops;

extern const attention_loops *attention_rows; /* set before main */

#endif
