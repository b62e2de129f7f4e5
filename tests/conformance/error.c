/* SPDX-License-Identifier: Apache-2.0 */
/* The thread's last error code and the texts of recent errors. */
#include "acl_test.h"

#include <ctype.h>

static aclError peek(void) { return aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL); }
static aclError take(void) { return aclrtGetLastError(ACL_RT_THREAD_LEVEL); }

static void peek_keeps_and_get_clears(void **state) {
  (void)state;
  assert_int_equal(take(), 0);
  CHECK_FAILS(aclrtGetRunMode(NULL));
  aclError first = peek();
  assert_int_not_equal(first, 0);
  assert_int_equal(peek(), first);
  assert_int_equal(take(), first);
  assert_int_equal(take(), 0);
  assert_int_equal(peek(), 0);
}

static void success_does_not_clear_and_a_new_failure_replaces(void **state) {
  (void)state;
  CHECK_FAILS(aclrtSetDevice(-1));
  assert_int_equal(peek(), ACL_ERROR_RT_INVALID_DEVICEID);
  CHECK_OK(aclrtSynchronizeDevice());
  assert_int_equal(peek(), ACL_ERROR_RT_INVALID_DEVICEID);
  CHECK_CODE(ACL_ERROR_RT_PARAM_INVALID, aclrtSynchronizeStreamWithTimeout(NULL, -2));
  assert_int_equal(take(), ACL_ERROR_RT_PARAM_INVALID);
}

typedef struct {
  aclError before, after;
  bool message_before, message_after;
} thread_errors;

static void *fail_here(void *arg) {
  thread_errors *e = arg;
  e->before = peek();
  e->message_before = aclGetRecentErrMsg() != NULL;
  aclrtSetDevice(-1);
  e->after = take();
  e->message_after = aclGetRecentErrMsg() != NULL;
  return NULL;
}

static void errors_and_texts_are_per_thread(void **state) {
  (void)state;
  thread_errors e;
  CHECK_FAILS(aclrtSynchronizeStreamWithTimeout(NULL, -2));
  on_thread(fail_here, &e);
  assert_int_equal(e.before, 0);
  assert_false(e.message_before);
  assert_int_equal(e.after, ACL_ERROR_RT_INVALID_DEVICEID);
  assert_true(e.message_after);
  /* the other thread's failures did not change this thread's error */
  assert_int_equal(peek(), ACL_ERROR_RT_PARAM_INVALID);
  assert_non_null(aclGetRecentErrMsg());
}

static void reading_the_text_empties_it(void **state) {
  (void)state;
  assert_null(aclGetRecentErrMsg());
  CHECK_FAILS(aclrtGetRunMode(NULL));
  assert_non_null(aclGetRecentErrMsg());
  assert_null(aclGetRecentErrMsg());
  CHECK_OK(aclrtSynchronizeDevice()); /* a successful call adds no text */
  assert_null(aclGetRecentErrMsg());
}

/* Whether a text has an error code: E, a capital letter, and digits. */
static bool has_code(const char *text) {
  for (const char *c = text; (c = strchr(c, 'E')); c++)
    if (isupper((unsigned char)c[1]) && isalnum((unsigned char)c[2]) && strspn(c + 3, "0123456789") >= 3) return true;
  return false;
}

static void texts_contain_a_code_the_function_and_the_argument(void **state) {
  (void)state;
  CHECK_FAILS(aclrtGetRunMode(NULL));
  const char *text = aclGetRecentErrMsg();
  assert_non_null(text);
  print_message("%s\n", text);
  assert_true(has_code(text));
  assert_non_null(strstr(text, "aclrtGetRunMode"));
  assert_non_null(strstr(text, "runMode"));
}

static void newest_text_comes_first(void **state) {
  (void)state;
  CHECK_FAILS(aclrtGetRunMode(NULL));
  CHECK_FAILS(aclrtGetDeviceCount(NULL));
  CHECK_FAILS(aclrtCreateEvent(NULL));
  const char *text = aclGetRecentErrMsg();
  assert_non_null(text);
  const char *oldest = strstr(text, "aclrtGetRunMode"), *middle = strstr(text, "aclrtGetDeviceCount"),
             *newest = strstr(text, "aclrtCreateEvent");
  assert_true(newest && middle && oldest);
  assert_true(newest < middle && middle < oldest);
  assert_null(aclGetRecentErrMsg());
}

static void number_of_kept_texts_is_limited(void **state) {
  (void)state;
  for (int i = 0; i < 10000; i++) aclrtGetRunMode(NULL);
  const char *text = aclGetRecentErrMsg();
  assert_non_null(text);
  assert_non_null(strstr(text, "runMode"));
  assert_null(aclGetRecentErrMsg());
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(peek_keeps_and_get_clears),
      TEST(success_does_not_clear_and_a_new_failure_replaces),
      TEST(errors_and_texts_are_per_thread),
      TEST(reading_the_text_empties_it),
      TEST(texts_contain_a_code_the_function_and_the_argument),
      TEST(newest_text_comes_first),
      TEST(number_of_kept_texts_is_limited),
  };
  return cmocka_run_group_tests(tests, device_up, device_down);
}
