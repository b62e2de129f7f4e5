/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled once per instruction set level; see pooling_loops.h. */
#include <math.h>
#include <stddef.h>

#include "kernel/engine/level.h"
#include "kernel/pooling/pooling_loops.h"

#ifdef __AVX512DQ__
#  include <immintrin.h>

#  include "kernel/engine/lanes.h"
#endif
#include "kernel/engine/unroll.h"

#define IS_NAN(x) ((x) != (x)) /* false for integers */

#define T       float
#define NAME(f) f##_f32
#include "kernel/pooling/pooling_max.inc"

#define T       double
#define NAME(f) f##_f64
#include "kernel/pooling/pooling_max.inc"

#define T       int32_t
#define NAME(f) f##_i32
#include "kernel/pooling/pooling_max.inc"

#define T       int64_t
#define NAME(f) f##_i64
#include "kernel/pooling/pooling_max.inc"

/* ---- rows whose maxima stay in registers ------------------------------------------------------------------------- */

#ifdef __AVX512DQ__
enum { LANES = 16 };

/* Loads x[lane * stride] for the lanes in the mask. stride is 1 or 2. */
INLINE __m512 read_lanes(const float *x, __mmask16 lanes, int stride) {
  if (stride == 1) return _mm512_maskz_loadu_ps(lanes, x);
  const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  const uint32_t both = _pdep_u32(lanes, 0x55555555);
  return _mm512_permutex2var_ps(_mm512_maskz_loadu_ps((__mmask16)both, x), even,
                                _mm512_maskz_loadu_ps((__mmask16)(both >> LANES), x + LANES));
}

INLINE void max_row_of(const max_row *r, int stride, bool has_positions) {
  const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const __m512i steps = _mm512_mullo_epi32(lane, _mm512_set1_epi32(stride));
  for (int64_t o = 0; o < r->n; o += LANES) {
    __m512 best = _mm512_set1_ps(-INFINITY);
    __m512i at = _mm512_set1_epi32(-1);
    const float *line = r->x + o * stride;
    int32_t position = r->position + (int32_t)o * stride;
    for (int64_t l = 0; l < r->lines; ++l, line += r->line, position += r->position_line)
      for (int64_t t = 0; t < r->n_taps; ++t) {
        const __mmask16 lanes = lanes_first(r->taps[t].high - o) & (__mmask16)~lanes_first(r->taps[t].low - o);
        const __m512 v = read_lanes(line + t * r->dilation, lanes, stride);
        __mmask16 take = _mm512_mask_cmp_ps_mask(lanes, v, best, _CMP_GT_OQ);
        take |= _mm512_mask_cmp_ps_mask(lanes, v, v, _CMP_UNORD_Q);
        if (has_positions) {
          take |= lanes & _mm512_movepi32_mask(at);
          at = _mm512_mask_add_epi32(at, take, steps, _mm512_set1_epi32(position + (int32_t)(t * r->dilation)));
        }
        best = _mm512_mask_mov_ps(best, take, v);
      }
    _mm512_mask_storeu_ps(r->best + o, lanes_first(r->n - o), best);
    if (has_positions) _mm512_mask_storeu_epi32(r->at + o, lanes_first(r->n - o), at);
  }
}

static void row_f32(const max_row *r) {
  if (r->stride == 1)
    r->at ? max_row_of(r, 1, true) : max_row_of(r, 1, false);
  else
    r->at ? max_row_of(r, 2, true) : max_row_of(r, 2, false);
}
#  define ROW_F32 row_f32
#else
#  define ROW_F32 NULL
#endif

/* ---- rows by columns --------------------------------------------------------------------------------------------- */

#ifdef __AVX512DQ__
/* Loads x[lane * stride] for all lanes. */
INLINE __m512 read_strided(const float *x, int64_t stride) {
  const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  if (stride == 1) return _mm512_loadu_ps(x);
  if (stride == 2) return _mm512_permutex2var_ps(_mm512_loadu_ps(x), even, _mm512_loadu_ps(x + LANES));
  if (stride == 4)
    return _mm512_permutex2var_ps(
        _mm512_permutex2var_ps(_mm512_loadu_ps(x), even, _mm512_loadu_ps(x + LANES)), even,
        _mm512_permutex2var_ps(_mm512_loadu_ps(x + 2 * LANES), even, _mm512_loadu_ps(x + 3 * LANES)));
  const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  return _mm512_i32gather_ps(_mm512_mullo_epi32(lane, _mm512_set1_epi32((int)stride)), x, sizeof *x);
}

/* line[i] becomes the largest number of a column. Returns the lanes in which some vector has a NaN. */
INLINE __mmask16 max_lines(const max_columns *c) {
  const __m512 least = _mm512_set1_ps(-INFINITY);
  __mmask16 found = 0;
  for (int64_t i = 0; i < c->width; i += LANES) {
    const float *x = c->x + i - c->first;
    const __mmask16 lanes = lanes_first(c->first + c->in - i) & (__mmask16)~lanes_first(c->first - i);
    __m512 best = least;
    for (int64_t l = 0; l < c->lines; ++l, x += c->pitch) {
      const __m512 v = _mm512_mask_loadu_ps(least, lanes, x);
      found |= _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
      best = _mm512_max_ps(v, best);
    }
    _mm512_storeu_ps(c->line + i, best);
  }
  return found;
}

INLINE void max_taps(const max_columns *c, int64_t stride) {
  for (int64_t o = 0; o < c->n; o += LANES) {
    __m512 best = _mm512_set1_ps(-INFINITY);
    for (int64_t t = 0; t < c->n_taps; ++t)
      best = _mm512_max_ps(read_strided(c->line + o * stride + t * c->dilation, stride), best);
    _mm512_mask_storeu_ps(c->best + o, lanes_first(c->n - o), best);
  }
}
#else
INLINE float pooling_larger(float v, float best) { return v > best ? v : best; }

/* line[i] becomes the largest number of a column. Returns whether there is a NaN. */
INLINE int max_lines(const max_columns *c) {
  float *restrict line = c->line + c->first;
  const int64_t in = c->in < c->width - c->first ? c->in : c->width - c->first;
  int found = 0;
  for (int64_t i = 0; i < c->width; ++i) c->line[i] = -INFINITY;
  for (int64_t l = 0; l < c->lines; ++l) {
    const float *restrict x = c->x + l * c->pitch;
    for (int64_t i = 0; i < in; ++i) {
      line[i] = pooling_larger(x[i], line[i]);
      found |= IS_NAN(x[i]);
    }
  }
  return found;
}

INLINE void max_taps(const max_columns *c, int64_t stride) {
  float *restrict best = c->best;
  for (int64_t i = 0; i < c->n; ++i) best[i] = -INFINITY;
  for (int64_t t = 0; t < c->n_taps; ++t) {
    const float *restrict line = c->line + t * c->dilation;
    for (int64_t i = 0; i < c->n; ++i) best[i] = pooling_larger(line[i * stride], best[i]);
  }
}
#endif

static bool columns_f32(const max_columns *c) {
  if (max_lines(c)) return false;
  switch (c->stride) {
  case 1: max_taps(c, 1); break;
  case 2: max_taps(c, 2); break;
  case 4: max_taps(c, 4); break;
  default: max_taps(c, c->stride);
  }
  return true;
}

/* Tests all positions in one pass: if one is outside of [0, end), it or end - 1 minus it has its sign bit set. */
static int64_t first_outside(const int64_t *position, int64_t end, int64_t n) {
  int64_t signs = 0, i = 0;
  for (int64_t k = 0; k < n; ++k) signs |= position[k] | (end - 1 - position[k]);
  if (signs >= 0) return n;
  while (position[i] >= 0 && position[i] < end) ++i;
  return i;
}

const max_loops_table LEVELED(max_loops_table) = {
    .of =
        {
            [COMPUTE_F32] = {step_f32, scan_f32, fill_f32, add_f32},
            [COMPUTE_F64] = {step_f64, scan_f64, fill_f64, add_f64},
            [COMPUTE_I32] = {step_i32, scan_i32, fill_i32, add_i32},
            [COMPUTE_I64] = {step_i64, scan_i64, fill_i64, add_i64},
        },
    .row_f32 = ROW_F32,
    .columns_f32 = columns_f32,
    .first_outside = first_outside,
};
