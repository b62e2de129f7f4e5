/* SPDX-License-Identifier: Apache-2.0 */
/* Behaviour of Cannon's runtime where CANN's documentation leaves it open. */
#include "acl_test.h"

#include <sys/stat.h>
#include <unistd.h>

static void reported_versions_and_device_are_as_documented(void **state) {
  (void)state;
  int32_t v[3] = {0};
  aclCANNPackageVersion package;
  CHECK_OK(aclrtGetVersion(&v[0], &v[1], &v[2]));
  assert_true(v[0] == 1 && v[1] == 13 && v[2] == 0);
  CHECK_OK(aclsysGetCANNVersion(ACL_PKG_NAME_CANN, &package));
  assert_string_equal(package.version, "8.1.RC1");
  if (!getenv("CANNON_DEVICE")) assert_string_equal(aclrtGetSocName(), "Ascend910B3");
}

/* ---- streams ---- */

enum { N_MEETING = 12 };
static atomic_int arrived;

static void wait_for_all(void *arg) {
  (void)arg;
  atomic_fetch_add(&arrived, 1);
  while (atomic_load(&arrived) < N_MEETING) nap_ms(1);
}

/* More host functions than cores; each ends only when all have begun. */
static void host_functions_of_many_streams_run_at_once(void **state) {
  (void)state;
  aclrtStream streams[N_MEETING];
  atomic_store(&arrived, 0);
  for (int i = 0; i < N_MEETING; i++) {
    streams[i] = stream_new();
    CHECK_OK(aclrtLaunchHostFunc(streams[i], wait_for_all, NULL));
  }
  for (int i = 0; i < N_MEETING; i++) {
    CHECK_OK(aclrtSynchronizeStream(streams[i]));
    CHECK_OK(aclrtDestroyStream(streams[i]));
  }
  assert_int_equal(atomic_load(&arrived), N_MEETING);
}

static void work_is_done_although_no_thread_waits(void **state) {
  (void)state;
  static atomic_int done;
  atomic_store(&done, 0);
  void *p = dev_filled(0, 1000);
  CHECK_OK(aclrtMemsetAsync(p, 1000, 6, 1000, NULL));
  CHECK_OK(aclrtLaunchHostFunc(NULL, count_one, &done));
  for (int i = 0; i < 10000 && !atomic_load(&done); i++) nap_ms(1);
  assert_int_equal(atomic_load(&done), 1);
  assert_dev_filled(p, 6, 1000);
  CHECK_OK(aclrtFree(p));
}

static void every_priority_of_the_range_is_kept(void **state) {
  (void)state;
  for (uint32_t priority = 0; priority <= 7; priority++) {
    aclrtStream stream = NULL;
    uint32_t got = 99;
    CHECK_OK(aclrtCreateStreamWithConfig(&stream, priority, 0));
    CHECK_OK(aclrtStreamGetPriority(stream, &got));
    assert_int_equal(got, priority);
    CHECK_OK(aclrtDestroyStream(stream));
  }
}

/* ---- short-lived streams ---- */

/* Handles are slots of a table, and the slot that has been free for longest is used next, once 64 are free. So a
 * program has few different handles in a row if and only if each stream that it destroys is free at once. */
enum { SHORT_LIVES = 2000, MOST_SLOTS = 128 };

static int different_handles(const void *const *handle) {
  int n = 0;
  for (int i = 0; i < SHORT_LIVES; i++) {
    int k = 0;
    while (k < i && handle[k] != handle[i]) k++;
    n += k == i;
  }
  return n;
}

typedef enum { SYNCHRONISED, DESTROYED_WITH_TASKS, DESTROYED_BY_FORCE, OF_A_CONTEXT, N_SHORT_LIVES } short_life;

/* p: 64 bytes of its own, since a task may still run when its stream was destroyed by force. */
static aclrtStream live_and_die(short_life kind, void *p) {
  aclrtContext own = NULL, before = NULL;
  if (kind == OF_A_CONTEXT) {
    CHECK_OK(aclrtGetCurrentContext(&before));
    CHECK_OK(aclrtCreateContext(&own, 0));
  }
  const aclrtStream stream = stream_new();
  aclrtEvent event = NULL;
  CHECK_OK(aclrtCreateEvent(&event));
  CHECK_OK(aclrtMemsetAsync(p, 64, 0, 64, stream));
  CHECK_OK(aclrtRecordEvent(event, stream));
  CHECK_OK(aclrtDestroyEvent(event));
  if (kind == SYNCHRONISED) CHECK_OK(aclrtSynchronizeStream(stream));
  if (kind == DESTROYED_BY_FORCE)
    CHECK_OK(aclrtDestroyStreamForce(stream));
  else
    CHECK_OK(aclrtDestroyStream(stream));
  if (kind == OF_A_CONTEXT) {
    CHECK_OK(aclrtDestroyContext(own));
    CHECK_OK(aclrtSetCurrentContext(before));
  }
  return stream;
}

static void a_destroyed_stream_is_free_at_once(void **state) {
  (void)state;
  static const void *handle[SHORT_LIVES];
  char *p = dev_new(64 * SHORT_LIVES * N_SHORT_LIVES);
  for (short_life kind = 0; kind < N_SHORT_LIVES; kind++) {
    for (int i = 0; i < SHORT_LIVES; i++) handle[i] = live_and_die(kind, p + 64 * (SHORT_LIVES * kind + i));
    const int n = different_handles(handle);
    if (n > MOST_SLOTS) print_error("%d streams, destroyed in way %d, had %d handles\n", SHORT_LIVES, kind, n);
    assert_true(n <= MOST_SLOTS);
  }
  CHECK_OK(aclrtFree(p));
}

/* ---- streams destroyed by force ---- */

/* A device would have begun the first tasks before the next call, so they must run although streams are run lazily
 * here. */
static void tasks_that_would_have_begun_run_despite_forced_destruction(void **state) {
  (void)state;
  static atomic_int done;
  void *p = dev_filled(0, 1000);
  for (int round = 1; round <= 100; round++) {
    aclrtStream stream = stream_new();
    CHECK_OK(aclrtMemsetAsync(p, 1000, round, 1000, stream));
    CHECK_OK(aclrtLaunchHostFunc(stream, count_one, &done));
    CHECK_OK(aclrtDestroyStreamForce(stream));
    for (int i = 0; i < 10000 && atomic_load(&done) < round; i++) nap_ms(1);
    assert_int_equal(atomic_load(&done), round);
    assert_dev_filled(p, round, 1000);
  }
  CHECK_OK(aclrtFree(p));
}

static void *synchronize(void *arg) {
  aclrtSetDevice(0);
  const aclError got = aclrtSynchronizeStream(arg);
  aclrtResetDevice(0);
  return (void *)(intptr_t)got;
}

static void a_waiting_thread_learns_that_its_tasks_were_dropped(void **state) {
  (void)state;
  aclrtStream stream = stream_new();
  aclrtEvent never = NULL;
  void *got = NULL;
  CHECK_OK(aclrtCreateEvent(&never));
  CHECK_OK(aclrtStreamWaitEvent(stream, never));
  const pthread_t waiter = thread_start(synchronize, stream);
  nap_ms(20); /* usually the thread waits by then; otherwise it gets the error for a stale handle */
  CHECK_OK(aclrtDestroyStreamForce(stream));
  assert_int_equal(pthread_join(waiter, &got), 0);
  assert_int_equal((intptr_t)got, 107000);
  CHECK_OK(aclrtDestroyEvent(never));
}

/* ---- memory ---- */

static void pinned_memory_is_aligned_to_pages(void **state) {
  (void)state;
  void *p[10];
  for (int i = 0; i < 10; i++) {
    p[i] = pinned_new((size_t)1 << i);
    assert_int_equal((uintptr_t)p[i] % 4096, 0);
  }
  for (int i = 0; i < 10; i++) CHECK_OK(aclrtFreeHost(p[i]));
}

static void a_freed_block_is_kept_until_queued_tasks_ran(void **state) {
  (void)state;
  enum { SIZE = 5 << 20 };
  aclrtStream stream = stream_new();
  uint8_t *from = dev_filled(0x21, SIZE), *to = dev_filled(0, SIZE);
  gate *g = gate_close(stream);
  CHECK_OK(aclrtMemcpyAsync(to, SIZE, from, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
  CHECK_OK(aclrtFree(from));
  void *next = dev_filled(0x99, 1000); /* must be taken from other memory */
  gate_open(g);
  CHECK_OK(aclrtSynchronizeStream(stream));
  assert_dev_filled(to, 0x21, SIZE);
  assert_dev_filled(next, 0x99, 1000);
  CHECK_OK(aclrtFree(next));
  CHECK_OK(aclrtFree(to));
  CHECK_OK(aclrtDestroyStream(stream));
}

static void addresses_beyond_any_block_are_refused(void **state) {
  (void)state;
  char host[64] = {0}, *p = dev_filled(3, 64);
  size_t free_bytes, total;
  CHECK_OK(aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total));
  CHECK_FAILS(aclrtMemcpy(p, SIZE_MAX, p, total * 2, ACL_MEMCPY_DEVICE_TO_DEVICE));
  CHECK_FAILS(aclrtMemset(p, SIZE_MAX, 1, SIZE_MAX));
  CHECK_FAILS(aclrtMemset(p, total * 2, 1, total * 2));
  assert_dev_filled(p, 3, 64);
  char *big = dev_new(256 << 20); /* large enough for a mapping of its own, which the free removes */
  CHECK_OK(aclrtFree(big));
  CHECK_FAILS(aclrtMemcpy(big + (100 << 20), 64, host, 64, ACL_MEMCPY_HOST_TO_DEVICE));
  CHECK_FAILS(aclrtMemset(big + (100 << 20), 64, 1, 64));
  CHECK_OK(aclrtFree(p));
}

/* ---- after a reset ---- */

static void all_objects_can_be_destroyed_after_reset(void **state) {
  (void)state;
  CHECK_OK(aclrtSetDevice(0));
  aclrtContext primary = NULL, context = NULL;
  aclrtEvent event = NULL, pending = NULL;
  CHECK_OK(aclrtGetCurrentContext(&primary));
  CHECK_OK(aclrtCreateContext(&context, 0));
  CHECK_OK(aclrtSetCurrentContext(primary));
  aclrtStream stream = stream_new();
  CHECK_OK(aclrtCreateEvent(&event));
  CHECK_OK(aclrtCreateEvent(&pending));
  CHECK_OK(aclrtRecordEvent(event, stream));
  void *a = dev_filled(1, 100), *b = pinned_new(100);
  CHECK_OK(aclrtResetDevice(0));

  CHECK_OK(aclrtFree(a));
  CHECK_OK(aclrtDestroyEvent(event));
  CHECK_OK(aclrtDestroyEvent(pending));
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtDestroyContext(context));
  CHECK_OK(aclrtFreeHost(b));

  CHECK_OK(aclrtSetDevice(0)); /* and the device can be used again */
  void *c = dev_filled(5, 100);
  assert_dev_filled(c, 5, 100);
  CHECK_OK(aclrtFree(c));
  CHECK_OK(aclrtResetDevice(0));
}

/* ---- configuration ---- */

/* Reading a pipe would block, and reading a device would not end. */
static void a_configuration_that_is_not_a_regular_file_is_refused(void **state) {
  (void)state;
  char folder[] = "/tmp/acl_config_XXXXXX", pipe[64];
  assert_non_null(mkdtemp(folder));
  snprintf(pipe, sizeof pipe, "%s/pipe", folder);
  assert_int_equal(mkfifo(pipe, 0600), 0);
  const char *const wrong[] = {pipe, folder, "/dev/zero", "/dev/null"};
  CHECK_OK(aclFinalize());
  alarm(20);
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    CHECK_CODE(ACL_ERROR_INVALID_FILE, aclInit(wrong[i]));
    const char *message = aclGetRecentErrMsg();
    assert_non_null(strstr(message, wrong[i]));
    assert_non_null(strstr(message, "expected a file"));
  }
  alarm(0);
  CHECK_OK(aclInit(NULL));
  unlink(pipe);
  rmdir(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(reported_versions_and_device_are_as_documented),
      TEST(host_functions_of_many_streams_run_at_once),
      TEST(work_is_done_although_no_thread_waits),
      TEST(every_priority_of_the_range_is_kept),
      TEST(a_destroyed_stream_is_free_at_once),
      TEST(tasks_that_would_have_begun_run_despite_forced_destruction),
      TEST(a_waiting_thread_learns_that_its_tasks_were_dropped),
      TEST(pinned_memory_is_aligned_to_pages),
      TEST(a_freed_block_is_kept_until_queued_tasks_ran),
      TEST(addresses_beyond_any_block_are_refused),
  };
  const struct CMUnitTest after[] = {TEST(all_objects_can_be_destroyed_after_reset),
                                     TEST(a_configuration_that_is_not_a_regular_file_is_refused)};
  return cmocka_run_group_tests_name("runtime", tests, device_up, device_down) +
         cmocka_run_group_tests_name("after reset", after, acl_up, acl_down);
}
