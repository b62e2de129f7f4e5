/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor descriptions (aclTensorDesc): the values given at creation and the values returned by getters. */
#include "acl_test.h"

#define DIMS(...)                                                                                                      \
  (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }

static void getters_return_the_values_given_to_the_creator(void **state) {
  (void)state;
  aclTensorDesc *d = aclCreateTensorDesc(ACL_FLOAT16, DIMS(2, 3, 4, 5), ACL_FORMAT_NCHW);
  assert_non_null(d);
  assert_int_equal(aclGetTensorDescType(d), ACL_FLOAT16);
  assert_int_equal(aclGetTensorDescFormat(d), ACL_FORMAT_NCHW);
  assert_int_equal(aclGetTensorDescNumDims(d), 4);
  assert_int_equal(aclGetTensorDescElementCount(d), 120);
  assert_int_equal(aclGetTensorDescSize(d), 240);
  for (size_t i = 0; i < 4; i++) {
    int64_t dim = 0;
    CHECK_OK(aclGetTensorDescDimV2(d, i, &dim));
    assert_int_equal(dim, 2 + (int64_t)i);
    assert_int_equal(aclGetTensorDescDim(d, i), dim);
  }
  int64_t dim = 77;
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclGetTensorDescDimV2(d, 4, &dim));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclGetTensorDescDimV2(d, 0, NULL));
  assert_int_equal(dim, 77);
  assert_int_equal(aclGetTensorDescDim(d, 4), -1);
  aclDestroyTensorDesc(d);
}

static void a_scalar_has_one_element(void **state) {
  (void)state;
  aclTensorDesc *d = aclCreateTensorDesc(ACL_DOUBLE, 0, NULL, ACL_FORMAT_ND);
  assert_non_null(d);
  assert_int_equal(aclGetTensorDescNumDims(d), 0);
  assert_int_equal(aclGetTensorDescElementCount(d), 1);
  assert_int_equal(aclGetTensorDescSize(d), 8);
  aclDestroyTensorDesc(d);
  d = aclCreateTensorDesc(ACL_FLOAT, DIMS(3, 0, 2), ACL_FORMAT_ND);
  assert_int_equal(aclGetTensorDescElementCount(d), 0);
  assert_int_equal(aclGetTensorDescSize(d), 0);
  aclDestroyTensorDesc(d);
}

static void an_absent_operand_has_undefined_type(void **state) {
  (void)state;
  aclTensorDesc *d = aclCreateTensorDesc(ACL_DT_UNDEFINED, 0, NULL, ACL_FORMAT_UNDEFINED);
  assert_non_null(d);
  assert_int_equal(aclGetTensorDescType(d), ACL_DT_UNDEFINED);
  assert_int_equal(aclGetTensorDescFormat(d), ACL_FORMAT_UNDEFINED);
  assert_int_equal(aclGetTensorDescSize(d), 0);
  aclDestroyTensorDesc(d);
}

static void impossible_descriptions_are_refused(void **state) {
  (void)state;
  assert_null(aclCreateTensorDesc(ACL_FLOAT, -1, NULL, ACL_FORMAT_ND));
  assert_null(aclCreateTensorDesc(ACL_FLOAT, 2, NULL, ACL_FORMAT_ND));
}

static void unknown_dimensions_give_zero_elements(void **state) {
  (void)state;
  aclTensorDesc *d = aclCreateTensorDesc(ACL_FLOAT, DIMS(2, -1), ACL_FORMAT_ND);
  assert_non_null(d);
  assert_int_equal(aclGetTensorDescNumDims(d), 2);
  assert_int_equal(aclGetTensorDescElementCount(d), 0);
  assert_int_equal(aclGetTensorDescDim(d, 1), -1);
  aclDestroyTensorDesc(d);
  d = aclCreateTensorDesc(ACL_FLOAT, DIMS(-2), ACL_FORMAT_ND);
  assert_non_null(d);
  assert_true(aclGetTensorDescNumDims(d) == (size_t)ACL_UNKNOWN_RANK);
  aclDestroyTensorDesc(d);
}

static void getters_accept_a_null_description(void **state) {
  (void)state;
  int64_t dim = 0;
  aclDestroyTensorDesc(NULL);
  assert_int_equal(aclGetTensorDescType(NULL), ACL_DT_UNDEFINED);
  assert_int_equal(aclGetTensorDescFormat(NULL), ACL_FORMAT_UNDEFINED);
  assert_int_equal(aclGetTensorDescNumDims(NULL), 0);
  assert_int_equal(aclGetTensorDescElementCount(NULL), 0);
  assert_int_equal(aclGetTensorDescSize(NULL), 0);
  assert_int_equal(aclGetTensorDescDim(NULL, 0), -1);
  assert_string_equal(aclGetTensorDescName(NULL), "");
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclGetTensorDescDimV2(NULL, 0, &dim));
  aclSetTensorDescName(NULL, "x");
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclSetTensorFormat(NULL, ACL_FORMAT_ND));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclSetTensorShape(NULL, DIMS(1)));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclSetTensorOriginFormat(NULL, ACL_FORMAT_ND));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclSetTensorOriginShape(NULL, DIMS(1)));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclSetTensorPlaceMent(NULL, ACL_MEMTYPE_HOST));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclSetTensorConst(NULL, &dim, sizeof dim));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclSetTensorShapeRange(NULL, 0, NULL));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclSetTensorDynamicInput(NULL, "x"));
}

static void names_are_copied(void **state) {
  (void)state;
  char name[] = "first";
  aclTensorDesc *d = aclCreateTensorDesc(ACL_FLOAT, DIMS(2), ACL_FORMAT_ND);
  assert_string_equal(aclGetTensorDescName(d), "");
  aclSetTensorDescName(d, name);
  name[0] = 'F';
  assert_string_equal(aclGetTensorDescName(d), "first");
  aclSetTensorDescName(d, "second");
  assert_string_equal(aclGetTensorDescName(d), "second");
  aclSetTensorDescName(d, NULL);
  assert_string_equal(aclGetTensorDescName(d), "");
  aclDestroyTensorDesc(d);
}

/* Setting the storage format and shape does not change the format and shape of the tensor itself. */
static void storage_format_does_not_change_the_origin_format(void **state) {
  (void)state;
  aclTensorDesc *d = aclCreateTensorDesc(ACL_FLOAT16, DIMS(2, 3, 4, 5), ACL_FORMAT_NCHW);
  CHECK_OK(aclSetTensorStorageFormat(d, ACL_FORMAT_NC1HWC0));
  CHECK_OK(aclSetTensorStorageShape(d, DIMS(2, 1, 4, 5, 16)));
  assert_int_equal(aclGetTensorDescFormat(d), ACL_FORMAT_NCHW);
  assert_int_equal(aclGetTensorDescNumDims(d), 4);
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclSetTensorStorageShape(d, 2, NULL));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclSetTensorStorageFormat(NULL, ACL_FORMAT_ND));
  CHECK_OK(aclSetTensorFormat(d, ACL_FORMAT_NC1HWC0));
  CHECK_OK(aclSetTensorShape(d, DIMS(2, 1, 4, 5, 16)));
  assert_int_equal(aclGetTensorDescFormat(d), ACL_FORMAT_NCHW);
  assert_int_equal(aclGetTensorDescNumDims(d), 4);
  assert_int_equal(aclGetTensorDescElementCount(d), 120);
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclSetTensorShape(d, 2, NULL));
  CHECK_OK(aclSetTensorOriginFormat(d, ACL_FORMAT_NHWC));
  CHECK_OK(aclSetTensorOriginShape(d, DIMS(2, 4, 5)));
  assert_int_equal(aclGetTensorDescFormat(d), ACL_FORMAT_NHWC);
  assert_int_equal(aclGetTensorDescNumDims(d), 3);
  assert_int_equal(aclGetTensorDescDim(d, 2), 5);
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclSetTensorOriginShape(d, -1, NULL));
  assert_int_equal(aclGetTensorDescNumDims(d), 3);
  aclDestroyTensorDesc(d);
}

static void shape_ranges_are_returned_by_dimension(void **state) {
  (void)state;
  int64_t ranges[2][ACL_TENSOR_SHAPE_RANGE_NUM] = {{1, 10}, {4, 4}}, got[2] = {0, 0};
  aclTensorDesc *d = aclCreateTensorDesc(ACL_FLOAT, DIMS(-1, 4), ACL_FORMAT_ND);
  CHECK_FAILS(aclGetTensorDescDimRange(d, 0, 2, got));
  CHECK_OK(aclSetTensorShapeRange(d, 2, ranges));
  ranges[0][1] = 99;
  CHECK_OK(aclGetTensorDescDimRange(d, 0, 2, got));
  assert_int_equal(got[0], 1);
  assert_int_equal(got[1], 10);
  CHECK_OK(aclGetTensorDescDimRange(d, 1, 2, got));
  assert_int_equal(got[1], 4);
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclGetTensorDescDimRange(d, 2, 2, got));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclGetTensorDescDimRange(d, 0, 1, got));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclGetTensorDescDimRange(d, 0, 2, NULL));
  CHECK_OK(aclSetTensorValueRange(d, 2, ranges));
  aclDestroyTensorDesc(d);
}

static void placement_and_const_marks_are_accepted(void **state) {
  (void)state;
  int32_t values[] = {1, 2};
  aclTensorDesc *d = aclCreateTensorDesc(ACL_INT32, DIMS(2), ACL_FORMAT_ND);
  CHECK_OK(aclSetTensorConst(d, values, sizeof values));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclSetTensorConst(d, NULL, sizeof values));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclSetTensorConst(d, values, 0));
  CHECK_OK(aclSetTensorPlaceMent(d, ACL_MEMTYPE_HOST));
  CHECK_OK(aclSetTensorPlaceMent(d, ACL_MEMTYPE_HOST_COMPILE_INDEPENDENT));
  CHECK_OK(aclSetTensorPlaceMent(d, ACL_MEMTYPE_DEVICE));
  CHECK_OK(aclSetTensorDynamicInput(d, "x"));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclSetTensorDynamicInput(d, NULL));
  aclDestroyTensorDesc(d);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(getters_return_the_values_given_to_the_creator),
      TEST(a_scalar_has_one_element),
      TEST(an_absent_operand_has_undefined_type),
      TEST(impossible_descriptions_are_refused),
      TEST(unknown_dimensions_give_zero_elements),
      TEST(getters_accept_a_null_description),
      TEST(names_are_copied),
      TEST(storage_format_does_not_change_the_origin_format),
      TEST(shape_ranges_are_returned_by_dimension),
      TEST(placement_and_const_marks_are_accepted),
  };
  return cmocka_run_group_tests(tests, acl_up, acl_down);
}
