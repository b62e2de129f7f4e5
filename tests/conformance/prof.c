/* SPDX-License-Identifier: Apache-2.0 */
/* The profiler: the order of its calls, its configurations, marks, ranges and steps. */
#include <dirent.h>
#include <dlfcn.h>
#include <regex.h>
#include <sys/stat.h>
#include <unistd.h>

#include "acl_test.h"
#include "folder.h"

#include "acl/acl_prof.h"

static int folder_up(void **state) {
  device_up(state);
  folder_make();
  return 0;
}

static int folder_down(void **state) {
  folder_remove();
  return device_down(state);
}

/* After each test no session is open. */
static int settle_session(void **state) {
  aclprofFinalize();
  return settle(state);
}

#define PROF_TEST(function) cmocka_unit_test_teardown(function, settle_session)

static aclError init(void) { return aclprofInit(folder, strlen(folder)); }

static aclprofConfig *config_of(uint64_t switches) {
  uint32_t device = 0;
  aclprofConfig *c = aclprofCreateConfig(&device, 1, ACL_AICORE_NONE, NULL, switches);
  assert_non_null(c);
  return c;
}

/* Starts a session that records; session_close ends it. */
static aclprofConfig *session_open(uint64_t switches) {
  aclprofConfig *c = config_of(switches);
  CHECK_OK(init());
  CHECK_OK(aclprofStart(c));
  return c;
}

static void session_close(aclprofConfig *c) {
  CHECK_OK(aclprofStop(c));
  CHECK_OK(aclprofDestroyConfig(c));
  CHECK_OK(aclprofFinalize());
}

/* Counts the entries of a folder whose names match; stores the path of the last one in `last`. */
static int n_matching(const char *path, const char *expression, char *last, size_t size) {
  regex_t pattern;
  int n = 0;
  assert_int_equal(regcomp(&pattern, expression, REG_EXTENDED | REG_NOSUB), 0);
  DIR *dir = opendir(path);
  for (struct dirent *e; dir && (e = readdir(dir));)
    if (regexec(&pattern, e->d_name, 0, NULL, 0) == 0) {
      snprintf(last, size, "%s/%s", path, e->d_name);
      ++n;
    }
  if (dir) closedir(dir);
  regfree(&pattern);
  return n;
}

/* ---- sessions ---------------------------------------------------------------------------------------------------- */

static void a_session_writes_its_folder(void **state) {
  (void)state;
  char session[512], part[600];
  aclprofConfig *c = session_open(ACL_PROF_ACL_API | ACL_PROF_TASK_TIME);
  void *p = dev_filled(1, 1 << 20);
  session_close(c);
  CHECK_OK(aclrtFree(p));
  assert_true(n_matching(folder, "^PROF_[0-9]+_[0-9]+_[0-9a-zA-Z]+$", session, sizeof session) >= 1);
  assert_int_equal(n_matching(session, "^host$", part, sizeof part), 1);
  assert_int_equal(n_matching(session, "^device_0$", part, sizeof part), 1);
}

static void the_order_of_calls_is_checked(void **state) {
  (void)state;
  aclprofConfig *c = config_of(ACL_PROF_TASK_TIME_L0);
  CHECK_OK(init());
  CHECK_CODE(ACL_ERROR_REPEAT_INITIALIZE, init());
  CHECK_FAILS(aclprofStop(c)); /* not started */
  CHECK_OK(aclprofStart(c));
  CHECK_FAILS(aclprofStart(c));
  aclprofConfig *same_device = config_of(ACL_PROF_ACL_API);
  CHECK_FAILS(aclprofStart(same_device));
  CHECK_OK(aclprofDestroyConfig(same_device));
  CHECK_OK(aclprofStop(c));
  CHECK_OK(aclprofStart(c)); /* may be started again */
  CHECK_OK(aclprofStop(c));
  CHECK_OK(aclprofFinalize());
  CHECK_OK(init()); /* another session */
  CHECK_OK(aclprofFinalize());
  CHECK_OK(aclprofDestroyConfig(c));
}

static void nothing_works_without_a_session(void **state) {
  (void)state;
  aclprofConfig *c = config_of(ACL_PROF_TASK_TIME_L0);
  CHECK_CODE(ACL_ERROR_PROF_NOT_RUN, aclprofStart(c));
  CHECK_CODE(ACL_ERROR_PROF_NOT_RUN, aclprofStop(c));
  CHECK_CODE(ACL_ERROR_PROF_NOT_RUN, aclprofFinalize());
  CHECK_OK(aclprofDestroyConfig(c));
}

static void the_path_is_checked(void **state) {
  (void)state;
  char longest[4097];
  memset(longest, 'a', sizeof longest - 1);
  longest[sizeof longest - 1] = '\0';
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclprofInit(NULL, 4));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclprofInit(folder, 0));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclprofInit(folder, strlen(folder) + 1));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclprofInit(longest, sizeof longest));
  CHECK_FAILS(aclprofInit("/proc/no/such", 13));
}

static void relative_paths_start_at_the_working_folder(void **state) {
  (void)state;
  char before[4096], session[512], made[128];
  assert_non_null(getcwd(before, sizeof before));
  assert_int_equal(chdir(folder), 0);
  CHECK_OK(aclprofInit("deep/er", 7));
  aclprofConfig *c = config_of(ACL_PROF_TASK_TIME_L0);
  assert_int_equal(chdir("/"), 0);
  CHECK_OK(aclprofStart(c));
  session_close(c);
  assert_int_equal(chdir(before), 0);
  snprintf(made, sizeof made, "%s/deep/er", folder);
  assert_int_equal(n_matching(made, "^PROF_", session, sizeof session), 1);
}

static void the_end_of_a_session_stops_recording(void **state) {
  (void)state;
  aclprofConfig *c = session_open(ACL_PROF_TASK_TIME_L0 | ACL_PROF_MSPROFTX);
  CHECK_OK(aclprofFinalize());
  assert_null(aclprofCreateStamp());
  CHECK_OK(aclprofDestroyConfig(c));
}

static void profiling_configured_by_aclinit_excludes_aclprof(void **state) {
  (void)state;
  char file[80], output[80], session[512];
  snprintf(file, sizeof file, "%s/acl.json", folder);
  snprintf(output, sizeof output, "%s/of-init", folder);
  assert_int_equal(mkdir(output, 0750), 0);
  FILE *f = fopen(file, "w");
  assert_non_null(f);
  fprintf(f, "{\"profiler\":{\"switch\":\"on\",\"output\":\"%s\",\"aic_metrics\":\"PipeUtilization\"}}", output);
  fclose(f);
  aclprofConfig *c = config_of(ACL_PROF_TASK_TIME_L0);
  CHECK_OK(aclFinalize());
  CHECK_OK(aclInit(file));
  CHECK_CODE(ACL_ERROR_PROF_ALREADY_RUN, init());
  CHECK_CODE(ACL_ERROR_PROF_ALREADY_RUN, aclprofStart(c));
  CHECK_CODE(ACL_ERROR_PROF_ALREADY_RUN, aclprofStop(c));
  CHECK_CODE(ACL_ERROR_PROF_ALREADY_RUN, aclprofFinalize());
  CHECK_OK(aclFinalize());
  CHECK_OK(aclInit(NULL));
  CHECK_OK(init());
  CHECK_OK(aclprofFinalize());
  CHECK_OK(aclprofDestroyConfig(c));
  assert_int_equal(n_matching(output, "^PROF_", session, sizeof session), 1);
}

/* ---- configurations ---------------------------------------------------------------------------------------------- */

static void configs_are_checked(void **state) {
  (void)state;
  uint32_t twice[] = {0, 0}, none[] = {12345};
  int events;
  assert_null(aclprofCreateConfig(NULL, 1, ACL_AICORE_NONE, NULL, ACL_PROF_TASK_TIME));
  assert_null(aclprofCreateConfig(twice, 2, ACL_AICORE_NONE, NULL, ACL_PROF_TASK_TIME));
  assert_null(aclprofCreateConfig(none, 1, ACL_AICORE_NONE, NULL, ACL_PROF_TASK_TIME));
  assert_null(aclprofCreateConfig(twice, 0, ACL_AICORE_NONE, NULL, ACL_PROF_TASK_TIME));
  assert_null(aclprofCreateConfig(twice, 100, ACL_AICORE_NONE, NULL, ACL_PROF_TASK_TIME));
  assert_null(aclprofCreateConfig(twice, 1, ACL_AICORE_NONE, (void *)&events, ACL_PROF_TASK_TIME));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclprofDestroyConfig(NULL));
}

static void marks_need_no_device(void **state) {
  (void)state;
  aclprofConfig *c = aclprofCreateConfig(NULL, 0, ACL_AICORE_NONE, NULL, ACL_PROF_MSPROFTX);
  assert_non_null(c);
  CHECK_OK(init());
  CHECK_OK(aclprofStart(c));
  void *stamp = aclprofCreateStamp();
  assert_non_null(stamp);
  CHECK_OK(aclprofMark(stamp));
  aclprofDestroyStamp(stamp);
  session_close(c);
}

static void unknown_switches_are_refused(void **state) {
  (void)state;
  aclprofConfig *c = config_of(ACL_PROF_TASK_TIME | UINT64_C(1) << 62);
  CHECK_OK(init());
  CHECK_CODE(ACL_ERROR_PROF_MODULES_UNSUPPORTED, aclprofStart(c));
  CHECK_OK(aclprofDestroyConfig(c));
  CHECK_OK(aclprofFinalize());
}

static void options_are_checked(void **state) {
  (void)state;
  char longest[258];
  memset(longest, '1', sizeof longest - 1);
  longest[sizeof longest - 1] = '\0';
  CHECK_OK(init());
  CHECK_OK(aclprofSetConfig(ACL_PROF_STORAGE_LIMIT, "200MB", 5));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclprofSetConfig(ACL_PROF_STORAGE_LIMIT, NULL, 5));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclprofSetConfig(ACL_PROF_STORAGE_LIMIT, "200MB", 4));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclprofSetConfig(ACL_PROF_STORAGE_LIMIT, longest, 257));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclprofSetConfig(ACL_PROF_ARGS_MIN, "1", 1));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclprofSetConfig((aclprofConfigType)1000, "1", 1));
  CHECK_CODE(ACL_ERROR_INVALID_PROFILING_CONFIG, aclprofSetConfig(ACL_PROF_STORAGE_LIMIT, "10MB", 4));
  CHECK_CODE(ACL_ERROR_INVALID_PROFILING_CONFIG, aclprofSetConfig(ACL_PROF_STORAGE_LIMIT, "much", 4));
  CHECK_OK(aclprofFinalize());
}

/* ---- marks ------------------------------------------------------------------------------------------------------- */

static void marks_in_streams(void **state) {
  (void)state;
  char text[129];
  memset(text, 'm', sizeof text - 1);
  text[128] = '\0';
  aclrtStream stream = stream_new();
  CHECK_FAILS(aclprofMarkEx("early", 5, stream));
  aclprofConfig *c = session_open(ACL_PROF_TASK_TIME | ACL_PROF_MSPROFTX);
  CHECK_OK(aclprofMarkEx("forward", 7, stream));
  CHECK_FAILS(aclprofMarkEx(NULL, 7, stream));
  CHECK_FAILS(aclprofMarkEx("forward", 0, stream));
  CHECK_FAILS(aclprofMarkEx(text, 128, stream));
  CHECK_FAILS(aclprofMarkEx("forward", 7, NULL));
  text[127] = '\0';
  CHECK_OK(aclprofMarkEx(text, 127, stream));
  CHECK_OK(aclrtSynchronizeStream(stream));
  session_close(c);
  CHECK_OK(aclrtDestroyStream(stream));
}

static void traces_must_have_18_bytes(void **state) {
  (void)state;
  uint8_t data[32] = {1};
  aclrtStream stream = stream_new();
  aclprofConfig *c = session_open(ACL_PROF_TASK_TIME);
  CHECK_OK(aclrtProfTrace(data, 18, stream));
  CHECK_OK(aclrtProfTrace(data, 3, stream));
  CHECK_FAILS(aclrtProfTrace(data, 19, stream));
  CHECK_FAILS(aclrtProfTrace(NULL, 18, stream));
  CHECK_OK(aclrtSynchronizeStream(stream));
  session_close(c);
  CHECK_OK(aclrtDestroyStream(stream));
}

static void stamps_can_be_created_only_while_marks_are_recorded(void **state) {
  (void)state;
  assert_null(aclprofCreateStamp());
  aclprofConfig *c = session_open(ACL_PROF_MSPROFTX);
  void *stamp = aclprofCreateStamp();
  assert_non_null(stamp);
  CHECK_OK(aclprofSetStampTraceMessage(stamp, "step", 4));
  CHECK_FAILS(aclprofSetStampTraceMessage(NULL, "step", 4));
  CHECK_FAILS(aclprofSetStampTraceMessage(stamp, "step", 128));
  CHECK_OK(aclprofMark(stamp));
  CHECK_FAILS(aclprofMark(NULL));
  aclprofDestroyStamp(stamp);
  aclprofDestroyStamp(NULL);
  session_close(c);
}

static void spans_of_a_thread_nest(void **state) {
  (void)state;
  aclprofConfig *c = session_open(ACL_PROF_MSPROFTX);
  void *outer = aclprofCreateStamp(), *inner = aclprofCreateStamp();
  CHECK_FAILS(aclprofPop());
  CHECK_FAILS(aclprofPush(NULL));
  CHECK_OK(aclprofPush(outer));
  CHECK_OK(aclprofPush(inner));
  CHECK_OK(aclprofPop());
  CHECK_OK(aclprofPop());
  CHECK_FAILS(aclprofPop());
  CHECK_OK(aclprofPush(outer)); /* the same stamp again */
  CHECK_OK(aclprofPop());
  aclprofDestroyStamp(outer);
  aclprofDestroyStamp(inner);
  session_close(c);
}

static void *pop_elsewhere(void *arg) {
  *(aclError *)arg = aclprofPop();
  return NULL;
}

static void *stop_elsewhere(void *arg) {
  *(aclError *)arg = aclprofRangeStop(*(uint32_t *)arg);
  return NULL;
}

static void ranges_may_end_in_other_threads_and_spans_may_not(void **state) {
  (void)state;
  aclprofConfig *c = session_open(ACL_PROF_MSPROFTX);
  void *a = aclprofCreateStamp(), *b = aclprofCreateStamp();
  uint32_t first = 0, second = 0;
  aclError popped = 0;
  CHECK_OK(aclprofPush(a));
  on_thread(pop_elsewhere, &popped);
  CHECK_FAILS(popped);
  CHECK_OK(aclprofPop());
  CHECK_OK(aclprofRangeStart(a, &first));
  CHECK_OK(aclprofRangeStart(b, &second));
  CHECK_FAILS(aclprofRangeStart(b, NULL));
  assert_int_not_equal(first, second);
  aclError stopped = (aclError)first;
  on_thread(stop_elsewhere, &stopped);
  CHECK_OK(stopped);
  CHECK_OK(aclprofRangeStop(second));
  CHECK_FAILS(aclprofRangeStop(second + 1000));
  aclprofDestroyStamp(a);
  aclprofDestroyStamp(b);
  session_close(c);
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

static void steps_begin_and_end_once(void **state) {
  (void)state;
  aclrtStream stream = stream_new();
  aclprofConfig *c = session_open(ACL_PROF_TASK_TIME | ACL_PROF_TRAINING_TRACE);
  aclprofStepInfo *step = aclprofCreateStepInfo();
  assert_non_null(step);
  CHECK_OK(aclprofGetStepTimestamp(step, ACL_STEP_START, stream));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclprofGetStepTimestamp(step, ACL_STEP_START, stream));
  CHECK_OK(aclprofGetStepTimestamp(step, ACL_STEP_END, stream));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclprofGetStepTimestamp(step, ACL_STEP_END, stream));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclprofGetStepTimestamp(NULL, ACL_STEP_START, stream));
  CHECK_OK(aclrtSynchronizeStream(stream));
  aclprofDestroyStepInfo(step);
  aclprofDestroyStepInfo(NULL);
  session_close(c);
  CHECK_OK(aclrtDestroyStream(stream));
}

/* ---- functions that frameworks look up in libmsprofiler.so ------------------------------------------------------- */

static void libmsprofiler_exports_the_functions_clients_look_up(void **state) {
  (void)state;
  void *library = dlopen("libmsprofiler.so", RTLD_LAZY | RTLD_GLOBAL);
  if (!library) fail_msg("%s", dlerror());
  aclError (*warm_up)(const aclprofConfig *) = (aclError(*)(const aclprofConfig *))dlsym(library, "aclprofWarmup");
  aclError (*features)(size_t *, void **) =
      (aclError(*)(size_t *, void **))dlsym(library, "aclprofGetSupportedFeaturesV2");
  assert_non_null(dlsym(library, "aclprofGetSupportedFeatures"));
  assert_non_null(warm_up);
  assert_non_null(features);
  assert_non_null(dlsym(library, "aclprofSetConfig"));
  assert_non_null(dlsym(library, "aclprofMarkEx"));
  size_t n = 99;
  void *list = NULL;
  CHECK_OK(features(&n, &list));
  assert_true(n < 99 && (n == 0 || list));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, features(NULL, &list));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, features(&n, NULL));

  aclprofConfig *c = config_of(ACL_PROF_TASK_TIME_L0);
  CHECK_CODE(ACL_ERROR_PROF_NOT_RUN, warm_up(c));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, warm_up(NULL));
  CHECK_OK(init());
  CHECK_OK(warm_up(c));
  CHECK_OK(aclprofStart(c));
  CHECK_CODE(ACL_ERROR_PROF_API_CONFLICT, warm_up(c));
  session_close(c);
  dlclose(library);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      PROF_TEST(a_session_writes_its_folder),
      PROF_TEST(the_order_of_calls_is_checked),
      PROF_TEST(nothing_works_without_a_session),
      PROF_TEST(the_path_is_checked),
      PROF_TEST(relative_paths_start_at_the_working_folder),
      PROF_TEST(the_end_of_a_session_stops_recording),
      PROF_TEST(profiling_configured_by_aclinit_excludes_aclprof),
      PROF_TEST(configs_are_checked),
      PROF_TEST(marks_need_no_device),
      PROF_TEST(unknown_switches_are_refused),
      PROF_TEST(options_are_checked),
      PROF_TEST(marks_in_streams),
      PROF_TEST(traces_must_have_18_bytes),
      PROF_TEST(stamps_can_be_created_only_while_marks_are_recorded),
      PROF_TEST(spans_of_a_thread_nest),
      PROF_TEST(ranges_may_end_in_other_threads_and_spans_may_not),
      PROF_TEST(steps_begin_and_end_once),
      PROF_TEST(libmsprofiler_exports_the_functions_clients_look_up),
  };
  return cmocka_run_group_tests(tests, folder_up, folder_down);
}
