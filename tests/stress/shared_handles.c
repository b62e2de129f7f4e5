/* SPDX-License-Identifier: Apache-2.0 */
/* Handles that several threads share, and destroy while others use them: legal and illegal calls, mixed at random.
 *
 *   stress_shared_handles SEED|random STEPS        (STRESS_STEPS in the environment sets another number of steps)
 *
 * The threads draw handles of streams, events, notifies, graphs, groups of tasks and contexts from tables that all of
 * them fill, so that a handle may be destroyed before a call, or while it is under way. What a call returns is not
 * checked, since it depends on the others, but for this: nothing crashes, nothing hangs, the destruction of a handle
 * succeeds once for each creation, and at the end everything can be destroyed, and as much be created as at first.
 *
 * No wait of the program can last for ever: waits are for records that were submitted before, or have a timeout. So a
 * thread that does not get on for a while hangs in the library. A watchdog then says what each thread does. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#include "acl/acl.h"
#include "acl/acl_rt.h"
#include "aclnn/acl_meta.h"
#include "aclnnop/aclnn_add.h"
#include "stress.h"

enum {
  THREADS = 8,
  STREAMS = 12,
  EVENTS = 24,
  NOTIFIES = 4,
  GRAPHS = 6,
  GROUPS = 4,
  CONTEXTS = 3,
  HANDLES = 1 << 18, /* places of the tally */
  FLOATS = 64,
  BYTES = FLOATS * sizeof(float),
  HANG_S = 60,
};

typedef void *_Atomic slot;
static slot streams[STREAMS], events[EVENTS], notifies[NOTIFIES], graphs[GRAPHS], groups[GROUPS], contexts[CONTEXTS];
static float *device_memory, *pinned;
static _Atomic uint64_t report_thread;
static atomic_bool over;

typedef struct {
  uint64_t random;
  aclrtContext home;
  const char *_Atomic doing;
  _Atomic long step;
} actor;
static actor actors[THREADS];

static uint32_t draw(actor *a, uint32_t n) { return random_below(&a->random, n); }
static void *any(actor *a, slot *table, uint32_t n) { return atomic_load(&table[draw(a, n)]); }
#define ANY(table) any(a, table, sizeof(table) / sizeof *(table))

/* ---- the tally: how often a handle was created, less how often its destruction succeeded ------------------------- */

static struct {
  void *_Atomic handle;
  atomic_int alive;
} tally[HANDLES];

static void count(void *handle, int change) {
  size_t i = ((uintptr_t)handle >> 7) * 0x9e3779b97f4a7c15u >> 46;
  for (;; i = (i + 1) % HANDLES) {
    void *seen = atomic_load(&tally[i].handle);
    if (!seen && atomic_compare_exchange_strong(&tally[i].handle, &seen, handle)) seen = handle;
    if (seen == handle) break;
  }
  atomic_fetch_add(&tally[i].alive, change);
}

/* ---- what threads do --------------------------------------------------------------------------------------------- */

static void count_destroyed(void *handle, aclError got) {
  if (got == ACL_SUCCESS) count(handle, -1);
}

static void destroy_event(void *e) { count_destroyed(e, aclrtDestroyEvent(e)); }
static void destroy_notify(void *n) { count_destroyed(n, aclrtDestroyNotify(n)); }
static void destroy_graph(void *g) { aclmdlRIDestroy(g); }

static void destroy_stream(actor *a, void *s) {
  if (s) count_destroyed(s, draw(a, 3) ? aclrtDestroyStreamForce(s) : aclrtDestroyStream(s));
}

static void new_stream(actor *a) {
  aclrtStream s = NULL;
  if (aclrtCreateStream(&s) != ACL_SUCCESS) return;
  count(s, 1);
  destroy_stream(a, atomic_exchange(&streams[draw(a, STREAMS)], s));
}

static void new_event(actor *a) {
  aclrtEvent e = NULL;
  if (aclrtCreateEventExWithFlag(&e, ACL_EVENT_SYNC) != ACL_SUCCESS) return;
  count(e, 1);
  void *old = atomic_exchange(&events[draw(a, EVENTS)], e);
  if (old) destroy_event(old);
}

static void new_notify(actor *a) {
  aclrtNotify n = NULL;
  if (aclrtCreateNotify(&n, 0) != ACL_SUCCESS) return;
  count(n, 1);
  void *old = atomic_exchange(&notifies[draw(a, NOTIFIES)], n);
  if (old) destroy_notify(old);
}

static void host_function(void *argument) {
  const uintptr_t us = (uintptr_t)argument;
  if (us) usleep((useconds_t)us);
}

/* Tasks of several streams use the same bytes without an order, since what they make of them does not matter. */
__attribute__((used)) const char *__tsan_default_suppressions(void) {
  return "race:copy_move_rows\nrace:^fill_view$\nrace:^ew_\n";
}

static void submit_work(actor *a, aclrtStream s) {
  float *const to = device_memory, *const from = to + FLOATS;
  switch (draw(a, 6)) {
  case 0: aclrtMemsetAsync(to, BYTES, (int)draw(a, 256), BYTES, s); break;
  case 1: aclrtMemcpyAsync(to, BYTES, from, BYTES, ACL_MEMCPY_DEVICE_TO_DEVICE, s); break;
  case 2: aclrtMemcpyAsync(pinned, BYTES, from, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, s); break;
  case 3: aclrtLaunchHostFunc(s, host_function, (void *)(uintptr_t)(draw(a, 4) ? 0 : draw(a, 200))); break;
  case 4: aclrtLaunchCallback(host_function, NULL, draw(a, 2) ? ACL_CALLBACK_BLOCK : ACL_CALLBACK_NO_BLOCK, s); break;
  default: aclrtStreamGetId(s, &(int32_t){0});
  }
}

static void launch_operator(aclrtStream s) {
  const int64_t dims[] = {FLOATS}, strides[] = {1};
  float number = 1;
  uint64_t bytes;
  aclOpExecutor *executor = NULL;
  aclTensor *self = aclCreateTensor(dims, 1, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, dims, 1, device_memory);
  aclScalar *one = aclCreateScalar(&number, ACL_FLOAT);
  if (aclnnInplaceAddsGetWorkspaceSize(self, one, one, &bytes, &executor) == ACL_SUCCESS &&
      aclnnInplaceAdds(NULL, 0, executor, s) != ACL_SUCCESS)
    aclDestroyAclOpExecutor(executor);
  aclDestroyTensor(self);
  aclDestroyScalar(one);
}

static void use_events(actor *a, aclrtStream s) {
  aclrtEvent e = ANY(events);
  switch (draw(a, 6)) {
  case 0:
  case 1: aclrtRecordEvent(e, s); break;
  case 2: aclrtStreamWaitEvent(s, e); break;
  case 3: aclrtQueryEventStatus(e, &(aclrtEventRecordedStatus){0}); break;
  case 4: aclrtSynchronizeEventWithTimeout(e, 5); break;
  default: aclrtGetEventId(e, &(uint32_t){0});
  }
}

static void use_notifies(actor *a, aclrtStream s) {
  aclrtNotify n = ANY(notifies);
  if (draw(a, 40) == 0)
    aclrtWaitAndResetNotify(n, s, 1);
  else
    aclrtRecordNotify(n, s);
}

static void wait_for(actor *a, aclrtStream s) {
  switch (draw(a, 5)) {
  case 0: aclrtStreamQuery(s, &(aclrtStreamStatus){0}); break;
  case 1: aclrtSynchronizeDeviceWithTimeout(20); break;
  default: aclrtSynchronizeStreamWithTimeout(s, 1 + (int32_t)draw(a, 10));
  }
}

static void use_callbacks(actor *a, aclrtStream s) {
  const uint64_t thread = atomic_load(&report_thread);
  if (draw(a, 3))
    aclrtSubscribeReport(thread, s);
  else
    aclrtUnSubscribeReport(thread, s);
}

static void capture(actor *a, aclrtStream s) {
  aclmdlRI g = NULL;
  aclrtTaskGrp group = NULL;
  if (aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_RELAXED) != ACL_SUCCESS) return;
  for (uint32_t n = draw(a, 6); n--;) launch_operator(s);
  if (draw(a, 2)) use_events(a, s);
  const bool grouped = draw(a, 2) && aclmdlRICaptureTaskGrpBegin(s) == ACL_SUCCESS;
  if (grouped) launch_operator(s);
  if (grouped && aclmdlRICaptureTaskGrpEnd(s, &group) == ACL_SUCCESS) atomic_store(&groups[draw(a, GROUPS)], group);
  if (aclmdlRICaptureEnd(s, &g) != ACL_SUCCESS || !g) return;
  void *old = atomic_exchange(&graphs[draw(a, GRAPHS)], g);
  if (old) destroy_graph(old);
}

static void update_group(actor *a, aclrtStream s) {
  if (aclmdlRICaptureTaskUpdateBegin(s, ANY(groups)) != ACL_SUCCESS) return;
  launch_operator(s);
  aclmdlRICaptureTaskUpdateEnd(s);
}

static void use_graphs(actor *a, aclrtStream s) {
  switch (draw(a, 4)) {
  case 0: capture(a, s); break;
  case 1: update_group(a, s); break;
  case 2: aclmdlRIExecute(ANY(graphs), 5); break;
  default: aclmdlRIExecuteAsync(ANY(graphs), s);
  }
}

static void use_contexts(actor *a) {
  aclrtContext c = NULL;
  switch (draw(a, 12)) {
  case 0:
    if (aclrtCreateContext(&c, 0) != ACL_SUCCESS) break;
    c = atomic_exchange(&contexts[draw(a, CONTEXTS)], c);
    if (c) aclrtDestroyContext(c);
    break;
  case 1: aclrtDestroyContext(ANY(contexts)); break;
  case 2: aclrtSetCurrentContext(ANY(contexts)); break;
  case 3: aclrtSetDevice(0); break;
  case 4: aclrtResetDevice(0); break;
  case 5:
    if (draw(a, 20) == 0) aclrtResetDeviceForce(0);
    break;
  default: break;
  }
  if (draw(a, 4) == 0 || aclrtGetCurrentContext(&c) != ACL_SUCCESS) aclrtSetDevice(0);
}

static void act(actor *a) {
  static const struct {
    const char *name;
    uint32_t share;
  } acts[] = {
      {"submits", 30},  {"launches an operator", 20}, {"uses events", 30},  {"waits", 12},      {"creates", 12},
      {"destroys", 12}, {"uses callbacks", 4},        {"uses notifies", 4}, {"uses graphs", 8}, {"uses contexts", 2}};
  uint32_t lot = draw(a, 134), i = 0;
  while (lot >= acts[i].share) lot -= acts[i++].share;
  atomic_store(&a->doing, acts[i].name);
  aclrtStream s = ANY(streams);
  switch (i) {
  case 0: submit_work(a, s); break;
  case 1: launch_operator(s); break;
  case 2: use_events(a, s); break;
  case 3: wait_for(a, s); break;
  case 4: (draw(a, 3) == 0 ? new_stream : draw(a, 4) == 0 ? new_notify : new_event)(a); break;
  case 5:
    switch (draw(a, 8)) {
    case 0: destroy_stream(a, s); break;
    case 1: destroy_notify(ANY(notifies)); break;
    case 2: destroy_graph(ANY(graphs)); break;
    default: destroy_event(ANY(events));
    }
    break;
  case 6: use_callbacks(a, s); break;
  case 7: use_notifies(a, s); break;
  case 8: use_graphs(a, s); break;
  default: use_contexts(a);
  }
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

static void *run_actor(void *argument) {
  actor *a = argument;
  OK(aclrtSetDevice(0));
  for (long i = 0; i < n_steps / THREADS; ++i) {
    act(a);
    atomic_store(&a->step, i);
    if (i % 64 == 0) aclGetRecentErrMsg();
  }
  atomic_store(&a->doing, "is done");
  return NULL;
}

static void *run_reports(void *unused) {
  atomic_store(&report_thread, (uint64_t)pthread_self());
  while (!atomic_load(&over)) {
    aclrtProcessReport(10);
    aclGetRecentErrMsg();
    usleep(100);
  }
  return unused;
}

static void *watch(void *unused) {
  long seen[THREADS] = {0};
  int still[THREADS] = {0};
  while (!atomic_load(&over)) {
    sleep(1);
    for (int i = 0; i < THREADS; ++i) {
      const long now = atomic_load(&actors[i].step);
      still[i] = now == seen[i] && strcmp(atomic_load(&actors[i].doing), "is done") ? still[i] + 1 : 0;
      seen[i] = now;
      if (still[i] < HANG_S) continue;
      fprintf(stderr, "hangs: seed %ju, thread %d has not got on for %d s\n", (uintmax_t)seed, i, HANG_S);
      for (int j = 0; j < THREADS; ++j)
        fprintf(stderr, "  thread %d, step %ld: %s\n", j, atomic_load(&actors[j].step), atomic_load(&actors[j].doing));
      abort();
    }
  }
  return unused;
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

/* What is left can be destroyed, and then nothing is, however often a handle was given out. */
static void check_end(void) {
  enum { MANY = 1000 };
  static aclrtStream many[MANY];
  actor *a = &actors[0];
  OK(aclrtSetDevice(0));
  for (int i = 0; i < GRAPHS; ++i) aclmdlRIDestroy(atomic_load(&graphs[i]));
  for (int i = 0; i < STREAMS; ++i) destroy_stream(a, atomic_load(&streams[i]));
  for (int i = 0; i < EVENTS; ++i) destroy_event(atomic_load(&events[i]));
  for (int i = 0; i < NOTIFIES; ++i) destroy_notify(atomic_load(&notifies[i]));
  for (int i = 0; i < CONTEXTS; ++i) aclrtDestroyContext(atomic_load(&contexts[i]));
  while (aclrtResetDevice(0) == ACL_SUCCESS) {
  }
  for (size_t i = 0; i < HANDLES; ++i) {
    void *handle = atomic_load(&tally[i].handle);
    if (handle && atomic_load(&tally[i].alive) > 0) count_destroyed(handle, aclrtDestroyStreamForce(handle));
    HOLDS(atomic_load(&tally[i].alive) == 0);
  }
  aclGetRecentErrMsg();
  OK(aclrtSetDevice(0));
  for (int i = 0; i < MANY; ++i) OK(aclrtCreateStream(&many[i]));
  for (int i = 0; i < MANY; ++i) OK(aclrtDestroyStream(many[i]));
  OK(aclrtResetDeviceForce(0));
}

int main(int argc, char **argv) {
  pthread_t threads[THREADS], reports, watchdog;
  read_arguments(argc, argv);
  OK(aclInit(NULL));
  OK(aclrtSetDevice(0));
  OK(aclrtMalloc((void **)&device_memory, 2 * BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
  OK(aclrtMallocHost((void **)&pinned, BYTES));
  for (int i = 0; i < THREADS; ++i) {
    actors[i] = (actor){.random = seed * THREADS + (uint64_t)i, .doing = "starts"};
  }
  HOLDS(!pthread_create(&reports, NULL, run_reports, NULL));
  HOLDS(!pthread_create(&watchdog, NULL, watch, NULL));
  while (!atomic_load(&report_thread)) usleep(100);
  for (int i = 0; i < THREADS; ++i) HOLDS(!pthread_create(&threads[i], NULL, run_actor, &actors[i]));
  for (int i = 0; i < THREADS; ++i) HOLDS(!pthread_join(threads[i], NULL));
  check_end();
  atomic_store(&over, true);
  HOLDS(!pthread_join(reports, NULL));
  HOLDS(!pthread_join(watchdog, NULL));
  printf("done\n");
  return 0;
}
