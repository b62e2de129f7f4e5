/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of allocation and of dividing blocks, on numbers computed by hand. */
#include "memory/rules.h"

#include <string.h>

#include "memory/carve.h"
#include "unit.h"

enum { KIB = 1 << 10, MIB = 1 << 20, GIB = 1 << 30, SLACK = 32 };

static uint64_t bytes_of(rule_kind rule, uint64_t size, int policy) {
  return rule_bytes(&alloc_rules[rule], size, SLACK, policy);
}

static void sizes_are_rounded_up_and_get_slack(void **state) {
  (void)state;
  static const struct {
    rule_kind rule;
    uint64_t size, bytes;
  } cases[] = {
      {RULE_MALLOC, 1, 64},
      {RULE_MALLOC, 32, 64},
      {RULE_MALLOC, 33, 96},
      {RULE_MALLOC_CACHED, 33, 96},
      {RULE_MALLOC_ALIGN32, 1, 32},
      {RULE_MALLOC_ALIGN32, 33, 64},
      {RULE_MALLOC_HOST, 1, 64},
      {RULE_MALLOC_HOST, 65, 128},
      {RULE_DVPP, 100, 160},
      {RULE_DVPP_MPI, 128, 160},
      {RULE_MALLOC_MANAGED, 1, 2 * MIB},
      {RULE_MALLOC, 3 * MIB, 3 * MIB + 32},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i)
    assert_int_equal(bytes_of(cases[i].rule, cases[i].size, POLICY_HUGE_FIRST), cases[i].bytes);
}

static void overflowing_sizes_are_reported(void **state) {
  (void)state;
  assert_int_equal(bytes_of(RULE_MALLOC, UINT64_MAX, POLICY_HUGE_FIRST), 0);
  assert_int_equal(bytes_of(RULE_MALLOC, UINT64_MAX - 62, POLICY_HUGE_FIRST), 0);
  assert_int_equal(bytes_of(RULE_MALLOC, UINT64_MAX - 63, POLICY_HUGE_FIRST), UINT64_MAX - 31);
  assert_int_equal(bytes_of(RULE_MALLOC, UINT64_MAX - 100, POLICY_GIANT_ONLY), 0);
  assert_int_equal(bytes_of(RULE_MALLOC_ALIGN32, UINT64_MAX - 30, POLICY_HUGE_FIRST), 0);
}

/* For devices of the 950 class the profile gives a slack of 0. */
static void slack_depends_on_the_device(void **state) {
  (void)state;
  assert_int_equal(rule_bytes(&alloc_rules[RULE_MALLOC], 33, 0, POLICY_HUGE_FIRST), 64);
  assert_int_equal(rule_bytes(&alloc_rules[RULE_DVPP], 33, 0, POLICY_HUGE_FIRST), 64);
  assert_int_equal(carve_bytes(&carve_rules[CARVE_DEVICE], 33, 0), 64);
}

static void policies_choose_pages(void **state) {
  (void)state;
  static const struct {
    int policy;
    page_kind small, large; /* pages for 1 MiB, and for one byte more */
  } cases[] = {
      {POLICY_HUGE_FIRST, PAGES_SMALL, PAGES_HUGE},
      {POLICY_HUGE_ONLY, PAGES_HUGE, PAGES_HUGE},
      {POLICY_NORMAL_ONLY, PAGES_SMALL, PAGES_SMALL},
      {POLICY_HUGE_FIRST_P2P, PAGES_SMALL, PAGES_HUGE},
      {POLICY_HUGE_ONLY_P2P, PAGES_HUGE, PAGES_HUGE},
      {POLICY_NORMAL_ONLY_P2P, PAGES_SMALL, PAGES_SMALL},
      {POLICY_GIANT_ONLY, PAGES_GIANT, PAGES_GIANT},
      {POLICY_GIANT_ONLY_P2P, PAGES_GIANT, PAGES_GIANT},
      {0x100 | POLICY_HUGE_ONLY, PAGES_HUGE, PAGES_HUGE},
      {0x101000 | POLICY_NORMAL_ONLY, PAGES_SMALL, PAGES_SMALL},
      {0x1000, PAGES_SMALL, PAGES_HUGE},
      {77, PAGES_SMALL, PAGES_SMALL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    assert_int_equal(policy_pages(cases[i].policy, MIB), cases[i].small);
    assert_int_equal(policy_pages(cases[i].policy, MIB + 1), cases[i].large);
  }
  assert_int_equal(policy_pages(77, 2 * MIB - 1), PAGES_SMALL);
  assert_int_equal(policy_pages(77, 2 * MIB), PAGES_HUGE);
  assert_int_equal(policy_pages(-1, 2 * MIB), PAGES_HUGE);
}

static void whole_pages_are_taken_only_by_policies(void **state) {
  (void)state;
  assert_int_equal(bytes_of(RULE_MALLOC, 100, POLICY_HUGE_ONLY), 2 * MIB);
  assert_int_equal(bytes_of(RULE_MALLOC, 100, POLICY_NORMAL_ONLY), 160);
  assert_int_equal(bytes_of(RULE_MALLOC, 3 * MIB, POLICY_HUGE_ONLY), 4 * MIB);
  /* the added 32 bytes need another page */
  assert_int_equal(bytes_of(RULE_MALLOC, 2 * MIB, POLICY_HUGE_ONLY_P2P), 4 * MIB);
  assert_int_equal(bytes_of(RULE_MALLOC, 1, POLICY_GIANT_ONLY), GIB);
  assert_int_equal(bytes_of(RULE_MALLOC, GIB, POLICY_GIANT_ONLY), GIB); /* giant pages add nothing */
  assert_int_equal(bytes_of(RULE_MALLOC, (uint64_t)GIB + 1, POLICY_GIANT_ONLY_P2P), 2 * (uint64_t)GIB);
}

static void tables_are_complete(void **state) {
  (void)state;
  for (int i = 0; i < N_RULES; ++i) {
    const alloc_rule *r = &alloc_rules[i];
    assert_true(r->call && r->source && r->round_bytes && r->promised_align);
    const uint32_t unit = 1u << (r->place == ALLOC_DEVICE ? RULE_DEVICE_UNIT_SHIFT : RULE_PINNED_UNIT_SHIFT);
    assert_int_equal(unit % r->promised_align, 0); /* the heap's unit satisfies the promised alignment */
    for (page_kind k = 0; k < N_PAGE_KINDS; ++k) {
      const block_origin o = origin_of((rule_kind)i, k);
      assert_ptr_equal(origin_rule(o), r);
      assert_int_equal(origin_pages(o), k);
      assert_string_equal(origin_call(o), r->call);
    }
  }
  for (int i = N_RULES; i < N_RULE_KINDS; ++i) {
    assert_null(origin_rule(origin_of((rule_kind)i, PAGES_HUGE)));
    assert_true(origin_call(origin_of((rule_kind)i, PAGES_HUGE))[0]);
  }
  for (int i = 0; i < N_POLICIES; ++i) assert_true(page_policies[i].name && page_policies[i].source);
  for (int i = 0; i < N_CARVE_USES; ++i) assert_true(carve_rules[i].use && carve_rules[i].source);
}

/* ---- pieces of a block of 1056 bytes at address 0x10000 ---- */

enum { BLOCK = 0x10000, BLOCK_BYTES = 1024 + 32 };

static const char *checked(status want, carve_piece piece, const carve_piece *next) {
  const status st = carve_check(BLOCK, BLOCK_BYTES, SLACK, &piece, next, "piece");
  const char *words = fail_take();
  if (st != want) print_error("status %d, expected %d; message: %s\n", st, want, words);
  assert_int_equal(st, want);
  return words;
}

#define PIECE(offset, length, use) ((carve_piece){BLOCK + (offset), length, use})
#define BREAKS(rule, code, piece, next)                                                                                \
  do {                                                                                                                 \
    const char *words_ = checked(code, piece, next);                                                                   \
    if (strncmp(words_, "rule " rule ":", strlen("rule " rule ":")) != 0)                                              \
      print_error("expected rule " rule ", message: %s\n", words_);                                                    \
    assert_memory_equal(words_, "rule " rule ":", strlen("rule " rule ":"));                                           \
  } while (0)

static void pieces_that_obey_the_rules_are_accepted(void **state) {
  (void)state;
  const carve_piece next = PIECE(512, 1, CARVE_DEVICE);
  checked(ST_OK, PIECE(0, 1024, CARVE_DEVICE), NULL); /* all of the block, as requested from aclrtMalloc */
  checked(ST_OK, PIECE(0, 480, CARVE_DEVICE), &next); /* 480 + 32 bytes up to the next piece */
  checked(ST_OK, PIECE(64, 416, CARVE_DEVICE), &next);
  checked(ST_OK, PIECE(128, 352, CARVE_DVPP), &next);
  checked(ST_OK, PIECE(64, 448, CARVE_ASYNC_COPY), &next); /* up to the next piece, since copies need no slack */
  checked(ST_OK, PIECE(1024, 32, CARVE_ASYNC_COPY), NULL);
}

static void each_broken_rule_is_named(void **state) {
  (void)state;
  const carve_piece next = PIECE(512, 1, CARVE_DEVICE), before = PIECE(0, 1, CARVE_DEVICE),
                    beyond = PIECE(4096, 1, CARVE_DEVICE);
  BREAKS("start-64", ST_MISALIGNED, PIECE(32, 10, CARVE_DEVICE), NULL);
  BREAKS("start-64", ST_MISALIGNED, PIECE(1, 10, CARVE_ASYNC_COPY), NULL);
  BREAKS("start-128", ST_MISALIGNED, PIECE(64, 10, CARVE_DVPP), NULL);
  BREAKS("room", ST_INVALID_VALUE, PIECE(0, 481, CARVE_DEVICE), &next);
  BREAKS("room", ST_INVALID_VALUE, PIECE(0, 1025, CARVE_DEVICE), NULL);
  BREAKS("room", ST_INVALID_VALUE, PIECE(64, 1024, CARVE_DEVICE), NULL);
  BREAKS("room", ST_INVALID_VALUE, PIECE(0, 1025, CARVE_DEVICE), &beyond);
  BREAKS("room", ST_INVALID_VALUE, PIECE(0, 513, CARVE_ASYNC_COPY), &next);
  BREAKS("room", ST_INVALID_VALUE, PIECE(0, UINT64_MAX, CARVE_DEVICE), NULL);
  assert_int_equal(rule_largest_request(32, 4096, 1056, 1000), 4064);
  assert_int_equal(rule_largest_request(1, 4096, 1056, 1000), 4040);
  assert_int_equal(rule_largest_request(32, 31, 1056, 1000), 0);
  BREAKS("room", ST_INVALID_VALUE, PIECE(64, 1, CARVE_DEVICE), &before); /* the pieces do not ascend */
  BREAKS("inside", ST_INVALID_VALUE, PIECE(-64, 10, CARVE_DEVICE), NULL);
  BREAKS("inside", ST_INVALID_VALUE, PIECE(BLOCK_BYTES, 10, CARVE_DEVICE), NULL);
  BREAKS("length", ST_INVALID_VALUE, PIECE(0, 0, CARVE_DEVICE), NULL);
  BREAKS("use", ST_INVALID_VALUE, PIECE(0, 10, 3), NULL);
  BREAKS("use", ST_INVALID_VALUE, PIECE(0, 10, -1), NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sizes_are_rounded_up_and_get_slack),
      cmocka_unit_test(overflowing_sizes_are_reported),
      cmocka_unit_test(slack_depends_on_the_device),
      cmocka_unit_test(policies_choose_pages),
      cmocka_unit_test(whole_pages_are_taken_only_by_policies),
      cmocka_unit_test(tables_are_complete),
      cmocka_unit_test(pieces_that_obey_the_rules_are_accepted),
      cmocka_unit_test(each_broken_rule_is_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
