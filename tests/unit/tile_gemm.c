/* SPDX-License-Identifier: Apache-2.0 */
/* The blocks of GEMM, packed from operands with any strides, compared with sums in double. Nothing outside C may be
 * written. */
#include "kernel/product/tile/tile_gemm.h"

#include <math.h>

#include "kernel/engine/level_choice.h"
#include "kernel/product/tile/tile_kernel.h"
#include "tensor/dtype.h"
#include "unit.h"

enum { MOST = 70, MOST_K = 300, GUARD = 0x5a };

typedef struct {
  int dtype, size;
  int64_t row, col; /* strides in bytes */
  char *memory, *first;
} operand;

static double element(const operand *x, int64_t i, int64_t j) {
  const char *at = x->first + i * x->row + j * x->col;
  switch (x->dtype) {
  case ACL_FLOAT: return (double)*(const float *)(const void *)at;
  case ACL_DOUBLE: return *(const double *)(const void *)at;
  case ACL_INT32: return *(const int32_t *)(const void *)at;
  case ACL_INT8: return *(const int8_t *)at;
  case ACL_BF16: return (double)bf16_to_float(*(const uint16_t *)(const void *)at);
  default: return (double)half_to_float(*(const uint16_t *)(const void *)at);
  }
}

static void set(const operand *x, int64_t i, int64_t j, double value) {
  char *at = x->first + i * x->row + j * x->col;
  switch (x->dtype) {
  case ACL_FLOAT: *(float *)(void *)at = (float)value; break;
  case ACL_DOUBLE: *(double *)(void *)at = value; break;
  case ACL_INT32: *(int32_t *)(void *)at = (int32_t)value; break;
  case ACL_INT8: *(int8_t *)at = (int8_t)value; break;
  case ACL_BF16: *(uint16_t *)(void *)at = bf16_from_float((float)value); break;
  default: *(uint16_t *)(void *)at = half_from_float((float)value); break;
  }
}

/* A random rows x cols matrix in exactly the memory that it needs, so that AddressSanitizer detects reads beyond it. */
static operand make(random_source *random, int dtype, int64_t rows, int64_t cols) {
  operand x = {.dtype = dtype, .size = (int)dtype_bytes(dtype)};
  const int64_t gap = random_below(random, 3) == 0 ? random_below(random, 5) : 0;
  const int64_t inner = random_below(random, 4) == 0 ? 2 : 1;
  const bool transposed = random_below(random, 2);
  x.row = x.size * (transposed ? inner : cols * inner + gap);
  x.col = x.size * (transposed ? rows * inner + gap : inner);
  if (random_below(random, 10) == 0) x.row = 0;
  const int64_t bytes = (rows - 1) * x.row + (cols - 1) * x.col + x.size;
  const bool backwards = random_below(random, 10) == 0;
  x.memory = x.first = malloc((size_t)bytes);
  if (backwards) {
    x.first += (rows - 1) * x.row;
    x.row = -x.row;
  }
  const bool integers = dtype == ACL_INT8 || dtype == ACL_INT32;
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < cols; j++)
      set(&x, i, j, integers ? (double)random_below(random, 256) - 128 : (double)(int32_t)random_next(random) / 0x1p30);
  return x;
}

static const struct {
  tile_type type;
  int dtype[3];
  double eps;
} kinds[] = {{TILE_F32, {ACL_FLOAT, ACL_FLOAT16, ACL_BF16}, 0x1p-24},
             {TILE_F64, {ACL_DOUBLE, ACL_FLOAT, ACL_DOUBLE}, 0x1p-53},
             {TILE_I32, {ACL_INT32, ACL_INT8, ACL_INT32}, 0},
             {TILE_I8, {ACL_INT8, ACL_INT8, ACL_INT8}, 0},
             {TILE_BF16, {ACL_BF16, ACL_BF16, ACL_BF16}, 0x1p-24},
             {TILE_F16, {ACL_FLOAT16, ACL_FLOAT16, ACL_FLOAT16}, 0x1p-24},
             {TILE_F32_PARTS, {ACL_FLOAT, ACL_FLOAT, ACL_FLOAT}, 0x1p-24}};

static double read_c(tile_type type, const void *c, int64_t at) {
  if (type == TILE_F64) return ((const double *)c)[at];
  return type == TILE_I8 || type == TILE_I32 ? ((const int32_t *)c)[at] : (double)((const float *)c)[at];
}

static void check(random_source *random, size_t kind, int64_t m, int64_t n, int64_t k) {
  const tile_type type = kinds[kind].type;
  operand a = make(random, kinds[kind].dtype[random_below(random, 3)], m, k);
  operand b = make(random, kinds[kind].dtype[random_below(random, 3)], k, n);
  const int64_t ldc = n + random_below(random, 4);
  const size_t size = tile_c_bytes(type), c_bytes = (size_t)(m * ldc + 8) * size;
  const bool accumulate = random_below(random, 2);
  void *packed_a = aligned_alloc(64, tile_a_bytes(type, m, k)), *packed_b = aligned_alloc(64, tile_b_bytes(type, k, n));
  char *c = malloc(c_bytes), *before = malloc(c_bytes);
  memset(c, 0, c_bytes);
  for (int64_t i = 0; i < m * ldc + 8; i++) c[(size_t)i * size] = 3; /* as an integer 3; as a float practically 0 */
  memcpy(before, c, c_bytes);
  tile_pack_a(type, packed_a, a.dtype, a.first, a.row, a.col, m, k);
  tile_pack_b(type, packed_b, b.dtype, b.first, b.row, b.col, k, n);
  tile_gemm(type, m, n, k, packed_a, packed_b, c + 4 * size, ldc, accumulate);
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      const int64_t at = 4 + i * ldc + j;
      double want = accumulate ? read_c(type, before, at) : 0, magnitude = 0;
      for (int64_t l = 0; l < k; l++) {
        const double x = element(&a, i, l) * element(&b, l, j);
        want += x;
        magnitude += fabs(x);
      }
      const double bound = kinds[kind].eps * magnitude * (double)(2 * (k > TILE_F16_MIN_K ? k : TILE_F16_MIN_K));
      const double got = read_c(type, c, at);
      if (!(fabs(got - want) <= bound))
        print_error("type %d, %jd x %jd x %jd: [%jd, %jd] is %g, expected %g\n", type, (intmax_t)m, (intmax_t)n,
                    (intmax_t)k, (intmax_t)i, (intmax_t)j, got, want);
      assert_true(fabs(got - want) <= bound);
      memcpy(c + (size_t)at * size, before + (size_t)at * size, size);
    }
  assert_memory_equal(c, before, c_bytes);
  free(c), free(before), free(packed_a), free(packed_b), free(a.memory), free(b.memory);
}

/* The processor's own kernels are used unless CANNON_ISA excludes them. */
static void the_processors_kernels_are_chosen(void **state) {
  (void)state;
#ifdef CANNON_LEVEL_V4
  const char *const level = getenv("CANNON_ISA");
  const bool dots = !level || !strcmp(level, "dots");
  __builtin_cpu_init();
  if (!tile_has_amx()) {
    assert_int_equal(tile_has(TILE_BF16), dots && __builtin_cpu_supports("avx512bf16"));
    assert_int_equal(tile_has(TILE_I8), dots && __builtin_cpu_supports("avx512vnni"));
    assert_false(tile_has(TILE_F16));
    assert_false(tile_has(TILE_F32_PARTS));
  }
  if (level) assert_false(tile_has_amx());
#endif
}

static bool usable(tile_type type) { return type < TILE_BF16 || tile_has(type); }

static void all_sizes_and_strides_agree_with_double(void **state) {
  (void)state;
  random_source random = {31};
  static const int sizes[] = {1, 2, 3, 7, 14, 15, 16, 17, 31, 32, 33, 48, 64, MOST};
  for (size_t kind = 0; kind < COUNT(kinds); kind++)
    for (int i = 0; usable(kinds[kind].type) && i < ROUNDS(300); i++)
      check(&random, kind, sizes[random_below(&random, COUNT(sizes))], sizes[random_below(&random, COUNT(sizes))],
            1 + random_below(&random, random_below(&random, 4) ? MOST : MOST_K));
}

/* Results that the kernel rounds to 16 bits: without accumulation, bitwise equal to C rounded afterwards; with
 * accumulation, within bounds. */
static void rounding_kernels_agree_with_rounding_afterwards(void **state) {
  (void)state;
  random_source random = {33};
  for (int i = 0; tile_has(TILE_BF16) && i < ROUNDS(300); i++) {
    const tile_type type = tile_has(TILE_F16) && random_below(&random, 2) ? TILE_F16 : TILE_BF16;
    const int dtype = random_below(&random, 2) ? ACL_BF16 : ACL_FLOAT16;
    const bool accumulate = random_below(&random, 2);
    const int64_t m = 1 + random_below(&random, MOST), n = 1 + random_below(&random, MOST),
                  k = 1 + random_below(&random, MOST_K),
                  pitch = random_below(&random, 2) ? 96 : n + random_below(&random, 3);
    operand a = make(&random, kinds[type].dtype[0], m, k), b = make(&random, kinds[type].dtype[0], k, n);
    void *packed_a = aligned_alloc(64, tile_a_bytes(type, m, k)),
         *packed_b = aligned_alloc(64, tile_b_bytes(type, k, n));
    tile_pack_a(type, packed_a, a.dtype, a.first, a.row, a.col, m, k);
    tile_pack_b(type, packed_b, b.dtype, b.first, b.row, b.col, k, n);
    float *const c = malloc((size_t)(m * n) * sizeof *c);
    uint16_t *const to = aligned_alloc(64, (size_t)(m * pitch + 31) / 32 * 64);
    for (int64_t j = 0; j < m * n; j++) c[j] = accumulate ? 0.5f : NAN;
    memset(to, GUARD, (size_t)(m * pitch) * sizeof *to);
    assert_true(tile_can_round(type, dtype));
    tile_multiply_rounded(type, m, n, k, (tile_operand){packed_a, 0}, (tile_operand){packed_b, 0}, c, n, accumulate,
                          (tile_rounded){dtype, to, pitch * 2, random_below(&random, 2)});
    tile_gemm(type, m, n, k, packed_a, packed_b, c, n, accumulate);
    for (int64_t row = 0; row < m; row++)
      for (int64_t col = 0; col < pitch; col++) {
        const uint16_t got = to[row * pitch + col];
        if (col >= n) {
          assert_int_equal(got, GUARD << 8 | GUARD);
          continue;
        }
        const float want = c[row * n + col];
        if (!accumulate)
          assert_int_equal(got, dtype == ACL_BF16 ? bf16_from_float(want) : half_from_float(want));
        else
          assert_true(fabsf((dtype == ACL_BF16 ? bf16_to_float(got) : half_to_float(got)) - want) <=
                      0x1p-8f * fabsf(want) + 0x1p-20f * (float)k);
      }
    free(a.memory), free(b.memory), free(packed_a), free(packed_b), free(c), free(to);
  }
}

/* Infinities and NaNs give the results of float arithmetic, whether operands are split into parts or not. */
static void infinities_and_nans_follow_float_arithmetic(void **state) {
  (void)state;
  static const uint16_t odd[] = {0, 0x8000, 0x3c00, 0xbc00, 0x0001, 0x7bff, 0x7c00, 0xfc00, 0x7e00, 0x3555};
  enum { N = COUNT(odd), K = 32 };
  static uint16_t a[N][K], b[K][N];
  float c[N][N];
  for (int kind = 0; kind < 2; kind++) {
    const tile_type type = kind ? TILE_F16 : TILE_F32;
    if (!usable(type)) continue;
    for (size_t i = 0; i < N; i++) a[i][5] = odd[i], b[5][i] = odd[i];
    void *packed_a = aligned_alloc(64, tile_a_bytes(type, N, K)),
         *packed_b = aligned_alloc(64, tile_b_bytes(type, K, N));
    tile_pack_a(type, packed_a, ACL_FLOAT16, a, sizeof a[0], 2, N, K);
    tile_pack_b(type, packed_b, ACL_FLOAT16, b, sizeof b[0], 2, K, N);
    tile_gemm(type, N, N, K, packed_a, packed_b, c, N, false);
    for (size_t i = 0; i < N; i++)
      for (size_t j = 0; j < N; j++) {
        const float want = half_to_float(odd[i]) * half_to_float(odd[j]);
        if (isnan(want))
          assert_true(isnan(c[i][j]));
        else if (isinf(want))
          assert_true(c[i][j] == want);
        else
          assert_true(fabsf(c[i][j] - want) <= 0x1p-15f * fabsf(want));
      }
    free(packed_a), free(packed_b);
  }
}

/* With k = 0 the sums are 0, or the values accumulated to. */
static void empty_sums_are_zero_or_keep_c(void **state) {
  (void)state;
  enum { M = 33, N = 40 };
  _Alignas(64) static char none[64];
  for (tile_type type = 0; type < N_TILE_TYPES; type++)
    for (int accumulate = 0; usable(type) && accumulate < 2; accumulate++) {
      static char c[M * N * sizeof(double)], zero[sizeof c];
      memset(c, accumulate ? 0 : GUARD, sizeof c);
      tile_gemm(type, M, N, 0, none, none, c, N, accumulate);
      assert_memory_equal(c, zero, M * N * tile_c_bytes(type));
    }
}

/* Packing returns the range of exponents of the elements, for any strides. */
static void packing_returns_the_range_of_exponents(void **state) {
  (void)state;
  enum { ROWS = 40, DEPTH = 70 };
  static const float values[] = {0, 1, -0x1p-30f, 0x1.8p-120f, 0x1p-149f, -0x1p127f, INFINITY, NAN};
  static const uint8_t least[] = {127, 127, 96, 7, 0, 127, 127, 127}, most[] = {127, 127, 127, 127, 127, 254, 255, 255};
  random_source random = {34};
  for (int i = 0; tile_has(TILE_F32_PARTS) && i < ROUNDS(200); i++) {
    static float x[ROWS * DEPTH * 2];
    const size_t v = (size_t)random_below(&random, COUNT(values));
    const bool is_b = random_below(&random, 2);
    const int64_t gap = 1 + random_below(&random, 2), rows = 1 + random_below(&random, ROWS),
                  k = 1 + random_below(&random, DEPTH);
    const bool along = random_below(&random, 2);
    const int64_t across = 4 * (along ? k * gap : gap), deep = 4 * (along ? gap : rows * gap);
    /* values between the elements must be ignored */
    for (int64_t j = 0; j < ROWS * DEPTH * 2; j++) x[j] = j % gap ? NAN : 1;
    x[random_below(&random, rows * k) * gap] = values[v];
    void *to = aligned_alloc(64, is_b ? tile_b_bytes(TILE_F32_PARTS, k, rows) : tile_a_bytes(TILE_F32_PARTS, rows, k));
    const float_exponents seen = is_b ? tile_pack_b(TILE_F32_PARTS, to, ACL_FLOAT, x, deep, across, k, rows)
                                      : tile_pack_a(TILE_F32_PARTS, to, ACL_FLOAT, x, across, deep, rows, k);
    free(to);
    if (rows * k == 1) continue;
    assert_in_range(seen.least, least[v] ? least[v] - 1 : 0, least[v]); /* for a power of 2, one less is allowed */
    assert_int_equal(seen.most, most[v]);
  }
}

static void exponents_decide_whether_operands_can_be_split(void **state) {
  (void)state;
  const float_exponents one = {127, 127}, tiny = {26, 127}, small = {60, 127}, denormal = {0, 127}, odd = {127, 255},
                        huge = {127, 254}, large = {127, 220};
  assert_true(float_parts_suffice(one, one));
  assert_true(float_parts_suffice(small, one));
  assert_true(float_parts_suffice(float_no_exponents, float_no_exponents));
  assert_false(float_parts_suffice(tiny, one));
  assert_false(float_parts_suffice(one, denormal));
  assert_false(float_parts_suffice(small, small)); /* products of the low parts would be lost */
  assert_false(float_parts_suffice(one, odd));
  assert_false(float_parts_suffice(huge, one));
  assert_true(float_parts_suffice(large, one) && !float_parts_suffice(large, large));
}

/* Runs the kernels of every instruction set level, whichever this process would choose. */
extern const tile_kernels LEVEL_BASED(tile_kernels);
LEVEL_IF_V3(extern const tile_kernels tile_kernels_v3;)
LEVEL_IF_V4(extern const tile_kernels tile_kernels_v4;)

static void kernels_of_every_level_agree(void **state) {
  (void)state;
  const tile_kernels *const chosen = tile_vector;
  random_source random = {32};
  const tile_kernels *levels[3] = {&LEVEL_BASED(tile_kernels)};
  int n = 1;
  LEVEL_IF_V3(if (chosen != &LEVEL_BASED(tile_kernels)) levels[n++] = &tile_kernels_v3;)
  LEVEL_IF_V4(if (chosen == &tile_kernels_v4) levels[n++] = &tile_kernels_v4;)
  for (int l = 0; l < n; l++) {
    tile_vector = levels[l];
    for (size_t kind = 0; kind < 3; kind++)
      for (int i = 0; i < ROUNDS(60); i++)
        check(&random, kind, 1 + random_below(&random, MOST), 1 + random_below(&random, MOST),
              1 + random_below(&random, MOST));
  }
  tile_vector = chosen;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_processors_kernels_are_chosen),
      cmocka_unit_test(all_sizes_and_strides_agree_with_double),
      cmocka_unit_test(rounding_kernels_agree_with_rounding_afterwards),
      cmocka_unit_test(infinities_and_nans_follow_float_arithmetic),
      cmocka_unit_test(empty_sums_are_zero_or_keep_c),
      cmocka_unit_test(packing_returns_the_range_of_exponents),
      cmocka_unit_test(exponents_decide_whether_operands_can_be_split),
      cmocka_unit_test(kernels_of_every_level_agree),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
