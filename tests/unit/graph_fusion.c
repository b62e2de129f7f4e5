/* SPDX-License-Identifier: Apache-2.0 */
/* Passes on random graphs: every pass alone, all orders of two, and all of them together compute what the graph itself
 * does. Fused elementwise nodes and results in place have the same bits. */
#include "graph/pass/pass.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "graph/nodes.h"
#include "graph/program.h"
#include "slow.h"

#define CHECK(expression) assert_int_equal(expression, ST_OK)

enum { MOST_VALUES = 80, INPUTS = 7, OUTPUTS = 4, SEEDS = 200, NODES = 24, TURNS = 8 };

/* ---- random graphs ----------------------------------------------------------------------------------------------- */

static uint32_t next_random(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

static int below(uint32_t *state, int n) { return (int)(next_random(state) % (uint32_t)n); }

typedef struct {
  ir_graph *g;
  uint32_t random;
  ir_value *values[MOST_VALUES];
  int n;
} maker;

static void keep(maker *m, ir_value *v) {
  if (m->n < MOST_VALUES) m->values[m->n++] = v;
}

static ir_value *any(maker *m) { return m->values[below(&m->random, m->n)]; }

/* A late value, so that graphs get deep. */
static ir_value *late(maker *m) {
  const int a = below(&m->random, m->n), b = below(&m->random, m->n);
  return m->values[a > b ? a : b];
}

static ir_value *new_like(maker *m, const ir_value *v, int dtype) {
  ir_value *out;
  CHECK(ir_temporary(m->g, dtype, v->tensor.dims, v->tensor.rank, &out));
  return out;
}

static void add_unary(maker *m) {
  static op *const ops[] = {&op_Relu, &op_Sigmoid, &op_Tanh, &op_Abs,         &op_Neg, &op_Hardswish,
                            &op_Exp,  &op_Silu,    &op_Erf,  &op_Hardsigmoid, &op_Sin, &op_Floor};
  ir_value *x = late(m), *y;
  if (!dtype_is_float(x->tensor.dtype)) return;
  y = new_like(m, x, x->tensor.dtype);
  op *o = ops[below(&m->random, sizeof ops / sizeof *ops)];
  CHECK(ir_add(m->g, o, (const op_arg[]){{.tensor = &x->tensor}, {.tensor = &y->tensor}}));
  keep(m, y);
}

static void add_with_scalar(maker *m) {
  ir_value *x = late(m), *y;
  const int kind = below(&m->random, 4);
  const scalar *a = ir_scalar(m->g, ACL_FLOAT, 0.25 * below(&m->random, 9) - 1), *one = ir_scalar(m->g, ACL_FLOAT, 1),
               *three = ir_scalar(m->g, ACL_FLOAT, 3);
  if (!dtype_is_float(x->tensor.dtype)) return;
  y = new_like(m, x, x->tensor.dtype);
  switch (kind) {
  case 0: CHECK(node_Adds(m->g, x, a, one, y)); break;
  case 1: CHECK(node_Muls(m->g, x, a, y)); break;
  case 2: CHECK(node_Clamp(m->g, x, a, three, y)); break;
  default: CHECK(node_LeakyRelu(m->g, x, a, y)); break;
  }
  keep(m, y);
}

static bool common_dims(const tensor *a, const tensor *b, int64_t *dims, int *rank) {
  *rank = a->rank > b->rank ? a->rank : b->rank;
  for (int d = 0; d < *rank; ++d) {
    const int i = d - (*rank - a->rank), k = d - (*rank - b->rank);
    const int64_t x = i < 0 ? 1 : a->dims[i], y = k < 0 ? 1 : b->dims[k];
    if (x != y && x != 1 && y != 1) return false;
    dims[d] = x == 1 ? y : x;
  }
  return true;
}

static void add_binary(maker *m) {
  static op *const with_alpha[] = {&op_Add, &op_Sub}, *const plain[] = {&op_Mul, &op_Maximum, &op_Minimum, &op_Div};
  ir_value *a = late(m), *b = any(m), *y;
  int64_t dims[MAX_RANK];
  int rank;
  if (a->tensor.dtype != b->tensor.dtype || a->tensor.dtype == ACL_BOOL) return;
  if (!common_dims(&a->tensor, &b->tensor, dims, &rank)) return;
  CHECK(ir_temporary(m->g, a->tensor.dtype, dims, rank, &y));
  if (below(&m->random, 2)) {
    const scalar *alpha = ir_scalar(m->g, ACL_INT64, 1);
    CHECK(ir_add(
        m->g, with_alpha[below(&m->random, 2)],
        (const op_arg[]){{.tensor = &a->tensor}, {.tensor = &b->tensor}, {.scalar = alpha}, {.tensor = &y->tensor}}));
  } else {
    op *o = plain[below(&m->random, dtype_is_float(a->tensor.dtype) ? 4 : 3)];
    CHECK(ir_add(m->g, o, (const op_arg[]){{.tensor = &a->tensor}, {.tensor = &b->tensor}, {.tensor = &y->tensor}}));
  }
  keep(m, y);
}

static void add_choice(maker *m) {
  ir_value *a = late(m), *b = any(m), *c, *y;
  int64_t dims[MAX_RANK];
  int rank;
  if (a->tensor.dtype != b->tensor.dtype || !dtype_is_float(a->tensor.dtype)) return;
  if (!common_dims(&a->tensor, &b->tensor, dims, &rank)) return;
  CHECK(ir_temporary(m->g, ACL_BOOL, dims, rank, &c));
  CHECK(ir_temporary(m->g, a->tensor.dtype, dims, rank, &y));
  CHECK(node_GtTensor(m->g, a, b, c));
  CHECK(node_SWhere(m->g, c, a, b, y));
  keep(m, y);
  if (below(&m->random, 3) == 0) keep(m, c);
}

static void add_cast(maker *m) {
  static const int dtypes[] = {ACL_FLOAT, ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_INT32, ACL_INT64, ACL_INT8, ACL_DOUBLE};
  ir_value *x = late(m), *y;
  const int dtype = dtypes[below(&m->random, sizeof dtypes / sizeof *dtypes)];
  CHECK(ir_cast(m->g, x, dtype, &y));
  if (y != x) keep(m, y);
}

/* What is not elementwise, or not in order: views, copies, rows. */
static void add_other(maker *m) {
  ir_value *x = late(m), *y;
  const int rank = x->tensor.rank;
  int order[MAX_RANK];
  switch (below(&m->random, 4)) {
  case 0:
    for (int d = 0; d < rank; ++d) order[d] = rank - 1 - d;
    CHECK(ir_permuted(m->g, x, order, &y));
    break;
  case 1: CHECK(ir_contiguous(m->g, x, &y)); break;
  case 2: CHECK(ir_reshaped(m->g, x, &x->tensor.n, 1, &y)); break;
  default:
    if (!dtype_is_float(x->tensor.dtype) || !rank) return;
    y = new_like(m, x, x->tensor.dtype);
    CHECK(node_Softmax(m->g, x, rank - 1, y));
  }
  if (y != x) keep(m, y);
}

/* Two values in one, and half of it. */
static void add_concat(maker *m) {
  ir_value *a = late(m), *b = any(m), *y, *half;
  const tensor *t = &a->tensor;
  int64_t dims[MAX_RANK];
  if (a == b || t->dtype != b->tensor.dtype || !tensor_same_dims(t, &b->tensor) || !t->rank || t->dims[0] > 9) return;
  memcpy(dims, t->dims, sizeof dims);
  dims[0] *= 2;
  CHECK(ir_temporary(m->g, t->dtype, dims, t->rank, &y));
  CHECK(node_Cat(m->g, ir_list(m->g, (ir_value *[]){a, b}, 2), 0, y));
  CHECK(ir_view(m->g, y, t->dims, y->tensor.strides, t->rank, t->n, &half));
  keep(m, y);
  keep(m, half);
}

static ir_graph *random_graph(uint32_t seed) {
  static const int64_t shapes[3][INPUTS][3] = {
      {{2, 3, 20}, {2, 3, 20}, {1, 3, 1}, {1, 1, 20}, {1, 1, 1}, {2, 1, 20}, {2, 3, 1}},
      {{1, 3, 700}, {1, 3, 700}, {1, 3, 1}, {1, 1, 700}, {1, 1, 1}, {1, 3, 700}, {1, 3, 1}},
      {{3, 5, 7}, {7, 5, 3}, {1, 1, 7}, {3, 1, 1}, {1, 1, 1}, {3, 5, 7}, {1, 5, 1}}};
  maker m = {.g = ir_new(), .random = seed * 7919 + 13};
  const int which = below(&m.random, 3);
  for (int i = 0; i < INPUTS; ++i) {
    ir_value *v;
    CHECK(ir_input(m.g, "x", ACL_FLOAT, shapes[which][i], 3, &v));
    keep(&m, v);
  }
  for (int i = 0; i < NODES; ++i) {
    static void (*const adders[])(maker *) = {add_unary, add_with_scalar, add_binary, add_binary, add_choice,
                                              add_cast,  add_other,       add_unary,  add_binary, add_concat};
    adders[below(&m.random, sizeof adders / sizeof *adders)](&m);
  }
  m.g->outputs = REGION_NEW(&m.g->memory, ir_value *, OUTPUTS);
  for (int i = 0; i < OUTPUTS; ++i) m.g->outputs[m.g->n_outputs++] = i ? late(&m) : m.values[m.n - 1];
  return m.g;
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

static status place(void *owner, ir_storage **constants, int n) {
  (void)owner;
  for (int i = 0; i < n; ++i) constants[i]->address = (void *)(uintptr_t)constants[i]->contents;
  return ST_OK;
}

typedef struct {
  char *bytes[OUTPUTS];
  size_t n[OUTPUTS];
  int dtype[OUTPUTS];
  int steps;
} results;

static void run(ir_graph *g, results *r) {
  float *inputs[INPUTS];
  program *p;
  for (int i = 0; i < INPUTS; ++i) {
    const int64_t n = g->inputs[i]->tensor.n;
    inputs[i] = malloc((size_t)n * sizeof(float));
    for (int64_t k = 0; k < n; ++k) inputs[i][k] = (float)(((k * 37 + i * 11) % 41) - 20) / 8;
  }
  CHECK(program_make(g, &(program_owner){.place = place, .share = true}, &p));
  const ir_graph *made = program_graph(p);
  for (int i = 0; i < OUTPUTS; ++i) {
    const tensor *t = &made->outputs[i]->tensor;
    r->dtype[i] = t->dtype;
    r->n[i] = (size_t)t->n * dtype_bytes(t->dtype);
    r->bytes[i] = calloc(1, r->n[i] + 64);
  }
  r->steps = program_sizes(p).n_steps;
  char *arena = aligned_alloc(64, program_sizes(p).arena + 64);
  memset(arena, 0xff, program_sizes(p).arena);
  CHECK(program_run(p, &(program_memory){arena, (void *const *)(void *)inputs, (void *const *)(void *)r->bytes}));
  program_free(p);
  free(arena);
  for (int i = 0; i < INPUTS; ++i) free(inputs[i]);
}

static void drop(results *r) {
  for (int i = 0; i < OUTPUTS; ++i) free(r->bytes[i]);
}

/* Runs passes by their numbers, ends with -1. */
static void run_with(uint32_t seed, const int *which, results *r) {
  ir_graph *g = random_graph(seed);
  int n;
  for (; *which >= 0; ++which) CHECK(passes[*which].run(g, &n));
  CHECK(pass_outputs(g));
  CHECK(pass_dead_nodes(g, &n));
  run(g, r);
}

static void check_equal(uint32_t seed, const results *a, const results *b, const char *what) {
  for (int i = 0; i < OUTPUTS; ++i) {
    assert_int_equal(a->n[i], b->n[i]);
    if (memcmp(a->bytes[i], b->bytes[i], a->n[i]) == 0) continue;
    size_t at = 0;
    while (a->bytes[i][at] == b->bytes[i][at]) ++at;
    fail_msg("seed %u, %s: output %d (%s) differs at byte %zu of %zu", seed, what, i, dtype_name(a->dtype[i]), at,
             a->n[i]);
  }
}

/* Each seed tries every pass alone and an eighth of the orders of two: each order meets SEEDS / TURNS graphs. */
static void check_seed(uint32_t seed) {
  results plain, other;
  char what[128];
  run_with(seed, (const int[]){-1}, &plain);
  for (int i = 0; i < n_passes; ++i)
    for (int k = -1; k < n_passes; ++k) {
      if (k >= 0 && (uint32_t)(i * n_passes + k) % TURNS != seed % TURNS) continue;
      run_with(seed, (const int[]){i, k, -1}, &other);
      snprintf(what, sizeof what, "%s, %s", passes[i].name, k < 0 ? "" : passes[k].name);
      check_equal(seed, &plain, &other, what);
      drop(&other);
    }
  ir_graph *g = random_graph(seed);
  CHECK(pass_all(g, 0, NULL));
  run(g, &other);
  check_equal(seed, &plain, &other, "all");
  if (other.steps > plain.steps) fail_msg("seed %u: %d steps, %d without passes", seed, other.steps, plain.steps);
  drop(&other);
  drop(&plain);
}

static void test_random_graphs(void **state) {
  (void)state;
  /* Slow builds take a few, others with another CANNON_SEED. */
  const char *const given = getenv("CANNON_SEED");
  const uint32_t n = WITH_ASAN ? SEEDS / 10 : SEEDS,
                 first = given ? (uint32_t)(strtoull(given, NULL, 10) % (SEEDS / n)) * n : 0;
  for (uint32_t seed = 1; seed <= n; ++seed) check_seed(first + seed);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random_graphs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
