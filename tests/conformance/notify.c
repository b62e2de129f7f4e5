/* SPDX-License-Identifier: Apache-2.0 */
/* Notifies, binary and counting. Each record of a binary notify lets one wait pass, whichever comes first. */
#include "acl_test.h"

static aclrtNotify notify_new(void) {
  aclrtNotify n = NULL;
  CHECK_OK(aclrtCreateNotify(&n, ACL_NOTIFY_DEFAULT));
  assert_non_null(n);
  return n;
}

static aclrtCntNotify count_new(void) {
  aclrtCntNotify n = NULL;
  CHECK_OK(aclrtCntNotifyCreate(&n, 0));
  assert_non_null(n);
  return n;
}

static void count_record(aclrtCntNotify n, aclrtStream s, aclrtCntNotifyRecordMode mode, uint32_t value) {
  aclrtCntNotifyRecordInfo info = {mode, value};
  CHECK_OK(aclrtCntNotifyRecord(n, s, &info));
}

static void count_wait(aclrtCntNotify n, aclrtStream s, aclrtCntNotifyWaitMode mode, uint32_t value, bool clear) {
  aclrtCntNotifyWaitInfo info = {.mode = mode, .value = value, .isClear = clear};
  CHECK_OK(aclrtCntNotifyWaitWithTimeout(n, s, &info));
}

static void assert_waits(aclrtStream s) {
  nap_ms(5);
  assert_int_equal(stream_status(s), ACL_STREAM_STATUS_NOT_READY);
}

/* ---- binary ------------------------------------------------------------------------------------------------------ */

static void a_wait_is_passed_by_a_record_of_another_stream(void **state) {
  (void)state;
  aclrtStream waits = stream_new(), records = stream_new();
  aclrtNotify n = notify_new();
  char *p = dev_filled(0, 4);
  CHECK_OK(aclrtWaitAndResetNotify(n, waits, 0));
  CHECK_OK(aclrtMemsetAsync(p, 4, 1, 4, waits));
  assert_waits(waits);
  assert_int_equal(dev_byte(p, 0), 0);
  CHECK_OK(aclrtRecordNotify(n, records));
  CHECK_OK(aclrtSynchronizeStream(waits));
  assert_int_equal(dev_byte(p, 0), 1);
  CHECK_OK(aclrtSynchronizeStream(records));
  CHECK_OK(aclrtDestroyNotify(n));
  CHECK_OK(aclrtFree(p));
  CHECK_OK(aclrtDestroyStream(waits));
  CHECK_OK(aclrtDestroyStream(records));
}

static void a_record_waits_for_its_stream(void **state) {
  (void)state;
  aclrtStream waits = stream_new(), records = stream_new();
  aclrtNotify n = notify_new();
  gate *g = gate_close(records);
  CHECK_OK(aclrtRecordNotify(n, records));
  CHECK_OK(aclrtWaitAndResetNotify(n, waits, 0));
  assert_waits(waits);
  gate_open(g);
  CHECK_OK(aclrtSynchronizeStream(waits));
  CHECK_OK(aclrtSynchronizeStream(records));
  CHECK_OK(aclrtDestroyNotify(n));
  CHECK_OK(aclrtDestroyStream(waits));
  CHECK_OK(aclrtDestroyStream(records));
}

static void a_record_is_remembered_and_lets_one_wait_pass(void **state) {
  (void)state;
  aclrtStream s = stream_new();
  aclrtNotify n = notify_new();
  CHECK_OK(aclrtRecordNotify(n, s));
  CHECK_OK(aclrtRecordNotify(n, s)); /* its value is 1 already */
  CHECK_OK(aclrtWaitAndResetNotify(n, s, 0));
  CHECK_OK(aclrtSynchronizeStream(s));
  CHECK_OK(aclrtWaitAndResetNotify(n, s, 0));
  assert_waits(s);
  CHECK_OK(aclrtRecordNotify(n, NULL));
  CHECK_OK(aclrtSynchronizeStream(s));
  CHECK_OK(aclrtDestroyNotify(n));
  CHECK_OK(aclrtDestroyStream(s));
}

static void each_of_two_waits_consumes_a_record(void **state) {
  (void)state;
  aclrtStream first = stream_new(), second = stream_new();
  aclrtNotify n = notify_new();
  CHECK_OK(aclrtWaitAndResetNotify(n, first, 0));
  CHECK_OK(aclrtWaitAndResetNotify(n, second, 0));
  assert_waits(first);
  assert_waits(second);
  CHECK_OK(aclrtRecordNotify(n, NULL));
  CHECK_OK(aclrtSynchronizeStream(NULL));
  for (int i = 0; i < 1000 && stream_status(first) == stream_status(second); ++i) nap_ms(1);
  assert_int_not_equal(stream_status(first), stream_status(second));
  CHECK_OK(aclrtRecordNotify(n, NULL));
  CHECK_OK(aclrtSynchronizeStream(first));
  CHECK_OK(aclrtSynchronizeStream(second));
  CHECK_OK(aclrtDestroyNotify(n));
  CHECK_OK(aclrtDestroyStream(first));
  CHECK_OK(aclrtDestroyStream(second));
}

static void a_token_passes_through_a_ring_of_streams(void **state) {
  (void)state;
  enum { STREAMS = 4, ROUNDS = 50 };
  aclrtStream s[STREAMS];
  aclrtNotify n[STREAMS];
  aclrtCntNotify turns = count_new();
  for (int i = 0; i < STREAMS; ++i) s[i] = stream_new(), n[i] = notify_new();
  for (int r = 0; r < ROUNDS; ++r)
    for (int i = STREAMS; i-- > 0;) { /* the last stream first, so no stream can run in the order of submission */
      CHECK_OK(aclrtWaitAndResetNotify(n[i], s[i], 0));
      count_record(turns, s[i], ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE, 1);
      CHECK_OK(aclrtRecordNotify(n[(i + 1) % STREAMS], s[i]));
    }
  CHECK_OK(aclrtRecordNotify(n[0], NULL));
  CHECK_OK(aclrtSynchronizeDevice());
  count_wait(turns, s[0], ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE, STREAMS * ROUNDS, false);
  CHECK_OK(aclrtSynchronizeStream(s[0]));
  for (int i = 0; i < STREAMS; ++i) {
    CHECK_OK(aclrtDestroyNotify(n[i]));
    CHECK_OK(aclrtDestroyStream(s[i]));
  }
  CHECK_OK(aclrtCntNotifyDestroy(turns));
}

static void an_expired_wait_fails_and_the_stream_continues(void **state) {
  (void)state;
  aclrtStream s = stream_new();
  aclrtNotify n = notify_new();
  char *p = dev_filled(0, 4);
  CHECK_OK(aclrtWaitAndResetNotify(n, s, 1));
  CHECK_OK(aclrtMemsetAsync(p, 4, 1, 4, s));
  CHECK_FAILS(aclrtSynchronizeStream(s));
  assert_int_equal(dev_byte(p, 0), 1);
  CHECK_OK(aclrtRecordNotify(n, s)); /* for the next wait, since the expired one has ended */
  CHECK_OK(aclrtWaitAndResetNotify(n, s, 1));
  CHECK_OK(aclrtSynchronizeStream(s));
  CHECK_OK(aclrtFree(p));
  CHECK_OK(aclrtDestroyNotify(n));
  CHECK_OK(aclrtDestroyStream(s));
}

static void the_host_can_reset_several_notifies(void **state) {
  (void)state;
  aclrtStream s = stream_new();
  aclrtNotify n[] = {notify_new(), notify_new()};
  for (int i = 0; i < 2; ++i) CHECK_OK(aclrtRecordNotify(n[i], s));
  CHECK_OK(aclrtSynchronizeStream(s));
  CHECK_OK(aclrtNotifyBatchReset(n, 2));
  for (int i = 0; i < 2; ++i) {
    CHECK_OK(aclrtWaitAndResetNotify(n[i], s, 0));
    assert_waits(s);
    CHECK_OK(aclrtRecordNotify(n[i], NULL));
    CHECK_OK(aclrtSynchronizeStream(s));
    CHECK_OK(aclrtDestroyNotify(n[i]));
  }
  CHECK_OK(aclrtDestroyStream(s));
}

static void a_stream_that_waits_can_be_destroyed_by_force(void **state) {
  (void)state;
  aclrtStream s = stream_new();
  aclrtNotify n = notify_new();
  CHECK_OK(aclrtWaitAndResetNotify(n, s, 0));
  assert_waits(s);
  CHECK_OK(aclrtDestroyStreamForce(s));
  CHECK_OK(aclrtRecordNotify(n, NULL));
  CHECK_OK(aclrtWaitAndResetNotify(n, NULL, 0)); /* the destroyed wait did not consume the record */
  CHECK_OK(aclrtSynchronizeStream(NULL));
  CHECK_OK(aclrtDestroyNotify(n));
}

static void the_number_of_notifies_is_limited(void **state) {
  (void)state;
  enum { MOST = 70000 };
  static aclrtNotify n[MOST];
  aclError st = ACL_SUCCESS;
  int made = 0;
  while (made < MOST && (st = aclrtCreateNotify(&n[made], ACL_NOTIFY_DEVICE_USE_ONLY)) == ACL_SUCCESS) ++made;
  assert_int_equal(st, ACL_ERROR_RT_NO_NOTIFY_RESOURCE);
  assert_true(made > 1);
  uint32_t first, second;
  CHECK_OK(aclrtGetNotifyId(n[0], &first));
  CHECK_OK(aclrtGetNotifyId(n[1], &second));
  assert_int_not_equal(first, second);
  while (made > 0) CHECK_OK(aclrtDestroyNotify(n[--made]));
  CHECK_OK(aclrtDestroyNotify(notify_new()));
}

/* ---- counting ---------------------------------------------------------------------------------------------------- */

static void records_change_the_value_by_mode(void **state) {
  (void)state;
  static const struct {
    aclrtCntNotifyRecordMode mode;
    uint32_t value, then;
  } steps[] = {
      {ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE, 5, 5},
      {ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE, UINT32_MAX, 4},
      {ACL_RT_CNT_NOTIFY_RECORD_BIT_OR_MODE, 0x80000001, 0x80000005},
      {ACL_RT_CNT_NOTIFY_RECORD_BIT_AND_MODE, 0x8000000c, 0x80000004},
      {ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE, 9, 9},
  };
  aclrtStream s = stream_new();
  aclrtCntNotify n = count_new();
  count_wait(n, s, ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE, 0, false);
  for (size_t i = 0; i < sizeof steps / sizeof *steps; ++i) {
    count_record(n, s, steps[i].mode, steps[i].value);
    count_wait(n, s, ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE, steps[i].then, false);
    CHECK_OK(aclrtSynchronizeStreamWithTimeout(s, 5000));
  }
  CHECK_OK(aclrtCntNotifyReset(n, s));
  count_wait(n, s, ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE, 0, false);
  CHECK_OK(aclrtSynchronizeStreamWithTimeout(s, 5000));
  CHECK_OK(aclrtCntNotifyDestroy(n));
  CHECK_OK(aclrtDestroyStream(s));
}

static void waits_end_when_their_condition_holds(void **state) {
  (void)state;
  static const struct {
    aclrtCntNotifyWaitMode mode;
    uint32_t value, not_yet, enough;
  } conditions[] = {
      {ACL_RT_CNT_NOTIFY_WAIT_LESS_MODE, 10, 10, 9},
      {ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE, 10, 11, 10},
      {ACL_RT_CNT_NOTIFY_WAIT_BIGGER_MODE, 10, 10, 11},
      {ACL_RT_CNT_NOTIFY_WAIT_BIGGER_MODE, 0x7fffffff, 1, 0x80000000}, /* unsigned comparison */
      {ACL_RT_CNT_NOTIFY_WAIT_BIGGER_OR_EQUAL_MODE, 10, 9, 10},
      {ACL_RT_CNT_NOTIFY_WAIT_EQUAL_WITH_BITMASK_MODE, 6, 4, 15},
  };
  aclrtStream waits = stream_new(), records = stream_new();
  for (size_t i = 0; i < 2 * sizeof conditions / sizeof *conditions; ++i) {
    const bool clear = i % 2;
    aclrtCntNotify n = count_new();
    count_record(n, waits, ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE, conditions[i / 2].not_yet);
    CHECK_OK(aclrtSynchronizeStream(waits));
    count_wait(n, waits, conditions[i / 2].mode, conditions[i / 2].value, clear);
    assert_waits(waits);
    count_record(n, records, ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE, conditions[i / 2].enough);
    CHECK_OK(aclrtSynchronizeStream(waits));
    count_wait(n, waits, ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE, clear ? 0 : conditions[i / 2].enough, false);
    CHECK_OK(aclrtSynchronizeStreamWithTimeout(waits, 5000));
    CHECK_OK(aclrtSynchronizeStream(records));
    CHECK_OK(aclrtCntNotifyDestroy(n));
  }
  CHECK_OK(aclrtDestroyStream(waits));
  CHECK_OK(aclrtDestroyStream(records));
}

/* Many producers, and one consumer that waits for all of them. */
static void one_counting_notify_joins_many_streams(void **state) {
  (void)state;
  enum { PRODUCERS = 6, ROUNDS = 10 };
  aclrtStream consumer = stream_new(), producer[PRODUCERS];
  aclrtCntNotify n = count_new();
  for (int i = 0; i < PRODUCERS; ++i) producer[i] = stream_new();
  for (int r = 0; r < ROUNDS; ++r) {
    count_wait(n, consumer, ACL_RT_CNT_NOTIFY_WAIT_BIGGER_OR_EQUAL_MODE, PRODUCERS, true);
    for (int i = 0; i < PRODUCERS; ++i) {
      assert_waits(consumer);
      count_record(n, producer[i], ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE, 1);
      CHECK_OK(aclrtSynchronizeStream(producer[i]));
    }
    CHECK_OK(aclrtSynchronizeStream(consumer));
  }
  for (int i = 0; i < PRODUCERS; ++i) CHECK_OK(aclrtDestroyStream(producer[i]));
  CHECK_OK(aclrtCntNotifyDestroy(n));
  CHECK_OK(aclrtDestroyStream(consumer));
}

static void a_counting_wait_can_expire(void **state) {
  (void)state;
  aclrtStream s = stream_new();
  aclrtCntNotify n = count_new();
  aclrtCntNotifyWaitInfo info = {.mode = ACL_RT_CNT_NOTIFY_WAIT_BIGGER_MODE, .timeout = 1};
  CHECK_OK(aclrtCntNotifyWaitWithTimeout(n, s, &info));
  CHECK_FAILS(aclrtSynchronizeStream(s));
  CHECK_OK(aclrtCntNotifyDestroy(n));
  CHECK_OK(aclrtDestroyStream(s));
}

/* ---- bad input --------------------------------------------------------------------------------------------------- */

static void invalid_arguments_are_refused(void **state) {
  (void)state;
  aclrtNotify n = notify_new(), none = NULL;
  aclrtCntNotify count = count_new();
  aclrtCntNotifyRecordInfo record = {(aclrtCntNotifyRecordMode)3, 1};
  aclrtCntNotifyWaitInfo wait = {.mode = (aclrtCntNotifyWaitMode)5};
  uint32_t id;
  CHECK_FAILS(aclrtCreateNotify(NULL, 0));
  CHECK_FAILS(aclrtCreateNotify(&none, 2));
  CHECK_FAILS(aclrtCntNotifyCreate(&none, 1));
  CHECK_FAILS(aclrtDestroyNotify(NULL));
  CHECK_FAILS(aclrtCntNotifyDestroy(NULL));
  CHECK_FAILS(aclrtRecordNotify(NULL, NULL));
  CHECK_FAILS(aclrtWaitAndResetNotify(NULL, NULL, 0));
  CHECK_FAILS(aclrtGetNotifyId(n, NULL));
  CHECK_FAILS(aclrtCntNotifyGetId(NULL, &id));
  CHECK_FAILS(aclrtNotifyBatchReset(NULL, 1));
  CHECK_FAILS(aclrtNotifyBatchReset(&none, 1));
  CHECK_FAILS(aclrtCntNotifyRecord(count, NULL, NULL));
  CHECK_FAILS(aclrtCntNotifyRecord(count, NULL, &record));
  CHECK_FAILS(aclrtCntNotifyWaitWithTimeout(count, NULL, NULL));
  CHECK_FAILS(aclrtCntNotifyWaitWithTimeout(count, NULL, &wait));
  CHECK_OK(aclrtCntNotifyGetId(count, &id));
  CHECK_OK(aclrtDestroyNotify(n));
  CHECK_OK(aclrtCntNotifyDestroy(count));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(a_wait_is_passed_by_a_record_of_another_stream),
      TEST(a_record_waits_for_its_stream),
      TEST(a_record_is_remembered_and_lets_one_wait_pass),
      TEST(each_of_two_waits_consumes_a_record),
      TEST(a_token_passes_through_a_ring_of_streams),
      TEST(an_expired_wait_fails_and_the_stream_continues),
      TEST(the_host_can_reset_several_notifies),
      TEST(a_stream_that_waits_can_be_destroyed_by_force),
      TEST(the_number_of_notifies_is_limited),
      TEST(records_change_the_value_by_mode),
      TEST(waits_end_when_their_condition_holds),
      TEST(one_counting_notify_joins_many_streams),
      TEST(a_counting_wait_can_expire),
      TEST(invalid_arguments_are_refused),
  };
  return cmocka_run_group_tests(tests, device_up, device_down);
}
