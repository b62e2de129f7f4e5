/* SPDX-License-Identifier: Apache-2.0 */
/* Words of device memory that streams write and wait for (aclrtValueWrite, aclrtValueWait). */
#include "acl_test.h"

static uint64_t *word_new(uint64_t value) { return dev_from(&value, sizeof value); }

static uint64_t word_of(const uint64_t *word) {
  uint64_t value;
  from_dev(&value, word, sizeof value);
  return value;
}

static void a_write_runs_in_stream_order(void **state) {
  (void)state;
  aclrtStream stream = stream_new();
  uint64_t *word = word_new(1);
  gate *g = gate_close(stream);
  CHECK_OK(aclrtValueWrite(word, UINT64_C(0x123456789abcdef0), 0, stream));
  assert_int_equal(word_of(word), 1);
  gate_open(g);
  CHECK_OK(aclrtSynchronizeStream(stream));
  assert_true(word_of(word) == UINT64_C(0x123456789abcdef0));
  CHECK_OK(aclrtValueWrite(word, 7, 0, NULL)); /* the default stream */
  CHECK_OK(aclrtSynchronizeStream(NULL));
  assert_int_equal(word_of(word), 7);
  CHECK_OK(aclrtFree(word));
  CHECK_OK(aclrtDestroyStream(stream));
}

static const struct {
  uint32_t flag;
  uint64_t value, not_yet, enough;
} conditions[] = {
    {ACL_STREAM_WAIT_VALUE_GEQ, 10, 9, 10},
    {ACL_STREAM_WAIT_VALUE_GEQ, 10, 0, 1000},
    {ACL_STREAM_WAIT_VALUE_GEQ, 0, UINT64_MAX, 0}, /* compared as a signed difference */
    {ACL_STREAM_WAIT_VALUE_EQ, 10, 11, 10},
    {ACL_STREAM_WAIT_VALUE_AND, 6, 9, 4},
    {ACL_STREAM_WAIT_VALUE_NOR, UINT64_C(0xfffffffffffffff0), 15, 14},
};
enum { N_CONDITIONS = sizeof conditions / sizeof *conditions };

/* A wait ends when its condition holds, at once or after another stream has written the word. */
static void waits_end_when_their_condition_holds(void **state) {
  (void)state;
  aclrtStream waits = stream_new(), writes = stream_new();
  for (int i = 0; i < N_CONDITIONS; ++i) {
    uint64_t *word = word_new(conditions[i].enough);
    uint32_t *after = dev_filled(0, 4);
    CHECK_OK(aclrtValueWait(word, conditions[i].value, conditions[i].flag, waits));
    CHECK_OK(aclrtSynchronizeStream(waits));
    CHECK_OK(aclrtValueWrite(word, conditions[i].not_yet, 0, waits));
    CHECK_OK(aclrtSynchronizeStream(waits));
    CHECK_OK(aclrtValueWait(word, conditions[i].value, conditions[i].flag, waits));
    CHECK_OK(aclrtMemsetAsync(after, 4, 1, 4, waits));
    nap_ms(5);
    assert_int_equal(stream_status(waits), ACL_STREAM_STATUS_NOT_READY);
    assert_int_equal(dev_byte(after, 0), 0);
    CHECK_OK(aclrtValueWrite(word, conditions[i].enough, 0, writes));
    CHECK_OK(aclrtSynchronizeStream(waits));
    assert_int_equal(dev_byte(after, 0), 1);
    CHECK_OK(aclrtSynchronizeStream(writes));
    CHECK_OK(aclrtFree(word));
    CHECK_OK(aclrtFree(after));
  }
  CHECK_OK(aclrtDestroyStream(waits));
  CHECK_OK(aclrtDestroyStream(writes));
}

/* The change may come from the host's copy or from another stream's task. */
static void changes_by_copies_and_tasks_end_waits(void **state) {
  (void)state;
#if !defined(__SANITIZE_THREAD__) /* ThreadSanitizer reports a plain store beside a wait as a race */
  aclrtStream waits = stream_new(), other = stream_new();
  uint64_t *word = word_new(0), one = 1;
  CHECK_OK(aclrtValueWait(word, 1, ACL_STREAM_WAIT_VALUE_EQ, waits));
  CHECK_OK(aclrtMemcpy(word, sizeof one, &one, sizeof one, ACL_MEMCPY_HOST_TO_DEVICE));
  CHECK_OK(aclrtSynchronizeStream(waits));
  CHECK_OK(aclrtValueWait(word, 0, ACL_STREAM_WAIT_VALUE_EQ, waits));
  CHECK_OK(aclrtMemsetAsync(word, sizeof *word, 0, sizeof *word, other));
  CHECK_OK(aclrtSynchronizeStream(waits));
  CHECK_OK(aclrtFree(word));
  CHECK_OK(aclrtDestroyStream(waits));
  CHECK_OK(aclrtDestroyStream(other));
#else
  skip();
#endif
}

/* Many streams wait for one word and pass a token through it. */
static void many_streams_synchronize_through_one_word(void **state) {
  (void)state;
  enum { STREAMS = 8, ROUNDS = 20 };
  aclrtStream streams[STREAMS];
  uint64_t *word = word_new(0);
  for (int i = 0; i < STREAMS; ++i) streams[i] = stream_new();
  for (int r = 0; r < ROUNDS; ++r)
    for (int i = STREAMS; i-- > 0;) { /* the last stream first, so no stream can run in the order of submission */
      CHECK_OK(aclrtValueWait(word, (uint64_t)(r * STREAMS + i), ACL_STREAM_WAIT_VALUE_EQ, streams[i]));
      CHECK_OK(aclrtValueWrite(word, (uint64_t)(r * STREAMS + i + 1), 0, streams[i]));
    }
  CHECK_OK(aclrtSynchronizeDevice());
  assert_int_equal(word_of(word), STREAMS * ROUNDS);
  CHECK_OK(aclrtFree(word));
  for (int i = 0; i < STREAMS; ++i) CHECK_OK(aclrtDestroyStream(streams[i]));
}

static void synchronize_of_a_waiting_stream_can_expire(void **state) {
  (void)state;
  aclrtStream stream = stream_new();
  uint64_t *word = word_new(0);
  CHECK_OK(aclrtValueWait(word, 1, ACL_STREAM_WAIT_VALUE_EQ, stream));
  CHECK_FAILS(aclrtSynchronizeStreamWithTimeout(stream, 20));
  CHECK_OK(aclrtValueWrite(word, 1, 0, NULL));
  CHECK_OK(aclrtSynchronizeStream(stream));
  CHECK_OK(aclrtFree(word));
  CHECK_OK(aclrtDestroyStream(stream));
}

static void a_stream_that_waits_can_be_destroyed_by_force(void **state) {
  (void)state;
  aclrtStream stream = stream_new();
  uint64_t *word = word_new(0);
  CHECK_OK(aclrtValueWait(word, 1, ACL_STREAM_WAIT_VALUE_EQ, stream));
  nap_ms(5);
  CHECK_OK(aclrtDestroyStreamForce(stream));
  CHECK_OK(aclrtFree(word));
}

static void invalid_arguments_are_refused(void **state) {
  (void)state;
  uint64_t *word = word_new(3), *pinned = pinned_new(8), here = 0;
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtValueWrite(NULL, 1, 0, NULL));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtValueWait(NULL, 1, 0, NULL));
  CHECK_FAILS(aclrtValueWrite(word, 1, 1, NULL));
  CHECK_FAILS(aclrtValueWait(word, 1, 4, NULL));
  CHECK_FAILS(aclrtValueWrite((char *)word + 4, 1, 0, NULL));
  CHECK_FAILS(aclrtValueWrite(&here, 1, 0, NULL));
  CHECK_FAILS(aclrtValueWait(pinned, 1, 0, NULL));
  CHECK_OK(aclrtSynchronizeStream(NULL));
  assert_int_equal(word_of(word), 3);
  CHECK_OK(aclrtFree(word));
  CHECK_OK(aclrtFreeHost(pinned));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(a_write_runs_in_stream_order),
      TEST(waits_end_when_their_condition_holds),
      TEST(changes_by_copies_and_tasks_end_waits),
      TEST(many_streams_synchronize_through_one_word),
      TEST(synchronize_of_a_waiting_stream_can_expire),
      TEST(a_stream_that_waits_can_be_destroyed_by_force),
      TEST(invalid_arguments_are_refused),
  };
  return cmocka_run_group_tests(tests, device_up, device_down);
}
