/* SPDX-License-Identifier: Apache-2.0 */
/* The utilization of a device, measured by the time that operators run. A single sample may miss work, but continued
 * work is seen eventually, and so is its end. */
#include "acl_ops.h"

#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_matmul.h"

enum { N = 256 };

typedef struct {
  bool products;
  atomic_int stop, failed;
} work;

static void *keep_busy(void *arg) {
  work *w = arg;
  aclrtStream stream;
  void *dev;
  float one = 1;
  bool ok =
      !aclrtSetDevice(0) && !aclrtCreateStream(&stream) && !aclrtMalloc(&dev, 3 * N * N * 4, ACL_MEM_MALLOC_HUGE_FIRST);
  while (ok && !atomic_load(&w->stop)) {
    const int64_t dims[] = {N, N}, strides[] = {N, 1};
    aclTensor *t[3];
    aclOpExecutor *e = NULL;
    uint64_t bytes = 0;
    void *space = NULL;
    aclScalar *alpha = aclCreateScalar(&one, ACL_FLOAT);
    for (int i = 0; i < 3; ++i)
      t[i] =
          aclCreateTensor(dims, 2, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, dims, 2, (char *)dev + (size_t)i * N * N * 4);
    ok = w->products ? !aclnnMatmulGetWorkspaceSize(t[0], t[1], t[2], 0, &bytes, &e)
                     : !aclnnAddGetWorkspaceSize(t[0], t[1], alpha, t[2], &bytes, &e);
    if (ok && bytes) ok = !aclrtMalloc(&space, bytes, ACL_MEM_MALLOC_HUGE_FIRST);
    if (ok) ok = w->products ? !aclnnMatmul(space, bytes, e, stream) : !aclnnAdd(space, bytes, e, stream);
    ok = ok && !aclrtSynchronizeStream(stream) && (!space || !aclrtFree(space));
    for (int i = 0; i < 3; ++i) aclDestroyTensor(t[i]);
    aclDestroyScalar(alpha);
  }
  if (ok) ok = !aclrtFree(dev) && !aclrtDestroyStream(stream) && !aclrtResetDevice(0);
  atomic_store(&w->failed, !ok);
  return NULL;
}

static aclrtUtilizationInfo load_now(void) {
  aclrtUtilizationInfo info = {0};
  CHECK_OK(aclrtGetDeviceUtilizationRate(0, &info));
  assert_in_range(info.cubeUtilization, 0, 100);
  assert_in_range(info.vectorUtilization, 0, 100);
  assert_int_equal(info.aicpuUtilization, 0);
  assert_int_equal(info.memoryUtilization, -1);
  return info;
}

static void work_is_reported_for_its_unit(void **state) {
  (void)state;
  for (int products = 0; products < 2; ++products) {
    static work w;
    w = (work){.products = products};
    pthread_t thread = thread_start(keep_busy, &w);
    aclrtUtilizationInfo info = load_now();
    while (!(products ? info.cubeUtilization : info.vectorUtilization) && !atomic_load(&w.failed)) info = load_now();
    assert_int_equal(products ? info.vectorUtilization : info.cubeUtilization, 0);
    atomic_store(&w.stop, 1);
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&w.failed), 0);
    load_now(); /* restarts the measurement here */
    info = load_now();
    assert_int_equal(info.cubeUtilization + info.vectorUtilization, 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {TEST(work_is_reported_for_its_unit)};
  return cmocka_run_group_tests_name("load", tests, device_up, device_down);
}
