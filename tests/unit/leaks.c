/* SPDX-License-Identifier: Apache-2.0 */
/* Components of the memory debugger: its options, and its tables compared with a model. */
#include <signal.h>

#include "check/block_table.h"
#include "check/leaks/leaks_options.h"
#include "unit.h"

/* ---- options ---- */

static void options_and_their_defaults_are_parsed(void **state) {
  (void)state;
  leaks_options o;
  char bad[LEAKS_OPTIONS_BAD];
  static const char *const empty[] = {"1", "", ",", ",,"};
  for (size_t i = 0; i < COUNT(empty); i++) {
    assert_true(leaks_options_parse(empty[i], &o, bad));
    assert_int_equal(o.max_blocks, 0);
    assert_int_equal(o.signal, SIGUSR2);
    assert_int_equal(o.frames, BLOCK_FRAMES);
    assert_string_equal(o.report, "cannon-leaks.%p.txt");
  }
  assert_true(leaks_options_parse("max=1000,report=/a=b/%p,signal=SIGHUP,frames=3", &o, bad));
  assert_int_equal(o.max_blocks, 1000);
  assert_string_equal(o.report, "/a=b/%p");
  assert_int_equal(o.signal, SIGHUP);
  assert_int_equal(o.frames, 3);
  assert_true(leaks_options_parse("signal=none", &o, bad));
  assert_int_equal(o.signal, 0);
}

static void invalid_options_are_named_and_the_others_applied(void **state) {
  (void)state;
  static const char *const wrong[] = {
      "max",      "max=",     "max=0",       "max=-1",     "max=1x",      "max=99999999999999999999",
      "frames=0", "frames=9", "signal=KILL", "signal=USR", "signal=usr2", "report=",
      "2",        "=",        "nonsense=1",  "leaks"};
  for (size_t i = 0; i < COUNT(wrong); i++) {
    char text[128], bad[LEAKS_OPTIONS_BAD] = "";
    leaks_options o;
    snprintf(text, sizeof text, "frames=2,%s,max=7", wrong[i]);
    assert_false(leaks_options_parse(text, &o, bad));
    assert_string_equal(bad, wrong[i]);
    assert_int_equal(o.frames, 2);
    assert_int_equal(o.max_blocks, 7);
    assert_int_equal(o.signal, SIGUSR2);
  }
  char lengthy[600] = "report=", bad[LEAKS_OPTIONS_BAD];
  leaks_options o;
  memset(lengthy + 7, 'x', sizeof lengthy - 8);
  assert_false(leaks_options_parse(lengthy, &o, bad));
  assert_int_equal(strlen(bad), sizeof bad - 1);
  assert_string_equal(o.report, "cannon-leaks.%p.txt");
}

/* ---- tables ---- */

enum { PLACES = 3000 };

static uint64_t live[PLACES]; /* number of the block at this address, or 0 */

static hook_block block_at(unsigned place, uint64_t number) {
  return (hook_block){.address = 0x200000000000 + 512 * (uintptr_t)place,
                      .bytes = 512,
                      .requested = 1 + place % 500,
                      .number = number,
                      .call = "test",
                      .site = (void *)(uintptr_t)(1 + number)};
}

static void assert_table_is_the_model(uint64_t n_live, uint64_t bytes) {
  size_t n;
  live_record *copy = block_table_copy(&n);
  assert_int_equal(n, n_live);
  assert_int_equal(block_table_counts().n_live, n_live);
  assert_int_equal(block_table_counts().live_bytes, bytes);
  for (size_t i = 0; i < n; i++) {
    const unsigned place = (unsigned)((copy[i].address - 0x200000000000) / 512);
    assert_int_equal(copy[i].number, live[place]);
    assert_ptr_equal(copy[i].frame[0], (void *)(uintptr_t)(1 + live[place]));
  }
  free(copy);
}

static void table_agrees_with_a_model(void **state) {
  (void)state;
  random_source random = {7};
  uint64_t n_live = 0, bytes = 0;
  for (uint64_t number = 1; number <= ROUNDS(200000); number++) {
    /* Alternates between few and many addresses, so that the table grows and is compacted. */
    const unsigned place = random_below(&random, number % 50000 < 25000 ? PLACES : 50);
    hook_block b = block_at(place, live[place] ? live[place] : number);
    if (live[place]) {
      block_table_remove(&b, (void *)(uintptr_t)number);
      freed_record r;
      assert_true(block_table_find_freed(b.address + b.requested - 1, &r));
      assert_int_equal(r.number, live[place]);
      assert_ptr_equal(r.free_site, (void *)(uintptr_t)number);
      live[place] = 0;
      n_live--;
      bytes -= b.requested;
    } else {
      void *frame[1] = {b.site};
      assert_true(block_table_add(&b, frame, 1, number));
      live[place] = number;
      n_live++;
      bytes += b.requested;
    }
    if (number % 10007 == 0) assert_table_is_the_model(n_live, bytes);
  }
  assert_table_is_the_model(n_live, bytes);
}

/* Handles of physical memory are not addresses: one may have the value of a block's address, and no range follows
 * it. */
static void handles_are_not_addresses(void **state) {
  (void)state;
  freed_record r;
  hook_block block = block_at(200001, 1), handle = block;
  void *frame[1] = {NULL};
  const uint64_t n = block_table_counts().n_live;
  handle.is_handle = true;
  handle.number = 2;
  assert_true(block_table_add(&block, frame, 1, 1));
  assert_true(block_table_add(&handle, frame, 1, 2));
  assert_int_equal(block_table_counts().n_live, n + 2);
  block_table_remove(&handle, NULL);
  assert_int_equal(block_table_counts().n_live, n + 1);
  assert_true(block_table_find_freed(handle.address, &r));
  assert_int_equal(r.number, 2);
  assert_false(block_table_find_freed(handle.address + 1, &r));
  block_table_remove(&block, NULL);
  assert_true(block_table_find_freed(block.address + 1, &r));
  assert_int_equal(r.number, 1);
}

static void only_the_most_recent_frees_are_kept(void **state) {
  (void)state;
  freed_record r;
  hook_block first = block_at(100000, 1);
  block_table_remove(&first, NULL);
  assert_true(block_table_find_freed(first.address, &r));
  assert_false(block_table_find_freed(first.address + first.requested, &r));
  assert_false(block_table_find_freed(first.address - 1, &r));
  for (unsigned i = 1; i < BLOCK_FREED; i++) {
    hook_block other = block_at(100000 + i, 1);
    block_table_remove(&other, NULL);
  }
  assert_true(block_table_find_freed(first.address, &r));
  hook_block one_more = block_at(99999, 1);
  block_table_remove(&one_more, NULL);
  assert_false(block_table_find_freed(first.address, &r));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(options_and_their_defaults_are_parsed),
      cmocka_unit_test(invalid_options_are_named_and_the_others_applied),
      cmocka_unit_test(table_agrees_with_a_model),
      cmocka_unit_test(handles_are_not_addresses),
      cmocka_unit_test(only_the_most_recent_frees_are_kept),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
