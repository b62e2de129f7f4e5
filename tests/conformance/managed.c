/* SPDX-License-Identifier: Apache-2.0 */
/* Managed memory: one address for host and device, advice, prefetching, attributes. On products that lack it, the calls
 * report that it is not supported. */
#include "acl_ops.h"
#include "acl_test.h"

#include "aclnnop/aclnn_add.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#  define WINDOW_MOVES 1 /* a sanitizer occupies the usual addresses */
#else
#  define WINDOW_MOVES 0
#endif

static const size_t MIB2 = 2 << 20;
static const aclrtMemManagedLocation nowhere = {ACL_MEM_LOCATIONTYPE_INVALID, 0}, host = {ACL_MEM_LOCATIONTYPE_HOST, 0},
                                     device = {ACL_MEM_LOCATIONTYPE_DEVICE, 0},
                                     node = {ACL_MEM_LOCATIONTYPE_HOST_NUMA, 0},
                                     here = {ACL_MEM_LOCATIONTYPE_HOST_NUMA_CURRENT, 77};

static void *at(void *p, size_t bytes) { return (char *)p + bytes; }

static void *managed_new(size_t size) {
  void *p = NULL;
  CHECK_OK(aclrtMemAllocManaged(&p, size, ACL_RT_MEM_ATTACH_GLOBAL));
  assert_non_null(p);
  return p;
}

static int attribute(aclrtMemManagedRangeAttribute which, const void *p, size_t size) {
  int value = 12345;
  CHECK_OK(aclrtMemManagedGetAttr(which, p, size, &value, sizeof value));
  return value;
}

static void assert_prefers(const void *p, size_t size, int type, int id) {
  assert_int_equal(attribute(ACL_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE, p, size), type);
  assert_int_equal(attribute(ACL_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, p, size), id);
  if (type == ACL_MEM_LOCATIONTYPE_DEVICE || type == ACL_MEM_LOCATIONTYPE_HOST_NUMA)
    assert_int_equal(attribute(ACL_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID, p, size), id);
}

/* ---- the memory ---- */

static void host_and_device_use_one_address(void **state) {
  (void)state;
  enum { N = 1000 };
  float *p = managed_new(2 * N * sizeof *p);
  if (!WINDOW_MOVES) {
    assert_true((uintptr_t)p >= 0x90000000000u);
    assert_true((uintptr_t)p < 0x90000000000u + ((uintptr_t)3 << 40));
  }
  for (int i = 0; i < N; i++) p[i] = (float)i;
  aclTensor *x = TENSOR(p, ACL_FLOAT, N), *y = TENSOR(p + N, ACL_FLOAT, N);
  aclScalar *one = float_scalar(1);
  uint64_t bytes;
  aclOpExecutor *executor = NULL;
  CHECK_OK(aclnnAddGetWorkspaceSize(x, x, one, y, &bytes, &executor));
  CHECK_OK(aclnnAdd(NULL, 0, executor, NULL));
  CHECK_OK(aclrtSynchronizeDevice());
  for (int i = 0; i < N; i++) assert_true(p[N + i] == (float)(2 * i));
  CHECK_OK(aclDestroyTensor(x));
  CHECK_OK(aclDestroyTensor(y));
  CHECK_OK(aclDestroyScalar(one));
  CHECK_OK(aclrtFree(p));
}

static void managed_memory_is_copied_and_filled_as_host_or_device(void **state) {
  (void)state;
  unsigned char *p = managed_new(MIB2), bytes[100];
  void *d = dev_filled(0x31, 100);
  CHECK_OK(aclrtMemset(p, MIB2, 0x11, MIB2));
  assert_int_equal(p[MIB2 - 1], 0x11);
  CHECK_OK(aclrtMemcpy(p, MIB2, d, 100, ACL_MEMCPY_DEVICE_TO_HOST));
  assert_int_equal(p[99], 0x31);
  CHECK_OK(aclrtMemcpy(bytes, 100, p, 100, ACL_MEMCPY_DEVICE_TO_HOST));
  assert_int_equal(bytes[50], 0x31);
  memset(p, 0x42, 100);
  CHECK_OK(aclrtMemcpy(d, 100, p, 100, ACL_MEMCPY_HOST_TO_DEVICE));
  assert_dev_filled(d, 0x42, 100);
  memset(bytes, 0x53, 100);
  CHECK_OK(aclrtMemcpy(p, MIB2, bytes, 100, ACL_MEMCPY_HOST_TO_DEVICE));
  assert_int_equal(p[99], 0x53);
  CHECK_OK(aclrtMemcpyAsync(p + 100, MIB2 - 100, d, 100, ACL_MEMCPY_DEVICE_TO_DEVICE, NULL));
  CHECK_OK(aclrtSynchronizeStream(NULL));
  assert_int_equal(p[199], 0x42);
  CHECK_OK(aclrtMemcpy(p, MIB2, d, 100, ACL_MEMCPY_DEFAULT));
  assert_int_equal(p[0], 0x42);
  CHECK_OK(aclrtFree(d));
  CHECK_OK(aclrtFree(p));
}

static void attributes_identify_managed_memory(void **state) {
  (void)state;
  aclrtPtrAttributes attributes;
  void *p = managed_new(1), *base = NULL;
  size_t size = 0;
  CHECK_OK(aclrtPointerGetAttributes(p, &attributes));
  assert_int_equal(attributes.location.type, ACL_MEM_LOCATION_TYPE_MANAGED);
  CHECK_OK(aclrtMemGetAddressRange(p, &base, &size));
  assert_ptr_equal(base, p);
  memset(p, 1, MIB2); /* sizes are rounded up to 2 MiB */
  CHECK_FAILS(aclrtFreeHost(p));
  CHECK_OK(aclrtFree(p));
  CHECK_OK(aclrtPointerGetAttributes(p, &attributes));
  assert_int_equal(attributes.location.type, ACL_MEM_LOCATION_TYPE_UNREGISTERED);
  CHECK_FAILS(aclrtFree(p));
}

static void bad_allocations_are_refused(void **state) {
  (void)state;
  void *p = NULL;
  CHECK_CODE(100000, aclrtMemAllocManaged(NULL, MIB2, ACL_RT_MEM_ATTACH_GLOBAL));
  CHECK_CODE(100000, aclrtMemAllocManaged(&p, MIB2, 0));
  CHECK_CODE(100000, aclrtMemAllocManaged(&p, MIB2, 2));
  CHECK_FAILS(aclrtMemAllocManaged(&p, 0, ACL_RT_MEM_ATTACH_GLOBAL));
  CHECK_CODE(207001, aclrtMemAllocManaged(&p, (uint64_t)4 << 40, ACL_RT_MEM_ATTACH_GLOBAL));
  CHECK_FAILS(aclrtMemAllocManaged(&p, UINT64_MAX, ACL_RT_MEM_ATTACH_GLOBAL));
}

/* ---- advice ---- */

static void read_mostly_holds_if_all_pages_have_it(void **state) {
  (void)state;
  char *p = managed_new(4 * MIB2);
  assert_int_equal(attribute(ACL_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, 4 * MIB2), 0);
  CHECK_OK(aclrtMemManagedAdvise(p + MIB2, 2 * MIB2, ACL_MEM_ADVISE_SET_READ_MOSTLY, nowhere));
  assert_int_equal(attribute(ACL_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p + MIB2, 2 * MIB2), 1);
  assert_int_equal(attribute(ACL_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p + 2 * MIB2 + 5, 1), 1);
  assert_int_equal(attribute(ACL_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, 2 * MIB2), 0);
  assert_int_equal(attribute(ACL_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p + 2 * MIB2, 2 * MIB2), 0);
  CHECK_OK(aclrtMemManagedAdvise(p + MIB2, MIB2, ACL_MEM_ADVISE_UNSET_READ_MOSTLY, host));
  assert_int_equal(attribute(ACL_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p + MIB2, MIB2), 0);
  assert_int_equal(attribute(ACL_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p + 2 * MIB2, MIB2), 1);
  CHECK_OK(aclrtFree(p));
  p = managed_new(4 * MIB2); /* advice ends with the allocation, even at the same address */
  for (int i = 0; i < 4; i++)
    assert_int_equal(attribute(ACL_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p + (size_t)i * MIB2, MIB2), 0);
  CHECK_OK(aclrtFree(p));
}

static void preferred_location_holds_if_all_pages_have_it(void **state) {
  (void)state;
  char *p = managed_new(2 * MIB2);
  assert_prefers(p, 2 * MIB2, ACL_MEM_LOCATIONTYPE_INVALID, -2);
  CHECK_OK(aclrtMemManagedAdvise(p, 2 * MIB2, ACL_MEM_ADVISE_SET_PREFERRED_LOCATION, device));
  assert_prefers(p, 2 * MIB2, ACL_MEM_LOCATIONTYPE_DEVICE, 0);
  CHECK_OK(aclrtMemManagedAdvise(p, MIB2, ACL_MEM_ADVISE_UNSET_PREFERRED_LOCATION, nowhere));
  CHECK_OK(aclrtMemManagedAdvise(p, MIB2, ACL_MEM_ADVISE_SET_PREFERRED_LOCATION, host));
  assert_prefers(p, MIB2, ACL_MEM_LOCATIONTYPE_HOST, -1);
  assert_prefers(p + MIB2, MIB2, ACL_MEM_LOCATIONTYPE_DEVICE, 0);
  assert_prefers(p, 2 * MIB2, ACL_MEM_LOCATIONTYPE_INVALID, -2);
  CHECK_OK(aclrtMemManagedAdvise(p, 2 * MIB2, ACL_MEM_ADVISE_UNSET_PREFERRED_LOCATION, nowhere));
  assert_prefers(p, 2 * MIB2, ACL_MEM_LOCATIONTYPE_INVALID, -2);
  CHECK_OK(aclrtMemManagedAdvise(p, 2 * MIB2, ACL_MEM_ADVISE_SET_PREFERRED_LOCATION, node));
  assert_prefers(p, 2 * MIB2, ACL_MEM_LOCATIONTYPE_HOST_NUMA, 0);
  CHECK_OK(aclrtMemManagedAdvise(p, 2 * MIB2, ACL_MEM_ADVISE_SET_PREFERRED_LOCATION, here)); /* the id is ignored */
  assert_int_equal(attribute(ACL_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE, p, 2 * MIB2),
                   ACL_MEM_LOCATIONTYPE_HOST_NUMA);
  assert_true(attribute(ACL_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID, p, 2 * MIB2) >= 0);
  CHECK_OK(aclrtFree(p));
}

static void accessing_devices_are_listed(void **state) {
  (void)state;
  int who[3] = {9, 9, 9};
  char *p = managed_new(2 * MIB2);
  CHECK_OK(aclrtMemManagedGetAttr(ACL_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, p, 2 * MIB2, who, sizeof who));
  assert_true(who[0] == -2 && who[1] == -2 && who[2] == -2);
  CHECK_OK(aclrtMemManagedAdvise(p, 2 * MIB2, ACL_MEM_ADVISE_SET_ACCESSED_BY, device));
  CHECK_OK(aclrtMemManagedAdvise(p, 2 * MIB2, ACL_MEM_ADVISE_SET_ACCESSED_BY, host));
  CHECK_OK(aclrtMemManagedGetAttr(ACL_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, p, 2 * MIB2, who, sizeof who));
  assert_true((who[0] == -1 && who[1] == 0) || (who[0] == 0 && who[1] == -1));
  assert_int_equal(who[2], -2);
  CHECK_OK(aclrtMemManagedAdvise(p, MIB2, ACL_MEM_ADVISE_UNSET_ACCESSED_BY, device));
  CHECK_OK(aclrtMemManagedGetAttr(ACL_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, p, 2 * MIB2, who, sizeof who));
  assert_true(who[0] == -1 && who[1] == -2);
  who[1] = 9;
  CHECK_OK(aclrtMemManagedGetAttr(ACL_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, p + MIB2, MIB2, who, sizeof who[0]));
  assert_true(who[0] == -1 || who[0] == 0);
  assert_int_equal(who[1], 9); /* beyond the given size */
  CHECK_OK(aclrtFree(p));
}

static void several_attributes_can_be_read_at_once(void **state) {
  (void)state;
  void *p = managed_new(MIB2);
  int mostly = 9, who[2] = {9, 9};
  aclrtMemManagedRangeAttribute which[] = {ACL_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, ACL_MEM_RANGE_ATTRIBUTE_ACCESSED_BY};
  void *data[] = {&mostly, who};
  size_t sizes[] = {sizeof mostly, sizeof who};
  CHECK_OK(aclrtMemManagedAdvise(p, MIB2, ACL_MEM_ADVISE_SET_READ_MOSTLY, nowhere));
  CHECK_OK(aclrtMemManagedGetAttrs(which, 2, p, MIB2, data, sizes));
  assert_true(mostly == 1 && who[0] == -2 && who[1] == -2);
  sizes[1] = 3;
  CHECK_FAILS(aclrtMemManagedGetAttrs(which, 2, p, MIB2, data, sizes));
  CHECK_FAILS(aclrtMemManagedGetAttrs(which, 0, p, MIB2, data, sizes));
  CHECK_CODE(100000, aclrtMemManagedGetAttrs(NULL, 2, p, MIB2, data, sizes));
  CHECK_CODE(100000, aclrtMemManagedGetAttrs(which, 2, p, MIB2, NULL, sizes));
  CHECK_OK(aclrtFree(p));
}

static void bad_advice_is_refused(void **state) {
  (void)state;
  int value, local;
  void *p = managed_new(2 * MIB2), *d = dev_new(2 * MIB2);
  const aclrtMemManagedLocation no_device = {ACL_MEM_LOCATIONTYPE_DEVICE, 1000},
                                no_node = {ACL_MEM_LOCATIONTYPE_HOST_NUMA, -1};
  CHECK_CODE(100000, aclrtMemManagedAdvise(NULL, MIB2, ACL_MEM_ADVISE_SET_READ_MOSTLY, host));
  CHECK_FAILS(aclrtMemManagedAdvise(p, 0, ACL_MEM_ADVISE_SET_READ_MOSTLY, host));
  CHECK_FAILS(aclrtMemManagedAdvise(p, MIB2 / 2, ACL_MEM_ADVISE_SET_READ_MOSTLY, host));
  CHECK_FAILS(aclrtMemManagedAdvise(p, 4 * MIB2, ACL_MEM_ADVISE_SET_READ_MOSTLY, host)); /* larger than the block */
  CHECK_FAILS(aclrtMemManagedAdvise(d, MIB2, ACL_MEM_ADVISE_SET_READ_MOSTLY, host));     /* not managed memory */
  CHECK_FAILS(aclrtMemManagedAdvise(&local, MIB2, ACL_MEM_ADVISE_SET_READ_MOSTLY, host));
  CHECK_FAILS(aclrtMemManagedAdvise(p, MIB2, (aclrtMemManagedAdviseType)6, host));
  CHECK_FAILS(aclrtMemManagedAdvise(p, MIB2, ACL_MEM_ADVISE_SET_PREFERRED_LOCATION, nowhere));
  CHECK_FAILS(aclrtMemManagedAdvise(p, MIB2, ACL_MEM_ADVISE_SET_PREFERRED_LOCATION, no_device));
  CHECK_FAILS(aclrtMemManagedAdvise(p, MIB2, ACL_MEM_ADVISE_SET_ACCESSED_BY, no_node));
  CHECK_FAILS(aclrtMemManagedGetAttr((aclrtMemManagedRangeAttribute)0, p, MIB2, &value, sizeof value));
  CHECK_FAILS(aclrtMemManagedGetAttr((aclrtMemManagedRangeAttribute)9, p, MIB2, &value, sizeof value));
  CHECK_FAILS(aclrtMemManagedGetAttr(ACL_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, MIB2, &value, 8));
  CHECK_FAILS(aclrtMemManagedGetAttr(ACL_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, d, MIB2, &value, sizeof value));
  CHECK_CODE(100000, aclrtMemManagedGetAttr(ACL_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, MIB2, NULL, sizeof value));
  CHECK_OK(aclrtFree(d));
  CHECK_OK(aclrtFree(p));
}

/* ---- prefetching ---- */

static void prefetching_keeps_contents_and_sets_the_attribute(void **state) {
  (void)state;
  aclrtStream stream = stream_new();
  unsigned char *p = managed_new(4 * MIB2);
  memset(p, 0x5c, 4 * MIB2);
  CHECK_OK(aclrtMemManagedPrefetchAsync(p, 4 * MIB2, device, 0, stream));
  CHECK_OK(aclrtMemsetAsync(p, 1, 0x5d, 1, stream)); /* in stream order */
  CHECK_OK(aclrtSynchronizeStream(stream));
  assert_int_equal(p[0], 0x5d);
  assert_int_equal(p[4 * MIB2 - 1], 0x5c);
  assert_int_equal(attribute(ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, p, 4 * MIB2), 0);
  assert_int_equal(attribute(ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE, p, 4 * MIB2),
                   ACL_MEM_LOCATIONTYPE_DEVICE);
  CHECK_OK(aclrtMemManagedPrefetchAsync(p, MIB2, host, 0, stream));
  assert_int_equal(attribute(ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, p, MIB2), -1);
  assert_int_equal(attribute(ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, p, 2 * MIB2), -2);
  CHECK_OK(aclrtSynchronizeStream(stream));
  CHECK_OK(aclrtFree(p));
  CHECK_OK(aclrtDestroyStream(stream));
}

static void a_batch_has_one_location_per_group(void **state) {
  (void)state;
  enum { N = 5 };
  char *p = managed_new(N * MIB2);
  const void *ptrs[N];
  size_t sizes[N], firsts[] = {0, 3}, bad[] = {1, 3};
  aclrtMemManagedLocation locations[] = {device, host};
  for (int i = 0; i < N; i++) {
    ptrs[i] = p + (size_t)i * MIB2;
    sizes[i] = MIB2;
  }
  CHECK_OK(aclrtMemManagedPrefetchBatchAsync(ptrs, sizes, N, locations, firsts, 2, 0, NULL));
  CHECK_OK(aclrtSynchronizeStream(NULL));
  assert_int_equal(attribute(ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, p, 3 * MIB2), 0);
  assert_int_equal(attribute(ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, p + 3 * MIB2, 2 * MIB2), -1);
  CHECK_FAILS(aclrtMemManagedPrefetchBatchAsync(ptrs, sizes, N, locations, bad, 2, 0, NULL));
  firsts[1] = N;
  CHECK_FAILS(aclrtMemManagedPrefetchBatchAsync(ptrs, sizes, N, locations, firsts, 2, 0, NULL));
  firsts[1] = 0;
  CHECK_FAILS(aclrtMemManagedPrefetchBatchAsync(ptrs, sizes, N, locations, firsts, 2, 0, NULL));
  firsts[1] = 1;
  CHECK_FAILS(aclrtMemManagedPrefetchBatchAsync(ptrs, sizes, 1, locations, firsts, 2, 0, NULL));
  CHECK_FAILS(aclrtMemManagedPrefetchBatchAsync(ptrs, sizes, N, locations, firsts, 2, 1, NULL));
  sizes[N - 1] = 1;
  CHECK_FAILS(aclrtMemManagedPrefetchBatchAsync(ptrs, sizes, N, locations, firsts, 2, 0, NULL));
  CHECK_CODE(100000, aclrtMemManagedPrefetchBatchAsync(NULL, sizes, N, locations, firsts, 2, 0, NULL));
  assert_int_equal(attribute(ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, p, 3 * MIB2), 0); /* unchanged */
  CHECK_OK(aclrtFree(p));
}

static void bad_prefetches_are_refused(void **state) {
  (void)state;
  void *p = managed_new(MIB2), *d = dev_new(MIB2);
  CHECK_CODE(100000, aclrtMemManagedPrefetchAsync(NULL, MIB2, host, 0, NULL));
  CHECK_FAILS(aclrtMemManagedPrefetchAsync(p, MIB2, host, 1, NULL));
  CHECK_FAILS(aclrtMemManagedPrefetchAsync(p, MIB2 + 1, host, 0, NULL));
  CHECK_FAILS(aclrtMemManagedPrefetchAsync(p, MIB2, nowhere, 0, NULL));
  CHECK_FAILS(aclrtMemManagedPrefetchAsync(d, MIB2, host, 0, NULL));
  CHECK_FAILS(aclrtMemManagedPrefetchAsync(at(p, 64), MIB2, host, 0, NULL)); /* past the end of the block */
  CHECK_OK(aclrtFree(d));
  CHECK_OK(aclrtFree(p));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(host_and_device_use_one_address),
      TEST(managed_memory_is_copied_and_filled_as_host_or_device),
      TEST(attributes_identify_managed_memory),
      TEST(bad_allocations_are_refused),
      TEST(read_mostly_holds_if_all_pages_have_it),
      TEST(preferred_location_holds_if_all_pages_have_it),
      TEST(accessing_devices_are_listed),
      TEST(several_attributes_can_be_read_at_once),
      TEST(bad_advice_is_refused),
      TEST(prefetching_keeps_contents_and_sets_the_attribute),
      TEST(a_batch_has_one_location_per_group),
      TEST(bad_prefetches_are_refused),
  };
  return cmocka_run_group_tests(tests, device_up, device_down);
}
