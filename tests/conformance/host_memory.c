/* SPDX-License-Identifier: Apache-2.0 */
/* Registered host memory, allocations with attributes, and queries about addresses. */
#include "acl_ops.h"
#include "acl_test.h"

#include "aclnnop/aclnn_add.h"

enum { PAGE = 4096, ALREADY_REGISTERED = 507910, NOT_REGISTERED = 507911 };

static void *page_new(size_t size) {
  void *p = aligned_alloc(PAGE, size);
  assert_non_null(p);
  memset(p, 0, size);
  return p;
}

static void registered_memory_is_known_until_unregistered(void **state) {
  (void)state;
  char *p = page_new(4 * PAGE);
  void *d = NULL;
  CHECK_OK(aclrtHostRegister(p, 2 * PAGE, ACL_HOST_REGISTER_MAPPED, &d));
  assert_non_null(d);
  CHECK_CODE(ALREADY_REGISTERED, aclrtHostRegister(p, 2 * PAGE, ACL_HOST_REGISTER_MAPPED, &d));
  CHECK_CODE(ALREADY_REGISTERED, aclrtHostRegisterV2(p + PAGE, 2 * PAGE, ACL_HOST_REG_MAPPED)); /* overlaps */
  CHECK_OK(aclrtHostRegisterV2(p + 2 * PAGE, PAGE, ACL_HOST_REG_MAPPED | ACL_HOST_REG_PINNED));
  CHECK_CODE(NOT_REGISTERED, aclrtHostUnregister(p + PAGE));
  CHECK_OK(aclrtHostUnregister(p));
  CHECK_CODE(NOT_REGISTERED, aclrtHostUnregister(p));
  CHECK_OK(aclrtHostUnregister(p + 2 * PAGE));
  free(p);
}

static void kernels_reach_registered_memory(void **state) {
  (void)state;
  float *p = page_new(PAGE), *d = NULL;
  for (int i = 0; i < 16; ++i) p[i] = (float)i;
  CHECK_OK(aclrtHostRegisterV2(p, PAGE, ACL_HOST_REG_MAPPED));
  CHECK_OK(aclrtHostGetDevicePointer(p, (void **)&d, 0));
  aclTensor *x = TENSOR(d, ACL_FLOAT, 16), *y = TENSOR(d + 16, ACL_FLOAT, 16);
  aclScalar *one = float_scalar(1);
  uint64_t bytes;
  aclOpExecutor *executor;
  CHECK_OK(aclnnAddGetWorkspaceSize(x, x, one, y, &bytes, &executor));
  CHECK_OK(aclnnAdd(NULL, 0, executor, NULL));
  CHECK_OK(aclrtSynchronizeDevice());
  for (int i = 0; i < 16; ++i) assert_true(p[16 + i] == 2 * (float)i);
  CHECK_OK(aclrtHostUnregister(p));
  CHECK_OK(aclnnAddGetWorkspaceSize(x, x, one, y, &bytes, &executor));
  CHECK_FAILS(aclnnAdd(NULL, 0, executor, NULL)); /* not registered any more */
  CHECK_OK(aclDestroyAclOpExecutor(executor));
  CHECK_FAILS(aclrtHostGetDevicePointer(p, (void **)&d, 0));
  CHECK_OK(aclDestroyTensor(x));
  CHECK_OK(aclDestroyTensor(y));
  CHECK_OK(aclDestroyScalar(one));
  free(p);
}

/* A copy from memory registered as pinned returns without waiting for earlier tasks of its stream. */
static void registration_can_pin_memory(void **state) {
  (void)state;
  char *p = page_new(PAGE);
  void *d = dev_filled(0, PAGE);
  aclrtStream stream = stream_new();
  CHECK_OK(aclrtHostRegisterV2(p, PAGE, ACL_HOST_REG_PINNED));
  gate *g = gate_close(stream);
  memset(p, 1, PAGE);
  /* returns although the stream is blocked */
  CHECK_OK(aclrtMemcpyAsync(d, PAGE, p, PAGE, ACL_MEMCPY_HOST_TO_DEVICE, stream));
  memset(p, 2, PAGE);
  gate_open(g);
  CHECK_OK(aclrtSynchronizeStream(stream));
  assert_dev_filled(d, 2, PAGE); /* it was read when the task ran */
  CHECK_OK(aclrtHostUnregister(p));
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtFree(d));
  free(p);
}

typedef struct {
  aclrtContext context;
  aclrtStream stream;
  void *device, *host;
  size_t bytes;
  aclError code;
  atomic_int returned;
} upload;

static void *upload_run(void *arg) {
  upload *u = arg;
  u->code = aclrtSetCurrentContext(u->context);
  if (u->code == 0)
    u->code = aclrtMemcpyAsync(u->device, u->bytes, u->host, u->bytes, ACL_MEMCPY_HOST_TO_DEVICE, u->stream);
  atomic_store(&u->returned, 1);
  return NULL;
}

/* Whether an asynchronous copy to the device waits in the call for earlier tasks of its stream. */
static bool upload_waits(void *host, size_t bytes) {
  static upload u; /* static, because a failed test leaves its stack frame while the thread still runs */
  u = (upload){.stream = stream_new(), .device = dev_filled(0, bytes), .host = host, .bytes = bytes};
  CHECK_OK(aclrtGetCurrentContext(&u.context));
  memset(host, 1, bytes);
  gate *g = gate_close(u.stream);
  pthread_t thread = thread_start(upload_run, &u);
  nap_ms(20);
  const bool waits = !atomic_load(&u.returned);
  gate_open(g);
  pthread_join(thread, NULL);
  CHECK_OK(u.code);
  CHECK_OK(aclrtSynchronizeStream(u.stream));
  assert_dev_filled(u.device, 1, bytes);
  CHECK_OK(aclrtFree(u.device));
  CHECK_OK(aclrtDestroyStream(u.stream));
  return waits;
}

/* Registering as mapped does not pin memory; pinning ends with the registration; a range that is only partly pinned
 * counts as pageable. */
static void only_wholly_pinned_ranges_count_as_pinned(void **state) {
  (void)state;
  char *p = page_new(3 * PAGE);
  assert_true(upload_waits(p, PAGE));
  CHECK_OK(aclrtHostRegisterV2(p, PAGE, ACL_HOST_REG_MAPPED));
  assert_true(upload_waits(p, PAGE));
  CHECK_OK(aclrtHostUnregister(p));
  CHECK_OK(aclrtHostRegisterV2(p, PAGE, ACL_HOST_REG_PINNED));
  CHECK_OK(aclrtHostRegisterV2(p + PAGE, PAGE, ACL_HOST_REG_PINNED | ACL_HOST_REG_MAPPED));
  assert_false(upload_waits(p + 100, PAGE)); /* spans both registrations */
  assert_true(upload_waits(p, 3 * PAGE));    /* the last page is not pinned */
  CHECK_OK(aclrtHostUnregister(p));
  CHECK_OK(aclrtHostUnregister(p + PAGE));
  assert_true(upload_waits(p, PAGE));
  char *pinned = pinned_new(PAGE);
  assert_false(upload_waits(pinned, PAGE));
  CHECK_OK(aclrtFreeHost(pinned));
  free(p);
}

static void invalid_registrations_are_refused(void **state) {
  (void)state;
  char *p = page_new(PAGE), *pinned = pinned_new(PAGE), *dev = dev_new(PAGE);
  void *d = NULL;
  CHECK_CODE(100000, aclrtHostRegister(NULL, PAGE, ACL_HOST_REGISTER_MAPPED, &d));
  CHECK_CODE(100000, aclrtHostRegister(p, PAGE, ACL_HOST_REGISTER_MAPPED, NULL));
  CHECK_FAILS(aclrtHostRegister(p, 0, ACL_HOST_REGISTER_MAPPED, &d));
  CHECK_FAILS(aclrtHostRegister(p, PAGE, (aclrtHostRegisterType)9, &d));
  CHECK_FAILS(aclrtHostRegister(dev, PAGE, ACL_HOST_REGISTER_MAPPED, &d));
  CHECK_FAILS(aclrtHostRegister((void *)PAGE, PAGE, ACL_HOST_REGISTER_MAPPED, &d)); /* nothing is mapped there */
  CHECK_FAILS(aclrtHostRegisterV2(p, PAGE, 0));
  CHECK_CODE(207000, aclrtHostRegisterV2(p, PAGE, ACL_HOST_REG_READONLY));
  CHECK_FAILS(aclrtHostRegisterV2(pinned, PAGE, ACL_HOST_REG_PINNED)); /* pinned already */
  CHECK_OK(aclrtHostRegisterV2(pinned, PAGE, ACL_HOST_REG_MAPPED));    /* the ordinary use */
  CHECK_OK(aclrtHostGetDevicePointer(pinned, &d, 0));
  CHECK_FAILS(aclrtHostGetDevicePointer(pinned, &d, 1));
  CHECK_OK(aclrtHostUnregister(pinned));
  CHECK_OK(aclrtFreeHost(pinned));
  CHECK_OK(aclrtFree(dev));
  free(p);
}

static void addresses_have_attributes(void **state) {
  (void)state;
  char *small = dev_new(100), *large = dev_new(5 << 20), *pinned = pinned_new(100), here = 0;
  aclrtPtrAttributes a;
  CHECK_OK(aclrtPointerGetAttributes(small + 50, &a));
  assert_int_equal(a.location.type, ACL_MEM_LOCATION_TYPE_DEVICE);
  assert_int_equal(a.location.id, 0);
  assert_int_equal(a.pageSize, 4096);
  CHECK_OK(aclrtPointerGetAttributes(large, &a));
  assert_int_equal(a.pageSize, 2 << 20);
  void *p = NULL;
  CHECK_OK(aclrtMalloc(&p, 5 << 20, ACL_MEM_MALLOC_NORMAL_ONLY));
  CHECK_OK(aclrtPointerGetAttributes(p, &a));
  assert_int_equal(a.pageSize, 4096);
  CHECK_OK(aclrtFree(p));
  CHECK_OK(aclrtMalloc(&p, 100, ACL_MEM_MALLOC_HUGE_ONLY));
  CHECK_OK(aclrtPointerGetAttributes(p, &a));
  assert_int_equal(a.pageSize, 2 << 20);
  CHECK_OK(aclrtFree(p));
  CHECK_OK(aclrtPointerGetAttributes(pinned, &a));
  assert_int_equal(a.location.type, ACL_MEM_LOCATION_TYPE_HOST);
  CHECK_OK(aclrtPointerGetAttributes(&here, &a));
  assert_int_equal(a.location.type, ACL_MEM_LOCATION_TYPE_UNREGISTERED);
  CHECK_CODE(100000, aclrtPointerGetAttributes(NULL, &a));
  CHECK_CODE(100000, aclrtPointerGetAttributes(small, NULL));
  CHECK_OK(aclrtFree(small));
  CHECK_OK(aclrtPointerGetAttributes(small, &a));
  assert_int_equal(a.location.type, ACL_MEM_LOCATION_TYPE_UNREGISTERED);
  CHECK_OK(aclrtFree(large));
  CHECK_OK(aclrtFreeHost(pinned));
}

static void addresses_belong_to_ranges(void **state) {
  (void)state;
  char *block = dev_new(1000);
  void *base = NULL;
  size_t size = 0;
  CHECK_OK(aclrtMemGetAddressRange(block + 999, &base, &size));
  assert_ptr_equal(base, block);
  assert_int_equal(size, 1000);
  CHECK_OK(aclrtMemGetAddressRange(block, NULL, &size));
  CHECK_OK(aclrtMemGetAddressRange(block, &base, NULL));
  CHECK_FAILS(aclrtMemGetAddressRange(block, NULL, NULL));
  CHECK_FAILS(aclrtMemGetAddressRange(&size, &base, &size));
  CHECK_CODE(100000, aclrtMemGetAddressRange(NULL, &base, &size));
  CHECK_OK(aclrtFree(block));
}

static void allocations_accept_attributes(void **state) {
  (void)state;
  void *p = NULL;
  aclrtMallocAttribute attributes[] = {{.attr = ACL_RT_MEM_ATTR_MODULE_ID, .value.moduleId = 33},
                                       {.attr = ACL_RT_MEM_ATTR_DEVICE_ID, .value.deviceId = 0}};
  aclrtMallocConfig config = {.attrs = attributes, .numAttrs = 2};
  CHECK_OK(aclrtMallocWithCfg(&p, 100, ACL_MEM_MALLOC_HUGE_FIRST, NULL));
  CHECK_OK(aclrtFree(p));
  CHECK_OK(aclrtMallocWithCfg(&p, 100, ACL_MEM_MALLOC_HUGE_FIRST | ACL_MEM_TYPE_HIGH_BAND_WIDTH, &config));
  CHECK_OK(aclrtMemset(p, 100, 1, 100));
  CHECK_OK(aclrtFree(p));
  attributes[1].value.deviceId = 7;
  CHECK_FAILS(aclrtMallocWithCfg(&p, 100, ACL_MEM_MALLOC_HUGE_FIRST, &config));
  attributes[1] = (aclrtMallocAttribute){.attr = ACL_RT_MEM_ATTR_VA_FLAG, .value.vaFlag = 1};
  CHECK_OK(aclrtMallocHostWithCfg(&p, 100, &config));
  memset(p, 1, 100);
  CHECK_OK(aclrtFreeHost(p));
  CHECK_OK(aclrtMallocHostWithCfg(&p, 100, NULL));
  CHECK_OK(aclrtFreeHost(p));
  CHECK_CODE(100000, aclrtMallocHostWithCfg(NULL, 100, NULL));
  config.attrs = NULL;
  CHECK_CODE(100000, aclrtMallocHostWithCfg(&p, 100, &config));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(registered_memory_is_known_until_unregistered),
      TEST(kernels_reach_registered_memory),
      TEST(registration_can_pin_memory),
      TEST(only_wholly_pinned_ranges_count_as_pinned),
      TEST(invalid_registrations_are_refused),
      TEST(addresses_have_attributes),
      TEST(addresses_belong_to_ranges),
      TEST(allocations_accept_attributes),
  };
  return cmocka_run_group_tests(tests, device_up, device_down);
}
