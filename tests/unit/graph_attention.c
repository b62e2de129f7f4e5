/* SPDX-License-Identifier: Apache-2.0 */
/* Attention as exporters write it out is recognised, with all that is around it, and gives the same up to rounding. */
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

#define CHECK(expression) assert_int_equal(expression, ST_OK)

/* As many rows as make it worth it. */
enum { BATCH = 2, HEADS = 2, ROWS = 256, WIDTH = 16, ALL = BATCH * HEADS * ROWS * WIDTH, INPUTS = 4 };

typedef struct {
  bool flat;    /* sequences and heads are one dimension, for which the operands are copied, and queries are scaled */
  bool grouped; /* all heads of a sequence share keys and values, and have a dimension of their own */
  bool masked, brings_together;
  int nodes; /* that are left */
} attention_case;

static const attention_case cases[] = {
    {.nodes = 1},
    {.masked = true, .nodes = 1},
    {.brings_together = true, .nodes = 1},
    {.masked = true, .brings_together = true, .nodes = 1},
    {.flat = true, .nodes = 1},
    {.flat = true, .brings_together = true, .nodes = 1},
    {.grouped = true, .nodes = 1},
    {.grouped = true, .masked = true, .nodes = 1},
};

static ir_value *product(ir_graph *g, const ir_value *a, const ir_value *b) {
  int64_t dims[MAX_RANK];
  const int r = a->tensor.rank;
  ir_value *y;
  memcpy(dims, a->tensor.dims, sizeof dims);
  dims[r - 1] = b->tensor.dims[r - 1];
  CHECK(ir_temporary(g, ACL_FLOAT, dims, r, &y));
  CHECK(node_Matmul(g, a, b, y, 0));
  return y;
}

static ir_value *scaled(ir_graph *g, const ir_value *x) {
  ir_value *y;
  CHECK(ir_temporary(g, ACL_FLOAT, x->tensor.dims, x->tensor.rank, &y));
  CHECK(node_Muls(g, x, ir_scalar(g, ACL_FLOAT, 0.25), y));
  return y;
}

/* An input [sequence, row, head, width] as the case's operand. */
static ir_value *operand(ir_graph *g, const attention_case *c, ir_value *x, bool keys) {
  static const int64_t flat[] = {BATCH * HEADS, ROWS, WIDTH}, group[] = {BATCH, 1, HEADS, ROWS, WIDTH},
                       shared[] = {BATCH, 1, 1, ROWS, WIDTH};
  ir_value *v;
  CHECK(ir_permuted(g, x, (const int[]){0, 2, 1, 3}, &v));
  const int64_t *s = v->tensor.strides;
  if (c->flat) CHECK(ir_reshaped(g, v, flat, 3, &v));
  if (c->grouped)
    CHECK(ir_view(g, v, keys ? shared : group, (const int64_t[]){s[0], s[1], s[1], s[2], s[3]}, 5, 0, &v));
  return v;
}

static ir_value *turned(ir_graph *g, const ir_value *x) {
  const int r = x->tensor.rank;
  int order[MAX_RANK];
  ir_value *v;
  for (int d = 0; d < r; ++d) order[d] = d < r - 2 ? d : 2 * r - 3 - d;
  CHECK(ir_permuted(g, x, order, &v));
  return v;
}

static ir_value *attend(ir_graph *g, const attention_case *c) {
  ir_value *q = g->inputs[0], *y, *p;
  if (c->flat) q = scaled(g, q);
  y = product(g, operand(g, c, q, false), turned(g, operand(g, c, g->inputs[1], true)));
  if (!c->flat) y = scaled(g, y);
  if (c->masked) {
    ir_value *sum, *mask;
    int64_t dims[] = {BATCH, 1, 1, 1, 1};
    dims[y->tensor.rank - 1] = ROWS;
    CHECK(ir_reshaped(g, g->inputs[3], dims, y->tensor.rank, &mask));
    CHECK(ir_temporary(g, ACL_FLOAT, y->tensor.dims, y->tensor.rank, &sum));
    CHECK(node_Add(g, y, mask, ir_scalar(g, ACL_FLOAT, 1), sum));
    y = sum;
  }
  CHECK(ir_temporary(g, ACL_FLOAT, y->tensor.dims, y->tensor.rank, &p));
  CHECK(node_Softmax(g, y, -1, p));
  y = product(g, p, operand(g, c, g->inputs[2], true));
  if (!c->brings_together) return y;
  CHECK(ir_reshaped(g, y, (const int64_t[]){BATCH, HEADS, ROWS, WIDTH}, 4, &y));
  CHECK(ir_permuted(g, y, (const int[]){0, 2, 1, 3}, &y));
  CHECK(ir_reshaped(g, y, (const int64_t[]){BATCH, ROWS, HEADS * WIDTH}, 3, &y));
  return y;
}

static ir_graph *attention_graph(const attention_case *c) {
  static const int64_t dims[] = {BATCH, ROWS, HEADS, WIDTH}, mask_dims[] = {BATCH, ROWS};
  ir_graph *g = ir_new();
  ir_value *v;
  for (int i = 0; i < INPUTS; ++i) CHECK(ir_input(g, "x", ACL_FLOAT, i < 3 ? dims : mask_dims, i < 3 ? 4 : 2, &v));
  g->outputs = REGION_NEW(&g->memory, ir_value *, 1);
  g->outputs[g->n_outputs++] = attend(g, c);
  return g;
}

static status place(void *owner, ir_storage **constants, int n) {
  (void)owner, (void)constants, (void)n;
  return ST_OK;
}

static void run(ir_graph *g, float *y) {
  static float x[INPUTS][ALL];
  program *p;
  for (int i = 0; i < INPUTS; ++i)
    for (int k = 0; k < ALL; ++k) x[i][k] = (float)((k * 37 + i * 11) % 23 - 11) / 8;
  CHECK(program_make(g, &(program_owner){.place = place, .share = true}, &p));
  char *arena = aligned_alloc(64, program_sizes(p).arena + 64);
  memset(arena, 0xff, program_sizes(p).arena);
  CHECK(program_run(p, &(program_memory){arena, (void *const[]){x[0], x[1], x[2], x[3]}, (void *const[]){y}}));
  program_free(p);
  free(arena);
}

static void check_case(const attention_case *c, int number) {
  static float plain[ALL], passed[ALL];
  int n;
  ir_graph *g = attention_graph(c);
  CHECK(pass_outputs(g));
  run(g, plain);
  g = attention_graph(c);
  CHECK(passes[pass_find("FlashAttentionFusionPass")].run(g, &n));
  if (n != 1 || g->n_nodes != c->nodes) fail_msg("case %d: %d matches, %d nodes are left", number, n, g->n_nodes);
  CHECK(pass_outputs(g));
  run(g, passed);
  for (int i = 0; i < ALL; ++i)
    if (!(fabsf(plain[i] - passed[i]) <= 2e-6f))
      fail_msg("case %d: element %d is %g, expected %g", number, i, (double)passed[i], (double)plain[i]);
}

static void test_attention(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) check_case(&cases[i], (int)i);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_attention)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
