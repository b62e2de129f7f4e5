/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/engine/mapped_sum.h"

#include "kernel/engine/rows.h"

enum { CHUNK = 64 * REDUCE_BLOCK };

static const struct {
  int dtype;
  uint8_t size;
} native[N_COMPUTE] = {[COMPUTE_F32] = {ACL_FLOAT, 4}, [COMPUTE_F64] = {ACL_DOUBLE, 8}, [COMPUTE_I64] = {ACL_INT64, 8}};

compute_type mapped_sum_compute(int dtype, int out) {
  return dtype_class_of(dtype) == CLASS_FLOAT && out == ACL_DOUBLE ? COMPUTE_F64 : compute_type_of(dtype);
}

void mapped_sum_init(mapped_sum *p, int function, compute_type compute, const int64_t *dims, int rank,
                     const view *const *in, int n_inputs) {
  view views[MAPPED_INPUTS];
  const view *operands[MAPPED_INPUTS];
  for (int k = 0; k < n_inputs; ++k) {
    views[k] = view_broadcast(in[k], dims, rank);
    operands[k] = &views[k];
  }
  walk_init(&p->at, operands, n_inputs, rank);
  p->function = (int16_t)function;
  p->compute = (uint8_t)compute;
  p->size = native[compute].size;
  p->n_inputs = (uint8_t)n_inputs;
  for (int k = 0; k < n_inputs; ++k) {
    p->load[k] = loops->load[in[k]->dtype][compute];
    p->direct[k] = in[k]->dtype == native[compute].dtype && p->at.strides[k][p->at.rank - 1] == p->size;
  }
  const int64_t blocks = (p->at.n + REDUCE_BLOCK - 1) / REDUCE_BLOCK;
  const int64_t per_chunk = (blocks + MAPPED_CHUNKS - 1) / MAPPED_CHUNKS * REDUCE_BLOCK;
  p->chunk = per_chunk > CHUNK ? per_chunk : CHUNK;
}

typedef struct {
  _Alignas(64) char operand[MAPPED_INPUTS][REDUCE_BLOCK * sizeof(double)];
  char value[REDUCE_BLOCK * sizeof(double)];
} tiles;

/* Loads the next n elements of all operands and advances the cursor; in[k] points to the operand itself where it can be
 * read directly, else to its tile. */
static void mapped_sum_fetch(const mapped_sum *p, cursor *c, int64_t n, tiles *t, const void **in) {
  const int last = p->at.rank - 1;
  for (int64_t done = 0, run; done < n; done += run, cursor_next(c, run)) {
    run = cursor_row(c, n - done);
    for (int k = 0; k < p->n_inputs; ++k) {
      const bool direct = p->direct[k] && run == n;
      in[k] = direct ? c->at[k] : t->operand[k];
      if (!direct) p->load[k](t->operand[k] + done * p->size, c->at[k], p->at.strides[k][last], run);
    }
  }
}

/* The sum of n values: the member f64 for float types, else i64. */
static compute_value block_sum(const mapped_sum *p, const void *x, int64_t n) {
  switch (p->compute) {
  case COMPUTE_F32: return (compute_value){.f64 = loops->sum_f32(x, n)};
  case COMPUTE_F64: return (compute_value){.f64 = loops->sum_f64(x, n)};
  default: return (compute_value){.i64 = loops->sum_i64(x, n)};
  }
}

static void mapped_sum_add(const mapped_sum *p, compute_value *sum, compute_value x) {
  if (p->compute == COMPUTE_I64)
    sum->i64 = (int64_t)((uint64_t)sum->i64 + (uint64_t)x.i64);
  else
    sum->f64 += x.f64;
}

static compute_value mapped_sum_range(const mapped_sum *p, void *const *at, int64_t begin, int64_t end) {
  elementwise_loop *const map = loops->elementwise[p->function][p->compute];
  const void *in[ELEMENTWISE_INPUTS] = {0};
  tiles t;
  compute_value sum = {.i64 = 0};
  cursor c;
  cursor_start(&c, &p->at, at, begin);
  for (int64_t i = begin, n; i < end; i += n) {
    n = i64_min(REDUCE_BLOCK, end - i);
    mapped_sum_fetch(p, &c, n, &t, in);
    map(t.value, in, p->parameter, n);
    mapped_sum_add(p, &sum, block_sum(p, t.value, n));
  }
  return sum;
}

typedef struct {
  const mapped_sum *plan;
  void *const *at;
  compute_value *partial;
} sum_job;

static void mapped_sum_chunks(const void *job, int64_t begin, int64_t end) {
  const sum_job *j = job;
  const mapped_sum *p = j->plan;
  for (int64_t k = begin; k < end; ++k)
    j->partial[k] = mapped_sum_range(p, j->at, k * p->chunk, i64_min((k + 1) * p->chunk, p->at.n));
}

static compute_value sum_all(const mapped_sum *p, void *const *at, uint64_t cost_ns) {
  compute_value partial[MAPPED_CHUNKS], sum = {.i64 = 0};
  const sum_job job = {.plan = p, .at = at, .partial = partial};
  const int64_t n_chunks = (p->at.n + p->chunk - 1) / p->chunk;
  rows_parallel(mapped_sum_chunks, &job, n_chunks, 1, cost_ns);
  for (int64_t k = 0; k < n_chunks; ++k) mapped_sum_add(p, &sum, partial[k]);
  return sum;
}

double mapped_sum_run(const mapped_sum *p, void *const *at, uint64_t cost_ns) {
  const compute_value sum = sum_all(p, at, cost_ns);
  return p->compute == COMPUTE_I64 ? (double)sum.i64 : sum.f64;
}

int64_t mapped_sum_run_i64(const mapped_sum *p, void *const *at, uint64_t cost_ns) {
  return sum_all(p, at, cost_ns).i64;
}
