/* SPDX-License-Identifier: Apache-2.0 */
/* The result of each call in a forked child: 107002 with a message where the call needs the device, or handles or
 * memory of the parent; the usual result where it does not. No call crashes or hangs, even if other threads of the
 * parent were inside the library during the fork. */
#include "acl_capture.h"
#include "self.h"

#include "acl/acl_prof.h"
#include "acl/acl_rt_allocator.h"
#include "acl/acl_rt_memory_soma.h"
#include "acl/dvpp/hi_media_common.h"
#include "acl/ops/acl_dvpp.h"
#include "cannon/memory.h"
#include "cannon/pool.h"

#include <signal.h>

enum { SIZE = 4096, PATIENCE_S = 30, MIB2 = 2 << 20 };

/* ---- objects of the parent ---- */

static void *block, *large, *pinned, *managed, *reserved, *media, *registered;
static aclrtContext context;
static aclrtEvent event;
static aclrtNotify notify;
static aclrtCntNotify count_notify;
static aclmdlRI model;
static aclrtDrvMemHandle physical;
static aclrtMemPool soma;
static cannon_pool *pool;
static uint64_t shared;
static char key[65];
static aclOpExecutor *executor;
static const aclrtPhysicalMemProp prop = {.handleType = ACL_MEM_HANDLE_TYPE_NONE,
                                          .allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED,
                                          .memAttr = ACL_HBM_MEM_HUGE,
                                          .location = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE}};
static const aclrtMemPoolProps pool_props = {.allocType = ACL_MEM_ALLOCATION_TYPE_PINNED,
                                             .location = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE},
                                             .maxSize = 64 << 20};

static int parent_up(void **state) {
  cannon_pool_config config = cannon_pool_default_config();
  uint64_t bytes;
  device_up(state);
  captures_up(state);
  block = dev_filled(1, SIZE);
  large = dev_new(2 * MIB2);
  pinned = pinned_new(SIZE);
  registered = aligned_alloc(4096, SIZE);
  CHECK_OK(aclrtHostRegisterV2(registered, SIZE, ACL_HOST_REG_MAPPED | ACL_HOST_REG_PINNED));
  CHECK_OK(aclrtMemAllocManaged(&managed, MIB2, ACL_RT_MEM_ATTACH_GLOBAL));
  CHECK_OK(acldvppMalloc(&media, SIZE));
  CHECK_OK(aclrtReserveMemAddress(&reserved, MIB2, 0, NULL, 0));
  CHECK_OK(aclrtMallocPhysical(&physical, MIB2, &prop, 0));
  CHECK_OK(aclrtMapMem(reserved, MIB2, 0, physical, 0));
  CHECK_OK(aclrtMemExportToShareableHandle(physical, ACL_MEM_HANDLE_TYPE_NONE, 1, &shared));
  CHECK_OK(aclrtIpcMemGetExportKey(large, 2 * MIB2, key, sizeof key, 1));
  CHECK_OK(aclrtGetCurrentContext(&context));
  CHECK_OK(aclrtCreateEvent(&event));
  CHECK_OK(aclrtRecordEvent(event, stream));
  CHECK_OK(aclrtCreateNotify(&notify, 0));
  CHECK_OK(aclrtCntNotifyCreate(&count_notify, 0));
  CHECK_OK(aclrtMemPoolCreate(&soma, &pool_props));
  config.initial_bytes = MIB2;
  CHECK_OK(cannon_pool_create(&pool, &config));
  begin(ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
  CHECK_OK(aclrtMemsetAsync(block, SIZE, 1, SIZE, stream));
  model = end();
  aclTensor *x = TENSOR(block, ACL_FLOAT, N);
  aclScalar *one = float_scalar(1);
  CHECK_OK(aclnnAddsGetWorkspaceSize(x, one, one, x, &bytes, &executor));
  aclDestroyTensor(x);
  aclDestroyScalar(one);
  CHECK_OK(aclrtSynchronizeStream(stream));
  return 0;
}

static int parent_down(void **state) {
  CHECK_OK(aclDestroyAclOpExecutor(executor));
  CHECK_OK(aclmdlRIDestroy(model));
  CHECK_OK(aclrtHostUnregister(registered));
  CHECK_OK(aclrtFree(block));
  CHECK_OK(aclrtFreeHost(pinned));
  captures_down(state);
  free(registered);
  return device_down(state);
}

/* ---- the child; it writes mismatches to stderr, which the parent prints ---- */

static int wrong;

static void expect(aclError got, aclError want, const char *call) {
  const char *words = aclGetRecentErrMsg();
  const bool told = want == ACL_SUCCESS || (words && strstr(words, "forked from one that used the device"));
  if (got == want && told) return;
  fprintf(stderr, "%s gave %d, expected %d%s; message: %s\n", call, got, want, told ? "" : " with words",
          words ? words : "(none)");
  ++wrong;
}

#define REFUSED(call) expect(call, ACL_ERROR_RT_CONTEXT_NULL, #call)
#define GIVEN(call)   expect(call, ACL_SUCCESS, #call)

static void set_up_devices(void) {
  aclrtUtilizationInfo use = {0};
  int32_t device;
  uint32_t flags;
  REFUSED(aclrtSetDevice(0));
  REFUSED(aclrtResetDevice(0));
  REFUSED(aclrtResetDeviceForce(0));
  REFUSED(aclrtGetDevice(&device));
  REFUSED(aclrtSynchronizeDevice());
  REFUSED(aclrtSynchronizeDeviceWithTimeout(10));
  REFUSED(aclrtGetDeviceUtilizationRate(0, &use));
  REFUSED(aclrtDeviceTaskAbort(0, 0));
  REFUSED(aclrtSetDeviceTaskAbortCallback("a", NULL, NULL));
  REFUSED(aclrtMemP2PMap(block, SIZE, 0, 0));
  REFUSED(aclrtCreateContext(&context, 0));
  REFUSED(aclrtSetCurrentContext(context));
  REFUSED(aclrtGetCurrentContext(&context));
  REFUSED(aclrtDestroyContext(context));
  REFUSED(aclrtGetPrimaryCtxState(0, &flags, &device));
  REFUSED(aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1));
  REFUSED(aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_INFNAN));
}

static void use_streams(void) {
  aclrtStream made;
  aclrtStreamStatus status;
  aclrtEventStatus event_status;
  aclrtIpcEventHandle handle = {"cannon-0000000000000001"};
  aclrtEventRecordedStatus recorded;
  float ms;
  uint32_t id;
  uint64_t time;
  REFUSED(aclrtCreateStream(&made));
  REFUSED(aclrtDestroyStream(stream));
  REFUSED(aclrtDestroyStreamForce(stream));
  REFUSED(aclrtStreamQuery(stream, &status));
  REFUSED(aclrtSynchronizeStream(stream));
  REFUSED(aclrtSynchronizeStreamWithTimeout(NULL, 10));
  REFUSED(aclrtCreateEvent(&event));
  REFUSED(aclrtRecordEvent(event, stream));
  REFUSED(aclrtIpcGetEventHandle(event, &handle));
  REFUSED(aclrtIpcOpenEventHandle(handle, &event));
  REFUSED(aclrtResetEvent(event, stream));
  REFUSED(aclrtStreamWaitEvent(stream, event));
  REFUSED(aclrtSynchronizeEvent(event));
  REFUSED(aclrtQueryEvent(event, &event_status));
  REFUSED(aclrtQueryEventStatus(event, &recorded));
  REFUSED(aclrtEventElapsedTime(&ms, event, event));
  REFUSED(aclrtEventGetTimestamp(event, &time));
  REFUSED(aclrtGetEventId(event, &id));
  REFUSED(aclrtDestroyEvent(event));
  REFUSED(aclrtLaunchHostFunc(stream, count_one, NULL));
  REFUSED(aclrtSubscribeReport((uint64_t)pthread_self(), stream));
  REFUSED(aclrtUnSubscribeReport((uint64_t)pthread_self(), stream));
  REFUSED(aclrtProcessReport(-1));
  REFUSED(aclrtValueWrite(block, 1, 0, stream));
  REFUSED(aclrtSetStreamResLimit(stream, ACL_RT_DEV_RES_CUBE_CORE, 1));
  REFUSED(aclrtAllocatorUnregister(stream));
}

static void use_notifies_and_graphs(void) {
  aclrtCntNotifyRecordInfo record = {.value = 1};
  aclrtNotify made;
  aclrtCntNotify counting;
  aclmdlRI captured;
  aclmdlRICaptureStatus status;
  char notify_key[65];
  int32_t pid = 1;
  uint32_t id;
  REFUSED(aclrtCreateNotify(&made, 0));
  REFUSED(aclrtCntNotifyCreate(&counting, 0));
  REFUSED(aclrtGetNotifyId(notify, &id));
  REFUSED(aclrtCntNotifyGetId(count_notify, &id));
  REFUSED(aclrtRecordNotify(notify, stream));
  REFUSED(aclrtWaitAndResetNotify(notify, stream, 0));
  REFUSED(aclrtCntNotifyRecord(count_notify, stream, &record));
  REFUSED(aclrtNotifyBatchReset(&notify, 1));
  REFUSED(aclrtNotifyGetExportKey(notify, notify_key, sizeof notify_key, 2));
  REFUSED(aclrtNotifySetImportPid(notify, &pid, 1));
  REFUSED(aclrtDestroyNotify(notify));
  REFUSED(aclrtCntNotifyDestroy(count_notify));
  REFUSED(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
  REFUSED(aclmdlRICaptureEnd(stream, &captured));
  REFUSED(aclmdlRICaptureGetInfo(stream, &status, NULL));
  REFUSED(aclmdlRIExecuteAsync(model, stream));
  REFUSED(aclmdlRIExecute(model, -1));
  REFUSED(aclmdlRIDebugPrint(model));
  REFUSED(aclmdlRIDestroy(model));
}

static void use_memory(void) {
  aclrtPtrAttributes attributes;
  aclrtMemUsageInfo usage;
  void *p;
  size_t n, m;
  REFUSED(aclrtMalloc(&p, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
  REFUSED(aclrtMallocHost(&p, SIZE));
  REFUSED(aclrtFree(block));
  REFUSED(aclrtFree(numbers));
  REFUSED(aclrtFreeWithDevSync(block));
  REFUSED(aclrtFreeHost(pinned));
  REFUSED(aclrtGetMemInfo(ACL_HBM_MEM, &n, &m));
  REFUSED(aclrtGetMemUsageInfo(0, &usage, 1, &n));
  REFUSED(aclrtPointerGetAttributes(block, &attributes));
  REFUSED(aclrtMemGetAddressRange(block, &p, &n));
  REFUSED(aclrtHostRegister(registered, SIZE, ACL_HOST_REGISTER_MAPPED, &p));
  REFUSED(aclrtHostUnregister(registered));
  REFUSED(aclrtHostGetDevicePointer(registered, &p, 0));
  REFUSED(acldvppMalloc(&p, SIZE));
  REFUSED(acldvppFree(media));
  if (!hi_mpi_dvpp_free(media)) expect(ACL_SUCCESS, ANY_ERROR, "hi_mpi_dvpp_free");
  REFUSED(aclrtMemAllocManaged(&p, MIB2, ACL_RT_MEM_ATTACH_GLOBAL));
  REFUSED(aclrtMemManagedAdvise(managed, MIB2, ACL_MEM_ADVISE_SET_READ_MOSTLY, (aclrtMemManagedLocation){0}));
  REFUSED(aclrtMemManagedPrefetchAsync(managed, MIB2, (aclrtMemManagedLocation){0}, 0, stream));
  REFUSED(aclrtMemManagedGetAttr(ACL_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, managed, MIB2, &p, sizeof(int)));
  REFUSED(aclrtMemFlush(block, SIZE));
  REFUSED(cannon_trim(0, 0, &n));
  REFUSED(cannon_check_carved(block, &(cannonPiece){block, SIZE, CANNON_USE_DEVICE}, 1, NULL));
}

static void use_mappings_and_pools(void) {
  aclrtPhysicalMemProp got;
  aclrtDrvMemHandle handle;
  aclrtMemPool made;
  aclrtMemLocation location = prop.location;
  cannon_pool *own;
  cannon_pool_stats stats;
  void *p;
  uint64_t n;
  int32_t pid = 1;
  char name[65];
  REFUSED(aclrtReserveMemAddress(&p, MIB2, 0, NULL, 0));
  REFUSED(aclrtMallocPhysical(&handle, MIB2, &prop, 0));
  REFUSED(aclrtMapMem(reserved, MIB2, 0, physical, 0));
  REFUSED(aclrtMemGetAccess(reserved, &location, &n));
  REFUSED(aclrtMemRetainAllocationHandle(reserved, &handle));
  REFUSED(aclrtMemGetAllocationPropertiesFromHandle(physical, &got));
  REFUSED(aclrtUnmapMem(reserved));
  REFUSED(aclrtFreePhysical(physical));
  REFUSED(aclrtReleaseMemAddress(reserved));
  REFUSED(aclrtMemExportToShareableHandle(physical, ACL_MEM_HANDLE_TYPE_NONE, 1, &n));
  REFUSED(aclrtMemSetPidToShareableHandle(shared, &pid, 1));
  REFUSED(aclrtMemImportFromShareableHandle(shared, 0, &handle));
  REFUSED(aclrtIpcMemGetExportKey(large, 2 * MIB2, name, sizeof name, 1));
  REFUSED(aclrtIpcMemSetImportPid(key, &pid, 1));
  REFUSED(aclrtIpcMemImportByKey(&p, key, 0));
  REFUSED(aclrtIpcMemClose(key));
  REFUSED(aclrtMemPoolCreate(&made, &pool_props));
  REFUSED(aclrtMemPoolMallocAsync(&p, SIZE, soma, stream));
  REFUSED(aclrtMemPoolGetAttr(soma, ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT, &n));
  REFUSED(aclrtMemPoolTrimTo(soma, 0));
  REFUSED(aclrtMemPoolDestroy(soma));
  REFUSED(cannon_pool_create(&own, NULL));
  REFUSED(cannon_pool_alloc(pool, SIZE, stream, &p));
  REFUSED(cannon_pool_get_stats(pool, &stats));
  REFUSED(cannon_pool_destroy(pool));
}

static void copy_to(void *device) {
  char host[64] = {0};
  void *dsts[] = {host}, *srcs[] = {device};
  size_t sizes[] = {sizeof host}, first[] = {0}, failed;
  aclrtMemcpyBatchAttr attr = {.dstLoc = {.type = ACL_MEM_LOCATION_TYPE_HOST}, .srcLoc = prop.location};
  REFUSED(aclrtMemcpy(device, 64, host, 64, ACL_MEMCPY_HOST_TO_DEVICE));
  REFUSED(aclrtMemcpy(host, 64, device, 64, ACL_MEMCPY_DEVICE_TO_HOST));
  REFUSED(aclrtMemcpyAsync(device, 64, host, 64, ACL_MEMCPY_HOST_TO_DEVICE, stream));
  REFUSED(aclrtMemcpy2d(device, 8, host, 8, 8, 8, ACL_MEMCPY_HOST_TO_DEVICE));
  REFUSED(aclrtMemcpy2dAsync(device, 8, host, 8, 8, 8, ACL_MEMCPY_HOST_TO_DEVICE, stream));
  REFUSED(aclrtMemcpyBatch(dsts, sizes, srcs, sizes, 1, &attr, first, 1, &failed));
  REFUSED(aclrtMemset(device, 64, 0, 64));
  REFUSED(aclrtMemsetAsync(device, 64, 0, 64, stream));
  REFUSED(aclrtMemsetD32(device, 64, 0, 16));
  REFUSED(aclrtMemsetD32Async(device, 64, 0, 16, stream));
}

static void copy(void) {
  copy_to(block);
  copy_to(pinned);
  copy_to(reserved);
  copy_to(managed);
  copy_to(registered);
}

/* Host objects, queries and settings work as before. */
static void use_the_host(void) {
  aclrtAllocatorDesc desc = aclrtAllocatorCreateDesc();
  void *stamp = aclprofCreateStamp();
  const int64_t dims[] = {4};
  int32_t low, high, major, minor, patch;
  uint32_t count;
  int64_t cores;
  float x;
  aclTensor *t = aclCreateTensor(dims, 1, ACL_FLOAT, dims, 0, ACL_FORMAT_ND, dims, 1, NULL);
  aclScalar *s = aclCreateScalar((x = 1, &x), ACL_FLOAT);
  GIVEN(aclDestroyTensor(t));
  GIVEN(aclDestroyScalar(s));
  GIVEN(aclDestroyAclOpExecutor(executor));
  GIVEN(aclrtAllocatorDestroyDesc(desc));
  aclprofDestroyStamp(stamp);
  GIVEN(aclrtGetDeviceCount(&count));
  GIVEN(aclrtGetDeviceInfo(0, ACL_DEV_ATTR_AICORE_CORE_NUM, &cores));
  GIVEN(aclrtDeviceGetStreamPriorityRange(&low, &high));
  GIVEN(aclrtGetVersion(&major, &minor, &patch));
  GIVEN(aclrtSetOpWaitTimeout(1));
  if (aclFloat16ToFloat(aclFloatToFloat16(1.5f)) != 1.5f) ++wrong;
  if (!aclrtGetSocName()) ++wrong;
  aclAppLog(ACL_ERROR, __func__, __FILE__, __LINE__, "a child's line");
  REFUSED(aclprofFinalize());
  GIVEN(aclInit(NULL) == ACL_ERROR_REPEAT_INITIALIZE ? ACL_SUCCESS : ACL_ERROR_FAILURE);
  aclGetRecentErrMsg();
  GIVEN(aclFinalize());
}

static void operate(void) {
  aclTensor *x =
      aclCreateTensor((int64_t[]){N}, 1, ACL_FLOAT, (int64_t[]){1}, 0, ACL_FORMAT_ND, (int64_t[]){N}, 1, block);
  float value = 1;
  aclScalar *one = aclCreateScalar(&value, ACL_FLOAT);
  uint64_t bytes;
  aclOpExecutor *e = NULL;
  aclnnAddsGetWorkspaceSize(x, one, one, x, &bytes, &e); /* its verdict on the address has no meaning here */
  aclGetRecentErrMsg();
  if (e) REFUSED(aclnnAdds(NULL, 0, e, stream));
  aclDestroyTensor(x);
  aclDestroyScalar(one);
}

static void call_everything(void) {
  set_up_devices();
  use_streams();
  use_notifies_and_graphs();
  use_memory();
  use_mappings_and_pools();
  copy();
  operate();
  use_the_host();
}

/* ---- the parent's side ---- */

static void fork_and_expect(const char *when) {
  int fds[2];
  static child_end end;
  assert_int_equal(pipe(fds), 0);
  fflush(NULL);
  const pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    for (int number = 1; number < NSIG; number++) signal(number, SIG_DFL);
    alarm(PATIENCE_S);
    dup2(fds[1], STDERR_FILENO);
    call_everything();
    _exit(wrong != 0);
  }
  close(fds[1]);
  child_wait(&end, pid, fds[0]);
  if (end.status) print_error("%s: status %#x\n%s\n", when, (unsigned)end.status, end.text);
  assert_int_equal(end.status, 0);
}

static void each_call_is_refused_or_harmless(void **state) {
  (void)state;
  fork_and_expect("quiet");
  assert_dev_filled(block, 1, SIZE);
}

/* Threads that spend most of their time inside the library, holding its locks. */
static atomic_int is_over, n_called;

static void *be_busy(void *unused) {
  (void)unused;
  if (aclrtSetCurrentContext(context)) abort();
  while (!atomic_load(&is_over)) {
    void *p = NULL, *q = NULL;
    aclrtStream s = NULL;
    aclrtEvent e = NULL;
    aclrtMalloc(&p, 3 * MIB2, ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtReserveMemAddress(&q, MIB2, 0, NULL, 0);
    aclrtCreateStream(&s);
    aclrtCreateEvent(&e);
    aclrtMemsetAsync(p, SIZE, 0, SIZE, s);
    aclrtRecordEvent(e, s);
    aclrtLaunchHostFunc(s, count_one, &n_called);
    aclrtSynchronizeStream(s);
    aclrtDestroyEvent(e);
    aclrtDestroyStream(s);
    aclrtReleaseMemAddress(q);
    aclrtFree(p);
    aclprofDestroyStamp(aclprofCreateStamp());
    aclInit(NULL);
    aclFinalizeReference(NULL);
    aclGetRecentErrMsg();
  }
  return NULL;
}

static void calls_do_not_hang_on_locks_held_during_the_fork(void **state) {
  (void)state;
  enum { THREADS = 3, FORKS = 20 };
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) threads[i] = thread_start(be_busy, NULL);
  for (int i = 0; i < FORKS; i++) fork_and_expect("busy");
  atomic_store(&is_over, 1);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_call_is_refused_or_harmless),
      cmocka_unit_test(calls_do_not_hang_on_locks_held_during_the_fork),
  };
  return cmocka_run_group_tests(tests, parent_up, parent_down);
}
