/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation inside the library fails in turn: the call returns an error with a message, leaves all as it was,
 * and succeeds in the end. Where a call can do without (a cache, a larger table), it succeeds at once. */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/acl.h"
#include "acl/acl_rt.h"
#include "aclnn/acl_meta.h"
#include "aclnnop/aclnn_add.h"
#include "unit.h"

/* ---- what fails: calls of the linker's --wrap, on the thread that tests ---- */

static _Thread_local long until_failure; /* the 1st fails next; 0: none */
static _Thread_local bool has_failed;
static _Atomic long n_outstanding; /* allocations that were not freed */

static bool fails_now(void) {
  if (!until_failure || --until_failure) return false;
  has_failed = true;
  errno = ENOMEM;
  return true;
}

static void *counted(void *p) {
  if (p) atomic_fetch_add(&n_outstanding, 1);
  return p;
}

#define WRAP(result, name, parameters, ...)                                                                            \
  result __real_##name parameters;                                                                                     \
  result __wrap_##name parameters;                                                                                     \
  result __wrap_##name parameters { __VA_ARGS__ }

WRAP(void *, malloc, (size_t n), return fails_now() ? NULL : counted(__real_malloc(n));)
WRAP(void *, calloc, (size_t n, size_t each), return fails_now() ? NULL : counted(__real_calloc(n, each));)
WRAP(void *, aligned_alloc, (size_t to, size_t n), return fails_now() ? NULL : counted(__real_aligned_alloc(to, n));)
WRAP(void *, realloc, (void *p, size_t n), if (fails_now()) return NULL; void *got = __real_realloc(p, n);
     return p ? got : counted(got);)
WRAP(void, free, (void *p), if (p) atomic_fetch_sub(&n_outstanding, 1); __real_free(p);)
WRAP(int, memfd_create, (const char *name, unsigned flags), return fails_now() ? -1 : __real_memfd_create(name, flags);)
WRAP(int, ftruncate, (int file, off_t n), return fails_now() ? -1 : __real_ftruncate(file, n);)
WRAP(int, pthread_create, (pthread_t * thread, const pthread_attr_t *attr, void *(*start)(void *), void *argument),
     return fails_now() ? EAGAIN : __real_pthread_create(thread, attr, start, argument);)
WRAP(int, pthread_setspecific, (pthread_key_t key, const void *value),
     return fails_now() ? ENOMEM : __real_pthread_setspecific(key, value);)

/* mremap leaves a mapping at the addresses that it moves from. The mmap that replaces it needs no new mapping from the
 * kernel and so can't fail (memory/heap/mapping.c). */
static _Thread_local bool has_moved;
WRAP(void *, mmap, (void *at, size_t n, int protection, int flags, int file, off_t offset),
     const bool spared = has_moved && flags & MAP_FIXED;
     has_moved = false;
     return !spared && fails_now() ? MAP_FAILED : __real_mmap(at, n, protection, flags, file, offset);)

void *__real_mremap(void *at, size_t n, size_t to_n, int flags, ...);
void *__wrap_mremap(void *at, size_t n, size_t to_n, int flags, ...);
void *__wrap_mremap(void *at, size_t n, size_t to_n, int flags, ...) {
  va_list more;
  va_start(more, flags);
  void *const to = va_arg(more, void *);
  va_end(more);
  if (fails_now()) return MAP_FAILED;
  has_moved = true;
  return __real_mremap(at, n, to_n, flags, to);
}

/* ---- what is as before ---- */

static size_t free_bytes(void) {
  size_t left = 0, total;
  aclrtContext current;
  if (aclrtGetCurrentContext(&current) == ACL_SUCCESS) assert_int_equal(aclrtGetMemInfo(ACL_HBM_MEM, &left, &total), 0);
  aclGetRecentErrMsg();
  return left;
}

static int n_files(void) {
  int n = 0;
  DIR *d = opendir("/proc/self/fd");
  assert_non_null(d);
  while (readdir(d)) n++;
  closedir(d);
  return n;
}

/* ---- trying a call ---- */

/* A call that takes something, 0 where it did, and what gives it back. */
typedef struct {
  const char *name;
  aclError (*take)(void);
  aclError (*give)(void);
} call;

/* Fails the n-th allocation of the call; whether there was one. */
static bool try_without(const call *c, long n) {
  const size_t before = free_bytes();
  has_failed = false;
  until_failure = n;
  const aclError code = c->take();
  until_failure = 0;
  const bool failed = has_failed;
  if (code) {
    const char *message = aclGetRecentErrMsg();
    if (!failed || !message) print_error("%s: allocation %ld: %d, %s\n", c->name, n, code, message ? message : "");
    assert_true(failed);
    assert_non_null(message);
  } else {
    assert_int_equal(c->give(), 0);
  }
  assert_int_equal(free_bytes(), before);
  return failed;
}

/* Until no allocation is left that could fail. Each try finds what those before have left, and gets further. */
static void try_all(const call *c) {
  for (long n = 1; try_without(c, n); n++) {
  }
}

/* Once more, now that what is kept for good is there: the allocations that are not given back. A task that a worker
 * happens to run leaves its executor in the worker's cache, and the next call makes another one; so only what is lost
 * in each of ten rounds is lost. */
static long lost_by(const call *c) {
  long lost = 1;
  for (int round = 0; round < 10 && lost; round++) {
    const long allocated = n_outstanding;
    try_all(c);
    lost = n_outstanding - allocated;
  }
  return lost;
}

static void expect_survived(const call *calls, size_t n_calls) {
  for (size_t i = 0; i < n_calls; i++) {
    try_all(&calls[i]);
    const int files = n_files();
    const long lost = lost_by(&calls[i]);
    if (lost) print_error("%s: %ld allocations lost\n", calls[i].name, lost);
    assert_int_equal(lost, 0);
    assert_int_equal(n_files(), files);
  }
}

/* ---- calls ---- */

enum { MANY = 3000, MIB = 1 << 20 };
static void *p[MANY];
static aclrtDrvMemHandle handle;
static aclrtStream stream;
static char host[4 * 4096] __attribute__((aligned(4096)));

/* The first device, and what there is once in a process. */
static aclError set_device(void) { return aclrtSetDevice(0); }
static aclError reset_device(void) { return aclrtResetDevice(0); }

static aclError take_small(void) { return aclrtMalloc(&p[0], 1000, ACL_MEM_MALLOC_HUGE_FIRST); }
static aclError take_large(void) { return aclrtMalloc(&p[0], 5 * MIB, ACL_MEM_MALLOC_HUGE_FIRST); }
static aclError give_block(void) { return aclrtFree(p[0]); }
static aclError take_host(void) { return aclrtMallocHost(&p[0], 100000); }
static aclError give_host(void) { return aclrtFreeHost(p[0]); }

static aclError take_managed(void) { return aclrtMemAllocManaged(&p[0], 100000, ACL_RT_MEM_ATTACH_GLOBAL); }

static int n_many;
static aclError give_many(void) {
  while (n_many)
    if (aclrtFree(p[--n_many])) return 1;
  return 0;
}

/* A sequence: what was taken goes back when one of it is refused. */
static aclError take_many(void) {
  for (n_many = 0; n_many < MANY; n_many++) {
    const aclError code =
        aclrtMalloc(&p[n_many], n_many % 100 ? 1000 + 50 * (size_t)n_many : MIB, ACL_MEM_MALLOC_HUGE_FIRST);
    if (code) return give_many() ? 1 : code;
  }
  return 0;
}

/* Nearly all of the device in blocks of which every second is free, and then one that needs these: memory moves. */
static aclError take_scattered(void) {
  aclError code = 0;
  for (n_many = 0; n_many < 60 && !code; n_many++) {
    code = aclrtMallocAlign32(&p[n_many], 4 * MIB, ACL_MEM_MALLOC_HUGE_FIRST);
    if (code) n_many--;
  }
  int kept = 0;
  for (int i = 0; i < n_many && !code; i++) {
    if (i % 2)
      code = aclrtFree(p[i]);
    else
      p[kept++] = p[i];
  }
  n_many = kept;
  if (!code) code = aclrtMallocAlign32(&p[n_many], 100 * MIB, ACL_MEM_MALLOC_HUGE_FIRST);
  if (!code) n_many++;
  return code && give_many() ? 1 : code;
}

static aclError reserve(void) { return aclrtReserveMemAddress(&p[0], 8 * MIB, 0, NULL, 0); }
static aclError unreserve(void) { return aclrtReleaseMemAddress(p[0]); }

static aclError make_physical(aclrtMemLocationType where) {
  const aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_HUGE, .location = {.type = where}};
  return aclrtMallocPhysical(&handle, 2 * MIB, &prop, 0);
}
static aclError physical_device(void) { return make_physical(ACL_MEM_LOCATION_TYPE_DEVICE); }
static aclError physical_host(void) { return make_physical(ACL_MEM_LOCATION_TYPE_HOST); }
static aclError drop_physical(void) { return aclrtFreePhysical(handle); }

/* A physical whose memory other processes may have. */
static aclError export_physical(void) {
  uint64_t key;
  const aclError code = physical_device();
  if (code) return code;
  const aclError exported = aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, 1, &key);
  return exported && drop_physical() ? 1 : exported;
}

/* With p[1] reserved and a physical there. */
static aclError map(void) { return aclrtMapMem(p[1], 2 * MIB, 0, handle, 0); }
static aclError unmap(void) { return aclrtUnmapMem(p[1]); }

static aclError register_host(void) { return aclrtHostRegister(host, sizeof host, ACL_HOST_REGISTER_MAPPED, &p[0]); }
static aclError unregister_host(void) { return aclrtHostUnregister(host); }

static aclrtContext context;
static aclError make_context(void) { return aclrtCreateContext(&context, 0); }
static aclError drop_context(void) {
  const aclError code = aclrtDestroyContext(context);
  return code ? code : aclrtSetDevice(0) || aclrtResetDevice(0); /* the device's own is current again */
}

/* So many that the tables grow. */
static aclError drop_streams(void) {
  while (n_many)
    if (aclrtDestroyStream(p[--n_many])) return 1;
  return 0;
}
static aclError make_streams(void) {
  for (n_many = 0; n_many < 100; n_many++) {
    const aclError code = aclrtCreateStream(&p[n_many]);
    if (code) return drop_streams() ? 1 : code;
  }
  return 0;
}

static aclError drop_events(void) {
  while (n_many)
    if (aclrtDestroyEvent(p[--n_many])) return 1;
  return 0;
}
static aclError make_events(void) {
  for (n_many = 0; n_many < 100; n_many++) {
    const aclError code = aclrtCreateEventExWithFlag(&p[n_many], ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE);
    if (code) return drop_events() ? 1 : code;
  }
  return 0;
}

static aclrtEvent event;
static aclError make_stream(void) { return aclrtCreateStream(&stream); }
static aclError record_event(void) {
  const aclError code = aclrtRecordEvent(event, stream);
  return code ? code : aclrtStreamWaitEvent(stream, event);
}
static aclError synchronize(void) { return aclrtSynchronizeStream(stream); }

static aclError fill(void) { return aclrtMemsetAsync(p[1], 4096, 1, 4096, stream); }
static aclError copy_pageable(void) {
  char text[100] = "pageable";
  return aclrtMemcpyAsync(p[1], 4096, text, sizeof text, ACL_MEMCPY_HOST_TO_DEVICE, stream);
}
static void do_nothing(void *unused) { (void)unused; }
static aclError launch_host(void) { return aclrtLaunchHostFunc(stream, do_nothing, NULL); }

static void *object;
static const int64_t dims[] = {4, 5, 6}, strides[] = {30, 6, 1};
static aclError made(void *o) { return (object = o) ? 0 : 1; }
static aclError make_tensor(void) {
  return made(aclCreateTensor(dims, 3, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, dims, 3, p[1]));
}
static aclError drop_tensor(void) { return aclDestroyTensor(object); }
static aclError make_scalar(void) { return made(aclCreateScalar(&(float){1}, ACL_FLOAT)); }
static aclError drop_scalar(void) { return aclDestroyScalar(object); }
static aclError make_ints(void) { return made(aclCreateIntArray(dims, 3)); }
static aclError drop_ints(void) { return aclDestroyIntArray(object); }
static aclError make_buffer(void) { return made(aclCreateDataBuffer(p[1], 100)); }
static aclError drop_buffer(void) { return aclDestroyDataBuffer(object); }

/* Both phases, of operands in one block; they come from the library's own caches where these are warm. */
static aclError add(void) {
  aclError code = 1;
  uint64_t bytes;
  aclOpExecutor *executor;
  aclTensor *self = aclCreateTensor(dims, 3, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, dims, 3, p[1]);
  aclTensor *other = aclCreateTensor(dims, 3, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, dims, 3, p[1]);
  aclTensor *out = aclCreateTensor(dims, 3, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, dims, 3, p[1]);
  aclScalar *alpha = aclCreateScalar(&(float){1}, ACL_FLOAT);
  if (self && other && out && alpha) code = aclnnAddGetWorkspaceSize(self, other, alpha, out, &bytes, &executor);
  if (!code) {
    assert_int_equal(bytes, 0);
    code = aclnnAdd(NULL, 0, executor, stream);
    if (code && !has_failed) print_error("phase two: %d\n", code);
    if (code) aclDestroyAclOpExecutor(executor);
  }
  if (self) aclDestroyTensor(self);
  if (other) aclDestroyTensor(other);
  if (out) aclDestroyTensor(out);
  if (alpha) aclDestroyScalar(alpha);
  return code;
}

/* ---- graphs ---- */

static aclmdlRI graph;
static aclrtStream joined;

/* A capture of two streams that goes the ways of all its parts: tasks until the tables grow, events, a group. */
static aclError capture_parts(void) {
  aclError code = 0;
  aclrtTaskGrp group;
  for (int i = 0; i < 50 && !code; i++) code = fill();
  if (!code) code = aclrtRecordEvent(event, stream);
  if (!code) code = aclrtStreamWaitEvent(joined, event);
  for (int i = 0; i < 20 && !code; i++) code = aclrtMemsetAsync(p[1], 4096, 1, 4096, joined);
  if (!code) code = aclrtRecordEvent(event, joined);
  if (!code) code = aclrtStreamWaitEvent(stream, event);
  if (!code) code = launch_host();
  if (!code) code = aclmdlRICaptureTaskGrpBegin(stream);
  if (!code) code = add();
  if (!code) code = aclmdlRICaptureTaskGrpEnd(stream, &group);
  return code;
}

static aclError capture(void) {
  aclError code = aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED);
  if (code) return code;
  code = capture_parts();
  const long left = until_failure;
  if (code) until_failure = 0;
  const aclError end = aclmdlRICaptureEnd(stream, &graph);
  if (code) until_failure = left;
  if (code && !end) (void)aclmdlRIDestroy(graph);
  return code ? code : end;
}

static aclError drop_graph(void) { return aclmdlRIDestroy(graph); }
static aclError execute(void) { return aclmdlRIExecuteAsync(graph, stream); }

static aclError exchange_mode(void) {
  aclmdlRICaptureMode mode = ACL_MODEL_RI_CAPTURE_MODE_RELAXED;
  const aclError code = aclmdlRICaptureThreadExchangeMode(&mode);
  return code ? code : aclmdlRICaptureThreadExchangeMode(&mode);
}
static aclError nothing(void) { return 0; }

/* ---- tests ---- */

enum { ALL_DONE, ONE_FAILED, WRONG };

/* In a process of its own, since much is made only once: the first device, without the n-th allocation. */
static int come_up_without(long n) {
  until_failure = n;
  const aclError code = set_device();
  until_failure = 0;
  if (code && (!has_failed || !aclGetRecentErrMsg())) return WRONG;
  if (code && set_device()) return WRONG;
  if (take_small() || give_block() || take_host() || give_host() || make_stream()) return WRONG;
  if (aclrtMemsetAsync(host, sizeof host, 0, sizeof host, stream) || aclrtSynchronizeStream(stream)) return WRONG;
  return has_failed ? ONE_FAILED : ALL_DONE;
}

static void devices_come_up(void **state) {
  (void)state;
  long n = 0;
  for (int status = ONE_FAILED; status == ONE_FAILED;) {
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(come_up_without(n + 1));
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) == WRONG) print_error("aclrtSetDevice: allocation %ld\n", n + 1);
    assert_true(WIFEXITED(status));
    status = WEXITSTATUS(status);
    assert_int_not_equal(status, WRONG);
    n += status == ONE_FAILED;
  }
  assert_true(n > 5); /* the tables of a heap, at least */

  assert_int_equal(set_device(), 0);
  assert_int_equal(make_stream(), 0);
  const call again[] = {{"aclrtSetDevice, again", set_device, reset_device}};
  expect_survived(again, COUNT(again));
}

static void memory(void **state) {
  (void)state;
  static const call calls[] = {
      {"aclrtMallocHost", take_host, give_host},
      {"aclrtMemAllocManaged", take_managed, give_block},
      {"aclrtMalloc, small", take_small, give_block},
      {"aclrtMalloc, large", take_large, give_block},
      {"blocks that need what others left", take_scattered, give_many},
      {"aclrtMalloc, many", take_many, give_many},
      {"aclrtHostRegister", register_host, unregister_host},
  };
  expect_survived(calls, COUNT(calls));
}

static void virtual_memory(void **state) {
  (void)state;
  static const call calls[] = {
      {"aclrtReserveMemAddress", reserve, unreserve},
      {"aclrtMallocPhysical", physical_device, drop_physical},
      {"aclrtMallocPhysical, host", physical_host, drop_physical},
      {"aclrtMemExportToShareableHandle", export_physical, drop_physical},
  };
  static const call mapping[] = {{"aclrtMapMem", map, unmap}};
  expect_survived(calls, COUNT(calls));
  assert_int_equal(reserve(), 0);
  p[1] = p[0];
  for (int host_side = 0; host_side < 2; host_side++) {
    assert_int_equal(host_side ? physical_host() : physical_device(), 0);
    expect_survived(mapping, 1);
    assert_int_equal(drop_physical(), 0);
  }
  assert_int_equal(unreserve(), 0);
}

static void streams_events_and_tasks(void **state) {
  (void)state;
  static const call calls[] = {
      {"aclrtCreateContext", make_context, drop_context},
      {"aclrtCreateStream", make_streams, drop_streams},
      {"aclrtCreateEvent", make_events, drop_events},
  };
  static const call tasks[] = {
      {"aclrtMemsetAsync", fill, synchronize},
      {"aclrtMemcpyAsync", copy_pageable, synchronize},
      {"aclrtLaunchHostFunc", launch_host, synchronize},
      {"aclrtRecordEvent", record_event, synchronize},
  };
  expect_survived(calls, COUNT(calls));
  assert_int_equal(aclrtCreateEvent(&event), 0);
  assert_int_equal(aclrtMalloc(&p[1], 4096, ACL_MEM_MALLOC_HUGE_FIRST), 0);
  expect_survived(tasks, COUNT(tasks));
  assert_int_equal(aclrtFree(p[1]), 0);
  assert_int_equal(aclrtDestroyEvent(event), 0);
}

static void operators(void **state) {
  (void)state;
  static const call calls[] = {
      {"aclCreateTensor", make_tensor, drop_tensor},
      {"aclCreateScalar", make_scalar, drop_scalar},
      {"aclCreateIntArray", make_ints, drop_ints},
      {"aclCreateDataBuffer", make_buffer, drop_buffer},
      {"aclnnAdd", add, synchronize},
  };
  assert_int_equal(aclrtMalloc(&p[1], 4096, ACL_MEM_MALLOC_HUGE_FIRST), 0);
  expect_survived(calls, COUNT(calls));
  assert_int_equal(aclrtFree(p[1]), 0);
}

static void graphs(void **state) {
  (void)state;
  static const call calls[] = {{"aclmdlRICaptureThreadExchangeMode", exchange_mode, nothing},
                               {"aclmdlRICapture", capture, drop_graph}};
  static const call execution[] = {{"aclmdlRIExecuteAsync", execute, synchronize}};
  assert_int_equal(aclrtCreateStream(&joined), 0);
  assert_int_equal(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC), 0);
  assert_int_equal(aclrtMalloc(&p[1], 4096, ACL_MEM_MALLOC_HUGE_FIRST), 0);
  expect_survived(calls, COUNT(calls));
  assert_int_equal(capture(), 0);
  expect_survived(execution, COUNT(execution));
  assert_int_equal(drop_graph(), 0);
  assert_int_equal(aclrtFree(p[1]), 0);
  assert_int_equal(aclrtDestroyEvent(event), 0);
  assert_int_equal(aclrtDestroyStream(joined), 0);
}

static int up(void **state) {
  (void)state;
  setenv("CANNON_MEM", "268435456", 1);
  return aclInit(NULL);
}

static int down(void **state) {
  (void)state;
  return aclrtDestroyStream(stream) || reset_device() || aclFinalize();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(devices_come_up),          cmocka_unit_test(memory),    cmocka_unit_test(virtual_memory),
      cmocka_unit_test(streams_events_and_tasks), cmocka_unit_test(operators), cmocka_unit_test(graphs),
  };
  return cmocka_run_group_tests(tests, up, down);
}
