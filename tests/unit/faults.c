/* SPDX-License-Identifier: Apache-2.0 */
/* The grammar of CANNON_FAIL, and which events its specifications choose. */
#include "base/settings/fault_specs.h"
#include "unit.h"

static void right_specifications_are_read(void **state) {
  (void)state;
  fault_list l;
  char bad[FAULT_BAD_BYTES];
  assert_true(fault_parse("alloc:3,op:Add:2+;prepare:7,alloc:p=0.25,seed=7,sync:1;copy:p=1;;file:1,,host:2", &l, bad));
  assert_int_equal(l.n, 8);
  assert_int_equal(l.spec[0].place, FAULT_ALLOC);
  assert_int_equal(l.spec[0].number, 3);
  assert_string_equal(l.spec[1].name, "Add");
  assert_true(l.spec[1].onwards);
  assert_int_equal(l.spec[2].place, FAULT_PREPARE);
  assert_string_equal(l.spec[2].name, "");
  assert_true(l.spec[3].probability == 0.25 && l.spec[3].seed == 7 && l.spec[3].number == 0);
  assert_string_equal(l.spec[3].text, "alloc:p=0.25,seed=7");
  assert_int_equal(l.spec[4].place, FAULT_SYNC);
  assert_true(l.spec[5].probability == 1 && l.spec[5].seed == 0);
  assert_int_equal(l.spec[7].place, FAULT_HOST);
  static const char *const none[] = {"", ",", ";,;", "count"};
  for (size_t i = 0; i < COUNT(none); i++) {
    assert_true(fault_parse(none[i], &l, bad));
    assert_int_equal(l.n, 0);
  }
}

static void wrong_specifications_are_named_and_the_others_taken(void **state) {
  (void)state;
  static const char *const wrong[] = {"alloc",
                                      "alloc:",
                                      "alloc:0",
                                      "alloc:-1",
                                      "alloc:+1",
                                      "alloc: 1",
                                      "alloc:1x",
                                      "alloc:1++",
                                      "alloc:0+",
                                      "alloc:Add:1",
                                      "copy:x:1",
                                      "ALLOC:1",
                                      "allo:1",
                                      "allocs:1",
                                      ":1",
                                      "op:",
                                      "op::1",
                                      "op:Add:",
                                      "op:Add",
                                      "op:Add:0",
                                      "op:A d:1",
                                      "op:a:b:1",
                                      "op:Add:1:2",
                                      "alloc:p",
                                      "alloc:p=",
                                      "alloc:p=1.1",
                                      "alloc:p=-0.1",
                                      "alloc:p=x",
                                      "alloc:p=.",
                                      "alloc:p=1e-3",
                                      "alloc:p=0.5x",
                                      "alloc:p=0.5,seed=",
                                      "alloc:p=0.5,seed=x",
                                      "alloc:1,seed=3",
                                      "alloc:99999999999999999999",
                                      "alloc:p=0.1,seed=99999999999999999999",
                                      "alloc:p=nan",
                                      "alloc:p=0..1",
                                      "1",
                                      "seed=3",
                                      "count",
                                      "p=0.5"};
  for (size_t i = 0; i < COUNT(wrong); i++) {
    char text[256], bad[FAULT_BAD_BYTES] = "";
    fault_list l;
    snprintf(text, sizeof text, "sync:2;%s;file:4", wrong[i]);
    assert_false(fault_parse(text, &l, bad));
    assert_string_equal(bad, wrong[i]);
    assert_int_equal(l.n, 2);
    assert_int_equal(l.spec[1].number, 4);
  }
}

static void long_lists_and_texts_are_refused(void **state) {
  (void)state;
  static char text[8192];
  char bad[FAULT_BAD_BYTES];
  fault_list l;
  for (int i = 0; i < FAULT_MAX_SPECS; i++) strcat(text, "op:1,");
  assert_true(fault_parse(text, &l, bad));
  strcat(text, "op:77");
  assert_false(fault_parse(text, &l, bad));
  assert_string_equal(bad, "op:77");
  assert_int_equal(l.n, FAULT_MAX_SPECS);
  memset(text, 'x', sizeof text - 1);
  memcpy(text, "op:", 3);
  assert_false(fault_parse(text, &l, bad));
  assert_int_equal(strlen(bad), FAULT_BAD_BYTES - 1);
}

/* Random texts of the grammar's pieces: nothing is read beyond, and what is taken is right. */
static void random_texts_do_no_harm(void **state) {
  (void)state;
  static const char *const piece[] = {"alloc", "op",  "sync",         ":", ":", ",", ";",  "p=",   "0.5",  "seed=", "1",
                                      "+",     "Add", "999999999999", "=", ".", "-", "\n", "\xff", "count"};
  const char *seed = getenv("CANNON_SEED");
  random_source r = {seed ? strtoull(seed, NULL, 10) : 1};
  for (int i = 0; i < ROUNDS(20000); i++) {
    char bad[FAULT_BAD_BYTES], text[400] = "";
    const uint64_t n = random_below(&r, 14);
    for (uint64_t k = 0; k < n; k++) strcat(text, piece[random_below(&r, COUNT(piece))]);
    char *exact = strdup(text); /* so that a sanitizer sees reads beyond */
    fault_list l, again;
    fault_parse(exact, &l, bad);
    for (int k = 0; k < l.n; k++) {
      assert_true(l.spec[k].place < N_FAULT_PLACES);
      assert_true(l.spec[k].number || (l.spec[k].probability >= 0 && l.spec[k].probability <= 1));
      assert_true(fault_parse(l.spec[k].text, &again, bad));
      assert_int_equal(again.n, 1);
    }
    free(exact);
  }
}

static void numbers_and_probabilities_choose(void **state) {
  (void)state;
  const fault_spec third = {.number = 3}, later = {.number = 3, .onwards = true};
  for (uint64_t n = 1; n < 9; n++) {
    assert_int_equal(fault_chooses(&third, n), n == 3);
    assert_int_equal(fault_chooses(&later, n), n >= 3);
  }
  enum { EVENTS = 100000 };
  const fault_spec a = {.probability = 0.1, .seed = 1}, b = {.probability = 0.1, .seed = 2};
  const fault_spec never = {.probability = 0}, always = {.probability = 1};
  int chosen = 0, both = 0;
  for (uint64_t n = 1; n <= EVENTS; n++) {
    chosen += fault_chooses(&a, n);
    both += fault_chooses(&a, n) && fault_chooses(&b, n);
    assert_int_equal(fault_chooses(&a, n), fault_chooses(&a, n));
    assert_false(fault_chooses(&never, n));
    assert_true(fault_chooses(&always, n));
  }
  assert_in_range(chosen, EVENTS / 10 - 600, EVENTS / 10 + 600); /* six standard deviations */
  assert_in_range(both, EVENTS / 100 - 200, EVENTS / 100 + 200);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(right_specifications_are_read),
      cmocka_unit_test(wrong_specifications_are_named_and_the_others_taken),
      cmocka_unit_test(long_lists_and_texts_are_refused),
      cmocka_unit_test(random_texts_do_no_harm),
      cmocka_unit_test(numbers_and_probabilities_choose),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
