/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that fuse communication with GEMM, with ranks as threads and as processes: results, also of captured ones,
 * and what both phases refuse. The numeric tests have the other operators, types and shapes. */
#include "hccl_ranks.h"

#include "aclnn/acl_meta.h"
#include "aclnnop/aclnn_all_gather_matmul.h"
#include "aclnnop/aclnn_matmul_all_reduce.h"
#include "aclnnop/aclnn_matmul_reduce_scatter.h"

/* Rows of the left factor, a multiple of all numbers of ranks; columns of it; columns of the right one. The results are
 * longer than what a collective sends within its messages. */
enum { ROWS = 48, DEPTH = 19, COLUMNS = 37, MOST_ROWS = ROWS * MOST_RANKS };
static const HcclDataType TYPE = HCCL_DATA_TYPE_FP16;

/* ---- values: each element is -1, 0 or 1, and sums are exact ---- */

typedef struct {
  uint32_t n, rank;
  size_t first_row; /* of the part that a rank gets */
} value_of;

static int left(size_t i, const void *argument) {
  const value_of *v = argument;
  return (int)((i * 7 + i / DEPTH + v->rank * 5) % 3) - 1;
}

static int right(size_t i, const void *argument) {
  const value_of *v = argument;
  return (int)((i * 5 + i / COLUMNS + v->rank * 2) % 3) - 1;
}

/* Element of left x right, of factors from two ranks. */
static int product(size_t row, size_t column, uint32_t left_rank, uint32_t right_rank) {
  const value_of a = {.rank = left_rank}, b = {.rank = right_rank};
  int sum = 0;
  for (size_t k = 0; k < DEPTH; ++k) sum += left(row * DEPTH + k, &a) * right(k * COLUMNS + column, &b);
  return sum;
}

/* Element of the sum of all ranks' products. */
static int summed(size_t i, const void *argument) {
  const value_of *v = argument;
  int sum = 0;
  for (uint32_t r = 0; r < v->n; ++r) sum += product(v->first_row + i / COLUMNS, i % COLUMNS, r, r);
  return sum;
}

static int gathered(size_t i, const void *argument) {
  const value_of v = {.rank = (uint32_t)(i / DEPTH / ROWS)};
  (void)argument;
  return left(i % (ROWS * DEPTH), &v);
}

static int gathered_product(size_t i, const void *argument) {
  const size_t row = i / COLUMNS;
  return product(row % ROWS, i % COLUMNS, (uint32_t)(row / ROWS), ((const value_of *)argument)->rank);
}

/* ---- calls ---- */

typedef struct {
  char group[128];
  void *left, *right, *out, *gathered;
  aclTensor *left_tensor, *right_tensor;
  value_of value;
} factors;

static aclTensor *matrix(void *data, int64_t rows, int64_t columns) {
  const int64_t dims[] = {rows, columns}, strides[] = {columns, 1};
  return aclCreateTensor(dims, 2, ACL_FLOAT16, strides, 0, ACL_FORMAT_ND, dims, 2, data);
}

static bool factors_up(rank_self *r, factors *f) {
  f->value = (value_of){.n = r->n, .rank = r->rank};
  OK(HcclGetCommName(r->comm, f->group));
  PASS(buffer_new(r, TYPE, ROWS * DEPTH, &f->left) && buffer_new(r, TYPE, DEPTH * COLUMNS, &f->right));
  PASS(buffer_new(r, TYPE, MOST_ROWS * COLUMNS, &f->out) && buffer_new(r, TYPE, MOST_ROWS * DEPTH, &f->gathered));
  PASS(buffer_fill(r, TYPE, f->left, 0, ROWS * DEPTH, left, &f->value));
  PASS(buffer_fill(r, TYPE, f->right, 0, DEPTH * COLUMNS, right, &f->value));
  f->left_tensor = matrix(f->left, ROWS, DEPTH);
  f->right_tensor = matrix(f->right, DEPTH, COLUMNS);
  return true;
}

static bool factors_down(rank_self *r, factors *f) {
  OK(aclDestroyTensor(f->left_tensor));
  OK(aclDestroyTensor(f->right_tensor));
  return buffer_free(r, TYPE, f->left, ROWS * DEPTH) && buffer_free(r, TYPE, f->right, DEPTH * COLUMNS) &&
         buffer_free(r, TYPE, f->out, MOST_ROWS * COLUMNS) && buffer_free(r, TYPE, f->gathered, MOST_ROWS * DEPTH);
}

/* What phase two needs. The result's tensor is destroyed before. */
typedef struct {
  uint64_t bytes;
  void *workspace;
  aclOpExecutor *executor;
} launch;

static bool workspace_new(rank_self *r, launch *l) {
  l->workspace = NULL;
  if (l->bytes) OK(aclrtMalloc(&l->workspace, l->bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  return true;
}

static bool all_reduce_prepared(rank_self *r, factors *f, launch *l) {
  aclTensor *out = matrix(f->out, ROWS, COLUMNS);
  OK(aclnnMatmulAllReduceGetWorkspaceSize(f->left_tensor, f->right_tensor, NULL, f->group, "sum", 0, 1, out, &l->bytes,
                                          &l->executor));
  OK(aclDestroyTensor(out));
  return workspace_new(r, l);
}

static bool reduce_scatter_prepared(rank_self *r, factors *f, launch *l) {
  aclTensor *out = matrix(f->out, ROWS / r->n, COLUMNS);
  OK(aclnnMatmulReduceScatterGetWorkspaceSize(f->left_tensor, f->right_tensor, NULL, f->group, "sum", 0, 1, out,
                                              &l->bytes, &l->executor));
  OK(aclDestroyTensor(out));
  return workspace_new(r, l);
}

/* ---- scenarios ---- */

static bool all_reduce(rank_self *r, factors *f) {
  launch l;
  PASS(all_reduce_prepared(r, f, &l));
  OK(aclnnMatmulAllReduce(l.workspace, l.bytes, l.executor, r->stream));
  OK(aclrtSynchronizeStream(r->stream));
  PASS(buffer_has(r, TYPE, f->out, 0, ROWS * COLUMNS, summed, &f->value));
  OK(l.workspace ? aclrtFree(l.workspace) : 0);
  return true;
}

static bool reduce_scatter(rank_self *r, factors *f) {
  const value_of part = {.n = r->n, .first_row = r->rank * (ROWS / r->n)};
  launch l;
  PASS(reduce_scatter_prepared(r, f, &l));
  OK(aclnnMatmulReduceScatter(l.workspace, l.bytes, l.executor, r->stream));
  OK(aclrtSynchronizeStream(r->stream));
  PASS(buffer_has(r, TYPE, f->out, 0, ROWS / r->n * COLUMNS, summed, &part));
  OK(l.workspace ? aclrtFree(l.workspace) : 0);
  return true;
}

static bool all_gather(rank_self *r, factors *f) {
  aclTensor *out = matrix(f->out, ROWS * r->n, COLUMNS), *all = matrix(f->gathered, ROWS * r->n, DEPTH);
  launch l;
  OK(aclnnAllGatherMatmulGetWorkspaceSize(f->left_tensor, f->right_tensor, NULL, f->group, 0, 0, 1, out, all, &l.bytes,
                                          &l.executor));
  OK(aclDestroyTensor(out));
  OK(aclDestroyTensor(all));
  PASS(workspace_new(r, &l));
  OK(aclnnAllGatherMatmul(l.workspace, l.bytes, l.executor, r->stream));
  OK(aclrtSynchronizeStream(r->stream));
  PASS(buffer_has(r, TYPE, f->out, 0, ROWS * r->n * COLUMNS, gathered_product, &f->value));
  PASS(buffer_has(r, TYPE, f->gathered, 0, ROWS * r->n * DEPTH, gathered, NULL));
  OK(l.workspace ? aclrtFree(l.workspace) : 0);
  return true;
}

/* A graph that has captured the operator repeats it. */
static bool captured(rank_self *r, factors *f) {
  launch l;
  aclmdlRI model;
  PASS(all_reduce_prepared(r, f, &l));
  OK(aclrtMemset(f->out, ROWS * COLUMNS * 2, 0, ROWS * COLUMNS * 2));
  OK(aclmdlRICaptureBegin(r->stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
  OK(aclnnMatmulAllReduce(l.workspace, l.bytes, l.executor, r->stream));
  OK(aclmdlRICaptureEnd(r->stream, &model));
  for (int i = 0; i < 2; ++i) {
    OK(aclrtMemset(f->out, ROWS * COLUMNS * 2, 0, ROWS * COLUMNS * 2));
    OK(aclmdlRIExecuteAsync(model, r->stream));
    OK(aclrtSynchronizeStream(r->stream));
    PASS(buffer_has(r, TYPE, f->out, 0, ROWS * COLUMNS, summed, &f->value));
  }
  OK(aclmdlRIDestroy(model));
  OK(l.workspace ? aclrtFree(l.workspace) : 0);
  return true;
}

/* Nothing is queued by a call that is refused, so the ranks stay in step. */
static bool refused(rank_self *r, factors *f) {
  enum { NULL_ARGUMENT = 161001, ILLEGAL_ARGUMENT = 161002 };
  aclTensor *out = matrix(f->out, ROWS, COLUMNS);
  launch l;
  WANT(NULL_ARGUMENT, aclnnMatmulAllReduceGetWorkspaceSize(f->left_tensor, f->right_tensor, NULL, NULL, "sum", 0, 1,
                                                           out, &l.bytes, &l.executor));
  WANT(ILLEGAL_ARGUMENT, aclnnMatmulAllReduceGetWorkspaceSize(f->left_tensor, f->right_tensor, NULL, "no group", "sum",
                                                              0, 1, out, &l.bytes, &l.executor));
  WANT(ILLEGAL_ARGUMENT, aclnnMatmulAllReduceGetWorkspaceSize(f->left_tensor, f->left_tensor, NULL, f->group, "sum", 0,
                                                              1, out, &l.bytes, &l.executor));
  OK(aclDestroyTensor(out));
  PASS(reduce_scatter_prepared(r, f, &l));
  TRUE_THAT(l.bytes >= (uint64_t)ROWS * COLUMNS * 2);
  WANT(NULL_ARGUMENT, aclnnMatmulReduceScatter(NULL, l.bytes, l.executor, r->stream));
  WANT(ILLEGAL_ARGUMENT, aclnnMatmulReduceScatter(l.workspace, l.bytes - 1, l.executor, r->stream));
  OK(aclDestroyAclOpExecutor(l.executor));
  OK(aclrtFree(l.workspace));
  return true;
}

static bool everything(rank_self *r) {
  factors f;
  return factors_up(r, &f) && all_reduce(r, &f) && refused(r, &f) && reduce_scatter(r, &f) && all_gather(r, &f) &&
         captured(r, &f) && factors_down(r, &f);
}

SCENARIOS(everything)

/* ---- tests ---- */

static void by_threads(void **state) {
  (void)state;
  for (uint32_t n = 1; n <= 4; ++n) ranks_as_threads(n, everything);
}

static void by_processes(void **state) {
  (void)state;
  ranks_as_processes(2, everything);
  ranks_as_processes(4, everything);
}

int main(int argc, char **argv) {
  RANK_MAIN(argc, argv);
  const struct CMUnitTest tests[] = {TEST(by_threads), TEST(by_processes)};
  return cmocka_run_group_tests_name("hccl_fused", tests, acl_up, acl_down);
}
