/* SPDX-License-Identifier: Apache-2.0 */
/* The map of what is real in a dry run, against a plain list of bytes; and the options of dry runs. */
#include "memory/real_ranges.h"

#include "base/settings/dry_options.h"
#include "unit.h"

enum { BASE = 4096, N = 300, MOST = 40, N_STEPS = ROUNDS(20000) };

static real_ranges ranges = {.item_bytes = sizeof(interval)};
static bool is_real[N];

static void check_stretches(unsigned start, unsigned n) {
  bool all = true;
  for (unsigned at = start, length; at < start + n; at += length) {
    bool real;
    length = (unsigned)real_ranges_stretch(&ranges, BASE + at, start + n - at, &real);
    assert_true(length > 0);
    for (unsigned i = at; i < at + length; ++i) assert_int_equal(is_real[i], real);
    all = all && real;
  }
  assert_int_equal(real_ranges_cover(&ranges, BASE + start, n), all);
}

static void agrees_with_a_list(void **state) {
  (void)state;
  random_source r = {.state = 1};
  for (int step = 0; step < N_STEPS; ++step) {
    const unsigned start = random_below(&r, N), n = random_below(&r, N - start < MOST ? N - start : MOST);
    const bool real = random_below(&r, 2);
    if (real)
      assert_true(real_ranges_add(&ranges, BASE + start, n));
    else
      real_ranges_remove(&ranges, BASE + start, n);
    for (unsigned i = start; i < start + n; ++i) is_real[i] = real;
    check_stretches(0, N);
    check_stretches(start, n);
  }
  real_ranges_add(&ranges, BASE, N);
  assert_int_equal(ranges.n, 1); /* neighbours are joined */
  real_ranges_remove(&ranges, BASE, N);
  assert_int_equal(ranges.n, 0);
}

static void options_are_parsed(void **state) {
  (void)state;
  dry_options o;
  char bad[DRY_OPTIONS_BAD];
  assert_true(dry_options_parse("0", &o, bad));
  assert_false(o.on);
  assert_true(dry_options_parse("1", &o, bad));
  assert_true(o.on && o.unknown == DRY_UNKNOWN_MAX && !dry_options_is_real(&o, "Add"));
  assert_true(dry_options_parse("unknown=12,real=aclnnArgMax,real=Nonzero", &o, bad));
  assert_true(o.on && o.unknown == DRY_UNKNOWN_N && o.unknown_n == 12);
  assert_true(dry_options_is_real(&o, "ArgMax") && dry_options_is_real(&o, "Nonzero"));
  assert_false(dry_options_is_real(&o, "Arg") || dry_options_is_real(&o, "Max"));
  assert_false(dry_options_parse("real=Add,unknown=some,unknown=half", &o, bad));
  assert_string_equal(bad, "unknown=some");
  assert_int_equal(o.unknown, DRY_UNKNOWN_HALF);
  assert_true(dry_options_parse("values=/tmp/v,host=2us", &o, bad));
  assert_string_equal(o.values, "/tmp/v");
  assert_false(dry_options_parse("unknown=-1", &o, bad));
  assert_false(dry_options_parse("real=", &o, bad));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(agrees_with_a_list), cmocka_unit_test(options_are_parsed)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
