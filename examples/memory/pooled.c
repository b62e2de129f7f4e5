/* SPDX-License-Identifier: Apache-2.0 */
/* Stream-ordered memory: a pool from which a stream takes blocks and to which it returns them, in the order of its
 * tasks. A temporary is freed right after its last use is submitted, while the tasks that use it are still queued: the
 * host never waits, and the next temporary gets the same memory. A chain of any length needs the memory of two of its
 * links.
 *
 * When the host synchronises, free memory of the pool beyond a threshold set by the program returns to the device. */
#include "common.h"

#include <acl/acl_rt_memory_soma.h>

enum { N = 1 << 18, LENGTH = 1000 };
static const size_t BYTES = N * sizeof(float);

static aclrtMemPool pool_open(uint64_t keep_bytes) {
  aclrtMemPool pool;
  const aclrtMemPoolProps props = {.allocType = ACL_MEM_ALLOCATION_TYPE_PINNED,
                                   .location = {.type = ACL_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
  CHECK(aclrtMemPoolCreate(&pool, &props));
  CHECK(aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, &keep_bytes));
  return pool;
}

static unsigned long long pool_mib(aclrtMemPool pool, aclrtMemPoolAttr what) {
  uint64_t bytes;
  CHECK(aclrtMemPoolGetAttr(pool, what, &bytes));
  return bytes >> 20;
}

static void *take(aclrtMemPool pool, aclrtStream stream) {
  void *p;
  CHECK(aclrtMemPoolMallocAsync(&p, BYTES, pool, stream));
  return p;
}

/* Computes 1 + 1 + ... + 1, each sum in a block of its own. Returns the last block. Does not wait. */
static void *chain(aclrtMemPool pool, void *one, aclrtStream stream) {
  void *sum = one;
  for (int i = 1; i < LENGTH; i++) {
    void *next = take(pool, stream);
    add(next, sum, one, N, stream);
    if (sum != one) CHECK(aclrtMemPoolFreeAsync(sum, stream)); /* takes effect after the task that reads it */
    sum = next;
  }
  return sum;
}

int main(void) {
  aclrtStream stream;
  float *host, last;
  CHECK(aclInit(NULL));
  CHECK(aclrtSetDevice(0));
  CHECK(aclrtCreateStream(&stream));
  CHECK(aclrtMallocHost((void **)&host, BYTES));
  for (int i = 0; i < N; i++) host[i] = 1;

  aclrtMemPool pool = pool_open(64 << 20);
  void *one = take(pool, stream);
  CHECK(aclrtMemcpyAsync(one, BYTES, host, BYTES, ACL_MEMCPY_HOST_TO_DEVICE, stream));
  void *sum = chain(pool, one, stream);
  CHECK(aclrtMemcpyAsync(&last, sizeof last, (float *)sum + N - 1, sizeof last, ACL_MEMCPY_DEVICE_TO_HOST, stream));
  CHECK(aclrtMemPoolFreeAsync(sum, stream));
  CHECK(aclrtMemPoolFreeAsync(one, stream));
  CHECK(aclrtSynchronizeStream(stream));
  expect(last == LENGTH, "a thousand ones make 1000");

  printf("%d blocks of %zu MiB, never more than %llu MiB in use\n", LENGTH, BYTES >> 20,
         pool_mib(pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH));
  printf("in use now: %llu MiB\n", pool_mib(pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT));
  expect(pool_mib(pool, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT) > 0, "what is free stays for the next step");
  CHECK(aclrtMemPoolTrimTo(pool, 0));
  printf("held after trimming: %llu MiB\n", pool_mib(pool, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT));

  CHECK(aclrtMemPoolDestroy(pool));
  CHECK(aclrtFreeHost(host));
  CHECK(aclrtDestroyStream(stream));
  CHECK(aclrtResetDevice(0));
  CHECK(aclFinalize());
  return 0;
}
