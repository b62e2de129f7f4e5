/* SPDX-License-Identifier: Apache-2.0 */
/* The order between streams that pools derive from events and notifies: which waits allow a pool to reuse a block in
 * another stream, and which do not. Each test has a pool with room for one block, in which only the way of reuse under
 * test is enabled. */
#include "acl/acl_rt_memory_soma.h"
#include "acl_test.h"

enum { MIB = 1 << 20, BLOCK = 4 * MIB, MOST_STREAMS = 4 };

typedef struct {
  aclrtMemPool pool;
  aclrtStream stream[MOST_STREAMS];
  aclrtEvent event[MOST_STREAMS];
  gate *held;
} setting;

static void set_switch(setting *t, aclrtMemPoolAttr attr, uint32_t on) {
  CHECK_OK(aclrtMemPoolSetAttr(t->pool, attr, &on));
}

/* A gate holds the first stream, and after that the block was freed in it. */
static void set_up(setting *t) {
  const aclrtMemPoolProps props = {.location = {.type = ACL_MEM_LOCATION_TYPE_DEVICE}, .maxSize = BLOCK + 2 * MIB};
  uint64_t all = UINT64_MAX;
  void *block = NULL;
  CHECK_OK(aclrtMemPoolCreate(&t->pool, &props));
  CHECK_OK(aclrtMemPoolSetAttr(t->pool, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, &all));
  set_switch(t, ACL_RT_MEM_POOL_REUSE_ALLOW_OPPORTUNISTIC, 0);
  set_switch(t, ACL_RT_MEM_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 0);
  for (int i = 0; i < MOST_STREAMS; i++) {
    t->stream[i] = stream_new();
    CHECK_OK(aclrtCreateEventExWithFlag(&t->event[i], ACL_EVENT_SYNC));
  }
  CHECK_OK(aclrtMemPoolMallocAsync(&block, BLOCK, t->pool, t->stream[0]));
  t->held = gate_close(t->stream[0]);
  CHECK_OK(aclrtMemPoolFreeAsync(block, t->stream[0]));
}

static void tear_down(setting *t) {
  gate_open(t->held);
  CHECK_OK(aclrtSynchronizeDevice());
  CHECK_OK(aclrtMemPoolDestroy(t->pool));
  for (int i = 0; i < MOST_STREAMS; i++) {
    CHECK_OK(aclrtDestroyEvent(t->event[i]));
    CHECK_OK(aclrtDestroyStream(t->stream[i]));
  }
}

/* Whether the stream gets the block; if it does, it is freed in the same stream. */
static bool gets_the_block(setting *t, int stream) {
  void *p = NULL;
  if (aclrtMemPoolMallocAsync(&p, BLOCK, t->pool, t->stream[stream]) != ACL_SUCCESS) return false;
  CHECK_OK(aclrtMemPoolFreeAsync(p, t->stream[stream]));
  return true;
}

static void record(setting *t, int event, int stream) {
  CHECK_OK(aclrtRecordEvent(t->event[event], t->stream[stream]));
}

static void wait_for(setting *t, int stream, int event) {
  CHECK_OK(aclrtStreamWaitEvent(t->stream[stream], t->event[event]));
}

static void order_is_transitive_across_streams(void **state) {
  (void)state;
  setting t;
  set_up(&t);
  record(&t, 0, 0);
  wait_for(&t, 1, 0);
  record(&t, 1, 1);
  assert_false(gets_the_block(&t, 2));
  wait_for(&t, 2, 1);
  record(&t, 2, 2);
  assert_false(gets_the_block(&t, 3));
  wait_for(&t, 3, 2);
  assert_true(gets_the_block(&t, 3));
  assert_false(gets_the_block(&t, 2)); /* the block is now free only in the order of the last stream */
  assert_false(gets_the_block(&t, 0));
  tear_down(&t);
}

static void a_record_before_the_wait_gives_no_order(void **state) {
  (void)state;
  setting t;
  set_up(&t);
  record(&t, 1, 1);
  record(&t, 0, 0);
  wait_for(&t, 1, 0);
  wait_for(&t, 2, 1);
  assert_false(gets_the_block(&t, 2));
  assert_true(gets_the_block(&t, 1));
  tear_down(&t);
}

static void a_wait_refers_to_the_last_record_before_it(void **state) {
  (void)state;
  setting t;
  set_up(&t);
  record(&t, 0, 3);
  wait_for(&t, 1, 0);
  record(&t, 0, 0);
  assert_false(gets_the_block(&t, 1));
  wait_for(&t, 2, 0);
  assert_true(gets_the_block(&t, 2));
  tear_down(&t);
}

static void a_wait_with_a_time_limit_gives_no_order(void **state) {
  (void)state;
  setting t;
  set_up(&t);
  record(&t, 0, 0);
  CHECK_OK(aclrtStreamWaitEventWithTimeout(t.stream[1], t.event[0], 60));
  assert_false(gets_the_block(&t, 1));
  tear_down(&t);
}

static void a_wait_before_the_record_gives_no_order(void **state) {
  (void)state;
  setting t;
  aclrtEvent event;
  set_up(&t);
  CHECK_OK(aclrtCreateEvent(&event));
  CHECK_OK(aclrtStreamWaitEvent(t.stream[1], event));
  CHECK_OK(aclrtRecordEvent(event, t.stream[0]));
  assert_false(gets_the_block(&t, 1));
  tear_down(&t);
  CHECK_OK(aclrtDestroyEvent(event));
}

static aclrtNotify notify_new(void) {
  aclrtNotify n = NULL;
  CHECK_OK(aclrtCreateNotify(&n, ACL_NOTIFY_DEFAULT));
  return n;
}

static void a_notify_orders_two_streams(void **state) {
  (void)state;
  setting t;
  aclrtNotify n = notify_new();
  set_up(&t);
  CHECK_OK(aclrtRecordNotify(n, t.stream[0]));
  assert_false(gets_the_block(&t, 1));
  CHECK_OK(aclrtWaitAndResetNotify(n, t.stream[1], 0));
  assert_true(gets_the_block(&t, 1));
  tear_down(&t);
  CHECK_OK(aclrtDestroyNotify(n));
}

/* The record that a wait consumes is known only while one stream records and one waits. */
static void a_notify_with_several_streams_gives_no_order(void **state) {
  (void)state;
  setting t;
  aclrtNotify ahead = notify_new(), two = notify_new(), late = notify_new();
  set_up(&t);
  CHECK_OK(aclrtWaitAndResetNotify(ahead, t.stream[1], 0));
  CHECK_OK(aclrtRecordNotify(ahead, t.stream[0]));
  assert_false(gets_the_block(&t, 1));
  CHECK_OK(aclrtRecordNotify(two, t.stream[3]));
  CHECK_OK(aclrtRecordNotify(two, t.stream[0]));
  CHECK_OK(aclrtWaitAndResetNotify(two, t.stream[2], 0));
  assert_false(gets_the_block(&t, 2));
  CHECK_OK(aclrtRecordNotify(late, t.stream[0]));
  CHECK_OK(aclrtWaitAndResetNotify(late, t.stream[3], 60));
  assert_false(gets_the_block(&t, 3));
  tear_down(&t);
  CHECK_OK(aclrtDestroyNotify(ahead));
  CHECK_OK(aclrtDestroyNotify(two));
  CHECK_OK(aclrtDestroyNotify(late));
}

static void completion_seen_by_the_host_allows_reuse_by_all(void **state) {
  (void)state;
  setting t;
  set_up(&t);
  record(&t, 0, 0);
  wait_for(&t, 1, 0);
  record(&t, 1, 1);
  assert_false(gets_the_block(&t, 2));
  gate_open(t.held);
  CHECK_OK(aclrtSynchronizeEvent(t.event[1]));
  assert_true(gets_the_block(&t, 2));
  record(&t, 2, 2);
  aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
  while (status != ACL_EVENT_RECORDED_STATUS_COMPLETE) CHECK_OK(aclrtQueryEventStatus(t.event[2], &status));
  assert_true(gets_the_block(&t, 3));
  while (stream_status(t.stream[3]) != ACL_STREAM_STATUS_COMPLETE) nap_ms(1);
  assert_true(gets_the_block(&t, 0));
  tear_down(&t);
}

/* The pool must not insert a wait for a stream that itself waits for a later record of this stream. */
static void no_wait_is_inserted_that_could_deadlock_on_an_event(void **state) {
  (void)state;
  setting t;
  aclrtEvent event;
  void *p = NULL;
  set_up(&t);
  CHECK_OK(aclrtCreateEvent(&event));
  set_switch(&t, ACL_RT_MEM_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 1);
  CHECK_OK(aclrtStreamWaitEvent(t.stream[0], event));
  CHECK_CODE(207001, aclrtMemPoolMallocAsync(&p, BLOCK, t.pool, t.stream[1]));
  CHECK_OK(aclrtRecordEvent(event, t.stream[1]));
  gate_open(t.held);
  CHECK_OK(aclrtSynchronizeDevice());
  assert_true(gets_the_block(&t, 1));
  tear_down(&t);
  CHECK_OK(aclrtDestroyEvent(event));
}

static void no_wait_is_inserted_that_could_deadlock_on_a_value(void **state) {
  (void)state;
  setting t;
  void *p = NULL;
  uint64_t *word = dev_filled(0, 64);
  set_up(&t);
  set_switch(&t, ACL_RT_MEM_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 1);
  CHECK_OK(aclrtValueWait(word, 1, ACL_STREAM_WAIT_VALUE_EQ, t.stream[0]));
  CHECK_CODE(207001, aclrtMemPoolMallocAsync(&p, BLOCK, t.pool, t.stream[1]));
  CHECK_OK(aclrtValueWrite(word, 1, 0, t.stream[1]));
  gate_open(t.held);
  CHECK_OK(aclrtSynchronizeDevice());
  assert_true(gets_the_block(&t, 1));
  tear_down(&t);
  CHECK_OK(aclrtFree(word));
}

/* The internal numbers of destroyed streams are reused. Order known for a destroyed stream must not apply to the new
 * one. */
static void new_streams_do_not_inherit_order(void **state) {
  (void)state;
  setting t;
  aclrtEvent hold;
  set_up(&t);
  gate_open(t.held);
  for (int i = 0; i < 200; i++) {
    aclrtStream stream = stream_new();
    void *p = NULL;
    CHECK_OK(aclrtSynchronizeDevice());
    CHECK_OK(aclrtMemPoolMallocAsync(&p, BLOCK, t.pool, stream));
    CHECK_OK(aclrtCreateEvent(&hold));
    CHECK_OK(aclrtStreamWaitEvent(stream, hold));
    CHECK_OK(aclrtRecordEvent(t.event[0], stream));
    CHECK_OK(aclrtMemsetAsync(p, BLOCK, 1, BLOCK, stream));
    CHECK_OK(aclrtMemPoolFreeAsync(p, stream));
    wait_for(&t, 1, 0);
    assert_false(gets_the_block(&t, 1));
    CHECK_OK(aclrtRecordEvent(t.event[0], stream));
    wait_for(&t, 2, 0);
    assert_true(gets_the_block(&t, 2));
    CHECK_OK(aclrtRecordEvent(hold, t.stream[3]));
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_OK(aclrtDestroyEvent(hold));
  }
  tear_down(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(order_is_transitive_across_streams),
      TEST(a_record_before_the_wait_gives_no_order),
      TEST(a_wait_refers_to_the_last_record_before_it),
      TEST(a_wait_with_a_time_limit_gives_no_order),
      TEST(a_wait_before_the_record_gives_no_order),
      TEST(a_notify_orders_two_streams),
      TEST(a_notify_with_several_streams_gives_no_order),
      TEST(completion_seen_by_the_host_allows_reuse_by_all),
      TEST(no_wait_is_inserted_that_could_deadlock_on_an_event),
      TEST(no_wait_is_inserted_that_could_deadlock_on_a_value),
      TEST(new_streams_do_not_inherit_order),
  };
  return cmocka_run_group_tests(tests, device_up, device_down);
}
