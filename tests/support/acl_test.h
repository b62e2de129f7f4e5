/* SPDX-License-Identifier: Apache-2.0 */
/* Common parts of all tests of the runtime API: cmocka, checks that print CANN's own message when they fail, a device
 * fixture, gates that hold a stream, threads, and device buffers.
 *
 * Rules for tests: assert only on the main thread, because a failed cmocka assertion is a longjmp. Other threads and
 * host functions return their results through atomics or pthread_join. No test asserts how fast something is. */
#ifndef CANNON_TESTS_SUPPORT_ACL_TEST_H
#define CANNON_TESTS_SUPPORT_ACL_TEST_H

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "acl/acl.h"
#include "acl/acl_rt.h"

/* ---- checks ---- */

enum { ANY_ERROR = -1 }; /* as an expected code: any code other than 0 */

static inline bool code_is(aclError got, aclError want) { return want == ANY_ERROR ? got != 0 : got == want; }

static inline void tell_code(aclError got, aclError want, const char *call, const char *file, int line) {
  const char *message = aclGetRecentErrMsg();
  char expected[16] = "an error";
  if (want != ANY_ERROR) snprintf(expected, sizeof expected, "%d", want);
  print_error("%s:%d: %s\n  gave %d, expected %s; message: %s\n", file, line, call, got, expected,
              message ? message : "(none)");
}

static inline void check_code(aclError got, aclError want, const char *call, const char *file, int line) {
  if (code_is(got, want)) return;
  tell_code(got, want, call, file, line);
  _fail(file, line);
}

#define CHECK_OK(call)         check_code((call), ACL_SUCCESS, #call, __FILE__, __LINE__)
#define CHECK_CODE(want, call) check_code((call), (want), #call, __FILE__, __LINE__)
#define CHECK_FAILS(call)      check_code((call), ANY_ERROR, #call, __FILE__, __LINE__)

static inline void nap_ms(long ms) {
  struct timespec t = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&t, NULL);
}

/* ---- gates: a gate is a host function that blocks its stream until the test opens it ---- */

typedef struct {
  atomic_int entered, open;
} gate;

enum { N_GATES = 8 };
/* static, because a failed test leaves its stack frame while a stream still waits on the gate */
static gate the_gates[N_GATES];
static int gates_used;

static inline void gate_wait(void *arg) {
  gate *g = arg;
  atomic_store(&g->entered, 1);
  while (!atomic_load(&g->open)) nap_ms(1);
}

static inline void gate_open(gate *g) { atomic_store(&g->open, 1); }

/* Blocks `stream` with a gate. Returns once the gate's host function is running. */
static inline gate *gate_close(aclrtStream stream) {
  assert_true(gates_used < N_GATES);
  gate *g = &the_gates[gates_used++];
  atomic_store(&g->entered, 0);
  atomic_store(&g->open, 0);
  CHECK_OK(aclrtLaunchHostFunc(stream, gate_wait, g));
  while (!atomic_load(&g->entered)) nap_ms(1);
  return g;
}

/* ---- host functions ---- */

static inline void count_one(void *arg) { atomic_fetch_add((atomic_int *)arg, 1); }

static inline void nap_then_count(void *arg) {
  nap_ms(10);
  count_one(arg);
}

/* ---- threads ---- */

static inline pthread_t thread_start(void *(*fn)(void *), void *arg) {
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, fn, arg), 0);
  return thread;
}

static inline void on_thread(void *(*fn)(void *), void *arg) {
  assert_int_equal(pthread_join(thread_start(fn, arg), NULL), 0);
}

/* ---- fixture ---- */

static inline int acl_up(void **state) {
  (void)state;
  CHECK_OK(aclInit(NULL));
  return 0;
}

static inline int acl_down(void **state) {
  (void)state;
  CHECK_OK(aclFinalize());
  return 0;
}

static inline int device_up(void **state) {
  acl_up(state);
  CHECK_OK(aclrtSetDevice(0));
  return 0;
}

static inline int device_down(void **state) {
  CHECK_OK(aclrtResetDevice(0));
  return acl_down(state);
}

/* Teardown of each test: lets all tasks finish and clears the thread's error and messages for the next test. */
static inline int settle(void **state) {
  (void)state;
  for (int i = 0; i < gates_used; i++) gate_open(&the_gates[i]);
  /* with a limit, since a failed test may have left a wait that never ends */
  aclrtSynchronizeDeviceWithTimeout(2000);
  gates_used = 0;
  aclrtGetLastError(ACL_RT_THREAD_LEVEL);
  aclGetRecentErrMsg();
  return 0;
}

#define TEST(function) cmocka_unit_test_teardown(function, settle)

/* ---- device buffers ---- */

static inline void *dev_new(size_t size) {
  void *p = NULL;
  CHECK_OK(aclrtMalloc(&p, size, ACL_MEM_MALLOC_HUGE_FIRST));
  assert_non_null(p);
  return p;
}

static inline void *dev_from(const void *host, size_t size) {
  void *p = dev_new(size);
  CHECK_OK(aclrtMemcpy(p, size, host, size, ACL_MEMCPY_HOST_TO_DEVICE));
  return p;
}

static inline void *dev_filled(int byte, size_t size) {
  void *p = dev_new(size);
  CHECK_OK(aclrtMemset(p, size, byte, size));
  return p;
}

static inline void from_dev(void *host, const void *dev, size_t size) {
  CHECK_OK(aclrtMemcpy(host, size, dev, size, ACL_MEMCPY_DEVICE_TO_HOST));
}

static inline void *pinned_new(size_t size) {
  void *p = NULL;
  CHECK_OK(aclrtMallocHost(&p, size));
  assert_non_null(p);
  return p;
}

static inline uint8_t dev_byte(const void *dev, size_t at) {
  uint8_t byte = 0;
  from_dev(&byte, (const uint8_t *)dev + at, 1);
  return byte;
}

/* Asserts that every byte of a device range equals `byte`. */
static inline void assert_dev_filled(const void *dev, int byte, size_t size) {
  uint8_t *host = malloc(size);
  assert_non_null(host);
  from_dev(host, dev, size);
  size_t i = 0;
  while (i < size && host[i] == (uint8_t)byte) i++;
  if (i < size) print_error("byte %zu of %zu is 0x%02x, expected 0x%02x\n", i, size, host[i], (uint8_t)byte);
  free(host);
  assert_int_equal(i, size);
}

static inline uint32_t device_count(void) {
  uint32_t n = 0;
  CHECK_OK(aclrtGetDeviceCount(&n));
  return n;
}

static inline aclrtStream stream_new(void) {
  aclrtStream stream = NULL;
  CHECK_OK(aclrtCreateStream(&stream));
  assert_non_null(stream);
  return stream;
}

static inline aclrtStreamStatus stream_status(aclrtStream stream) {
  aclrtStreamStatus status = ACL_STREAM_STATUS_RESERVED;
  CHECK_OK(aclrtStreamQuery(stream, &status));
  return status;
}

#endif
