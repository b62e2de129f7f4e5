/* SPDX-License-Identifier: Apache-2.0 */
/* Four ways to supply a device with data, for the same work: tensors of varying lengths come from the host, pass
 * through a chain of operators with temporaries, and a result goes back.
 *
 *   plain       each tensor is a block of aclrtMalloc; inputs and results are copied from and to pageable memory
 *   pooled      as plain, but tensors come from a stream-ordered pool (cannon/pool.h)
 *   zero copy   inputs and results are registered host memory, which operators use in place
 *   both        zero copy, with pooled temporaries
 *
 *   bench_setups           a Markdown table
 *   bench_setups --json    one JSON object
 *
 * Figures are medians over steps: allocation and free of a step's tensors, its copies, and the whole step.
 * Fragmentation is 1 - requested / taken from the device, over all steps. Uses public headers only. */
#include <acl/acl.h>
#include <aclnn/aclnn_base.h>
#include <aclnnop/aclnn_add.h>
#include <aclnnop/aclnn_mul.h>
#include <cannon/pool.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"

enum {
  STEPS = 300,
  WARM_UP = 20,
  TEMPORARIES = 8,
  MOST_FLOATS = 1 << 18, /* per tensor: 1 MiB */
  RESULT = 6,            /* expected value for inputs of 1 */
  TENSORS = TEMPORARIES + 3,
  POOL_CACHED = 1 << 20, /* free bytes that the pool may keep */
  PAGE = 4096,
};

static aclrtStream stream;
static aclScalar *one;
static float *host[3]; /* two inputs and the result */

static double now_us(void) { return now_ns() / 1e3; }

/* ---- the pool ---- */

static cannon_pool *pool;

/* A pool that keeps little: what a long step needed goes back to the device before a short one. */
static void pool_open(void) {
  cannon_pool_config c = cannon_pool_default_config();
  c.initial_bytes = 0;
  c.max_cached_bytes = POOL_CACHED;
  c.growth_bytes = 0; /* ranges of just the length that a tensor needs */
  CHECK(cannon_pool_create(&pool, &c));
}

static size_t pool_bytes(void) {
  cannon_pool_stats stats;
  CHECK(cannon_pool_get_stats(pool, &stats));
  return stats.held_bytes;
}

/* ---- a step ---- */

typedef struct {
  const char *name;
  bool pooled, in_place;
} setup;

typedef struct {
  double allocation_us, copy_us, execution_us;
  size_t asked, taken; /* bytes requested, and bytes taken from the device */
} figures;

static size_t device_bytes_in_use(void) {
  size_t free_bytes, total;
  CHECK(aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total));
  return total - free_bytes;
}

static void *take(const setup *s, size_t bytes) {
  void *p;
  if (s->pooled)
    CHECK(cannon_pool_alloc(pool, bytes, stream, &p));
  else
    CHECK(aclrtMalloc(&p, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  return p;
}

static void give(const setup *s, void *p) {
  if (s->pooled)
    CHECK(cannon_pool_free_async(pool, p, stream));
  else
    CHECK(aclrtFree(p));
}

static aclTensor *vector(void *p, int64_t n) {
  aclTensor *t = aclCreateTensor(&n, 1, ACL_FLOAT, (int64_t[]){1}, 0, ACL_FORMAT_ND, &n, 1, p);
  if (!t) exit(1);
  return t;
}

static void run(bool product, void *out, void *x, void *y, int64_t n) {
  uint64_t bytes;
  aclOpExecutor *executor;
  aclTensor *tensors[] = {vector(x, n), vector(y, n), vector(out, n)};
  if (product) {
    CHECK(aclnnMulGetWorkspaceSize(tensors[0], tensors[1], tensors[2], &bytes, &executor));
    CHECK(aclnnMul(NULL, 0, executor, stream));
  } else {
    CHECK(aclnnAddGetWorkspaceSize(tensors[0], tensors[1], one, tensors[2], &bytes, &executor));
    CHECK(aclnnAdd(NULL, 0, executor, stream));
  }
  for (int i = 0; i < 3; i++) CHECK(aclDestroyTensor(tensors[i]));
}

/* One step. Inputs, temporaries and result: x, y, t0 = x + y, t1 = t0 * y, ..., result = t7 + x. */
static void step(const setup *s, int64_t n, size_t before, figures *f) {
  const size_t bytes = (size_t)n * sizeof(float);
  const int first = s->in_place ? 3 : 0;
  void *t[TENSORS] = {host[0], host[1], host[2]};
  *f = (figures){.asked = bytes * (size_t)(TENSORS - first)};
  const double start = now_us();
  for (int i = first; i < TENSORS; i++) t[i] = take(s, bytes);
  f->allocation_us = now_us() - start;
  f->taken = s->pooled ? pool_bytes() : device_bytes_in_use() - before;

  const double copying = now_us();
  for (int i = 0; i < 2 && !s->in_place; i++)
    CHECK(aclrtMemcpy(t[i], bytes, host[i], bytes, ACL_MEMCPY_HOST_TO_DEVICE));
  const double running = now_us();
  for (int i = 0; i < TEMPORARIES; i++) run(i % 2, t[3 + i], i ? t[2 + i] : t[0], t[1], n);
  run(false, t[2], t[2 + TEMPORARIES], t[0], n);
  CHECK(aclrtSynchronizeStream(stream));
  const double back = now_us();
  if (!s->in_place) CHECK(aclrtMemcpy(host[2], bytes, t[2], bytes, ACL_MEMCPY_DEVICE_TO_HOST));
  const double freeing = now_us();
  f->copy_us = s->in_place ? 0 : (running - copying) + (freeing - back);
  for (int i = first; i < TENSORS; i++) give(s, t[i]);
  const double end = now_us();
  f->allocation_us += end - freeing;
  f->execution_us = f->allocation_us + (freeing - copying);
  if (host[2][0] != host[2][n - 1] || host[2][0] != RESULT) {
    fprintf(stderr, "%s: the result is %g and %g, expected %d\n", s->name, host[2][0], host[2][n - 1], RESULT);
    exit(1);
  }
}

static figures measure(const setup *s) {
  static double allocation[STEPS], copy[STEPS], execution[STEPS];
  figures f;
  size_t asked = 0, taken = 0;
  unsigned random = 1; /* the same lengths for all set-ups */
  if (s->pooled) pool_open();
  const size_t before = device_bytes_in_use();
  for (int i = -WARM_UP; i < STEPS; i++) {
    random = random * 1103515245 + 12345;
    const int64_t n = MOST_FLOATS / 16 + (random >> 8) % (MOST_FLOATS - MOST_FLOATS / 16);
    step(s, n, before, &f);
    if (i < 0) continue;
    asked += f.asked;
    taken += f.taken;
    allocation[i] = f.allocation_us;
    copy[i] = f.copy_us;
    execution[i] = f.execution_us;
  }
  if (s->pooled) CHECK(cannon_pool_destroy(pool));
  return (figures){median(allocation, STEPS), median(copy, STEPS), median(execution, STEPS), asked, taken};
}

/* ---- the table ---- */

static double fragmentation(const figures *f) { return f->taken ? 1 - (double)f->asked / (double)f->taken : 0; }

static void set_up(void) {
  float factor = 1;
  CHECK(aclInit(NULL));
  CHECK(aclrtSetDevice(0));
  CHECK(aclrtCreateStream(&stream));
  one = aclCreateScalar(&factor, ACL_FLOAT);
  for (int i = 0; i < 3; i++) {
    host[i] = aligned_alloc(PAGE, MOST_FLOATS * sizeof(float));
    if (!host[i] || !one) exit(1);
    for (int k = 0; k < MOST_FLOATS; k++) host[i][k] = 1;
  }
}

int main(int argc, char **argv) {
  static const setup setups[] = {
      {"plain", false, false}, {"pooled", true, false}, {"zero copy", false, true}, {"both", true, true}};
  enum { N = sizeof setups / sizeof *setups };
  const bool json = argc > 1 && strcmp(argv[1], "--json") == 0;
  figures f[N];
  set_up();
  for (int i = 0; i < N; i++) {
    void *alias;
    for (int k = 0; k < 3 && setups[i].in_place; k++)
      CHECK(aclrtHostRegister(host[k], MOST_FLOATS * sizeof(float), ACL_HOST_REGISTER_MAPPED, &alias));
    f[i] = measure(&setups[i]);
    for (int k = 0; k < 3 && setups[i].in_place; k++) CHECK(aclrtHostUnregister(host[k]));
  }
  if (!json) printf("| set-up | allocation | copy | execution | fragmentation |\n|---|---|---|---|---|\n");
  for (int i = 0; i < N; i++)
    printf(
        json ? "%s\"%s\": {\"allocation_us\": %.3f, \"copy_us\": %.1f, \"execution_ms\": %.4f, \"fragmentation\": %.4f}"
             : "%s| %s | %.3f us | %.1f us | %.4f ms | %.4f |\n",
        json ? (i ? ", " : "{") : "", setups[i].name, f[i].allocation_us, f[i].copy_us, f[i].execution_us / 1000,
        fragmentation(&f[i]));
  if (json) printf("}\n");
  CHECK(aclDestroyScalar(one));
  for (int i = 0; i < 3; i++) free(host[i]);
  CHECK(aclrtDestroyStream(stream));
  CHECK(aclrtResetDevice(0));
  CHECK(aclFinalize());
  return 0;
}
