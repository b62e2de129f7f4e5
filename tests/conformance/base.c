/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that need no stream: sizes of data types, half precision, device attributes, versions. */
#include "acl_test.h"

#include <math.h>

static void data_types_have_their_sizes(void **state) {
  (void)state;
  static const struct {
    aclDataType type;
    size_t size;
  } cases[] = {{ACL_FLOAT, 4},  {ACL_FLOAT16, 2}, {ACL_INT8, 1},   {ACL_INT32, 4},     {ACL_UINT8, 1},
               {ACL_INT16, 2},  {ACL_UINT16, 2},  {ACL_UINT32, 4}, {ACL_INT64, 8},     {ACL_UINT64, 8},
               {ACL_DOUBLE, 8}, {ACL_BOOL, 1},    {ACL_BF16, 2},   {ACL_COMPLEX64, 8}, {ACL_COMPLEX128, 16}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_int_equal(aclDataTypeSize(cases[i].type), cases[i].size);
}

static void float_to_half_rounds_as_cann_does(void **state) {
  (void)state;
  static const struct {
    float from;
    unsigned to;
  } cases[] = {{0.0f, 0},          {1.0f, 0x3C00},     {-2.0f, 0xC000}, {1.625f, 0x3E80},
               {65504.0f, 0x7BFF}, {INFINITY, 0x7BFF}, {NAN, 0x7BFF},   {-INFINITY, 0xFBFF}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_int_equal(aclFloatToFloat16(cases[i].from), cases[i].to);
}

static void half_to_float_converts_as_cann_does(void **state) {
  (void)state;
  static const struct {
    unsigned from;
    float to;
  } cases[] = {{0, 0.0f},          {0x3C00, 1.0f},     {0xC000, -2.0f},     {0x3E80, 1.625f},  {0x0001, 0x1p-24f},
               {0x7BFF, 65504.0f}, {0x7C00, 65536.0f}, {0xFC00, -65536.0f}, {0x7E00, 98304.0f}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_true(aclFloat16ToFloat((aclFloat16)cases[i].from) == cases[i].to);
}

static void every_listed_attribute_has_a_value(void **state) {
  (void)state;
  const aclCannAttr *list = NULL;
  size_t n = 0;
  CHECK_OK(aclGetCannAttributeList(&list, &n));
  assert_true(n > 0);
  for (size_t i = 0; i < n; i++) {
    int32_t value = -1;
    CHECK_OK(aclGetCannAttribute(list[i], &value));
    assert_true(value == 0 || value == 1);
  }
}

static void capabilities_are_positive(void **state) {
  (void)state;
  int64_t cores = 0, cache = 0;
  CHECK_OK(aclGetDeviceCapability(0, ACL_DEVICE_INFO_AI_CORE_NUM, &cores));
  CHECK_OK(aclGetDeviceCapability(0, ACL_DEVICE_INFO_L2_SIZE, &cache));
  assert_true(cores > 0);
  assert_true(cache > 0);
}

static void long_log_messages_are_truncated(void **state) {
  (void)state;
  char text[5000];
  memset(text, 'x', sizeof text - 1);
  text[sizeof text - 1] = 0;
  for (int level = ACL_DEBUG; level <= ACL_ERROR; level++)
    aclAppLog((aclLogLevel)level, __func__, __FILE__, __LINE__, "%s %d", text, level);
  aclAppLog(ACL_INFO, NULL, NULL, 0, "%s", "no place");
  assert_int_equal(strlen(text), sizeof text - 1);
}

static void data_buffers_return_their_address_and_size(void **state) {
  (void)state;
  int a = 0, b = 0;
  aclDataBuffer *buffer = aclCreateDataBuffer(&a, sizeof a);
  assert_non_null(buffer);
  assert_ptr_equal(aclGetDataBufferAddr(buffer), &a);
  assert_int_equal(aclGetDataBufferSizeV2(buffer), sizeof a);
  CHECK_OK(aclUpdateDataBuffer(buffer, &b, (size_t)5 << 32));
  assert_ptr_equal(aclGetDataBufferAddr(buffer), &b);
  assert_true(aclGetDataBufferSizeV2(buffer) == (size_t)5 << 32);
  CHECK_OK(aclDestroyDataBuffer(buffer));
  assert_null(aclGetDataBufferAddr(NULL));
  assert_int_equal(aclGetDataBufferSize(NULL), 0);
  CHECK_FAILS(aclUpdateDataBuffer(NULL, &a, 1));
  CHECK_FAILS(aclDestroyDataBuffer(NULL));
}

static void packages_have_versions(void **state) {
  (void)state;
  char name[] = "runtime", unknown[] = "no such package", text[ACL_PKG_VERSION_MAX_SIZE] = "";
  int32_t number = 0;
  int major = 0, minor = 0;
  CHECK_OK(aclsysGetVersionStr(name, text));
  assert_int_equal(sscanf(text, "%d.%d", &major, &minor), 2);
  CHECK_OK(aclsysGetVersionNum(name, &number));
  /* A pre-release has a number below its release and above the previous minor version. */
  const int release = major * 10000000 + minor * 100000;
  assert_true(strstr(text, "RC") ? number < release && number > release - 100000 : number >= release);
  CHECK_FAILS(aclsysGetVersionStr(unknown, text));
  CHECK_FAILS(aclsysGetVersionNum(unknown, &number));
  CHECK_FAILS(aclsysGetVersionStr(NULL, text));
  CHECK_FAILS(aclsysGetVersionNum(name, NULL));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(data_types_have_their_sizes),
      TEST(float_to_half_rounds_as_cann_does),
      TEST(half_to_float_converts_as_cann_does),
      TEST(every_listed_attribute_has_a_value),
      TEST(capabilities_are_positive),
      TEST(long_log_messages_are_truncated),
      TEST(data_buffers_return_their_address_and_size),
      TEST(packages_have_versions),
  };
  return cmocka_run_group_tests(tests, device_up, device_down);
}
