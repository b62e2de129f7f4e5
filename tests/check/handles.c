/* SPDX-License-Identifier: Apache-2.0 */
/* Leaks (CANNON_CHECK=leak): a program for each kind of handle that loses one, and programs that lose none. */
#include "programs.h"

#include "acl/acl_op.h"
#include "acl/acl_tdt.h"

/* ---- programs that lose something ---- */

static const int64_t four[] = {4};

PLACE void lose_block(void) {
  void *p;
  aclrtMalloc(&p, 1000, ACL_MEM_MALLOC_HUGE_FIRST);
}
PLACE void lose_pinned(void) {
  void *p;
  aclrtMallocHost(&p, 1000);
}
PLACE void lose_managed(void) {
  void *p;
  aclrtMemAllocManaged(&p, 1000, ACL_RT_MEM_ATTACH_GLOBAL);
}
PLACE void lose_physical(void) {
  const aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_HUGE, .location = {.type = ACL_MEM_LOCATION_TYPE_DEVICE}};
  aclrtDrvMemHandle handle;
  aclrtMallocPhysical(&handle, 2 << 20, &prop, 0);
}
PLACE void lose_stream(void) {
  aclrtStream s;
  aclrtCreateStream(&s);
}
PLACE void lose_event(void) {
  aclrtEvent e;
  aclrtCreateEvent(&e);
}
PLACE void lose_notify(void) {
  aclrtNotify n;
  aclrtCreateNotify(&n, 0);
}
PLACE void lose_context(void) {
  aclrtContext own, c;
  aclrtGetCurrentContext(&own);
  aclrtCreateContext(&c, 0);
  aclrtSetCurrentContext(own);
}
PLACE aclTensor *new_tensor(void *data) {
  return aclCreateTensor(four, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, four, 1, data);
}
PLACE void lose_tensor(void) { new_tensor(NULL); }
PLACE void lose_list(void) {
  const aclTensor *t[] = {new_tensor(NULL), new_tensor(NULL)};
  aclCreateTensorList(t, 2);
}
PLACE void lose_scalar(void) {
  float one = 1;
  aclCreateScalar(&one, ACL_FLOAT);
}
PLACE void lose_scalar_list(void) {
  float one = 1;
  const aclScalar *s[] = {aclCreateScalar(&one, ACL_FLOAT)};
  aclCreateScalarList(s, 1);
}
PLACE void lose_ints(void) { aclCreateIntArray(four, 1); }
PLACE void lose_floats(void) {
  const float one = 1;
  aclCreateFloatArray(&one, 1);
}
PLACE void lose_bools(void) {
  const bool yes = true;
  aclCreateBoolArray(&yes, 1);
}
PLACE void lose_data_buffer(void) { aclCreateDataBuffer(NULL, 0); }
PLACE void lose_desc(void) { aclCreateTensorDesc(ACL_FLOAT, 1, four, ACL_FORMAT_ND); }
PLACE void lose_attr(void) { aclopCreateAttr(); }
PLACE void lose_dataset(void) { aclmdlCreateDataset(); }
PLACE void lose_model_desc(void) { aclmdlCreateDesc(); }
PLACE void lose_item(void) { acltdtCreateDataItem(ACL_TENSOR_DATA_TENSOR, four, 1, ACL_FLOAT, NULL, 0); }
PLACE void lose_tdt_dataset(void) { acltdtCreateDataset(); }
PLACE void lose_channel(void) { acltdtCreateChannel(0, "lost"); }
PLACE void lose_aipp(void) { aclmdlCreateAIPP(1); }
PLACE void lose_config(void) { aclmdlCreateConfigHandle(); }

/* Phase one of an addition of four zeros, whose objects are gone at once. */
PLACE aclOpExecutor *prepare(void *data) {
  float one = 1;
  uint64_t bytes;
  aclOpExecutor *e = NULL;
  aclTensor *t = new_tensor(data);
  aclScalar *alpha = aclCreateScalar(&one, ACL_FLOAT);
  aclnnAddGetWorkspaceSize(t, t, alpha, t, &bytes, &e);
  aclDestroyTensor(t);
  aclDestroyScalar(alpha);
  return e;
}
PLACE void lose_executor(void) {
  void *p;
  aclrtMalloc(&p, 64, ACL_MEM_MALLOC_HUGE_FIRST);
  prepare(p);
  aclrtFree(p);
}
PLACE void lose_repeatable(void) {
  void *p;
  aclrtMalloc(&p, 64, ACL_MEM_MALLOC_HUGE_FIRST);
  aclOpExecutor *e = prepare(p);
  aclSetAclOpExecutorRepeatable(e);
  aclnnAdd(NULL, 0, e, NULL);
  aclrtSynchronizeDevice();
  aclrtFree(p);
}
PLACE void lose_graph(void) {
  aclrtStream s;
  aclmdlRI model;
  void *p;
  aclrtMalloc(&p, 64, ACL_MEM_MALLOC_HUGE_FIRST);
  aclrtCreateStream(&s);
  aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
  aclrtMemsetAsync(p, 64, 0, 64, s);
  aclmdlRICaptureEnd(s, &model);
  aclrtDestroyStream(s);
  aclrtFree(p);
}
/* In a loop: one finding, counted. */
PLACE void lose_many(void) {
  for (volatile int i = 0; i < 5; ++i) new_tensor(NULL);
}
/* A heap block that led to the handle is freed. */
PLACE void lose_with_owner(void) {
  void **owner = malloc(512);
  aclrtMalloc(&owner[8], 1000, ACL_MEM_MALLOC_HUGE_FIRST);
  free(owner);
}
static void *overwritten;
PLACE void lose_by_overwriting(void) {
  aclrtMalloc(&overwritten, 1000, ACL_MEM_MALLOC_HUGE_FIRST);
  aclrtMalloc(&overwritten, 2000, ACL_MEM_MALLOC_HUGE_FIRST);
}

/* Runs the function between the beginning and the end of a program that is right otherwise. */
#define WRONG(name)                                                                                                    \
  static void program_##name(void) {                                                                                   \
    begin();                                                                                                           \
    name();                                                                                                            \
    end_all();                                                                                                         \
  }                                                                                                                    \
  struct around_##name
WRONG(lose_block);
WRONG(lose_pinned);
WRONG(lose_managed);
WRONG(lose_physical);
WRONG(lose_stream);
WRONG(lose_event);
WRONG(lose_notify);
WRONG(lose_context);
WRONG(lose_tensor);
WRONG(lose_list);
WRONG(lose_scalar);
WRONG(lose_scalar_list);
WRONG(lose_ints);
WRONG(lose_floats);
WRONG(lose_bools);
WRONG(lose_data_buffer);
WRONG(lose_desc);
WRONG(lose_attr);
WRONG(lose_dataset);
WRONG(lose_model_desc);
WRONG(lose_item);
WRONG(lose_tdt_dataset);
WRONG(lose_channel);
WRONG(lose_aipp);
WRONG(lose_config);
WRONG(lose_executor);
WRONG(lose_repeatable);
WRONG(lose_graph);
WRONG(lose_many);
WRONG(lose_with_owner);
WRONG(lose_by_overwriting);
static void program_lose_stream_at_end(void) {
  begin();
  lose_stream();
  aclFinalize();
}
/* A context that is destroyed ends its streams, as the reset of the device does. */
static void program_lose_stream_of_context(void) {
  aclrtContext own, c;
  begin();
  aclrtGetCurrentContext(&own);
  aclrtCreateContext(&c, 0);
  lose_stream();
  aclrtDestroyContext(c);
  aclrtSetCurrentContext(own);
  end_all();
}

/* ---- programs that are right, and tempting ---- */

static aclrtEvent kept_event;
static struct holder {
  void *block;
  struct holder *next;
} * kept_list;

static void right_global(void) {
  begin();
  aclrtCreateEvent(&kept_event);
  end_all();
}
/* Reachable through two heap blocks only. */
static void right_heap(void) {
  begin();
  for (int i = 0; i < 3; ++i) {
    struct holder *h = malloc(sizeof *h);
    aclrtMalloc(&h->block, 1000, ACL_MEM_MALLOC_HUGE_FIRST);
    h->next = kept_list;
    kept_list = h;
  }
  aclFinalize();
}
/* Held to the end, as a block may be. */
static aclrtStream kept_stream;
static void right_reset(void) {
  begin();
  aclrtCreateStream(&kept_stream);
  end_all();
}
static void right_destroy_after_reset(void) {
  aclrtStream s;
  begin();
  aclrtCreateStream(&s);
  end_all();
  aclrtDestroyStream(s);
}
static void *make_tensor(void *unused) {
  (void)unused;
  return new_tensor(NULL);
}
static void *destroy_tensor(void *t) {
  aclDestroyTensor(t);
  return NULL;
}
static void right_threads(void) {
  pthread_t thread;
  void *t;
  begin();
  pthread_create(&thread, NULL, make_tensor, NULL);
  pthread_join(thread, &t);
  pthread_create(&thread, NULL, destroy_tensor, t);
  pthread_join(thread, NULL);
  end_all();
}
static void right_list(void) {
  begin();
  const aclTensor *t[] = {new_tensor(NULL), new_tensor(NULL)};
  aclDestroyTensorList(aclCreateTensorList(t, 2));
  end_all();
}
static void right_executors(void) {
  void *p;
  begin();
  aclrtMalloc(&p, 64, ACL_MEM_MALLOC_HUGE_FIRST);
  aclnnAdd(NULL, 0, prepare(p), NULL);
  aclDestroyAclOpExecutor(prepare(p));
  aclOpExecutor *e = prepare(p);
  aclSetAclOpExecutorRepeatable(e);
  for (int i = 0; i < 3; ++i) aclnnAdd(NULL, 0, e, NULL);
  aclrtSynchronizeDevice();
  aclDestroyAclOpExecutor(e);
  aclrtFree(p);
  end_all();
}
static void right_reuse(void) {
  begin();
  for (int i = 0; i < 1000; ++i) aclDestroyTensor(new_tensor(NULL));
  end_all();
}
static void free_kept(void) {
  aclrtDestroyEvent(kept_event);
  end_all();
}
static void right_at_exit(void) {
  begin();
  aclrtCreateEvent(&kept_event);
  atexit(free_kept);
}
/* The child has none of the parent's handles, and is not asked for them. */
static void right_fork(void) {
  begin();
  aclTensor *t = new_tensor(NULL);
  fflush(NULL);
  const pid_t pid = fork();
  if (pid == 0) exit(0);
  waitpid(pid, NULL, 0);
  aclDestroyTensor(t);
  end_all();
}
static void right_exit_in_call(void) {
  begin();
  aclTensor *volatile t = new_tensor(NULL);
  if (t) exit(0);
}
static pthread_barrier_t met;
static void *hold_block(void *unused) {
  void *volatile p = NULL, *q;
  (void)unused;
  aclrtSetDevice(0);
  aclrtMalloc(&q, 1000, ACL_MEM_MALLOC_HUGE_FIRST);
  p = q;
  pthread_barrier_wait(&met);
  pause();
  aclrtFree(p);
  return NULL;
}
/* Held by the stack of a thread that waits. */
static void right_waiting_thread(void) {
  pthread_t thread;
  begin();
  pthread_barrier_init(&met, NULL, 2);
  pthread_create(&thread, NULL, hold_block, NULL);
  pthread_barrier_wait(&met);
  nap_ms(20);
}

#define LEAKS(name, words)                                                                                             \
  { #name, program_##name, "leak", words }
static const program programs[] = {
    LEAKS(lose_block, "1 block of device memory (1000 B)"),
    LEAKS(lose_pinned, "1 block of pinned host memory"),
    LEAKS(lose_managed, "1 block of managed memory"),
    LEAKS(lose_physical, "1 physical memory"),
    LEAKS(lose_stream, "1 stream that aclrtCreateStream made was not destroyed before the device's reset"),
    LEAKS(lose_stream_at_end, "1 stream that aclrtCreateStream made was never destroyed"),
    LEAKS(lose_stream_of_context, "1 stream that aclrtCreateStream made was not destroyed before the device's reset"),
    LEAKS(lose_event, "1 event"),
    LEAKS(lose_notify, "1 notify"),
    LEAKS(lose_context, "1 context"),
    LEAKS(lose_tensor, "1 aclTensor "),
    LEAKS(lose_list, "1 aclTensorList "),
    LEAKS(lose_scalar, "1 aclScalar "),
    LEAKS(lose_scalar_list, "1 aclScalarList "),
    LEAKS(lose_ints, "1 aclIntArray "),
    LEAKS(lose_floats, "1 aclFloatArray "),
    LEAKS(lose_bools, "1 aclBoolArray "),
    LEAKS(lose_data_buffer, "1 aclDataBuffer "),
    LEAKS(lose_desc, "1 aclTensorDesc "),
    LEAKS(lose_attr, "1 aclopAttr "),
    LEAKS(lose_dataset, "1 aclmdlDataset "),
    LEAKS(lose_model_desc, "1 aclmdlDesc "),
    LEAKS(lose_item, "1 acltdtDataItem "),
    LEAKS(lose_tdt_dataset, "1 acltdtDataset "),
    LEAKS(lose_channel, "1 channel "),
    LEAKS(lose_aipp, "1 aclmdlAIPP "),
    LEAKS(lose_config, "1 aclmdlConfigHandle "),
    LEAKS(lose_executor, "1 executor of aclnnAddGetWorkspaceSize was never launched"),
    LEAKS(lose_repeatable, "1 executor that aclnnAddGetWorkspaceSize made was never destroyed"),
    LEAKS(lose_graph, "1 captured model"),
    LEAKS(lose_many, "5 aclTensors"),
    LEAKS(lose_with_owner, "1 block of device memory (1000 B)"),
    LEAKS(lose_by_overwriting, "1 block of device memory (1000 B)"),
    {"right_global", right_global, NULL, NULL},
    {"right_heap", right_heap, NULL, NULL},
    {"right_reset", right_reset, NULL, NULL},
    {"right_destroy_after_reset", right_destroy_after_reset, NULL, NULL},
    {"right_threads", right_threads, NULL, NULL},
    {"right_list", right_list, NULL, NULL},
    {"right_executors", right_executors, NULL, NULL},
    {"right_reuse", right_reuse, NULL, NULL},
    {"right_at_exit", right_at_exit, NULL, NULL},
    {"right_fork", right_fork, NULL, NULL},
    {"right_exit_in_call", right_exit_in_call, NULL, NULL},
    {"right_waiting_thread", right_waiting_thread, NULL, NULL},
};
enum { N_PROGRAMS = sizeof programs / sizeof *programs };

static void leaks_are_found(void **state) {
  (void)state;
  run_programs(programs, N_PROGRAMS, (char[]){"CANNON_CHECK=leak"});
}

int main(int argc, char **argv) {
  if (argc > 1) return run_program(programs, N_PROGRAMS, argv[1]);
  const struct CMUnitTest tests[] = {cmocka_unit_test(leaks_are_found)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
