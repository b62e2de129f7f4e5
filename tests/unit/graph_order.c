/* SPDX-License-Identifier: Apache-2.0 */
/* The order of nodes: results stay, and the arena gets smaller where it can. Programs run in host memory. */
#include "graph/order.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "graph/nodes.h"
#include "graph/pass/pass.h"
#include "graph/program.h"

#define CHECK(expression) assert_int_equal(expression, ST_OK)

enum { N = 64, BRANCHES = 4 };

static status place(void *owner, ir_storage **constants, int n) {
  (void)owner;
  for (int i = 0; i < n; ++i) constants[i]->address = (void *)(uintptr_t)constants[i]->contents;
  return ST_OK;
}

static program_size run_for(program_goal goal, ir_graph *g, const float *x, float *y) {
  program *p;
  CHECK(pass_outputs(g));
  CHECK(program_make(g, &(program_owner){.place = place, .goal = goal, .share = true}, &p));
  const program_size sizes = program_sizes(p);
  char *arena = aligned_alloc(64, sizes.arena + 64);
  memset(arena, 0xff, sizes.arena); /* NaN, where something is read that nobody wrote */
  CHECK(program_run(p, &(program_memory){arena, (void *const[]){(void *)(uintptr_t)x}, (void *const[]){y}}));
  program_free(p);
  free(arena);
  return sizes;
}

static program_size run(ir_graph *g, const float *x, float *y) { return run_for(GOAL_NONE, g, x, y); }

static void set_output(ir_graph *g, ir_value *v) {
  g->n_outputs = 1;
  g->outputs = REGION_NEW(&g->memory, ir_value *, 1);
  g->outputs[0] = v;
}

static ir_value *temporary(ir_graph *g, const int64_t *dims, int rank) {
  ir_value *v;
  CHECK(ir_temporary(g, ACL_FLOAT, dims, rank, &v));
  return v;
}

/* Branches that each make a large value and then its sums, given layer by layer, so that all large values are live at
 * once: y = the sum over b of sum(x + b). */
static void test_branches_run_one_after_the_other(void **state) {
  static const int64_t small[] = {N}, large[] = {N, N};
  float x[N], y[N];
  ir_graph *g = ir_new();
  ir_value *in, *wide, *big[BRANCHES], *sum[BRANCHES], *all;
  (void)state;
  for (int i = 0; i < N; ++i) x[i] = (float)i;
  CHECK(ir_input(g, "x", ACL_FLOAT, small, 1, &in));
  CHECK(ir_expanded(g, in, large, 2, &wide));
  for (int b = 0; b < BRANCHES; ++b)
    CHECK(node_Adds(g, wide, ir_scalar(g, ACL_FLOAT, b), ir_scalar(g, ACL_FLOAT, 1), big[b] = temporary(g, large, 2)));
  for (int b = 0; b < BRANCHES; ++b)
    CHECK(node_ReduceSum(g, big[b], ir_int_array(g, (const int64_t[]){0}, 1), false, ACL_FLOAT,
                         sum[b] = temporary(g, small, 1)));
  all = sum[0];
  for (int b = 1; b < BRANCHES; ++b) {
    ir_value *more = temporary(g, small, 1);
    CHECK(node_Add(g, all, sum[b], ir_scalar(g, ACL_FLOAT, 1), more));
    all = more;
  }
  set_output(g, all);
  const program_size sizes = run(g, x, y);
  const uint64_t bytes = N * N * sizeof(float);
  assert_true(sizes.order.given_peak >= BRANCHES * bytes);
  assert_true(sizes.order.peak < 2 * bytes);
  assert_true(sizes.arena < 2 * bytes);
  assert_string_not_equal(sizes.order.name, "given");
  for (int i = 0; i < N; ++i) assert_float_equal(y[i], (float)(N * (BRANCHES * i + 6)), 0);
}

/* Random graphs of maxima, sums with a constant, and sums in place, which must stay behind the nodes that read the
 * value before. */
static void test_random_graphs(void **state) {
  static const int64_t dims[] = {N};
  int n_reordered = 0;
  (void)state;
  for (unsigned round = 1; round <= 200; ++round) {
    unsigned seed = round;
    enum { NODES = 40 };
    ir_graph *g = ir_new();
    ir_value *v[NODES + 1];
    float x[N], y[N], expected[NODES + 1];
    int n = 1;
    for (int i = 0; i < N; ++i) x[i] = 3;
    expected[0] = 3;
    CHECK(ir_input(g, "x", ACL_FLOAT, dims, 1, &v[0]));
    for (int i = 0; i < NODES; ++i) {
      const int a = rand_r(&seed) % n, b = rand_r(&seed) % n, kind = rand_r(&seed) % 4;
      if (kind == 0 && a) {
        CHECK(node_InplaceAdds(g, v[a], ir_scalar(g, ACL_FLOAT, 1 + i), ir_scalar(g, ACL_FLOAT, 1)));
        expected[a] += (float)(1 + i);
        continue;
      }
      v[n] = temporary(g, dims, 1);
      if (kind == 1) {
        CHECK(node_Adds(g, v[a], ir_scalar(g, ACL_FLOAT, -i), ir_scalar(g, ACL_FLOAT, 1), v[n]));
        expected[n] = expected[a] - (float)i;
      } else {
        CHECK(node_Maximum(g, v[a], v[b], v[n]));
        expected[n] = expected[a] > expected[b] ? expected[a] : expected[b];
      }
      ++n;
    }
    set_output(g, v[n - 1]);
    const program_size sizes = run_for((program_goal)(rand_r(&seed) % N_GOALS), g, x, y);
    assert_true(sizes.order.peak <= sizes.order.given_peak);
    if (strcmp(sizes.order.name, "given") != 0) ++n_reordered;
    for (int i = 0; i < N; ++i) assert_float_equal(y[i], expected[n - 1], 0);
  }
  assert_true(n_reordered > 50);
}

enum { CHANNELS = 16, SIDE = 24, IMAGE = CHANNELS * SIDE * SIDE };

/* A convolution of x by constants, for which several implementations need different workspaces. */
static program_size convolve_for(program_goal goal, const float *x, float *y) {
  ir_graph *g = ir_new();
  ir_value *in, *w, *out;
  const int64_t dims[] = {1, CHANNELS, SIDE, SIDE}, weights[] = {CHANNELS, CHANNELS, 3, 3};
  const aclIntArray *ones = ir_int_array(g, (const int64_t[]){1, 1}, 2);
  CHECK(ir_input(g, "x", ACL_FLOAT, dims, 4, &in));
  CHECK(ir_constant(g, ACL_FLOAT, weights, 4, NULL, &w));
  float *numbers = ir_fill(w);
  for (int i = 0; i < CHANNELS * CHANNELS * 9; ++i) numbers[i] = (float)(i % 7 - 3);
  out = temporary(g, dims, 4);
  CHECK(node_Convolution(g, in, w, NULL, ones, ones, ones, false, ones, 1, out, 0));
  set_output(g, out);
  return run_for(goal, g, x, y);
}

/* Goals change sizes as they say, and results by rounding only. */
static void test_goals(void **state) {
  static float x[IMAGE], y[N_GOALS][IMAGE];
  program_size sizes[N_GOALS];
  (void)state;
  for (int i = 0; i < IMAGE; ++i) x[i] = (float)(i % 11 - 5) / 8;
  for (int k = 0; k < N_GOALS; ++k) {
    sizes[k] = convolve_for((program_goal)k, x, y[k]);
    for (int i = 0; i < IMAGE; ++i) assert_float_equal(y[k][i], y[0][i], 1e-3);
  }
  assert_int_equal(sizes[GOAL_TIME].arena, sizes[GOAL_NONE].arena);
  assert_int_equal(sizes[GOAL_TIME].n_replaced, 0);
  assert_true(sizes[GOAL_MEMORY].arena <= sizes[GOAL_NONE].arena);
  assert_int_equal(sizes[GOAL_MEMORY].arena<sizes[GOAL_NONE].arena, sizes[GOAL_MEMORY].n_replaced> 0);
  for (int k = 1; k < N_GOALS; ++k) assert_int_equal(goal_find(goal_name((program_goal)k)), k);
  assert_int_equal(goal_find("speed"), N_GOALS);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_branches_run_one_after_the_other),
      cmocka_unit_test(test_random_graphs),
      cmocka_unit_test(test_goals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
