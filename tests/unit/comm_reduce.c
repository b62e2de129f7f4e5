/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions of collectives compared with plain loops: each type and operation, at each instruction set level of this
 * processor; also copies, and the names of comm_types.h. */
#include "comm/reduce.h"

#include <math.h>

#include "comm/reduce_level.h"
#include "kernel/engine/level_choice.h"
#include "tensor/dtype.h"
#include "unit.h"

extern const comm_reduce_table LEVEL_BASED(comm_reduce_table);
LEVEL_IF_V3(extern const comm_reduce_table comm_reduce_table_v3;)
LEVEL_IF_V4(extern const comm_reduce_table comm_reduce_table_v4;)

enum { MOST_LEVELS = 3, MOST_IN = 9, MOST_OUT = 5, MOST_COUNT = 5003, GUARD = 64 };
enum { VECTOR_BYTES = MOST_COUNT * 8 + 3 * GUARD };

static const comm_reduce_table *levels[MOST_LEVELS];
static int n_levels;

static int find_levels(void **state) {
  (void)state;
  levels[n_levels++] = &LEVEL_BASED(comm_reduce_table);
  /* Where the level in use is lower than the highest one, the processor lacks the highest, or CANNON_ISA forbids it. */
  LEVEL_IF_V3(if (isa_level_chosen() >= LEVEL_V3) levels[n_levels++] = &comm_reduce_table_v3;)
  LEVEL_IF_V4(if (isa_level_chosen() >= LEVEL_V4) levels[n_levels++] = &comm_reduce_table_v4;)
  return 0;
}

/* ---- the reference ----------------------------------------------------------------------------------------------- */

static const comm_dtype reduced[] = {COMM_INT8,   COMM_INT16,  COMM_INT32, COMM_INT64, COMM_UINT8, COMM_UINT16,
                                     COMM_UINT32, COMM_UINT64, COMM_FP16,  COMM_FP32,  COMM_BF16,  COMM_FP64};

static bool is_float(comm_dtype t) { return t == COMM_FP16 || t == COMM_FP32 || t == COMM_BF16 || t == COMM_FP64; }
static bool is_unsigned(comm_dtype t) {
  return t == COMM_UINT8 || t == COMM_UINT16 || t == COMM_UINT32 || t == COMM_UINT64;
}

/* Element i as 64 bits: integers extended by their sign or by zeros, float64 as it is, other floats as a float. */
static uint64_t element(comm_dtype t, const void *vector, size_t i) {
  const size_t bytes = comm_dtype_bytes(t);
  uint64_t bits = 0;
  memcpy(&bits, (const char *)vector + i * bytes, bytes); /* little endian, as on all supported processors */
  if (t == COMM_FP16) return bits_of_float(half_to_float((uint16_t)bits));
  if (t == COMM_BF16) return bits << 16;
  if (is_float(t) || is_unsigned(t)) return bits;
  const int shift = 64 - 8 * (int)bytes;
  return (uint64_t)((int64_t)(bits << shift) >> shift);
}

static double number(comm_dtype t, uint64_t bits) {
  double d;
  memcpy(&d, &bits, sizeof d);
  return t == COMM_FP64 ? d : (double)float_of_bits((uint32_t)bits);
}

static uint64_t combine_float(comm_dtype t, comm_reduction op, uint64_t x, uint64_t y) {
  const double a = number(t, x), b = number(t, y);
  if (op == COMM_MAX || op == COMM_MIN) {
    if (isnan(a) || isnan(b)) return isnan(a) ? x : y;
    if (a == 0 && b == 0) return (op == COMM_MAX) == (signbit(a) != 0) ? y : x;
    return (op == COMM_MAX) == (a > b) ? x : y;
  }
  if (t != COMM_FP64) {
    const float p = (float)a, q = (float)b;
    return bits_of_float(op == COMM_SUM ? p + q : p * q);
  }
  const double d = op == COMM_SUM ? a + b : a * b;
  uint64_t bits;
  memcpy(&bits, &d, sizeof bits);
  return bits;
}

static uint64_t combine(comm_dtype t, comm_reduction op, uint64_t x, uint64_t y) {
  if (is_float(t)) return combine_float(t, op, x, y);
  if (op == COMM_SUM) return x + y;
  if (op == COMM_PROD) return x * y;
  const bool greater = is_unsigned(t) ? x > y : (int64_t)x > (int64_t)y;
  return (op == COMM_MAX) == greater ? x : y;
}

/* The bits of the result as an element of the type. */
static uint64_t stored(comm_dtype t, uint64_t bits) {
  if (t == COMM_FP64) return isnan(number(t, bits)) ? UINT64_C(0x7ff8000000000000) : bits;
  if (is_float(t)) {
    const float f = isnan(number(t, bits)) ? float_of_bits(0x7fc00000) : float_of_bits((uint32_t)bits);
    return t == COMM_FP16 ? half_from_float(f) : t == COMM_BF16 ? bf16_from_float(f) : bits_of_float(f);
  }
  return bits;
}

static void reference(comm_dtype t, comm_reduction op, void *to, const void *const *in, int n_in, size_t count) {
  const size_t bytes = comm_dtype_bytes(t);
  for (size_t i = 0; i < count; i++) {
    uint64_t result = element(t, in[0], i);
    for (int k = 1; k < n_in; k++) result = combine(t, op, result, element(t, in[k], i));
    const uint64_t bits = stored(t, result);
    memcpy((char *)to + i * bytes, n_in == 1 ? (const char *)in[0] + i * bytes : (const char *)&bits, bytes);
  }
}

/* ---- operands ---------------------------------------------------------------------------------------------------- */

static random_source source = {21};

/* Random bits; floats are mostly near 1, with NaNs of any payload, infinities, zeros of both signs, denormals and large
 * numbers among them. */
static uint64_t operand(comm_dtype t) {
  const uint64_t random = random_next(&source);
  const uint32_t kind = random_below(&source, 32);
  if (!is_float(t)) return kind ? random : random & 1 ? UINT64_C(0x8080808080808080) : UINT64_MAX;
  if (kind == 0) return random;
  const double special[] = {0.0, -0.0, INFINITY, -INFINITY, 65504, -65504, 1e-7, 3e38, 1e-310, 1e-40};
  double d = kind < 6 ? special[random % COUNT(special)] : 0.5 + (double)(random >> 11) * 0x1p-53;
  if (kind > 20) d = -d;
  uint64_t bits;
  memcpy(&bits, &d, sizeof bits);
  if (t == COMM_FP64) return bits;
  return t == COMM_FP32   ? bits_of_float((float)d)
         : t == COMM_FP16 ? half_from_float((float)d)
                          : bf16_from_float((float)d);
}

static void fill(comm_dtype t, char *vector, size_t count) {
  const size_t bytes = comm_dtype_bytes(t);
  for (size_t i = 0; i < count; i++) {
    const uint64_t bits = operand(t);
    memcpy(vector + i * bytes, &bits, bytes);
  }
}

/* ---- reductions -------------------------------------------------------------------------------------------------- */

static _Alignas(64) char inputs[MOST_IN][VECTOR_BYTES], outputs[MOST_OUT][VECTOR_BYTES], kept[VECTOR_BYTES],
    expected[VECTOR_BYTES];

typedef struct {
  comm_dtype dtype;
  comm_reduction op;
  int n_in, n_out, in_place; /* in_place: the input that is the first output; -1: none */
  size_t count;
  bool stream_out;
} reduction_case;

/* Vectors start at any element of a cache line. */
static size_t random_start(size_t bytes) { return GUARD + bytes * random_below(&source, (uint32_t)(GUARD / bytes)); }

static void check_bytes_around(const char *vector, size_t begin, size_t bytes) {
  for (size_t i = 0; i < GUARD; i++) {
    assert_int_equal(vector[begin - 1 - i], 0x5a);
    assert_int_equal(vector[begin + bytes + i], 0x5a);
  }
}

static void check_reduction(const comm_reduce_table *level, const reduction_case *c) {
  const size_t bytes = comm_dtype_bytes(c->dtype);
  const void *in[MOST_IN];
  void *out[MOST_OUT];
  size_t start[MOST_OUT];
  for (int k = 0; k < c->n_in; k++) {
    char *const at = inputs[k] + random_start(bytes);
    fill(c->dtype, at, c->count);
    in[k] = at;
  }
  for (int k = 0; k < c->n_out; k++) {
    start[k] = random_start(bytes);
    memset(outputs[k], 0x5a, start[k] + c->count * bytes + GUARD);
    out[k] = outputs[k] + start[k];
  }
  reference(c->dtype, c->op, expected, in, c->n_in, c->count);
  if (c->in_place >= 0) {
    memcpy(out[0], in[c->in_place], c->count * bytes);
    in[c->in_place] = out[0];
  }
  level->of[c->dtype][c->op](out, c->n_out, in, c->n_in, c->count, c->stream_out);
  for (int k = 0; k < c->n_out; k++) {
    for (size_t i = 0; i < c->count; i++)
      if (memcmp((char *)out[k] + i * bytes, expected + i * bytes, bytes)) {
        uint64_t got = 0, wanted = 0;
        memcpy(&got, (char *)out[k] + i * bytes, bytes);
        memcpy(&wanted, expected + i * bytes, bytes);
        print_error("%s of %s at level %s, %d inputs of %zu, output %d of %d: element %zu is %jx, expected %jx\n",
                    comm_reduction_name(c->op), comm_dtype_name(c->dtype), level->name, c->n_in, c->count, k, c->n_out,
                    i, (uintmax_t)got, (uintmax_t)wanted);
        assert_true(false);
      }
    check_bytes_around(outputs[k], start[k], c->count * bytes);
  }
}

/* Every number of inputs and outputs with every count occurs; where they are many, with some of the types. */
static void results_are_those_of_plain_loops(void **state) {
  (void)state;
  static const size_t large[] = {511, 1023, 1025, 2049, 3333, MOST_COUNT};
  for (int l = 0; l < n_levels; l++)
    for (size_t t = 0; t < COUNT(reduced); t++)
      for (int op = 0; op < COMM_N_REDUCTIONS; op++)
        for (int n_in = 1; n_in <= MOST_IN; n_in++)
          for (size_t s = 0; s <= 70 + COUNT(large); s++) {
            const int pick = (int)random_below(&source, 3 * (uint32_t)n_in);
            const reduction_case c = {.dtype = reduced[t],
                                      .op = (comm_reduction)op,
                                      .n_in = n_in,
                                      .n_out = 1 + (int)random_below(&source, MOST_OUT),
                                      .in_place = pick < n_in ? pick : -1,
                                      .count = s <= 70 ? s : large[s - 71],
                                      .stream_out = random_below(&source, 2)};
            if (WITH_ASAN && s % 5) continue;
            check_reduction(levels[l], &c);
          }
}

/* An operand's place in the vector, and where the vector starts, do not matter: also for NaNs. */
static void equal_operands_give_equal_bits_everywhere(void **state) {
  (void)state;
  static const uint32_t values[][2] = {{0x7fc00001, 0xffc12345}, {0xff812345, 0x7fc00000}, {0x7f800000, 0xff800000},
                                       {0x00000000, 0x80000000}, {0x80000000, 0x00000000}, {0x00000001, 0x80000001}};
  static uint32_t a[101], b[101], c[101];
  for (int l = 0; l < n_levels; l++)
    for (size_t v = 0; v < COUNT(values); v++)
      for (int op = 0; op < COMM_N_REDUCTIONS; op++) {
        for (size_t i = 0; i < COUNT(a); i++) a[i] = values[v][0], b[i] = values[v][1];
        levels[l]->of[COMM_FP32][op]((void *[]){c}, 1, (const void *[]){a, b}, 2, COUNT(a), false);
        for (size_t i = 1; i < COUNT(a); i++) assert_int_equal(c[i], c[0]);
        levels[0]->of[COMM_FP32][op]((void *[]){c + 1}, 1, (const void *[]){a, b}, 2, 1, false);
        assert_int_equal(c[1], c[0]);
      }
}

/* 256 + 1 is rounded in bfloat16, and 256 + 1 + 1 is not: the sum is 258 only if it is rounded once. */
static void sums_of_16_bit_floats_are_rounded_once(void **state) {
  (void)state;
  enum { N = 77, MANY = 259 };
  static uint16_t one[N], large[N], sum[N];
  const void *in[MANY] = {large};
  for (int k = 1; k < MANY; k++) in[k] = one;
  for (int l = 0; l < n_levels; l++)
    for (int n_in = 3; n_in <= MANY; n_in += 2) {
      for (int i = 0; i < N; i++) one[i] = bf16_from_float(1), large[i] = bf16_from_float(256);
      levels[l]->of[COMM_BF16][COMM_SUM]((void *[]){sum}, 1, in, n_in, N, false);
      for (int i = 0; i < N; i++) assert_int_equal(sum[i], bf16_from_float((float)(256 + n_in - 1)));
      for (int i = 0; i < N; i++) one[i] = half_from_float(1), large[i] = half_from_float(2048);
      levels[l]->of[COMM_FP16][COMM_SUM]((void *[]){sum}, 1, in, n_in, N, false);
      for (int i = 0; i < N; i++) assert_int_equal(sum[i], half_from_float((float)(2048 + n_in - 1)));
    }
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

static void copies_reach_all_outputs_but_the_input(void **state) {
  (void)state;
  for (int l = 0; l < n_levels; l++)
    for (int round = 0; round < ROUNDS(2000); round++) {
      const size_t bytes = round % 4 ? random_below(&source, 700) : random_below(&source, VECTOR_BYTES - 3 * GUARD);
      const int n_out = 1 + (int)random_below(&source, MOST_OUT);
      const size_t from = random_start(1);
      void *out[MOST_OUT];
      size_t start[MOST_OUT];
      for (size_t i = 0; i < bytes; i++) inputs[0][from + i] = (char)random_next(&source);
      memcpy(kept, inputs[0] + from, bytes);
      for (int k = 0; k < n_out; k++) {
        start[k] = random_start(1);
        memset(outputs[k], 0x5a, start[k] + bytes + GUARD);
        out[k] = random_below(&source, 4) ? outputs[k] + start[k] : inputs[0] + from;
      }
      levels[l]->copy(out, n_out, inputs[0] + from, bytes, round % 2);
      assert_memory_equal(inputs[0] + from, kept, bytes);
      for (int k = 0; k < n_out; k++) {
        assert_memory_equal(out[k], kept, bytes);
        if (out[k] == outputs[k] + start[k]) check_bytes_around(outputs[k], start[k], bytes);
      }
    }
}

/* ---- types ------------------------------------------------------------------------------------------------------- */

static void each_type_has_its_reductions_or_none(void **state) {
  (void)state;
  for (int t = -1; t <= COMM_N_DTYPES; t++)
    for (int op = -1; op <= COMM_N_REDUCTIONS; op++) {
      bool wanted = false;
      for (size_t i = 0; i < COUNT(reduced); i++) wanted |= (int)reduced[i] == t;
      wanted &= op >= 0 && op < COMM_N_REDUCTIONS;
      comm_reduce *const f = comm_reduce_for((comm_dtype)t, (comm_reduction)op);
      assert_int_equal(f != NULL, wanted);
      if (f) assert_ptr_equal(f, levels[n_levels - 1]->of[t][op]);
    }
}

static void names_and_sizes_cover_the_types(void **state) {
  (void)state;
  for (int t = 0; t < COMM_N_DTYPES; t++) {
    assert_non_null(comm_dtype_name(t));
    assert_int_equal(comm_dtype_bytes(t) != 0, t != COMM_INT128 + 1);
  }
  for (int op = 0; op < COMM_N_REDUCTIONS; op++) assert_non_null(comm_reduction_name(op));
  for (int kind = 0; kind < COMM_N_KINDS; kind++) assert_non_null(comm_kind_name(kind));
  assert_string_equal(comm_kind_name(COMM_BATCH_SEND_RECV), "BatchSendRecv");
  assert_string_equal(comm_kind_name(-1), "unknown call");
  assert_string_equal(comm_dtype_name(COMM_BF16), "bfloat16");
  assert_string_equal(comm_dtype_name(COMM_N_DTYPES), "unknown type");
  assert_string_equal(comm_reduction_name(COMM_N_REDUCTIONS), "unknown operation");
  assert_int_equal(comm_dtype_bytes(-1), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(results_are_those_of_plain_loops),
      cmocka_unit_test(equal_operands_give_equal_bits_everywhere),
      cmocka_unit_test(sums_of_16_bit_floats_are_rounded_once),
      cmocka_unit_test(copies_reach_all_outputs_but_the_input),
      cmocka_unit_test(each_type_has_its_reductions_or_none),
      cmocka_unit_test(names_and_sizes_cover_the_types),
  };
  return cmocka_run_group_tests(tests, find_levels, NULL);
}
