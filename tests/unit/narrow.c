/* SPDX-License-Identifier: Apache-2.0 */
/* Floating-point types of 8 and 4 bits: known numbers, all codes there and back, numbers between two neighbours, and
 * what is beyond the largest one. */
#include "op/narrow.h"

#include <math.h>

#include "graph/nodes.h"
#include "op/executor.h"
#include "unit.h"

typedef struct {
  int format, sign; /* sign: its bit */
  uint8_t most, beyond, nan;
  float largest, least; /* the largest and the least number above 0 */
  bool no_zero;         /* no negative one */
} known;

static const known types[] = {
    {NARROW_E4M3FN, 0x80, 0x7e, 0x7f, 0x7f, 448, 0x1p-9F, false},
    {NARROW_E4M3FNUZ, 0x80, 0x7f, 0x80, 0x80, 240, 0x1p-10F, true},
    {NARROW_E5M2, 0x80, 0x7b, 0x7c, 0x7e, 57344, 0x1p-16F, false},
    {NARROW_E5M2FNUZ, 0x80, 0x7f, 0x80, 0x80, 57344, 0x1p-17F, true},
    {NARROW_E2M1, 0x08, 0x07, 0x07, 0x08, 6, 0.5F, false},
};

enum { N_TYPES = sizeof types / sizeof *types };

static uint8_t nearest(const known *t, float x) { return narrow_encode(t->format, x, true, NARROW_UP); }

static void codes_are_numbers(void **state) {
  (void)state;
  for (const known *t = types; t < types + N_TYPES; ++t) {
    assert_true(narrow_decode(t->format, t->most) == t->largest && narrow_decode(t->format, 1) == t->least);
    assert_true(narrow_decode(t->format, 0) == 0 && !signbit(narrow_decode(t->format, 0)));
    for (int code = 0; code <= t->most; ++code) {
      const float x = narrow_decode(t->format, (uint8_t)code);
      assert_int_equal(nearest(t, x), code);
      assert_true(code == 0 || x > narrow_decode(t->format, (uint8_t)(code - 1)));
      assert_int_equal(nearest(t, -x), code || !t->no_zero ? code | t->sign : 0);
      if (code) assert_true(narrow_decode(t->format, (uint8_t)(code | t->sign)) == -x);
    }
  }
}

static void halves_go_to_the_even_code(void **state) {
  (void)state;
  for (const known *t = types; t < types + N_TYPES; ++t)
    for (int code = 0; code < t->most; ++code) {
      const float low = narrow_decode(t->format, (uint8_t)code), high = narrow_decode(t->format, (uint8_t)(code + 1));
      const float middle = (low + high) / 2;
      assert_int_equal(nearest(t, middle), code % 2 ? code + 1 : code);
      assert_int_equal(nearest(t, nextafterf(middle, 0)), code);
      assert_int_equal(nearest(t, nextafterf(middle, INFINITY)), code + 1);
    }
}

static void what_is_beyond_saturates_or_not(void **state) {
  (void)state;
  const float large[] = {1e6F, 3e38F, INFINITY};
  for (const known *t = types; t < types + N_TYPES; ++t) {
    for (int i = 0; i < 3; ++i) {
      assert_int_equal(nearest(t, large[i]), t->most);
      assert_int_equal(nearest(t, -large[i]), t->most | t->sign);
      assert_int_equal(narrow_encode(t->format, large[i], false, NARROW_UP), t->beyond);
    }
    assert_int_equal(nearest(t, NAN), t->nan);
    assert_true(isnan(narrow_decode(t->format, t->nan)) || t->format == NARROW_E2M1);
  }
  assert_true(isinf(narrow_decode(NARROW_E5M2, 0x7c)) && isnan(narrow_decode(NARROW_E5M2, 0x7d)));
}

static void powers_of_two_are_rounded_as_asked(void **state) {
  (void)state;
  for (int code = 0; code < 0xff; ++code) {
    const float x = narrow_decode(NARROW_E8M0, (uint8_t)code);
    assert_true(x == ldexpf(1, code - 127));
    for (int r = NARROW_UP; r <= NARROW_NEAREST; ++r)
      assert_int_equal(narrow_encode(NARROW_E8M0, x, true, (narrow_rounding)r), code);
    if (code == 0xfe) continue;
    assert_int_equal(narrow_encode(NARROW_E8M0, x * 1.25F, true, NARROW_UP), code + 1);
    assert_int_equal(narrow_encode(NARROW_E8M0, x * 1.75F, true, NARROW_DOWN), code);
    assert_int_equal(narrow_encode(NARROW_E8M0, x * 1.25F, true, NARROW_NEAREST), code);
    assert_int_equal(narrow_encode(NARROW_E8M0, x * 1.75F, true, NARROW_NEAREST), code + 1);
  }
  assert_int_equal(narrow_encode(NARROW_E8M0, 0, true, NARROW_UP), 0);
  assert_int_equal(narrow_encode(NARROW_E8M0, -1, true, NARROW_UP), 0xff);
  assert_int_equal(narrow_encode(NARROW_E8M0, INFINITY, false, NARROW_UP), 0xff);
  assert_true(isnan(narrow_decode(NARROW_E8M0, 0xff)));
}

/* The operators, by all elements of a tensor. */
static void operators_convert_all_elements(void **state) {
  (void)state;
  enum { N = 10000 };
  static uint8_t codes[N], back[N];
  static float numbers[N];
  const int64_t n = N;
  for (int i = 0; i < N; ++i) codes[i] = (uint8_t)(i % 0x7f);
  ir_graph *g = ir_new();
  ir_value *bytes, *floats;
  assert_int_equal(ir_temporary(g, ACL_UINT8, &n, 1, &bytes), ST_OK);
  assert_int_equal(ir_temporary(g, ACL_FLOAT, &n, 1, &floats), ST_OK);
  op_arg decode[] = {{.tensor = &bytes->tensor}, {.tensor = &floats->tensor}, {.integer = NARROW_E4M3FN}};
  op_arg encode[] = {{.tensor = &floats->tensor}, {.tensor = &bytes->tensor}, {.integer = NARROW_E4M3FN}, {0}, {0}};
  uint64_t workspace_bytes;
  executor *e;
  assert_int_equal(op_prepare(&op_DecodeNarrow, decode, &workspace_bytes, &e), ST_OK);
  assert_int_equal(e->run(e, (void *[]){codes, numbers}, NULL), ST_OK);
  executor_unref(e);
  assert_int_equal(op_prepare(&op_EncodeNarrow, encode, &workspace_bytes, &e), ST_OK);
  assert_int_equal(e->run(e, (void *[]){numbers, back}, NULL), ST_OK);
  executor_unref(e);
  for (int i = 0; i < N; ++i) assert_true(numbers[i] == narrow_decode(NARROW_E4M3FN, codes[i]));
  assert_memory_equal(codes, back, sizeof codes);
  decode[2].integer = 21;
  assert_int_not_equal(op_prepare(&op_DecodeNarrow, decode, &workspace_bytes, &e), ST_OK);
  (void)fail_take();
  ir_free(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(codes_are_numbers), cmocka_unit_test(halves_go_to_the_even_code),
                                     cmocka_unit_test(what_is_beyond_saturates_or_not),
                                     cmocka_unit_test(powers_of_two_are_rounded_as_asked),
                                     cmocka_unit_test(operators_convert_all_elements)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
