/* SPDX-License-Identifier: Apache-2.0 */
/* aclInit and aclFinalize with their reference count; the configuration file. */
#include "acl_test.h"

#include <unistd.h>

static uint64_t release(void) {
  uint64_t left = 99;
  CHECK_OK(aclFinalizeReference(&left));
  return left;
}

static void second_init_is_reported_and_counted(void **state) {
  (void)state;
  CHECK_OK(aclInit(NULL));
  CHECK_CODE(ACL_ERROR_REPEAT_INITIALIZE, aclInit(NULL));
  CHECK_CODE(ACL_ERROR_REPEAT_INITIALIZE, aclInit(NULL));
  assert_int_equal(release(), 2);
  assert_int_equal(release(), 1);
  /* still initialised: the library is finalised only at zero */
  CHECK_CODE(ACL_ERROR_REPEAT_INITIALIZE, aclInit(NULL));
  assert_int_equal(release(), 1);
  assert_int_equal(release(), 0);
  CHECK_OK(aclInit(NULL)); /* the count was zero, so this is a first initialisation */
  CHECK_OK(aclFinalizeReference(NULL));
  CHECK_CODE(ACL_ERROR_REPEAT_FINALIZE, aclFinalize());
}

static void finalize_sets_the_count_to_zero(void **state) {
  (void)state;
  CHECK_OK(aclInit(NULL));
  CHECK_CODE(ACL_ERROR_REPEAT_INITIALIZE, aclInit(NULL));
  CHECK_OK(aclFinalize());
  CHECK_CODE(ACL_ERROR_REPEAT_FINALIZE, aclFinalize());
}

static void finalize_without_init_is_refused(void **state) {
  (void)state;
  uint64_t left = 0;
  CHECK_CODE(ACL_ERROR_REPEAT_FINALIZE, aclFinalize());
  CHECK_FAILS(aclFinalizeReference(&left));
}

static void devices_work_after_repeated_init_and_finalize(void **state) {
  (void)state;
  for (int i = 0; i < 3; i++) {
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    void *p = dev_filled(i, 100);
    assert_dev_filled(p, i, 100);
    CHECK_OK(aclrtFree(p));
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
  }
}

/* ---- configuration ---- */

static const char *config_file(const char *text) {
  static char path[] = "/tmp/acl_config_XXXXXX";
  strcpy(path + sizeof path - 7, "XXXXXX");
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, text, strlen(text)), strlen(text));
  close(fd);
  return path;
}

static aclError init_with(const char *text) {
  const char *path = config_file(text);
  aclError code = aclInit(path);
  unlink(path);
  return code;
}

static void every_documented_key_is_accepted(void **state) {
  (void)state;
  static const char *const good[] = {
      "{}",
      " \n{ }\n",
      "{\"dump\":{\"dump_scene\":\"lite_exception\"}}",
      "{\"defaultDevice\":{\"default_device\":\"0\"}}",
      "{\"err_msg_mode\":\"0\"}",
      "{\"err_msg_mode\":\"1\"}",
      "{\"max_opqueue_num\":\"20000\"}",
      "{\"StackSize\":{\"aicore_stack_size\":32768}}",
  };
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    print_message("config %s\n", good[i]);
    CHECK_OK(init_with(good[i]));
    CHECK_OK(aclFinalize());
  }
}

static void missing_file_is_a_path_error(void **state) {
  (void)state;
  CHECK_CODE(ACL_ERROR_INVALID_FILE, aclInit("/nonexistent/acl.json"));
  CHECK_FAILS(aclInit("/tmp")); /* a folder */
  CHECK_OK(aclInit(NULL));      /* a failed aclInit does not count */
  CHECK_OK(aclFinalize());
}

static void text_that_is_not_json_is_a_parse_error(void **state) {
  (void)state;
  static const char *const bad[] = {"{", "{\"dump\":", "{\"dump\":{}", "hello", "{'dump':{}}", "{\"dump\" {}}"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    print_message("config %s\n", bad[i]);
    CHECK_CODE(ACL_ERROR_PARSE_FILE, init_with(bad[i]));
  }
  CHECK_OK(aclInit(NULL));
  CHECK_OK(aclFinalize());
}

/* Returns {"a":{"a": ... "n":[[...]] }} with the given depths of braces and brackets. */
static const char *nested(int braces, int brackets) {
  static char text[512];
  char *end = text;
  for (int i = 1; i < braces; i++) end += sprintf(end, "{\"a\":");
  end += sprintf(end, "{\"n\":");
  for (int i = 0; i < brackets; i++) *end++ = '[';
  *end++ = '1';
  for (int i = 0; i < brackets; i++) *end++ = ']';
  for (int i = 0; i < braces; i++) *end++ = '}';
  *end = 0;
  return text;
}

static void nesting_is_limited_to_ten_of_each_kind(void **state) {
  (void)state;
  CHECK_OK(init_with(nested(10, 10)));
  CHECK_OK(aclFinalize());
  CHECK_FAILS(init_with(nested(11, 0)));
  CHECK_FAILS(init_with(nested(1, 11)));
  CHECK_CODE(ACL_ERROR_REPEAT_FINALIZE, aclFinalize());
}

static void *provoke(void *unused) {
  aclrtGetRunMode(NULL);
  return unused;
}

static void err_msg_mode_chooses_thread_or_process(void **state) {
  (void)state;
  CHECK_OK(init_with("{\"err_msg_mode\":\"0\"}"));
  on_thread(provoke, NULL);
  assert_null(aclGetRecentErrMsg());
  CHECK_OK(aclFinalize());

  CHECK_OK(init_with("{\"err_msg_mode\":\"1\"}"));
  aclGetRecentErrMsg();
  on_thread(provoke, NULL);
  assert_non_null(aclGetRecentErrMsg());
  assert_null(aclGetRecentErrMsg());
  CHECK_OK(aclFinalize());
}

static void second_init_keeps_the_first_configuration(void **state) {
  (void)state;
  CHECK_OK(init_with("{\"err_msg_mode\":\"0\"}"));
  CHECK_FAILS(init_with("{\"err_msg_mode\":\"1\"}"));
  aclGetRecentErrMsg();
  on_thread(provoke, NULL);
  assert_null(aclGetRecentErrMsg());
  CHECK_OK(aclFinalize());
}

static void *use_without_set_device(void *out) {
  void *p = NULL;
  aclError *code = out;
  *code = aclrtMalloc(&p, 64, ACL_MEM_MALLOC_HUGE_FIRST);
  if (*code == 0) *code = aclrtMemset(p, 64, 7, 64);
  if (*code == 0) *code = aclrtFree(p);
  return NULL;
}

static void default_device_serves_threads_that_set_none(void **state) {
  (void)state;
  aclError code;
  CHECK_OK(init_with("{\"defaultDevice\":{\"default_device\":\"0\"}}"));
  on_thread(use_without_set_device, &code);
  CHECK_OK(code);
  CHECK_OK(aclFinalize());

  CHECK_OK(aclInit(NULL));
  on_thread(use_without_set_device, &code);
  CHECK_CODE(ACL_ERROR_RT_CONTEXT_NULL, code);
  CHECK_OK(aclFinalize());
}

/* ---- versions ---- */

static void version_equals_that_of_the_headers(void **state) {
  (void)state;
  int32_t major = -1, minor = -1, patch = -1;
  CHECK_OK(aclrtGetVersion(&major, &minor, &patch));
  assert_int_equal(major, ACL_MAJOR_VERSION);
  assert_int_equal(minor, ACL_MINOR_VERSION);
  assert_int_equal(patch, ACL_PATCH_VERSION);
}

static void cann_version_agrees_with_its_components(void **state) {
  (void)state;
  aclCANNPackageVersion v;
  memset(&v, 0xee, sizeof v);
  CHECK_OK(aclsysGetCANNVersion(ACL_PKG_NAME_CANN, &v));
  char start[140];
  snprintf(start, sizeof start, "%.60s.%.60s.", v.majorVersion, v.minorVersion);
  assert_true(v.majorVersion[0] >= '1' && v.majorVersion[0] <= '9');
  assert_memory_equal(v.version, start, strlen(start));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(finalize_without_init_is_refused),
      TEST(second_init_is_reported_and_counted),
      TEST(finalize_sets_the_count_to_zero),
      TEST(devices_work_after_repeated_init_and_finalize),
      TEST(every_documented_key_is_accepted),
      TEST(missing_file_is_a_path_error),
      TEST(text_that_is_not_json_is_a_parse_error),
      TEST(nesting_is_limited_to_ten_of_each_kind),
      TEST(err_msg_mode_chooses_thread_or_process),
      TEST(second_init_keeps_the_first_configuration),
      TEST(default_device_serves_threads_that_set_none),
      TEST(version_equals_that_of_the_headers),
      TEST(cann_version_agrees_with_its_components),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
