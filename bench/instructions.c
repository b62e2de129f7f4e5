/* SPDX-License-Identifier: Apache-2.0 */
/* Runs one operator a number of times on operands that stay in the cache, for bench/instructions.py, which counts
 * instructions.
 *
 *   bench_instructions NAME ROUNDS      prints how many elements (of GEMM: multiply-adds) a round computes */
#include <acl/acl.h>
#include <aclnn/aclnn_base.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <aclnnop/aclnn_add.h>
#include <aclnnop/aclnn_exp.h>
#include <aclnnop/aclnn_gelu.h>
#include <aclnnop/aclnn_layer_norm.h>
#include <aclnnop/aclnn_matmul.h>
#include <aclnnop/aclnn_mm.h>
#include <aclnnop/aclnn_reduce_sum.h>
#include <aclnnop/aclnn_softmax.h>

#include "measure.h"

enum { ROWS = 64, COLUMNS = 1024, INNER = 256 };

static aclrtStream stream;
static uint64_t workspace_bytes;
static aclOpExecutor *executor;

/* A tensor of rows x columns with memory of its own, filled with small numbers of the type. */
static aclTensor *tensor(int64_t rows, int64_t columns, aclDataType type) {
  const size_t size = type == ACL_BF16 ? 2 : 4, n = (size_t)(rows * columns);
  char *host = malloc(n * size), *p;
  for (size_t i = 0; i < n; i++) {
    const float x = (float)(i * 37 % 101) / 101 - 0.5f;
    memcpy(host + i * size, (const char *)&x + (4 - size), size); /* the high half of a float is a bfloat16 */
  }
  CHECK(aclrtMalloc((void **)&p, n * size, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(aclrtMemcpy(p, n * size, host, n * size, ACL_MEMCPY_HOST_TO_DEVICE));
  free(host);
  return aclCreateTensor((const int64_t[]){rows, columns}, 2, type, (const int64_t[]){columns, 1}, 0, ACL_FORMAT_ND,
                         (const int64_t[]){rows, columns}, 2, p);
}

typedef struct {
  aclTensor *a, *b, *w, *out, *product, *sums, *mean, *rstd;
  aclScalar *one;
  aclIntArray *last, *columns;
} operands;

#define PHASE_TWO(function) CHECK(function(workspace, workspace_bytes, executor, stream))

static void *workspace_of(void) {
  void *p = NULL;
  if (workspace_bytes) CHECK(aclrtMalloc(&p, workspace_bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  return p;
}

#define OPERATOR(name, function, ...)                                                                                  \
  static void name(const operands *o) {                                                                                \
    CHECK(function##GetWorkspaceSize(__VA_ARGS__, &workspace_bytes, &executor));                                       \
    void *workspace = workspace_of();                                                                                  \
    PHASE_TWO(function);                                                                                               \
    CHECK(aclrtSynchronizeStream(stream));                                                                             \
    if (workspace) CHECK(aclrtFree(workspace));                                                                        \
  }

OPERATOR(add, aclnnAdd, o->a, o->b, o->one, o->out)
OPERATOR(run_exp, aclnnExp, o->a, o->out)
OPERATOR(gelu, aclnnGelu, o->a, o->out)
OPERATOR(softmax, aclnnSoftmax, o->a, 1, o->out)
OPERATOR(sum, aclnnReduceSum, o->a, o->last, false, ACL_FLOAT, o->sums)
OPERATOR(layer_norm, aclnnLayerNorm, o->a, o->columns, NULL, NULL, 1e-5, o->out, o->mean, o->rstd)
OPERATOR(gemm, aclnnMm, o->a, o->w, o->product, 0)

static const struct {
  const char *name;
  void (*run)(const operands *);
  aclDataType type;
  double per_round;
} benchmarks[] = {
    {"Add", add, ACL_FLOAT, ROWS *COLUMNS},
    {"Add.bfloat16", add, ACL_BF16, ROWS *COLUMNS},
    {"Exp", run_exp, ACL_FLOAT, ROWS *COLUMNS},
    {"Gelu", gelu, ACL_FLOAT, ROWS *COLUMNS},
    {"Softmax", softmax, ACL_FLOAT, ROWS *COLUMNS},
    {"ReduceSum", sum, ACL_FLOAT, ROWS *COLUMNS},
    {"LayerNorm", layer_norm, ACL_FLOAT, ROWS *COLUMNS},
    {"Mm", gemm, ACL_FLOAT, (double)ROWS *COLUMNS *INNER},
    {"Mm.bfloat16", gemm, ACL_BF16, (double)ROWS *COLUMNS *INNER},
};

int main(int argc, char **argv) {
  if (argc != 3) return fprintf(stderr, "usage: bench_instructions NAME ROUNDS\n"), 2;
  CHECK(aclInit(NULL));
  CHECK(aclrtSetDevice(0));
  CHECK(aclrtCreateStream(&stream));
  for (size_t k = 0; k < sizeof benchmarks / sizeof *benchmarks; k++) {
    if (strcmp(benchmarks[k].name, argv[1]) != 0) continue;
    const aclDataType type = benchmarks[k].type;
    float one = 1;
    const operands o = {.a = tensor(ROWS, COLUMNS, type),
                        .b = tensor(ROWS, COLUMNS, type),
                        .w = tensor(COLUMNS, INNER, type),
                        .out = tensor(ROWS, COLUMNS, type),
                        .product = tensor(ROWS, INNER, type),
                        .sums = aclCreateTensor((const int64_t[]){ROWS}, 1, ACL_FLOAT, (const int64_t[]){1}, 0,
                                                ACL_FORMAT_ND, (const int64_t[]){ROWS}, 1, NULL),
                        .one = aclCreateScalar(&one, ACL_FLOAT),
                        .last = aclCreateIntArray((const int64_t[]){1}, 1),
                        .columns = aclCreateIntArray((const int64_t[]){COLUMNS}, 1),
                        .mean = tensor(ROWS, 1, ACL_FLOAT),
                        .rstd = tensor(ROWS, 1, ACL_FLOAT)};
    void *sums;
    CHECK(aclrtMalloc(&sums, ROWS * sizeof(float), ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclSetRawTensorAddr(o.sums, sums));
    for (int i = atoi(argv[2]); i > 0; i--) benchmarks[k].run(&o);
    printf("%.0f\n", benchmarks[k].per_round);
    return 0;
  }
  fprintf(stderr, "bench_instructions: there is no %s\n", argv[1]);
  return 2;
}
