/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is registered with communicators, on devices that have it (the A3 series): ranges of reserved addresses
 * with the memory that is mapped there, and symmetric windows. */
#include "acl_test.h"
#include "hccl/hccl.h"

enum { N = 1024 };

static HcclComm comms[2];
static aclrtStream stream;

static int pair_up(void **state) {
  int32_t devices[] = {0, 1};
  acl_up(state);
  CHECK_OK(HcclCommInitAll(2, devices, comms));
  CHECK_OK(aclrtSetDevice(0));
  stream = stream_new();
  return 0;
}

static int pair_down(void **state) {
  CHECK_OK(HcclCommDestroy(comms[0]));
  CHECK_OK(HcclCommDestroy(comms[1]));
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtResetDevice(0));
  return acl_down(state);
}

/* Two granules of reserved addresses, with memory in the first. */
typedef struct {
  char *base;
  size_t granule;
  aclrtDrvMemHandle memory;
} reserved;

static reserved reserved_new(void) {
  reserved r;
  aclrtPhysicalMemProp prop = {.handleType = ACL_MEM_HANDLE_TYPE_NONE,
                               .allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED,
                               .memAttr = ACL_HBM_MEM_HUGE,
                               .location = {0, ACL_MEM_LOCATION_TYPE_DEVICE}};
  CHECK_OK(aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &r.granule));
  CHECK_OK(aclrtReserveMemAddress((void **)&r.base, 2 * r.granule, 0, NULL, 1));
  CHECK_OK(aclrtMallocPhysical(&r.memory, r.granule, &prop, 0));
  CHECK_OK(aclrtMapMem(r.base, r.granule, 0, r.memory, 0));
  return r;
}

static void reserved_free(reserved *r) {
  CHECK_OK(aclrtUnmapMem(r->base));
  CHECK_OK(aclrtFreePhysical(r->memory));
  CHECK_OK(aclrtReleaseMemAddress(r->base));
}

#define PARA(call) CHECK_CODE(HCCL_E_PARA, call)
#define PTR(call)  CHECK_CODE(HCCL_E_PTR, call)

static void ranges(void **state) {
  (void)state;
  reserved r = reserved_new();
  const size_t g = r.granule;
  PTR(HcclCommSetMemoryRange(NULL, r.base, 2 * g, 0, 0));
  PTR(HcclCommSetMemoryRange(comms[0], NULL, 2 * g, 0, 0));
  PARA(HcclCommSetMemoryRange(comms[0], r.base, 0, 0, 0));
  PARA(HcclCommSetMemoryRange(comms[0], r.base, 2 * g, 1, 0)); /* alignment and flags are 0 */
  PARA(HcclCommSetMemoryRange(comms[0], r.base, 2 * g, 0, 1));
  PARA(HcclCommUnsetMemoryRange(comms[0], r.base)); /* not set yet */
  CHECK_OK(HcclCommSetMemoryRange(comms[0], r.base, 2 * g, 0, 0));
  PARA(HcclCommSetMemoryRange(comms[0], r.base, 2 * g, 0, 0)); /* twice */
  PARA(HcclCommSetMemoryRange(comms[1], r.base + g, g, 0, 0)); /* a part of it */

  PTR(HcclCommActivateCommMemory(comms[0], r.base, g, 0, NULL, 0));
  PARA(HcclCommActivateCommMemory(comms[0], r.base, g, 1, r.memory, 0));
  PARA(HcclCommActivateCommMemory(comms[0], r.base + g, g, 0, r.memory, 0)); /* nothing is mapped there */
  PARA(HcclCommDeactivateCommMemory(comms[0], r.base));
  CHECK_OK(HcclCommActivateCommMemory(comms[0], r.base, g, 0, r.memory, 0));
  PARA(HcclCommActivateCommMemory(comms[0], r.base, g, 0, r.memory, 0)); /* twice */
  CHECK_OK(HcclCommDeactivateCommMemory(comms[0], r.base));
  PARA(HcclCommDeactivateCommMemory(comms[0], r.base));
  CHECK_OK(HcclCommUnsetMemoryRange(comms[0], r.base));
  PARA(HcclCommActivateCommMemory(comms[0], r.base, g, 0, r.memory, 0)); /* in no range */
  PARA(HcclCommUnsetMemoryRange(comms[0], r.base));
  reserved_free(&r);
}

/* Operations work on activated memory as on any other. */
static void operations_on_a_range(void **state) {
  (void)state;
  reserved r = reserved_new();
  float *host = malloc(N * sizeof *host);
  for (int i = 0; i < N; ++i) host[i] = (float)i;
  CHECK_OK(HcclCommSetMemoryRange(comms[0], r.base, 2 * r.granule, 0, 0));
  CHECK_OK(HcclCommActivateCommMemory(comms[0], r.base, r.granule, 0, r.memory, 0));
  CHECK_OK(aclrtMemcpy(r.base, N * sizeof *host, host, N * sizeof *host, ACL_MEMCPY_HOST_TO_DEVICE));
  CHECK_OK(HcclAllReduce(r.base, r.base, N, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comms[0], stream));
  CHECK_OK(aclrtSetDevice(1));
  aclrtStream other = stream_new();
  void *theirs = dev_from(host, N * sizeof *host);
  CHECK_OK(HcclAllReduce(theirs, theirs, N, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comms[1], other));
  CHECK_OK(aclrtSynchronizeStream(other));
  CHECK_OK(aclrtFree(theirs));
  CHECK_OK(aclrtDestroyStream(other));
  CHECK_OK(aclrtSetDevice(0));
  CHECK_OK(aclrtSynchronizeStream(stream));
  from_dev(host, r.base, N * sizeof *host);
  for (int i = 0; i < N; ++i) assert_true(host[i] == 2 * (float)i);
  CHECK_OK(HcclCommDeactivateCommMemory(comms[0], r.base));
  CHECK_OK(HcclCommUnsetMemoryRange(comms[0], r.base));
  reserved_free(&r);
  free(host);
}

static void windows(void **state) {
  (void)state;
  reserved r = reserved_new();
  HcclCommSymWindow window = NULL, found = NULL;
  size_t offset = 99;
  PARA(HcclCommSymWinRegister(comms[0], r.base, r.granule, &window, 0)); /* flag is 1 */
  PARA(HcclCommSymWinRegister(comms[0], r.base, 0, &window, 1));
  PTR(HcclCommSymWinRegister(comms[0], NULL, r.granule, &window, 1));
  PTR(HcclCommSymWinRegister(comms[0], r.base, r.granule, NULL, 1));
  CHECK_FAILS(HcclCommSymWinGet(comms[0], r.base, 1, &found, &offset));
  CHECK_OK(HcclCommSymWinRegister(comms[0], r.base, r.granule, &window, 1));
  assert_non_null(window);
  CHECK_OK(HcclCommSymWinGet(comms[0], r.base + 4096, 100, &found, &offset));
  assert_ptr_equal(found, window);
  assert_int_equal(offset, 4096);
  CHECK_FAILS(HcclCommSymWinGet(comms[0], r.base + 4096, r.granule, &found, &offset)); /* ends behind it */
  CHECK_OK(HcclCommSymWinDeregister(window));
  CHECK_FAILS(HcclCommSymWinDeregister(window));
  PTR(HcclCommSymWinDeregister(NULL));
  CHECK_FAILS(HcclCommSymWinGet(comms[0], r.base, 1, &found, &offset));
  reserved_free(&r);
}

static void network_interfaces(void **state) {
  (void)state;
  uint32_t ranks[] = {0, 1};
  bool backup[] = {true, true};
  CHECK_OK(HcclCommWorkingDevNicSet(comms[0], ranks, backup, 2)); /* a success that switches nothing */
  CHECK_FAILS(HcclCommWorkingDevNicSet(NULL, ranks, backup, 2));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(ranges),
      TEST(operations_on_a_range),
      TEST(windows),
      TEST(network_interfaces),
  };
  return cmocka_run_group_tests_name("hccl_memory", tests, pair_up, pair_down);
}
