/* SPDX-License-Identifier: Apache-2.0 */
/* What a call takes, kernels left out: of operators on one element, which a real run computes in some nanoseconds; of
 * operators that a dry run does not compute; and of copies, fills, events and allocations. Prints one JSON object of ns
 * per call, each a median over batches. Uses the public API only. bench/dry.py runs it real and dry.
 *
 *   bench_dry          what both kinds of run have
 *   bench_dry --large  also operators on 4 MiB, which in a real run would be all kernel */
#include <acl/acl.h>
#include <aclnn/aclnn_base.h>
#include <aclnnop/aclnn_add.h>
#include <aclnnop/aclnn_cat.h>

#include <stdbool.h>
#include <string.h>

#include "measure.h"

enum {
  BATCH = 256,     /* calls between two readings of the clock: a stream's queue does not become full */
  N_BATCHES = 400, /* of which the median is taken */
  N_LARGE = 1 << 20,
  N_PARTS = 8,      /* of aclnnCat: an operator with many operands */
  N_ISLANDS = 4096, /* small tensors that hold values, between others: a program's counters, rates and indices */
};

static aclrtStream stream;
static aclrtEvent event;
static aclScalar *one;
static aclTensor *a, *b, *out;
static aclTensorList *parts;
static void *word;
static float host_word;

/* The bodies below are called BATCH times and then waited for. */
static double time_calls(void (*body)(void)) {
  static double per_call[N_BATCHES];
  for (int i = -N_BATCHES / 10; i < N_BATCHES; i++) { /* the first tenth warms up */
    const double start = now_ns();
    for (int j = 0; j < BATCH; j++) body();
    CHECK(aclrtSynchronizeStream(stream));
    if (i >= 0) per_call[i] = (now_ns() - start) / BATCH;
  }
  return median(per_call, N_BATCHES);
}

static void add(void) {
  uint64_t workspace;
  aclOpExecutor *executor;
  CHECK(aclnnAddGetWorkspaceSize(a, b, one, out, &workspace, &executor));
  CHECK(aclnnAdd(NULL, 0, executor, stream));
}

static void cat(void) {
  uint64_t workspace;
  aclOpExecutor *executor;
  CHECK(aclnnCatGetWorkspaceSize(parts, 0, out, &workspace, &executor));
  CHECK(aclnnCat(NULL, 0, executor, stream));
}

static void fill(void) { CHECK(aclrtMemsetAsync(word, 4, 0, 4, stream)); }
static void copy_in(void) { CHECK(aclrtMemcpy(word, 4, &host_word, 4, ACL_MEMCPY_HOST_TO_DEVICE)); }
static void copy_out(void) { CHECK(aclrtMemcpy(&host_word, 4, word, 4, ACL_MEMCPY_DEVICE_TO_HOST)); }

static void pass_event(void) {
  CHECK(aclrtRecordEvent(event, stream));
  CHECK(aclrtStreamWaitEvent(stream, event));
}

static void allocate(size_t bytes) {
  void *block;
  CHECK(aclrtMalloc(&block, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(aclrtFree(block));
}
static void allocate_4k(void) { allocate(4 << 10); }
static void allocate_2m(void) { allocate(2 << 20); }

static aclTensor *new_vector(int64_t n, void **memory) {
  CHECK(aclrtMalloc(memory, (size_t)n * sizeof(float), ACL_MEM_MALLOC_HUGE_FIRST));
  aclTensor *t = aclCreateTensor(&n, 1, ACL_FLOAT, &(int64_t){1}, 0, ACL_FORMAT_ND, &n, 1, *memory);
  if (!t) CHECK(ACL_ERROR_FAILURE);
  return t;
}

static void report(const char *key, double ns) {
  static int n_reported;
  printf("%s\"%s\": %.1f", n_reported++ ? ", " : "{", key, ns);
}

/* The operators on vectors of n elements, which are written first if has_values. */
static void measure(const char *key, int64_t n, bool has_values) {
  void *memory[3 + N_PARTS];
  aclTensor *part[N_PARTS], *whole = NULL;
  a = new_vector(n, &memory[0]);
  b = new_vector(n, &memory[1]);
  out = new_vector(n, &memory[2]);
  if (has_values)
    for (int i = 0; i < 3; i++) CHECK(aclrtMemset(memory[i], (size_t)n * sizeof(float), 0, (size_t)n * sizeof(float)));
  char name[32];
  snprintf(name, sizeof name, "add_%s", key);
  report(name, time_calls(add));
  CHECK(aclDestroyTensor(out));
  CHECK(aclrtFree(memory[2]));
  for (int i = 0; i < N_PARTS; i++) part[i] = new_vector(n, &memory[3 + i]);
  out = whole = new_vector(n * N_PARTS, &memory[2]);
  if (has_values)
    for (int i = 0; i < N_PARTS; i++) CHECK(aclrtMemset(memory[3 + i], (size_t)n * 4, 0, (size_t)n * 4));
  parts = aclCreateTensorList((const aclTensor *const *)part, N_PARTS);
  snprintf(name, sizeof name, "cat_%s", key);
  report(name, time_calls(cat));
  CHECK(aclDestroyTensorList(parts)); /* and its tensors */
  CHECK(aclDestroyTensor(a));
  CHECK(aclDestroyTensor(b));
  CHECK(aclDestroyTensor(whole));
  for (int i = 0; i < 3 + N_PARTS; i++) CHECK(aclrtFree(memory[i]));
}

/* Blocks of which every other one has a value. */
static void make_islands(void *island[N_ISLANDS]) {
  for (int i = 0; i < N_ISLANDS; i++) {
    CHECK(aclrtMalloc(&island[i], 512, ACL_MEM_MALLOC_HUGE_FIRST));
    if (i % 2) CHECK(aclrtMemcpy(island[i], 512, &host_word, 4, ACL_MEMCPY_HOST_TO_DEVICE));
  }
}

int main(int argc, char **argv) {
  static void *island[N_ISLANDS];
  const bool large = argc == 2 && strcmp(argv[1], "--large") == 0;
  if (argc > 1 && !large) {
    fprintf(stderr, "usage: %s [--large]\n", argv[0]);
    return 2;
  }
  CHECK(aclInit(NULL));
  CHECK(aclrtSetDevice(0));
  CHECK(aclrtCreateStream(&stream));
  CHECK(aclrtCreateEvent(&event));
  CHECK(aclrtMalloc(&word, 4, ACL_MEM_MALLOC_HUGE_FIRST));
  one = aclCreateScalar(&(float){1}, ACL_FLOAT);
  make_islands(island);

  measure("values", 1, true);
  measure("none", 1, false);
  if (large) measure("large", N_LARGE, false);
  report("fill", time_calls(fill));
  report("copy_in", time_calls(copy_in));
  report("copy_out", time_calls(copy_out));
  report("event", time_calls(pass_event));
  report("alloc_4k", time_calls(allocate_4k));
  report("alloc_2m", time_calls(allocate_2m));
  printf("}\n");

  for (int i = 0; i < N_ISLANDS; i++) CHECK(aclrtFree(island[i]));
  CHECK(aclDestroyScalar(one));
  CHECK(aclrtFree(word));
  CHECK(aclrtDestroyEvent(event));
  CHECK(aclrtDestroyStream(stream));
  CHECK(aclrtResetDevice(0));
  CHECK(aclFinalize());
  return 0;
}
