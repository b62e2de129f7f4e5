/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of addresses, memory usage by component, and cache operations. */
#include "acl_test.h"

#include "acl/ops/acl_dvpp.h"

static uint32_t checked(void **list, uint32_t n, uint32_t type) {
  uint32_t result = 99;
  CHECK_OK(aclrtCheckMemType(list, n, type, &result, 0));
  assert_true(result <= 1);
  return result;
}

static void addresses_are_classified(void **state) {
  (void)state;
  void *device = dev_new(100), *media = NULL, *reserved = NULL, *pinned = pinned_new(100);
  CHECK_OK(acldvppMalloc(&media, 100));
  CHECK_OK(aclrtReserveMemAddress(&reserved, 2 << 20, 0, NULL, 0));
  void *all[] = {device, media, reserved};
  assert_int_equal(checked(&device, 1, ACL_RT_MEM_TYPE_DEV), 1);
  assert_int_equal(checked(&device, 1, ACL_RT_MEM_TYPE_DVPP), 0);
  assert_int_equal(checked(&media, 1, ACL_RT_MEM_TYPE_DVPP), 1);
  assert_int_equal(checked(&media, 1, ACL_RT_MEM_TYPE_DEV), 0);
  assert_int_equal(checked(&reserved, 1, ACL_RT_MEM_TYPE_RSVD), 1);
  assert_int_equal(checked(&pinned, 1, ACL_RT_MEM_TYPE_DEV | ACL_RT_MEM_TYPE_DVPP | ACL_RT_MEM_TYPE_RSVD), 0);
  assert_int_equal(checked(all, 2, ACL_RT_MEM_TYPE_DEV), 0);
  assert_int_equal(checked(all, 2, ACL_RT_MEM_TYPE_DEV | ACL_RT_MEM_TYPE_DVPP), 1);
  assert_int_equal(checked(all, 3, ACL_RT_MEM_TYPE_DEV | ACL_RT_MEM_TYPE_DVPP | ACL_RT_MEM_TYPE_RSVD), 1);
  CHECK_OK(aclrtReleaseMemAddress(reserved));
  assert_int_equal(checked(&reserved, 1, ACL_RT_MEM_TYPE_RSVD), 0);
  uint32_t result;
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtCheckMemType(NULL, 1, ACL_RT_MEM_TYPE_DEV, &result, 0));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtCheckMemType(&device, 1, ACL_RT_MEM_TYPE_DEV, NULL, 0));
  CHECK_FAILS(aclrtCheckMemType(&device, 0, ACL_RT_MEM_TYPE_DEV, &result, 0));
  CHECK_FAILS(aclrtCheckMemType(&device, 1, 1, &result, 0));
  CHECK_FAILS(aclrtCheckMemType(&device, 1, ACL_RT_MEM_TYPE_DEV, &result, 1));
  CHECK_OK(aclrtFree(device));
  CHECK_OK(acldvppFree(media));
  CHECK_OK(aclrtFreeHost(pinned));
}

static uint64_t used(void) {
  aclrtMemUsageInfo info[8];
  size_t n = 0;
  uint64_t sum = 0;
  CHECK_OK(aclrtGetMemUsageInfo(0, info, 8, &n));
  assert_true(n >= 1 && n <= 8);
  for (size_t i = 0; i < n; ++i) {
    assert_true(strnlen(info[i].name, sizeof info[i].name) < sizeof info[i].name);
    assert_true(info[i].curMemSize <= info[i].memPeakSize);
    if (i) assert_true(info[i].curMemSize <= info[i - 1].curMemSize);
    sum += info[i].curMemSize;
  }
  return sum;
}

static void usage_is_reported_by_component(void **state) {
  (void)state;
  enum { SIZE = 32 << 20 };
  aclrtMemUsageInfo info;
  size_t n;
  const uint64_t before = used();
  void *p = dev_new(SIZE);
  assert_true(used() >= before + SIZE);
  CHECK_OK(aclrtGetMemUsageInfo(0, &info, 1, &n));
  assert_int_equal(n, 1);
  CHECK_OK(aclrtFree(p));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtGetMemUsageInfo(0, NULL, 1, &n));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtGetMemUsageInfo(0, &info, 1, NULL));
  CHECK_FAILS(aclrtGetMemUsageInfo(0, &info, 0, &n));
  CHECK_FAILS(aclrtGetMemUsageInfo(99, &info, 1, &n));
  CHECK_FAILS(aclrtGetMemUsageInfo(-1, &info, 1, &n));
}

static void capabilities_of_registered_memory(void **state) {
  (void)state;
  aclrtHostMemMapCapability c = (aclrtHostMemMapCapability)9;
  CHECK_OK(aclrtHostMemMapCapabilities(0, ACL_RT_HAC_TYPE_AIC, &c));
  assert_int_equal(c, ACL_RT_HOST_MEM_MAP_SUPPORTED);
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtHostMemMapCapabilities(0, ACL_RT_HAC_TYPE_AIC, NULL));
  CHECK_FAILS(aclrtHostMemMapCapabilities(99, ACL_RT_HAC_TYPE_AIC, &c));
  CHECK_FAILS(aclrtHostMemMapCapabilities(0, (aclrtHacType)99, &c));
}

/* ---- caches ---- */

static void caches_can_be_flushed(void **state) {
  (void)state;
  void *p = NULL;
  CHECK_OK(aclrtMallocCached(&p, 1000, ACL_MEM_MALLOC_NORMAL_ONLY));
  CHECK_OK(aclrtMemset(p, 1000, 5, 1000));
  CHECK_OK(aclrtMemFlush(p, 1000));
  CHECK_OK(aclrtMemInvalidate(p, 1000));
  assert_dev_filled(p, 5, 1000);
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtMemFlush(NULL, 1000));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtMemInvalidate(NULL, 1000));
  CHECK_FAILS(aclrtMemFlush(p, 0));
  CHECK_FAILS(aclrtMemInvalidate(p, 0));
  CHECK_OK(aclrtFree(p));
}

static void memory_can_be_prefetched(void **state) {
  (void)state;
  aclrtStream stream = stream_new();
  char *p = dev_filled(5, 1000);
  size_t size = 0;
  CHECK_OK(aclrtCmoAsync(p, 1000, ACL_RT_CMO_TYPE_PREFETCH, stream));
  CHECK_OK(aclrtCmoGetDescSize(&size));
  void *d = dev_new(size);
  CHECK_OK(aclrtCmoSetDesc(d, p, 1000));
  CHECK_OK(aclrtCmoAsyncWithDesc(d, ACL_RT_CMO_TYPE_PREFETCH, stream, NULL));
  CHECK_OK(aclrtSynchronizeStream(stream));
  assert_dev_filled(p, 5, 1000);
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtCmoAsync(NULL, 1000, ACL_RT_CMO_TYPE_PREFETCH, stream));
  CHECK_FAILS(aclrtCmoAsync(p, 0, ACL_RT_CMO_TYPE_PREFETCH, stream));
  CHECK_FAILS(aclrtCmoAsync(p, 1000, ACL_RT_CMO_TYPE_FLUSH, stream));
  CHECK_FAILS(aclrtCmoAsync(p, 1000, (aclrtCmoType)9, stream));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtCmoGetDescSize(NULL));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtCmoSetDesc(NULL, p, 1000));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtCmoSetDesc(d, NULL, 1000));
  CHECK_FAILS(aclrtCmoAsyncWithDesc(d, ACL_RT_CMO_TYPE_INVALID, stream, NULL));
  CHECK_FAILS(aclrtCmoAsyncWithDesc(d, ACL_RT_CMO_TYPE_PREFETCH, stream, d));
  CHECK_OK(aclrtFree(p));
  CHECK_OK(aclrtFree(d));
  CHECK_OK(aclrtDestroyStream(stream));
}

/* Products of this class have no barriers. */
static void barriers_are_not_supported(void **state) {
  (void)state;
  char *p = dev_new(1000);
  aclrtBarrierTaskInfo info = {.barrierNum = 1, .cmoInfo = {{ACL_RT_CMO_TYPE_INVALID, 1}}};
  CHECK_CODE(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtCmoAsyncWithBarrier(p, 1000, ACL_RT_CMO_TYPE_INVALID, 1, NULL));
  CHECK_CODE(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtCmoWaitBarrier(&info, NULL, 0));
  CHECK_OK(aclrtFree(p));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(addresses_are_classified), TEST(usage_is_reported_by_component), TEST(capabilities_of_registered_memory),
      TEST(caches_can_be_flushed),    TEST(memory_can_be_prefetched),       TEST(barriers_are_not_supported),
  };
  return cmocka_run_group_tests(tests, device_up, device_down);
}
