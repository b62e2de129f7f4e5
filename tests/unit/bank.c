/* SPDX-License-Identifier: Apache-2.0 */
/* What the bank decides, given measured times: no clock, no threads. */
#include "runtime/bank.h"

#include "unit.h"

enum { US = 1000, MS = 1000 * US };

/* Loops of alone_ns each, whose others' half wins won_ns, until `ns` of them have passed. */
static uint64_t pass_until_raised(bank *b, int most) {
  const int before = bank_threads(b, most);
  uint64_t passed = 0;
  for (; bank_threads(b, most) == before && passed < 100u * 1000 * MS; passed += 100 * US) bank_pass(b, 100 * US);
  return passed;
}

static void all_threads_at_first(void **state) {
  (void)state;
  const bank b = {0};
  assert_int_equal(bank_threads(&b, 1), 1);
  assert_int_equal(bank_threads(&b, 2), 2);
  assert_int_equal(bank_threads(&b, 200), 200);
}

static void wins_change_nothing(void **state) {
  (void)state;
  bank b = {0};
  for (int i = 0; i < 1000; ++i) {
    bank_settle(&b, 2, 50 * US, 5 * US);
    bank_pass(&b, 50 * US);
    assert_int_equal(bank_threads(&b, 2), 2);
  }
}

static void a_loss_ends_teams_for_sixteen_times_as_long(void **state) {
  (void)state;
  bank b = {0};
  bank_settle(&b, 2, 0, 3 * MS);
  assert_int_equal(bank_threads(&b, 2), 1);
  assert_true(pass_until_raised(&b, 2) == 48 * MS);
  assert_int_equal(bank_threads(&b, 2), 2);
}

/* The first loop on threads that must be woken loses; the next ones make up for it. */
static void a_small_loss_is_a_stake(void **state) {
  (void)state;
  bank b = {0};
  bank_settle(&b, 2, 0, 100 * US);
  for (int i = 0; i < 100; ++i) {
    assert_int_equal(bank_threads(&b, 2), 2);
    bank_settle(&b, 2, 30 * US, 5 * US);
  }
}

static void trust_ends_with_a_loss_and_comes_back(void **state) {
  (void)state;
  bank b = {0};
  assert_true(bank_trusts(&b));
  bank_settle(&b, 2, 0, 1 * MS);
  assert_false(bank_trusts(&b));
  pass_until_raised(&b, 2);
  assert_false(bank_trusts(&b));
  for (int i = 0; i < 100; ++i) bank_settle(&b, 2, 20 * US, 0);
  assert_true(bank_trusts(&b));
}

/* Threads that are woken again and again and never come in time. */
static void small_losses_add_up(void **state) {
  (void)state;
  bank b = {0};
  int n = 0;
  for (; bank_threads(&b, 2) == 2 && n < 1000; ++n) bank_settle(&b, 2, 0, 10 * US);
  assert_int_equal(n, 21);
  assert_true(pass_until_raised(&b, 2) >= 16 * 210 * US);
}

static void losses_in_a_row_cost_more_and_wins_forgive(void **state) {
  (void)state;
  bank b = {0};
  uint64_t last = 0;
  for (int i = 0; i < 3; ++i) {
    bank_settle(&b, 2, 0, 1 * MS);
    const uint64_t passed = pass_until_raised(&b, 2);
    assert_true(passed > last);
    last = passed;
  }
  for (int i = 0; i < 2000; ++i) bank_settle(&b, 2, 50 * US, 0);
  bank_settle(&b, 2, 0, 31 * MS); /* 30 of them were won */
  assert_true(pass_until_raised(&b, 2) == 16 * MS);
}

/* A quiet machine comes back within a second of loops, whatever was lost. */
static void debts_are_bounded(void **state) {
  (void)state;
  bank b = {0};
  for (int i = 0; i < 20; ++i) {
    bank_settle(&b, 2, 0, UINT64_MAX / 2);
    assert_true(pass_until_raised(&b, 2) <= 1000 * MS);
  }
}

/* However a machine loses, and whatever the wins between: what is lost in the end is 1/16 and one loss more at most. */
static void total_loss_is_bounded(void **state) {
  (void)state;
  for (uint32_t seed = 1; seed <= 50; ++seed) {
    bank b = {0};
    uint32_t lot = seed;
    double spent = 0, lost = 0;
    for (int i = 0; i < 20000; ++i) {
      lot = lot * 1664525 + 1013904223;
      const uint64_t alone = 50 * US;
      if (bank_threads(&b, 2) == 2) {
        const uint64_t loss = lot >> 16 < 65536 * (seed % 10 + 1) / 20 ? (lot >> 8 & 15) * MS : 0;
        bank_settle(&b, 2, 20 * US, loss);
        lost += (double)loss - 20 * US;
      }
      bank_pass(&b, alone);
      spent += (double)alone;
    }
    assert_true(lost <= spent / 16 + 16 * MS);
  }
}

static void larger_teams_shrink_by_halves_and_grow_again(void **state) {
  (void)state;
  bank b = {0};
  bank_settle(&b, 64, 0, 2 * MS);
  assert_int_equal(bank_threads(&b, 64), 32);
  bank_settle(&b, 32, 0, 2 * MS);
  assert_int_equal(bank_threads(&b, 64), 16);
  assert_int_equal(bank_threads(&b, 8), 8);
  pass_until_raised(&b, 64);
  assert_int_equal(bank_threads(&b, 64), 32);
  for (int i = 0; i < 1000; ++i) bank_settle(&b, 32, 50 * US, 0);
  assert_int_equal(bank_threads(&b, 64), 64);
}

#ifdef CANNON_INVARIANTS
static void check_finds_what_is_out_of_bounds(void **state) {
  (void)state;
  bank b = {0};
  assert_true(bank_is_valid(&b));
  bank_settle(&b, 4, 0, 3 * MS);
  assert_true(bank_is_valid(&b));
  const bank wrong[] = {{.limit = -1},   {.limit = 1 << 20},         {.limit = 1, .strikes = 100},
                        {.strikes = -1}, {.balance_ns = -1000 * MS}, {.balance_ns = 1000 * MS},
                        {.debt_ns = 1}};
  for (size_t i = 0; i < COUNT(wrong); ++i) assert_false(bank_is_valid(&wrong[i]));
}
#endif

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_threads_at_first),
      cmocka_unit_test(wins_change_nothing),
      cmocka_unit_test(a_loss_ends_teams_for_sixteen_times_as_long),
      cmocka_unit_test(a_small_loss_is_a_stake),
      cmocka_unit_test(trust_ends_with_a_loss_and_comes_back),
      cmocka_unit_test(small_losses_add_up),
      cmocka_unit_test(losses_in_a_row_cost_more_and_wins_forgive),
      cmocka_unit_test(debts_are_bounded),
      cmocka_unit_test(total_loss_is_bounded),
      cmocka_unit_test(larger_teams_shrink_by_halves_and_grow_again),
#ifdef CANNON_INVARIANTS
      cmocka_unit_test(check_finds_what_is_out_of_bounds),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
