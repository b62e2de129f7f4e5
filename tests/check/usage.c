/* SPDX-License-Identifier: Apache-2.0 */
/* Misuse (CANNON_CHECK=usage): programs that use calls wrongly or slowly, one finding each, and programs that only look
 * so. */
#include "programs.h"

static const int64_t four[] = {4};
static aclrtStream stream;
static char *block, *pinned;
static char pageable[1 << 16];

enum { BLOCK = 1 << 16 };

static void set_up(void) {
  begin();
  aclrtCreateStream(&stream);
  aclrtMalloc((void **)&block, BLOCK, ACL_MEM_MALLOC_HUGE_FIRST);
  aclrtMallocHost((void **)&pinned, BLOCK);
}

static void tear_down(void) {
  aclrtSynchronizeStream(stream);
  aclrtDestroyStream(stream);
  aclrtFree(block);
  aclrtFreeHost(pinned);
  end_all();
}

static aclTensor *new_tensor(void) {
  return aclCreateTensor(four, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, four, 1, block);
}

static aclOpExecutor *prepare(void) {
  float one = 1;
  uint64_t bytes;
  aclOpExecutor *e = NULL;
  aclTensor *t = new_tensor();
  aclScalar *alpha = aclCreateScalar(&one, ACL_FLOAT);
  aclnnAddGetWorkspaceSize(t, t, alpha, t, &bytes, &e);
  aclDestroyTensor(t);
  aclDestroyScalar(alpha);
  return e;
}

/* ---- wrong ------------------------------------------------------------------------------------------------------- */

static void double_destroy_tensor(void) {
  aclTensor *t = new_tensor();
  aclDestroyTensor(t);
  aclDestroyTensor(t);
}
static void double_destroy_event(void) {
  aclrtEvent e;
  aclrtCreateEvent(&e);
  aclrtDestroyEvent(e);
  aclrtDestroyEvent(e);
}
static void double_destroy_stream(void) {
  aclrtStream s;
  aclrtCreateStream(&s);
  aclrtDestroyStream(s);
  aclrtDestroyStream(s);
}
static void double_destroy_context(void) {
  aclrtContext own, c;
  aclrtGetCurrentContext(&own);
  aclrtCreateContext(&c, 0);
  aclrtSetCurrentContext(own);
  aclrtDestroyContext(c);
  aclrtDestroyContext(c);
}
static void double_destroy_notify(void) {
  aclrtNotify n;
  aclrtCreateNotify(&n, 0);
  aclrtDestroyNotify(n);
  aclrtDestroyNotify(n);
}
static void foreign_event(void) {
  static uint64_t none[64];
  aclrtDestroyEvent(none);
}
static void foreign_scalar(void) {
  static uint64_t none[8];
  aclDestroyScalar((aclScalar *)none);
}
static void use_of_destroyed_event(void) {
  aclrtEvent e;
  aclrtCreateEvent(&e);
  aclrtDestroyEvent(e);
  aclrtRecordEvent(e, stream);
}
static void use_of_destroyed_tensor(void) {
  float one = 1;
  uint64_t bytes;
  aclOpExecutor *e;
  aclTensor *t = new_tensor(), *gone = new_tensor();
  aclScalar *alpha = aclCreateScalar(&one, ACL_FLOAT);
  aclDestroyTensor(gone);
  aclnnAddGetWorkspaceSize(t, gone, alpha, t, &bytes, &e);
  aclDestroyTensor(t);
  aclDestroyScalar(alpha);
}
static void owned_tensor(void) {
  const aclTensor *t[] = {new_tensor(), new_tensor()};
  aclTensorList *list = aclCreateTensorList(t, 2);
  aclDestroyTensor(t[1]);
  (void)list; /* destroying the list would be the second error */
}
/* The stacks end with the thread's function. */
static void *destroy_twice(void *unused) {
  aclrtEvent e;
  aclrtSetDevice(0);
  aclrtCreateEvent(&e);
  aclrtDestroyEvent(e);
  aclrtDestroyEvent(e);
  aclrtResetDevice(0);
  return unused;
}
static void double_destroy_in_thread(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, destroy_twice, NULL);
  pthread_join(thread, NULL);
}
static void wait_for_destroyed_event(void) {
  aclrtStream s;
  aclrtEvent e;
  aclrtCreateStream(&s);
  aclrtCreateEvent(&e);
  aclrtStreamWaitEvent(s, e);
  aclrtDestroyEvent(e);
  aclrtSynchronizeStreamWithTimeout(s, 50);
  aclrtDestroyStreamForce(s);
}
static void launched_twice(void) {
  aclOpExecutor *e = prepare();
  aclnnAdd(NULL, 0, e, stream);
  aclrtSynchronizeStream(stream);
  aclnnAdd(NULL, 0, e, stream);
}
static void stream_after_context(void) {
  aclrtContext own, c;
  aclrtStream s;
  aclrtGetCurrentContext(&own);
  aclrtCreateContext(&c, 0);
  aclrtCreateStream(&s);
  aclrtDestroyContext(c);
  aclrtSetCurrentContext(own);
  aclrtSynchronizeStream(s);
}
static void stream_after_reset(void) {
  aclrtResetDevice(0);
  aclrtSetDevice(0);
  aclrtMemsetAsync(block, 64, 0, 64, stream);
  aclrtDestroyStream(stream);
  aclrtCreateStream(&stream);
}
static void unseen_tensor(void) {
  const int64_t bad[] = {-4};
  float one = 1;
  uint64_t bytes;
  aclOpExecutor *e;
  aclTensor *t = aclCreateTensor(bad, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, four, 1, block);
  aclScalar *alpha = aclCreateScalar(&one, ACL_FLOAT);
  aclnnAddGetWorkspaceSize(t, t, alpha, t, &bytes, &e);
  aclDestroyScalar(alpha);
}
static void unseen_executor(void) {
  uint64_t bytes = 0;
  aclOpExecutor *e = NULL;
  aclTensor *t = new_tensor();
  aclnnAddGetWorkspaceSize(t, t, NULL, t, &bytes, &e);
  aclnnAdd(NULL, bytes, e, stream);
  aclDestroyTensor(t);
}
static void unseen_memory(void) {
  void *p = NULL;
  aclrtMalloc(&p, (size_t)1 << 50, ACL_MEM_MALLOC_HUGE_FIRST);
  aclrtMemset(p, 64, 0, 64);
}
static void unseen_stream(void) {
  static uint64_t garbage[64];
  aclrtStream s = garbage;
  aclrtCreateStreamWithConfig(&s, 1000, 0);
  aclrtSynchronizeStream(s);
}
static void unrecorded_event(void) {
  aclrtEvent e;
  aclrtCreateEventExWithFlag(&e, ACL_EVENT_SYNC);
  aclrtStreamWaitEvent(stream, e);
  aclrtSynchronizeStream(stream);
  aclrtDestroyEvent(e);
}
static void many_syncs(void) {
  for (int i = 0; i < 200; ++i) {
    aclnnAdd(NULL, 0, prepare(), stream);
    aclrtSynchronizeStream(stream);
  }
}
static void pageable_copies(void) {
  for (int i = 0; i < 40; ++i) {
    aclrtMemcpyAsync(block, 64, pageable, 64, ACL_MEMCPY_HOST_TO_DEVICE, stream);
    aclrtMemsetAsync(block + 64, 64, 0, 64, stream);
  }
}
static void unaligned_copies(void) {
  for (int i = 0; i < 40; ++i) {
    aclrtMemcpyAsync(block + 4 * i + 4, 64, pinned, 64, ACL_MEMCPY_HOST_TO_DEVICE, stream);
    aclrtMemsetAsync(block, 64, 0, 64, stream);
  }
}
static void destroyed_pending(void) {
  aclrtStream s;
  aclrtCreateStream(&s);
  aclrtMemsetAsync(block, 64, 0, 64, s);
  aclrtDestroyStream(s);
}
static void capture_waits(void) {
  aclmdlRI model = NULL;
  aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
  aclrtMemsetAsync(block, 64, 0, 64, stream);
  aclrtSynchronizeStream(stream);
  aclmdlRICaptureEnd(stream, &model);
}

/* Programs with a beginning or an end of their own. */
static void finalized_pending(void) {
  set_up();
  aclrtMemsetAsync(block, 64, 0, 64, stream);
  aclFinalize();
}
static void no_init(void) {
  aclrtSetDevice(0);
  aclrtResetDevice(0);
}
static void second_configuration(void) {
  begin();
  aclInit("/nowhere.json");
  end_all();
}
static void right_reset_rarely(void) {
  begin();
  aclrtSetDevice(0);
  aclrtSetDevice(0);
  end_all();
}

/* ---- right ------------------------------------------------------------------------------------------------------- */

static void right_failed_create(void) {
  const int64_t bad[] = {-4};
  if (!aclCreateTensor(bad, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, four, 1, block)) aclDestroyTensor(new_tensor());
  aclDestroyTensor(NULL);
}
static void right_failed_malloc(void) {
  void *p = NULL;
  if (aclrtMalloc(&p, (size_t)1 << 50, ACL_MEM_MALLOC_HUGE_FIRST)) aclrtMalloc(&p, 64, ACL_MEM_MALLOC_HUGE_FIRST);
  aclrtMemset(p, 64, 0, 64);
  aclrtFree(p);
}
static void right_few_syncs(void) {
  for (int i = 0; i < 20; ++i) {
    aclnnAdd(NULL, 0, prepare(), stream);
    aclrtSynchronizeStream(stream);
  }
}
static void right_batches(void) {
  for (int i = 0; i < 200; ++i) {
    for (int k = 0; k < 4; ++k) aclnnAdd(NULL, 0, prepare(), stream);
    aclrtSynchronizeStream(stream);
  }
}
/* The result of each step is wanted on the host. */
static void right_results(void) {
  for (int i = 0; i < 200; ++i) {
    aclnnAdd(NULL, 0, prepare(), stream);
    aclrtMemcpyAsync(pinned, 4, block, 4, ACL_MEMCPY_DEVICE_TO_HOST, stream);
    aclrtSynchronizeStream(stream);
  }
}
static void right_pageable_synced(void) {
  for (int i = 0; i < 200; ++i) {
    aclrtMemcpyAsync(pageable, 64, block, 64, ACL_MEMCPY_DEVICE_TO_HOST, stream);
    aclrtSynchronizeStream(stream);
  }
}
static void right_pinned(void) {
  for (int i = 0; i < 200; ++i) {
    aclrtMemcpyAsync(block, 64, pinned, 64, ACL_MEMCPY_HOST_TO_DEVICE, stream);
    aclrtMemsetAsync(block + 64, 64, 0, 64, stream);
  }
}
static void right_few_pageable(void) {
  for (int i = 0; i < 8; ++i) {
    aclrtMemcpyAsync(block, 64, pageable, 64, ACL_MEMCPY_HOST_TO_DEVICE, stream);
    aclrtMemsetAsync(block + 64, 64, 0, 64, stream);
  }
}
/* The host knows of a stream's tasks by an event, directly or through another stream. */
static void right_known_by_event(void) {
  aclrtStream s;
  aclrtEvent e;
  aclrtCreateEvent(&e);
  aclrtCreateStream(&s);
  aclrtMemsetAsync(block, 64, 0, 64, s);
  aclrtRecordEvent(e, s);
  aclrtSynchronizeEvent(e);
  aclrtMemsetAsync(block, 64, 0, 64, s);
  aclrtRecordEvent(e, s);
  aclrtStreamWaitEvent(stream, e);
  aclrtMemsetAsync(block, 64, 0, 64, stream);
  aclrtSynchronizeStream(stream);
  aclrtDestroyStream(s);
  aclrtDestroyEvent(e);
}
/* The work is device 1's, and a stream of device 0 waits for it. */
static void right_known_by_event_of_another_device(void) {
  aclrtStream s;
  aclrtEvent e;
  void *there;
  aclrtSetDevice(1);
  aclrtMalloc(&there, 64, ACL_MEM_MALLOC_HUGE_FIRST);
  aclrtCreateEvent(&e);
  aclrtCreateStream(&s);
  aclrtMemsetAsync(there, 64, 0, 64, s);
  aclrtRecordEvent(e, s);
  aclrtSetDevice(0);
  aclrtStreamWaitEvent(stream, e);
  aclrtMemsetAsync(block, 64, 0, 64, stream);
  aclrtSynchronizeStream(stream);
  aclrtSetDevice(1);
  aclrtDestroyStream(s);
  aclrtDestroyEvent(e);
  aclrtFree(there);
  aclrtResetDevice(1);
  aclrtSetDevice(0);
}
static void right_known_by_device(void) {
  aclrtStream s;
  aclrtCreateStream(&s);
  aclrtMemsetAsync(block, 64, 0, 64, s);
  aclrtSynchronizeDevice();
  aclrtDestroyStream(s);
}
static void right_forced(void) {
  aclrtStream s;
  aclrtCreateStream(&s);
  aclrtMemsetAsync(block, 64, 0, 64, s);
  aclrtDestroyStreamForce(s);
}
static void right_events_reused(void) {
  aclrtEvent e;
  aclrtCreateEventExWithFlag(&e, ACL_EVENT_SYNC);
  for (int i = 0; i < 100; ++i) {
    aclrtRecordEvent(e, stream);
    aclrtStreamWaitEvent(stream, e);
  }
  aclrtSynchronizeStream(stream);
  aclrtDestroyEvent(e);
}
static void right_addresses_reused(void) {
  for (int i = 0; i < 100; ++i) {
    aclDestroyTensor(new_tensor());
    aclDestroyIntArray(aclCreateIntArray(four, 1));
    aclDestroyDataBuffer(aclCreateDataBuffer(block, 4));
  }
}
static void right_repeatable(void) {
  aclOpExecutor *e = prepare();
  aclSetAclOpExecutorRepeatable(e);
  for (int i = 0; i < 5; ++i) aclnnAdd(NULL, 0, e, stream);
  aclrtSynchronizeStream(stream);
  aclDestroyAclOpExecutor(e);
}
/* A launch that was refused leaves the executor to the program, which tries again, or destroys it. */
static void right_refused_launch(void) {
  aclOpExecutor *e = prepare();
  aclrtFree(block);
  aclnnAdd(NULL, 0, e, stream);
  aclDestroyAclOpExecutor(e);
  aclrtMalloc((void **)&block, BLOCK, ACL_MEM_MALLOC_HUGE_FIRST);
}
static void right_init_twice(void) { aclInit(NULL); }
static void right_capture(void) {
  aclmdlRI model = NULL;
  aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
  aclrtMemsetAsync(block, 64, 0, 64, stream);
  aclmdlRICaptureEnd(stream, &model);
  aclmdlRIExecuteAsync(model, stream);
  aclrtSynchronizeStream(stream);
  aclmdlRIDestroy(model);
}
static void right_no_reset(void) {
  begin();
  aclrtSetDevice(0);
  aclFinalize();
}
static void right_context_destroyed_first(void) {
  aclrtContext own, c;
  aclrtStream s;
  aclrtGetCurrentContext(&own);
  aclrtCreateContext(&c, 0);
  aclrtCreateStream(&s);
  aclrtDestroyContext(c);
  aclrtSetCurrentContext(own);
  aclrtDestroyStream(s);
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

/* Ends in a declaration, so that a semicolon follows. */
#define AROUND(name)                                                                                                   \
  static void program_##name(void) {                                                                                   \
    set_up();                                                                                                          \
    name();                                                                                                            \
    tear_down();                                                                                                       \
  }                                                                                                                    \
  struct around_##name
AROUND(double_destroy_tensor);
AROUND(double_destroy_event);
AROUND(double_destroy_stream);
AROUND(double_destroy_context);
AROUND(double_destroy_notify);
AROUND(foreign_event);
AROUND(foreign_scalar);
AROUND(use_of_destroyed_event);
AROUND(use_of_destroyed_tensor);
AROUND(owned_tensor);
AROUND(double_destroy_in_thread);
AROUND(wait_for_destroyed_event);
AROUND(launched_twice);
AROUND(stream_after_context);
AROUND(stream_after_reset);
AROUND(unseen_tensor);
AROUND(unseen_executor);
AROUND(unseen_memory);
AROUND(unseen_stream);
AROUND(unrecorded_event);
AROUND(many_syncs);
AROUND(pageable_copies);
AROUND(unaligned_copies);
AROUND(destroyed_pending);
AROUND(capture_waits);
AROUND(right_failed_create);
AROUND(right_failed_malloc);
AROUND(right_few_syncs);
AROUND(right_batches);
AROUND(right_results);
AROUND(right_pageable_synced);
AROUND(right_pinned);
AROUND(right_few_pageable);
AROUND(right_known_by_event);
AROUND(right_known_by_event_of_another_device);
AROUND(right_known_by_device);
AROUND(right_forced);
AROUND(right_events_reused);
AROUND(right_addresses_reused);
AROUND(right_repeatable);
AROUND(right_refused_launch);
AROUND(right_init_twice);
AROUND(right_capture);
AROUND(right_context_destroyed_first);

#define FOUND(name, kind, words)                                                                                       \
  { #name, program_##name, kind, words }
#define RIGHT(name)                                                                                                    \
  { #name, program_##name, NULL, NULL }
static const program programs[] = {
    FOUND(double_destroy_tensor, "double-free", "aclDestroyTensor was given the aclTensor"),
    FOUND(double_destroy_event, "double-free", "Destroy it once"),
    FOUND(double_destroy_stream, "double-free", "Destroy it once"),
    FOUND(double_destroy_context, "double-free", "Destroy it once"),
    FOUND(double_destroy_notify, "double-free", "Destroy it once"),
    FOUND(foreign_event, "invalid-free", "which is no event"),
    FOUND(foreign_scalar, "invalid-free", "which is no aclScalar"),
    FOUND(use_of_destroyed_event, "misuse", "which was destroyed before"),
    FOUND(use_of_destroyed_tensor, "misuse", "which was destroyed before"),
    FOUND(owned_tensor, "misuse", "belongs to a list"),
    FOUND(double_destroy_in_thread, "double-free", "Destroy it once"),
    FOUND(launched_twice, "misuse", "aclSetAclOpExecutorRepeatable"),
    FOUND(stream_after_context, "misuse", "whose context is gone"),
    FOUND(stream_after_reset, "misuse", "whose context is gone"),
    FOUND(unseen_tensor, "misuse", "Look at what aclCreateTensor returns"),
    FOUND(unseen_executor, "misuse", "Look at what aclnnAddGetWorkspaceSize returns"),
    FOUND(unseen_memory, "misuse", "Look at what aclrtMalloc returns"),
    FOUND(unseen_stream, "misuse", "Look at what aclrtCreateStreamWithConfig returns"),
    FOUND(unrecorded_event, "misuse", "never recorded"),
    FOUND(many_syncs, "misuse", "Submit all tasks and wait once"),
    FOUND(pageable_copies, "misuse", "aclrtMallocHost"),
    FOUND(unaligned_copies, "misuse", "up to 64 bytes"),
    FOUND(wait_for_destroyed_event, "misuse", "which thread"),
    FOUND(destroyed_pending, "misuse", "Wait for the stream"),
    FOUND(capture_waits, "misuse", "move the call out of the capture"),
    {"finalized_pending", finalized_pending, "misuse", "aclFinalize while stream"},
    {"no_init", no_init, "misuse", "before aclInit"},
    {"second_configuration", second_configuration, "misuse", "is not read"},
    {"right_reset_rarely", right_reset_rarely, NULL, NULL},
    RIGHT(right_failed_create),
    RIGHT(right_failed_malloc),
    RIGHT(right_few_syncs),
    RIGHT(right_batches),
    RIGHT(right_results),
    RIGHT(right_pageable_synced),
    RIGHT(right_pinned),
    RIGHT(right_few_pageable),
    RIGHT(right_known_by_event),
    RIGHT(right_known_by_event_of_another_device),
    RIGHT(right_known_by_device),
    RIGHT(right_forced),
    RIGHT(right_events_reused),
    RIGHT(right_addresses_reused),
    RIGHT(right_repeatable),
    RIGHT(right_init_twice),
    RIGHT(right_refused_launch),
    RIGHT(right_capture),
    {"right_no_reset", right_no_reset, NULL, NULL},
    RIGHT(right_context_destroyed_first),
};
enum { N_PROGRAMS = sizeof programs / sizeof *programs };

static void misuse_is_found(void **state) {
  (void)state;
  run_programs(programs, N_PROGRAMS, (char[]){"CANNON_CHECK=usage"});
}

int main(int argc, char **argv) {
  if (argc > 1) return run_program(programs, N_PROGRAMS, argv[1]);
  const struct CMUnitTest tests[] = {cmocka_unit_test(misuse_is_found)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
