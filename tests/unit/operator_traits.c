/* SPDX-License-Identifier: Apache-2.0 */
/* Traits are those of operators, and not of names that look alike (fit/operator_traits.h). */
#include "fit/operator_traits.h"

#include "unit.h"

static void operators_have_their_traits(void **state) {
  (void)state;
  assert_int_equal(operator_traits("Mm"), OPERATOR_PRODUCT | OPERATOR_PLAIN_PRODUCT);
  assert_int_equal(operator_traits("ConvolutionBackward"), OPERATOR_PRODUCT);
  assert_int_equal(operator_traits("Exp"), OPERATOR_WIDE);
  assert_int_equal(operator_traits("InplaceExp"), OPERATOR_WIDE);
  assert_int_equal(operator_traits("Softmax"), OPERATOR_SOFTMAX | OPERATOR_WIDE);
  assert_int_equal(operator_traits("SoftmaxV2"), OPERATOR_SOFTMAX | OPERATOR_WIDE); /* called by name */
  assert_int_equal(operator_traits("SoftmaxBackward"), OPERATOR_WIDE);
  assert_int_equal(operator_traits("LogSoftmax"), OPERATOR_WIDE);
}

static void others_have_none(void **state) {
  static const char *const names[] = {"Expand",
                                      "LogicalNot",
                                      "UpsampleLinear1d",
                                      "RotaryPositionEmbedding",
                                      "InplaceNormal",
                                      "TransMatmulWeight",
                                      "Cummax",
                                      "Digamma",
                                      "BatchNorm",
                                      "memcpy",
                                      "",
                                      "no operator"};
  (void)state;
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) assert_int_equal(operator_traits(names[i]), 0);
}

static void collectives_are_told_by_their_prefix(void **state) {
  (void)state;
  assert_int_equal(operator_traits("HcclAllReduce"), TASK_IS_COLLECTIVE);
  assert_int_equal(operator_traits("hcom_allReduce_"), TASK_IS_COLLECTIVE);
}

int main(void) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(operators_have_their_traits),
      cmocka_unit_test(others_have_none),
      cmocka_unit_test(collectives_are_told_by_their_prefix),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
