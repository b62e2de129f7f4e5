/* SPDX-License-Identifier: Apache-2.0 */
/* The checker's races and lifetimes (CANNON_CHECK=race,lifetime): programs that are wrong on purpose, each of which
 * must get a finding with the given words, and right ones that are tempting, which must get none. Each runs in a
 * process of its own. Two streams, a and b, and buffers x, y and z of 4096 bytes are there. */
#include "programs.h"

#include "acl/acl_rt_memory_soma.h"
#include "aclnnop/aclnn_mul.h"
#include "hccl/hccl.h"

enum { BYTES = 4096, FLOATS_OF_BUFFER = BYTES / sizeof(float) };

static aclrtStream a, b;
static char *x, *y, *z;
static char on_host[BYTES];

/* ---- accesses ---------------------------------------------------------------------------------------------------- */

static void write_in(aclrtStream s, void *p) { CHECK_OK(aclrtMemsetAsync(p, BYTES, 1, BYTES, s)); }

static void write_part(aclrtStream s, char *p, size_t first, size_t bytes) {
  CHECK_OK(aclrtMemsetAsync(p + first, bytes, 1, bytes, s));
}

static void copy_in(aclrtStream s, void *to, const void *from) {
  CHECK_OK(aclrtMemcpyAsync(to, BYTES, from, BYTES, ACL_MEMCPY_DEVICE_TO_DEVICE, s));
}

/* to = from * 2, with the elements `first`, `first + step`, ... of both. */
static void double_in(aclrtStream s, void *to, void *from, int64_t first, int64_t step) {
  const int64_t n = FLOATS_OF_BUFFER / step, storage = FLOATS_OF_BUFFER;
  aclTensor *self = aclCreateTensor(&n, 1, ACL_FLOAT, &step, first, ACL_FORMAT_ND, &storage, 1, from);
  aclTensor *out = aclCreateTensor(&n, 1, ACL_FLOAT, &step, first, ACL_FORMAT_ND, &storage, 1, to);
  aclScalar *two = float_scalar(2);
  LAUNCH(s, aclnnMuls, self, two, out);
  aclDestroyScalar(two);
  aclDestroyTensor(self);
  aclDestroyTensor(out);
}

/* to = from * from: both operands are the same bytes. */
static void square_in(aclrtStream s, void *to, void *from) {
  const int64_t n = FLOATS_OF_BUFFER;
  aclTensor *self = aclCreateTensor(&n, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, &n, 1, from);
  aclTensor *out = aclCreateTensor(&n, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, &n, 1, to);
  LAUNCH(s, aclnnMul, self, self, out);
  aclDestroyTensor(self);
  aclDestroyTensor(out);
}

static void to_host(const void *p) { CHECK_OK(aclrtMemcpy(on_host, BYTES, p, BYTES, ACL_MEMCPY_DEVICE_TO_HOST)); }
static void wait_for(aclrtStream s) { CHECK_OK(aclrtSynchronizeStream(s)); }

static aclrtEvent event_new(void) {
  aclrtEvent e = NULL;
  CHECK_OK(aclrtCreateEventExWithFlag(&e, ACL_EVENT_SYNC));
  return e;
}

/* Makes `to` wait for what `from` has so far. */
static void order(aclrtStream from, aclrtStream to, aclrtEvent e) {
  CHECK_OK(aclrtRecordEvent(e, from));
  CHECK_OK(aclrtStreamWaitEvent(to, e));
}

/* ---- wrong programs ---------------------------------------------------------------------------------------------- */

static void same_operand_twice(void) {
  write_in(a, x);
  square_in(b, y, x);
}

static void no_event(void) {
  double_in(a, x, y, 0, 1);
  copy_in(b, z, x);
}

static void recorded_too_early(void) {
  aclrtEvent e = event_new();
  CHECK_OK(aclrtRecordEvent(e, a));
  write_in(a, x);
  CHECK_OK(aclrtStreamWaitEvent(b, e));
  copy_in(b, z, x);
}

static void waited_by_another(void) {
  aclrtStream c = stream_new();
  write_in(a, x);
  order(a, c, event_new());
  copy_in(b, z, x);
}

static void waited_too_late(void) {
  aclrtEvent e = event_new();
  write_in(a, x);
  CHECK_OK(aclrtRecordEvent(e, a));
  copy_in(b, z, x);
  CHECK_OK(aclrtStreamWaitEvent(b, e));
}

static void recorded_anew_elsewhere(void) {
  aclrtStream c = stream_new();
  aclrtEvent e = event_new();
  write_in(a, x);
  CHECK_OK(aclrtRecordEvent(e, a));
  CHECK_OK(aclrtRecordEvent(e, c));
  CHECK_OK(aclrtStreamWaitEvent(b, e));
  copy_in(b, z, x);
}

static void wait_before_any_record(void) {
  aclrtEvent e = event_new(); /* of this kind, a wait before the record waits for nothing */
  CHECK_OK(aclrtStreamWaitEvent(b, e));
  write_in(a, x);
  CHECK_OK(aclrtRecordEvent(e, a));
  copy_in(b, z, x);
}

static void host_reads_too_early(void) {
  write_in(a, x);
  to_host(x);
}

static void host_writes_too_early(void) {
  double_in(a, y, x, 0, 1);
  CHECK_OK(aclrtMemcpy(x, BYTES, on_host, BYTES, ACL_MEMCPY_HOST_TO_DEVICE));
}

static void host_sets_too_early(void) {
  copy_in(a, y, x);
  CHECK_OK(aclrtMemset(x, BYTES, 0, BYTES));
}

/* Holds the stream until the host writes the word. */
static uint64_t *hold(aclrtStream s) {
  uint64_t *word = dev_filled(0, 64);
  CHECK_OK(aclrtValueWait(word, 1, ACL_STREAM_WAIT_VALUE_EQ, s));
  return word;
}

static void let_go(uint64_t *word) {
  const uint64_t one = 1;
  CHECK_OK(aclrtMemcpy(word, sizeof one, &one, sizeof one, ACL_MEMCPY_HOST_TO_DEVICE));
}

static void query_without_answer(void) {
  write_in(a, x);
  uint64_t *word = hold(a);
  assert_int_equal(stream_status(a), ACL_STREAM_STATUS_NOT_READY);
  to_host(x);
  let_go(word);
}

static void event_query_without_answer(void) {
  aclrtEventRecordedStatus status;
  aclrtEvent e = event_new();
  uint64_t *word = hold(a);
  write_in(a, x);
  CHECK_OK(aclrtRecordEvent(e, a));
  CHECK_OK(aclrtQueryEventStatus(e, &status));
  assert_int_equal(status, ACL_EVENT_RECORDED_STATUS_NOT_READY);
  copy_in(b, z, x);
  let_go(word);
  wait_for(a);
}

static void sleeps(void) {
  write_in(a, x);
  nap_ms(20);
  to_host(x);
}

static void waits_for_an_earlier_event(void) {
  aclrtEvent e = event_new();
  CHECK_OK(aclrtRecordEvent(e, a));
  write_in(a, x);
  CHECK_OK(aclrtSynchronizeEvent(e));
  to_host(x);
}

static void synchronises_another_stream(void) {
  write_in(a, x);
  write_in(b, y);
  wait_for(b);
  to_host(x);
}

static void frees_in_use(void) {
  char *p = dev_new(BYTES);
  write_in(a, p);
  CHECK_OK(aclrtFree(p));
}

static void frees_while_read(void) {
  char *p = dev_filled(0, BYTES);
  copy_in(a, x, p);
  wait_for(b);
  CHECK_OK(aclrtFree(p));
}

static void frees_pinned_in_use(void) {
  void *p = pinned_new(BYTES);
  CHECK_OK(aclrtMemcpyAsync(x, BYTES, p, BYTES, ACL_MEMCPY_HOST_TO_DEVICE, a));
  CHECK_OK(aclrtFreeHost(p));
}

static void frees_behind_a_host_function(void) {
  char *p = dev_new(BYTES);
  gate *g = gate_close(a);
  write_in(a, p);
  CHECK_OK(aclrtFree(p));
  gate_open(g);
}

static void memset_beside_kernel(void) {
  double_in(a, x, x, 0, 1);
  write_part(b, x, BYTES - 1, 1);
}

static void copies_cross(void) {
  copy_in(a, x, y);
  copy_in(b, y, x);
}

static void pinned_copied_twice(void) {
  void *p = pinned_new(BYTES);
  CHECK_OK(aclrtMemcpyAsync(p, BYTES, x, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, a));
  CHECK_OK(aclrtMemcpyAsync(y, BYTES, p, BYTES, ACL_MEMCPY_HOST_TO_DEVICE, b));
}

static void managed_beside(void) {
  void *p = NULL;
  CHECK_OK(aclrtMemAllocManaged(&p, BYTES, ACL_RT_MEM_ATTACH_GLOBAL));
  write_in(a, p);
  copy_in(b, x, p);
}

static void views_overlap_by_one(void) {
  double_in(a, x, y, 0, 2);
  double_in(b, x, y, 0, 3);
}

static void notify_too_early(void) {
  aclrtNotify n = NULL;
  CHECK_OK(aclrtCreateNotify(&n, 0));
  CHECK_OK(aclrtRecordNotify(n, a));
  write_in(a, x);
  CHECK_OK(aclrtWaitAndResetNotify(n, b, 0));
  copy_in(b, z, x);
}

static void graph_beside_a_stream(void) {
  aclmdlRI model = NULL;
  CHECK_OK(aclmdlRICaptureBegin(a, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
  write_in(a, x);
  CHECK_OK(aclmdlRICaptureEnd(a, &model));
  CHECK_OK(aclmdlRIExecuteAsync(model, a));
  copy_in(b, z, x);
}

static void event_reset_and_reused(void) {
  aclrtEvent e = NULL;
  CHECK_OK(aclrtCreateEventWithFlag(&e, ACL_EVENT_SYNC));
  write_in(a, x);
  CHECK_OK(aclrtRecordEvent(e, a));
  CHECK_OK(aclrtResetEvent(e, a));
  CHECK_OK(aclrtStreamWaitEvent(b, e));
  copy_in(b, z, y);
  write_in(a, y);
  CHECK_OK(aclrtRecordEvent(e, a));
  write_in(a, z);
}

static void value_too_early(void) {
  void *word = dev_filled(0, 64);
  CHECK_OK(aclrtValueWrite(word, 1, 0, a));
  write_in(a, x);
  CHECK_OK(aclrtValueWait(word, 1, 0, b));
  copy_in(b, z, x);
}

static aclrtMemPool pool_new(void) {
  aclrtMemPool pool = NULL;
  const aclrtMemPoolProps props = {.allocType = ACL_MEM_ALLOCATION_TYPE_PINNED,
                                   .handleType = ACL_MEM_HANDLE_TYPE_NONE,
                                   .location = {0, ACL_MEM_LOCATION_TYPE_DEVICE}};
  CHECK_OK(aclrtMemPoolCreate(&pool, &props));
  return pool;
}

static void pool_of_another_stream(void) {
  void *p = NULL;
  CHECK_OK(aclrtMemPoolMallocAsync(&p, BYTES, pool_new(), a));
  write_in(b, p);
}

static void pool_freed_in_another_stream(void) {
  void *p = NULL;
  CHECK_OK(aclrtMemPoolMallocAsync(&p, BYTES, pool_new(), a));
  write_in(a, p);
  CHECK_OK(aclrtMemPoolFreeAsync(p, b));
}

static void other_device_reads(void) {
  write_in(a, x);
  CHECK_OK(aclrtSetDevice(1));
  CHECK_OK(aclrtDeviceEnablePeerAccess(0, 0));
  aclrtStream there = stream_new();
  copy_in(there, dev_new(BYTES), x);
}

static void ahead_of_the_wrong_access(void) {
  aclrtNotify n = NULL;
  CHECK_OK(aclrtCreateNotify(&n, 0));
  CHECK_OK(aclrtWaitAndResetNotify(n, b, 0));
  copy_in(b, z, x);
  CHECK_OK(aclrtRecordNotify(n, a));
  write_in(a, x);
}

/* Ranks of a communicator, as threads. */
typedef struct {
  HcclRootInfo info;
  HcclComm comm[2];
  float *buffer[2];
  bool waits;
} ranks;

static ranks all_ranks;

static void *rank_main(void *number) {
  const uint32_t rank = (uint32_t)(uintptr_t)number;
  aclrtSetDevice((int32_t)rank);
  HcclCommInitRootInfo(2, &all_ranks.info, rank, &all_ranks.comm[rank]);
  aclrtStream s = NULL, other = NULL;
  aclrtEvent e = NULL;
  aclrtCreateStream(&s);
  aclrtCreateStream(&other);
  aclrtCreateEvent(&e);
  aclrtMalloc((void **)&all_ranks.buffer[rank], BYTES, 0);
  float *buffer = all_ranks.buffer[rank];
  aclrtMemsetAsync(buffer, BYTES, 0, BYTES, s);
  HcclAllReduce(buffer, buffer, FLOATS_OF_BUFFER, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, all_ranks.comm[rank], s);
  if (all_ranks.waits) {
    aclrtRecordEvent(e, s);
    aclrtStreamWaitEvent(other, e);
  }
  aclrtMemsetAsync(buffer, BYTES, 1, BYTES, other);
  aclrtSynchronizeStream(s);
  aclrtSynchronizeStream(other);
  HcclCommDestroy(all_ranks.comm[rank]);
  return NULL;
}

static void run_ranks(bool waits) {
  all_ranks.waits = waits;
  CHECK_OK((aclError)HcclGetRootInfo(&all_ranks.info));
  pthread_t second = thread_start(rank_main, (void *)1);
  on_thread(rank_main, (void *)0);
  pthread_join(second, NULL);
}

static void collectives_buffer_reused(void) { run_ranks(false); }

/* ---- right programs ---------------------------------------------------------------------------------------------- */

static void event_in_between(void) {
  write_in(a, x);
  order(a, b, event_new());
  copy_in(b, z, x);
}

static void double_buffering(void) {
  aclrtEvent full[2] = {event_new(), event_new()}, empty[2] = {event_new(), event_new()};
  char *buffer[2] = {x, y};
  for (int i = 0; i < 10; ++i) {
    CHECK_OK(aclrtStreamWaitEvent(a, empty[i % 2]));
    write_in(a, buffer[i % 2]);
    order(a, b, full[i % 2]);
    double_in(b, z, buffer[i % 2], 0, 1);
    CHECK_OK(aclrtRecordEvent(empty[i % 2], b));
  }
}

static void event_reused_after_its_wait(void) {
  aclrtEvent e = event_new();
  write_in(a, x);
  order(a, b, e);
  copy_in(b, z, x);
  order(b, a, e);
  write_in(a, x);
}

static void views_interleave(void) {
  double_in(a, x, y, 0, 2);
  double_in(b, x, y, 1, 2);
}

static void rows_interleave(void) {
  CHECK_OK(aclrtMemcpy2dAsync(x, 64, y, 64, 32, BYTES / 64, ACL_MEMCPY_DEVICE_TO_DEVICE, a));
  CHECK_OK(aclrtMemcpy2dAsync(x + 32, 64, y, 64, 32, BYTES / 64, ACL_MEMCPY_DEVICE_TO_DEVICE, b));
}

static void neighbours(void) {
  write_part(a, x, 0, BYTES / 2 - 1);
  write_part(b, x, BYTES / 2 - 1, BYTES / 2 + 1);
}

static void both_read(void) {
  copy_in(a, y, x);
  copy_in(b, z, x);
}

static void in_place_chain(void) {
  for (int i = 0; i < 5; ++i) double_in(a, x, x, 0, 1);
}

static void carved_block(void) {
  char *block = dev_new(8 * BYTES);
  for (int i = 0; i < 8; ++i) write_in(i % 2 ? a : b, block + i * BYTES);
  wait_for(a);
  wait_for(b);
  for (int i = 0; i < 8; ++i) write_in(i % 2 ? b : a, block + i * BYTES);
}

static void pool_in_one_stream(void) {
  aclrtMemPool pool = pool_new();
  for (int i = 0; i < 4; ++i) {
    void *p = NULL;
    CHECK_OK(aclrtMemPoolMallocAsync(&p, BYTES, pool, a));
    write_in(a, p);
    order(a, b, event_new());
    copy_in(b, z, p);
    order(b, a, event_new());
    CHECK_OK(aclrtMemPoolFreeAsync(p, a));
  }
}

static atomic_int flag;
static void raise_flag(void *unused) {
  (void)unused;
  atomic_store(&flag, 1);
}

static void host_function_as_order(void) {
  write_in(a, x);
  CHECK_OK(aclrtLaunchHostFunc(a, raise_flag, NULL));
  while (!atomic_load(&flag)) nap_ms(1);
  to_host(x);
}

static void wait_for_flag(void *unused) {
  (void)unused;
  while (!atomic_load(&flag)) nap_ms(1);
}

static void stream_waits_for_the_host(void) {
  CHECK_OK(aclrtLaunchHostFunc(a, wait_for_flag, NULL));
  copy_in(a, y, x);
  CHECK_OK(aclrtMemcpy(x, BYTES, on_host, BYTES, ACL_MEMCPY_HOST_TO_DEVICE));
  atomic_store(&flag, 1);
}

static void callback_as_order(void) {
  CHECK_OK(aclrtSubscribeReport((uint64_t)pthread_self(), a));
  write_in(a, x);
  CHECK_OK(aclrtLaunchCallback(raise_flag, NULL, ACL_CALLBACK_BLOCK, a));
  while (!atomic_load(&flag)) aclrtProcessReport(100);
  to_host(x);
}

static void device_synchronised(void) {
  write_in(a, x);
  write_in(b, y);
  write_in(NULL, z);
  CHECK_OK(aclrtSynchronizeDevice());
  copy_in(a, z, y);
  to_host(x);
}

static void event_synchronised(void) {
  aclrtEvent e = event_new();
  write_in(a, x);
  CHECK_OK(aclrtRecordEvent(e, a));
  write_in(a, y);
  CHECK_OK(aclrtSynchronizeEvent(e));
  to_host(x);
}

static void polled(void) {
  aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
  aclrtEvent e = event_new();
  write_in(a, x);
  CHECK_OK(aclrtRecordEvent(e, a));
  while (status != ACL_EVENT_RECORDED_STATUS_COMPLETE) CHECK_OK(aclrtQueryEventStatus(e, &status));
  copy_in(b, z, x);
}

static void default_stream(void) {
  write_in(NULL, x);
  double_in(NULL, y, x, 0, 1);
  wait_for(NULL);
  to_host(y);
}

static void two_contexts(void) {
  aclrtContext first = NULL, second = NULL;
  CHECK_OK(aclrtGetCurrentContext(&first));
  write_in(a, x);
  CHECK_OK(aclrtCreateContext(&second, 0));
  aclrtStream there = stream_new();
  write_in(there, y);
  CHECK_OK(aclrtSetCurrentContext(first));
  wait_for(a);
  CHECK_OK(aclrtSetCurrentContext(second));
  copy_in(there, z, x);
  wait_for(there);
  CHECK_OK(aclrtSetCurrentContext(first));
  copy_in(a, x, z);
}

static void over_three_streams(void) {
  aclrtStream c = stream_new();
  write_in(a, x);
  order(a, b, event_new());
  order(b, c, event_new());
  copy_in(c, z, x);
}

static void notify_ahead(void) {
  aclrtNotify n = NULL;
  CHECK_OK(aclrtCreateNotify(&n, 0));
  CHECK_OK(aclrtWaitAndResetNotify(n, b, 0));
  copy_in(b, z, x);
  write_in(a, x);
  CHECK_OK(aclrtRecordNotify(n, a));
}

static void event_ahead(void) {
  aclrtEvent e = NULL;
  CHECK_OK(aclrtCreateEvent(&e)); /* of this kind, a wait may be submitted before its record */
  CHECK_OK(aclrtStreamWaitEvent(b, e));
  copy_in(b, z, x);
  write_in(a, x);
  CHECK_OK(aclrtRecordEvent(e, a));
}

static void notifies_back_and_forth(void) {
  aclrtNotify there = NULL, back = NULL;
  CHECK_OK(aclrtCreateNotify(&there, 0));
  CHECK_OK(aclrtCreateNotify(&back, 0));
  for (int i = 0; i < 5; ++i) {
    write_in(a, x);
    CHECK_OK(aclrtRecordNotify(there, a));
    CHECK_OK(aclrtWaitAndResetNotify(there, b, 0));
    copy_in(b, z, x);
    CHECK_OK(aclrtRecordNotify(back, b));
    CHECK_OK(aclrtWaitAndResetNotify(back, a, 0));
  }
}

static void value_as_order(void) {
  void *word = dev_filled(0, 64);
  CHECK_OK(aclrtValueWait(word, 1, 0, b));
  copy_in(b, z, x);
  write_in(a, x);
  CHECK_OK(aclrtValueWrite(word, 1, 0, a));
}

static void graph_in_one_stream(void) {
  aclmdlRI model = NULL;
  aclrtEvent fork = event_new(), join = event_new();
  CHECK_OK(aclmdlRICaptureBegin(a, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
  write_in(a, x);
  order(a, b, fork);
  copy_in(b, y, x);
  copy_in(a, z, x);
  order(b, a, join);
  double_in(a, x, y, 0, 1);
  CHECK_OK(aclmdlRICaptureEnd(a, &model));
  for (int i = 0; i < 3; ++i) CHECK_OK(aclmdlRIExecuteAsync(model, a));
  wait_for(a);
  to_host(x);
}

static void memory_reused(void) {
  for (int i = 0; i < 20; ++i) {
    char *p = dev_new(BYTES);
    aclrtStream s = stream_new();
    write_in(s, p);
    if (i % 3 == 0) wait_for(s);
    if (i % 3 == 1) CHECK_OK(aclrtDestroyStream(s));
    if (i % 3 == 2) CHECK_OK(aclrtSynchronizeDevice());
    CHECK_OK(aclrtFree(p));
    if (i % 3 != 1) CHECK_OK(aclrtDestroyStream(s));
  }
}

static void collectives_waited_for(void) { run_ranks(true); }

static void devices_in_turn(void) {
  write_in(a, x);
  wait_for(a);
  CHECK_OK(aclrtSetDevice(1));
  CHECK_OK(aclrtDeviceEnablePeerAccess(0, 0));
  aclrtStream there = stream_new();
  copy_in(there, dev_new(BYTES), x);
  wait_for(there);
  CHECK_OK(aclrtSetDevice(0));
  write_in(b, x);
}

/* Device 1 copies from x when `wait_first`, or without waiting for what device 0 does. */
static void copy_on_the_other_device(aclrtEvent e, bool wait_first) {
  CHECK_OK(aclrtSetDevice(1));
  CHECK_OK(aclrtDeviceEnablePeerAccess(0, 0));
  aclrtStream there = stream_new();
  if (wait_first) CHECK_OK(aclrtStreamWaitEvent(there, e));
  copy_in(there, dev_new(BYTES), x);
  wait_for(there);
  CHECK_OK(aclrtSetDevice(0));
}

static void other_device_waits(void) {
  aclrtEvent e = event_new();
  write_in(a, x);
  CHECK_OK(aclrtRecordEvent(e, a));
  copy_on_the_other_device(e, true);
  write_in(b, x); /* after both, as the host has waited for the last */
}

static void other_device_without_wait(void) {
  aclrtEvent e = event_new();
  write_in(a, x);
  CHECK_OK(aclrtRecordEvent(e, a));
  copy_on_the_other_device(e, false);
}

static void other_device_waits_too_early(void) {
  aclrtEvent e = event_new();
  CHECK_OK(aclrtRecordEvent(e, a));
  write_in(a, x);
  copy_on_the_other_device(e, true);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static const program programs[] = {
#define WRONG(name, words)                                                                                             \
  { #name, name, NULL, words }
#define RIGHT(name)                                                                                                    \
  { #name, name, NULL, NULL }
    WRONG(no_event, "memcpy on stream 2 reads 4096 bytes that Muls on stream 1 writes, and nothing orders them. Record "
                    "an event after Muls on stream 1, and let stream 2 wait for it before memcpy."),
    WRONG(same_operand_twice, "Mul on stream 2 reads 4096 bytes that memset on stream 1 writes"),
    WRONG(recorded_too_early, "memcpy on stream 2 reads 4096 bytes that memset on stream 1 writes"),
    WRONG(waited_by_another, "memcpy on stream 2 reads 4096 bytes that memset on stream 1 writes"),
    WRONG(waited_too_late, "memcpy on stream 2 reads 4096 bytes that memset on stream 1 writes"),
    WRONG(recorded_anew_elsewhere, "memcpy on stream 2 reads 4096 bytes that memset on stream 1 writes"),
    WRONG(wait_before_any_record, "memcpy on stream 2 reads 4096 bytes that memset on stream 1 writes"),
    WRONG(host_reads_too_early,
          "memcpy on the host reads 4096 bytes that memset on stream 1 writes, and nothing orders "
          "them. Synchronise stream 1 before the host's memcpy."),
    WRONG(host_writes_too_early, "memcpy on the host writes 4096 bytes that Muls on stream 1 reads"),
    WRONG(host_sets_too_early, "memset on the host writes 4096 bytes that memcpy on stream 1 reads"),
    WRONG(query_without_answer, "memcpy on the host reads 4096 bytes that memset on stream 1 writes"),
    WRONG(event_query_without_answer, "memset on stream 1 writes 4096 bytes that memcpy on stream 2 reads"),
    WRONG(sleeps, "memcpy on the host reads 4096 bytes that memset on stream 1 writes"),
    WRONG(waits_for_an_earlier_event, "memcpy on the host reads 4096 bytes that memset on stream 1 writes"),
    WRONG(synchronises_another_stream, "memcpy on the host reads 4096 bytes that memset on stream 1 writes"),
    WRONG(frees_in_use, "aclrtFree gives back memory while memset on stream 1 may still be pending, which writes 4096 "
                        "bytes of it. Synchronise stream 1 before aclrtFree."),
    WRONG(frees_while_read, "aclrtFree gives back memory while memcpy on stream 1 may still be pending, which reads"),
    WRONG(frees_pinned_in_use, "aclrtFreeHost gives back memory while memcpy on stream 1 may still be pending"),
    WRONG(frees_behind_a_host_function, "aclrtFree gives back memory while memset on stream 1 may still be pending"),
    WRONG(memset_beside_kernel, "memset on stream 2 writes 1 byte that Muls on stream 1 writes"),
    WRONG(copies_cross, "memcpy on stream 2 writes 4096 bytes that memcpy on stream 1 reads"),
    WRONG(pinned_copied_twice, "memcpy on stream 2 reads 4096 bytes that memcpy on stream 1 writes"),
    WRONG(managed_beside, "memcpy on stream 2 reads 4096 bytes that memset on stream 1 writes"),
    WRONG(views_overlap_by_one, "Muls on stream 2 writes 684 bytes that Muls on stream 1 writes"),
    WRONG(notify_too_early, "memcpy on stream 2 reads 4096 bytes that memset on stream 1 writes"),
    WRONG(graph_beside_a_stream, "memcpy on stream 2 reads 4096 bytes that memset on stream 1 writes"),
    WRONG(event_reset_and_reused, "memcpy on stream 2 writes 4096 bytes that memset on stream 1 writes"),
    WRONG(value_too_early, "memcpy on stream 2 reads 4096 bytes that memset on stream 1 writes"),
    WRONG(pool_of_another_stream, "memset on stream 2 writes 4096 bytes that aclrtMemPoolMallocAsync on stream 1 "
                                  "allocates"),
    WRONG(pool_freed_in_another_stream, "aclrtMemPoolFreeAsync on stream 2 gives back memory while memset on stream 1"),
    WRONG(other_device_reads, "of device 1 reads 4096 bytes that memset on stream 1 writes"),
    WRONG(ahead_of_the_wrong_access, "memset on stream 1"),
    WRONG(collectives_buffer_reused, "memset on stream"),
    WRONG(other_device_without_wait, "of device 1 reads 4096 bytes that memset on stream 1 writes"),
    WRONG(other_device_waits_too_early, "of device 1 reads 4096 bytes that memset on stream 1 writes"),
    RIGHT(event_in_between),
    RIGHT(double_buffering),
    RIGHT(event_reused_after_its_wait),
    RIGHT(views_interleave),
    RIGHT(rows_interleave),
    RIGHT(neighbours),
    RIGHT(both_read),
    RIGHT(in_place_chain),
    RIGHT(carved_block),
    RIGHT(pool_in_one_stream),
    RIGHT(host_function_as_order),
    RIGHT(stream_waits_for_the_host),
    RIGHT(callback_as_order),
    RIGHT(device_synchronised),
    RIGHT(event_synchronised),
    RIGHT(polled),
    RIGHT(default_stream),
    RIGHT(two_contexts),
    RIGHT(over_three_streams),
    RIGHT(notify_ahead),
    RIGHT(event_ahead),
    RIGHT(notifies_back_and_forth),
    RIGHT(value_as_order),
    RIGHT(graph_in_one_stream),
    RIGHT(memory_reused),
    RIGHT(collectives_waited_for),
    RIGHT(devices_in_turn),
    RIGHT(other_device_waits),
};

enum { N_PROGRAMS = sizeof programs / sizeof *programs };

static int run_child(const char *name) {
  const program *p = find_program(programs, N_PROGRAMS, name);
  if (!p) return 2;
  CHECK_OK(aclInit(NULL));
  CHECK_OK(aclrtSetDevice(0));
  x = dev_filled(0, BYTES);
  y = dev_filled(0, BYTES);
  z = dev_filled(0, BYTES);
  a = stream_new();
  b = stream_new();
  p->run();
  return aclrtSynchronizeDeviceWithTimeout(5000) ? 3 : 0;
}

/* Whether the output has a finding, of either kind. */
static bool has_finding(const char *text) {
  return strstr(text, "nothing orders them") || strstr(text, "gives back memory while");
}

static void programs_get_their_findings(void **state) {
  (void)state;
  run_worded(programs, N_PROGRAMS, has_finding);
}

int main(int argc, char **argv) {
  if (argc > 1) return run_child(argv[1]);
  const struct CMUnitTest tests[] = {cmocka_unit_test(programs_get_their_findings)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
