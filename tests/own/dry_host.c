/* SPDX-License-Identifier: Apache-2.0 */
/* The host's time in dry runs (runtime/dry/dry_clock.h). Runs with CANNON_DRY=host=10us: each submission takes 10 us;
 * and with CANNON_DRY=host=measured. */
#include <math.h>

#include <unistd.h>

#include "acl_test.h"

#define GIB ((size_t)1 << 30)
static const double FILL_MS = 600e-6 + (double)GIB / 1600e9 * 1e3;

static aclrtEvent mark(aclrtStream s) {
  aclrtEvent e;
  CHECK_OK(aclrtCreateEventWithFlag(&e, ACL_EVENT_TIME_LINE));
  CHECK_OK(aclrtRecordEvent(e, s));
  return e;
}

static void assert_between(aclrtEvent first, aclrtEvent second, double want_ms) {
  float ms;
  CHECK_OK(aclrtSynchronizeEvent(second));
  CHECK_OK(aclrtEventElapsedTime(&ms, first, second));
  if (fabs(ms - want_ms) > 1e-4) print_error("%.6f ms, expected %.6f\n", (double)ms, want_ms);
  assert_true(fabs(ms - want_ms) <= 1e-4);
}

/* A fill of 1 KiB takes some 0.6 us: the device waits for the host. */
static void short_tasks_wait_for_the_host(void **state) {
  (void)state;
  aclrtStream s = stream_new();
  void *dev = dev_new(1024);
  const aclrtEvent begin = mark(s);
  for (int i = 0; i < 100; i++) CHECK_OK(aclrtMemsetAsync(dev, 1024, 0, 1024, s));
  assert_between(begin, mark(s), 101 * 0.01);
  CHECK_OK(aclrtDestroyStream(s));
  CHECK_OK(aclrtFree(dev));
}

/* Three fills of 1 GiB take 2 ms, whatever the host does meanwhile; it goes on when it has waited for them. */
static void the_host_waits_for_long_tasks(void **state) {
  (void)state;
  aclrtStream s = stream_new(), other = stream_new();
  void *dev = dev_new(GIB);
  const aclrtEvent begin = mark(s);
  for (int i = 0; i < 3; i++) CHECK_OK(aclrtMemsetAsync(dev, GIB, 0, GIB, s));
  const aclrtEvent end = mark(s), apart = mark(other);
  assert_between(begin, end, 0.01 + 3 * FILL_MS); /* and waits */
  assert_between(begin, apart, 0.05);
  assert_between(begin, mark(other), 0.01 + 3 * FILL_MS + 0.01);
  CHECK_OK(aclrtMemsetAsync(dev, GIB, 0, GIB, s));
  CHECK_OK(aclrtSynchronizeStream(s));
  assert_between(end, mark(other), 0.02 + FILL_MS + 0.01);
  CHECK_OK(aclrtDestroyStream(s));
  CHECK_OK(aclrtDestroyStream(other));
  CHECK_OK(aclrtFree(dev));
}

/* A stream of device 1 waits for a fill of device 0, and its clock moves to the end of that. */
static void a_wait_takes_over_the_other_devices_time(void **state) {
  (void)state;
  aclrtStream s = stream_new();
  void *dev = dev_new(GIB);
  const aclrtEvent begin = mark(s);
  CHECK_OK(aclrtMemsetAsync(dev, GIB, 0, GIB, s));
  aclrtEvent filled;
  CHECK_OK(aclrtCreateEvent(&filled));
  CHECK_OK(aclrtRecordEvent(filled, s));
  CHECK_OK(aclrtSetDevice(1));
  aclrtStream there = stream_new();
  const aclrtEvent apart = mark(there);
  CHECK_OK(aclrtStreamWaitEvent(there, filled));
  const aclrtEvent behind = mark(there);
  assert_between(begin, behind, 0.01 + FILL_MS);
  assert_between(begin, apart, 0.03);
  CHECK_OK(aclrtDestroyStream(there));
  CHECK_OK(aclrtResetDevice(1));
  CHECK_OK(aclrtSetDevice(0));
  CHECK_OK(aclrtDestroyStream(s));
  CHECK_OK(aclrtFree(dev));
}

static float between(aclrtEvent first, aclrtEvent second) {
  float ms;
  CHECK_OK(aclrtSynchronizeEvent(second));
  CHECK_OK(aclrtEventElapsedTime(&ms, first, second));
  return ms;
}

static void sleep_a_while(void *unused) {
  (void)unused;
  usleep(60 * 1000);
}

/* What the program does counts, and what a device would take; not what the host waits for here. */
static void measured(void **state) {
  (void)state;
  aclrtStream s = stream_new(), other = stream_new();
  void *dev = dev_new(GIB);
  const aclrtEvent begin = mark(s);
  usleep(20 * 1000);
  const aclrtEvent slept = mark(s);
  assert_true(between(begin, slept) >= 20);
  for (int i = 0; i < 1000; i++) CHECK_OK(aclrtMemsetAsync(dev, GIB, 0, GIB, s));
  CHECK_OK(aclrtSynchronizeStream(s));
  const aclrtEvent filled = mark(other);
  assert_true(between(slept, filled) >= 1000 * FILL_MS);
  CHECK_OK(aclrtLaunchHostFunc(s, sleep_a_while, NULL));
  CHECK_OK(aclrtSynchronizeStream(s));
  assert_true(between(filled, mark(other)) < 50);
  CHECK_OK(aclrtDestroyStream(s));
  CHECK_OK(aclrtDestroyStream(other));
  CHECK_OK(aclrtFree(dev));
}

int main(void) {
  if (strstr(getenv("CANNON_DRY"), "measured")) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(measured)};
    return cmocka_run_group_tests(tests, device_up, device_down);
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(short_tasks_wait_for_the_host),
      cmocka_unit_test(the_host_waits_for_long_tasks),
      cmocka_unit_test(a_wait_takes_over_the_other_devices_time),
  };
  return cmocka_run_group_tests(tests, device_up, device_down);
}
