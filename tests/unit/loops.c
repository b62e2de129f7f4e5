/* SPDX-License-Identifier: Apache-2.0 */
/* The innermost loops of the engine: conversions compared with their definition, sums for any alignment, and equal
 * results at all levels. */
#include "kernel/engine/loops.h"

#include <float.h>
#include <math.h>

#include "levels.h"
#include "unit.h"

#include "self.h"

static const int dtypes[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16,   ACL_DOUBLE, ACL_INT8,   ACL_INT16, ACL_INT32,
                             ACL_INT64, ACL_UINT8,   ACL_UINT16, ACL_UINT32, ACL_UINT64, ACL_BOOL};
static const int compute_size[N_COMPUTE] = {4, 8, 4, 8};

static const kernel_loops *level[MAX_LEVELS];
static int n_levels;

static int find_levels(void **state) {
  (void)state;
  n_levels = levels_here(level);
  return 0;
}

/* ---- load and store ---------------------------------------------------------------------------------------------- */

/* Whether the compute type represents every value of the dtype exactly. */
static bool holds_all(int compute, int dtype) {
  const size_t bytes = dtype_bytes(dtype);
  const bool is_signed = dtype == ACL_INT8 || dtype == ACL_INT16 || dtype == ACL_INT32 || dtype == ACL_INT64;
  switch (compute) {
  case COMPUTE_F32: return dtype_is_float(dtype) ? bytes <= 4 : bytes <= 2;
  case COMPUTE_F64: return dtype_is_float(dtype) || bytes <= 4;
  case COMPUTE_I32: return !dtype_is_float(dtype) && (bytes < 4 || (bytes == 4 && is_signed));
  default: return !dtype_is_float(dtype);
  }
}

/* The i-th test pattern of a dtype: all patterns if there are few, else limits and random bits. */
static uint64_t pattern(random_source *random, int dtype, uint32_t i) {
  static const uint64_t ends[] = {0,          1,          UINT64_MAX,    INT64_MAX,  UINT64_C(1) << 63,
                                  0x7fffffff, 0x80000000, 0x7f800000,    0x3f800000, 0x7f7fffff,
                                  0x00800000, 1u << 24,   (1u << 24) + 1};
  if (dtype == ACL_BOOL) return i & 1;
  if (dtype_bytes(dtype) <= 2) return i;
  return i < COUNT(ends) ? ends[i] : random_next(random);
}

static bool is_nan_pattern(int dtype, const void *at) {
  float value = 0;
  double d = 0;
  if (dtype == ACL_DOUBLE) {
    memcpy(&d, at, sizeof d);
    return isnan(d);
  }
  if (dtype_is_float(dtype)) LEVEL_BASED(loops).load[dtype][COMPUTE_F32](&value, at, 0, 1);
  return isnan(value);
}

static void values_survive_a_round_trip(void **state) {
  (void)state;
  enum { N = 1 << 16 };
  static char from[N * 8], to[N * 8];
  static _Alignas(8) char middle[N * 8];
  random_source random = {11};
  for (int l = 0; l < n_levels; l++)
    for (size_t t = 0; t < COUNT(dtypes); t++)
      for (int c = 0; c < N_COMPUTE; c++) {
        const int dtype = dtypes[t];
        const size_t bytes = dtype_bytes(dtype);
        if (!holds_all(c, dtype)) continue;
        for (uint32_t i = 0; i < N; i++) {
          const uint64_t bits = pattern(&random, dtype, i);
          memcpy(from + i * bytes, &bits, bytes); /* assumes little endian, as on all supported processors */
        }
        level[l]->load[dtype][c](middle, from, (int64_t)bytes, N);
        level[l]->store[dtype][c](to, (int64_t)bytes, middle, N);
        for (uint32_t i = 0; i < N; i++) {
          const bool same = !memcmp(from + i * bytes, to + i * bytes, bytes) ||
                            (is_nan_pattern(dtype, from + i * bytes) && is_nan_pattern(dtype, to + i * bytes));
          if (!same)
            print_error("%s by compute type %d at level %s: element %u\n", dtype_name(dtype), c, level[l]->name, i);
          assert_true(same);
        }
      }
}

/* Vectors of halves are converted by other instructions than single elements. */
static void vectors_of_halves_convert_as_single_elements(void **state) {
  (void)state;
  enum { N = 1 << 14, REST = 13 };
  static uint32_t bits[N];
  static uint16_t together[N], alone[N];
  static const int halves[] = {ACL_FLOAT16, ACL_BF16};
  random_source random = {12};
  for (int i = 0; i < N; i++) /* one NaN in 128; short fractions give ties */
    bits[i] = (uint32_t)random_next(&random) & (i % 3 ? UINT32_MAX : 0xffffd000);
  for (int l = 0; l < n_levels; l++)
    for (size_t t = 0; t < COUNT(halves); t++) {
      store_loop *const store = level[l]->store[halves[t]][COMPUTE_F32];
      store(together, 2, bits, N - REST);
      for (int i = 0; i < N - REST; i++) store(alone + i, 2, bits + i, 1);
      assert_memory_equal(together, alone, (N - REST) * sizeof *alone);
    }
}

static uint16_t half_of(int dtype, const float *x) {
  uint16_t bits;
  LEVEL_BASED(loops).store[dtype][COMPUTE_F32](&bits, 2, x, 1);
  return bits;
}

/* A function computed on stored halves equals that on floats with conversions before and after. */
static void functions_of_halves_equal_those_of_floats(void **state) {
  (void)state;
  enum { N = 32 * HALVES_AT_ONCE };
  static const int halves[] = {ACL_FLOAT16, ACL_BF16};
  static uint16_t in[ELEMENTWISE_INPUTS][N], got[N], expected[N];
  static float floats[ELEMENTWISE_INPUTS][N], result[N];
  const compute_value parameter[ELEMENTWISE_PARAMETERS] = {{.f32 = 0.75f}, {.f32 = 1.5f}, {.f32 = 1}, {.f32 = 0}};
  random_source random = {13};
  for (int l = 0; l < n_levels; l++)
    for (int f = 0; f < N_EW; f++)
      for (size_t t = 0; t < COUNT(halves); t++) {
        const void *from[ELEMENTWISE_INPUTS], *from_floats[ELEMENTWISE_INPUTS];
        if (!level[l]->halves[f][t]) continue;
        for (int k = 0; k < ELEMENTWISE_INPUTS; k++) {
          from[k] = in[k];
          from_floats[k] = floats[k];
          for (int i = 0; i < N; i++) { /* random bits, or a number in the range where functions are not constant */
            const float x = (float)random_below(&random, 1 << 16) / 4096 - 8;
            in[k][i] = i % 4 ? half_of(halves[t], &x) : (uint16_t)random_next(&random);
          }
          level[l]->load[halves[t]][COMPUTE_F32](floats[k], in[k], 2, N);
        }
        level[l]->halves[f][t](got, from, parameter, N);
        level[l]->elementwise[f][COMPUTE_F32](result, from_floats, parameter, N);
        level[l]->store[halves[t]][COMPUTE_F32](expected, 2, result, N);
        for (int i = 0; i < N; i++) {
          const bool same = got[i] == expected[i] || (isnan(result[i]) && is_nan_pattern(halves[t], &got[i]));
          if (!same)
            print_error("function %d of %s at level %s: element %d\n", f, dtype_name(halves[t]), level[l]->name, i);
          assert_true(same);
        }
      }
}

/* The stored integer types in C, with their limits. */
#define INTEGERS(X)                                                                                                    \
  X(ACL_INT8, int8_t, INT8_MIN, INT8_MAX)                                                                              \
  X(ACL_INT16, int16_t, INT16_MIN, INT16_MAX)                                                                          \
  X(ACL_INT32, int32_t, INT32_MIN, INT32_MAX)                                                                          \
  X(ACL_INT64, int64_t, INT64_MIN, INT64_MAX)                                                                          \
  X(ACL_UINT8, uint8_t, 0, UINT8_MAX)                                                                                  \
  X(ACL_UINT16, uint16_t, 0, UINT16_MAX)                                                                               \
  X(ACL_UINT32, uint32_t, 0, UINT32_MAX)                                                                               \
  X(ACL_UINT64, uint64_t, 0, UINT64_MAX)

static const double doubles[] = {0,
                                 -0.0,
                                 0.5,
                                 -0.5,
                                 0.999,
                                 -0.999,
                                 1,
                                 -1,
                                 1.5,
                                 126.999,
                                 127,
                                 127.5,
                                 128,
                                 -128.5,
                                 -129,
                                 255,
                                 255.5,
                                 256,
                                 32767.9,
                                 32768,
                                 -32769,
                                 65535.5,
                                 65536,
                                 2147483520.0,
                                 2147483648.0,
                                 -2147483648.0,
                                 -2147483904.0,
                                 4294967040.0,
                                 4294967296.0,
                                 0x1p62,
                                 0x1.fffffep62,
                                 0x1p63,
                                 -0x1p63,
                                 -0x1.000002p63,
                                 0x1.fffffep63,
                                 0x1p64,
                                 1e30,
                                 -1e30,
                                 INFINITY,
                                 -INFINITY,
                                 NAN};

/* Conversion truncates towards zero, saturates at the limits, and maps NaN to 0. */
#define SATURATED(type, low, high)                                                                                     \
  static type type##_of(long double x) {                                                                               \
    if (isnan(x)) return 0;                                                                                            \
    if (x <= (long double)(low)) return (type)(low);                                                                   \
    return x >= (long double)(high) ? (type)(high) : (type)x;                                                          \
  }
#define SATURATED_ROW(dtype, type, low, high) SATURATED(type, low, high)
INTEGERS(SATURATED_ROW)

static void floats_truncate_and_saturate(void **state) {
  (void)state;
  float floats[COUNT(doubles)];
  for (size_t i = 0; i < COUNT(doubles); i++) floats[i] = (float)doubles[i];
#define CHECK_STORE(dtype, type, low, high)                                                                            \
  for (int l = 0; l < n_levels; l++) {                                                                                 \
    type got[2][COUNT(doubles)];                                                                                       \
    level[l]->store[dtype][COMPUTE_F32](got[0], sizeof(type), floats, COUNT(doubles));                                 \
    level[l]->store[dtype][COMPUTE_F64](got[1], sizeof(type), doubles, COUNT(doubles));                                \
    for (size_t i = 0; i < COUNT(doubles); i++) {                                                                      \
      assert_true(got[0][i] == type##_of((long double)floats[i]));                                                     \
      assert_true(got[1][i] == type##_of((long double)doubles[i]));                                                    \
    }                                                                                                                  \
  }
  INTEGERS(CHECK_STORE)
}

static void integer_conversions_wrap(void **state) {
  (void)state;
  enum { N = 1000 };
  int64_t wide[N];
  int32_t narrow[N];
  random_source random = {12};
  for (int i = 0; i < N; i++) {
    wide[i] = (int64_t)random_next(&random) >> random_below(&random, 64);
    narrow[i] = (int32_t)wide[i];
  }
#define CHECK_WRAP(dtype, type, low, high)                                                                             \
  for (int l = 0; l < n_levels; l++) {                                                                                 \
    type got[2][N];                                                                                                    \
    level[l]->store[dtype][COMPUTE_I64](got[0], sizeof(type), wide, N);                                                \
    level[l]->store[dtype][COMPUTE_I32](got[1], sizeof(type), narrow, N);                                              \
    for (int i = 0; i < N; i++) {                                                                                      \
      assert_true(got[0][i] == (type)wide[i]);                                                                         \
      assert_true(got[1][i] == (type)narrow[i]);                                                                       \
    }                                                                                                                  \
  }
  INTEGERS(CHECK_WRAP)
}

/* Integers and doubles are rounded to half precision only once. */
static void stores_to_half_round_once(void **state) {
  (void)state;
  static const struct {
    int64_t value;
    uint16_t half, bf16;
  } cases[] = {
      {0, 0, 0},
      {1, 0x3c00, 0x3f80},
      {-1, 0xbc00, 0xbf80},
      {2049, 0x6800, 0x4500}, /* ties to even */
      {2051, 0x6802, 0x4500},
      {65504, 0x7bff, 0x4780},
      {65519, 0x7bff, 0x4780},
      {65520, 0x7c00, 0x4780},
      {-65520, 0xfc00, 0xc780},
      {0x1010000, 0x7c00, 0x4b80},                  /* midpoint of two bfloat16 values */
      {0x1010001, 0x7c00, 0x4b81},                  /* the last 1 would be lost in a float */
      {INT64_C(0x101000000000001), 0x7c00, 0x5b81}, /* the last 1 would be lost even in a double */
      {INT64_MAX, 0x7c00, 0x5f00},
      {INT64_MIN, 0xfc00, 0xdf00},
  };
  for (int l = 0; l < n_levels; l++)
    for (size_t i = 0; i < COUNT(cases); i++) {
      const int64_t i64 = cases[i].value;
      const int32_t i32 = (int32_t)i64;
      const double f64 = (double)i64;
      uint16_t got;
      level[l]->store[ACL_FLOAT16][COMPUTE_I64](&got, 2, &i64, 1);
      assert_int_equal(got, cases[i].half);
      level[l]->store[ACL_BF16][COMPUTE_I64](&got, 2, &i64, 1);
      assert_int_equal(got, cases[i].bf16);
      if (i32 == i64) {
        level[l]->store[ACL_FLOAT16][COMPUTE_I32](&got, 2, &i32, 1);
        assert_int_equal(got, cases[i].half);
        level[l]->store[ACL_BF16][COMPUTE_I32](&got, 2, &i32, 1);
        assert_int_equal(got, cases[i].bf16);
      }
      if (f64 < 0x1p63 && (int64_t)f64 == i64) {
        level[l]->store[ACL_FLOAT16][COMPUTE_F64](&got, 2, &f64, 1);
        assert_int_equal(got, cases[i].half);
        level[l]->store[ACL_BF16][COMPUTE_F64](&got, 2, &f64, 1);
        assert_int_equal(got, cases[i].bf16);
      }
    }
}

/* A stride changes only the addresses; the bytes between the elements keep their values. */
static void strides_change_only_addresses(void **state) {
  (void)state;
  enum { N = 41, ROOM = N * 3 * 8 };
  static const int steps[] = {0, 1, 2, 3, -1, -2};
  random_source random = {13};
  for (int l = 0; l < n_levels; l++)
    for (size_t t = 0; t < COUNT(dtypes); t++)
      for (int c = 0; c < N_COMPUTE; c++)
        for (size_t s = 0; s < COUNT(steps); s++) {
          const int dtype = dtypes[t];
          const int64_t bytes = (int64_t)dtype_bytes(dtype), stride = steps[s] * bytes;
          _Alignas(8) char from[ROOM], tile[N * 8], one[8], to[ROOM], want[ROOM];
          for (int i = 0; i < ROOM; i++) from[i] = (char)(dtype == ACL_BOOL ? i & 1 : (int)random_below(&random, 100));
          char *const first = from + (stride < 0 ? -stride * (N - 1) : 0);
          level[l]->load[dtype][c](tile, first, stride, N);
          for (int i = 0; i < N; i++) {
            level[l]->load[dtype][c](one, first + i * stride, 0, 1);
            assert_memory_equal(tile + i * compute_size[c], one, (size_t)compute_size[c]);
          }
          if (!stride) continue;
          memset(to, 0x5a, sizeof to);
          memset(want, 0x5a, sizeof want);
          char *const to_first = to + (first - from);
          level[l]->store[dtype][c](to_first, stride, tile, N);
          for (int i = 0; i < N; i++)
            level[l]->store[dtype][c](want + (first - from) + i * stride, 0, tile + i * compute_size[c], 1);
          assert_memory_equal(to, want, sizeof to);
        }
}

/* ---- equality of levels ------------------------------------------------------------------------------------------ */

static bool same_float(double a, double b) { return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b)); }

/* Fills an operand with ordinary and special values of any of the four compute types. */
static void fill_operand(random_source *random, int c, void *to, int n) {
  static const double special[] = {0, -0.0, 1, -1, INFINITY, -INFINITY, NAN, 1e30, -1e-30, 5e-324, 1e-40};
  for (int i = 0; i < n; i++) {
    const uint64_t bits = random_next(random);
    const double d = bits % 7 == 0 ? special[bits / 7 % COUNT(special)] : ((double)(int32_t)bits) / 0x1p26;
    switch (c) {
    case COMPUTE_F32: ((float *)to)[i] = (float)d; break;
    case COMPUTE_F64: ((double *)to)[i] = d; break;
    case COMPUTE_I32: ((int32_t *)to)[i] = bits % 3 ? (int32_t)(bits >> 40) % 50 : (int32_t)(bits >> 20); break;
    default: ((int64_t *)to)[i] = bits % 3 ? (int64_t)(bits >> 40) % 50 : (int64_t)bits;
    }
  }
}

static bool same_element(int c, const void *a, const void *b, int i) {
  switch (c) {
  case COMPUTE_F32: return same_float((double)((const float *)a)[i], (double)((const float *)b)[i]);
  case COMPUTE_F64: return same_float(((const double *)a)[i], ((const double *)b)[i]);
  default:
    return !memcmp((const char *)a + i * compute_size[c], (const char *)b + i * compute_size[c],
                   (size_t)compute_size[c]);
  }
}

/* The expressions of elementwise.def as strings. */
static const char *const expressions[] = {
#define EACH_ALL(n, name, expression)    #expression,
#define EACH_FLOAT                       EACH_ALL
#define EACH_INTEGER                     EACH_ALL
#define EACH_PAIR(name, suffix, compute) "V(" #name,
#include "kernel/engine/elementwise_each.inc"
};

/* Whether an expression uses functions of vmath.h, directly or by a macro. */
static bool is_bounded(const char *expression) {
  static const char *const names[] = {"V(", "EXP(", "LOG(", "LOG1P", "LOG_ADD", "POWER(", "ATAN2(", "SIGMOID("};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strstr(expression, names[i])) return true;
  return false;
}

/* Correctly rounded operations give the same result at every level, for all lengths, and in place. Functions of vmath.h
 * have error bounds instead (vmath.c); within one level they, too, do not depend on the position of an element. */
static void results_are_the_same_at_every_level_and_position(void **state) {
  (void)state;
  enum { N = 300 };
  random_source random = {14};
  for (int f = 0; f < N_EW; f++)
    for (int c = 0; c < N_COMPUTE; c++) {
      const bool bounded = is_bounded(expressions[f]);
      for (int l = 0; l < n_levels; l++) assert_int_equal(!level[l]->elementwise[f][c], !level[0]->elementwise[f][c]);
      /* each of its elements consists of two values */
      if (!level[0]->elementwise[f][c] || f == EW_product_of_complex128) continue;
      for (int n = 0; n <= N; n += 1 + n / 4) {
        _Alignas(64) char x[ELEMENTWISE_INPUTS][N * 8 + 64], want[N * 8], got[N * 8], one[8];
        compute_value parameter[ELEMENTWISE_PARAMETERS] = {{0}};
        for (int k = 0; k < 2; k++) fill_operand(&random, c, &parameter[k], 1);
        /* addresses aligned to an element only */
        const int shift = (int)random_below(&random, 8) * compute_size[c];
        const void *in[ELEMENTWISE_INPUTS] = {x[0] + shift, x[1] + 8, x[2], x[3], x[4]};
        for (int k = 0; k < ELEMENTWISE_INPUTS; k++) fill_operand(&random, c, (void *)(uintptr_t)in[k], N);
        level[0]->elementwise[f][c](want, in, parameter, n);
        for (int l = 0; l < n_levels; l++) {
          level[l]->elementwise[f][c](got, in, parameter, n);
          for (int i = 0; i < n; i++) {
            const void *at[ELEMENTWISE_INPUTS];
            for (int k = 0; k < ELEMENTWISE_INPUTS; k++) at[k] = (const char *)in[k] + i * compute_size[c];
            level[l]->elementwise[f][c](one, at, parameter, 1);
            const bool right =
                same_element(c, got + i * compute_size[c], one, 0) && (bounded || same_element(c, want, got, i));
            if (!right)
              print_error("function %d, compute type %d, level %s, n %d, element %d\n", f, c, level[l]->name, n, i);
            assert_true(right);
          }
        }
        level[n_levels - 1]->elementwise[f][c]((void *)(uintptr_t)in[0], in, parameter, n);
        assert_memory_equal(in[0], got, (size_t)(n * compute_size[c]));
      }
    }
}

/* ---- reductions -------------------------------------------------------------------------------------------------- */

/* The documented order of additions: 16 lanes, then a tree. */
static float sum_by_definition(const float *x, int64_t n) {
  volatile float lane[16] = {0}; /* volatile: each addition rounds to float */
  for (int64_t i = 0; i < n; i++) lane[i % 16] += x[i];
  for (int half = 8; half; half /= 2)
    for (int l = 0; l < half; l++) lane[l] += lane[l + half];
  return lane[0];
}

static void sums_depend_only_on_the_elements(void **state) {
  (void)state;
  random_source random = {15};
  _Alignas(64) static float x[REDUCE_BLOCK], shifted[REDUCE_BLOCK + 16];
  _Alignas(64) static double d[REDUCE_BLOCK], d_shifted[REDUCE_BLOCK + 8];
  for (int64_t n = 0; n <= REDUCE_BLOCK; n += 1 + n / 16) {
    for (int64_t i = 0; i < n; i++) {
      x[i] = ldexpf((float)(int32_t)random_next(&random), -(int)random_below(&random, 60));
      d[i] = ldexp((double)(int64_t)random_next(&random), -(int)random_below(&random, 100));
    }
    const float want = sum_by_definition(x, n);
    const double d_want = level[0]->sum_f64(d, n);
    for (int l = 0; l < n_levels; l++)
      for (int shift = 0; shift < 16; shift++) {
        memcpy(shifted + shift, x, (size_t)n * sizeof *x);
        memcpy(d_shifted + shift / 2, d, (size_t)n * sizeof *d);
        assert_true(level[l]->sum_f32(shifted + shift, n) == want);
        assert_true(level[l]->sum_f64(d_shifted + shift / 2, n) == d_want);
      }
  }
}

static void integer_sums_wrap(void **state) {
  (void)state;
  int64_t x[REDUCE_BLOCK];
  random_source random = {16};
  for (int l = 0; l < n_levels; l++)
    for (int64_t n = 0; n <= REDUCE_BLOCK; n += 1 + n / 16) {
      uint64_t want = 0;
      for (int64_t i = 0; i < n; i++) want += (uint64_t)(x[i] = (int64_t)random_next(&random));
      assert_true(level[l]->sum_i64(x, n) == (int64_t)want);
    }
}

static void maxima_keep_nan(void **state) {
  (void)state;
  float x[67];
  for (int l = 0; l < n_levels; l++)
    for (int n = 1; n <= 67; n++)
      for (int at = 0; at < n; at++) {
        for (int i = 0; i < n; i++) x[i] = -(float)i - 5;
        x[at] = -1;
        assert_true(level[l]->max_f32(x, n) == -1);
        x[at] = NAN;
        assert_true(isnan(level[l]->max_f32(x, n)));
        for (int i = 0; i < n; i++) x[i] = -INFINITY;
        assert_true(level[l]->max_f32(x, n) == -INFINITY);
      }
}

/* ---- choice of the level ----------------------------------------------------------------------------------------- */

static void level_can_be_chosen_by_environment(void **state) {
  (void)state;
  for (int l = 0; l < n_levels; l++) {
    child_end end;
    char setting[64];
    snprintf(setting, sizeof setting, "CANNON_ISA=%s", level[l]->name);
    run_self(&end, "name", setting);
    assert_string_equal(end.text, level[l]->name);
  }
  child_end end;
  run_self(&end, "name", (char[]){"CANNON_ISA=none such"});
  assert_string_equal(end.text, level[n_levels - 1]->name);
}

int main(int argc, char **argv) {
  if (argc > 1 && !strcmp(argv[1], "name")) return fprintf(stderr, "%s", loops->name) < 0;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values_survive_a_round_trip),
      cmocka_unit_test(vectors_of_halves_convert_as_single_elements),
      cmocka_unit_test(functions_of_halves_equal_those_of_floats),
      cmocka_unit_test(floats_truncate_and_saturate),
      cmocka_unit_test(integer_conversions_wrap),
      cmocka_unit_test(stores_to_half_round_once),
      cmocka_unit_test(strides_change_only_addresses),
      cmocka_unit_test(results_are_the_same_at_every_level_and_position),
      cmocka_unit_test(sums_depend_only_on_the_elements),
      cmocka_unit_test(integer_sums_wrap),
      cmocka_unit_test(maxima_keep_nan),
      cmocka_unit_test(level_can_be_chosen_by_environment),
  };
  return cmocka_run_group_tests(tests, find_levels, NULL);
}
