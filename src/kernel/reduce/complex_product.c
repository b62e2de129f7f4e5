/* SPDX-License-Identifier: Apache-2.0 */
/* Products of complex numbers over dimensions. The elements of an output, in logical order, form blocks; element i of a
 * block goes to lane i modulo FOLD_PRODUCTS; lanes are multiplied in order, and so are blocks. All is computed in
 * double, so complex64 is rounded once; strides and the number of threads change no bit. */
#include "kernel/engine/rows.h"
#include "kernel/reduce/fold.h"
#include "kernel/reduce/reduction.h"

enum { BLOCK = 512, GRAIN = 1 };

typedef struct {
  walk outputs; /* operands: the input and the output */
  reduced_dims reduced;
  uint8_t operand[1 + REDUCTION_OUTPUTS];
  load_loop *load;
  store_loop *store;
  uint8_t imaginary[2]; /* bytes from the real to the imaginary part, of the input and the output */
} complex_product;

typedef struct {
  const complex_product *plan;
  void *at[2];
} product_job;

/* Loads the real and imaginary parts of the next n elements of the walk. */
static void complex_product_gather(const complex_product *p, cursor *c, int64_t n, double *real, double *imaginary) {
  const int64_t stride = p->reduced.strides[p->reduced.rank - 1];
  for (int64_t i = 0, some; i < n; i += some, cursor_next(c, some)) {
    some = cursor_row(c, n - i);
    p->load(real + i, c->at[0], stride, some);
    p->load(imaginary + i, c->at[0] + p->imaginary[0], stride, some);
  }
}

static complex_pair product_of(const complex_product *p, void *from) {
  double real[BLOCK], imaginary[BLOCK];
  complex_pair all = {1, 0};
  cursor c;
  if (!p->reduced.n) return all;
  reduced_start(&p->reduced, &c, from, 0);
  for (int64_t i = 0, n; i < p->reduced.n; i += n) {
    n = i64_min(BLOCK, p->reduced.n - i);
    complex_product_gather(p, &c, n, real, imaginary);
    const complex_pair block = reduction->complex_product(real, imaginary, n);
    all = i ? complex_times(all, block) : block;
  }
  return all;
}

static void complex_product_chunks(const void *job, int64_t begin, int64_t end) {
  const product_job *j = job;
  const complex_product *p = j->plan;
  cursor c;
  cursor_start(&c, &p->outputs, j->at, begin);
  for (int64_t i = begin; i < end; ++i, cursor_next(&c, 1)) {
    const complex_pair r = product_of(p, c.at[0]);
    p->store(c.at[1], 0, &r.real, 1);
    p->store(c.at[1] + p->imaginary[1], 0, &r.imaginary, 1);
  }
}

static status complex_product_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const complex_product *p = PLAN(e, complex_product);
  const product_job job = {p, {view[p->operand[0]], view[p->operand[1]]}};
  rows_parallel(complex_product_chunks, &job, p->outputs.n, GRAIN, e->cost_ns);
  return ST_OK;
}

void complex_product_plan(executor *e, const reduction_request *r) {
  complex_product *p = PLAN(e, complex_product);
  const int in = r->in->dtype, out = r->out[0]->dtype;
  reduction_walks(r, &p->outputs, &p->reduced, p->operand);
  p->load = loops->load[dtype_part(in)][COMPUTE_F64];
  p->store = loops->store[dtype_part(out)][COMPUTE_F64];
  p->imaginary[0] = dtype_part_bytes(in);
  p->imaginary[1] = dtype_part_bytes(out);
  const uint64_t read = (uint64_t)(p->reduced.n * p->outputs.n);
  executor_cost(e, read * dtype_bytes(in) + (uint64_t)p->outputs.n * dtype_bytes(out), read * 32);
  e->run = complex_product_run;
}
