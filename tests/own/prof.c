/* SPDX-License-Identifier: Apache-2.0 */
/* The profiler, as far as Cannon's behaviour goes beyond CANN's documentation: sessions start and stop while other
 * threads work, data that cannot be recorded is refused with a message, and a forked child records nothing. */
#include <dirent.h>
#include <dlfcn.h>
#include <ftw.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl_ops.h"
#include "folder.h"

#include "acl/acl_prof.h"
#include "aclnnop/aclnn_add.h"

static int folder_up(void **state) {
  device_up(state);
  folder_make();
  return 0;
}

static int folder_down(void **state) {
  folder_remove();
  return device_down(state);
}

static int settle_session(void **state) {
  aclprofFinalize();
  return settle_ops(state);
}

#define PROF_TEST(function) cmocka_unit_test_teardown(function, settle_session)

static aclprofConfig *config_of(uint64_t switches) {
  uint32_t device = 0;
  aclprofConfig *c = aclprofCreateConfig(&device, 1, ACL_AICORE_NONE, NULL, switches);
  assert_non_null(c);
  return c;
}

static void session_open(aclprofConfig *c) {
  CHECK_OK(aclprofInit(folder, strlen(folder)));
  CHECK_OK(aclprofStart(c));
}

static void session_close(aclprofConfig *c) {
  CHECK_OK(aclprofStop(c));
  CHECK_OK(aclprofFinalize());
}

static off_t bytes_written;
static int add_bytes(const char *path, const struct stat *s, int type, struct FTW *f) {
  (void)path;
  (void)f;
  if (type == FTW_F) bytes_written += s->st_size;
  return 0;
}

static off_t bytes_of_all_sessions(void) {
  bytes_written = 0;
  nftw(folder, add_bytes, 8, FTW_PHYS);
  return bytes_written;
}

static void message_has(aclError code, aclError want, const char *words) {
  const char *message = aclGetRecentErrMsg();
  assert_int_equal(code, want);
  assert_non_null(message);
  if (!strstr(message, words)) fail_msg("message '%s' lacks '%s'", message, words);
}

static void hardware_samples_are_refused_with_a_message(void **state) {
  (void)state;
  CHECK_OK(aclprofInit(folder, strlen(folder)));
  for (int type = ACL_PROF_AIV_METRICS; type < ACL_PROF_ARGS_MAX; ++type)
    message_has(aclprofSetConfig((aclprofConfigType)type, "50", 2), ACL_ERROR_PROF_MODULES_UNSUPPORTED, "hardware");
  CHECK_OK(aclprofFinalize());
}

static void destroyed_objects_are_reported(void **state) {
  (void)state;
  aclprofConfig *c = config_of(ACL_PROF_MSPROFTX), *gone = config_of(ACL_PROF_ACL_API);
  CHECK_OK(aclprofDestroyConfig(gone));
  message_has(aclprofDestroyConfig(gone), ACL_ERROR_INVALID_PARAM, "destroyed?");
  session_open(c);
  message_has(aclprofStart(gone), ACL_ERROR_INVALID_PARAM, "no config");
  void *stamp = aclprofCreateStamp();
  CHECK_OK(aclprofPush(stamp));
  message_has(aclprofPush(stamp), ACL_ERROR_INVALID_PARAM, "open span");
  aclprofDestroyStamp(stamp); /* destroying the stamp ends its span */
  message_has(aclprofPop(), ACL_ERROR_INVALID_PARAM, "no span");
  message_has(aclprofMark(stamp), ACL_ERROR_INVALID_PARAM, "destroyed?");
  aclprofStepInfo *step = aclprofCreateStepInfo();
  aclprofDestroyStepInfo(step);
  message_has(aclprofGetStepTimestamp(step, ACL_STEP_START, NULL), ACL_ERROR_INVALID_PARAM, "no step");
  session_close(c);
  CHECK_OK(aclprofDestroyConfig(c));
}

static void stopping_with_another_configuration_is_refused(void **state) {
  (void)state;
  aclprofConfig *c = config_of(ACL_PROF_TASK_TIME), *equal = config_of(ACL_PROF_TASK_TIME),
                *other = config_of(ACL_PROF_ACL_API);
  session_open(c);
  message_has(aclprofStop(other), ACL_ERROR_INVALID_PROFILING_CONFIG, "dataTypeConfig");
  CHECK_OK(aclprofStop(equal));
  CHECK_OK(aclprofFinalize());
  CHECK_OK(aclprofDestroyConfig(c));
  CHECK_OK(aclprofDestroyConfig(equal));
  CHECK_OK(aclprofDestroyConfig(other));
}

static void a_child_of_a_fork_records_nothing(void **state) {
  (void)state;
  aclprofConfig *c = config_of(ACL_PROF_ACL_API | ACL_PROF_MSPROFTX);
  int status = 0;
  session_open(c);
  int32_t device;
  CHECK_OK(aclrtGetDevice(&device));
  /* wait until the library's threads have started: ASan does not survive a fork while another thread allocates */
  nap_ms(100);
  const pid_t child = fork();
  if (!child) {
    aclrtGetDevice(&device);
    exit(aclprofCreateStamp() ? 1 : 0);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  const off_t before = bytes_of_all_sessions();
  session_close(c); /* writes the buffered data: the one call, once */
  assert_true(bytes_of_all_sessions() > before);
  CHECK_OK(aclprofDestroyConfig(c));
}

/* ---- which calls are recorded ------------------------------------------------------------------------------------ */

static char names_text[1 << 16];
static size_t names_bytes;
static int read_names(const char *path, const struct stat *s, int type, struct FTW *f) {
  (void)s;
  if (type != FTW_F || strcmp(path + f->base, "names") != 0) return 0;
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  names_bytes += fread(names_text + names_bytes, 1, sizeof names_text - names_bytes, file);
  fclose(file);
  return 0;
}

/* Every way out of an entry point ends in the timeline: an early return for a NULL, a getter, a function that returns
 * nothing or a pointer, an allocation from the thread's cache. */
static void every_call_is_recorded_however_it_ends(void **state) {
  static const char *const expected[] = {
      "aclrtGetDeviceCount", "aclrtStreamGetId",     "aclrtMalloc",          "aclrtFree",
      "aclCreateDataBuffer", "aclGetDataBufferAddr", "aclDestroyTensorDesc", "aclnnAddGetWorkspaceSize"};
  (void)state;
  aclprofConfig *c = config_of(ACL_PROF_ACL_API);
  uint32_t count;
  void *block;
  CHECK_OK(aclrtMalloc(&block, 64, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK_OK(aclrtFree(block)); /* the thread keeps the block */
  session_open(c);
  CHECK_OK(aclrtGetDeviceCount(&count));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtStreamGetId(NULL, NULL));
  CHECK_OK(aclrtMalloc(&block, 64, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK_OK(aclrtFree(block));
  aclDataBuffer *buffer = aclCreateDataBuffer(NULL, 0);
  assert_null(aclGetDataBufferAddr(buffer));
  CHECK_OK(aclDestroyDataBuffer(buffer));
  aclDestroyTensorDesc(NULL);
  CHECK_CODE(161001, aclnnAddGetWorkspaceSize(NULL, NULL, NULL, NULL, NULL, NULL));
  session_close(c);
  CHECK_OK(aclprofDestroyConfig(c));
  assert_int_equal(nftw(folder, read_names, 8, FTW_PHYS), 0); /* of earlier sessions too */
  for (size_t i = 0; i < sizeof expected / sizeof *expected; ++i)
    if (!memmem(names_text, names_bytes, expected[i], strlen(expected[i]))) fail_msg("%s is not there", expected[i]);
}

/* ---- while others work ------------------------------------------------------------------------------------------- */

static atomic_bool over;

static void *work(void *unused) {
  (void)unused;
  float one = 1;
  void *p = NULL;
  aclrtStream stream = NULL;
  atomic_int failures = 0;
  failures += aclrtSetDevice(0) || aclrtMalloc(&p, 4096, ACL_MEM_MALLOC_HUGE_FIRST) || aclrtCreateStream(&stream) ||
              aclrtMemset(p, 4096, 0, 4096);
  while (!atomic_load(&over)) {
    uint64_t bytes;
    aclOpExecutor *e;
    aclTensor *t = tensor_new(p, ACL_FLOAT, DIMS(16, 16));
    aclScalar *alpha = aclCreateScalar(&one, ACL_FLOAT);
    failures += aclnnAddGetWorkspaceSize(t, t, alpha, t, &bytes, &e) != 0;
    failures += aclnnAdd(NULL, 0, e, stream) != 0;
    aclDestroyTensor(t);
    aclDestroyScalar(alpha);
    void *stamp = aclprofCreateStamp(); /* NULL between sessions */
    if (stamp) {
      aclprofPush(stamp);
      aclprofPop();
      aclprofDestroyStamp(stamp);
    }
    failures += aclrtSynchronizeStream(stream) != 0;
  }
  failures += aclrtDestroyStream(stream) || aclrtFree(p) || aclrtResetDevice(0);
  return (void *)(intptr_t)failures;
}

static void sessions_start_and_stop_during_activity(void **state) {
  (void)state;
  enum { THREADS = 3, SESSIONS = 30 };
  pthread_t threads[THREADS];
  atomic_store(&over, false);
  for (int i = 0; i < THREADS; ++i) threads[i] = thread_start(work, NULL);
  aclprofConfig *c = config_of(ACL_PROF_ACL_API | ACL_PROF_TASK_TIME | ACL_PROF_MSPROFTX);
  for (int i = 0; i < SESSIONS; ++i) {
    session_open(c);
    nap_ms(2);
    session_close(c);
  }
  atomic_store(&over, true);
  intptr_t failures = 0;
  for (int i = 0; i < THREADS; ++i) {
    void *result;
    assert_int_equal(pthread_join(threads[i], &result), 0);
    failures += (intptr_t)result;
  }
  CHECK_OK(aclprofDestroyConfig(c));
  assert_int_equal(failures, 0);
}

/* ---- the driver's library ---------------------------------------------------------------------------------------- */

static void libascend_hal_answers_the_queries_of_clients(void **state) {
  (void)state;
  void *library = dlopen("libascend_hal.so", RTLD_NOW);
  if (!library) fail_msg("%s", dlerror());
  int (*version)(int *) = (int (*)(int *))dlsym(library, "halGetAPIVersion");
  int (*info)(uint32_t, int32_t, int32_t, int64_t *) =
      (int (*)(uint32_t, int32_t, int32_t, int64_t *))dlsym(library, "halGetDeviceInfo");
  assert_non_null(version);
  assert_non_null(info);
  int number = 0;
  int64_t value = 0, later = 0;
  CHECK_OK(version(&number));
  assert_true(number >= 0x070000);
  assert_int_not_equal(version(NULL), 0);
  CHECK_OK(info(0, 0, 14, &value)); /* time of the device's clock */
  CHECK_OK(info(0, 0, 14, &later));
  assert_true(value > 0 && later >= value);
  CHECK_OK(info(0, 4, 3, &value)); /* number of AI cores */
  assert_true(value > 0 && value < 100);
  assert_int_equal(info(0, 0, 24, &value), 0xfffe); /* the counter's frequency is not known exactly */
  assert_int_equal(info(99, 0, 14, &value), 2);
  assert_int_not_equal(info(0, 0, 14, NULL), 0);
  dlclose(library);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      PROF_TEST(hardware_samples_are_refused_with_a_message),    PROF_TEST(destroyed_objects_are_reported),
      PROF_TEST(stopping_with_another_configuration_is_refused), PROF_TEST(a_child_of_a_fork_records_nothing),
      PROF_TEST(every_call_is_recorded_however_it_ends),         PROF_TEST(sessions_start_and_stop_during_activity),
      PROF_TEST(libascend_hal_answers_the_queries_of_clients),
  };
  return cmocka_run_group_tests(tests, folder_up, folder_down);
}
