/* SPDX-License-Identifier: Apache-2.0 */
/* Operators called by name: attributes, compiler options and calls. */
#include "acl_test.h"

#include "acl/acl_op_compiler.h"

/* ---- attributes ---- */

static void every_type_of_attribute_is_accepted(void **state) {
  (void)state;
  const int64_t ints[] = {1, 2, 3}, *lists[] = {ints, ints};
  const uint8_t bools[] = {1, 0};
  const float floats[] = {1.5f};
  const aclDataType types[] = {ACL_FLOAT, ACL_INT8};
  const char *strings[] = {"a", "b"};
  aclopAttr *a = aclopCreateAttr();
  assert_non_null(a);
  CHECK_OK(aclopSetAttrBool(a, "bool", 1));
  CHECK_OK(aclopSetAttrInt(a, "int", -7));
  CHECK_OK(aclopSetAttrFloat(a, "float", 2.5f));
  CHECK_OK(aclopSetAttrString(a, "string", "text"));
  CHECK_OK(aclopSetAttrDataType(a, "type", ACL_BF16));
  CHECK_OK(aclopSetAttrListBool(a, "bools", 2, bools));
  CHECK_OK(aclopSetAttrListInt(a, "ints", 3, ints));
  CHECK_OK(aclopSetAttrListFloat(a, "floats", 1, floats));
  CHECK_OK(aclopSetAttrListString(a, "strings", 2, strings));
  CHECK_OK(aclopSetAttrListDataType(a, "types", 2, types));
  CHECK_OK(aclopSetAttrListListInt(a, "lists", 2, (const int[]){3, 2}, lists));
  CHECK_OK(aclopSetAttrListInt(a, "none", 0, NULL));
  CHECK_OK(aclopSetAttrInt(a, "string", 3)); /* replaces a value of another type */
  CHECK_OK(aclopSetAttrString(a, "ints", "text"));
  aclopDestroyAttr(a);
  aclopDestroyAttr(NULL);
}

static void attributes_with_null_arguments_are_refused(void **state) {
  (void)state;
  const int64_t ints[] = {1};
  aclopAttr *a = aclopCreateAttr();
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclopSetAttrBool(NULL, "x", 1));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclopSetAttrInt(a, NULL, 1));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclopSetAttrFloat(NULL, "x", 1));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclopSetAttrString(a, "x", NULL));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclopSetAttrString(a, NULL, "x"));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclopSetAttrDataType(NULL, "x", ACL_FLOAT));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclopSetAttrListInt(a, "x", 1, NULL));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclopSetAttrListInt(a, "x", -1, ints));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclopSetAttrListInt(a, NULL, 1, ints));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclopSetAttrListBool(NULL, "x", 0, NULL));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclopSetAttrListFloat(a, "x", 2, NULL));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclopSetAttrListString(a, "x", 2, NULL));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclopSetAttrListListInt(a, "x", 1, NULL, NULL));
  aclopDestroyAttr(a);
}

/* ---- options ---- */

static void options_can_be_set_and_read(void **state) {
  (void)state;
  char value[64] = "";
  CHECK_OK(aclSetCompileopt(ACL_PRECISION_MODE, "allow_fp32_to_fp16"));
  assert_int_equal(aclGetCompileoptSize(ACL_PRECISION_MODE), sizeof "allow_fp32_to_fp16");
  CHECK_OK(aclGetCompileopt(ACL_PRECISION_MODE, value, sizeof value));
  assert_string_equal(value, "allow_fp32_to_fp16");
  CHECK_FAILS(aclGetCompileopt(ACL_PRECISION_MODE, value, sizeof "allow_fp32_to_fp16" - 1));
  CHECK_OK(aclSetCompileopt(ACL_PRECISION_MODE, "")); /* as torch_npu does */
  CHECK_OK(aclSetCompileopt(ACL_OP_COMPILER_CACHE_MODE, "enable"));
  CHECK_OK(aclSetCompileopt(ACL_ALLOW_HF32, "10"));
  CHECK_OK(aclSetCompileopt(ACL_OP_DETERMINISTIC, "1"));
  CHECK_OK(aclSetCompileopt(ACL_OP_DETERMINISTIC, "0"));
  CHECK_OK(aclopSetCompileFlag(ACL_OP_COMPILE_FUZZ));
  CHECK_OK(aclopSetCompileFlag(ACL_OP_COMPILE_DEFAULT));
}

static void just_in_time_compilation_can_be_chosen(void **state) {
  (void)state;
  char value[16] = "";
  assert_true(aclGetCompileoptSize(ACL_OP_JIT_COMPILE) > 1);
  CHECK_OK(aclSetCompileopt(ACL_OP_JIT_COMPILE, "enable"));
  CHECK_OK(aclGetCompileopt(ACL_OP_JIT_COMPILE, value, sizeof value));
  assert_string_equal(value, "enable");
  CHECK_OK(aclSetCompileopt(ACL_OP_JIT_COMPILE, "disable"));
}

static void other_options_are_refused(void **state) {
  (void)state;
  char value[16];
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclSetCompileopt(ACL_PRECISION_MODE, NULL));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclGetCompileopt(ACL_PRECISION_MODE, NULL, 10));
  CHECK_FAILS(aclSetCompileopt((aclCompileOpt)99, "1"));
  CHECK_FAILS(aclSetCompileopt((aclCompileOpt)-1, "1"));
  CHECK_FAILS(aclGetCompileopt((aclCompileOpt)99, value, sizeof value));
  assert_int_equal(aclGetCompileoptSize((aclCompileOpt)99), 0);
  CHECK_FAILS(aclSetCompileopt(ACL_OP_JIT_COMPILE, "perhaps"));
}

/* ---- calls ---- */

/* A call of Identity on n floats. */
typedef struct {
  aclTensorDesc *desc[2];
  aclDataBuffer *buffer[2];
  void *dev[2];
} copy_call;

static copy_call copy_new(int64_t n) {
  copy_call c = {.dev = {dev_filled(0x3f, (size_t)n * 4), dev_filled(0, (size_t)n * 4)}};
  for (int i = 0; i < 2; i++) {
    c.desc[i] = aclCreateTensorDesc(ACL_FLOAT, 1, &n, ACL_FORMAT_ND);
    c.buffer[i] = aclCreateDataBuffer(c.dev[i], (size_t)n * 4);
  }
  return c;
}

static void copy_drop_objects(copy_call *c) {
  for (int i = 0; i < 2; i++) {
    aclDestroyTensorDesc(c->desc[i]);
    CHECK_OK(aclDestroyDataBuffer(c->buffer[i]));
  }
}

static void copy_free(copy_call *c) {
  CHECK_OK(aclrtFree(c->dev[0]));
  CHECK_OK(aclrtFree(c->dev[1]));
}

static aclError copy_run(const copy_call *c, const char *name, int n_in, int n_out, const aclopAttr *attr,
                         aclrtStream stream) {
  return aclopCompileAndExecute(name, n_in, (const aclTensorDesc *const *)&c->desc[0],
                                (const aclDataBuffer *const *)&c->buffer[0], n_out,
                                (const aclTensorDesc *const *)&c->desc[1], &((copy_call *)c)->buffer[1], attr,
                                ACL_ENGINE_SYS, ACL_COMPILE_SYS, NULL, stream);
}

/* All host objects of a call may be destroyed before the operator runs. */
static void a_call_copies_its_arguments(void **state) {
  (void)state;
  aclrtStream stream = stream_new();
  gate *g = gate_close(stream);
  copy_call c = copy_new(1000);
  aclopAttr *attr = aclopCreateAttr();
  CHECK_OK(aclopSetAttrBool(attr, "_performance_prior", 1));
  CHECK_OK(copy_run(&c, "Identity", 1, 1, attr, stream));
  aclopDestroyAttr(attr);
  copy_drop_objects(&c);
  assert_int_equal(dev_byte(c.dev[1], 0), 0);
  gate_open(g);
  CHECK_OK(aclrtSynchronizeStream(stream));
  assert_dev_filled(c.dev[1], 0x3f, 4000);
  copy_free(&c);
  CHECK_OK(aclrtDestroyStream(stream));
}

static void both_forms_of_the_call_run(void **state) {
  (void)state;
  aclrtStream stream = stream_new();
  copy_call c = copy_new(64);
  CHECK_OK(aclopCompileAndExecuteV2("Identity", 1, c.desc, c.buffer, 1, c.desc + 1, c.buffer + 1, NULL, ACL_ENGINE_SYS,
                                    ACL_COMPILE_SYS, NULL, stream));
  CHECK_OK(aclrtSynchronizeStream(stream));
  assert_dev_filled(c.dev[1], 0x3f, 256);
  copy_drop_objects(&c);
  copy_free(&c);
  CHECK_OK(aclrtDestroyStream(stream));
}

static void a_null_stream_is_the_default_stream(void **state) {
  (void)state;
  copy_call c = copy_new(64);
  CHECK_OK(copy_run(&c, "Identity", 1, 1, NULL, NULL));
  CHECK_OK(aclrtSynchronizeStream(NULL));
  assert_dev_filled(c.dev[1], 0x3f, 256);
  copy_drop_objects(&c);
  copy_free(&c);
}

static void illegal_calls_change_nothing(void **state) {
  (void)state;
  aclrtStream stream = stream_new();
  copy_call c = copy_new(64), none = {.desc = {NULL}};
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, copy_run(&c, NULL, 1, 1, NULL, stream));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, copy_run(&c, "Identity", -1, 1, NULL, stream));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, copy_run(&c, "Identity", 1, -1, NULL, stream));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, copy_run(&none, "Identity", 1, 1, NULL, stream));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclopCompileAndExecute("Identity", 1, NULL, NULL, 0, NULL, NULL, NULL,
                                                             ACL_ENGINE_SYS, ACL_COMPILE_SYS, NULL, stream));
  CHECK_FAILS(copy_run(&c, "NoSuchOperator", 1, 1, NULL, stream));
  CHECK_FAILS(copy_run(&c, "Identity", 0, 1, NULL, stream));
  CHECK_OK(aclUpdateDataBuffer(c.buffer[1], c.dev[1], 8)); /* too short */
  CHECK_FAILS(copy_run(&c, "Identity", 1, 1, NULL, stream));
  CHECK_OK(aclrtSynchronizeStream(stream));
  assert_dev_filled(c.dev[1], 0, 256);
  copy_drop_objects(&c);
  copy_free(&c);
  CHECK_OK(aclrtDestroyStream(stream));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(every_type_of_attribute_is_accepted), TEST(attributes_with_null_arguments_are_refused),
      TEST(options_can_be_set_and_read),         TEST(just_in_time_compilation_can_be_chosen),
      TEST(other_options_are_refused),           TEST(a_call_copies_its_arguments),
      TEST(both_forms_of_the_call_run),          TEST(a_null_stream_is_the_default_stream),
      TEST(illegal_calls_change_nothing),
  };
  return cmocka_run_group_tests(tests, device_up, device_down);
}
