/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled once per instruction set level, with -ffp-contract=fast; see direct.h. */
#include "kernel/conv/direct/direct.h"

#include "kernel/engine/level.h"

#ifdef __AVX512F__
#  include "kernel/product/tile/tile_transpose.h"
#endif

/* Tiles fill the registers: sums of ROWS rows by 3 vectors, 3 vectors of inputs, one of weights. */
#if defined __AVX512F__
enum { LANES = 16, ROWS = 8, DOT_ROWS = 4, DOT_COLUMNS = 6 };
#elif defined __AVX2__
enum { LANES = 8, ROWS = 4, DOT_ROWS = 3, DOT_COLUMNS = 4 };
#else
enum { LANES = 4, ROWS = 4, DOT_ROWS = 3, DOT_COLUMNS = 3 };
#endif
enum { VECTORS = 3, SINGLE = 4 };

#ifdef __clang__
#  define UNROLL _Pragma("unroll")
#else
#  define UNROLL _Pragma("GCC unroll 8")
#endif

typedef float vec __attribute__((vector_size(LANES * sizeof(float))));
typedef float loose __attribute__((vector_size(LANES * sizeof(float)), aligned(sizeof(float)), may_alias));

static inline vec direct_load(const float *x) { return *(const loose *)(const void *)x; }
static inline void direct_store(float *x, vec v) { *(loose *)(void *)x = v; }

static inline __attribute__((always_inline)) void direct_tile_body(const direct_sums *s, int rows, int vectors,
                                                                   float *c, int64_t c_row) {
  vec sum[ROWS][SINGLE];
  UNROLL for (int r = 0; r < rows; ++r) UNROLL for (int v = 0; v < vectors; ++v) sum[r][v] =
      (vec){0} + (s->bias ? s->bias[r] : 0);
  const int64_t taps = s->taps, w_row = s->w_row;
  const int64_t *const w_tap = s->w_tap, *const x_tap = s->x_tap;
  const float *w = s->w, *x = s->x;
  for (int64_t channel = s->channels; channel > 0; --channel, w += s->w_channel, x += s->x_channel)
    for (int64_t t = 0; t < taps; ++t) {
      const float *const wt = w + w_tap[t], *const xt = x + x_tap[t];
      vec in[SINGLE];
      UNROLL for (int v = 0; v < vectors; ++v) in[v] = direct_load(xt + v * LANES);
      UNROLL for (int r = 0; r < rows; ++r) UNROLL for (int v = 0; v < vectors; ++v) sum[r][v] += wt[r * w_row] * in[v];
    }
  UNROLL for (int r = 0; r < rows; ++r) UNROLL for (int v = 0; v < vectors; ++v)
      direct_store(c + r * c_row + v * LANES, sum[r][v]);
}

typedef void tile_function(const direct_sums *s, float *c, int64_t c_row);
#define TILE(rows, vectors)                                                                                            \
  static void tile_##rows##_##vectors(const direct_sums *s, float *c, int64_t c_row) {                                 \
    direct_tile_body(s, rows, vectors, c, c_row);                                                                      \
  }
#define TILES(rows)  TILE(rows, 1) TILE(rows, 2) TILE(rows, 3)
#define LISTED(rows) {tile_##rows##_1, tile_##rows##_2, tile_##rows##_3},
#ifdef __AVX512F__
#  define EACH_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
#else
#  define EACH_ROWS(X) X(1) X(2) X(3) X(4)
#endif
EACH_ROWS(TILES)
static tile_function *const tiles[ROWS][VECTORS] = {EACH_ROWS(LISTED)};

static void direct_tile(const direct_sums *s, int rows, int vectors, float *c, int64_t c_row) {
  tiles[rows - 1][vectors - 1](s, c, c_row);
}

static void direct_single(const direct_sums *s, int64_t n, float *c) {
  direct_sums part = *s;
  int64_t i = 0;
  for (; i + SINGLE * LANES <= n; i += SINGLE * LANES, part.x += SINGLE * LANES)
    direct_tile_body(&part, 1, SINGLE, c + i, 0);
  for (; i < n; i += LANES, part.x += LANES) direct_tile_body(&part, 1, 1, c + i, 0);
}

static inline float direct_lane_sum(vec v) {
  float lane[LANES];
  direct_store(lane, v);
  for (int width = LANES / 2; width; width /= 2)
    for (int l = 0; l < width; ++l) lane[l] += lane[l + width];
  return lane[0];
}

static inline __attribute__((always_inline)) void
direct_dot_body(const float *g, int64_t g_row, int rows, const float *const *x, int n_x, int64_t n, float *sums) {
  vec sum[DOT_ROWS][DOT_COLUMNS];
  const float *at[DOT_COLUMNS];
  UNROLL for (int r = 0; r < rows; ++r) UNROLL for (int j = 0; j < n_x; ++j) sum[r][j] = (vec){0};
  UNROLL for (int j = 0; j < n_x; ++j) at[j] = x[j];
  for (int64_t i = 0; i < n; i += LANES) {
    vec left[DOT_ROWS];
    UNROLL for (int r = 0; r < rows; ++r) left[r] = direct_load(g + r * g_row + i);
    UNROLL for (int j = 0; j < n_x; ++j) {
      const vec right = direct_load(at[j] + i);
      UNROLL for (int r = 0; r < rows; ++r) sum[r][j] += left[r] * right;
    }
  }
  UNROLL for (int r = 0; r < rows; ++r) UNROLL for (int j = 0; j < n_x; ++j) sums[r * n_x + j] +=
      direct_lane_sum(sum[r][j]);
}

/* Whole tiles of dot products; smaller ones row by row. */
static void direct_dot_tile(const float *g, int64_t g_row, int rows, const float *const *x, int n_x, int64_t n,
                            float *sum) {
  if (rows == DOT_ROWS && n_x == DOT_COLUMNS) {
    direct_dot_body(g, g_row, DOT_ROWS, x, DOT_COLUMNS, n, sum);
    return;
  }
  for (int r = 0; r < rows; ++r) {
    int j = 0;
    for (; j + 3 <= n_x; j += 3) direct_dot_body(g + r * g_row, 0, 1, x + j, 3, n, sum + r * n_x + j);
    for (; j < n_x; ++j) direct_dot_body(g + r * g_row, 0, 1, x + j, 1, n, sum + r * n_x + j);
  }
}

static void direct_transpose(float *to, int64_t to_row, const float *from, int64_t from_row, int64_t n) {
  int64_t j = 0;
#ifdef __AVX512F__
  for (; j + 16 <= n; j += 16) {
    __m512i r[16];
    for (int i = 0; i < 16; ++i) r[i] = _mm512_loadu_si512(from + i * from_row + j);
    tile_transpose_16x16(r);
    for (int i = 0; i < 16; ++i) _mm512_storeu_si512(to + (j + i) * to_row, r[i]);
  }
#endif
  for (; j < n; ++j)
    for (int i = 0; i < 16; ++i) to[j * to_row + i] = from[i * from_row + j];
}

const direct_loops_table LEVELED(direct_loops_table) = {.rows = ROWS,
                                                        .lanes = LANES,
                                                        .vectors = VECTORS,
                                                        .tile = direct_tile,
                                                        .single = direct_single,
                                                        .dot_rows = DOT_ROWS,
                                                        .dot_columns = DOT_COLUMNS,
                                                        .dots = direct_dot_tile,
                                                        .transpose = direct_transpose};
