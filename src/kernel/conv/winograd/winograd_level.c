/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled once per instruction set level; see winograd_tiles.h. */
#include "kernel/conv/winograd/winograd_tiles.h"
#include "kernel/engine/level.h"
#include "kernel/engine/unroll.h"

#if defined __AVX512F__
enum { LANES = 16 };
#  define LOW  0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#  define HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif defined __AVX2__
enum { LANES = 8 };
#  define LOW  0, 8, 1, 9, 2, 10, 3, 11
#  define HIGH 4, 12, 5, 13, 6, 14, 7, 15
#else
enum { LANES = 4 };
#  define LOW  0, 4, 1, 5
#  define HIGH 2, 6, 3, 7
#endif

typedef float vec __attribute__((vector_size(LANES * sizeof(float))));
typedef float loose __attribute__((vector_size(LANES * sizeof(float)), aligned(sizeof(float)), may_alias));

INLINE vec winograd_load(const float *x) { return *(const loose *)(const void *)x; }
INLINE void winograd_store(float *x, vec v) { *(loose *)(void *)x = v; }

INLINE void winograd_inputs_1d(const vec d[4], vec v[4]) {
  v[0] = d[0] - d[2];
  v[1] = d[1] + d[2];
  v[2] = d[2] - d[1];
  v[3] = d[1] - d[3];
}

INLINE void winograd_weights_1d(const vec g[3], vec u[4]) {
  const vec ends = g[0] + g[2];
  u[0] = g[0];
  u[1] = ends + g[1];
  u[2] = ends - g[1];
  u[3] = g[2];
}

INLINE void winograd_outputs_1d(const vec m[4], vec y[2]) {
  const vec half = (vec){0} + 0.5F;
  y[0] = m[0] + (m[1] + m[2]) * half;
  y[1] = (m[1] - m[2]) * half - m[3];
}

static void winograd_weights(float *u, int64_t step, const float *w, bool mirrored) {
  for (int i = 0; i < WINOGRAD_LANES; i += LANES) {
    vec columns[3][4]; /* columns of the kernel, transformed */
    UNROLL for (int c = 0; c < 3; ++c) {
      vec g[3];
      UNROLL for (int r = 0; r < 3; ++r) g[r] =
          winograd_load(w + (mirrored ? 8 - 3 * r - c : 3 * r + c) * WINOGRAD_LANES + i);
      winograd_weights_1d(g, columns[c]);
    }
    UNROLL for (int r = 0; r < 4; ++r) {
      const vec g[3] = {columns[0][r], columns[1][r], columns[2][r]};
      vec out[4];
      winograd_weights_1d(g, out);
      UNROLL for (int c = 0; c < 4; ++c) winograd_store(u + (4 * r + c) * step + i, out[c]);
    }
  }
}

INLINE void winograd_gradients_1d(const vec e[2], vec u[4]) {
  u[0] = e[0];
  u[1] = e[0] + e[1];
  u[2] = e[0] - e[1];
  u[3] = e[1];
}

INLINE void winograd_taps_1d(const vec m[4], vec g[3]) {
  const vec half = (vec){0} + 0.5F, sum = (m[1] + m[2]) * half;
  g[0] = m[0] + sum;
  g[1] = (m[1] - m[2]) * half;
  g[2] = sum - m[3];
}

static void winograd_inputs(float *v, int64_t step, const float *x, const int64_t *tap, int64_t n) {
  for (int64_t i = 0; i < n; i += LANES) {
    vec columns[4][4];
    UNROLL for (int c = 0; c < 4; ++c) {
      vec d[4];
      UNROLL for (int r = 0; r < 4; ++r) d[r] = winograd_load(x + tap[4 * r + c] + i);
      winograd_inputs_1d(d, columns[c]);
    }
    UNROLL for (int r = 0; r < 4; ++r) {
      const vec d[4] = {columns[0][r], columns[1][r], columns[2][r], columns[3][r]};
      vec out[4];
      winograd_inputs_1d(d, out);
      UNROLL for (int c = 0; c < 4; ++c) winograd_store(v + (4 * r + c) * step + i, out[c]);
    }
  }
}

static void winograd_gradients(float *u, int64_t step, const float *x, const int64_t *tap, int64_t n) {
  for (int64_t i = 0; i < n; i += LANES) {
    vec columns[2][4];
    UNROLL for (int c = 0; c < 2; ++c) {
      const vec e[2] = {winograd_load(x + tap[c] + i), winograd_load(x + tap[2 + c] + i)};
      winograd_gradients_1d(e, columns[c]);
    }
    UNROLL for (int r = 0; r < 4; ++r) {
      const vec e[2] = {columns[0][r], columns[1][r]};
      vec out[4];
      winograd_gradients_1d(e, out);
      UNROLL for (int c = 0; c < 4; ++c) winograd_store(u + (4 * r + c) * step + i, out[c]);
    }
  }
}

/* 0 if v is finite, otherwise NaN. */
INLINE vec oddness(vec v) { return v - v; } // NOLINT(misc-redundant-expression)

/* Returns whether the first n lanes of `odd` are 0, which means that all values were finite. */
INLINE bool is_even(vec odd, int64_t n) {
  float all = 0;
  for (int k = 0; k < LANES; ++k) all += k < n ? odd[k] : 0;
  return all == 0;
}

static bool winograd_outputs(float *top, float *bottom, const float *m, int64_t step, int64_t n, float bias) {
  bool finite = true;
  for (int64_t i = 0; i < n; i += LANES) {
    vec columns[4][2], lines[2][2], odd = {0};
    UNROLL for (int c = 0; c < 4; ++c) {
      vec of[4];
      UNROLL for (int r = 0; r < 4; ++r) of[r] = winograd_load(m + (4 * r + c) * step + i);
      winograd_outputs_1d(of, columns[c]);
    }
    UNROLL for (int r = 0; r < 2; ++r) {
      const vec of[4] = {columns[0][r], columns[1][r], columns[2][r], columns[3][r]};
      winograd_outputs_1d(of, lines[r]);
      UNROLL for (int c = 0; c < 2; ++c) odd += oddness(lines[r][c] += bias);
    }
    winograd_store(top + 2 * i, __builtin_shufflevector(lines[0][0], lines[0][1], LOW));
    winograd_store(top + 2 * i + LANES, __builtin_shufflevector(lines[0][0], lines[0][1], HIGH));
    winograd_store(bottom + 2 * i, __builtin_shufflevector(lines[1][0], lines[1][1], LOW));
    winograd_store(bottom + 2 * i + LANES, __builtin_shufflevector(lines[1][0], lines[1][1], HIGH));
    finite &= is_even(odd, n - i);
  }
  return finite;
}

static bool winograd_taps(float *w, const float *m, int64_t step, int64_t n) {
  bool finite = true;
  for (int i = 0; i < WINOGRAD_LANES; i += LANES) {
    vec columns[4][3], odd = {0};
    UNROLL for (int c = 0; c < 4; ++c) {
      vec of[4];
      UNROLL for (int r = 0; r < 4; ++r) of[r] = winograd_load(m + (4 * r + c) * step + i);
      winograd_taps_1d(of, columns[c]);
    }
    UNROLL for (int r = 0; r < 3; ++r) {
      const vec of[4] = {columns[0][r], columns[1][r], columns[2][r], columns[3][r]};
      vec g[3];
      winograd_taps_1d(of, g);
      UNROLL for (int c = 0; c < 3; ++c) {
        odd += oddness(g[c]);
        winograd_store(w + (3 * r + c) * WINOGRAD_LANES + i, g[c]);
      }
    }
    finite &= is_even(odd, n - i);
  }
  return finite;
}

const winograd_loops_table LEVELED(winograd_loops_table) = {.inputs = winograd_inputs,
                                                            .gradients = winograd_gradients,
                                                            .weights = winograd_weights,
                                                            .outputs = winograd_outputs,
                                                            .taps = winograd_taps};
