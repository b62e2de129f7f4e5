/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that write beyond their buffers are told by name. The nodes are right ones, whose executors get a function that
 * is wrong on purpose. */
#include "graph/red_zones.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "graph/nodes.h"
#include "graph/pass/pass.h"
#include "graph/program.h"
#include "op/executor.h"

#define CHECK(expression) assert_int_equal(expression, ST_OK)

enum { N = 50 };

static status (*right)(const executor *e, void *const *view, void *scratch);
static ptrdiff_t wrong_at; /* bytes from the end of the result */

static status run_wrong(const executor *e, void *const *view, void *scratch) {
  const status st = right(e, view, scratch);
  ((char *)view[e->n_operands - 1u])[(ptrdiff_t)(N * sizeof(float)) + wrong_at] ^= 1;
  return st;
}

static status place(void *owner, ir_storage **constants, int n) {
  (void)owner;
  for (int i = 0; i < n; ++i) constants[i]->address = (void *)(uintptr_t)constants[i]->contents;
  return ST_OK;
}

/* y = (-|x|)^2 in three nodes, the second of which is wrong. */
static status run(bool wrong, bool zones, ptrdiff_t at) {
  static const int64_t dims[] = {N};
  float x[N], y[N];
  ir_graph *g = ir_new();
  ir_value *in, *v[3];
  program *p;
  for (int i = 0; i < N; ++i) x[i] = (float)i - 20;
  CHECK(ir_input(g, "x", ACL_FLOAT, dims, 1, &in));
  for (int i = 0; i < 3; ++i) CHECK(ir_temporary(g, ACL_FLOAT, dims, 1, &v[i]));
  g->name = "first", g->origin = "Abs";
  CHECK(node_Abs(g, in, v[0]));
  g->name = "second", g->origin = "Neg";
  CHECK(node_Neg(g, v[0], v[1]));
  g->name = "third", g->origin = "Mul";
  CHECK(node_Mul(g, v[1], v[1], v[2]));
  g->n_outputs = 1;
  g->outputs = REGION_NEW(&g->memory, ir_value *, 1);
  g->outputs[0] = v[2];
  CHECK(pass_outputs(g));
  CHECK(program_make(g, &(program_owner){.place = place, .share = true, .red_zones = zones}, &p));
  executor *e = (executor *)(uintptr_t)program_step_at(p, 1).executor;
  right = e->run;
  wrong_at = at;
  if (wrong) e->run = run_wrong;
  const size_t arena_bytes = program_sizes(p).arena;
  char *arena = aligned_alloc(64, arena_bytes + 64);
  const status st = program_run(p, &(program_memory){arena, (void *const[]){x}, (void *const[]){y}});
  for (int i = 0; i < N && st == ST_OK && !wrong; ++i) assert_float_equal(y[i], x[i] * x[i], 0);
  program_free(p);
  free(arena);
  return st;
}

static void test_right_nodes(void **state) {
  (void)state;
  CHECK(run(false, true, 0));
  CHECK(run(false, false, 0));
}

static void test_wrong_node(void **state) {
  (void)state;
  CHECK(run(true, false, 0)); /* nobody looks: alignment leaves room behind 200 bytes */
  assert_int_equal(run(true, true, 0), ST_GRAPH_ENGINE);
  const char *words = fail_take();
  assert_non_null(strstr(words, "node second (Neg)"));
  assert_non_null(strstr(words, "1 bytes behind a value of 200 bytes"));
  assert_int_equal(run(true, true, -(ptrdiff_t)(N * sizeof(float)) - 3), ST_GRAPH_ENGINE);
  assert_non_null(strstr(fail_take(), "3 bytes before a value of 200 bytes"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_right_nodes),
      cmocka_unit_test(test_wrong_node),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
