/* SPDX-License-Identifier: Apache-2.0 */
/* mstx: the program's own marks and ranges, with and without recording. */
#include "acl_test.h"
#include "folder.h"

#include "acl/acl_prof.h"
#include "mstx/ms_tools_ext.h"

static int folder_up(void **state) {
  device_up(state);
  folder_make();
  return 0;
}

static int folder_down(void **state) {
  folder_remove();
  return device_down(state);
}

static aclprofConfig *recording_starts(void) {
  uint32_t device = 0;
  aclprofConfig *c = aclprofCreateConfig(&device, 1, ACL_AICORE_NONE, NULL, ACL_PROF_MSPROFTX);
  assert_non_null(c);
  CHECK_OK(aclprofInit(folder, strlen(folder)));
  CHECK_OK(aclprofStart(c));
  return c;
}

static void recording_ends(aclprofConfig *c) {
  CHECK_OK(aclprofStop(c));
  CHECK_OK(aclprofFinalize());
  CHECK_OK(aclprofDestroyConfig(c));
}

static void calls_do_nothing_while_nothing_is_recorded(void **state) {
  (void)state;
  aclrtStream stream = stream_new();
  mstxMarkA("moment", NULL);
  mstxMarkA("moment", stream);
  mstxRangeEnd(mstxRangeStartA("range", stream));
  mstxRangeEnd(0);
  CHECK_OK(aclrtDestroyStream(stream));
}

static void *end_range(void *id) {
  mstxRangeEnd(*(mstxRangeId *)id);
  return NULL;
}

static void ranges_have_distinct_ids(void **state) {
  (void)state;
  aclprofConfig *c = recording_starts();
  aclrtStream stream = stream_new();
  mstxRangeId outer = mstxRangeStartA("outer", NULL), inner = mstxRangeStartA("inner", stream);
  assert_true(outer && inner && outer != inner);
  mstxMarkA("moment", stream);
  on_thread(end_range, &outer); /* not nested, and ended by another thread */
  mstxRangeEnd(inner);
  CHECK_OK(aclrtSynchronizeStream(stream));
  CHECK_OK(aclrtDestroyStream(stream));
  recording_ends(c);
}

static void domains_hold_marks(void **state) {
  (void)state;
  aclprofConfig *c = recording_starts();
  mstxDomainHandle_t domain = mstxDomainCreateA("Domain_1");
  assert_non_null(domain);
  mstxDomainMarkA(domain, "moment", NULL);
  mstxDomainMarkA(globalDomain, "moment", NULL);
  const mstxRangeId id = mstxDomainRangeStartA(domain, "range", NULL);
  assert_true(id);
  mstxDomainRangeEnd(domain, id);
  mstxDomainDestroy(domain);
  recording_ends(c);
}

static void a_range_needs_a_message(void **state) {
  (void)state;
  aclprofConfig *c = recording_starts();
  assert_true(mstxRangeStartA(NULL, NULL) == 0);
  mstxMarkA(NULL, NULL);
  assert_null(mstxDomainCreateA(NULL));
  recording_ends(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(calls_do_nothing_while_nothing_is_recorded),
      TEST(ranges_have_distinct_ids),
      TEST(domains_hold_marks),
      TEST(a_range_needs_a_message),
  };
  return cmocka_run_group_tests_name("mstx", tests, folder_up, folder_down);
}
