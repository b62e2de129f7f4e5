/* SPDX-License-Identifier: Apache-2.0 */
/* Invalid input for every function, with the code that it must return. Where the documentation gives no number, any
 * error is accepted. Cases that need more set-up (copies, frees, subscriptions) are in the file of their family. */
#include "acl_ops.h"

#include "aclnnop/aclnn_add.h"

enum {
  NULL_POINTER = ACL_ERROR_INVALID_PARAM,
  STALE = ACL_ERROR_RT_PARAM_INVALID,
  NO_SUCH = ACL_ERROR_RT_INVALID_DEVICEID
};

static int wrong; /* counts mismatches, so that every line of a table is tried before the test fails */

#define BAD(want, call)                                                                                                \
  do {                                                                                                                 \
    aclError got_ = (call);                                                                                            \
    if (!code_is(got_, (want))) tell_code(got_, (want), #call, __FILE__, __LINE__), wrong++;                           \
  } while (0)

static int table_starts(void **state) {
  (void)state;
  wrong = 0;
  return 0;
}

#define TABLE(function) cmocka_unit_test_setup_teardown(function, table_starts, settle)

static void bad_input_to_init_and_base(void **state) {
  (void)state;
  int32_t i;
  int64_t value;
  size_t n;
  const aclCannAttr *list;
  aclCANNPackageVersion version;
  BAD(ACL_ERROR_REPEAT_INITIALIZE, aclInit(NULL));
  BAD(ACL_SUCCESS, aclFinalizeReference(NULL)); /* undoes the aclInit above */
  BAD(NULL_POINTER, aclrtGetVersion(NULL, &i, &i));
  BAD(NULL_POINTER, aclrtGetVersion(&i, NULL, &i));
  BAD(NULL_POINTER, aclrtGetVersion(&i, &i, NULL));
  BAD(NULL_POINTER, aclsysGetCANNVersion(ACL_PKG_NAME_CANN, NULL));
  BAD(ANY_ERROR, aclsysGetCANNVersion((aclCANNPackageName)99, &version));
  BAD(NULL_POINTER, aclGetCannAttribute(ACL_CANN_ATTR_BF16, NULL));
  BAD(ANY_ERROR, aclGetCannAttribute(ACL_CANN_ATTR_UNDEFINED, &i));
  BAD(ANY_ERROR, aclGetCannAttribute((aclCannAttr)99, &i));
  BAD(NULL_POINTER, aclGetCannAttributeList(NULL, &n));
  BAD(NULL_POINTER, aclGetCannAttributeList(&list, NULL));
  BAD(NULL_POINTER, aclGetDeviceCapability(0, ACL_DEVICE_INFO_AI_CORE_NUM, NULL));
  BAD(ANY_ERROR, aclGetDeviceCapability(0, ACL_DEVICE_INFO_UNDEFINED, &value));
  BAD(ANY_ERROR, aclGetDeviceCapability(0, (aclDeviceInfo)99, &value));
  BAD(ANY_ERROR, aclGetDeviceCapability(999, ACL_DEVICE_INFO_AI_CORE_NUM, &value));
  assert_int_equal(aclDataTypeSize(ACL_DT_UNDEFINED), 0);
  assert_int_equal(aclDataTypeSize((aclDataType)999), 0);
  assert_int_equal(wrong, 0);
}

static void bad_input_to_device(void **state) {
  (void)state;
  int32_t i;
  int64_t value;
  aclrtDeviceStatus status;
  BAD(NO_SUCH, aclrtSetDevice(-1));
  BAD(NO_SUCH, aclrtSetDevice(999));
  BAD(NO_SUCH, aclrtResetDevice(-1));
  BAD(NO_SUCH, aclrtResetDevice(999));
  BAD(NO_SUCH, aclrtResetDeviceForce(-1));
  BAD(NO_SUCH, aclrtResetDeviceForce(999));
  BAD(NULL_POINTER, aclrtGetDevice(NULL));
  BAD(NULL_POINTER, aclrtGetDeviceCount(NULL));
  BAD(NULL_POINTER, aclrtGetRunMode(NULL));
  BAD(ANY_ERROR, aclrtSynchronizeDeviceWithTimeout(0));
  BAD(ANY_ERROR, aclrtSynchronizeDeviceWithTimeout(-2));
  BAD(NULL_POINTER, aclrtDeviceCanAccessPeer(NULL, 0, 1));
  BAD(ANY_ERROR, aclrtDeviceCanAccessPeer(&i, 0, 0));
  BAD(ANY_ERROR, aclrtDeviceCanAccessPeer(&i, 0, 999));
  BAD(ANY_ERROR, aclrtDeviceCanAccessPeer(&i, -1, 0));
  BAD(ANY_ERROR, aclrtDeviceEnablePeerAccess(0, 0));
  BAD(ANY_ERROR, aclrtDeviceEnablePeerAccess(999, 0));
  BAD(ANY_ERROR, aclrtDeviceDisablePeerAccess(0));
  BAD(ANY_ERROR, aclrtDeviceDisablePeerAccess(999));
  BAD(NULL_POINTER, aclrtDevicePeerAccessStatus(0, 1, NULL));
  BAD(NULL_POINTER, aclrtDeviceGetStreamPriorityRange(NULL, &i));
  BAD(NULL_POINTER, aclrtDeviceGetStreamPriorityRange(&i, NULL));
  BAD(NULL_POINTER, aclrtGetDeviceInfo(0, ACL_DEV_ATTR_AICORE_CORE_NUM, NULL));
  BAD(NO_SUCH, aclrtGetDeviceInfo(999, ACL_DEV_ATTR_AICORE_CORE_NUM, &value));
  BAD(ANY_ERROR, aclrtGetDeviceInfo(0, (aclrtDevAttr)12345, &value));
  BAD(NULL_POINTER, aclrtQueryDeviceStatus(0, NULL));
  BAD(NO_SUCH, aclrtQueryDeviceStatus(-1, &status));
  BAD(NO_SUCH, aclrtQueryDeviceStatus(999, &status));
  assert_int_equal(wrong, 0);
  BAD(ACL_SUCCESS, aclrtGetDevice(&i)); /* none of these calls changed the thread's current device */
  assert_int_equal(i, 0);
}

static void bad_input_to_context(void **state) {
  (void)state;
  aclrtContext home = NULL, stale = NULL, got = NULL;
  int64_t value;
  int32_t active;
  CHECK_OK(aclrtGetCurrentContext(&home));
  CHECK_OK(aclrtCreateContext(&stale, 0));
  CHECK_OK(aclrtDestroyContext(stale));
  CHECK_OK(aclrtSetCurrentContext(home));
  BAD(NULL_POINTER, aclrtCreateContext(NULL, 0));
  BAD(NO_SUCH, aclrtCreateContext(&got, -1));
  BAD(NO_SUCH, aclrtCreateContext(&got, 999));
  BAD(NULL_POINTER, aclrtDestroyContext(NULL));
  BAD(STALE, aclrtDestroyContext(stale));
  BAD(ANY_ERROR, aclrtDestroyContext(home));
  BAD(ANY_ERROR, aclrtDestroyContext(&value));
  BAD(NULL_POINTER, aclrtSetCurrentContext(NULL));
  BAD(STALE, aclrtSetCurrentContext(stale));
  BAD(ANY_ERROR, aclrtSetCurrentContext(&value));
  BAD(NULL_POINTER, aclrtGetCurrentContext(NULL));
  BAD(NULL_POINTER, aclrtCtxGetCurrentDefaultStream(NULL));
  BAD(ANY_ERROR, aclrtGetPrimaryCtxState(0, NULL, NULL));
  BAD(NO_SUCH, aclrtGetPrimaryCtxState(-1, NULL, &active));
  BAD(NO_SUCH, aclrtGetPrimaryCtxState(999, NULL, &active));
  BAD(NULL_POINTER, aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, NULL));
  BAD(NULL_POINTER, aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, NULL));
  BAD(ANY_ERROR, aclrtSetSysParamOpt((aclSysParamOpt)99, 0));
  BAD(ANY_ERROR, aclrtGetSysParamOpt((aclSysParamOpt)99, &value));
  BAD(ANY_ERROR, aclrtCtxSetSysParamOpt((aclSysParamOpt)99, 0));
  BAD(ANY_ERROR, aclrtCtxGetSysParamOpt((aclSysParamOpt)99, &value));
  BAD(ANY_ERROR, aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 4));
  assert_int_equal(wrong, 0);
  CHECK_OK(aclrtGetCurrentContext(&got));
  assert_ptr_equal(got, home);
}

/* Handles of destroyed objects, and a pointer that never was a handle. */
static aclrtStream stale_stream(void) {
  aclrtStream stream = stream_new();
  CHECK_OK(aclrtDestroyStream(stream));
  return stream;
}

static aclrtEvent stale_event(void) {
  aclrtEvent event = NULL;
  CHECK_OK(aclrtCreateEvent(&event));
  CHECK_OK(aclrtDestroyEvent(event));
  return event;
}

static void stream(void **state) {
  (void)state;
  int32_t id;
  uint32_t number;
  aclrtStreamStatus status;
  aclrtStream good = stream_new(), stale = stale_stream(), never = &number;
  BAD(NULL_POINTER, aclrtCreateStream(NULL));
  BAD(NULL_POINTER, aclrtCreateStreamWithConfig(NULL, 0, 0));
  BAD(STALE, aclrtDestroyStream(stale));
  BAD(ANY_ERROR, aclrtDestroyStream(never));
  BAD(STALE, aclrtDestroyStreamForce(stale));
  BAD(ANY_ERROR, aclrtDestroyStreamForce(never));
  BAD(STALE, aclrtSynchronizeStream(stale));
  BAD(ANY_ERROR, aclrtSynchronizeStream(never));
  BAD(STALE, aclrtSynchronizeStreamWithTimeout(stale, 10));
  BAD(NULL_POINTER, aclrtStreamQuery(good, NULL));
  BAD(STALE, aclrtStreamQuery(stale, &status));
  BAD(ANY_ERROR, aclrtStreamQuery(never, &status));
  BAD(NULL_POINTER, aclrtStreamGetId(good, NULL));
  BAD(STALE, aclrtStreamGetId(stale, &id));
  BAD(NULL_POINTER, aclrtStreamGetFlags(good, NULL));
  BAD(STALE, aclrtStreamGetFlags(stale, &number));
  BAD(NULL_POINTER, aclrtStreamGetPriority(good, NULL));
  BAD(STALE, aclrtStreamGetPriority(stale, &number));
  BAD(STALE, aclrtSetStreamFailureMode(stale, ACL_STOP_ON_FAILURE));
  BAD(ANY_ERROR, aclrtSetStreamFailureMode(good, 2));
  BAD(ACL_SUCCESS, aclrtSynchronizeStream(good));
  BAD(ACL_SUCCESS, aclrtDestroyStream(good));
  assert_int_equal(wrong, 0);
}

static void event(void **state) {
  (void)state;
  float ms;
  uint64_t stamp;
  uint32_t id;
  aclrtEventRecordedStatus recorded;
  aclrtEventStatus status;
  aclrtEventWaitStatus wait_status;
  aclrtEvent stale = stale_event(), good = NULL, never = &stamp;
  aclrtStream stream = stream_new(), gone = stale_stream();
  CHECK_OK(aclrtCreateEventWithFlag(&good, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE));
  BAD(NULL_POINTER, aclrtCreateEvent(NULL));
  BAD(NULL_POINTER, aclrtCreateEventWithFlag(NULL, ACL_EVENT_SYNC));
  BAD(NULL_POINTER, aclrtCreateEventExWithFlag(NULL, ACL_EVENT_SYNC));
  BAD(NULL_POINTER, aclrtRecordEvent(NULL, stream));
  BAD(STALE, aclrtRecordEvent(stale, stream));
  BAD(STALE, aclrtRecordEvent(good, gone));
  BAD(ANY_ERROR, aclrtRecordEvent(never, stream));
  BAD(NULL_POINTER, aclrtResetEvent(NULL, stream));
  BAD(STALE, aclrtResetEvent(stale, stream));
  BAD(STALE, aclrtResetEvent(good, gone));
  BAD(NULL_POINTER, aclrtQueryEvent(NULL, &status));
  BAD(NULL_POINTER, aclrtQueryEvent(good, NULL));
  BAD(STALE, aclrtQueryEvent(stale, &status));
  BAD(NULL_POINTER, aclrtQueryEventStatus(NULL, &recorded));
  BAD(NULL_POINTER, aclrtQueryEventStatus(good, NULL));
  BAD(STALE, aclrtQueryEventStatus(stale, &recorded));
  BAD(ANY_ERROR, aclrtQueryEventStatus(never, &recorded));
  BAD(NULL_POINTER, aclrtQueryEventWaitStatus(NULL, &wait_status));
  BAD(NULL_POINTER, aclrtQueryEventWaitStatus(good, NULL));
  BAD(STALE, aclrtQueryEventWaitStatus(stale, &wait_status));
  BAD(NULL_POINTER, aclrtSynchronizeEvent(NULL));
  BAD(STALE, aclrtSynchronizeEvent(stale));
  BAD(NULL_POINTER, aclrtSynchronizeEventWithTimeout(NULL, 10));
  BAD(STALE, aclrtSynchronizeEventWithTimeout(stale, 10));
  BAD(ANY_ERROR, aclrtSynchronizeEventWithTimeout(good, 0));
  BAD(ANY_ERROR, aclrtSynchronizeEventWithTimeout(good, -2));
  BAD(NULL_POINTER, aclrtStreamWaitEvent(stream, NULL));
  BAD(STALE, aclrtStreamWaitEvent(stream, stale));
  BAD(STALE, aclrtStreamWaitEvent(gone, good));
  BAD(NULL_POINTER, aclrtStreamWaitEventWithTimeout(stream, NULL, 1));
  BAD(STALE, aclrtStreamWaitEventWithTimeout(stream, stale, 1));
  BAD(ANY_ERROR, aclrtStreamWaitEventWithTimeout(stream, good, -1));
  BAD(NULL_POINTER, aclrtEventElapsedTime(NULL, good, good));
  BAD(NULL_POINTER, aclrtEventElapsedTime(&ms, NULL, good));
  BAD(NULL_POINTER, aclrtEventElapsedTime(&ms, good, NULL));
  BAD(STALE, aclrtEventElapsedTime(&ms, stale, good));
  BAD(NULL_POINTER, aclrtEventGetTimestamp(NULL, &stamp));
  BAD(NULL_POINTER, aclrtEventGetTimestamp(good, NULL));
  BAD(STALE, aclrtEventGetTimestamp(stale, &stamp));
  BAD(NULL_POINTER, aclrtGetEventId(NULL, &id));
  BAD(NULL_POINTER, aclrtGetEventId(good, NULL));
  BAD(STALE, aclrtGetEventId(stale, &id));
  BAD(NULL_POINTER, aclrtDestroyEvent(NULL));
  BAD(STALE, aclrtDestroyEvent(stale));
  BAD(ANY_ERROR, aclrtDestroyEvent(never));
  BAD(ACL_SUCCESS, aclrtSynchronizeStream(stream)); /* none of these calls queued anything */
  BAD(ACL_SUCCESS, aclrtDestroyEvent(good));
  BAD(ACL_SUCCESS, aclrtDestroyStream(stream));
  assert_int_equal(wrong, 0);
}

static void bad_input_to_callbacks(void **state) {
  (void)state;
  static atomic_int calls;
  atomic_store(&calls, 0);
  uint64_t me = (uint64_t)pthread_self();
  aclrtStream good = stream_new(), stale = stale_stream();
  CHECK_OK(aclrtSubscribeReport(me, good));
  BAD(NULL_POINTER, aclrtLaunchHostFunc(good, NULL, &calls));
  BAD(STALE, aclrtLaunchHostFunc(stale, count_one, &calls));
  BAD(NULL_POINTER, aclrtLaunchCallback(NULL, &calls, ACL_CALLBACK_BLOCK, good));
  BAD(ANY_ERROR, aclrtLaunchCallback(count_one, &calls, (aclrtCallbackBlockType)99, good));
  BAD(ANY_ERROR, aclrtLaunchCallback(count_one, &calls, ACL_CALLBACK_BLOCK, stale));
  BAD(ANY_ERROR, aclrtSubscribeReport(me, stale));
  BAD(ANY_ERROR, aclrtSubscribeReport(0, good));
  BAD(ANY_ERROR, aclrtUnSubscribeReport(me, stale));
  BAD(ANY_ERROR, aclrtProcessReport(0));
  BAD(ANY_ERROR, aclrtProcessReport(-2));
  BAD(ACL_SUCCESS, aclrtSynchronizeStream(good));
  BAD(ACL_SUCCESS, aclrtUnSubscribeReport(me, good));
  BAD(ACL_SUCCESS, aclrtDestroyStream(good));
  assert_int_equal(atomic_load(&calls), 0);
  assert_int_equal(wrong, 0);
}

static void bad_input_to_memory(void **state) {
  (void)state;
  size_t n;
  void *p = NULL;
  aclrtMemMallocPolicy policy = ACL_MEM_MALLOC_HUGE_FIRST;
  BAD(NULL_POINTER, aclrtMalloc(NULL, 64, policy));
  BAD(NULL_POINTER, aclrtMallocAlign32(NULL, 64, policy));
  BAD(NULL_POINTER, aclrtMallocCached(NULL, 64, policy));
  BAD(NULL_POINTER, aclrtMallocHost(NULL, 64));
  BAD(ANY_ERROR, aclrtMalloc(&p, 0, policy));
  BAD(ANY_ERROR, aclrtMallocAlign32(&p, 0, policy));
  BAD(ANY_ERROR, aclrtMallocCached(&p, 0, policy));
  BAD(ANY_ERROR, aclrtMallocHost(&p, 0));
  BAD(NULL_POINTER, aclrtGetMemInfo(ACL_HBM_MEM, NULL, &n));
  BAD(NULL_POINTER, aclrtGetMemInfo(ACL_HBM_MEM, &n, NULL));
  BAD(ANY_ERROR, aclrtFree(NULL));
  BAD(ANY_ERROR, aclrtFreeWithDevSync(NULL));
  BAD(ANY_ERROR, aclrtFreeHost(NULL));
  BAD(ANY_ERROR, aclrtFreeHostWithDevSync(NULL));

  aclrtStream stale = stale_stream();
  void *dev = dev_filled(1, 100), *host = pinned_new(100);
  memset(host, 9, 100);
  BAD(STALE, aclrtMemcpyAsync(dev, 100, host, 100, ACL_MEMCPY_HOST_TO_DEVICE, stale));
  BAD(STALE, aclrtMemsetAsync(dev, 100, 9, 100, stale));
  BAD(STALE, aclrtMemcpy2dAsync(dev, 10, host, 10, 10, 10, ACL_MEMCPY_HOST_TO_DEVICE, stale));
  assert_dev_filled(dev, 1, 100);
  CHECK_OK(aclrtFree(dev));
  CHECK_OK(aclrtFreeHost(host));
  assert_int_equal(wrong, 0);
}

static void bad_input_to_aclnn(void **state) {
  (void)state;
  int64_t *numbers, offset;
  uint64_t n;
  void *addr;
  aclDataType type;
  aclFormat format;
  aclOpExecutor *executor = NULL;
  aclTensor *x = TENSOR(NULL, ACL_FLOAT, 2);
  aclScalar *one = float_scalar(1);

  assert_null(aclCreateScalar(NULL, ACL_FLOAT));
  assert_null(aclCreateIntArray(NULL, 3));
  assert_null(aclCreateFloatArray(NULL, 3));
  assert_null(aclCreateBoolArray(NULL, 3));
  assert_null(aclCreateTensorList(NULL, 3));
  assert_null(aclCreateScalarList(NULL, 3));

  BAD(NULL_ARGUMENT, aclGetViewShape(NULL, &numbers, &n));
  BAD(NULL_ARGUMENT, aclGetViewShape(x, NULL, &n));
  BAD(NULL_ARGUMENT, aclGetViewShape(x, &numbers, NULL));
  BAD(NULL_ARGUMENT, aclGetStorageShape(NULL, &numbers, &n));
  BAD(NULL_ARGUMENT, aclGetStorageShape(x, NULL, &n));
  BAD(NULL_ARGUMENT, aclGetViewStrides(NULL, &numbers, &n));
  BAD(NULL_ARGUMENT, aclGetViewStrides(x, &numbers, NULL));
  BAD(NULL_ARGUMENT, aclGetViewOffset(NULL, &offset));
  BAD(NULL_ARGUMENT, aclGetViewOffset(x, NULL));
  BAD(NULL_ARGUMENT, aclGetFormat(NULL, &format));
  BAD(NULL_ARGUMENT, aclGetFormat(x, NULL));
  BAD(NULL_ARGUMENT, aclGetDataType(NULL, &type));
  BAD(NULL_ARGUMENT, aclGetDataType(x, NULL));
  BAD(NULL_ARGUMENT, aclGetRawTensorAddr(NULL, &addr));
  BAD(NULL_ARGUMENT, aclGetRawTensorAddr(x, NULL));
  BAD(NULL_ARGUMENT, aclSetRawTensorAddr(NULL, NULL));
  BAD(NULL_ARGUMENT, aclGetTensorListSize(NULL, &n));
  BAD(NULL_ARGUMENT, aclGetScalarListSize(NULL, &n));
  BAD(NULL_ARGUMENT, aclGetIntArraySize(NULL, &n));
  BAD(NULL_ARGUMENT, aclGetFloatArraySize(NULL, &n));
  BAD(NULL_ARGUMENT, aclGetBoolArraySize(NULL, &n));
  BAD(ANY_ERROR, aclInitTensor(NULL, DIMS(2), ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, DIMS(2), NULL));

  BAD(ANY_ERROR, aclSetAclOpExecutorRepeatable(NULL));
  BAD(ANY_ERROR, aclDestroyAclOpExecutor(NULL));
  BAD(NULL_EXECUTOR, aclSetInputTensorAddr(NULL, 0, x, NULL));
  BAD(NULL_EXECUTOR, aclSetOutputTensorAddr(NULL, 0, x, NULL));
  BAD(NULL_EXECUTOR, aclSetTensorAddr(NULL, 0, x, NULL));
  BAD(NULL_EXECUTOR, aclSetDynamicInputTensorAddr(NULL, 0, 0, NULL, NULL));
  BAD(NULL_EXECUTOR, aclSetDynamicOutputTensorAddr(NULL, 0, 0, NULL, NULL));
  BAD(NULL_EXECUTOR, aclSetDynamicTensorAddr(NULL, 0, 0, NULL, NULL));
  BAD(NULL_EXECUTOR, AclSetInputTensorAddr(NULL, 0, x, NULL));
  BAD(NULL_EXECUTOR, AclSetOutputTensorAddr(NULL, 0, x, NULL));
  BAD(NULL_EXECUTOR, AclSetTensorAddr(NULL, 0, x, NULL));
  BAD(NULL_EXECUTOR, AclSetDynamicInputTensorAddr(NULL, 0, 0, NULL, NULL));
  BAD(NULL_EXECUTOR, AclSetDynamicOutputTensorAddr(NULL, 0, 0, NULL, NULL));
  BAD(NULL_EXECUTOR, AclSetDynamicTensorAddr(NULL, 0, 0, NULL, NULL));

  BAD(ANY_ERROR, aclnnAddGetWorkspaceSize(x, x, one, x, NULL, &executor));
  BAD(ANY_ERROR, aclnnAddGetWorkspaceSize(x, x, one, x, &n, NULL));
  BAD(ANY_ERROR, aclnnAdd(NULL, 0, NULL, NULL));
  CHECK_OK(aclDestroyTensor(x));
  CHECK_OK(aclDestroyScalar(one));
  assert_int_equal(wrong, 0);
}

/* A thread without a context: every function that needs one returns ACL_ERROR_RT_CONTEXT_NULL. */
static void *without_context(void *arg) {
  aclrtStream stream = NULL;
  aclrtEvent event = NULL;
  void *p = NULL;
  size_t n;
  int32_t i;
  int64_t value;
  char x = 0;
  wrong = 0; /* no race: the main thread waits in pthread_join */
  BAD(ACL_ERROR_RT_CONTEXT_NULL, aclrtGetDevice(&i));
  BAD(ACL_ERROR_RT_CONTEXT_NULL, aclrtCreateStream(&stream));
  BAD(ACL_ERROR_RT_CONTEXT_NULL, aclrtCtxGetCurrentDefaultStream(&stream));
  BAD(ACL_ERROR_RT_CONTEXT_NULL, aclrtSynchronizeStream(NULL));
  BAD(ACL_ERROR_RT_CONTEXT_NULL, aclrtSynchronizeDevice());
  BAD(ACL_ERROR_RT_CONTEXT_NULL, aclrtCreateEvent(&event));
  BAD(ACL_ERROR_RT_CONTEXT_NULL, aclrtMalloc(&p, 64, ACL_MEM_MALLOC_HUGE_FIRST));
  BAD(ACL_ERROR_RT_CONTEXT_NULL, aclrtMallocHost(&p, 64));
  BAD(ACL_ERROR_RT_CONTEXT_NULL, aclrtGetMemInfo(ACL_HBM_MEM, &n, &n));
  BAD(ACL_ERROR_RT_CONTEXT_NULL, aclrtMemcpyAsync(&x, 1, &x, 1, ACL_MEMCPY_DEVICE_TO_HOST, NULL));
  BAD(ACL_ERROR_RT_CONTEXT_NULL, aclrtLaunchHostFunc(NULL, count_one, arg));
  BAD(ACL_ERROR_RT_CONTEXT_NULL, aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value));
  return NULL;
}

static void functions_that_need_a_context_say_so(void **state) {
  (void)state;
  static atomic_int unused;
  on_thread(without_context, &unused);
  assert_int_equal(wrong, 0);
  assert_int_equal(atomic_load(&unused), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TABLE(bad_input_to_init_and_base),
      TABLE(bad_input_to_device),
      TABLE(bad_input_to_context),
      TABLE(stream),
      TABLE(event),
      TABLE(bad_input_to_callbacks),
      TABLE(bad_input_to_memory),
      TABLE(bad_input_to_aclnn),
      TABLE(functions_that_need_a_context_say_so),
  };
  return cmocka_run_group_tests(tests, device_up, device_down);
}
