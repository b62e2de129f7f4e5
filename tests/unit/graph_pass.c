/* SPDX-License-Identifier: Apache-2.0 */
/* Passes of graphs: what the graph computes stays, and fewer nodes do it. Programs run in host memory. */
#include "graph/pass.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "graph/nodes.h"
#include "graph/program.h"

#define CHECK(expression) assert_int_equal(expression, ST_OK)

enum { BATCH = 2, CHANNELS = 3, OUT = 4, SIDE = 6 };

static float numbers(int i) { return (float)((i * 37 + 11) % 23 - 11) / 8; }

static ir_value *constant(ir_graph *g, const int64_t *dims, int rank, float least) {
  ir_value *v;
  CHECK(ir_constant(g, ACL_FLOAT, dims, rank, NULL, &v));
  for (int i = 0; i < v->tensor.n; ++i) {
    const float x = numbers(i + rank);
    ((float *)ir_fill(v))[i] = least > 0 ? least + x * x : x;
  }
  return v;
}

/* y = batch_norm(conv(x, w) + bias), and the convolution too if also_conv. */
static ir_graph *conv_and_norm(bool has_bias, bool also_conv) {
  static const int64_t x_dims[] = {BATCH, CHANNELS, SIDE, SIDE}, w_dims[] = {OUT, CHANNELS, 3, 3}, out[] = {OUT},
                       y_dims[] = {BATCH, OUT, SIDE, SIDE}, ones[] = {1, 1}, zeros[] = {0, 0};
  ir_graph *g = ir_new();
  ir_value *x, *conv, *y;
  CHECK(ir_input(g, "x", ACL_FLOAT, x_dims, 4, &x));
  CHECK(ir_temporary(g, ACL_FLOAT, y_dims, 4, &conv));
  CHECK(ir_temporary(g, ACL_FLOAT, y_dims, 4, &y));
  CHECK(node_Convolution(g, x, constant(g, w_dims, 4, 0), has_bias ? constant(g, out, 1, 0) : NULL,
                         ir_int_array(g, ones, 2), ir_int_array(g, ones, 2), ir_int_array(g, ones, 2), false,
                         ir_int_array(g, zeros, 2), 1, conv, 0));
  CHECK(node_BatchNorm(g, conv, constant(g, out, 1, 0), constant(g, out, 1, 0), constant(g, out, 1, 0),
                       constant(g, out, 1, 0.5f), false, 0.1, 1e-5, y, NULL, NULL));
  g->n_outputs = 1 + also_conv;
  g->outputs = REGION_NEW(&g->memory, ir_value *, 2);
  g->outputs[0] = y;
  g->outputs[1] = conv;
  return g;
}

static status place(void *owner, ir_storage **constants, int n) {
  (void)owner;
  for (int i = 0; i < n; ++i) constants[i]->address = (void *)(uintptr_t)constants[i]->contents;
  return ST_OK;
}

/* Runs the graph, which goes; returns how many nodes ran. */
static int run(ir_graph *g, float *y) {
  static float x[BATCH * CHANNELS * SIDE * SIDE], other[BATCH * OUT * SIDE * SIDE];
  program *p;
  for (size_t i = 0; i < sizeof x / sizeof *x; ++i) x[i] = numbers((int)i);
  CHECK(program_make(g, &(program_owner){.place = place, .share = true}, &p));
  const program_size sizes = program_sizes(p);
  char *arena = aligned_alloc(64, sizes.arena + 64);
  const program_memory m = {arena, (void *const[]){x}, (void *const[]){y, other}};
  CHECK(program_run(p, &m));
  program_free(p);
  free(arena);
  return sizes.n_steps;
}

static void check_same(bool has_bias, bool also_conv, int n_nodes) {
  static float plain[BATCH * OUT * SIDE * SIDE], passed[BATCH * OUT * SIDE * SIDE];
  ir_graph *g = conv_and_norm(has_bias, also_conv);
  CHECK(pass_outputs(g));
  assert_int_equal(run(g, plain), 2);
  g = conv_and_norm(has_bias, also_conv);
  CHECK(pass_all(g, 0, NULL));
  assert_int_equal(run(g, passed), n_nodes);
  for (size_t i = 0; i < sizeof plain / sizeof *plain; ++i) assert_float_equal(passed[i], plain[i], 2e-5f);
}

static void test_batch_norm_joins_convolution(void **state) {
  (void)state;
  check_same(false, false, 1);
  check_same(true, false, 1);
}

static void test_convolution_that_others_read_stays(void **state) {
  (void)state;
  check_same(true, true, 2);
}

/* A dead node goes; an output that is a view of an input gets a copy. */
static void test_outputs(void **state) {
  static const int64_t dims[] = {2, 3};
  float x[] = {1, 2, 3, 4, 5, 6}, y[6];
  ir_graph *g = ir_new();
  ir_value *in, *dead, *turned;
  program *p;
  (void)state;
  CHECK(ir_input(g, "x", ACL_FLOAT, dims, 2, &in));
  CHECK(ir_temporary(g, ACL_FLOAT, dims, 2, &dead));
  CHECK(node_Relu(g, in, dead));
  CHECK(ir_permuted(g, in, (const int[]){1, 0}, &turned));
  g->n_outputs = 1;
  g->outputs = &turned;
  CHECK(pass_all(g, 0, NULL));
  assert_int_equal(g->n_nodes, 1);
  CHECK(program_make(g, &(program_owner){.place = place, .share = true}, &p));
  CHECK(program_run(p, &(program_memory){NULL, (void *const[]){x}, (void *const[]){y}}));
  program_free(p);
  assert_memory_equal(y, ((const float[]){1, 4, 2, 5, 3, 6}), sizeof y);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_batch_norm_joins_convolution),
      cmocka_unit_test(test_convolution_that_others_read_stays),
      cmocka_unit_test(test_outputs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
