/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/elementwise/complex.h"

#include "kernel/engine/level_choice.h"
#include "kernel/engine/rows.h"

LEVEL_CHOICE(complex_loops, complex_functions, complex_loops)

enum { TILE = 256, GRAIN = 4096 };

typedef struct {
  load_loop *load;
  store_loop *store;
  uint8_t part; /* bytes from the real to the imaginary part; 0: there is none */
  int8_t whole; /* index of complex_loops' split and join for contiguous numbers; -1: not contiguous */
} complex_access;

typedef struct {
  walk at; /* operand 0: out */
  complex_loop *function;
  complex_access access[1 + COMPLEX_INPUTS];
  complex_number parameter[COMPLEX_PARAMETERS + 1];
  int8_t operand[1 + COMPLEX_INPUTS];
  uint8_t n_inputs;
} complex_plan;

typedef struct {
  const complex_plan *plan;
  void *at[1 + COMPLEX_INPUTS];
} complex_job;

static bool complex_is_whole(const complex_access *a, int64_t stride) { return a->whole >= 0 && stride == 2 * a->part; }

static void complex_load_tile(const complex_access *a, const complex_tile *tile, const char *from, int64_t stride,
                              int64_t n) {
  if (complex_is_whole(a, stride)) {
    complex_functions->split[a->whole](tile, from, n);
    return;
  }
  a->load(tile->real, from, stride, n);
  if (a->part)
    a->load(tile->imaginary, from + a->part, stride, n);
  else
    memset(tile->imaginary, 0, (size_t)n * sizeof(double));
}

static void complex_store_tile(const complex_access *a, const complex_tile *tile, char *to, int64_t stride, int64_t n) {
  if (complex_is_whole(a, stride)) {
    complex_functions->join[a->whole](to, tile, n);
    return;
  }
  a->store(to, stride, tile->real, n);
  if (a->part) a->store(to + a->part, stride, tile->imaginary, n);
}

static void complex_run_range(const void *job, int64_t begin, int64_t end) {
  const complex_job *j = job;
  const complex_plan *p = j->plan;
  const int last = p->at.rank - 1;
  double part[1 + COMPLEX_INPUTS][2][TILE];
  complex_tile tile[1 + COMPLEX_INPUTS];
  cursor c;
  for (int k = 0; k <= COMPLEX_INPUTS; ++k) {
    const int source = k <= p->n_inputs ? k : 1;
    tile[k] = (complex_tile){part[source][0], part[source][1]};
  }
  cursor_start(&c, &p->at, j->at, begin);
  for (int64_t i = begin, n; i < end; i += n, cursor_next(&c, n)) {
    n = cursor_row(&c, i64_min(TILE, end - i));
    for (int k = 1; k <= p->n_inputs; ++k)
      complex_load_tile(&p->access[k], &tile[k], c.at[k], p->at.strides[k][last], n);
    p->function(&tile[0], &tile[1], p->parameter, n);
    complex_store_tile(&p->access[0], &tile[0], c.at[0], p->at.strides[0][last], n);
  }
}

static status complex_tiles_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const complex_plan *p = PLAN(e, complex_plan);
  complex_job job = {.plan = p};
  for (int k = 0; k <= p->n_inputs; ++k) job.at[k] = view[p->operand[k]];
  rows_parallel(complex_run_range, &job, p->at.n, GRAIN, e->cost_ns);
  return ST_OK;
}

static complex_access complex_access_of(int dtype) {
  const int part = dtype_part(dtype);
  return (complex_access){.load = loops->load[part][COMPUTE_F64],
                          .store = loops->store[part][COMPUTE_F64],
                          .part = dtype_part_bytes(dtype),
                          .whole = dtype == ACL_COMPLEX64    ? 0
                                   : dtype == ACL_COMPLEX128 ? 1
                                                             : -1};
}

/* The parameter's parts, rounded to the type of the tensors' parts. */
static complex_number complex_value_of(const elementwise_parameter *p, int dtype) {
  const scalar *s = p->scalar;
  const double imaginary = s && dtype_is_complex(s->dtype) ? s->imaginary : 0;
  return (complex_number){elementwise_stored(s ? scalar_real(s) : p->number, dtype),
                          elementwise_stored(imaginary, dtype)};
}

status complex_prepare(executor *e, int function, const elementwise_call *c) {
  complex_plan *p = PLAN(e, complex_plan);
  view views[1 + COMPLEX_INPUTS] = {view_of(c->out)};
  const view *operands[1 + COMPLEX_INPUTS];
  uint64_t bytes = 0;
  int part = ACL_FLOAT; /* the type of the parameters' parts; real float tensors have parameters of type float, too */
  p->function = complex_functions->of[function];
  p->n_inputs = (uint8_t)c->n_inputs;
  for (int k = 0; k <= c->n_inputs; ++k) {
    const tensor *t = k ? c->in[k - 1] : c->out;
    if (k) {
      const view in = view_of(t);
      views[k] = view_broadcast(&in, views[0].dims, views[0].rank);
    }
    operands[k] = &views[k];
    p->access[k] = complex_access_of(t->dtype);
    p->operand[k] = c->operand[k];
    if (k && dtype_part(t->dtype) == ACL_DOUBLE) part = ACL_DOUBLE;
    bytes += (uint64_t)t->n * dtype_bytes(t->dtype);
  }
  for (int k = 0; k < COMPLEX_PARAMETERS && k < c->n_parameters; ++k)
    p->parameter[k] = complex_value_of(&c->parameter[k], part);
  p->parameter[COMPLEX_PARAMETERS].real = part != ACL_DOUBLE && dtype_part(c->out->dtype) != ACL_DOUBLE;
  walk_init_sorted(&p->at, operands, 1 + c->n_inputs, views[0].rank);
  executor_cost(e, bytes, (uint64_t)c->out->n * (complex_functions->is_slow[function] ? 4096 : 32));
  e->run = complex_tiles_run;
  return ST_OK;
}
