/* SPDX-License-Identifier: Apache-2.0 */
/* Which operations and types the products have: 310P lacks those with a root and transfers, 910A those with a count for
 * each rank; only the 950 series has 8-bit floats. The test is run on each of them. */
#include "acl_test.h"
#include "hccl/hccl.h"

#define F32 HCCL_DATA_TYPE_FP32
#define SUM HCCL_REDUCE_SUM

static HcclComm comms[2];
static aclrtStream stream;
static char *a, *b;
static const uint64_t ones[] = {1, 1}, offsets[] = {0, 1}, matrix[] = {1, 1, 1, 1};

static bool is_product(const char *prefix) { return !strncmp(aclrtGetSocName(), prefix, strlen(prefix)); }
static bool is_310p(void) { return is_product("Ascend310P"); }
static bool is_910a(void) { return is_product("Ascend910") && !is_product("Ascend910B") && !is_product("Ascend910_"); }

static int pair_up(void **state) {
  int32_t devices[] = {0, 1};
  acl_up(state);
  CHECK_OK(HcclCommInitAll(2, devices, comms));
  CHECK_OK(aclrtSetDevice(0));
  stream = stream_new();
  a = dev_new(64);
  b = dev_new(64);
  return 0;
}

static int pair_down(void **state) {
  CHECK_OK(HcclCommDestroy(comms[0]));
  CHECK_OK(HcclCommDestroy(comms[1]));
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtFree(a));
  CHECK_OK(aclrtFree(b));
  CHECK_OK(aclrtResetDevice(0));
  return acl_down(state);
}

/* A call whose rank or type is wrong: a product that has the operation finds that, one that lacks it says so. */
static void check_there(bool there, HcclResult wrong, HcclResult got, const char *call, int line) {
  check_code((aclError)got, (aclError)(there ? wrong : HCCL_E_NOT_SUPPORT), call, __FILE__, line);
}
#define THERE(there, wrong, call) check_there(there, wrong, call, #call, __LINE__)

static void operations_with_a_root_and_transfers(void **state) {
  (void)state;
  HcclSendRecvItem item = {HCCL_SEND, a, 1, F32, 9};
  THERE(!is_310p(), HCCL_E_PARA, HcclBroadcast(a, 1, F32, 9, comms[0], stream));
  THERE(!is_310p(), HCCL_E_PARA, HcclReduce(a, b, 1, F32, SUM, 9, comms[0], stream));
  THERE(!is_310p(), HCCL_E_PARA, HcclScatter(a, b, 1, F32, 9, comms[0], stream));
  THERE(!is_310p(), HCCL_E_PARA, HcclSend(a, 1, F32, 9, comms[0], stream));
  THERE(!is_310p(), HCCL_E_PARA, HcclRecv(a, 1, F32, 9, comms[0], stream));
  THERE(!is_310p(), HCCL_E_PARA, HcclBatchSendRecv(&item, 1, comms[0], stream));
}

static void operations_with_a_count_for_each_rank(void **state) {
  (void)state;
  THERE(!is_910a(), HCCL_E_PTR, HcclAllGatherV(NULL, 1, b, ones, offsets, F32, comms[0], stream));
  THERE(!is_910a(), HCCL_E_PTR, HcclReduceScatterV(NULL, ones, offsets, b, 1, F32, SUM, comms[0], stream));
  THERE(!is_910a() && !is_310p(), HCCL_E_PTR, HcclAlltoAllVC(NULL, matrix, F32, b, F32, comms[0], stream));
  CHECK_CODE(HCCL_E_PTR, HcclAlltoAllV(NULL, ones, offsets, F32, b, ones, offsets, F32, comms[0], stream));
}

static void operations_of_all_products(void **state) {
  (void)state;
  CHECK_CODE(HCCL_E_PTR, HcclAllReduce(NULL, b, 1, F32, SUM, comms[0], stream));
  CHECK_CODE(HCCL_E_PTR, HcclReduceScatter(NULL, b, 1, F32, SUM, comms[0], stream));
  CHECK_CODE(HCCL_E_PTR, HcclAllGather(NULL, b, 1, F32, comms[0], stream));
  CHECK_CODE(HCCL_E_PTR, HcclAlltoAll(NULL, 1, F32, b, 1, F32, comms[0], stream));
}

static void types_of_the_950_series(void **state) {
  (void)state;
  if (is_product("Ascend950")) skip();
  for (HcclDataType type = HCCL_DATA_TYPE_HIF8; type <= HCCL_DATA_TYPE_FP8E8M0; ++type)
    CHECK_CODE(HCCL_E_NOT_SUPPORT, HcclAllGather(a, b, 1, type, comms[0], stream));
  CHECK_CODE(HCCL_E_NOT_SUPPORT, HcclAllReduce(a, b, 1, HCCL_DATA_TYPE_FP64, SUM, comms[0], stream));
  CHECK_CODE(HCCL_E_NOT_SUPPORT, HcclAllReduce(a, b, 1, HCCL_DATA_TYPE_UINT64, SUM, comms[0], stream));
  if (is_910a()) return;
  CHECK_CODE(HCCL_E_NOT_SUPPORT, HcclReduceScatterV(a, ones, offsets, b, 1, F32, HCCL_REDUCE_PROD, comms[0], stream));
}

static void ranges_of_memory(void **state) {
  (void)state;
  if (is_product("Ascend910_93")) skip(); /* hccl_memory.c */
  CHECK_CODE(HCCL_E_NOT_SUPPORT, HcclCommSetMemoryRange(comms[0], a, 64, 0, 0));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(operations_with_a_root_and_transfers),
      TEST(operations_with_a_count_for_each_rank),
      TEST(operations_of_all_products),
      TEST(types_of_the_950_series),
      TEST(ranges_of_memory),
  };
  return cmocka_run_group_tests_name("hccl_products", tests, pair_up, pair_down);
}
