/* Order between streams, as pools know it: by the ways of events and notifies, and not by what only looks like one. Each test has a pool
 * with room for one block and no way of reuse but the one it is about. */
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

/* The first stream is held, and has freed the block behind that. */
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

/* The block stays the pool's, freed in the same stream. */
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

static void order_is_passed_on_from_stream_to_stream(void **state) {
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
  assert_false(gets_the_block(&t, 2)); /* now it is behind the last stream */
  assert_false(gets_the_block(&t, 0));
  tear_down(&t);
}

static void a_record_before_the_wait_passes_nothing_on(void **state) {
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

static void a_wait_is_for_the_record_at_its_time(void **state) {
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

static void a_wait_that_may_give_up_passes_nothing_on(void **state) {
  (void)state;
  setting t;
  set_up(&t);
  record(&t, 0, 0);
  CHECK_OK(aclrtStreamWaitEventWithTimeout(t.stream[1], t.event[0], 60));
  assert_false(gets_the_block(&t, 1));
  tear_down(&t);
}

static void a_wait_for_a_record_to_come_passes_nothing_on(void **state) {
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

static void a_notify_passes_order_on(void **state) {
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

/* Which record lets a wait pass is known as long as there is one stream on each side. */
static void a_notify_of_many_passes_nothing_on(void **state) {
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

static void what_the_host_saw_is_free_for_all(void **state) {
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

/* An inserted wait could be for a stream that waits for what this one has yet to record. */
static void no_wait_is_inserted_that_could_hang(void **state) {
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

static void nor_one_that_could_hang_for_a_value(void **state) {
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

/* Lanes are handed on from destroyed streams: what was said of those is not taken for their heirs'. */
static void new_streams_inherit_nothing(void **state) {
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
      TEST(order_is_passed_on_from_stream_to_stream),
      TEST(a_record_before_the_wait_passes_nothing_on),
      TEST(a_wait_is_for_the_record_at_its_time),
      TEST(a_wait_that_may_give_up_passes_nothing_on),
      TEST(a_wait_for_a_record_to_come_passes_nothing_on),
      TEST(a_notify_passes_order_on),
      TEST(a_notify_of_many_passes_nothing_on),
      TEST(what_the_host_saw_is_free_for_all),
      TEST(no_wait_is_inserted_that_could_hang),
      TEST(nor_one_that_could_hang_for_a_value),
      TEST(new_streams_inherit_nothing),
  };
  return cmocka_run_group_tests(tests, device_up, device_down);
}
