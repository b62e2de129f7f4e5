/* SPDX-License-Identifier: Apache-2.0 */
/* Three ways to let the device work on data of the host:
 *
 *   pageable    ordinary memory, copied: the copy goes through a buffer of the driver, and the caller waits for it
 *   pinned      memory of aclrtMallocHost, copied asynchronously: the host continues meanwhile
 *   registered  the program's own memory, made visible to the device: nothing is copied
 *
 * Registered memory is best for data that is read once; data that is read repeatedly should be copied to the device. */
#include "common.h"

#include <time.h>

enum { N = 1 << 20, PAGE = 4096, ROUNDS = 20 };
static const size_t BYTES = N * sizeof(float);

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static float *fill(float *p, float value) {
  for (int i = 0; i < N; i++) p[i] = value;
  return p;
}

/* Computes sum = x + y on the device and copies it back. *submitted is the time until the host could continue. */
static double by_copies(const float *x, const float *y, float *sum, void *device[3], aclrtStream s, double *submitted) {
  const double start = now_us();
  CHECK(aclrtMemcpyAsync(device[0], BYTES, x, BYTES, ACL_MEMCPY_HOST_TO_DEVICE, s));
  CHECK(aclrtMemcpyAsync(device[1], BYTES, y, BYTES, ACL_MEMCPY_HOST_TO_DEVICE, s));
  add(device[2], device[0], device[1], N, s);
  CHECK(aclrtMemcpyAsync(sum, BYTES, device[2], BYTES, ACL_MEMCPY_DEVICE_TO_HOST, s));
  *submitted = now_us() - start;
  CHECK(aclrtSynchronizeStream(s));
  return now_us() - start;
}

static double in_place(void *x, void *y, void *sum, aclrtStream s, double *submitted) {
  const double start = now_us();
  add(sum, x, y, N, s);
  *submitted = now_us() - start;
  CHECK(aclrtSynchronizeStream(s));
  return now_us() - start;
}

static void report(const char *name, const float *sum, double submitted, double total) {
  expect(sum[0] == 3 && sum[N - 1] == 3, "1 + 2");
  printf("%-10s %8.0f us until the host goes on, %8.0f us in all\n", name, submitted, total);
}

int main(void) {
  aclrtStream s;
  void *device[3], *alias[3];
  float *pageable[3], *pinned[3];
  double submitted = 0, total = 0;
  CHECK(aclInit(NULL));
  CHECK(aclrtSetDevice(0));
  CHECK(aclrtCreateStream(&s));
  for (int i = 0; i < 3; i++) {
    CHECK(aclrtMalloc(&device[i], BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMallocHost((void **)&pinned[i], BYTES));
    pageable[i] = aligned_alloc(PAGE, BYTES); /* registration works by pages */
    expect(pageable[i] != NULL, "host memory");
    fill(pinned[i], (float)((i + 1) % 3));
    fill(pageable[i], (float)((i + 1) % 3));
  }

  for (int i = 0; i < ROUNDS; i++) total = by_copies(pageable[0], pageable[1], pageable[2], device, s, &submitted);
  report("pageable", pageable[2], submitted, total);
  for (int i = 0; i < ROUNDS; i++) total = by_copies(pinned[0], pinned[1], pinned[2], device, s, &submitted);
  report("pinned", pinned[2], submitted, total);

  fill(pageable[2], 0);
  for (int i = 0; i < 3; i++) CHECK(aclrtHostRegister(pageable[i], BYTES, ACL_HOST_REGISTER_MAPPED, &alias[i]));
  for (int i = 0; i < ROUNDS; i++) total = in_place(alias[0], alias[1], alias[2], s, &submitted);
  report("registered", pageable[2], submitted, total);

  for (int i = 0; i < 3; i++) {
    CHECK(aclrtHostUnregister(pageable[i])); /* before it is freed */
    free(pageable[i]);
    CHECK(aclrtFreeHost(pinned[i]));
    CHECK(aclrtFree(device[i]));
  }
  CHECK(aclrtDestroyStream(s));
  CHECK(aclrtResetDevice(0));
  CHECK(aclFinalize());
  return 0;
}
