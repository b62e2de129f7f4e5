/* SPDX-License-Identifier: Apache-2.0 */
/* Attention in three ways, and the device memory that each needs at its peak, measured:
 *
 *   standard   all scores at once: heads x sequence x sequence floats, and as many probabilities
 *   chunked    the same for a block of queries at a time
 *   flash      the fused operator, which never stores the scores
 *
 * The table of such peaks is in many articles; this program makes it, and checks that the three results agree. */
#include "common.h"

#include <aclnnop/aclnn_batch_matmul.h>
#include <aclnnop/aclnn_flash_attention_score.h>
#include <aclnnop/aclnn_mul.h>
#include <aclnnop/aclnn_softmax.h>

#include <math.h>

enum { HEADS = 8, SEQUENCE = 2048, DEPTH = 64, CHUNK = 256 };
static const size_t TENSOR_BYTES = (size_t)HEADS * SEQUENCE * DEPTH * sizeof(float);

static aclrtStream stream;
static size_t live, peak; /* bytes that this program has allocated */

static void *take(size_t bytes) {
  void *p;
  CHECK(aclrtMalloc(&p, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  live += bytes;
  if (live > peak) peak = live;
  return p;
}

static void give(void *p, size_t bytes) {
  CHECK(aclrtSynchronizeStream(stream));
  CHECK(aclrtFree(p));
  live -= bytes;
}

/* A view of `rows` rows of each head, from `first` on, of a tensor [HEADS, SEQUENCE, columns]; transposed if wanted. */
static aclTensor *rows_of(void *p, int64_t first, int64_t rows, int64_t columns, int transposed) {
  const int64_t storage[] = {HEADS, SEQUENCE, columns};
  int64_t dims[] = {HEADS, rows, columns}, strides[] = {SEQUENCE * columns, columns, 1};
  if (transposed) dims[1] = columns, dims[2] = rows, strides[1] = 1, strides[2] = columns;
  return aclCreateTensor(dims, 3, ACL_FLOAT, strides, first * columns, ACL_FORMAT_ND, storage, 3, p);
}

static aclTensor *scores_of(void *p, int64_t rows) {
  const int64_t dims[] = {HEADS, rows, SEQUENCE}, strides[] = {rows * SEQUENCE, SEQUENCE, 1};
  return aclCreateTensor(dims, 3, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, dims, 3, p);
}

/* Runs an operator whose phase one has been called, with the workspace that it asked for. */
static void launch(aclnnStatus (*operator)(void *, uint64_t, aclOpExecutor *, aclrtStream), uint64_t bytes,
                   aclOpExecutor *executor) {
  void *workspace = bytes ? take(bytes) : NULL;
  CHECK(operator(workspace, bytes, executor, stream));
  if (workspace) give(workspace, bytes);
}

/* out = softmax(q k^T / sqrt(DEPTH)) v for some rows of q: three operators, with scores and probabilities in memory. */
static void attend(void *out, void *q, void *k, void *v, int64_t first, int64_t rows) {
  const size_t scores_bytes = (size_t)HEADS * (size_t)rows * SEQUENCE * sizeof(float);
  void *scores = take(scores_bytes), *probabilities = take(scores_bytes);
  aclTensor *tq = rows_of(q, first, rows, DEPTH, 0), *tk = rows_of(k, 0, SEQUENCE, DEPTH, 1);
  aclTensor *tv = rows_of(v, 0, SEQUENCE, DEPTH, 0), *tout = rows_of(out, first, rows, DEPTH, 0);
  aclTensor *ts = scores_of(scores, rows), *tp = scores_of(probabilities, rows);
  float factor = 1 / sqrtf(DEPTH);
  aclScalar *scale = aclCreateScalar(&factor, ACL_FLOAT);
  uint64_t bytes;
  aclOpExecutor *executor;
  CHECK(aclnnBatchMatMulGetWorkspaceSize(tq, tk, ts, 0, &bytes, &executor));
  launch(aclnnBatchMatMul, bytes, executor);
  CHECK(aclnnMulsGetWorkspaceSize(ts, scale, ts, &bytes, &executor));
  launch(aclnnMuls, bytes, executor);
  CHECK(aclnnSoftmaxGetWorkspaceSize(ts, -1, tp, &bytes, &executor));
  launch(aclnnSoftmax, bytes, executor);
  CHECK(aclnnBatchMatMulGetWorkspaceSize(tp, tv, tout, 0, &bytes, &executor));
  launch(aclnnBatchMatMul, bytes, executor);
  aclTensor *tensors[] = {tq, tk, tv, tout, ts, tp};
  for (int i = 0; i < 6; i++) CHECK(aclDestroyTensor(tensors[i]));
  CHECK(aclDestroyScalar(scale));
  give(probabilities, scores_bytes);
  give(scores, scores_bytes);
}

static void standard(void *out, void *q, void *k, void *v) { attend(out, q, k, v, 0, SEQUENCE); }

static void chunked(void *out, void *q, void *k, void *v) {
  for (int64_t first = 0; first < SEQUENCE; first += CHUNK) attend(out, q, k, v, first, CHUNK);
}

static aclTensor *four_dims(void *p, int64_t depth) {
  const int64_t dims[] = {1, HEADS, SEQUENCE, depth},
                strides[] = {HEADS * SEQUENCE * depth, SEQUENCE * depth, depth, 1};
  return aclCreateTensor(dims, 4, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, dims, 4, p);
}

/* The fused operator also writes a row's maximum and sum, eight times each, which its gradient needs. */
static void flash(void *out, void *q, void *k, void *v) {
  const size_t moments_bytes = (size_t)HEADS * SEQUENCE * 8 * sizeof(float);
  void *maxima = take(moments_bytes), *sums = take(moments_bytes);
  const int64_t none = 0;
  aclTensor *tq = four_dims(q, DEPTH), *tk = four_dims(k, DEPTH), *tv = four_dims(v, DEPTH);
  aclTensor *tmax = four_dims(maxima, 8), *tsum = four_dims(sums, 8), *tout = four_dims(out, DEPTH);
  aclTensor *unused = aclCreateTensor(&none, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, &none, 1, NULL);
  uint64_t bytes;
  aclOpExecutor *executor;
  char layout[] = "BNSD";
  CHECK(aclnnFlashAttentionScoreGetWorkspaceSize(tq, tk, tv, NULL, NULL, NULL, NULL, NULL, 1 / sqrt(DEPTH), 1, 65536,
                                                 65536, HEADS, layout, 0, 0, tmax, tsum, unused, tout, &bytes,
                                                 &executor));
  launch(aclnnFlashAttentionScore, bytes, executor);
  aclTensor *tensors[] = {tq, tk, tv, tmax, tsum, tout, unused};
  for (int i = 0; i < 7; i++) CHECK(aclDestroyTensor(tensors[i]));
  give(sums, moments_bytes);
  give(maxima, moments_bytes);
}

/* The largest difference of the results from those of the first way. */
static float difference(const float *a, const float *b) {
  float most = 0;
  for (size_t i = 0; i < TENSOR_BYTES / sizeof *a; i++)
    if (fabsf(a[i] - b[i]) > most) most = fabsf(a[i] - b[i]);
  return most;
}

int main(void) {
  static const struct {
    const char *name;
    void (*run)(void *out, void *q, void *k, void *v);
  } ways[] = {{"standard", standard}, {"chunked", chunked}, {"flash", flash}};
  float *host[2];
  void *t[4];
  CHECK(aclInit(NULL));
  CHECK(aclrtSetDevice(0));
  CHECK(aclrtCreateStream(&stream));
  for (int i = 0; i < 2; i++) CHECK(aclrtMallocHost((void **)&host[i], TENSOR_BYTES));
  for (int i = 0; i < 4; i++) t[i] = take(TENSOR_BYTES);
  for (int i = 0; i < 3; i++) {
    for (size_t k = 0; k < TENSOR_BYTES / sizeof(float); k++) host[0][k] = sinf((float)k * 0.37f + (float)i);
    CHECK(aclrtMemcpy(t[i], TENSOR_BYTES, host[0], TENSOR_BYTES, ACL_MEMCPY_HOST_TO_DEVICE));
  }
  printf("%d heads, %d queries and keys, depth %d, float32\n", HEADS, SEQUENCE, DEPTH);
  for (int w = 0; w < 3; w++) {
    peak = live;
    ways[w].run(t[3], t[0], t[1], t[2]);
    CHECK(aclrtSynchronizeStream(stream));
    CHECK(aclrtMemcpy(host[w > 0], TENSOR_BYTES, t[3], TENSOR_BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
    printf("%-9s peak %5.1f MiB\n", ways[w].name, (double)peak / (1 << 20));
    if (w) expect(difference(host[0], host[1]) < 1e-4f, "the ways agree");
  }
  for (int i = 0; i < 4; i++) give(t[i], TENSOR_BYTES);
  for (int i = 0; i < 2; i++) CHECK(aclrtFreeHost(host[i]));
  CHECK(aclrtDestroyStream(stream));
  CHECK(aclrtResetDevice(0));
  CHECK(aclFinalize());
  return 0;
}
