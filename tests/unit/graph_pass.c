/* SPDX-License-Identifier: Apache-2.0 */
/* Passes of graphs: what the graph computes stays, and fewer nodes do it. Programs run in host memory. */
#include "graph/pass/pass.h"

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

/* ---- epilogues --------------------------------------------------------------------------------------------------- */

enum { ROWS = 5, DEPTH = 7, COLUMNS = 6 };

/* What is being built: a graph whose inputs are an image and two matrices. */
typedef struct {
  ir_graph *g;
  ir_value *image, *other, *matrix, *more; /* other: like a convolution's result; more: like a product's */
} builder;

static const int64_t image_dims[] = {BATCH, CHANNELS, SIDE, SIDE}, result_dims[] = {BATCH, OUT, SIDE, SIDE},
                     matrix_dims[] = {ROWS, DEPTH}, product_dims[] = {ROWS, COLUMNS};

static ir_value *like(builder *b, const ir_value *v) {
  ir_value *out;
  CHECK(ir_temporary(b->g, ACL_FLOAT, v->tensor.dims, v->tensor.rank, &out));
  return out;
}

static ir_value *convolved(builder *b, bool has_bias) {
  static const int64_t w[] = {OUT, CHANNELS, 3, 3}, bias[] = {OUT}, ones[] = {1, 1}, zeros[] = {0, 0};
  ir_value *out = like(b, b->other);
  const aclIntArray *one = ir_int_array(b->g, ones, 2);
  CHECK(node_Convolution(b->g, b->image, constant(b->g, w, 4, 0), has_bias ? constant(b->g, bias, 1, 0) : NULL, one,
                         one, one, false, ir_int_array(b->g, zeros, 2), 1, out, 0));
  return out;
}

static ir_value *multiplied(builder *b) {
  static const int64_t dims[] = {DEPTH, COLUMNS};
  ir_value *out = like(b, b->more);
  CHECK(node_Matmul(b->g, b->matrix, constant(b->g, dims, 2, 0), out, 0));
  return out;
}

static ir_value *unary(builder *b, op *o, ir_value *x) {
  ir_value *out = like(b, x);
  CHECK(ir_add(b->g, o, (const op_arg[]){{.tensor = &x->tensor}, {.tensor = &out->tensor}}));
  return out;
}

static ir_value *product(builder *b, op *o, ir_value *x, ir_value *y) {
  ir_value *out = like(b, x);
  CHECK(ir_add(b->g, o, (const op_arg[]){{.tensor = &x->tensor}, {.tensor = &y->tensor}, {.tensor = &out->tensor}}));
  return out;
}

static ir_value *sum_of(builder *b, ir_value *x, ir_value *y, double alpha) {
  ir_value *out = like(b, x->tensor.n >= y->tensor.n ? x : y);
  CHECK(node_Add(b->g, x, y, ir_scalar(b->g, ACL_FLOAT, alpha), out));
  return out;
}

static ir_value *number(builder *b, float value) {
  ir_value *v;
  CHECK(ir_number(b->g, ACL_FLOAT, (double)value, &v));
  return v;
}

static ir_value *clamped(builder *b, ir_value *x, double low, double high) {
  ir_value *out = like(b, x);
  CHECK(node_Clamp(b->g, x, ir_scalar(b->g, ACL_FLOAT, low), ir_scalar(b->g, ACL_FLOAT, high), out));
  return out;
}

/* Chains, and how many nodes they have before and after the passes. */
static ir_value *conv_relu(builder *b) { return unary(b, &op_Relu, convolved(b, true)); }
static ir_value *conv_add_relu(builder *b) { return unary(b, &op_Relu, sum_of(b, b->other, convolved(b, false), 1)); }
static ir_value *conv_relu_add(builder *b) { return sum_of(b, unary(b, &op_Relu, convolved(b, true)), b->other, 1); }
static ir_value *conv_silu(builder *b) {
  ir_value *x = convolved(b, true);
  return product(b, &op_Mul, x, unary(b, &op_Sigmoid, x));
}
static ir_value *conv_silu_add(builder *b) { return sum_of(b, b->other, conv_silu(b), 1); }
static ir_value *conv_hard_swish(builder *b) {
  ir_value *x = convolved(b, false), *gate = clamped(b, sum_of(b, x, number(b, 3), 1), 0, 6);
  return product(b, &op_Div, product(b, &op_Mul, x, gate), number(b, 6));
}
static ir_value *conv_hard_swish_divided_first(builder *b) {
  ir_value *x = convolved(b, false), *gate = clamped(b, sum_of(b, x, number(b, 3), 1), 0, 6);
  return product(b, &op_Mul, product(b, &op_Div, gate, number(b, 6)), x);
}
static ir_value *conv_hard_sigmoid(builder *b) {
  ir_value *x = product(b, &op_Mul, convolved(b, false), number(b, 0.2f));
  return clamped(b, sum_of(b, x, number(b, 0.5f), 1), 0, 1);
}
static ir_value *conv_relu6(builder *b) { return clamped(b, convolved(b, true), 0, 6); }
static ir_value *conv_scaled(builder *b) {
  static const int64_t dims[] = {OUT, 1, 1};
  ir_value *x = product(b, &op_Mul, convolved(b, false), constant(b->g, dims, 3, 0));
  return sum_of(b, product(b, &op_Div, x, number(b, 3)), constant(b->g, dims, 3, 0.5f), 1);
}
/* The later convolution adds the earlier one's result. */
static ir_value *two_convs(builder *b) {
  ir_value *x = convolved(b, true), *y = convolved(b, false);
  return unary(b, &op_Relu, sum_of(b, x, y, 1));
}
static ir_value *matmul_bias_gelu(builder *b) {
  static const int64_t bias[] = {COLUMNS};
  ir_value *sum = sum_of(b, multiplied(b), constant(b->g, bias, 1, 0), 1), *out = like(b, sum);
  CHECK(node_GeluV2(b->g, sum, 0, out));
  return out;
}
static ir_value *matmul_bias_add_relu(builder *b) {
  static const int64_t bias[] = {COLUMNS};
  return unary(b, &op_Relu, sum_of(b, sum_of(b, constant(b->g, bias, 1, 0), multiplied(b), 1), b->more, 1));
}
static ir_value *gemm_tanh(builder *b) {
  static const int64_t dims[] = {DEPTH, COLUMNS}, bias[] = {COLUMNS};
  ir_value *out = like(b, b->more), *self;
  const scalar *one = ir_scalar(b->g, ACL_FLOAT, 1);
  CHECK(ir_expanded(b->g, constant(b->g, bias, 1, 0), product_dims, 2, &self));
  CHECK(node_Addmm(b->g, self, b->matrix, constant(b->g, dims, 2, 0), one, one, out, 0));
  return unary(b, &op_Tanh, out);
}

/* These stay, at least in part. */
static ir_value *read_twice(builder *b) {
  ir_value *x = convolved(b, true);
  return sum_of(b, unary(b, &op_Relu, x), unary(b, &op_Tanh, x), 1);
}
static ir_value *two_activations(builder *b) { return unary(b, &op_Tanh, unary(b, &op_Sigmoid, convolved(b, true))); }
static ir_value *activated_after_residual(builder *b) {
  return unary(b, &op_Relu, sum_of(b, unary(b, &op_Sigmoid, convolved(b, true)), b->other, 1));
}
static ir_value *scaled_residual(builder *b) { return sum_of(b, convolved(b, true), b->other, 2); }
static ir_value *wrong_gate(builder *b) { /* its bound is not divided out */
  ir_value *x = convolved(b, false), *gate = clamped(b, sum_of(b, x, number(b, 3), 1), 0, 6);
  return product(b, &op_Mul, x, gate);
}
static ir_value *gate_of_another(builder *b) {
  return product(b, &op_Mul, convolved(b, true), unary(b, &op_Sigmoid, b->other));
}
static ir_value *column_bias(builder *b) { /* one for each row: a residual would have the product's shape */
  static const int64_t dims[] = {ROWS, 1};
  return sum_of(b, multiplied(b), constant(b->g, dims, 2, 0), 1);
}

static const struct {
  const char *name;
  ir_value *(*build)(builder *b);
  int before, after;
} chains[] = {
    {"conv_relu", conv_relu, 2, 1},
    {"conv_add_relu", conv_add_relu, 3, 1},
    {"conv_relu_add", conv_relu_add, 3, 1},
    {"conv_silu", conv_silu, 3, 1},
    {"conv_silu_add", conv_silu_add, 4, 1},
    {"conv_hard_swish", conv_hard_swish, 5, 1},
    {"conv_hard_swish_divided_first", conv_hard_swish_divided_first, 5, 1},
    {"conv_hard_sigmoid", conv_hard_sigmoid, 4, 1},
    {"conv_relu6", conv_relu6, 2, 1},
    {"conv_scaled", conv_scaled, 4, 1},
    {"two_convs", two_convs, 4, 2},
    {"matmul_bias_gelu", matmul_bias_gelu, 3, 1},
    {"matmul_bias_add_relu", matmul_bias_add_relu, 4, 1},
    {"gemm_tanh", gemm_tanh, 2, 1},
    {"read_twice", read_twice, 4, 4},
    {"two_activations", two_activations, 3, 2},
    {"activated_after_residual", activated_after_residual, 4, 2},
    {"scaled_residual", scaled_residual, 2, 2},
    {"wrong_gate", wrong_gate, 4, 4},
    {"gate_of_another", gate_of_another, 3, 3},
    {"column_bias", column_bias, 2, 2},
};

static builder begin(void) {
  builder b = {.g = ir_new()};
  CHECK(ir_input(b.g, "image", ACL_FLOAT, image_dims, 4, &b.image));
  CHECK(ir_input(b.g, "other", ACL_FLOAT, result_dims, 4, &b.other));
  CHECK(ir_input(b.g, "matrix", ACL_FLOAT, matrix_dims, 2, &b.matrix));
  CHECK(ir_input(b.g, "more", ACL_FLOAT, product_dims, 2, &b.more));
  return b;
}

/* Places the only packed constant, of which the owner keeps the address. */
static status place_packed(void *owner, program_packed *packed, int n) {
  assert_int_equal(n, 1);
  packed->address = *(void **)owner = aligned_alloc(64, (packed->bytes + 63) / 64 * 64);
  packed->fresh = true;
  return ST_OK;
}

static int run_chain(int i, bool passes, float *y) {
  static float in[4][BATCH * OUT * SIDE * SIDE];
  builder b = begin();
  program *p;
  b.g->outputs = REGION_NEW(&b.g->memory, ir_value *, 1);
  b.g->outputs[0] = chains[i].build(&b);
  b.g->n_outputs = 1;
  /* Elementwise nodes that no epilogue takes are counted one by one. */
  const pass_set off = UINT64_C(1) << pass_find("ElementwiseFusionPass");
  CHECK(passes ? pass_all(b.g, off, NULL) : pass_outputs(b.g));
  for (int k = 0; k < 4; ++k)
    for (size_t e = 0; e < sizeof in[k] / sizeof *in[k]; ++e) in[k][e] = numbers((int)e + k);
  CHECK(program_make(b.g, &(program_owner){.place = place, .share = true}, &p));
  const program_size sizes = program_sizes(p);
  char *arena = aligned_alloc(64, (sizes.arena + 127) / 64 * 64);
  CHECK(program_run(p, &(program_memory){arena, (void *const[]){in[0], in[1], in[2], in[3]}, (void *const[]){y}}));
  free(arena);
  program_free(p);
  return sizes.n_steps;
}

static void test_epilogues(void **state) {
  static float plain[BATCH * OUT * SIDE * SIDE], passed[BATCH * OUT * SIDE * SIDE];
  (void)state;
  for (size_t i = 0; i < sizeof chains / sizeof *chains; ++i) {
    const int before = run_chain((int)i, false, plain), after = run_chain((int)i, true, passed);
    if (before != chains[i].before || after != chains[i].after)
      print_error("%s: %d nodes, then %d\n", chains[i].name, before, after);
    assert_int_equal(before, chains[i].before);
    assert_int_equal(after, chains[i].after);
    for (size_t e = 0; e < sizeof plain / sizeof *plain; ++e) assert_float_equal(passed[e], plain[e], 2e-5f);
  }
}

/* A result that the model gives out is not taken away from it. */
static void test_outputs_stay(void **state) {
  (void)state;
  builder b = begin();
  ir_value *x = convolved(&b, true), *y = unary(&b, &op_Relu, x);
  b.g->outputs = REGION_NEW(&b.g->memory, ir_value *, 2);
  b.g->outputs[0] = y;
  b.g->outputs[1] = x;
  b.g->n_outputs = 2;
  CHECK(pass_all(b.g, 0, NULL));
  assert_int_equal(b.g->n_nodes, 2);
  ir_free(b.g);
}

/* A constant that is only read packed is not placed, and programs with packed constants give the bits of others. */
static void test_packed_constants(void **state) {
  enum { SIZE = 96 };
  static const int64_t dims[] = {SIZE, SIZE};
  static float x[SIZE * SIZE], y[2][SIZE * SIZE];
  (void)state;
  for (int i = 0; i < SIZE * SIZE; ++i) x[i] = numbers(i);
  for (int packs = 0; packs < 2; ++packs) {
    ir_graph *g = ir_new();
    ir_value *in, *out;
    program *p;
    CHECK(ir_input(g, "x", ACL_FLOAT, dims, 2, &in));
    CHECK(ir_temporary(g, ACL_FLOAT, dims, 2, &out));
    CHECK(node_Matmul(g, in, constant(g, dims, 2, 0), out, 0));
    g->outputs = &out;
    g->n_outputs = 1;
    CHECK(pass_all(g, 0, NULL));
    ir_storage *weight = value_of(g->nodes[0].args[1].tensor)->storage;
    void *memory = NULL;
    const program_owner owner = {
        .place = place, .place_packed = packs ? place_packed : NULL, .owner = &memory, .share = true};
    CHECK(program_make(g, &owner, &p));
    if (!packs) assert_int_equal(program_sizes(p).constants, sizeof x);
    if (packs) assert_false(weight->read_as_is);
    CHECK(program_run(p, &(program_memory){NULL, (void *const[]){x}, (void *const[]){y[packs]}}));
    program_free(p);
    free(memory);
  }
  assert_memory_equal(y[0], y[1], sizeof y[0]);
}

/* The weight of the convolution of conv(x, w) * gamma, of an image of this size, after passes. */
static ir_storage *scaled_weight(const float *w, const float *gamma, int64_t side, ir_graph **g) {
  static const int64_t w_dims[] = {OUT, CHANNELS, 3, 3}, gamma_dims[] = {OUT, 1, 1}, ones[] = {1, 1}, zeros[] = {0, 0};
  const int64_t x_dims[] = {1, CHANNELS, side, side}, y_dims[] = {1, OUT, side, side};
  ir_value *x, *weight, *by, *conv, *y;
  *g = ir_new();
  CHECK(ir_input(*g, "x", ACL_FLOAT, x_dims, 4, &x));
  CHECK(ir_constant(*g, ACL_FLOAT, w_dims, 4, w, &weight));
  CHECK(ir_constant(*g, ACL_FLOAT, gamma_dims, 3, gamma, &by));
  CHECK(ir_temporary(*g, ACL_FLOAT, y_dims, 4, &conv));
  CHECK(ir_temporary(*g, ACL_FLOAT, y_dims, 4, &y));
  const aclIntArray *one = ir_int_array(*g, ones, 2);
  CHECK(node_Convolution(*g, x, weight, NULL, one, one, one, false, ir_int_array(*g, zeros, 2), 1, conv, 0));
  CHECK(node_Mul(*g, conv, by, y));
  (*g)->n_outputs = 1;
  (*g)->outputs = REGION_NEW(&(*g)->memory, ir_value *, 1);
  (*g)->outputs[0] = y;
  CHECK(pass_all(*g, 0, NULL));
  assert_int_equal((*g)->n_nodes, 1);
  return value_of((*g)->nodes[0].args[1].tensor)->storage;
}

/* Weights that passes change are computed when somebody needs them, and are told apart by what they are made of. */
static void test_recipes(void **state) {
  enum { N = OUT * CHANNELS * 9 };
  static float w[N], gamma[OUT], other[OUT];
  ir_graph *g[3];
  (void)state;
  for (int i = 0; i < N; ++i) w[i] = numbers(i);
  for (int i = 0; i < OUT; ++i) gamma[i] = other[i] = numbers(i + 5);
  ir_storage *weight = scaled_weight(w, gamma, SIDE, &g[0]);
  const ir_storage *same = scaled_weight(w, gamma, SIDE + 1, &g[1]), *different = scaled_weight(w, other, SIDE, &g[2]);
  assert_null(weight->contents);
  assert_null(same->contents);
  assert_int_not_equal(weight->identity, 0);
  assert_int_equal(weight->identity, same->identity);
  assert_int_not_equal(weight->identity, different->identity);
  CHECK(ir_need_contents(weight));
  for (int i = 0; i < N; ++i) assert_float_equal(((const float *)weight->contents)[i], w[i] * gamma[i / (N / OUT)], 0);
  for (int i = 0; i < 3; ++i) ir_free(g[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_recipes),
      cmocka_unit_test(test_batch_norm_joins_convolution),
      cmocka_unit_test(test_convolution_that_others_read_stays),
      cmocka_unit_test(test_outputs),
      cmocka_unit_test(test_epilogues),
      cmocka_unit_test(test_outputs_stay),
      cmocka_unit_test(test_packed_constants),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
