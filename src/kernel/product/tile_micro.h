/* SPDX-License-Identifier: Apache-2.0 */
/* A GEMM kernel for one element type, on the vectors of one instruction set level. tile_level.c includes this file with
 *
 *   T      element type              TILE(name)   name with the type as a prefix
 *   LANES  elements of a vector      ROWS         rows of A in a micro-tile, which is two vectors wide
 *
 * The micro-tile's sums stay in registers. The compiler emits FMA since the file is compiled with
 * -ffp-contract=fast. */

typedef T TILE(vec) __attribute__((vector_size(LANES * sizeof(T))));
typedef T TILE(loose) __attribute__((vector_size(LANES * sizeof(T)), aligned(sizeof(T)), may_alias));
/* LATE: C is prefetched when this many steps are left, so that it arrives during the summation and is still in L1 after
 * it. */
enum { TILE(COLS) = 2 * LANES, TILE(LATE) = 64 };

/* Sums for `rows` rows of A that are contiguous along k and pitch bytes apart. One pointer serves three rows: [p], [p +
 * pitch], [p + 2 pitch]. c: where the sums will be stored, for prefetching. */
static inline __attribute__((always_inline)) void TILE(sum_rows)(TILE(vec) sum[ROWS][2], int rows, int vecs, int64_t k,
                                                                 const T *a, int64_t pitch, const T *b, int64_t b_step,
                                                                 T *c, int64_t ldc) {
  const int64_t late = k > TILE(LATE) ? k - TILE(LATE) : 0;
  const char *third[(ROWS + 2) / 3];
  UNROLL for (int i = 0; i < rows; i += 3) third[i / 3] = (const char *)a + i * pitch;
  for (int64_t l = 0; l < k; ++l, b += b_step) {
    const TILE(loose) *const at = (const TILE(loose) *)(const void *)b;
    const TILE(vec) left = at[0], right = at[vecs - 1];
    __builtin_prefetch(b + 16 * b_step);
    if (vecs == 2) __builtin_prefetch(b + 16 * b_step + LANES);
    UNROLL for (int i = 0; i < rows; ++i) {
      const T x = *(const T *)(const void *)(third[i / 3] + i % 3 * pitch);
      sum[i][0] += x * left;
      if (vecs == 2) sum[i][1] += x * right;
    }
    UNROLL for (int i = 0; i < rows; i += 3) third[i / 3] += sizeof(T);
    if (__builtin_expect(l == late, 0)) UNROLL for (int i = 0; i < rows; ++i) {
        __builtin_prefetch(c + i * ldc, 1);
        if (vecs == 2) __builtin_prefetch(c + i * ldc + LANES, 1);
      }
  }
}

static inline __attribute__((always_inline)) void TILE(body)(int rows, int vecs, int64_t k, const T *a, int64_t pitch,
                                                             const T *b, int64_t b_step, T *c, int64_t ldc,
                                                             bool accumulate) {
  TILE(vec) sum[ROWS][2];
  for (int i = 0; i < rows; ++i) sum[i][0] = sum[i][1] = (TILE(vec)){0};
  TILE(sum_rows)(sum, rows, vecs, k, a, pitch, b, b_step, c, ldc);
  UNROLL for (int i = 0; i < rows; ++i) UNROLL for (int v = 0; v < vecs; ++v) {
    TILE(loose) *const to = (TILE(loose) *)(void *)(c + i * ldc) + v;
    *to = accumulate ? sum[i][v] + *to : sum[i][v];
  }
}

typedef void TILE(micro)(int64_t k, const T *a, int64_t pitch, const T *b, int64_t b_step, T *c, int64_t ldc,
                         bool accumulate);
#define MICRO(rows, name, vecs)                                                                                        \
  static void TILE(name##_##rows)(int64_t k, const T *a, int64_t pitch, const T *b, int64_t b_step, T *c, int64_t ldc, \
                                  bool accumulate) {                                                                   \
    TILE(body)(rows, vecs, k, a, pitch, b, b_step, c, ldc, accumulate);                                                \
  }
#define MICROS(rows) MICRO(rows, one, 1) MICRO(rows, two, 2)
EACH_ROWS(MICROS)
#define ONE(rows) TILE(one_##rows),
#define TWO(rows) TILE(two_##rows),
static TILE(micro) *const TILE(micros)[2][ROWS] = {{EACH_ROWS(ONE)}, {EACH_ROWS(TWO)}}; /* [vectors - 1][rows - 1] */
#undef MICRO
#undef MICROS
#undef ONE
#undef TWO

/* The last columns, fewer than the width of a micro-tile, go through a buffer. */
static void TILE(edge)(TILE(micro) * micro, int rows, int64_t cols, int64_t k, const T *a, int64_t pitch, const T *b,
                       int64_t b_step, T *c, int64_t ldc, bool accumulate) {
  _Alignas(64) T sum[ROWS * TILE(COLS)];
  micro(k, a, pitch, b, b_step, sum, TILE(COLS), false);
  for (int i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) c[i * ldc + j] = sum[i * TILE(COLS) + j] + (accumulate ? c[i * ldc + j] : 0);
}

static void TILE(gemm)(int64_t m, int64_t n, int64_t k, tile_operand a, tile_operand b, void *c, int64_t ldc,
                       bool accumulate) {
  const int64_t b_step = b.pitch ? b.pitch / (int64_t)sizeof(T) : TILE(COLS);
  enum { SET_ROWS = 7 }; /* rows of A at a page-multiple pitch share one L1 set, of at least 8 lines, with B */
  const int64_t most = a.pitch % 4096 == 0 && SET_ROWS < ROWS ? SET_ROWS : ROWS;
  /* Rows are divided evenly: a last micro-tile of few rows would be bound by the latency of the additions. */
  const int64_t blocks = (m + most - 1) / most, height = (m + blocks - 1) / blocks;
  for (int64_t j = 0; j < n; j += TILE(COLS)) {
    const T *const cols = (const T *)b.at + (b.pitch ? j : j * k);
    const int64_t width = n - j;
    const int vecs = width <= LANES ? 1 : 2;
    for (int64_t i = 0; i < m; i += height) {
      const int rows = (int)(m - i < height ? m - i : height);
      TILE(micro) *const micro = TILE(micros)[vecs - 1][rows - 1];
      const T *const from = (const T *)(const void *)((const char *)a.at + i * a.pitch);
      T *const to = (T *)c + i * ldc + j;
      if (width >= vecs * LANES)
        micro(k, from, a.pitch, cols, b_step, to, ldc, accumulate);
      else
        TILE(edge)(micro, rows, width, k, from, a.pitch, cols, b_step, to, ldc, accumulate);
    }
  }
}

static void TILE(pack_across)(void *to, int64_t pitch, int64_t width, const void *from, int64_t stride, int64_t rows,
                              int64_t k) {
  T *y = to;
  const T *x = from;
  int64_t l = 0;
#ifdef TRANSPOSE
  for (; l + LANES <= k; l += LANES, x += LANES, y += pitch * LANES)
    for (int64_t i = 0; i < width; i += LANES) TRANSPOSE(y + i, pitch, x + i * stride, stride, rows - i);
#endif
  for (; l < k; ++l, ++x, y += pitch)
    for (int64_t i = 0; i < width; ++i) y[i] = i < rows ? x[i * stride] : 0;
}

/* Several panels at a time, so that rows, which may be pages apart, are read in longer runs. */
static void TILE(pack_along)(void *to, const void *from, int64_t stride, int64_t n, int64_t k) {
  enum { COLS = TILE(COLS), AT_ONCE = 8 * COLS };
  for (int64_t begin = 0; begin < n; begin += AT_ONCE) {
    const int64_t end = begin + AT_ONCE < n ? begin + AT_ONCE : n;
    for (int64_t l = 0; l < k; ++l) {
      T *y = (T *)to + begin * k + l * COLS;
      const T *x = (const T *)from + l * stride + begin;
      int64_t left = end - begin;
      for (; left >= COLS; left -= COLS, x += COLS, y += COLS * k) {
        ((TILE(loose) *)(void *)y)[0] = ((const TILE(loose) *)(const void *)x)[0];
        ((TILE(loose) *)(void *)y)[1] = ((const TILE(loose) *)(const void *)x)[1];
      }
      if (left > 0)
        for (int64_t i = 0; i < COLS; ++i) y[i] = i < left ? x[i] : 0;
    }
  }
}
