/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual memory management: reservations, physical memory, mappings and access rights, in the orders that programs
 * use. */
#include "acl_ops.h"
#include "acl_test.h"

#include "aclnnop/aclnn_add.h"

static const size_t MIB2 = 2 << 20;

static aclrtPhysicalMemProp device_memory(void) {
  return (aclrtPhysicalMemProp){.handleType = ACL_MEM_HANDLE_TYPE_NONE,
                                .allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED,
                                .memAttr = ACL_HBM_MEM_HUGE,
                                .location = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE}};
}

static void *reserve(size_t size) {
  void *p = NULL;
  CHECK_OK(aclrtReserveMemAddress(&p, size, 0, NULL, 0));
  assert_non_null(p);
  return p;
}

static aclrtDrvMemHandle physical(size_t size) {
  aclrtDrvMemHandle handle = NULL;
  const aclrtPhysicalMemProp prop = device_memory();
  CHECK_OK(aclrtMallocPhysical(&handle, size, &prop, 0));
  assert_non_null(handle);
  return handle;
}

static size_t free_memory(void) {
  size_t free_bytes = 0, total = 0;
  CHECK_OK(aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total));
  return free_bytes;
}

static void *at(void *p, size_t offset) { return (char *)p + offset; }

static void granularity_equals_the_page_size(void **state) {
  (void)state;
  aclrtPhysicalMemProp prop = device_memory();
  size_t granularity = 0;
  CHECK_OK(aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED, &granularity));
  assert_int_equal(granularity, MIB2);
  CHECK_OK(aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &granularity));
  assert_int_equal(granularity, MIB2);
  prop.memAttr = ACL_HBM_MEM_HUGE1G;
  CHECK_OK(aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &granularity));
  assert_int_equal(granularity, 1 << 30);
  CHECK_CODE(100000, aclrtMemGetAllocationGranularity(NULL, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &granularity));
  CHECK_CODE(100000, aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, NULL));
}

static void mapped_memory_is_device_memory(void **state) {
  (void)state;
  void *p = reserve(4 * MIB2);
  aclrtDrvMemHandle a = physical(MIB2), b = physical(2 * MIB2);
  CHECK_OK(aclrtMapMem(p, MIB2, 0, a, 0));
  CHECK_OK(aclrtMapMem(at(p, MIB2), 2 * MIB2, 0, b, 0));
  CHECK_OK(aclrtMemset(p, 3 * MIB2, 0x5a, 3 * MIB2)); /* across both mappings */
  assert_dev_filled(p, 0x5a, 3 * MIB2);
  CHECK_FAILS(aclrtMemset(p, 4 * MIB2, 1, 3 * MIB2 + 1)); /* nothing is mapped after it */
  CHECK_OK(aclrtUnmapMem(p));
  CHECK_FAILS(aclrtMemset(p, 1, 1, 1));
  CHECK_OK(aclrtUnmapMem(at(p, MIB2)));
  CHECK_OK(aclrtFreePhysical(a));
  CHECK_OK(aclrtFreePhysical(b));
  CHECK_OK(aclrtReleaseMemAddress(p));
}

static void memory_is_released_with_its_last_reference(void **state) {
  (void)state;
  const size_t before = free_memory();
  void *p = reserve(2 * MIB2);
  aclrtDrvMemHandle handle = physical(MIB2), again = NULL;
  assert_true(free_memory() <= before - MIB2);
  CHECK_OK(aclrtMapMem(p, MIB2, 0, handle, 0));
  CHECK_OK(aclrtMemset(p, MIB2, 7, MIB2));
  CHECK_OK(aclrtFreePhysical(handle)); /* allowed before the memory is unmapped */
  CHECK_FAILS(aclrtFreePhysical(handle));
  assert_int_equal(dev_byte(p, MIB2 - 1), 7);
  CHECK_OK(aclrtMemRetainAllocationHandle(at(p, 12345), &again));
  CHECK_OK(aclrtUnmapMem(p));
  assert_true(free_memory() <= before - MIB2);
  CHECK_OK(aclrtMapMem(at(p, MIB2), MIB2, 0, again, 0)); /* the same memory at another address */
  assert_int_equal(dev_byte(at(p, MIB2), 0), 7);
  CHECK_OK(aclrtUnmapMem(at(p, MIB2)));
  CHECK_OK(aclrtFreePhysical(again));
  assert_int_equal(free_memory(), before);
  CHECK_OK(aclrtReleaseMemAddress(p));
}

static void memory_may_be_mapped_twice(void **state) {
  (void)state;
  void *p = reserve(2 * MIB2);
  aclrtDrvMemHandle handle = physical(MIB2);
  CHECK_OK(aclrtMapMem(p, MIB2, 0, handle, 0));
  CHECK_OK(aclrtMapMem(at(p, MIB2), MIB2, 0, handle, 0));
  CHECK_OK(aclrtMemset(p, MIB2, 0x11, MIB2));
  assert_dev_filled(at(p, MIB2), 0x11, MIB2);
  CHECK_OK(aclrtUnmapMem(at(p, MIB2)));
  CHECK_OK(aclrtUnmapMem(p));
  CHECK_OK(aclrtFreePhysical(handle));
  CHECK_OK(aclrtReleaseMemAddress(p));
}

/* While tasks are pending, unmapped memory may be kept, but no longer. */
static void memory_unmapped_under_load_is_free_afterwards(void **state) {
  (void)state;
  const size_t before = free_memory();
  void *p = reserve(MIB2);
  aclrtDrvMemHandle handle = physical(MIB2);
  aclrtStream stream = stream_new();
  CHECK_OK(aclrtMapMem(p, MIB2, 0, handle, 0));
  gate *g = gate_close(stream);
  CHECK_OK(aclrtUnmapMem(p));
  CHECK_OK(aclrtFreePhysical(handle));
  gate_open(g);
  CHECK_OK(aclrtSynchronizeStream(stream));
  assert_int_equal(free_memory(), before);
  CHECK_OK(aclrtReleaseMemAddress(p));
  CHECK_OK(aclrtDestroyStream(stream));
}

static void reservations_do_not_overlap(void **state) {
  (void)state;
  void *a = reserve(3 * MIB2), *b = reserve(1), *c = NULL;
  assert_true((char *)b >= (char *)a + 3 * MIB2 || (char *)a >= (char *)b + MIB2);
  assert_int_equal((uintptr_t)b % MIB2, 0);
  CHECK_FAILS(aclrtReserveMemAddress(&c, MIB2, 0, at(a, MIB2), 0));
  CHECK_OK(aclrtReleaseMemAddress(a));
  CHECK_OK(aclrtReserveMemAddress(&c, MIB2, 0, at(a, MIB2), 0)); /* free by now */
  assert_ptr_equal(c, at(a, MIB2));
  CHECK_OK(aclrtReleaseMemAddress(c));
  CHECK_OK(aclrtReleaseMemAddress(b));
  CHECK_FAILS(aclrtReleaseMemAddress(b));
}

static void more_can_be_reserved_than_memory_exists(void **state) {
  (void)state;
  size_t free_bytes = 0, total = 0;
  CHECK_OK(aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total));
  void *p = reserve(4 * total);
  CHECK_OK(aclrtReleaseMemAddress(p));
  CHECK_OK(aclrtReserveMemAddress(&p, free_bytes, 0, NULL, 1)); /* a flag of older releases */
  CHECK_OK(aclrtReleaseMemAddress(p));
}

static void bad_reservations_are_refused(void **state) {
  (void)state;
  void *p = NULL;
  CHECK_CODE(100000, aclrtReserveMemAddress(NULL, MIB2, 0, NULL, 0));
  CHECK_CODE(107000, aclrtReserveMemAddress(&p, 0, 0, NULL, 0));
  CHECK_FAILS(aclrtReserveMemAddress(&p, MIB2, 0, (void *)MIB2, 0)); /* outside the window of reservations */
  CHECK_FAILS(aclrtReserveMemAddress(&p, (size_t)1 << 60, 0, NULL, 0));
  CHECK_CODE(100000, aclrtReleaseMemAddress(NULL));
  CHECK_FAILS(aclrtReleaseMemAddress(&p));
}

static void mappings_must_fit(void **state) {
  (void)state;
  void *p = reserve(2 * MIB2), *block = dev_new(100);
  aclrtDrvMemHandle handle = physical(MIB2);
  CHECK_CODE(107000, aclrtMapMem(p, 2 * MIB2, 0, handle, 0));       /* differs from the memory's size */
  CHECK_CODE(107000, aclrtMapMem(p, MIB2, MIB2, handle, 0));        /* offset */
  CHECK_CODE(107000, aclrtMapMem(p, MIB2, 0, handle, 1));           /* flags */
  CHECK_CODE(107000, aclrtMapMem(at(p, 4096), MIB2, 0, handle, 0)); /* not the start of a granule */
  CHECK_CODE(107000, aclrtMapMem(block, MIB2, 0, handle, 0));       /* not a reservation */
  CHECK_CODE(107000, aclrtMapMem(p, MIB2, 0, (aclrtDrvMemHandle)&handle, 0));
  CHECK_OK(aclrtMapMem(p, MIB2, 0, handle, 0));
  CHECK_CODE(107000, aclrtMapMem(p, MIB2, 0, handle, 0)); /* mapped already */
  CHECK_FAILS(aclrtReleaseMemAddress(p));                 /* not empty */
  CHECK_FAILS(aclrtFree(p));
  CHECK_OK(aclrtUnmapMem(p));
  CHECK_CODE(107000, aclrtUnmapMem(p));
  CHECK_OK(aclrtReleaseMemAddress(p));
  CHECK_CODE(107000, aclrtMapMem(p, MIB2, 0, handle, 0));
  CHECK_OK(aclrtFreePhysical(handle));
  CHECK_OK(aclrtFree(block));
}

static void bad_memory_is_refused(void **state) {
  (void)state;
  aclrtDrvMemHandle handle = NULL;
  aclrtPhysicalMemProp prop = device_memory();
  CHECK_CODE(100000, aclrtMallocPhysical(NULL, MIB2, &prop, 0));
  CHECK_CODE(100000, aclrtMallocPhysical(&handle, MIB2, NULL, 0));
  CHECK_CODE(107000, aclrtMallocPhysical(&handle, 0, &prop, 0));
  CHECK_CODE(107000, aclrtMallocPhysical(&handle, MIB2 + 1, &prop, 0));
  CHECK_CODE(107000, aclrtMallocPhysical(&handle, MIB2, &prop, 1));
  CHECK_CODE(207001, aclrtMallocPhysical(&handle, (size_t)1 << 50, &prop, 0));
  prop.location.id = 1000;
  CHECK_FAILS(aclrtMallocPhysical(&handle, MIB2, &prop, 0));
  prop = device_memory();
  prop.handleType = (aclrtMemHandleType)99;
  CHECK_FAILS(aclrtMallocPhysical(&handle, MIB2, &prop, 0));
}

static void access_rights_hold(void **state) {
  (void)state;
  void *p = reserve(MIB2);
  aclrtDrvMemHandle handle = physical(MIB2);
  aclrtMemAccessDesc desc = {.flags = ACL_RT_MEM_ACCESS_FLAGS_READWRITE,
                             .location = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE}};
  uint64_t flags = 99;
  char byte = 1;
  CHECK_OK(aclrtMemMapNoAccess(p, MIB2, 0, handle, 0));
  CHECK_OK(aclrtMemGetAccess(p, &desc.location, &flags));
  assert_int_equal(flags, ACL_RT_MEM_ACCESS_FLAGS_NONE);
  CHECK_FAILS(aclrtMemset(p, 1, 1, 1));
  CHECK_OK(aclrtMemSetAccess(p, MIB2, &desc, 1));
  CHECK_OK(aclrtMemset(p, MIB2, 9, MIB2));
  desc.flags = ACL_RT_MEM_ACCESS_FLAGS_READ;
  CHECK_OK(aclrtMemSetAccess(p, MIB2, &desc, 1));
  CHECK_OK(aclrtMemGetAccess(at(p, 100), &desc.location, &flags));
  assert_int_equal(flags, ACL_RT_MEM_ACCESS_FLAGS_READ);
  assert_int_equal(dev_byte(p, 100), 9);
  CHECK_FAILS(aclrtMemcpy(p, 1, &byte, 1, ACL_MEMCPY_HOST_TO_DEVICE));
  CHECK_FAILS(aclrtMemSetAccess(p, MIB2 / 2, &desc, 1)); /* not a whole mapping */
  desc.flags = (aclrtMemAccessFlags)2;
  CHECK_FAILS(aclrtMemSetAccess(p, MIB2, &desc, 1));
  CHECK_OK(aclrtUnmapMem(p));
  CHECK_FAILS(aclrtMemGetAccess(p, &desc.location, &flags));
  CHECK_OK(aclrtFreePhysical(handle));
  CHECK_OK(aclrtReleaseMemAddress(p));
}

/* An operator that would write memory mapped read-only is refused at launch. */
static void operators_respect_access_rights(void **state) {
  (void)state;
  void *p = reserve(MIB2);
  aclrtDrvMemHandle handle = physical(MIB2);
  aclrtMemAccessDesc desc = {.flags = ACL_RT_MEM_ACCESS_FLAGS_READ, .location = {.type = ACL_MEM_LOCATION_TYPE_DEVICE}};
  CHECK_OK(aclrtMapMem(p, MIB2, 0, handle, 0));
  CHECK_OK(aclrtMemset(p, MIB2, 0, MIB2));
  aclTensor *x = TENSOR(p, ACL_FLOAT, 16), *y = TENSOR(at(p, 4096), ACL_FLOAT, 16);
  aclScalar *one = float_scalar(1);
  uint64_t bytes;
  for (int rights = 0; rights < 2; ++rights) {
    aclOpExecutor *executor = NULL;
    if (rights) CHECK_OK(aclrtMemSetAccess(p, MIB2, &desc, 1));
    CHECK_OK(aclnnAddGetWorkspaceSize(x, x, one, y, &bytes, &executor));
    CHECK_CODE(rights ? ILLEGAL_ARGUMENT : 0, aclnnAdd(NULL, 0, executor, NULL));
    if (rights) CHECK_OK(aclDestroyAclOpExecutor(executor));
  }
  CHECK_OK(aclrtSynchronizeDevice());
  CHECK_OK(aclDestroyTensor(x));
  CHECK_OK(aclDestroyTensor(y));
  CHECK_OK(aclDestroyScalar(one));
  CHECK_OK(aclrtUnmapMem(p));
  CHECK_OK(aclrtFreePhysical(handle));
  CHECK_OK(aclrtReleaseMemAddress(p));
}

static void properties_can_be_read_back(void **state) {
  (void)state;
  aclrtDrvMemHandle handle = physical(MIB2);
  aclrtPhysicalMemProp prop = {0};
  CHECK_OK(aclrtMemGetAllocationPropertiesFromHandle(handle, &prop));
  assert_int_equal(prop.memAttr, ACL_HBM_MEM_HUGE);
  assert_int_equal(prop.location.type, ACL_MEM_LOCATION_TYPE_DEVICE);
  CHECK_OK(aclrtFreePhysical(handle));
  CHECK_FAILS(aclrtMemGetAllocationPropertiesFromHandle(handle, &prop));
}

/* Host memory has one address for kernels, copies and the program. */
static void host_memory_has_one_address_for_all(void **state) {
  (void)state;
  aclrtPhysicalMemProp prop = device_memory();
  aclrtDrvMemHandle handle = NULL;
  unsigned char *p = reserve(MIB2);
  prop.location.type = ACL_MEM_LOCATION_TYPE_HOST;
  CHECK_OK(aclrtMallocPhysical(&handle, MIB2, &prop, 0));
  CHECK_OK(aclrtMapMem(p, MIB2, 0, handle, 0));
  p[5] = 77;
  void *d = dev_filled(0x21, 100);
  CHECK_OK(aclrtMemcpy(p + 10, 100, d, 100, ACL_MEMCPY_DEVICE_TO_HOST));
  assert_int_equal(p[5], 77);
  assert_int_equal(p[109], 0x21);
  CHECK_OK(aclrtFree(d));
  CHECK_OK(aclrtUnmapMem(p));
  CHECK_OK(aclrtFreePhysical(handle));
  CHECK_OK(aclrtReleaseMemAddress(p));
}

/* As ggml's pool does: one large reservation, at whose end memory is mapped as it grows. Memory that tasks use is
 * released only when they are done, even if it was unmapped and other memory mapped in its place before. */
static void memory_under_a_pending_task_stays(void **state) {
  (void)state;
  aclrtStream stream = stream_new();
  void *p = reserve(64 * MIB2);
  aclrtDrvMemHandle handle = physical(MIB2), other = physical(MIB2);
  for (int i = 0; i < 8; ++i) {
    CHECK_OK(aclrtMapMem(at(p, i * MIB2), MIB2, 0, handle, 0));
    gate *g = gate_close(stream);
    CHECK_OK(aclrtMemsetAsync(at(p, i * MIB2), MIB2, i, MIB2, stream));
    CHECK_OK(aclrtUnmapMem(at(p, i * MIB2)));
    if (i % 2) CHECK_OK(aclrtMapMem(at(p, i * MIB2), MIB2, 0, other, 0));
    gate_open(g);
    CHECK_OK(aclrtSynchronizeStream(stream));
    if (i % 2) CHECK_OK(aclrtUnmapMem(at(p, i * MIB2)));
    settle(NULL);
  }
  CHECK_OK(aclrtFreePhysical(handle));
  CHECK_OK(aclrtFreePhysical(other));
  CHECK_OK(aclrtReleaseMemAddress(p));
  CHECK_OK(aclrtDestroyStream(stream));
}

/* Thousands of mappings are possible. Where the system's limit is reached, a call fails with a message
 * (tests/own/sharing.c). */
static void thousands_of_mappings_are_possible(void **state) {
  (void)state;
  enum { N = 4000 };
  void *p = reserve(N * 2 * MIB2);
  aclrtDrvMemHandle handle = physical(MIB2);
  for (int i = 0; i < N; ++i) CHECK_OK(aclrtMapMem(at(p, (size_t)i * 2 * MIB2), MIB2, 0, handle, 0));
  CHECK_OK(aclrtMemset(at(p, (size_t)(N - 1) * 2 * MIB2), 4, 3, 4));
  assert_int_equal(dev_byte(p, 0), 3);
  for (int i = 0; i < N; ++i) CHECK_OK(aclrtUnmapMem(at(p, (size_t)i * 2 * MIB2)));
  CHECK_OK(aclrtFreePhysical(handle));
  CHECK_OK(aclrtReleaseMemAddress(p));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(granularity_equals_the_page_size),
      TEST(mapped_memory_is_device_memory),
      TEST(memory_is_released_with_its_last_reference),
      TEST(memory_may_be_mapped_twice),
      TEST(memory_unmapped_under_load_is_free_afterwards),
      TEST(reservations_do_not_overlap),
      TEST(more_can_be_reserved_than_memory_exists),
      TEST(bad_reservations_are_refused),
      TEST(mappings_must_fit),
      TEST(bad_memory_is_refused),
      TEST(access_rights_hold),
      TEST(operators_respect_access_rights),
      TEST(properties_can_be_read_back),
      TEST(host_memory_has_one_address_for_all),
      TEST(memory_under_a_pending_task_stays),
      TEST(thousands_of_mappings_are_possible),
  };
  return cmocka_run_group_tests(tests, device_up, device_down);
}
