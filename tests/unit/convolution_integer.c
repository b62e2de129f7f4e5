/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions of 8-bit integers with zero points, and the scales and biases behind them and behind products: each sum
 * is what int64 gives, and each float what the three operations give one after the other. QuantizedScaleFusionPass
 * makes such nodes of chains, and leaves others as they are. Shapes, types and zero points are random. */
#include "graph/pass/pass.h"
#include "graph/program.h"
#include "integer_operands.h"

typedef struct {
  operands o;
  int64_t batch, channels, outputs, in[2], out[2], kernel[2], stride[2], dilation[2], margin[4];
} fixture;

static fixture make_fixture(random_source *r) {
  fixture f = {.o.g = ir_new(),
               .batch = 1 + random_below(r, 2),
               .channels = 1 + random_below(r, 20),
               .outputs = 1 + random_below(r, 40)};
  const bool plain = random_below(r, 4) == 0; /* 1 x 1 */
  for (int d = 0; d < 2; ++d) {
    f.kernel[d] = plain ? 1 : 1 + random_below(r, 4);
    f.stride[d] = plain ? 1 : 1 + random_below(r, 3);
    f.dilation[d] = plain ? 1 : 1 + random_below(r, 2);
    for (int k = 0; k < 2; ++k) f.margin[2 * d + k] = plain ? 0 : random_below(r, 4);
    const int64_t least = (f.kernel[d] - 1) * f.dilation[d] + 1;
    f.in[d] = least + random_below(r, 30);
    f.out[d] = (f.in[d] + f.margin[2 * d] + f.margin[2 * d + 1] - least) / f.stride[d] + 1;
  }
  const int type = random_below(r, 2) ? ACL_UINT8 : ACL_INT8;
  const bool floats = random_below(r, 2);
  operands_add(&f.o, r, INPUT, type, (const int64_t[]){f.batch, f.channels, f.in[0], f.in[1]}, 4);
  operands_add(&f.o, r, WEIGHT, ACL_INT8, (const int64_t[]){f.kernel[0], f.kernel[1], f.channels, f.outputs}, 4);
  operands_add(&f.o, r, OUT, floats ? ACL_FLOAT : ACL_INT32, (const int64_t[]){f.batch, f.outputs, f.out[0], f.out[1]},
               4);
  if (random_below(r, 3)) operands_add(&f.o, r, INPUT_ZERO, type, NULL, 0);
  if (random_below(r, 3)) operands_add(&f.o, r, WEIGHT_ZERO, ACL_INT8, &f.outputs, random_below(r, 2));
  if (floats) operands_add(&f.o, r, SCALE, ACL_FLOAT, &f.outputs, random_below(r, 2));
  if (floats && random_below(r, 2)) operands_add(&f.o, r, BIAS, ACL_FLOAT, &f.outputs, random_below(r, 2));
  return f;
}

static void run(fixture *f, bool constant) {
  const aclIntArray *const ints[] = {ir_int_array(f->o.g, f->stride, 2), ir_int_array(f->o.g, f->margin, 4),
                                     ir_int_array(f->o.g, f->dilation, 2)};
  operands_run(&f->o, &op_ConvolutionInteger, ints, 3, constant);
}

static float real(const operands *o, int i, int64_t at) {
  return ((const float *)(const void *)o->at[i])[o->t[i]->tensor.rank ? at : 0];
}

/* The sum for an output. */
static int64_t sum_of(const fixture *f, int64_t b, int64_t o, int64_t y, int64_t x) {
  int64_t sum = 0;
  for (int64_t ky = 0; ky < f->kernel[0]; ++ky)
    for (int64_t kx = 0; kx < f->kernel[1]; ++kx)
      for (int64_t c = 0; c < f->channels; ++c) {
        const int64_t row = y * f->stride[0] + ky * f->dilation[0] - f->margin[0];
        const int64_t col = x * f->stride[1] + kx * f->dilation[1] - f->margin[2];
        if (row < 0 || row >= f->in[0] || col < 0 || col >= f->in[1]) continue;
        const int64_t in = ((b * f->channels + c) * f->in[0] + row) * f->in[1] + col;
        const int64_t w = ((ky * f->kernel[1] + kx) * f->channels + c) * f->outputs + o;
        sum += (operands_number(&f->o, INPUT, in) - operands_number(&f->o, INPUT_ZERO, 0)) *
               (operands_number(&f->o, WEIGHT, w) - operands_number(&f->o, WEIGHT_ZERO, o));
      }
  return sum;
}

static void check(const fixture *f) {
  int64_t at = 0;
  for (int64_t b = 0; b < f->batch; ++b)
    for (int64_t o = 0; o < f->outputs; ++o)
      for (int64_t y = 0; y < f->out[0]; ++y)
        for (int64_t x = 0; x < f->out[1]; ++x, ++at) {
          const int64_t sum = sum_of(f, b, o, y, x);
          if (!f->o.t[SCALE]) {
            assert_int_equal(((const int32_t *)(const void *)f->o.at[OUT])[at], sum);
            continue;
          }
          volatile float expected = (float)(int32_t)sum;
          expected *= real(&f->o, SCALE, o);
          if (f->o.t[BIAS]) expected += real(&f->o, BIAS, o);
          const float got = ((const float *)(const void *)f->o.at[OUT])[at], wanted = expected;
          assert_memory_equal(&got, &wanted, sizeof got);
        }
}

static void convolutions_are_exact(void **state) {
  (void)state;
  random_source random = {8};
  for (int i = 0; i < ROUNDS(150); ++i) {
    fixture f = make_fixture(&random);
    run(&f, random_below(&random, 2));
    check(&f);
    operands_free(&f.o);
  }
}

/* ---- the pass ---------------------------------------------------------------------------------------------------- */

typedef enum { SCALE_ALL, SCALE_EACH, NO_SCALE, TWO_READERS, WRONG_AXIS, N_KINDS } chain_kind;

enum { ROWS = 6, DEPTH = 33, COLS = 10 };

static ir_value *constant(ir_graph *g, random_source *r, int dtype, const int64_t *dims, int rank) {
  ir_value *v;
  CHECK(ir_constant(g, dtype, dims, rank, NULL, &v));
  char *at = ir_fill(v);
  for (uint64_t i = 0; i < v->storage->bytes; ++i) at[i] = (char)random_below(r, 256);
  for (uint64_t i = 0; dtype == ACL_FLOAT && i < v->storage->bytes / 4; ++i)
    ((float *)(void *)at)[i] = (float)random_below(r, 1000) / 500 - 1;
  return v;
}

/* x -> product or convolution of integers -> float * scale + bias -> y. */
static ir_graph *chain_graph(chain_kind kind, bool conv, bool bias, uint64_t seed) {
  random_source r = {seed};
  ir_graph *g = ir_new();
  const int64_t rank = conv ? 4 : 2, cols = COLS;
  const int64_t x_dims[] = {conv ? 1 : ROWS, DEPTH, 5, 4}, y_dims[] = {conv ? 1 : ROWS, COLS, 5, 4};
  const int64_t w_dims[] = {1, 1, DEPTH, COLS}, *w_from = conv ? w_dims : w_dims + 2;
  const int64_t by[] = {COLS, 1, 1}, wrong[] = {conv ? 5 : ROWS, 1}, *each = kind == WRONG_AXIS ? wrong : by;
  const int each_rank = kind == WRONG_AXIS ? 2 : conv ? 3 : 1;
  ir_value *x, *sums, *floats, *scaled, *y, *w, *twice;
  CHECK(ir_input(g, "x", ACL_UINT8, x_dims, (int)rank, &x));
  w = constant(g, &r, ACL_INT8, w_from, (int)rank);
  ir_value *x_zero = constant(g, &r, ACL_UINT8, NULL, 0), *w_zero = constant(g, &r, ACL_INT8, &cols, 1);
  ir_value *scale = constant(g, &r, ACL_FLOAT, each, kind == SCALE_ALL ? 0 : each_rank);
  ir_value *plus = constant(g, &r, ACL_FLOAT, by, conv ? 3 : 1);
  CHECK(ir_temporary(g, ACL_INT32, y_dims, (int)rank, &sums));
  CHECK(ir_temporary(g, ACL_FLOAT, y_dims, (int)rank, &scaled));
  CHECK(ir_temporary(g, ACL_FLOAT, y_dims, (int)rank, &twice));
  CHECK(ir_temporary(g, ACL_FLOAT, y_dims, (int)rank, &y));
  const aclIntArray *ones = ir_int_array(g, (const int64_t[]){1, 1}, 2);
  const aclIntArray *none = ir_int_array(g, (const int64_t[]){0, 0, 0, 0}, 4);
  if (conv)
    CHECK(node_ConvolutionInteger(g, x, w, x_zero, w_zero, NULL, NULL, sums, ones, none, ones));
  else
    CHECK(node_MatmulInteger(g, x, w, x_zero, w_zero, NULL, NULL, sums));
  CHECK(ir_cast(g, sums, ACL_FLOAT, &floats));
  if (kind == NO_SCALE)
    CHECK(node_Neg(g, floats, scaled));
  else
    CHECK(node_Mul(g, scale, floats, scaled));
  if (kind == TWO_READERS) CHECK(node_Mul(g, floats, floats, twice));
  const scalar *one = ir_scalar(g, ACL_FLOAT, 1);
  ir_value *other = kind == TWO_READERS ? twice : plus;
  if (bias || kind == TWO_READERS)
    CHECK(node_Add(g, scaled, other, one, y));
  else
    CHECK(node_Abs(g, scaled, y));
  g->n_outputs = 1;
  g->outputs = REGION_NEW(&g->memory, ir_value *, 1);
  g->outputs[0] = y;
  return g;
}

static status place(void *owner, ir_storage **constants, int n) {
  (void)owner;
  for (int i = 0; i < n; ++i) constants[i]->address = (void *)(uintptr_t)constants[i]->contents;
  return ST_OK;
}

/* Runs the graph, with or without the pass; returns how often it matched. */
static int run_chain(ir_graph *g, bool with, const uint8_t *x, float *y) {
  const int number_of_pass = pass_find("QuantizedScaleFusionPass");
  pass_report report;
  program *p;
  assert_true(number_of_pass >= 0);
  CHECK(pass_all(g, with ? 0 : (pass_set)1 << number_of_pass, &report));
  CHECK(program_make(g, &(program_owner){.place = place, .share = true}, &p));
  char *arena = aligned_alloc(64, program_sizes(p).arena + 64);
  CHECK(program_run(p, &(program_memory){arena, (void *const[]){(void *)(uintptr_t)x}, (void *const[]){y}}));
  program_free(p);
  free(arena);
  return report.n_matches[number_of_pass];
}

static void chains_become_epilogues(void **state) {
  (void)state;
  enum { MOST = DEPTH * 64 };
  uint8_t x[MOST];
  float y[2][MOST];
  random_source r = {9};
  for (int i = 0; i < MOST; ++i) x[i] = (uint8_t)random_below(&r, 256);
  for (int k = 0; k < 4 * N_KINDS; ++k) {
    const chain_kind kind = (chain_kind)(k / 4);
    const bool conv = k & 1, bias = k & 2;
    memset(y, 0, sizeof y);
    const int matches = run_chain(chain_graph(kind, conv, bias, (uint64_t)k), true, x, y[0]);
    assert_int_equal(matches, kind == SCALE_ALL || kind == SCALE_EACH);
    (void)run_chain(chain_graph(kind, conv, bias, (uint64_t)k), false, x, y[1]);
    assert_memory_equal(y[0], y[1], sizeof y[0]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(convolutions_are_exact),
                                     cmocka_unit_test(chains_become_epilogues)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
