/* SPDX-License-Identifier: Apache-2.0 */
/* The cost of an operator with very little to compute: both phases and the wait, on 16 elements. Prints one line per
 * operator, the slowest last; medians over batches, in ns. The goal is 300 ns for each.
 *
 *   bench_small [NAME...]      all operators, or those whose name contains one of the names */
#include <acl/acl.h>
#include <aclnn/aclnn_base.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <aclnnop/aclnn_add.h>
#include <aclnnop/aclnn_addmm.h>
#include <aclnnop/aclnn_arange.h>
#include <aclnnop/aclnn_argmax.h>
#include <aclnnop/aclnn_avgpool2d.h>
#include <aclnnop/aclnn_batch_matmul.h>
#include <aclnnop/aclnn_cast.h>
#include <aclnnop/aclnn_cat.h>
#include <aclnnop/aclnn_clamp.h>
#include <aclnnop/aclnn_constant_pad_nd.h>
#include <aclnnop/aclnn_convolution.h>
#include <aclnnop/aclnn_copy.h>
#include <aclnnop/aclnn_cumsum.h>
#include <aclnnop/aclnn_dot.h>
#include <aclnnop/aclnn_dropout_do_mask.h>
#include <aclnnop/aclnn_embedding.h>
#include <aclnnop/aclnn_exp.h>
#include <aclnnop/aclnn_fill_scalar.h>
#include <aclnnop/aclnn_flip.h>
#include <aclnnop/aclnn_gather.h>
#include <aclnnop/aclnn_gather_v2.h>
#include <aclnnop/aclnn_gelu.h>
#include <aclnnop/aclnn_group_norm.h>
#include <aclnnop/aclnn_gt_scalar.h>
#include <aclnnop/aclnn_index_copy.h>
#include <aclnnop/aclnn_index_select.h>
#include <aclnnop/aclnn_layer_norm.h>
#include <aclnnop/aclnn_linalg_vector_norm.h>
#include <aclnnop/aclnn_logsoftmax.h>
#include <aclnnop/aclnn_masked_fill_scalar.h>
#include <aclnnop/aclnn_matmul.h>
#include <aclnnop/aclnn_max.h>
#include <aclnnop/aclnn_max_pool.h>
#include <aclnnop/aclnn_mean.h>
#include <aclnnop/aclnn_mm.h>
#include <aclnnop/aclnn_mse_loss.h>
#include <aclnnop/aclnn_mul.h>
#include <aclnnop/aclnn_mv.h>
#include <aclnnop/aclnn_nll_loss.h>
#include <aclnnop/aclnn_normal.h>
#include <aclnnop/aclnn_permute.h>
#include <aclnnop/aclnn_pow.h>
#include <aclnnop/aclnn_reduce_sum.h>
#include <aclnnop/aclnn_repeat.h>
#include <aclnnop/aclnn_rms_norm.h>
#include <aclnnop/aclnn_roll.h>
#include <aclnnop/aclnn_s_where.h>
#include <aclnnop/aclnn_scatter_add.h>
#include <aclnnop/aclnn_silu.h>
#include <aclnnop/aclnn_slice.h>
#include <aclnnop/aclnn_softmax.h>
#include <aclnnop/aclnn_sort.h>
#include <aclnnop/aclnn_stack.h>
#include <aclnnop/aclnn_topk.h>
#include <aclnnop/aclnn_triu.h>
#include <aclnnop/aclnn_uniform.h>
#include <aclnnop/aclnn_upsample_nearest_2d.h>
#include <aclnnop/aclnn_var.h>

#include "measure.h"

enum { BATCH = 200, N_BATCHES = 101, GOAL_NS = 300, BUFFER_BYTES = 4096 };

static void *buffer_new(void) {
  void *p;
  CHECK(aclrtMalloc(&p, BUFFER_BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(aclrtMemset(p, BUFFER_BYTES, 0, BUFFER_BYTES));
  return p;
}

static aclTensor *tensor_new(aclDataType dtype, int rank, const int64_t *dims) {
  int64_t strides[8], n = 1;
  for (int d = rank - 1; d >= 0; n *= dims[d--]) strides[d] = n;
  aclTensor *t = aclCreateTensor(dims, (uint64_t)rank, dtype, strides, 0, ACL_FORMAT_ND, &n, 1, buffer_new());
  if (!t) exit(1);
  return t;
}
#define TENSOR(dtype, ...)                                                                                             \
  tensor_new(dtype, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__})
#define INTS(...) aclCreateIntArray((const int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

/* Operands, named by shape: v 16, m 4 x 4, h 16 half-precision floats, q 1 x 4 x 4, im 1 x 1 x 4 x 4, row 1 x 16, s
 * scalar, k integers. The suffix y marks outputs. */
static aclTensor *v, *v2, *vy, *h, *h2, *hy, *m, *m2, *my, *q, *q2, *qy, *im, *imy, *pooled, *s, *sy, *k, *ky, *k4,
    *b16, *by, *four, *foury, *row, *rowy, *stat, *staty, *kernel, *conv_y, *top, *top_k, *big_y, *pad_y, *onehot_y,
    *mask;
static aclScalar *one, *two;
static aclIntArray *dim0, *dim1, *axis4, *pair1, *pair2, *pair0, *ones2, *zeros4, *shape44;
static aclTensorList *pair_of_v;

static void make_operands(void) {
  const float values[] = {1, 2};
  v = TENSOR(ACL_FLOAT, 16), v2 = TENSOR(ACL_FLOAT, 16), vy = TENSOR(ACL_FLOAT, 16);
  h = TENSOR(ACL_FLOAT16, 16), h2 = TENSOR(ACL_FLOAT16, 16), hy = TENSOR(ACL_FLOAT16, 16);
  m = TENSOR(ACL_FLOAT, 4, 4), m2 = TENSOR(ACL_FLOAT, 4, 4), my = TENSOR(ACL_FLOAT, 4, 4);
  q = TENSOR(ACL_FLOAT, 1, 4, 4), q2 = TENSOR(ACL_FLOAT, 1, 4, 4), qy = TENSOR(ACL_FLOAT, 1, 4, 4);
  im = TENSOR(ACL_FLOAT, 1, 1, 4, 4), imy = TENSOR(ACL_FLOAT, 1, 1, 4, 4), pooled = TENSOR(ACL_FLOAT, 1, 1, 2, 2);
  s = tensor_new(ACL_FLOAT, 0, NULL), sy = tensor_new(ACL_FLOAT, 0, NULL);
  k = TENSOR(ACL_INT64, 16), ky = TENSOR(ACL_INT64, 4), k4 = TENSOR(ACL_INT64, 4, 4);
  b16 = TENSOR(ACL_BOOL, 16), by = TENSOR(ACL_BOOL, 16);
  four = TENSOR(ACL_FLOAT, 4), foury = TENSOR(ACL_FLOAT, 4), row = TENSOR(ACL_FLOAT, 1, 16),
  rowy = TENSOR(ACL_FLOAT, 1, 16);
  stat = TENSOR(ACL_FLOAT, 1, 1), staty = TENSOR(ACL_FLOAT, 1, 1), kernel = TENSOR(ACL_FLOAT, 1, 1, 3, 3);
  conv_y = TENSOR(ACL_FLOAT, 1, 1, 2, 2), top = TENSOR(ACL_FLOAT, 4), top_k = TENSOR(ACL_INT64, 4);
  big_y = TENSOR(ACL_FLOAT, 2, 16), pad_y = TENSOR(ACL_FLOAT, 18), onehot_y = TENSOR(ACL_INT64, 16, 4);
  mask = TENSOR(ACL_UINT8, 16);
  one = aclCreateScalar((void *)&values[0], ACL_FLOAT), two = aclCreateScalar((void *)&values[1], ACL_FLOAT);
  dim0 = INTS(0), dim1 = INTS(1), axis4 = INTS(4), pair1 = INTS(1, 1), pair2 = INTS(2, 2), pair0 = INTS(0, 0);
  ones2 = INTS(1, 1), zeros4 = INTS(0, 0, 0, 0), shape44 = INTS(4, 4);
  aclTensor *list[] = {v, v2};
  pair_of_v = aclCreateTensorList((const aclTensor *const *)list, 2);
}

#define OPERATORS(X)                                                                                                   \
  X(Add, v, v2, one, vy)                                                                                               \
  X(Mul, h, h2, hy)                                                                                                    \
  X(Exp, v, vy)                                                                                                        \
  X(Gelu, v, vy)                                                                                                       \
  X(Silu, h, hy)                                                                                                       \
  X(PowTensorScalar, v, two, vy)                                                                                       \
  X(GtScalar, v, one, by)                                                                                              \
  X(SWhere, b16, v, v2, vy)                                                                                            \
  X(Clamp, v, one, two, vy)                                                                                            \
  X(InplaceMaskedFillScalar, v, b16, one)                                                                              \
  X(Cast, v, ACL_FLOAT16, hy)                                                                                          \
  X(InplaceCopy, vy, v)                                                                                                \
  X(InplaceFillScalar, vy, one)                                                                                        \
  X(Arange, one, two, one, vy1)                                                                                        \
  X(Permute, m, transpose, my)                                                                                         \
  X(Cat, pair_of_v, 0, cat_y)                                                                                          \
  X(Stack, pair_of_v, 0, big_y)                                                                                        \
  X(Slice, v, 0, 0, 4, 1, foury)                                                                                       \
  X(ConstantPadNd, v, pair1, one, pad_y)                                                                               \
  X(Repeat, v, repeats, big_y)                                                                                         \
  X(Flip, v, dim0, vy)                                                                                                 \
  X(Roll, v, dim1, dim0, vy)                                                                                           \
  X(Triu, m, 0, my)                                                                                                    \
  X(Gather, m, 0, k4, my)                                                                                              \
  X(GatherV2, m, 0, ky, my)                                                                                            \
  X(IndexSelect, m, 0, ky, my)                                                                                         \
  X(InplaceIndexCopy, m, 0, ky, m2)                                                                                    \
  X(ScatterAdd, m, 0, k4, m2, my)                                                                                      \
  X(Embedding, m, ky, my)                                                                                              \
  X(ReduceSum, v, dim0, false, ACL_FLOAT, sy)                                                                          \
  X(Mean, m, dim1, false, ACL_FLOAT, foury)                                                                            \
  X(Max, v, sy)                                                                                                        \
  X(ArgMax, m, 1, false, ky)                                                                                           \
  X(Var, m, dim1, true, false, foury)                                                                                  \
  X(LinalgVectorNorm, v, two, dim0, false, ACL_FLOAT, sy)                                                              \
  X(Cumsum, v, 0, ACL_FLOAT, vy)                                                                                       \
  X(Sort, v, false, 0, false, vy, k)                                                                                   \
  X(Topk, v, 4, 0, true, true, top, top_k)                                                                             \
  X(Softmax, v, 0, vy)                                                                                                 \
  X(LogSoftmax, v, 0, vy)                                                                                              \
  X(LayerNorm, m, axis4, NULL, NULL, 1e-5, my, NULL, NULL)                                                             \
  X(RmsNorm, m, four, 1e-5, my, four_stat)                                                                             \
  X(GroupNorm, im, NULL, NULL, 1, 1, 16, 1, 1e-5, imy, stat, staty)                                                    \
  X(Mm, m, m2, my, 0)                                                                                                  \
  X(Matmul, m, m2, my, 0)                                                                                              \
  X(BatchMatMul, q, q2, qy, 0)                                                                                         \
  X(Mv, m, four, foury, 0)                                                                                             \
  X(Dot, v, v2, sy)                                                                                                    \
  X(Addmm, m, m, m2, one, one, my, 0)                                                                                  \
  X(Convolution, im, kernel, NULL, ones2, pair0, ones2, false, pair0, 1, conv_y, 0)                                    \
  X(AvgPool2d, im, pair2, pair2, pair0, false, true, 0, 0, pooled)                                                     \
  X(MaxPool, im, pair2, pair2, 0, zeros4, ones2, 0, pooled)                                                            \
  X(UpsampleNearest2d, pooled, shape44, imy)                                                                           \
  X(MseLoss, v, v2, 1, sy)                                                                                             \
  X(NLLLoss, m, ky, four, 1, -100, sy, total)                                                                          \
  X(DropoutDoMask, v, mask, 0.5, vy)                                                                                   \
  X(InplaceNormal, vy, 0, 1, 1, 0)                                                                                     \
  X(InplaceUniform, vy, 0, 1, 1, 0)

/* Further operands, each for a single operator. */
static aclTensor *vy1, *cat_y, *total, *four_stat;
static aclIntArray *transpose, *repeats;

static void make_more(void) {
  vy1 = TENSOR(ACL_FLOAT, 1), cat_y = TENSOR(ACL_FLOAT, 32), total = tensor_new(ACL_FLOAT, 0, NULL);
  four_stat = TENSOR(ACL_FLOAT, 4, 1), transpose = INTS(1, 0), repeats = INTS(2, 1);
}

#define PREPARE(name, ...)                                                                                             \
  static aclnnStatus prepare_##name(uint64_t *bytes, aclOpExecutor **executor) {                                       \
    return aclnn##name##GetWorkspaceSize(__VA_ARGS__, bytes, executor);                                                \
  }
OPERATORS(PREPARE)

#define ROW(name, ...) {#name, prepare_##name, aclnn##name, 0},
static struct operator_row {
  const char *name;
  aclnnStatus (*prepare)(uint64_t *bytes, aclOpExecutor **executor);
  aclnnStatus (*launch)(void *workspace, uint64_t bytes, aclOpExecutor *executor, aclrtStream stream);
  double ns;
} operators[] = {OPERATORS(ROW)};
enum { N_OPERATORS = sizeof operators / sizeof *operators };

static int by_ns(const void *a, const void *b) {
  return compare_doubles(&((const struct operator_row *)a)->ns, &((const struct operator_row *)b)->ns);
}

static double measure(const struct operator_row *o, aclrtStream stream) {
  uint64_t bytes;
  aclOpExecutor *executor;
  void *workspace = NULL;
  double batch[N_BATCHES];
  CHECK(o->prepare(&bytes, &executor));
  if (bytes) CHECK(aclrtMalloc(&workspace, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(o->launch(workspace, bytes, executor, stream));
  CHECK(aclrtSynchronizeStream(stream));
  for (int i = 0; i < N_BATCHES; ++i) {
    const double begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    for (int j = 0; j < BATCH; ++j) {
      CHECK(o->prepare(&bytes, &executor));
      CHECK(o->launch(workspace, bytes, executor, stream));
      CHECK(aclrtSynchronizeStream(stream));
    }
    batch[i] = (clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin) / BATCH;
  }
  if (workspace) CHECK(aclrtFree(workspace));
  return median(batch, N_BATCHES);
}

static int is_wanted(const char *name, int argc, char **argv) {
  for (int i = 1; i < argc; ++i)
    if (strstr(name, argv[i])) return 1;
  return argc == 1;
}

int main(int argc, char **argv) {
  aclrtStream stream;
  CHECK(aclInit(NULL));
  CHECK(aclrtSetDevice(0));
  CHECK(aclrtCreateStream(&stream));
  make_operands();
  make_more();
  for (int i = 0; i < N_OPERATORS; ++i)
    if (is_wanted(operators[i].name, argc, argv)) operators[i].ns = measure(&operators[i], stream);
  qsort(operators, N_OPERATORS, sizeof *operators, by_ns);
  int n = 0, above = 0;
  for (int i = 0; i < N_OPERATORS; ++i) {
    if (operators[i].ns == 0) continue;
    ++n;
    above += operators[i].ns > GOAL_NS;
    printf("%-24s %6.0f ns%s\n", operators[i].name, operators[i].ns,
           operators[i].ns > GOAL_NS ? "  above the goal" : "");
  }
  printf("%d of %d operators above %d ns\n", above, n, GOAL_NS);
  return 0;
}
