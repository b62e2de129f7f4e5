/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of several devices: each does a share of the work, and the results are gathered on the first.
 *
 * A thread has one current device, chosen by its last aclrtSetDevice; its allocations are made there. A pointer can be
 * freed, and copied from, whatever the current device is. A copy between devices needs peer access, enabled once per
 * pair. */
#include "common.h"

enum { MOST = 16, N = 1 << 18 };
static const size_t BYTES = N * sizeof(float);

typedef struct {
  aclrtStream stream;
  void *values, *sum;
} share;

/* Queues on device d: sum = values + values, where all values are d + 1. */
static void start(share *s, int d, const float *host) {
  CHECK(aclrtSetDevice(d));
  CHECK(aclrtCreateStream(&s->stream));
  CHECK(aclrtMalloc(&s->values, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(aclrtMalloc(&s->sum, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(aclrtMemcpyAsync(s->values, BYTES, host, BYTES, ACL_MEMCPY_HOST_TO_DEVICE, s->stream));
  add(s->sum, s->values, s->values, N, s->stream);
}

/* Adds the sum of device d to that of the first device. */
static void gather(share *first, share *from, int d, void *landing) {
  int32_t possible = 0;
  CHECK(aclrtSetDevice(d));
  CHECK(aclrtSynchronizeStream(from->stream));
  CHECK(aclrtSetDevice(0));
  CHECK(aclrtDeviceCanAccessPeer(&possible, 0, d));
  expect(possible, "the devices reach each other");
  CHECK(aclrtDeviceEnablePeerAccess(d, 0));
  CHECK(aclrtMemcpyAsync(landing, BYTES, from->sum, BYTES, ACL_MEMCPY_DEVICE_TO_DEVICE, first->stream));
  add(first->sum, first->sum, landing, N, first->stream);
  CHECK(aclrtSynchronizeStream(first->stream));
  CHECK(aclrtDeviceDisablePeerAccess(d));
}

static void finish(share *s, int d) {
  size_t free_bytes, total;
  CHECK(aclrtSetDevice(d));
  CHECK(aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total));
  printf("device %d: %zu KiB in use\n", d, (total - free_bytes) >> 10);
  CHECK(aclrtFree(s->values));
  CHECK(aclrtFree(s->sum));
  CHECK(aclrtDestroyStream(s->stream));
}

int main(void) {
  uint32_t n = 0;
  share shares[MOST];
  float *host[MOST], result = 0, expected = 0;
  void *landing;
  CHECK(aclInit(NULL));
  CHECK(aclrtGetDeviceCount(&n));
  if (n > MOST) n = MOST;
  for (uint32_t d = 0; d < n; d++) {
    CHECK(aclrtSetDevice((int)d));
    CHECK(aclrtMallocHost((void **)&host[d], BYTES)); /* pinned for all devices */
    for (int i = 0; i < N; i++) host[d][i] = (float)(d + 1);
    start(&shares[d], (int)d, host[d]); /* the devices work concurrently */
    expected += 2 * (float)(d + 1);
  }
  CHECK(aclrtSetDevice(0));
  CHECK(aclrtMalloc(&landing, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
  for (uint32_t d = 1; d < n; d++) gather(&shares[0], &shares[d], (int)d, landing);
  CHECK(aclrtSynchronizeStream(shares[0].stream));
  CHECK(aclrtMemcpy(&result, sizeof result, shares[0].sum, sizeof result, ACL_MEMCPY_DEVICE_TO_HOST));
  CHECK(aclrtFree(landing));
  for (uint32_t d = 0; d < n; d++) finish(&shares[d], (int)d);
  for (uint32_t d = 0; d < n; d++) {
    CHECK(aclrtFreeHost(host[d]));
    CHECK(aclrtResetDevice((int)d));
  }
  CHECK(aclFinalize());
  printf("%u devices: %.0f\n", n, result);
  expect(result == expected, "the sum of all shares");
  return 0;
}
