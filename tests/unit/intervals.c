/* SPDX-License-Identifier: Apache-2.0 */
/* Intervals: found by any address, in order, and the gaps between them; against a plain list of units. */
#include "memory/intervals.h"

#include "unit.h"

enum { BASE = 1000, N_UNITS = 300, N_STEPS = 20000 };

typedef struct {
  interval at;
  int number;
} item;

static intervals all = {.item_bytes = sizeof(item)};
static int owner[N_UNITS]; /* of each unit, an item's number; 0: none */

static bool is_free(unsigned start, unsigned n) {
  for (unsigned i = start; i < start + n; i++)
    if (owner[i]) return false;
  return true;
}

static void own(unsigned start, unsigned n, int number) {
  for (unsigned i = start; i < start + n; i++) owner[i] = number;
}

static void check_all(void) {
  for (unsigned i = 0; i < N_UNITS; i++) {
    const item *found = intervals_find(&all, BASE + i);
    assert_int_equal(found ? found->number : 0, owner[i]);
  }
  for (size_t i = 1; i < all.n; i++) {
    const item *items = (const item *)(const void *)all.items;
    assert_true(items[i - 1].at.start + items[i - 1].at.bytes <= items[i].at.start);
  }
}

static unsigned first_gap(unsigned low, unsigned high, unsigned n, unsigned alignment) {
  for (unsigned i = low; i + n <= high; i++)
    if ((BASE + i) % alignment == 0 && is_free(i, n)) return BASE + i;
  return 0;
}

static void random_steps_agree_with_a_list(void **state) {
  (void)state;
  srand(1);
  for (int step = 1; step <= N_STEPS; step++) {
    const unsigned start = (unsigned)rand() % N_UNITS, longest = N_UNITS - start < 12 ? N_UNITS - start : 12,
                   n = 1 + (unsigned)rand() % longest, alignment = 1u << rand() % 4;
    item *there = intervals_overlap(&all, BASE + start, n);
    assert_int_equal(!there, is_free(start, n));
    assert_int_equal(intervals_gap(&all, BASE + start, BASE + N_UNITS, n, alignment),
                     first_gap(start, N_UNITS, n, alignment));
    if (there) {
      own((unsigned)(there->at.start - BASE), (unsigned)there->at.bytes, 0);
      intervals_remove(&all, there);
    } else {
      const item *made = intervals_insert(&all, &(item){{BASE + start, n}, step});
      assert_non_null(made);
      assert_int_equal(made->number, step);
      own(start, n, step);
    }
    if (step % 100 == 0) check_all();
  }
  while (all.n) intervals_remove(&all, all.items);
  free(all.items);
}

static void the_end_of_the_address_space_is_no_gap(void **state) {
  (void)state;
  intervals none = {.item_bytes = sizeof(item)};
  assert_int_equal(intervals_gap(&none, UINTPTR_MAX - 10, UINTPTR_MAX, 5, 16), 0);
  assert_int_equal(intervals_gap(&none, 1000, 2000, UINT64_MAX, 1), 0);
  assert_int_equal(intervals_gap(&none, 1000, 1000, 1, 1), 0);
  assert_null(intervals_find(&none, 5));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_steps_agree_with_a_list),
      cmocka_unit_test(the_end_of_the_address_space_is_no_gap),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
