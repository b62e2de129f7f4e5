/* SPDX-License-Identifier: Apache-2.0 */
/* Dumps of operators' tensors: the order of the calls and the configuration. */
#include <sys/stat.h>
#include <unistd.h>

#include "acl_test.h"
#include "folder.h"

#include "acl/acl_mdl.h"

static char file[96];

static int folder_up(void **state) {
  (void)state;
  folder_make();
  snprintf(file, sizeof file, "%s/acl.json", folder);
  return 0;
}

static int folder_down(void **state) {
  (void)state;
  return folder_remove();
}

/* After each test neither dumps nor the library are initialised. */
static int settle_dump(void **state) {
  aclmdlFinalizeDump();
  aclFinalize();
  return settle(state);
}

#define DUMP_TEST(function) cmocka_unit_test_teardown(function, settle_dump)

/* Writes a configuration file, with the folder in place of %s, and returns its path. */
static const char *config(const char *format) {
  FILE *f = fopen(file, "w");
  assert_non_null(f);
  fprintf(f, format, folder);
  assert_int_equal(fclose(f), 0);
  return file;
}

static void the_order_of_calls_is_checked(void **state) {
  (void)state;
  const char *operators = config("{\"dump\":{\"dump_path\":\"%s\",\"dump_list\":[{}],\"dump_op_switch\":\"on\"}}");
  CHECK_CODE(ACL_ERROR_UNINITIALIZE, aclmdlInitDump());
  CHECK_OK(aclInit(NULL));
  CHECK_CODE(ACL_ERROR_DUMP_NOT_RUN, aclmdlSetDump(operators));
  CHECK_CODE(ACL_ERROR_DUMP_NOT_RUN, aclmdlFinalizeDump());
  CHECK_OK(aclmdlInitDump());
  CHECK_CODE(ACL_ERROR_REPEAT_INITIALIZE, aclmdlInitDump());
  CHECK_OK(aclmdlSetDump(operators));
  CHECK_OK(aclmdlSetDump(operators)); /* replaces the earlier configuration */
  CHECK_OK(aclmdlFinalizeDump());
  CHECK_CODE(ACL_ERROR_DUMP_NOT_RUN, aclmdlFinalizeDump());
  CHECK_OK(aclmdlInitDump()); /* may be initialised again */
  CHECK_OK(aclmdlFinalizeDump());
}

static void dumps_configured_by_aclinit_exclude_aclmdlinitdump(void **state) {
  (void)state;
  CHECK_OK(aclInit(config("{\"dump\":{\"dump_path\":\"%s\",\"dump_list\":[{}],\"dump_op_switch\":\"on\"}}")));
  CHECK_CODE(ACL_ERROR_DUMP_ALREADY_RUN, aclmdlInitDump());
  CHECK_OK(aclFinalize());
  CHECK_OK(aclInit(NULL));
  CHECK_OK(aclmdlInitDump());
}

static void exception_dumps_allow_aclmdlinitdump(void **state) {
  (void)state;
  CHECK_OK(aclInit(config("{\"dump\":{\"dump_scene\":\"lite_exception\"}}"))); /* as torch_npu does */
  CHECK_OK(aclmdlInitDump());
}

static const struct {
  aclError code;
  const char *text;
} configs[] = {
    {ACL_SUCCESS, "{}"},
    {ACL_SUCCESS, "{\"dump\":{\"dump_path\":\"%s\",\"dump_list\":[{\"model_name\":\"a\"}],\"dump_mode\":\"all\"}}"},
    {ACL_SUCCESS, "{\"dump\":{\"dump_scene\":\"aic_err_brief_dump\"}}"},
    {ACL_ERROR_PARSE_FILE, "{\"dump\":"},
    {ACL_ERROR_INVALID_DUMP_CONFIG, "{\"dump\":{\"dump_list\":[{}],\"dump_op_switch\":\"on\"}}"},
    {ACL_ERROR_INVALID_DUMP_CONFIG,
     "{\"dump\":{\"dump_path\":\"%s/none\",\"dump_list\":[{}],\"dump_op_switch\":\"on\"}}"},
    {ACL_ERROR_INVALID_DUMP_CONFIG,
     "{\"dump\":{\"dump_path\":\"%s\",\"dump_list\":[{}],\"dump_op_switch\":\"maybe\"}}"},
    {ACL_ERROR_INVALID_DUMP_CONFIG,
     "{\"dump\":{\"dump_path\":\"%s\",\"dump_list\":[{}],\"dump_mode\":\"both\",\"dump_op_switch\":\"on\"}}"},
    {ACL_ERROR_INVALID_DUMP_CONFIG, "{\"dump\":{\"dump_scene\":\"every\"}}"},
    {ACL_ERROR_INVALID_DUMP_CONFIG,
     "{\"dump\":{\"dump_path\":\"%s\",\"dump_debug\":\"on\",\"dump_op_switch\":\"on\"}}"},
    {ACL_ERROR_INVALID_DUMP_CONFIG,
     "{\"dump\":{\"dump_path\":\"%s\",\"dump_scene\":\"lite_exception\",\"dump_op_switch\":\"on\"}}"},
};

static void configurations_are_checked(void **state) {
  (void)state;
  CHECK_OK(aclInit(NULL));
  CHECK_OK(aclmdlInitDump());
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclmdlSetDump(NULL));
  CHECK_CODE(ACL_ERROR_INVALID_FILE, aclmdlSetDump("/no/such/file.json"));
  for (size_t i = 0; i < sizeof configs / sizeof *configs; ++i) {
    const aclError got = aclmdlSetDump(config(configs[i].text));
    if (got != configs[i].code) print_error("configuration: %s\n", configs[i].text);
    CHECK_CODE(configs[i].code, got);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      DUMP_TEST(the_order_of_calls_is_checked),
      DUMP_TEST(dumps_configured_by_aclinit_exclude_aclmdlinitdump),
      DUMP_TEST(exception_dumps_allow_aclmdlinitdump),
      DUMP_TEST(configurations_are_checked),
  };
  return cmocka_run_group_tests(tests, folder_up, folder_down);
}
