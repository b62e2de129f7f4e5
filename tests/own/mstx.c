/* SPDX-License-Identifier: Apache-2.0 */
/* mstx: messages for wrong calls, which return no code, and the library's functions without the inline header. */
#define MSTX_LINKED
#include "acl_test.h"
#include "folder.h"

#include "acl/acl_prof.h"
#include "mstx/ms_tools_ext.h"

static aclprofConfig *config;

static int recording_up(void **state) {
  uint32_t device = 0;
  device_up(state);
  folder_make();
  config = aclprofCreateConfig(&device, 1, ACL_AICORE_NONE, NULL, ACL_PROF_MSPROFTX);
  return aclprofInit(folder, strlen(folder)) || aclprofStart(config);
}

static int recording_down(void **state) {
  CHECK_OK(aclprofStop(config));
  CHECK_OK(aclprofFinalize());
  CHECK_OK(aclprofDestroyConfig(config));
  folder_remove();
  return device_down(state);
}

static void expect_message(const char *words) {
  const char *message = aclGetRecentErrMsg();
  if (!message || !strstr(message, words)) fail_msg("message '%s' lacks '%s'", message ? message : "(none)", words);
}

static void messages_are_checked(void **state) {
  (void)state;
  char text[257];
  memset(text, 'x', sizeof text);
  text[256] = 0;
  assert_true(mstxRangeStartA(text, NULL) == 0);
  expect_message("message has at least 256 bytes, expected 1 to 255");
  text[255] = 0;
  const mstxRangeId id = mstxRangeStartA(text, NULL);
  assert_true(id);
  mstxRangeEnd(id);
  assert_null(aclGetRecentErrMsg());
  mstxMarkA("", NULL);
  expect_message("message has 0 bytes");
}

static void ranges_end_once_and_in_their_domain(void **state) {
  (void)state;
  mstxDomainHandle_t domain = mstxDomainCreateA("one");
  const mstxRangeId id = mstxDomainRangeStartA(domain, "range", NULL);
  mstxRangeEnd(id);
  expect_message("expected that of a range that is open in the domain");
  mstxDomainRangeEnd(domain, id);
  assert_null(aclGetRecentErrMsg());
  mstxDomainRangeEnd(domain, id);
  expect_message("expected that of a range that is open in the domain");
  mstxDomainDestroy(domain);
}

static void domains_are_checked(void **state) {
  (void)state;
  char name[1025];
  memset(name, 'x', sizeof name);
  name[1024] = 0;
  assert_null(mstxDomainCreateA(name));
  expect_message("expected 1 to 1023 letters, digits and underscores");
  assert_null(mstxDomainCreateA("a-b"));
  assert_null(mstxDomainCreateA(""));
  mstxDomainHandle_t domain = mstxDomainCreateA("gone");
  const mstxRangeId id = mstxDomainRangeStartA(domain, "range", NULL);
  mstxDomainDestroy(domain);
  aclGetRecentErrMsg();
  mstxDomainMarkA(domain, "moment", NULL);
  expect_message("no domain (destroyed?)");
  mstxDomainRangeEnd(domain, id);
  expect_message("no domain (destroyed?)");
}

static void an_invalid_stream_opens_no_range(void **state) {
  (void)state;
  assert_true(mstxRangeStartA("range", &config) == 0);
  expect_message("is no stream");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(messages_are_checked),
      TEST(ranges_end_once_and_in_their_domain),
      TEST(domains_are_checked),
      TEST(an_invalid_stream_opens_no_range),
  };
  return cmocka_run_group_tests_name("mstx", tests, recording_up, recording_down);
}
