/* SPDX-License-Identifier: Apache-2.0 */
/* Operators large enough for two threads, to be measured on machines shared with other programs: an addition of 1 MiB
 * tensors, a GEMM of 256 x 256 x 256 and a softmax of 256 x 1024, all float32. Prints the mean time of a call (both
 * phases and the wait) in us as one line of JSON; a median would hide calls that wait for a processor.
 *
 *   bench_busy [SECONDS]      for each operator; 0.5 by default */
#include <acl/acl.h>
#include <aclnn/aclnn_base.h>
#include <stdio.h>
#include <stdlib.h>

#include <aclnnop/aclnn_add.h>
#include <aclnnop/aclnn_mm.h>
#include <aclnnop/aclnn_softmax.h>

#include "measure.h"

enum { N = 256 * 1024, CUBE = 256, ROWS = 256, COLUMNS = 1024, WARM = 20 };

static aclTensor *tensor_new(int64_t rows, int64_t columns) {
  void *p;
  CHECK(aclrtMalloc(&p, (size_t)(rows * columns) * sizeof(float), ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(aclrtMemset(p, (size_t)(rows * columns) * sizeof(float), 0, (size_t)(rows * columns) * sizeof(float)));
  const int64_t dims[] = {rows, columns}, strides[] = {columns, 1};
  aclTensor *t = aclCreateTensor(dims, 2, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, dims, 2, p);
  if (!t) exit(1);
  return t;
}

static aclTensor *x, *y, *z, *a, *b, *c, *s, *t;
static aclScalar *one;

static aclnnStatus add(uint64_t *bytes, aclOpExecutor **e) { return aclnnAddGetWorkspaceSize(x, y, one, z, bytes, e); }
static aclnnStatus mm(uint64_t *bytes, aclOpExecutor **e) { return aclnnMmGetWorkspaceSize(a, b, c, 0, bytes, e); }
static aclnnStatus softmax(uint64_t *bytes, aclOpExecutor **e) {
  return aclnnSoftmaxGetWorkspaceSize(s, 1, t, bytes, e);
}

static const struct {
  const char *name;
  aclnnStatus (*prepare)(uint64_t *bytes, aclOpExecutor **executor);
  aclnnStatus (*launch)(void *workspace, uint64_t bytes, aclOpExecutor *executor, aclrtStream stream);
} operators[] = {{"add", add, aclnnAdd}, {"mm", mm, aclnnMm}, {"softmax", softmax, aclnnSoftmax}};

int main(int argc, char **argv) {
  const double seconds = argc > 1 ? atof(argv[1]) : 0.5;
  const float value = 1;
  aclrtStream stream;
  CHECK(aclInit(NULL));
  CHECK(aclrtSetDevice(0));
  CHECK(aclrtCreateStream(&stream));
  x = tensor_new(1, N), y = tensor_new(1, N), z = tensor_new(1, N);
  a = tensor_new(CUBE, CUBE), b = tensor_new(CUBE, CUBE), c = tensor_new(CUBE, CUBE);
  s = tensor_new(ROWS, COLUMNS), t = tensor_new(ROWS, COLUMNS);
  one = aclCreateScalar((void *)&value, ACL_FLOAT);
  for (size_t i = 0; i < sizeof operators / sizeof *operators; ++i) {
    double begin = 0;
    long n = -WARM;
    for (; n < 1 || now_ns() - begin < seconds * 1e9; ++n) {
      uint64_t bytes;
      aclOpExecutor *executor;
      if (n == 0) begin = now_ns();
      CHECK(operators[i].prepare(&bytes, &executor));
      if (bytes) return 1;
      CHECK(operators[i].launch(NULL, bytes, executor, stream));
      CHECK(aclrtSynchronizeStream(stream));
    }
    printf("%s\"%s\": %.2f", i ? ", " : "{", operators[i].name, (now_ns() - begin) / 1e3 / (double)n);
  }
  puts("}");
  return 0;
}
