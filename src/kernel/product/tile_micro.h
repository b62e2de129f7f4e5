/* A kernel for one element type, on vectors of the level: included by tile_level.c with
 *
 *   T      element type              TILE(name)   its name with the type
 *   LANES  elements of a vector      ROWS         of A in a micro-tile, two vectors wide
 *
 * The micro-tile's sums stay in registers; FMA because the file is compiled with -ffp-contract=fast. */

typedef T TILE(vec) __attribute__((vector_size(LANES * sizeof(T))));
typedef T TILE(loose) __attribute__((vector_size(LANES * sizeof(T)), aligned(sizeof(T)), may_alias));
enum { TILE(COLS) = 2 * LANES, TILE(STEP) = (ROWS + LANES - 1) / LANES * LANES };

/* Packed A: the rows of a panel side by side. */
static inline __attribute__((always_inline)) void TILE(sum_packed)(TILE(vec) sum[ROWS][2], int rows, int vecs,
                                                                   int64_t k, const T *a, const T *b, int64_t b_step) {
  for (int64_t l = 0; l < k; ++l, a += TILE(STEP), b += b_step) {
    const TILE(loose) *const at = (const TILE(loose) *)(const void *)b;
    const TILE(vec) left = at[0], right = at[vecs - 1];
    __builtin_prefetch(a + 16 * TILE(STEP)); /* from L2 */
    UNROLL for (int i = 0; i < rows; ++i) {
      sum[i][0] += a[i] * left;
      if (vecs == 2) sum[i][1] += a[i] * right;
    }
  }
}

/* A as it lies, dense along k. An address per three rows: [p], [p + pitch], [p + 2 pitch]. */
static inline __attribute__((always_inline)) void TILE(sum_rows)(TILE(vec) sum[ROWS][2], int rows, int vecs, int64_t k,
                                                                 const T *a, int64_t pitch, const T *b,
                                                                 int64_t b_step) {
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
  }
}

/* pitch: A's, or 0 where it is packed. */
static inline __attribute__((always_inline)) void TILE(body)(int rows, int vecs, int64_t k, const T *a, int64_t pitch,
                                                             const T *b, int64_t b_step, T *c, int64_t ldc,
                                                             bool accumulate) {
  TILE(vec) sum[ROWS][2];
  for (int i = 0; i < rows; ++i) sum[i][0] = sum[i][1] = (TILE(vec)){0};
  UNROLL for (int i = 0; i < rows; ++i) { /* C comes while the sums are made */
    __builtin_prefetch(c + i * ldc, 1);
    if (vecs == 2) __builtin_prefetch(c + i * ldc + LANES, 1);
  }
  if (pitch == 0)
    TILE(sum_packed)(sum, rows, vecs, k, a, b, b_step);
  else
    TILE(sum_rows)(sum, rows, vecs, k, a, pitch, b, b_step);
  UNROLL for (int i = 0; i < rows; ++i) UNROLL for (int v = 0; v < vecs; ++v) {
    TILE(loose) *const to = (TILE(loose) *)(void *)(c + i * ldc) + v;
    *to = accumulate ? sum[i][v] + *to : sum[i][v];
  }
}

typedef void TILE(micro)(int64_t k, const T *a, int64_t pitch, const T *b, int64_t b_step, T *c, int64_t ldc,
                         bool accumulate);
#define MICRO(rows)                                                                                                    \
  static void TILE(packed_##rows)(int64_t k, const T *a, int64_t pitch, const T *b, int64_t b_step, T *c, int64_t ldc, \
                                  bool accumulate) {                                                                   \
    (void)pitch;                                                                                                       \
    TILE(body)(rows, 2, k, a, 0, b, b_step, c, ldc, accumulate);                                                       \
  }                                                                                                                    \
  static void TILE(rows_##rows)(int64_t k, const T *a, int64_t pitch, const T *b, int64_t b_step, T *c, int64_t ldc,   \
                                bool accumulate) {                                                                     \
    TILE(body)(rows, 2, k, a, pitch, b, b_step, c, ldc, accumulate);                                                   \
  }                                                                                                                    \
  static void TILE(narrow_##rows)(int64_t k, const T *a, int64_t pitch, const T *b, int64_t b_step, T *c, int64_t ldc, \
                                  bool accumulate) {                                                                   \
    TILE(body)(rows, 1, k, a, pitch, b, b_step, c, ldc, accumulate);                                                   \
  }
EACH_ROWS(MICRO)
#undef MICRO

/* How A lies and how wide the micro-tile is. */
#define PACKED_MICRO(rows) TILE(packed_##rows),
#define ROWS_MICRO(rows)   TILE(rows_##rows),
#define NARROW_MICRO(rows) TILE(narrow_##rows),
static TILE(micro) *const
    TILE(micros)[3][ROWS] = {{EACH_ROWS(PACKED_MICRO)}, {EACH_ROWS(ROWS_MICRO)}, {EACH_ROWS(NARROW_MICRO)}};
#undef PACKED_MICRO
#undef ROWS_MICRO
#undef NARROW_MICRO

/* The last columns, fewer than a micro-tile's, go through a buffer. */
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
  /* Rows as they lie are divided evenly: few at the end would leave the adders waiting for each other. */
  const int64_t blocks = (m + ROWS - 1) / ROWS, height = a.pitch ? (m + blocks - 1) / blocks : ROWS;
  for (int64_t j = 0; j < n; j += TILE(COLS)) {
    const T *const cols = (const T *)b.at + (b.pitch ? j : j * k);
    const int64_t width = n - j;
    const bool narrow = a.pitch && width <= LANES, whole = width >= TILE(COLS) || (narrow && width == LANES);
    TILE(micro) *const *const micros = TILE(micros)[narrow ? 2 : a.pitch != 0];
    for (int64_t i = 0; i < m; i += height) {
      const int rows = (int)(m - i < height ? m - i : height);
      const T *const from = a.pitch ? (const T *)(const void *)((const char *)a.at + i * a.pitch)
                                    : (const T *)a.at + i / ROWS * TILE(STEP) * k;
      T *const to = (T *)c + i * ldc + j;
      if (whole)
        micros[rows - 1](k, from, a.pitch, cols, b_step, to, ldc, accumulate);
      else
        TILE(edge)(micros[rows - 1], rows, width, k, from, a.pitch, cols, b_step, to, ldc, accumulate);
    }
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
