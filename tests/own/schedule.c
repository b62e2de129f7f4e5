/* SPDX-License-Identifier: Apache-2.0 */
/* The scheduler's random mode (CANNON_SCHEDULE_SEED): it runs tasks in other legal orders, and the same seed gives the
 * same order. Each seed runs in a child process. */
#include "acl_test.h"
#include "self.h"

enum { SEEDS = 24, STREAMS = 6, STEPS = 8 };

/* One stream copies bytes that another writes, with or without the event that orders the two. Prints how many written
 * bytes each copy saw. */
static int run_program(bool ordered) {
  uint8_t *p, *q, seen[STREAMS] = {0};
  aclrtStream first, second;
  aclrtEvent event;
  CHECK_OK(aclInit(NULL));
  CHECK_OK(aclrtSetDevice(0));
  for (int i = 0; i < STREAMS; i++) {
    p = dev_filled(0, STEPS);
    q = dev_filled(0, STEPS);
    CHECK_OK(aclrtCreateStream(&first));
    CHECK_OK(aclrtCreateStream(&second));
    CHECK_OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    for (int k = 0; k < STEPS; k++) CHECK_OK(aclrtMemsetAsync(p + k, 1, 1, 1, first));
    CHECK_OK(aclrtRecordEvent(event, first));
    if (ordered) CHECK_OK(aclrtStreamWaitEvent(second, event));
    CHECK_OK(aclrtMemcpyAsync(q, STEPS, p, STEPS, ACL_MEMCPY_DEVICE_TO_DEVICE, second));
    CHECK_OK(aclrtSynchronizeStream(second));
    uint8_t host[STEPS];
    CHECK_OK(aclrtMemcpy(host, STEPS, q, STEPS, ACL_MEMCPY_DEVICE_TO_HOST));
    for (int k = 0; k < STEPS; k++) seen[i] += host[k];
    CHECK_OK(aclrtSynchronizeStream(first));
    CHECK_OK(aclrtDestroyEvent(event));
    CHECK_OK(aclrtDestroyStream(first));
    CHECK_OK(aclrtDestroyStream(second));
    CHECK_OK(aclrtFree(p));
    CHECK_OK(aclrtFree(q));
  }
  CHECK_OK(aclrtResetDevice(0));
  CHECK_OK(aclFinalize());
  for (int i = 0; i < STREAMS; i++) fprintf(stderr, "%d ", seen[i]);
  return 0;
}

static void run_seed(child_end *end, const char *mode, int seed) {
  static char setting[64];
  snprintf(setting, sizeof setting, "CANNON_SCHEDULE_SEED=%d", seed);
  run_self(end, mode, setting);
  assert_int_equal(end->status, 0);
}

static void seeds_reveal_missing_synchronisation(void **state) {
  (void)state;
  static child_end usual, end, again;
  run_self(&usual, "race", NULL);
  int different = 0;
  for (int seed = 1; seed <= SEEDS; seed++) {
    run_seed(&end, "race", seed);
    run_seed(&again, "race", seed);
    assert_string_equal(end.text, again.text);
    different += strcmp(end.text, usual.text) != 0;
  }
  assert_true(different > SEEDS / 2);
}

static void synchronised_programs_give_the_same_result(void **state) {
  (void)state;
  static child_end usual, end;
  run_self(&usual, "order", NULL);
  assert_string_equal(usual.text, "8 8 8 8 8 8 ");
  for (int seed = 1; seed <= SEEDS; seed++) {
    run_seed(&end, "order", seed);
    assert_string_equal(end.text, usual.text);
  }
}

/* A token passes through streams by values of a word: each stream waits for its number and writes the next; the last is
 * submitted first. */
static int run_relay(void) {
  enum { ROUNDS = 5 };
  aclrtStream streams[STREAMS];
  CHECK_OK(aclInit(NULL));
  CHECK_OK(aclrtSetDevice(0));
  uint64_t *word = dev_filled(0, sizeof *word);
  for (int i = 0; i < STREAMS; i++) CHECK_OK(aclrtCreateStream(&streams[i]));
  for (int r = 0; r < ROUNDS; r++)
    for (int i = STREAMS; i-- > 0;) {
      CHECK_OK(aclrtValueWait(word, (uint64_t)(r * STREAMS + i), ACL_STREAM_WAIT_VALUE_EQ, streams[i]));
      CHECK_OK(aclrtValueWrite(word, (uint64_t)(r * STREAMS + i + 1), 0, streams[i]));
    }
  CHECK_OK(aclrtSynchronizeStream(streams[STREAMS - 1]));
  fprintf(stderr, "%d", dev_byte(word, 0));
  CHECK_OK(aclrtSynchronizeDevice());
  CHECK_OK(aclrtFree(word));
  CHECK_OK(aclrtResetDevice(0));
  CHECK_OK(aclFinalize());
  return 0;
}

static void value_waits_order_streams_in_any_schedule(void **state) {
  (void)state;
  static child_end end;
  for (int seed = 0; seed <= SEEDS; seed++) { /* 0: the usual order */
    run_seed(&end, "relay", seed);
    assert_string_equal(end.text, "30");
  }
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "relay") == 0) return run_relay();
  if (argc > 1 && strcmp(argv[1], "race") == 0) return run_program(false);
  if (argc > 1 && strcmp(argv[1], "order") == 0) return run_program(true);
  const struct CMUnitTest tests[] = {TEST(seeds_reveal_missing_synchronisation),
                                     TEST(synchronised_programs_give_the_same_result),
                                     TEST(value_waits_order_streams_in_any_schedule)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
