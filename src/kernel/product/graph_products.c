/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products that only operators called by name have: GEMM with alpha and beta in tensors, which are read when the
 * operator runs, and products of int32 matrices, which wrap. */
#include "kernel/engine/loops.h"
#include "kernel/families.h"
#include "kernel/product/integer_product.h"

/* ---- GEMM -------------------------------------------------------------------------------------------------------- */

typedef struct {
  product_operator product; /* first, as prepare_gemm fills it in */
  load_loop *load_alpha, *load_beta;
} graph_gemm_plan;

static status graph_gemm_run(const executor *e, void *const *view, void *scratch) {
  const graph_gemm_plan *g = PLAN(e, graph_gemm_plan);
  const product_operator *o = &g->product;
  product_plan p = o->product;
  (void)scratch;
  g->load_alpha(&p.alpha, view[GRAPH_GEMM_ALPHA], 0, 1);
  g->load_beta(&p.beta, view[GRAPH_GEMM_BETA], 0, 1);
  product_call call = {.plan = &p, .a = view[o->a], .b = view[o->b], .self = view[o->self], .out = view[o->out]};
  return product_run(&call, 1);
}

static status expect_number(const tensor *t, const char *name, load_loop **load) {
  char text[SHAPE_TEXT];
  TRY(op_expect_dtype(t, name, DTYPES_FLOAT));
  EXPECT(t->n == 1, "%s has shape %s, expected one element", name, shape_text(t->dims, t->rank, text));
  *load = loops->load[t->dtype][COMPUTE_F64];
  return ST_OK;
}

status prepare_graph_gemm(executor *e, const graph_gemm_args *a) {
  graph_gemm_plan *g = PLAN(e, graph_gemm_plan);
  /* Numbers other than 0 and 1, so that the plan does what any others need. */
  const gemm_args same = {.a = a->a,
                          .b = a->b,
                          .c = a->c,
                          .alpha = 2,
                          .beta = 2,
                          .trans_a = a->transpose_a,
                          .trans_b = a->transpose_b,
                          .out = a->y};
  TRY(prepare_gemm(e, &same));
  TRY(expect_number(a->alpha, "alpha", &g->load_alpha));
  TRY(expect_number(a->beta, "beta", &g->load_beta));
  g->product.out = GRAPH_GEMM_Y;
  if (a->y->n) e->run = graph_gemm_run;
  return ST_OK;
}

/* ---- int32 ------------------------------------------------------------------------------------------------------- */

typedef struct {
  const product_operator *o;
  void *const *view;
} integer_rows;

/* Computes rows [begin, end), counted over all matrices of the batch. */
static void integer_rows_run(const void *arg, int64_t begin, int64_t end) {
  const integer_rows *j = arg;
  const product_plan *p = &j->o->product;
  for (int64_t at = begin; at < end; ++at) {
    const char *a = j->view[j->o->a], *b = j->view[j->o->b];
    char *out = j->view[j->o->out];
    int64_t batch = at / p->a.rows;
    const int64_t row = at % p->a.rows;
    for (int d = p->n_batch_dims; d-- > 0; batch /= p->batch_dims[d]) {
      const int64_t i = batch % p->batch_dims[d];
      if (p->a.cols) a += i * p->a.batch_strides[d], b += i * p->b.batch_strides[d];
      out += i * p->out.batch_strides[d];
    }
    if (p->a.cols) a += row * p->a.row_stride;
    out += row * p->out.row_stride;
    for (int64_t col = 0; col < p->b.cols; ++col) {
      uint32_t sum = 0;
      for (int64_t k = 0; k < p->a.cols; ++k)
        sum += *(const uint32_t *)(const void *)(a + k * p->a.col_stride) *
               *(const uint32_t *)(const void *)(b + k * p->b.row_stride + col * p->b.col_stride);
      *(uint32_t *)(void *)(out + col * p->out.col_stride) = sum;
    }
  }
}

static status integer_matrices_run(const executor *e, void *const *view, void *scratch) {
  const product_operator *o = PLAN(e, product_operator);
  const integer_rows job = {o, view};
  int64_t n = o->product.a.rows;
  (void)scratch;
  for (int d = 0; d < o->product.n_batch_dims; ++d) n *= o->product.batch_dims[d];
  if (o->product.b.cols) rows_parallel(integer_rows_run, &job, n, 1, e->cost_ns);
  return ST_OK;
}

void integer_matrices_plan(executor *e) {
  const product_plan *p = &PLAN(e, product_operator)->product;
  uint64_t n = (uint64_t)p->a.rows * (uint64_t)p->b.cols;
  for (int d = 0; d < p->n_batch_dims; ++d) n *= (uint64_t)p->batch_dims[d];
  executor_cost(e, n * sizeof(int32_t), n * (uint64_t)p->a.cols * 16); /* some 0.5 ns each: nothing is packed */
  e->run = integer_matrices_run;
}
