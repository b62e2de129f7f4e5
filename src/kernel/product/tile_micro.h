/* A kernel for one element type, on vectors of the level: included by tile_level.c with
 *
 *   T      element type              TILE(name)   its name with the type
 *   LANES  elements of a vector      ROWS         of A in a micro-tile, two vectors wide
 *
 * The micro-tile's sums stay in registers; FMA because the file is compiled with -ffp-contract=fast. */

typedef T TILE(vec) __attribute__((vector_size(LANES * sizeof(T))));
typedef T TILE(loose) __attribute__((vector_size(LANES * sizeof(T)), aligned(sizeof(T)), may_alias));
enum { TILE(COLS) = 2 * LANES, TILE(STEP) = (ROWS + LANES - 1) / LANES * LANES };

static inline __attribute__((always_inline)) void TILE(body)(int rows, int64_t k, const T *a, const T *b, T *c,
                                                             int64_t ldc, bool accumulate) {
  TILE(vec) sum[ROWS][2];
  for (int i = 0; i < rows; ++i) sum[i][0] = sum[i][1] = (TILE(vec)){0};
  UNROLL for (int i = 0; i < rows; ++i) { /* C comes while the sums are made, A from L2 some steps ahead */
    __builtin_prefetch(c + i * ldc, 1);
    __builtin_prefetch(c + i * ldc + LANES, 1);
  }
  for (int64_t l = 0; l < k; ++l, a += TILE(STEP), b += TILE(COLS)) {
    __builtin_prefetch(a + 16 * TILE(STEP));
    const TILE(vec) left = *(const TILE(vec) *)(const void *)b, right = *(const TILE(vec) *)(const void *)(b + LANES);
    UNROLL for (int i = 0; i < rows; ++i) {
      sum[i][0] += a[i] * left;
      sum[i][1] += a[i] * right;
    }
  }
  UNROLL for (int i = 0; i < rows; ++i) {
    TILE(loose) *const to = (TILE(loose) *)(void *)(c + i * ldc);
    if (accumulate) sum[i][0] += to[0], sum[i][1] += to[1];
    to[0] = sum[i][0];
    to[1] = sum[i][1];
  }
}

#define MICRO(rows)                                                                                                    \
  static void TILE(rows##_rows)(int64_t k, const T *a, const T *b, T *c, int64_t ldc, bool accumulate) {               \
    TILE(body)(rows, k, a, b, c, ldc, accumulate);                                                                     \
  }
EACH_ROWS(MICRO)
#undef MICRO

typedef void TILE(micro)(int64_t k, const T *a, const T *b, T *c, int64_t ldc, bool accumulate);
#define MICRO(rows) TILE(rows##_rows),
static TILE(micro) *const TILE(micros)[] = {EACH_ROWS(MICRO)};
#undef MICRO

/* The last columns, fewer than a micro-tile's, go through a buffer. */
static void TILE(edge)(int rows, int64_t cols, int64_t k, const T *a, const T *b, T *c, int64_t ldc, bool accumulate) {
  _Alignas(64) T sum[ROWS * TILE(COLS)];
  TILE(micros)[rows - 1](k, a, b, sum, TILE(COLS), false);
  for (int i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) c[i * ldc + j] = sum[i * TILE(COLS) + j] + (accumulate ? c[i * ldc + j] : 0);
}

static void TILE(gemm)(int64_t m, int64_t n, int64_t k, const void *a, const void *b, void *c, int64_t ldc,
                       bool accumulate) {
  for (int64_t j = 0; j < n; j += TILE(COLS))
    for (int64_t i = 0; i < m; i += ROWS) {
      const T *const rows = (const T *)a + i / ROWS * TILE(STEP) * k, *const cols = (const T *)b + j * k;
      T *const to = (T *)c + i * ldc + j;
      const int height = m - i < ROWS ? (int)(m - i) : ROWS;
      if (n - j < TILE(COLS))
        TILE(edge)(height, n - j, k, rows, cols, to, ldc, accumulate);
      else
        TILE(micros)[height - 1](k, rows, cols, to, ldc, accumulate);
    }
}

static void TILE(pack_across)(void *to, int step, const void *from, int64_t stride, int rows, int64_t k) {
  T *y = to;
  const T *x = from;
  int64_t l = 0;
#ifdef TRANSPOSE
  for (; l + LANES <= k; l += LANES, x += LANES, y += step * LANES)
    for (int i = 0; i < step; i += LANES) TRANSPOSE(y + i, step, x + i * stride, stride, rows - i);
#endif
  for (; l < k; ++l, ++x, y += step)
    for (int i = 0; i < step; ++i) y[i] = i < rows ? x[i * stride] : 0;
}

static void TILE(copy_row)(T *y, const T *x, int step, int64_t n) {
  if (n == TILE(COLS)) {
    ((TILE(loose) *)(void *)y)[0] = ((const TILE(loose) *)(const void *)x)[0];
    ((TILE(loose) *)(void *)y)[1] = ((const TILE(loose) *)(const void *)x)[1];
  } else {
    for (int i = 0; i < step; ++i) y[i] = i < n ? x[i] : 0;
  }
}

/* Several panels at a time, so that rows, which may be pages apart, are read in longer pieces. */
static void TILE(pack_along)(void *to, int width, int step, const void *from, int64_t stride, int64_t n, int64_t k) {
  enum { AT_ONCE = 8 };
  for (int64_t begin = 0; begin < n; begin += AT_ONCE * width) {
    const int64_t end = begin + AT_ONCE * width < n ? begin + AT_ONCE * width : n;
    T *const panels = (T *)to + begin / width * step * k;
    for (int64_t l = 0; l < k; ++l) {
      T *y = panels + l * step;
      for (int64_t i = begin; i < end; i += width, y += step * k)
        TILE(copy_row)(y, (const T *)from + l * stride + i, step, end - i < width ? end - i : width);
    }
  }
}
