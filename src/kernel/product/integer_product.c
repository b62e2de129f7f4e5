/* out = alpha * (A @ b) + beta * self of integers, which wrap: a matrix or a row A, a vector b. The product of truth values
 * is whether some are true together, as CANN has it. */
#include "kernel/product/integer_product.h"

#include "kernel/reduce/fold.h"

enum { BLOCK = FOLD_BLOCK };

/* Strides in bytes; operand 0: out, then A, b and self. */
enum { OUT, A, B, SELF, N_OPERANDS };

typedef struct {
  int64_t rows, cols, a_row, a_col, b_row, out_row, self_row;
  int64_t alpha, beta;
  load_loop *load[N_OPERANDS];
  store_loop *store;
  store_loop *wrap; /* in the type of the result, which out's may be wider than */
  load_loop *unwrap;
  uint8_t view[N_OPERANDS];
  bool has_self, of_truth;
} integer_plan;

typedef struct {
  const integer_plan *plan;
  char *at[N_OPERANDS];
} integer_job;

/* The sum of products of a row and the vector. */
static uint64_t dot(const integer_plan *p, const char *a, const char *b) {
  int64_t x[BLOCK], y[BLOCK];
  uint64_t sum = 0;
  for (int64_t k = 0, n; k < p->cols; k += n) {
    fold_value part, none;
    n = smaller(BLOCK, p->cols - k);
    p->load[A](x, a + k * p->a_col, p->a_col, n);
    p->load[B](y, b + k * p->b_row, p->b_row, n);
    loops->elementwise[EW_mul][COMPUTE_I64](x, (const void *const[]){x, y, NULL, NULL}, NULL, n);
    fold_row(&reduction->fold[FOLD_SUM][COMPUTE_I64], x, n, 0, &part, &none);
    sum += (uint64_t)part.i64;
  }
  return p->of_truth ? sum != 0 : sum;
}

static void product_rows(const void *job, int64_t begin, int64_t end) {
  const integer_job *j = job;
  const integer_plan *p = j->plan;
  for (int64_t i = begin; i < end; ++i) {
    uint64_t sum = p->cols ? (uint64_t)p->alpha * dot(p, j->at[A] + i * p->a_row, j->at[B]) : 0;
    int64_t self, wrapped;
    if (p->has_self) {
      p->load[SELF](&self, j->at[SELF] + i * p->self_row, 0, 1);
      sum += (uint64_t)p->beta * (uint64_t)self;
    }
    p->wrap(&wrapped, 0, &sum, 1);
    p->unwrap(&self, (const char *)&wrapped, 0, 1);
    p->store(j->at[OUT] + i * p->out_row, 0, &self, 1);
  }
}

static status run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const integer_plan *p = PLAN(e, integer_plan);
  integer_job job = {.plan = p};
  for (int k = 0; k < N_OPERANDS; ++k) job.at[k] = view[p->view[k]];
  rows_parallel(product_rows, &job, p->rows, 1, e->cost_ns);
  return ST_OK;
}

void integer_product_plan(executor *e, const product_plan *of, int dtype, int64_t alpha, int64_t beta) {
  const int types[N_OPERANDS] = {of->out.dtype, of->a.dtype, of->b.dtype, of->has_self ? of->self.dtype : of->a.dtype};
  integer_plan p = {.rows = of->a.rows,
                    .cols = of->a.cols,
                    .a_row = of->a.row_stride,
                    .a_col = of->a.col_stride,
                    .b_row = of->b.row_stride,
                    .out_row = of->out.row_stride,
                    .self_row = of->self.row_stride,
                    .alpha = alpha,
                    .beta = beta,
                    .store = loops->store[of->out.dtype][COMPUTE_I64],
                    .wrap = loops->store[dtype][COMPUTE_I64],
                    .unwrap = loops->load[dtype][COMPUTE_I64],
                    .view = {of->view_out, of->view_a, of->view_b, of->view_self},
                    .has_self = of->has_self,
                    .of_truth = of->a.dtype == ACL_BOOL && of->b.dtype == ACL_BOOL};
  for (int k = 0; k < N_OPERANDS; ++k) p.load[k] = loops->load[types[k]][COMPUTE_I64];
  const uint64_t n = (uint64_t)(p.rows * p.cols);
  executor_cost(e, n * dtype_bytes(of->a.dtype), n * 4);
  *PLAN(e, integer_plan) = p;
  e->run = run;
}
