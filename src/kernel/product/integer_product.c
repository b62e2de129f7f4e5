/* SPDX-License-Identifier: Apache-2.0 */
/* out = alpha * (A @ b) + beta * self for integers, which wrap: A is a matrix or a row, b a vector. For booleans, the
 * sum of products is the logical OR of ANDs, as in CANN. */
#include "kernel/product/integer_product.h"

#include "kernel/reduce/fold.h"

enum { BLOCK = FOLD_BLOCK };

/* Operands; strides are in bytes. */
enum { OUT, A, B, SELF, N_OPERANDS };

/* Conversion to a dtype and back, which wraps a value in that dtype. */
typedef struct {
  store_loop *to;
  load_loop *back;
} wrapping;

typedef struct {
  int64_t rows, cols, a_row, a_col, b_row, out_row, self_row;
  compute_value alpha, beta; /* f64 where in_floats, else i64 */
  load_loop *load[N_OPERANDS];
  store_loop *store;
  wrapping product, sum;
  uint16_t view[N_OPERANDS];
  bool has_self, in_floats;
} integer_plan;

static wrapping wrapping_in(int dtype) {
  return (wrapping){loops->store[dtype][COMPUTE_I64], loops->load[dtype][COMPUTE_I64]};
}

static int64_t integer_wrapped(wrapping in, uint64_t x) {
  char narrow[sizeof x];
  int64_t y;
  in.to(narrow, 0, &x, 1);
  in.back(&y, narrow, 0, 1);
  return y;
}

typedef struct {
  const integer_plan *plan;
  char *at[N_OPERANDS];
} integer_job;

/* Dot product of a row of A and the vector. */
static int64_t dot(const integer_plan *p, const char *a, const char *b) {
  int64_t x[BLOCK], y[BLOCK];
  uint64_t sum = 0;
  for (int64_t k = 0, n; k < p->cols; k += n) {
    fold_value part, none;
    n = i64_min(BLOCK, p->cols - k);
    p->load[A](x, a + k * p->a_col, p->a_col, n);
    p->load[B](y, b + k * p->b_row, p->b_row, n);
    loops->elementwise[EW_mul][COMPUTE_I64](x, (const void *const[]){x, y, NULL, NULL}, NULL, n);
    fold_row(&reduction->fold[FOLD_SUM][COMPUTE_I64], x, n, 0, &part, &none);
    sum += (uint64_t)part.i64;
  }
  return integer_wrapped(p->product, sum);
}

static void product_rows(const void *job, int64_t begin, int64_t end) {
  const integer_job *j = job;
  const integer_plan *p = j->plan;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t product = p->cols ? dot(p, j->at[A] + i * p->a_row, j->at[B]) : 0;
    compute_value self = {.i64 = 0}, sum;
    if (p->has_self) p->load[SELF](&self, j->at[SELF] + i * p->self_row, 0, 1);
    if (p->in_floats)
      sum.f64 = p->alpha.f64 * (double)product + (p->has_self ? p->beta.f64 * self.f64 : 0);
    else
      sum.i64 = integer_wrapped(p->sum, (uint64_t)p->alpha.i64 * (uint64_t)product +
                                            (uint64_t)p->beta.i64 * (uint64_t)self.i64);
    p->store(j->at[OUT] + i * p->out_row, 0, &sum, 1);
  }
}

static status integer_product_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const integer_plan *p = PLAN(e, integer_plan);
  integer_job job = {.plan = p};
  for (int k = 0; k < N_OPERANDS; ++k) job.at[k] = view[p->view[k]];
  rows_parallel(product_rows, &job, p->rows, 1, e->cost_ns);
  return ST_OK;
}

static compute_value factor(const scalar *s, bool in_floats) {
  return in_floats ? (compute_value){.f64 = s ? scalar_real(s) : 1} : (compute_value){.i64 = s ? scalar_integer(s) : 1};
}

void integer_product_plan(executor *e, integer_steps steps, const scalar *alpha, const scalar *beta) {
  const product_operator *o = PLAN(e, product_operator);
  const product_plan *of = &o->product;
  const bool in_floats = dtype_is_float(steps.sum);
  const compute_type last = in_floats ? COMPUTE_F64 : COMPUTE_I64;
  const int types[N_OPERANDS] = {of->out.dtype, of->a.dtype, of->b.dtype, of->has_self ? of->self.dtype : of->a.dtype};
  integer_plan p = {.rows = of->a.rows,
                    .cols = of->a.cols,
                    .a_row = of->a.row_stride,
                    .a_col = of->a.col_stride,
                    .b_row = of->b.row_stride,
                    .out_row = of->out.row_stride,
                    .self_row = of->self.row_stride,
                    .alpha = factor(alpha, in_floats),
                    .beta = factor(beta, in_floats),
                    .store = loops->store[of->out.dtype][last],
                    .product = wrapping_in(steps.product),
                    .view = {o->out, o->a, o->b, o->self},
                    .has_self = of->has_self && !(beta && scalar_real(beta) == 0),
                    .in_floats = in_floats};
  if (!in_floats) p.sum = wrapping_in(steps.sum);
  for (int k = 0; k < N_OPERANDS; ++k) p.load[k] = loops->load[types[k]][k == SELF ? last : COMPUTE_I64];
  const uint64_t n = (uint64_t)(p.rows * p.cols);
  executor_cost(e, n * dtype_bytes(of->a.dtype), n * 4);
  *PLAN(e, integer_plan) = p;
  e->run = integer_product_run;
}
