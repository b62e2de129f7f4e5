/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of HCCL's operations: what each wrong one gives, and that a count of 0 is a success whatever the others
 * are. The two ranks are this process's; no operation is executed. */
#include "acl_test.h"
#include "hccl/hccl.h"

enum { N = 16, BYTES = 4 * N * sizeof(double) };

#define COUNT_LIMIT UINT64_C(0x7FFFFFFFF)
#define F32         HCCL_DATA_TYPE_FP32
#define SUM         HCCL_REDUCE_SUM

static HcclComm comms[2];
static aclrtStream stream;
static char *a, *b; /* device buffers */
static const uint64_t ones[] = {1, 1}, offsets[] = {0, 1};

static int pair_up(void **state) {
  int32_t devices[] = {0, 1};
  acl_up(state);
  CHECK_OK(HcclCommInitAll(2, devices, comms));
  CHECK_OK(aclrtSetDevice(0));
  stream = stream_new();
  a = dev_new(BYTES);
  b = dev_new(BYTES);
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

#define PTR(call)         CHECK_CODE(HCCL_E_PTR, call)
#define PARA(call)        CHECK_CODE(HCCL_E_PARA, call)
#define NOT_SUPPORT(call) CHECK_CODE(HCCL_E_NOT_SUPPORT, call)

static void a_count_of_zero_is_a_success(void **state) {
  (void)state;
  const HcclDataType no_type = (HcclDataType)77;
  const HcclReduceOp no_op = (HcclReduceOp)77;
  CHECK_OK(HcclAllReduce(NULL, NULL, 0, no_type, no_op, NULL, NULL));
  CHECK_OK(HcclReduce(NULL, NULL, 0, no_type, no_op, 99, NULL, NULL));
  CHECK_OK(HcclReduceScatter(NULL, NULL, 0, no_type, no_op, NULL, NULL));
  CHECK_OK(HcclAllGather(NULL, NULL, 0, no_type, NULL, NULL));
  CHECK_OK(HcclBroadcast(NULL, 0, no_type, 99, NULL, NULL));
  CHECK_OK(HcclScatter(NULL, NULL, 0, no_type, 99, NULL, NULL));
  CHECK_OK(HcclAlltoAll(NULL, 0, no_type, NULL, 0, no_type, NULL, NULL));
  CHECK_OK(HcclSend(NULL, 0, no_type, 99, NULL, NULL));
  CHECK_OK(HcclRecv(NULL, 0, no_type, 99, NULL, NULL));
  CHECK_OK(HcclBatchSendRecv(NULL, 0, NULL, NULL));
}

static void null_pointers(void **state) {
  (void)state;
  HcclSendRecvItem item = {HCCL_SEND, NULL, N, F32, 1};
  PTR(HcclAllReduce(NULL, b, N, F32, SUM, comms[0], stream));
  PTR(HcclAllReduce(a, NULL, N, F32, SUM, comms[0], stream));
  PTR(HcclAllReduce(a, b, N, F32, SUM, NULL, stream));
  PTR(HcclReduce(NULL, b, N, F32, SUM, 0, comms[0], stream));
  PTR(HcclReduceScatter(a, NULL, N, F32, SUM, comms[0], stream));
  PTR(HcclAllGather(NULL, b, N, F32, comms[0], stream));
  PTR(HcclBroadcast(NULL, N, F32, 0, comms[0], stream));
  PTR(HcclScatter(NULL, b, N, F32, 0, comms[0], stream)); /* at the root */
  PTR(HcclScatter(a, NULL, N, F32, 1, comms[0], stream));
  PTR(HcclAlltoAll(NULL, N, F32, b, N, F32, comms[0], stream));
  PTR(HcclSend(NULL, N, F32, 1, comms[0], stream));
  PTR(HcclRecv(NULL, N, F32, 1, comms[0], stream));
  PTR(HcclBatchSendRecv(NULL, 1, comms[0], stream));
  PTR(HcclBatchSendRecv(&item, 1, comms[0], stream));
  PTR(HcclBarrier(NULL, stream));
}

static void null_arrays(void **state) {
  (void)state;
  PTR(HcclReduceScatterV(a, NULL, offsets, b, 1, F32, SUM, comms[0], stream));
  PTR(HcclReduceScatterV(a, ones, NULL, b, 1, F32, SUM, comms[0], stream));
  PTR(HcclAllGatherV(a, 1, b, NULL, offsets, F32, comms[0], stream));
  PTR(HcclAllGatherV(a, 1, b, ones, NULL, F32, comms[0], stream));
  PTR(HcclAlltoAllV(a, NULL, offsets, F32, b, ones, offsets, F32, comms[0], stream));
  PTR(HcclAlltoAllV(a, ones, NULL, F32, b, ones, offsets, F32, comms[0], stream));
  PTR(HcclAlltoAllV(a, ones, offsets, F32, b, NULL, offsets, F32, comms[0], stream));
  PTR(HcclAlltoAllV(a, ones, offsets, F32, b, ones, NULL, F32, comms[0], stream));
  PTR(HcclAlltoAllV(NULL, ones, offsets, F32, b, ones, offsets, F32, comms[0], stream));
  PTR(HcclAlltoAllVC(a, NULL, F32, b, F32, comms[0], stream));
}

/* Here NULL is not the default stream. */
static void null_streams(void **state) {
  (void)state;
  PTR(HcclAllReduce(a, b, N, F32, SUM, comms[0], NULL));
  PTR(HcclBroadcast(a, N, F32, 0, comms[0], NULL));
  PTR(HcclSend(a, N, F32, 1, comms[0], NULL));
  PTR(HcclBarrier(comms[0], NULL));
}

static void ranks_out_of_range(void **state) {
  (void)state;
  HcclSendRecvItem item = {HCCL_SEND, a, N, F32, 2};
  PARA(HcclReduce(a, b, N, F32, SUM, 2, comms[0], stream));
  PARA(HcclBroadcast(a, N, F32, 2, comms[0], stream));
  PARA(HcclScatter(a, b, N, F32, UINT32_MAX, comms[0], stream));
  PARA(HcclSend(a, N, F32, 2, comms[0], stream));
  PARA(HcclRecv(a, N, F32, 2, comms[0], stream));
  PARA(HcclBatchSendRecv(&item, 1, comms[0], stream));
  PARA(HcclSend(a, N, F32, 0, comms[0], stream)); /* the own rank */
  PARA(HcclRecv(a, N, F32, 0, comms[0], stream));
}

static void counts_above_the_limit(void **state) {
  (void)state;
  const uint64_t above = COUNT_LIMIT + 1, some_above[] = {1, COUNT_LIMIT + 1};
  PARA(HcclAllReduce(a, b, above, F32, SUM, comms[0], stream));
  PARA(HcclAllGather(a, b, UINT64_MAX, F32, comms[0], stream));
  PARA(HcclSend(a, above, F32, 1, comms[0], stream));
  PARA(HcclAlltoAllV(a, some_above, offsets, F32, b, ones, offsets, F32, comms[0], stream));
}

static void all_to_all_of_different_or_equal_things(void **state) {
  (void)state;
  const uint64_t matrix[] = {1, 1, 1, 1};
  PARA(HcclAlltoAll(a, N, F32, b, N - 1, F32, comms[0], stream));
  PARA(HcclAlltoAll(a, N, F32, b, N, HCCL_DATA_TYPE_INT32, comms[0], stream));
  PARA(HcclAlltoAll(a, N, F32, a, N, F32, comms[0], stream));
  PARA(HcclAlltoAllV(a, ones, offsets, F32, a, ones, offsets, F32, comms[0], stream));
  PARA(HcclAlltoAllVC(a, matrix, F32, a, F32, comms[0], stream));
}

static void types_and_reductions(void **state) {
  (void)state;
  const HcclDataType refused[] = {HCCL_DATA_TYPE_UINT8,  HCCL_DATA_TYPE_UINT16,   HCCL_DATA_TYPE_UINT32,
                                  HCCL_DATA_TYPE_INT128, HCCL_DATA_TYPE_RESERVED, (HcclDataType)99};
  HcclSendRecvItem item = {HCCL_SEND, a, N, HCCL_DATA_TYPE_INT128, 1};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; ++i) {
    NOT_SUPPORT(HcclAllReduce(a, b, 1, refused[i], SUM, comms[0], stream));
    NOT_SUPPORT(HcclReduce(a, b, 1, refused[i], SUM, 0, comms[0], stream));
    NOT_SUPPORT(HcclReduceScatter(a, b, 1, refused[i], SUM, comms[0], stream));
    if (refused[i] > HCCL_DATA_TYPE_BFP16) NOT_SUPPORT(HcclAllGather(a, b, 1, refused[i], comms[0], stream));
    if (refused[i] > HCCL_DATA_TYPE_BFP16) NOT_SUPPORT(HcclBroadcast(a, 1, refused[i], 0, comms[0], stream));
  }
  NOT_SUPPORT(HcclBatchSendRecv(&item, 1, comms[0], stream));
  NOT_SUPPORT(HcclAllReduce(a, b, 1, F32, HCCL_REDUCE_RESERVED, comms[0], stream));
  NOT_SUPPORT(HcclAllReduce(a, b, 1, F32, (HcclReduceOp)4, comms[0], stream));
  NOT_SUPPORT(HcclAllReduce(a, b, 1, HCCL_DATA_TYPE_INT16, HCCL_REDUCE_PROD, comms[0], stream));
  NOT_SUPPORT(HcclAllReduce(a, b, 1, HCCL_DATA_TYPE_BFP16, HCCL_REDUCE_PROD, comms[0], stream));
}

static void queries(void **state) {
  (void)state;
  char name[COMM_NAME_MAX_LENGTH];
  uint32_t number;
  HcclResult error = HCCL_E_INTERNAL;
  HcclComm found;
  for (uint32_t i = 0; i < 2; ++i) {
    CHECK_OK(HcclGetRankSize(comms[i], &number));
    assert_int_equal(number, 2);
    CHECK_OK(HcclGetRankId(comms[i], &number));
    assert_int_equal(number, i);
    CHECK_OK(HcclGetCommAsyncError(comms[i], &error));
    assert_int_equal(error, HCCL_SUCCESS);
  }
  memset(name, 'x', sizeof name);
  CHECK_OK(HcclGetCommName(comms[0], name));
  assert_true(name[0] && memchr(name, 0, sizeof name));
  CHECK_OK(HcclCommGetHandleWithName(name, &found));
  assert_ptr_equal(found, comms[0]);
  CHECK_FAILS(HcclCommGetHandleWithName("no such communicator", &found));
  PTR(HcclGetRankSize(comms[0], NULL));
  PTR(HcclGetRankSize(NULL, &number));
  PTR(HcclGetRankId(comms[0], NULL));
  PTR(HcclGetCommName(comms[0], NULL));
  PTR(HcclGetCommAsyncError(comms[0], NULL));
  PTR(HcclCommDestroy(NULL));
}

static void the_words_of_a_refused_call(void **state) {
  (void)state;
  aclGetRecentErrMsg();
  PARA(HcclBroadcast(a, N, F32, 7, comms[0], stream));
  const char *words = aclGetRecentErrMsg();
  assert_non_null(words);
  assert_non_null(strstr(words, "EI0003"));
}

static void error_strings(void **state) {
  (void)state;
  for (int code = HCCL_SUCCESS; code <= HCCL_E_OOM; ++code) {
    assert_non_null(HcclGetErrorString((HcclResult)code));
    assert_true(strlen(HcclGetErrorString((HcclResult)code)) > 0);
  }
  assert_string_not_equal(HcclGetErrorString(HCCL_E_PARA), HcclGetErrorString(HCCL_E_PTR));
  assert_non_null(HcclGetErrorString(HCCL_E_IN_STATUS));
  assert_non_null(HcclGetErrorString((HcclResult)-5));
}

static void determinism(void **state) {
  (void)state;
  HcclConfigValue value = {0}, before;
  CHECK_OK(HcclGetConfig(HCCL_DETERMINISTIC, &before));
  for (value.value = 0; value.value <= 2; ++value.value) {
    HcclConfigValue got = {9};
    CHECK_OK(HcclSetConfig(HCCL_DETERMINISTIC, value));
    CHECK_OK(HcclGetConfig(HCCL_DETERMINISTIC, &got));
    assert_int_equal(got.value, value.value);
  }
  PARA(HcclSetConfig(HCCL_DETERMINISTIC, value)); /* 3 */
  PARA(HcclSetConfig(HCCL_CONFIG_RESERVED, before));
  PTR(HcclGetConfig(HCCL_DETERMINISTIC, NULL));
  CHECK_OK(HcclSetConfig(HCCL_DETERMINISTIC, before));
}

static void groups(void **state) {
  (void)state;
  bool open = true;
  CHECK_OK(HcclGroupStatusGet(&open));
  assert_false(open);
  CHECK_FAILS(HcclGroupEnd()); /* of no group */
  CHECK_OK(HcclGroupStart());
  CHECK_OK(HcclGroupStatusGet(&open));
  assert_true(open);
  CHECK_OK(HcclGroupEnd()); /* an empty one */
  CHECK_OK(HcclGroupStart());
  CHECK_FAILS(HcclBroadcast(a, N, F32, 2, comms[0], stream));
  CHECK_FAILS(HcclGroupEnd());
  CHECK_OK(HcclGroupStatusGet(&open));
  assert_false(open);
  CHECK_OK(aclrtSynchronizeStream(stream)); /* nothing was queued */
  CHECK_OK(HcclGroupStart());
  CHECK_OK(HcclSend(a, N, F32, 1, comms[0], stream));
  CHECK_FAILS(HcclAllReduce(a, b, N, F32, SUM, comms[0], stream)); /* of another kind */
  CHECK_FAILS(HcclGroupEnd());
  CHECK_OK(aclrtSynchronizeStream(stream));
}

static void counts_that_contradict_each_other(void **state) {
  (void)state;
  const uint64_t twos[] = {2, 2};
  PARA(HcclReduceScatterV(a, ones, offsets, b, 2, F32, SUM, comms[0], stream));
  PARA(HcclAllGatherV(a, 2, b, ones, offsets, F32, comms[0], stream));
  PARA(HcclAlltoAllV(a, ones, offsets, F32, b, twos, offsets, F32, comms[0], stream));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(a_count_of_zero_is_a_success),
      TEST(null_pointers),
      TEST(null_arrays),
      TEST(null_streams),
      TEST(ranks_out_of_range),
      TEST(counts_above_the_limit),
      TEST(all_to_all_of_different_or_equal_things),
      TEST(types_and_reductions),
      TEST(queries),
      TEST(the_words_of_a_refused_call),
      TEST(error_strings),
      TEST(determinism),
      TEST(groups),
      TEST(counts_that_contradict_each_other),
  };
  return cmocka_run_group_tests_name("hccl_arguments", tests, pair_up, pair_down);
}
