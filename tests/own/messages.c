/* SPDX-License-Identifier: Apache-2.0 */
/* The text of an error names the function, the argument, its value and the expected value. */
#include "acl_ops.h"

#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_mm.h"

static int wrong; /* counts failures, so that every call is tried before the test fails */

/* Checks that the message of the failing call contains each of the words. */
static void look_for(const char *call, aclError code, const char *const *words) {
  const char *message = aclGetRecentErrMsg();
  bool good = code != 0 && message;
  for (; good && *words; words++) good = strstr(message, *words) != NULL;
  if (good) return;
  print_error("%s\n  gave %d, message: %s\n  missing: %s\n", call, code, message ? message : "(none)",
              message && *words ? *words : "an error");
  wrong++;
}

#define SAYS(call, ...)                                                                                                \
  do {                                                                                                                 \
    aclGetRecentErrMsg();                                                                                              \
    aclError code_ = (call);                                                                                           \
    look_for(#call, code_, (const char *const[]){__VA_ARGS__, NULL});                                                  \
  } while (0)

static void runtime_messages_name_the_argument(void **state) {
  (void)state;
  char host[10], *dev = dev_new(100);
  void *p = NULL;
  int32_t i;
  aclrtStream stream = stream_new();
  aclrtEvent event = NULL;
  CHECK_OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
  wrong = 0;
  SAYS(aclrtGetRunMode(NULL), "aclrtGetRunMode", "runMode");
  SAYS(aclrtGetDevice(NULL), "aclrtGetDevice", "deviceId");
  SAYS(aclrtSetDevice(-5), "aclrtSetDevice", "deviceId", "-5");
  SAYS(aclrtSetDevice(777), "aclrtSetDevice", "deviceId", "777");
  SAYS(aclrtDeviceCanAccessPeer(&i, 0, 888), "peerDeviceId", "888");
  SAYS(aclrtCreateContext(NULL, 0), "aclrtCreateContext", "context");
  SAYS(aclrtCreateStream(NULL), "aclrtCreateStream", "stream");
  SAYS(aclrtSynchronizeStreamWithTimeout(stream, -9), "timeout", "-9");
  SAYS(aclrtSetStreamFailureMode(stream, 7), "mode", "7");
  SAYS(aclrtResetEvent(event, stream), "aclrtResetEvent", "event");
  SAYS(aclrtLaunchHostFunc(stream, NULL, NULL), "aclrtLaunchHostFunc", "fn");
  SAYS(aclrtProcessReport(-3), "timeout", "-3");
  SAYS(aclrtMalloc(NULL, 64, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc", "devPtr");
  SAYS(aclrtMalloc(&p, 0, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc", "size");
  SAYS(aclrtMalloc(&p, (size_t)1 << 60, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc", "1152921504606846976");
  SAYS(aclrtFree(NULL), "aclrtFree", "devPtr");
  SAYS(aclrtFree(dev + 64), "aclrtFree", "devPtr", "100"); /* the size of the block that contains the address */
  SAYS(aclrtMemcpy(NULL, 10, host, 10, ACL_MEMCPY_HOST_TO_DEVICE), "aclrtMemcpy", "dst");
  SAYS(aclrtMemcpy(dev, 10, NULL, 10, ACL_MEMCPY_HOST_TO_DEVICE), "aclrtMemcpy", "src");
  SAYS(aclrtMemcpy(dev, 5, host, 6, ACL_MEMCPY_HOST_TO_DEVICE), "count", "6", "5");
  SAYS(aclrtMemcpy(dev, 10, host, 10, (aclrtMemcpyKind)99), "kind", "99");
  SAYS(aclrtMemset(dev, 41, 0, 42), "count", "42", "41");
  CHECK_OK(aclrtFree(dev));
  CHECK_OK(aclrtDestroyEvent(event));
  CHECK_OK(aclrtDestroyStream(stream));
  assert_int_equal(wrong, 0);
}

/* Programs ignore the code of a repeated aclInit, so its message must not precede that of a later error. */
static void repeated_init_leaves_no_message(void **state) {
  (void)state;
  (void)aclGetRecentErrMsg();
  CHECK_CODE(ACL_ERROR_REPEAT_INITIALIZE, aclInit(NULL));
  assert_null(aclGetRecentErrMsg());
  CHECK_OK(aclFinalize());
  SAYS(aclInit("/nonexistent/acl.json"), "aclInit", "/nonexistent/acl.json");
  CHECK_OK(aclInit(NULL));
  assert_int_equal(wrong, 0);
}

/* ---- which messages belong to a failure ---- */

static void fail_with_size(void) {
  void *p;
  aclrtMalloc(&p, 0, ACL_MEM_MALLOC_HUGE_FIRST);
}

/* As frameworks do: they ask which device is current before one is, and for the version of packages that may be
 * absent. */
static void probe(void) {
  int32_t device;
  char unknown[] = "no_such_package", version[256];
  aclrtGetDevice(&device);
  aclsysGetVersionStr(unknown, version);
}

typedef struct {
  char text[2048];
  bool probes_first, succeeds_between, reads_late;
} probing;

static void *fail_after_probes(void *arg) {
  probing *p = arg;
  uint32_t n;
  if (p->probes_first) probe();
  if (p->succeeds_between) aclrtGetDeviceCount(&n);
  fail_with_size();
  for (int i = 0; i < 3 && p->reads_late; i++) aclrtGetDeviceCount(&n);
  const char *text = aclGetRecentErrMsg();
  snprintf(p->text, sizeof p->text, "%s", text ? text : "");
  return NULL;
}

static void the_message_of_a_probe_is_not_given_for_a_later_failure(void **state) {
  (void)state;
  static probing p = {.probes_first = true, .succeeds_between = true, .reads_late = true};
  on_thread(fail_after_probes, &p);
  assert_non_null(strstr(p.text, "aclrtMalloc: "));
  assert_null(strstr(p.text, "aclrtGetDevice: "));
  assert_null(strstr(p.text, "aclsysGetVersionStr"));
  assert_null(strchr(p.text, '\n'));
}

/* Failures in a row may be one matter: no message is lost. */
static void messages_of_failures_in_a_row_are_given_together(void **state) {
  (void)state;
  static probing p = {.probes_first = true};
  on_thread(fail_after_probes, &p);
  const char *newest = strstr(p.text, "aclrtMalloc: "), *middle = strstr(p.text, "aclsysGetVersionStr: "),
             *oldest = strstr(p.text, "aclrtGetDevice: ");
  assert_true(newest && middle && oldest);
  assert_true(newest < middle && middle < oldest);
}

static void a_failure_while_cleaning_up_does_not_hide_the_first(void **state) {
  (void)state;
  void *p = dev_new(64);
  fail_with_size();
  CHECK_OK(aclrtFree(p));
  CHECK_FAILS(aclrtFree(p));
  const char *text = aclGetRecentErrMsg();
  assert_non_null(text);
  assert_non_null(strstr(text, "aclrtFree: "));
  assert_non_null(strstr(text, "aclrtMalloc: "));
}

static void *only_probe(void *unused) {
  probe();
  return unused;
}

/* With err_msg_mode 1 a thread's failure removes its own older messages only. */
static void threads_that_share_messages_keep_those_of_others(void **state) {
  (void)state;
  const char *path = "messages.json";
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs("{\"err_msg_mode\": \"1\"}", file);
  fclose(file);
  CHECK_OK(aclFinalize());
  CHECK_OK(aclInit(path));
  remove(path);
  uint32_t n;
  void *p;
  CHECK_FAILS(aclrtGetRunMode(NULL));
  on_thread(only_probe, NULL);
  CHECK_OK(aclrtGetDeviceCount(&n));
  CHECK_FAILS(aclrtMalloc(&p, 0, ACL_MEM_MALLOC_HUGE_FIRST));
  const char *text = aclGetRecentErrMsg();
  assert_non_null(text);
  assert_non_null(strstr(text, "aclrtMalloc: "));
  assert_non_null(strstr(text, "aclsysGetVersionStr: "));
  assert_non_null(strstr(text, "aclrtGetDevice: "));
  assert_null(strstr(text, "aclrtGetRunMode: "));
  assert_null(aclGetRecentErrMsg());
  CHECK_OK(aclFinalize());
  CHECK_OK(aclInit(NULL));
}

static void operator_messages_name_the_argument_and_the_shapes(void **state) {
  (void)state;
  void *a = dev_new(1024);
  uint64_t bytes;
  aclOpExecutor *executor;
  aclScalar *one = float_scalar(1);
  aclTensor *x = TENSOR(a, ACL_FLOAT, 2, 3), *y = TENSOR(a, ACL_FLOAT, 4), *z = TENSOR(a, ACL_STRING, 2, 3);
  wrong = 0;
  SAYS(aclnnAddGetWorkspaceSize(NULL, x, one, x, &bytes, &executor), "Add", "self");
  SAYS(aclnnAddGetWorkspaceSize(x, NULL, one, x, &bytes, &executor), "Add", "other");
  SAYS(aclnnAddGetWorkspaceSize(x, x, NULL, x, &bytes, &executor), "Add", "alpha");
  SAYS(aclnnAddGetWorkspaceSize(x, y, one, x, &bytes, &executor), "other", "3", "4");
  SAYS(aclnnAddGetWorkspaceSize(x, x, one, y, &bytes, &executor), "out", "4");
  SAYS(aclnnAddGetWorkspaceSize(z, x, one, x, &bytes, &executor), "self", "STRING");
  SAYS(aclnnMmGetWorkspaceSize(x, x, x, 0, &bytes, &executor), "Mm", "mat2", "3");
  CHECK_OK(aclDestroyTensor(x));
  CHECK_OK(aclDestroyTensor(y));
  CHECK_OK(aclDestroyTensor(z));
  CHECK_OK(aclDestroyScalar(one));
  CHECK_OK(aclrtFree(a));
  assert_int_equal(wrong, 0);
}

/* One machine has no other servers, and no links between dies. */
static void calls_that_need_several_servers_say_so(void **state) {
  (void)state;
  aclrtNotify notify;
  aclrtServerPid pids = {0};
  char key[65] = "";
  void *p = dev_new(2 << 20);
  CHECK_OK(aclrtCreateNotify(&notify, 0));
  CHECK_OK(aclrtIpcMemGetExportKey(p, 2 << 20, key, sizeof key, 0));
  wrong = 0;
  SAYS(aclrtNotifySetImportPidInterServer(notify, &pids, 1), "no other servers");
  SAYS(aclrtIpcMemImportPidInterServer(key, &pids, 1), "no other servers");
  SAYS(aclrtIpcMemSetAttr(key, (aclrtIpcMemAttrType)0, 0), "links between dies");
  CHECK_CODE(207000, aclrtIpcMemSetAttr(key, (aclrtIpcMemAttrType)0, 0));
  CHECK_OK(aclrtIpcMemClose(key));
  CHECK_OK(aclrtDestroyNotify(notify));
  CHECK_OK(aclrtFree(p));
  assert_int_equal(wrong, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(calls_that_need_several_servers_say_so),
      TEST(runtime_messages_name_the_argument),
      TEST(repeated_init_leaves_no_message),
      TEST(the_message_of_a_probe_is_not_given_for_a_later_failure),
      TEST(messages_of_failures_in_a_row_are_given_together),
      TEST(a_failure_while_cleaning_up_does_not_hide_the_first),
      TEST(threads_that_share_messages_keep_those_of_others),
      TEST(operator_messages_name_the_argument_and_the_shapes),
  };
  return cmocka_run_group_tests(tests, device_up, device_down);
}
