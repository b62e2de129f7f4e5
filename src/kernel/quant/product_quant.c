/* SPDX-License-Identifier: Apache-2.0 */
/* BatchMatmulQuant: out = quantised x1 @ x2 + bias, for matrices of float16. Sums and bias are floats, multiplied by
 * the scale of the words of quant_param.h, plus their offset, rounded and saturated. */
#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/product/factor/factors.h"
#include "kernel/quant/quant_param.h"
#include "kernel/quant/row.h"

enum { PAD_COLUMNS = 16 };

typedef struct {
  product_plan product;           /* to floats in the workspace */
  int64_t m, n;                   /* of out, whatever the product exchanges */
  int64_t word_step;              /* in bytes; 0: one word for all columns */
  int64_t row_stride, col_stride; /* of out */
  uint64_t sums, scales, zeros;   /* in scratch */
} product_quant_plan;

typedef struct {
  const product_quant_plan *plan;
  float *sums, *scales, *zeros;
  char *out;
} product_quant_job;

static void product_quant_rows(const void *arg, int64_t begin, int64_t end) {
  const product_quant_job *j = arg;
  const product_quant_plan *p = j->plan;
  const int64_t n = p->n;
  for (int64_t i = begin; i < end; ++i) {
    float *const row = j->sums + i * n;
    quant_row(row, row, j->scales, j->zeros, false, n);
    loops->store[ACL_INT8][COMPUTE_F32](j->out + i * p->row_stride, p->col_stride, row, n);
  }
}

static status product_quant_run(const executor *e, void *const *view, void *scratch) {
  const product_quant_plan *p = PLAN(e, product_quant_plan);
  const int64_t n = p->n;
  char *const at = scratch;
  const product_quant_job job = {.plan = p,
                                 .sums = (float *)(void *)(at + p->sums),
                                 .scales = (float *)(void *)(at + p->scales),
                                 .zeros = (float *)(void *)(at + p->zeros),
                                 .out = view[PRODUCT_QUANT_OUT]};
  product_call call = {.plan = &p->product,
                       .a = view[PRODUCT_QUANT_X1],
                       .b = view[PRODUCT_QUANT_X2],
                       .self = view[PRODUCT_QUANT_BIAS],
                       .out = job.sums};
  TRY(product_run(&call, 1));
  for (int64_t i = 0; i < n; ++i) {
    const char *const from = view[PRODUCT_QUANT_QUANT_PARAM];
    const uint64_t word = *(const uint64_t *)(const void *)(from + i * p->word_step);
    job.scales[i] = quant_param_scale(word);
    job.zeros[i] = (float)quant_param_offset(word);
  }
  rows_parallel(product_quant_rows, &job, p->m, 1, (uint64_t)(p->m * n) / 4);
  return ST_OK;
}

/* Checks a factor; *x: the same, with its dimensions exchanged if it is transposed. */
static status product_quant_factor(const tensor *t, const char *name, bool transposed, tensor *x) {
  TRY(op_expect_dtype(t, name, DTYPE_BIT(ACL_FLOAT16)));
  TRY(op_expect_rank(t, name, 2, 2));
  EXPECT(t->n, "%s has shape %s, expected elements", name, SHAPE_OF(t));
  *x = *t;
  for (int d = 0; transposed && d < 2; ++d) {
    x->dims[d] = t->dims[1 - d];
    x->strides[d] = t->strides[1 - d];
  }
  return ST_OK;
}

status prepare_product_quant(executor *e, const product_quant_args *a) {
  const tensor *words = a->quant_param, *bias = a->bias;
  product_quant_plan *p = PLAN(e, product_quant_plan);
  product_plan *product = &p->product;
  tensor x[2];
  TRY(product_quant_factor(a->x1, "x1", a->transpose_x1, &x[0]));
  TRY(product_quant_factor(a->x2, "x2", a->transpose_x2, &x[1]));
  if (x[0].dims[1] != x[1].dims[0])
    return factors_fail(e, 0, &x[0], &x[1], "as many columns of the first as rows of the second, after transposition");
  const int64_t m = x[0].dims[0], n = x[1].dims[1], padded = (n + PAD_COLUMNS - 1) / PAD_COLUMNS * PAD_COLUMNS;
  TRY(op_expect_dtype(words, "quantParam", DTYPE_BIT(ACL_UINT64) | DTYPE_BIT(ACL_INT64)));
  EXPECT(words->rank == 1 && (words->n == 1 || words->n == n || words->n == padded),
         "quantParam has shape %s, expected [1], [%jd] or [%jd]", SHAPE_OF(words), (intmax_t)n, (intmax_t)padded);
  TRY(op_expect_dtype(a->out, "out", DTYPE_BIT(ACL_INT8)));
  TRY(op_expect_shape(a->out, "out", (const int64_t[]){m, n}, 2));
  const view out = view_of(a->out);
  *p = (product_quant_plan){.product = {.alpha = 1},
                            .m = m,
                            .n = n,
                            .word_step = words->n == 1 ? 0 : view_of(words).strides[0],
                            .row_stride = out.strides[0],
                            .col_stride = out.strides[1]};
  matrices_init(&product->a, &x[0], true, 0);
  matrices_init(&product->b, &x[1], false, 0);
  product->out = (matrices){
      .dtype = ACL_FLOAT, .rows = m, .cols = n, .row_stride = n * (int64_t)sizeof(float), .col_stride = sizeof(float)};
  if (bias) {
    TRY(op_expect_dtype(bias, "bias", DTYPE_BIT(ACL_FLOAT16)));
    TRY(op_expect_shape(bias, "bias", &n, 1));
    product->has_self = true;
    product->beta = 1;
    product->self = (matrices){.dtype = bias->dtype, .rows = m, .cols = n, .col_stride = view_of(bias).strides[0]};
  }
  p->sums = workspace_intermediate(e, (uint64_t)(m * n) * sizeof(float));
  p->scales = workspace_intermediate(e, (uint64_t)n * sizeof(float));
  p->zeros = workspace_intermediate(e, (uint64_t)n * sizeof(float));
  product_choose(product, e);
  product_costs(e, product);
  e->run = product_quant_run;
  return ST_OK;
}
