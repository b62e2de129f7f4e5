/* SPDX-License-Identifier: Apache-2.0 */
/* Who waits for whom (comm/waits.h): cycles in tables made by hand, and slots that are published and read. */
#include "comm/waits.h"

#include <string.h>
#include <unistd.h>

#include "comm/comm_types.h"

#include "unit.h"

enum { NOW_NS = 2000000000, OLD_NS = 1000000000 };

/* A rank of communicator `name`, on device `device` of process `pid`, that waits for the rank `other`. */
static machine_wait entry(const char *name, uint32_t kind, uint64_t number, int32_t pid, int32_t device, uint32_t rank,
                          int32_t other_pid, int32_t other_device, uint32_t other) {
  machine_wait w = {.communicator = (uint64_t)name[0],
                    .number = number,
                    .pid = pid,
                    .device = device,
                    .rank = rank,
                    .n_ranks = 4,
                    .kind = kind,
                    .other = other,
                    .other_pid = other_pid,
                    .other_device = other_device};
  snprintf(w.name, sizeof w.name, "%s", name);
  return w;
}

static bool cycle_of(const machine_wait *waits, size_t n, size_t first, char words[WAITS_CYCLE_WORDS]) {
  words[0] = '\0';
  return waits_describe_cycle(waits, n, first, NOW_NS, OLD_NS, words, WAITS_CYCLE_WORDS);
}

static void two_ranks_on_two_communicators(void **state) {
  (void)state;
  char words[WAITS_CYCLE_WORDS];
  const machine_wait waits[] = {
      entry("A", COMM_ALL_REDUCE, 5, 812, 0, 0, 813, 1, 1),
      entry("B", COMM_ALL_GATHER, 2, 813, 1, 1, 812, 0, 0),
  };
  assert_true(cycle_of(waits, 2, SIZE_MAX, words));
  assert_string_equal(words, "rank 0 (process 812) waits in AllReduce #5 of 'A' for rank 1; "
                             "rank 1 (process 813) waits in AllGather #2 of 'B' for rank 0");
  assert_true(cycle_of(waits, 2, 1, words));
  assert_string_equal(words, "rank 1 (process 813) waits in AllGather #2 of 'B' for rank 0; "
                             "rank 0 (process 812) waits in AllReduce #5 of 'A' for rank 1");
}

static void a_chain_is_no_cycle(void **state) {
  (void)state;
  char words[WAITS_CYCLE_WORDS];
  const machine_wait waits[] = {
      entry("A", COMM_ALL_REDUCE, 1, 10, 0, 0, 11, 0, 1), entry("A", COMM_ALL_REDUCE, 1, 12, 0, 2, 10, 0, 0),
      entry("A", COMM_ALL_REDUCE, 1, 13, 0, 3, 12, 0, 2), /* 11 computes */
  };
  for (size_t first = 0; first < 3; ++first) assert_false(cycle_of(waits, 3, first, words));
  assert_false(cycle_of(waits, 3, SIZE_MAX, words));
  assert_false(cycle_of(waits, 0, SIZE_MAX, words));
}

/* Devices of one process are apart: what one waits for says nothing of the other. */
static void devices_of_a_process_are_apart(void **state) {
  (void)state;
  char words[WAITS_CYCLE_WORDS];
  machine_wait waits[] = {entry("A", COMM_SEND, 1, 10, 0, 0, 10, 1, 1), entry("B", COMM_RECV, 1, 10, 2, 1, 10, 0, 0)};
  assert_false(cycle_of(waits, 2, SIZE_MAX, words));
  waits[1].device = 1;
  assert_true(cycle_of(waits, 2, SIZE_MAX, words));
}

/* The search goes through a device of which several streams wait, only one of them in the cycle, and finds the cycle
 * from an entry that only leads to it only when any cycle counts. */
static void a_cycle_of_three_among_others(void **state) {
  (void)state;
  char words[WAITS_CYCLE_WORDS];
  const machine_wait waits[] = {
      entry("A", COMM_BROADCAST, 1, 20, 0, 3, 10, 0, 0),  entry("A", COMM_BROADCAST, 1, 10, 0, 0, 11, 0, 1),
      entry("C", COMM_ALL_REDUCE, 9, 11, 0, 1, 30, 0, 2), entry("B", COMM_SEND, 4, 11, 0, 1, 12, 0, 2),
      entry("D", COMM_BARRIER, 2, 12, 0, 2, 10, 0, 0),
  };
  assert_false(cycle_of(waits, 5, 0, words));
  assert_true(cycle_of(waits, 5, 1, words));
  assert_string_equal(words, "rank 0 (process 10) waits in Broadcast #1 of 'A' for rank 1; "
                             "rank 1 (process 11) waits in Send #4 of 'B' for rank 2; "
                             "rank 2 (process 12) waits in Barrier #2 of 'D' for rank 0");
  assert_true(cycle_of(waits, 5, SIZE_MAX, words));
}

static void young_and_unknown_waits_do_not_count(void **state) {
  (void)state;
  char words[WAITS_CYCLE_WORDS];
  machine_wait waits[] = {entry("A", COMM_ALL_REDUCE, 5, 812, 0, 0, 813, 1, 1),
                          entry("B", COMM_ALL_GATHER, 2, 813, 1, 1, 812, 0, 0)};
  waits[0].since_ns = NOW_NS - OLD_NS + 1;
  assert_false(cycle_of(waits, 2, SIZE_MAX, words));
  assert_true(waits_describe_cycle(waits, 2, 0, NOW_NS, 0, words, sizeof words));
  waits[0].since_ns = 0;
  assert_true(cycle_of(waits, 2, SIZE_MAX, words));
  waits[1].other = UINT32_MAX;
  assert_false(cycle_of(waits, 2, SIZE_MAX, words));
}

static void a_long_cycle_is_cut(void **state) {
  (void)state;
  enum { N = 40 };
  char words[WAITS_CYCLE_WORDS];
  machine_wait waits[N];
  for (int i = 0; i < N; ++i)
    waits[i] = entry("A", COMM_ALL_REDUCE, 1, 100 + i, 0, (uint32_t)i, 100 + (i + 1) % N, 0, (uint32_t)(i + 1) % N);
  assert_true(cycle_of(waits, N, SIZE_MAX, words));
  assert_int_equal(strlen(words), sizeof words - 1);
}

/* The process has used no device, so its slots are its own. */
static void slots_are_taken_read_and_freed(void **state) {
  (void)state;
  machine_wait_slot *slot[MACHINE_WAITS + 1] = {0};
  machine_wait read[2 * MACHINE_WAITS];
  for (int i = 0; i <= MACHINE_WAITS; ++i) {
    const machine_wait w = entry("A\x1b", COMM_ALL_REDUCE, (uint64_t)i, getpid(), 0, 0, 1, 0, 1);
    waits_publish(&slot[i], &w);
  }
  assert_null(slot[MACHINE_WAITS]); /* none was free */
  assert_int_equal(waits_read(read, 2 * MACHINE_WAITS, false), MACHINE_WAITS);
  assert_int_equal(read[3].number, 3);
  assert_string_equal(read[3].name, "A\\x1b");
  assert_int_equal(waits_read(read, 5, true), 5);
  const machine_wait other = entry("B", COMM_SEND, 77, getpid(), 0, 0, 1, 0, 1);
  waits_publish(&slot[3], &other); /* the same slot */
  waits_end(&slot[0]);
  assert_null(slot[0]);
  assert_int_equal(waits_read(read, 2 * MACHINE_WAITS, true), MACHINE_WAITS - 1);
  assert_int_equal(read[2].number, 77);
  for (int i = 0; i <= MACHINE_WAITS; ++i) waits_end(&slot[i]);
  assert_int_equal(waits_read(read, 2 * MACHINE_WAITS, false), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(two_ranks_on_two_communicators),       cmocka_unit_test(a_chain_is_no_cycle),
      cmocka_unit_test(devices_of_a_process_are_apart),       cmocka_unit_test(a_cycle_of_three_among_others),
      cmocka_unit_test(young_and_unknown_waits_do_not_count), cmocka_unit_test(a_long_cycle_is_cut),
      cmocka_unit_test(slots_are_taken_read_and_freed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
