/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that capture, execute and destroy graphs of their own, execute one that all share, update a group of it and
 * submit as ever, all at once. What comes out is compared with sums on the host.
 *
 *   stress_graphs ROUNDS */
#include "acl_test.h"

#include "aclnn/acl_meta.h"
#include "aclnnop/aclnn_add.h"

enum { N = 16, BYTES = N * sizeof(float), MAKERS = 3, SUBMITTERS = 2, EXECUTIONS = 6 };

static int rounds; /* of each thread */

/* ---- in threads: the first failure ends the thread and is told on the main one ---- */

typedef struct {
  unsigned seed;
  int line; /* of the failure; 0: none */
  aclError code;
  aclmdlRI shared;
  aclrtTaskGrp group;
  float *buffer; /* the group's */
  atomic_int *n_shared;
} actor;

#define DO(call)                                                                                                       \
  do {                                                                                                                 \
    const aclError code_ = (call);                                                                                     \
    if (code_ != ACL_SUCCESS) return fails(me, __LINE__, code_);                                                       \
  } while (0)
#define HOLDS(condition)                                                                                               \
  do {                                                                                                                 \
    if (!(condition)) return fails(me, __LINE__, -1);                                                                  \
  } while (0)

static aclError fails(actor *me, int line, aclError code) {
  if (!me->line) me->line = line;
  if (!me->code) me->code = code;
  return code;
}

static unsigned draw(actor *me, unsigned n) { return (unsigned)rand_r(&me->seed) % n; }

static aclError add(actor *me, aclrtStream stream, float *numbers, float value) {
  const int64_t dims[] = {N}, strides[] = {1};
  uint64_t bytes;
  aclOpExecutor *executor;
  float unit = 1;
  aclTensor *self = aclCreateTensor(dims, 1, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, dims, 1, numbers);
  aclScalar *scalar = aclCreateScalar(&value, ACL_FLOAT), *one = aclCreateScalar(&unit, ACL_FLOAT);
  DO(aclnnInplaceAddsGetWorkspaceSize(self, scalar, one, &bytes, &executor));
  DO(aclnnInplaceAdds(NULL, 0, executor, stream));
  aclDestroyTensor(self);
  aclDestroyScalar(scalar);
  aclDestroyScalar(one);
  return ACL_SUCCESS;
}

static aclError is_all(actor *me, const float *dev, float want) {
  float got[N];
  DO(aclrtMemcpy(got, BYTES, dev, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
  for (int i = 0; i < N; i++) HOLDS(got[i] == want);
  return ACL_SUCCESS;
}

/* ---- makers ---- */

typedef struct {
  aclrtStream stream, other;
  aclrtEvent event;
  float *numbers;
  float sum; /* of what one execution adds */
} workshop;

/* Some additions, a few of them in the other stream, which is taken along and brought back. */
static aclError capture(actor *me, workshop *w, aclmdlRI *model) {
  const unsigned n = 1 + draw(me, 40);
  w->sum = 0;
  DO(aclmdlRICaptureBegin(w->stream, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL));
  for (unsigned i = 0; i < n; i++) {
    const float value = (float)draw(me, 5);
    const bool there = draw(me, 4) == 0;
    if (there) DO(aclrtRecordEvent(w->event, w->stream));
    if (there) DO(aclrtStreamWaitEvent(w->other, w->event));
    DO(add(me, there ? w->other : w->stream, w->numbers, value));
    if (there) DO(aclrtRecordEvent(w->event, w->other));
    if (there) DO(aclrtStreamWaitEvent(w->stream, w->event));
    w->sum += value;
  }
  DO(aclmdlRICaptureEnd(w->stream, model));
  return ACL_SUCCESS;
}

static aclError make_and_execute(actor *me, workshop *w) {
  aclmdlRI model = NULL;
  float want = 0;
  DO(aclrtMemset(w->numbers, BYTES, 0, BYTES));
  DO(capture(me, w, &model));
  for (int i = 0; i < EXECUTIONS; i++) {
    const unsigned what = draw(me, 8);
    DO(aclmdlRIExecuteAsync(model, draw(me, 2) ? w->stream : w->other));
    want += w->sum;
    if (what == 0) DO(aclrtSynchronizeStream(w->other));
    if (what == 1) DO(aclmdlRIExecuteAsync(me->shared, w->other));
    if (what == 1) atomic_fetch_add(me->n_shared, 1);
  }
  if (draw(me, 2)) {
    DO(aclrtSynchronizeStream(w->stream));
    DO(aclrtSynchronizeStream(w->other));
    DO(is_all(me, w->numbers, want));
    DO(aclmdlRIDestroy(model));
  } else {
    DO(aclmdlRIDestroy(model)); /* waits */
    DO(is_all(me, w->numbers, want));
  }
  return ACL_SUCCESS;
}

static aclError make(actor *me) {
  workshop w = {0};
  DO(aclrtSetDevice(0));
  DO(aclrtCreateStream(&w.stream));
  DO(aclrtCreateStream(&w.other));
  DO(aclrtCreateEventExWithFlag(&w.event, ACL_EVENT_SYNC));
  DO(aclrtMalloc((void **)&w.numbers, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
  for (int i = 0; i < rounds; i++) DO(make_and_execute(me, &w));
  DO(aclrtSynchronizeStream(w.other));
  DO(aclrtDestroyEvent(w.event));
  DO(aclrtDestroyStream(w.stream));
  DO(aclrtDestroyStream(w.other));
  DO(aclrtFree(w.numbers));
  DO(aclrtResetDevice(0));
  return ACL_SUCCESS;
}

/* ---- submitters, and one who updates ---- */

static aclError submit(actor *me) {
  aclrtStream stream = NULL;
  float *numbers = NULL;
  DO(aclrtSetDevice(0));
  DO(aclrtCreateStream(&stream));
  DO(aclrtMalloc((void **)&numbers, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
  for (int i = 0; i < rounds; i++) {
    DO(aclrtMemset(numbers, BYTES, 0, BYTES)); /* others' captures do not forbid it */
    for (int k = 0; k < 20; k++) {
      DO(add(me, stream, numbers, 1));
      if (draw(me, 10)) continue;
      DO(aclmdlRIExecuteAsync(me->shared, stream));
      atomic_fetch_add(me->n_shared, 1);
    }
    DO(aclrtSynchronizeStream(stream));
    DO(is_all(me, numbers, 20));
  }
  DO(aclrtDestroyStream(stream));
  DO(aclrtFree(numbers));
  DO(aclrtResetDevice(0));
  return ACL_SUCCESS;
}

static aclError update(actor *me) {
  aclrtStream stream = NULL;
  DO(aclrtSetDevice(0));
  DO(aclrtCreateStream(&stream));
  for (int i = 0; i < rounds; i++) {
    DO(aclmdlRICaptureTaskUpdateBegin(stream, me->group));
    DO(add(me, stream, me->buffer, 1));
    DO(add(me, stream, me->buffer, -1));
    DO(aclmdlRICaptureTaskUpdateEnd(stream));
    if (draw(me, 3) == 0) DO(aclrtSynchronizeStream(stream));
  }
  DO(aclrtSynchronizeStream(stream));
  DO(aclrtDestroyStream(stream));
  DO(aclrtResetDevice(0));
  return ACL_SUCCESS;
}

static void *run_make(void *me) { return make(me), NULL; }
static void *run_submit(void *me) { return submit(me), NULL; }
static void *run_update(void *me) { return update(me), NULL; }

/* ---- the test ---- */

static void all_at_once(void **state) {
  (void)state;
  enum { N_ACTORS = MAKERS + SUBMITTERS + 1 };
  static atomic_int n_shared;
  actor actors[N_ACTORS], main_actor = {0}, *me = &main_actor;
  pthread_t threads[N_ACTORS];
  aclrtStream stream = stream_new();
  float *counter = dev_filled(0, BYTES), *grouped = dev_filled(0, BYTES);
  aclmdlRI shared = NULL;
  aclrtTaskGrp group = NULL;
  CHECK_OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
  CHECK_OK(add(me, stream, counter, 1));
  CHECK_OK(aclmdlRICaptureTaskGrpBegin(stream));
  CHECK_OK(add(me, stream, grouped, 1));
  CHECK_OK(add(me, stream, grouped, -1));
  CHECK_OK(aclmdlRICaptureTaskGrpEnd(stream, &group));
  CHECK_OK(aclmdlRICaptureEnd(stream, &shared));
  for (int i = 0; i < N_ACTORS; i++) {
    actors[i] =
        (actor){.seed = (unsigned)i + 1, .shared = shared, .group = group, .buffer = grouped, .n_shared = &n_shared};
    threads[i] = thread_start(i < MAKERS ? run_make : i < MAKERS + SUBMITTERS ? run_submit : run_update, &actors[i]);
  }
  for (int i = 0; i < N_ACTORS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
  for (int i = 0; i < N_ACTORS; i++) {
    if (actors[i].line) print_error("thread %d: line %d gave %d\n", i, actors[i].line, actors[i].code);
    assert_int_equal(actors[i].line, 0);
  }
  CHECK_OK(aclrtSynchronizeDevice());
  CHECK_OK(is_all(me, counter, (float)atomic_load(&n_shared)));
  CHECK_OK(is_all(me, grouped, 0));
  CHECK_OK(aclmdlRIDestroy(shared));
  CHECK_OK(aclrtFree(counter));
  CHECK_OK(aclrtFree(grouped));
  CHECK_OK(aclrtDestroyStream(stream));
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {TEST(all_at_once)};
  rounds = argc > 1 ? atoi(argv[1]) : 1000;
  return cmocka_run_group_tests(tests, device_up, device_down);
}
