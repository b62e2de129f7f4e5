/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that are one GEMM, distribution of a GEMM's blocks over threads, and the final step from sums to out. */
#include "kernel/product/product.h"

#include <math.h>

#include "runtime/parallel.h"

/* ---- an operator that is one GEMM -------------------------------------------------------------------------------- */

static uint64_t matrix_bytes(const matrices *x) {
  return (uint64_t)x->rows * (uint64_t)x->cols * dtype_bytes(x->dtype);
}

static uint64_t touched_bytes(const product_plan *p) {
  uint64_t bytes = matrix_bytes(&p->a) + matrix_bytes(&p->b) + matrix_bytes(&p->out);
  if (p->has_self) bytes += matrix_bytes(&p->self);
  if (p->has_residual) bytes += matrix_bytes(&p->residual);
  return bytes * (uint64_t)p->n_batches;
}

static status run_product(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const product_operator *o = PLAN(e, product_operator);
  product_call call = {
      .plan = &o->product, .a = view[o->a], .b = view[o->b], .out = view[o->out], .packed_b = e->packed};
  if (o->product.has_self) call.self = view[o->self];
  if (o->product.has_residual) call.residual = view[o->residual];
  return product_run(&call, 1);
}

static status product_run_nothing(const executor *e, void *const *view, void *scratch) {
  (void)e, (void)view, (void)scratch;
  return ST_OK;
}

static inline void costs_of(executor *e, product_plan *p) {
  if (p->n_batches == 0) {
    executor_cost(e, 0, 0);
    return;
  }
  /* executor_cost assumes 32 operations per nanosecond, so the GEMM's own estimate in ns is multiplied by 32. */
  executor_cost(e, touched_bytes(p), p->cost_ns * 32);
  p->cost_ns = e->cost_ns;
  executor_products(e, (double)p->out.rows * (double)p->out.cols * (double)p->a.cols * (double)p->n_batches *
                           (double)(p->n_terms ? p->n_terms : 1));
}

void product_costs(executor *e, product_plan *p) { costs_of(e, p); }

static void pack_operand(const executor *e, const void *from, void *packed) {
  product_pack(&PLAN(e, product_operator)->product, from, packed, &e->packing);
}

/* Offers to pack a constant B. */
static void offer_packing(executor *e) {
  const product_operator *o = PLAN(e, product_operator);
  e->packing = (executor_packing){.bytes = product_packed_bytes(&o->product),
                                  .layout = product_packed_layout(&o->product),
                                  .pack = pack_operand,
                                  .operand = o->b,
                                  .replaces = !product_reads_b(&o->product)};
}

void product_plan_finish(executor *e) {
  product_operator *o = PLAN(e, product_operator);
  product_plan *p = &o->product;
  p->constant_b = e->constants >> e->operands[o->b].argument & 1;
  product_choose(p, e);
  if (unlikely(p->constant_b)) offer_packing(e);
  costs_of(e, p);
  e->run = p->n_batches ? run_product : product_run_nothing;
}

/* ---- execution --------------------------------------------------------------------------------------------------- */

/* All calls as independent blocks: each matrix product is cut into row_parts x col_parts. The parts of a call begin at
 * its first_part. */
typedef struct {
  const product_call *calls;
  int64_t n_calls;
  status result;
} product_job;

static int64_t call_parts(const product_call *c) { return c->plan->n_batches * c->row_parts * c->col_parts; }

static void product_share(int64_t total, int64_t grain, int64_t t, int64_t n, int64_t *begin, int64_t *count) {
  int64_t end;
  parallel_share(total, grain, t, n, begin, &end);
  *count = end - *begin;
}

static void part_of(const product_call *call, int64_t at, product_part *part) {
  enum { ROW_GRAIN = 32, COL_GRAIN = 64 };
  const product_plan *p = call->plan;
  const int64_t per_product = (int64_t)call->row_parts * call->col_parts, cut = at % per_product;
  *part = (product_part){.call = call, .plan = p, .out = call->out};
  /* the factors have no address if K is 0 */
  if (p->a.cols > 0) {
    part->a = p->swapped ? call->b : call->a;
    part->b = p->swapped ? call->a : call->b;
  }
  if (p->has_self) part->self = call->self;
  if (p->has_residual) part->residual = call->residual;
  int64_t batch = part->batch = at / per_product;
  for (int d = p->n_batch_dims - 1; d >= 0; --d) {
    const int64_t i = batch % p->batch_dims[d];
    batch /= p->batch_dims[d];
    if (part->a) part->a += i * p->a.batch_strides[d], part->b += i * p->b.batch_strides[d];
    if (part->self) part->self += i * p->self.batch_strides[d];
    if (part->residual) part->residual += i * p->residual.batch_strides[d];
    part->out += i * p->out.batch_strides[d];
  }
  product_share(p->out.rows, ROW_GRAIN, cut / call->col_parts, call->row_parts, &part->row, &part->rows);
  product_share(p->out.cols, COL_GRAIN, cut % call->col_parts, call->col_parts, &part->col, &part->cols);
}

/* The call that part `at` belongs to: the last one that begins at or before it. */
static int64_t call_of(const product_job *job, int64_t at) {
  int64_t begin = 0, end = job->n_calls;
  while (end - begin > 1) {
    const int64_t middle = begin + (end - begin) / 2;
    if (job->calls[middle].first_part <= at)
      begin = middle;
    else
      end = middle;
  }
  return begin;
}

/* Computes blocks [begin, end). Stops early when a block has failed, on this or another thread, since the result will
 * be discarded. */
static void product_run_parts(const void *of, int64_t begin, int64_t end) {
  product_job *job = (product_job *)of;
  const product_call *call = &job->calls[call_of(job, begin)];
  for (int64_t at = begin; at < end && __atomic_load_n(&job->result, __ATOMIC_RELAXED) == ST_OK; ++at) {
    while (at - call->first_part >= call_parts(call)) ++call;
    product_part part;
    part_of(call, at - call->first_part, &part);
    const status st = part.rows > 0 && part.cols > 0 ? call->plan->chosen->run(call->plan, &part, NULL) : ST_OK;
    if (unlikely(st != ST_OK)) __atomic_store_n(&job->result, st, __ATOMIC_RELAXED);
  }
}

/* Cuts each matrix product for n threads such that the number of rows of A and columns of B that a thread reads is
 * minimal. */
static void cut_product(product_call *call, int n_threads) {
  const product_plan *p = call->plan;
  double least = 0;
  for (int rows = 1; rows <= n_threads; ++rows) {
    if (n_threads % rows || (p->whole_rows && rows > 1)) continue;
    const double read = (double)p->out.rows / rows + (double)p->out.cols * rows / n_threads;
    if (least == 0 || read < least) least = read, call->row_parts = rows, call->col_parts = n_threads / rows;
  }
}

/* Over how many threads a call is spread: all for a single one; among several, twice what its share of the cost asks
 * for. With once that, three equal calls would take two threads 4/3 of the time. */
static int threads_of(const product_call *call, int64_t n_calls, double cost_ns, int n_threads) {
  if (n_calls == 1) return n_threads;
  const double share = ceil((double)call->plan->cost_ns / cost_ns * 2 * n_threads);
  return share < 1 ? 1 : share > n_threads ? n_threads : (int)share;
}

status product_run(product_call *calls, int64_t n) {
  product_job job = {.calls = calls, .n_calls = n, .result = ST_OK};
  uint64_t cost_ns = 0; /* at most 2^55 for each of what memory holds */
  for (int64_t i = 0; i < n; ++i)
    if (__builtin_add_overflow(cost_ns, calls[i].plan->cost_ns, &cost_ns)) cost_ns = UINT64_MAX;
  const parallel_team team = parallel_begin(cost_ns);
  int64_t n_parts = 0;
  for (int64_t i = 0; i < n; ++i) {
    product_call *const c = &calls[i];
    c->first_part = n_parts;
    c->row_parts = c->col_parts = 1;
    const int n_threads = team.n_threads > 1 ? threads_of(c, n, (double)cost_ns, team.n_threads) : 1;
    /* a large batch divides well enough by itself */
    if (n_threads > 1 && c->plan->n_batches < 8 * n_threads) cut_product(c, n_threads);
    n_parts += call_parts(c);
  }
  if (likely(team.n_threads == 1))
    product_run_parts(&job, 0, n_parts);
  else
    parallel_ranges(&team, product_run_parts, &job, n_parts, 1);
  parallel_end(&team);
  return job.result;
}

/* ---- from sums to out -------------------------------------------------------------------------------------------- */

enum { FINISH_CHUNK = 512 };

static compute_value product_value(compute_type compute, double x) {
  return compute == COMPUTE_F64 ? (compute_value){.f64 = x} : (compute_value){.f32 = (float)x};
}

/* Whether rows of `cols` columns are adjacent in memory. */
static bool rows_touch(const matrices *x, int64_t cols) {
  const int64_t size = (int64_t)dtype_bytes(x->dtype);
  return x->col_stride == size && x->row_stride == cols * size;
}

/* x += factor * m[i, j..] for n <= FINISH_CHUNK elements. */
static void add_matrix(compute_type compute, char *x, const matrices *m, const char *at, int64_t i, int64_t j,
                       double factor, int64_t n) {
  _Alignas(64) char more[FINISH_CHUNK * sizeof(double)];
  const compute_value by = product_value(compute, factor);
  loops->load[m->dtype][compute](more, at + i * m->row_stride + j * m->col_stride, m->col_stride, n);
  loops->elementwise[EW_add][compute](x, (const void *const[]){x, more, x}, &by, n);
}

/* Turns n sums for out[i, j..] into values of out. */
static void finish_run(const product_part *part, compute_type compute, char *x, int64_t i, int64_t j, int64_t n) {
  const product_plan *p = part->plan;
  const compute_value alpha = product_value(compute, p->alpha);
  if (p->alpha != 1) loops->elementwise[EW_muls][compute](x, (const void *const[]){x, x, x}, &alpha, n);
  if (p->has_self) add_matrix(compute, x, &p->self, part->self, i, j, p->beta, n);
  if (p->has_residual && p->residual_first) add_matrix(compute, x, &p->residual, part->residual, i, j, 1, n);
  activation_run(&p->activation, compute, x, n);
  if (p->has_residual && !p->residual_first) add_matrix(compute, x, &p->residual, part->residual, i, j, 1, n);
}

void product_finish(const product_part *part, int64_t row, int64_t rows, int64_t col, int64_t cols, char *sums,
                    int64_t ld) {
  const product_plan *p = part->plan;
  if (p->finish) {
    p->finish(part, row, rows, col, cols, sums, ld);
    return;
  }
  const compute_type compute = p->type == TILE_F64 ? COMPUTE_F64 : COMPUTE_F32;
  const int64_t size = (int64_t)tile_c_bytes(p->type);
  store_loop *const store = loops->store[p->out.dtype][compute];
  const int64_t most = p->has_self || p->has_residual ? FINISH_CHUNK : INT64_MAX;
  const bool in_a_run = ld == cols && rows_touch(&p->out, cols) && (!p->has_self || rows_touch(&p->self, cols)) &&
                        (!p->has_residual || rows_touch(&p->residual, cols));
  const int64_t runs = in_a_run ? 1 : rows, run = in_a_run ? rows * cols : cols;
  for (int64_t i = row; i < row + runs; ++i, sums += ld * size)
    for (int64_t j = col, n; j < col + run; j += n) {
      n = i64_min(most, col + run - j);
      char *const x = sums + (j - col) * size;
      finish_run(part, compute, x, i, j, n);
      store(part->out + i * p->out.row_stride + j * p->out.col_stride, p->out.col_stride, x, n);
    }
}
