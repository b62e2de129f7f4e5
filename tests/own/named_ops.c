/* SPDX-License-Identifier: Apache-2.0 */
/* Operators called by name, as far as Cannon's behaviour goes beyond CANN's documentation. */
#include "acl_test.h"

#include <unistd.h>

#include "acl/acl_op_compiler.h"
#include "cannon/model.h"

enum { NOT_FOUND = 100024 };

typedef struct {
  aclTensorDesc *desc[2];
  aclDataBuffer *buffer[2];
  void *dev[2];
} call;

/* x is [n, 3, 4, 5] in NCHW; y is the same tensor in NC1HWC0, 16 / 3 times as large. */
static call call_new(int64_t n) {
  const int64_t dims[] = {n, 3, 4, 5}, blocks[] = {n, 1, 4, 5, 16};
  call c = {.dev = {dev_filled(1, (size_t)n * 60), dev_filled(2, (size_t)n * 320)}};
  for (int i = 0; i < 2; i++) c.desc[i] = aclCreateTensorDesc(ACL_INT8, 4, dims, ACL_FORMAT_NCHW);
  CHECK_OK(aclSetTensorFormat(c.desc[1], ACL_FORMAT_NC1HWC0));
  CHECK_OK(aclSetTensorShape(c.desc[1], 5, blocks));
  c.buffer[0] = aclCreateDataBuffer(c.dev[0], (size_t)n * 60);
  c.buffer[1] = aclCreateDataBuffer(c.dev[1], (size_t)n * 320);
  return c;
}

static void call_free(call *c) {
  for (int i = 0; i < 2; i++) {
    aclDestroyTensorDesc(c->desc[i]);
    CHECK_OK(aclDestroyDataBuffer(c->buffer[i]));
    CHECK_OK(aclrtFree(c->dev[i]));
  }
}

static aclError execute_in(aclrtStream stream, const char *name, call *c, aclopAttr *attr) {
  return aclopExecuteV2(name, 1, c->desc, c->buffer, 1, c->desc + 1, c->buffer + 1, attr, stream);
}

static aclError execute(const char *name, call *c, aclopAttr *attr) { return execute_in(NULL, name, c, attr); }

static size_t free_bytes(void) {
  size_t bytes, total;
  CHECK_OK(aclrtSynchronizeDevice());
  CHECK_OK(aclrtGetMemInfo(ACL_HBM_MEM, &bytes, &total));
  return bytes;
}

static void operators_are_built_in(void **state) {
  (void)state;
  call c = call_new(2);
  CHECK_OK(execute("TransData", &c, NULL));
  CHECK_OK(aclrtSynchronizeStream(NULL));
  for (size_t i = 0; i < 640; i++) assert_int_equal(dev_byte(c.dev[1], i), i % 16 < 3);
  CHECK_CODE(NOT_FOUND, execute("NoSuchOperator", &c, NULL));
  assert_non_null(strstr(aclGetRecentErrMsg(), "there is no operator NoSuchOperator"));
  call_free(&c);
}

/* Operators that need contiguous operands allocate temporary device memory; none of it remains. */
static void temporary_memory_is_released(void **state) {
  (void)state;
  call c = call_new(1000);
  const size_t before = free_bytes();
  for (int i = 0; i < 100; i++) {
    CHECK_OK(execute("Relu", &c, NULL));
    CHECK_FAILS(execute("Fill", &c, NULL));
  }
  assert_true(free_bytes() + (2u << 20) > before); /* if it leaked, 100 calls would hold 6 MB */
  assert_int_equal(dev_byte(c.dev[1], 0), 1);
  call_free(&c);
}

/* The temporary memory of a captured operator stays reserved while the graph lives and is then released. */
static void a_graph_keeps_temporary_memory_of_its_operators(void **state) {
  (void)state;
  enum { N = 50000, N_OTHERS = 8, BYTES = N * 60 };
  call c = call_new(N);
  void *others[N_OTHERS];
  aclrtStream stream;
  aclmdlRI graph;
  CHECK_OK(aclrtCreateStream(&stream));
  const size_t before = free_bytes();
  CHECK_OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
  CHECK_OK(execute_in(stream, "Relu", &c, NULL));
  CHECK_OK(aclmdlRICaptureEnd(stream, &graph));
  for (int i = 0; i < N_OTHERS; i++) others[i] = dev_filled(9, BYTES);
  for (int8_t value = 1; value < 4; value++) {
    CHECK_OK(aclrtMemset(c.dev[0], BYTES, value, BYTES));
    CHECK_OK(aclmdlRIExecuteAsync(graph, stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    for (size_t i = 0; i < (size_t)N * 320; i += 16 * 1023) assert_int_equal(dev_byte(c.dev[1], i), value);
    for (int i = 0; i < N_OTHERS; i++)
      for (size_t k = 0; k < BYTES; k += 4095) assert_int_equal(dev_byte(others[i], k), 9);
  }
  for (int i = 0; i < N_OTHERS; i++) CHECK_OK(aclrtFree(others[i]));
  assert_true(free_bytes() + BYTES <= before);
  CHECK_OK(aclmdlRIDestroy(graph));
  assert_true(free_bytes() + BYTES > before);
  CHECK_OK(aclrtDestroyStream(stream));
  call_free(&c);
}

/* No object would own the memory that such an update needs. */
static void updates_that_need_temporary_memory_are_refused(void **state) {
  (void)state;
  call c = call_new(2);
  aclrtStream stream;
  aclrtTaskGrp group;
  aclmdlRI graph;
  CHECK_OK(aclrtCreateStream(&stream));
  CHECK_OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
  CHECK_OK(aclmdlRICaptureTaskGrpBegin(stream));
  CHECK_OK(execute_in(stream, "Relu", &c, NULL)); /* consists of two tasks */
  CHECK_OK(aclmdlRICaptureTaskGrpEnd(stream, &group));
  CHECK_OK(aclmdlRICaptureEnd(stream, &graph));
  CHECK_OK(aclmdlRICaptureTaskUpdateBegin(stream, group));
  CHECK_CODE(ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT, execute_in(stream, "Relu", &c, NULL));
  assert_non_null(strstr(aclGetRecentErrMsg(), "bytes that the operator needs beside its operands"));
  for (int i = 0; i < 2; i++) CHECK_OK(execute_in(stream, "TransData", &c, NULL));
  CHECK_OK(aclmdlRICaptureTaskUpdateEnd(stream));
  CHECK_OK(aclmdlRIExecuteAsync(graph, stream));
  CHECK_OK(aclrtSynchronizeStream(stream));
  assert_int_equal(dev_byte(c.dev[1], 0), 1);
  CHECK_OK(aclmdlRIDestroy(graph));
  CHECK_OK(aclrtDestroyStream(stream));
  call_free(&c);
}

static void a_constant_is_copied_when_it_is_set(void **state) {
  (void)state;
  int64_t axes[] = {0}, dims[] = {2, 2}, one = 1, two = 2;
  const float x[] = {1, 2, 3, 4};
  void *dev = dev_from(x, sizeof x), *out = dev_filled(0, 8);
  aclTensorDesc *in[] = {aclCreateTensorDesc(ACL_FLOAT, 2, dims, ACL_FORMAT_ND),
                         aclCreateTensorDesc(ACL_INT64, 1, &one, ACL_FORMAT_ND)};
  aclTensorDesc *y = aclCreateTensorDesc(ACL_FLOAT, 1, &two, ACL_FORMAT_ND);
  aclDataBuffer *buffers[] = {aclCreateDataBuffer(dev, sizeof x), aclCreateDataBuffer(NULL, 0)},
                *result = aclCreateDataBuffer(out, 8);
  CHECK_OK(aclSetTensorConst(in[1], axes, sizeof axes));
  axes[0] = 1;
  CHECK_OK(aclopExecuteV2("ReduceSum", 2, in, buffers, 1, &y, &result, NULL, NULL));
  CHECK_OK(aclrtSynchronizeStream(NULL));
  float sums[2];
  from_dev(sums, out, sizeof sums);
  assert_true(sums[0] == 4 && sums[1] == 6);
  for (int i = 0; i < 2; i++) {
    aclDestroyTensorDesc(in[i]);
    CHECK_OK(aclDestroyDataBuffer(buffers[i]));
  }
  aclDestroyTensorDesc(y);
  CHECK_OK(aclDestroyDataBuffer(result));
  CHECK_OK(aclrtFree(dev));
  CHECK_OK(aclrtFree(out));
}

static void messages_name_the_operator_and_the_operand(void **state) {
  (void)state;
  call c = call_new(1);
  aclopAttr *attr = aclopCreateAttr();
  CHECK_OK(aclopSetAttrInt(attr, "groups", 3));
  CHECK_CODE(NOT_FOUND, execute("TransData", &c, attr));
  assert_non_null(strstr(aclGetRecentErrMsg(), "aclopExecuteV2: TransData: groups is 3, expected 1"));
  aclopDestroyAttr(attr);
  CHECK_OK(aclUpdateDataBuffer(c.buffer[1], (char *)c.dev[1] + (1 << 20), 320));
  CHECK_CODE(NOT_FOUND, execute("Relu", &c, NULL));
  assert_non_null(strstr(aclGetRecentErrMsg(), "aclopExecuteV2: Relu: y: address"));
  call_free(&c);
}

static void dumps_of_ai_core_arguments_are_refused(void **state) {
  (void)state;
  CHECK_CODE(207000, aclopStartDumpArgs(ACL_OP_DUMP_OP_AICORE_ARGS, "/tmp"));
  CHECK_CODE(207000, aclopStopDumpArgs(ACL_OP_DUMP_OP_AICORE_ARGS));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclopStartDumpArgs(ACL_OP_DUMP_OP_AICORE_ARGS, NULL));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclopStopDumpArgs(2));
}

/* Files of single operators: operators are built in, so that loading checks them only. */
static void files_of_operators_are_checked(void **state) {
  (void)state;
  char folder[] = "/tmp/cannon-own-ops-XXXXXX", path[64], other[64];
  const int64_t dims[] = {2, 3};
  aclTensorDesc *d[3];
  void *om;
  size_t bytes;
  for (int i = 0; i < 3; i++) d[i] = aclCreateTensorDesc(ACL_FLOAT, 2, dims, ACL_FORMAT_ND);
  const aclTensorDesc *const *in = (const aclTensorDesc *const *)d, *const *out = in + 2;
  assert_non_null(mkdtemp(folder));
  CHECK_CODE(145002, aclopSetModelDir(folder)); /* nothing is in it */
  CHECK_CODE(NOT_FOUND, cannon_operator_build("Nonsense", 2, in, 1, out, NULL, "{}", &om, &bytes));
  CHECK_CODE(NOT_FOUND, cannon_operator_build("Add", 3, in, 1, out, NULL, "{}", &om, &bytes));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, cannon_operator_build("Add", 2, NULL, 1, out, NULL, "{}", &om, &bytes));
  CHECK_OK(cannon_operator_build("Add", 2, in, 1, out, NULL, "{}", &om, &bytes));
  CHECK_OK(aclopLoad(om, bytes));
  CHECK_CODE(100006, aclopLoad(om, bytes - 10));
  CHECK_CODE(100006, aclopLoad(d, 8));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclopLoad(NULL, bytes));
  snprintf(path, sizeof path, "%s/add.om", folder);
  snprintf(other, sizeof other, "%s/other.om", folder);
  CHECK_OK(cannon_model_save(path, om, bytes));
  CHECK_OK(aclopSetModelDir(folder));
  CHECK_OK(cannon_model_save(other, "IMOD", 4));
  CHECK_CODE(100006, aclopSetModelDir(folder));
  assert_non_null(strstr(aclGetRecentErrMsg(), other));
  CHECK_CODE(145002, aclopSetModelDir("/nonexistent"));
  free(om);
  unlink(path);
  unlink(other);
  rmdir(folder);
  for (int i = 0; i < 3; i++) aclDestroyTensorDesc(d[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(operators_are_built_in),
      TEST(temporary_memory_is_released),
      TEST(a_graph_keeps_temporary_memory_of_its_operators),
      TEST(updates_that_need_temporary_memory_are_refused),
      TEST(a_constant_is_copied_when_it_is_set),
      TEST(messages_name_the_operator_and_the_operand),
      TEST(files_of_operators_are_checked),
      TEST(dumps_of_ai_core_arguments_are_refused),
  };
  return cmocka_run_group_tests(tests, device_up, device_down);
}
