/* SPDX-License-Identifier: Apache-2.0 */
/* Each pass matches where it should, and only there, and the result is the same up to rounding. A case is an
 * expression, of which a graph is made. */
#include "graph/pass/pass.h"

#include <ctype.h>
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

enum { ROWS = 3, COLUMNS = 8, MOST_OUTPUTS = 2, INPUTS = 4, MOST_ELEMENTS = 16 * ROWS * COLUMNS };

/* ---- graphs of expressions --------------------------------------------------------------------------------------- */

/* x: [2, ROWS, COLUMNS]; g and b: [COLUMNS]; r: [2, ROWS, 1]. */
static const struct {
  char name;
  int rank;
  int64_t dims[3];
} inputs[INPUTS] = {{'x', 3, {2, ROWS, COLUMNS}}, {'g', 1, {COLUMNS}}, {'b', 1, {COLUMNS}}, {'r', 3, {2, ROWS, 1}}};

/* Operators by name. Mean: over the last dimension; MeanOfRows: over the one before. */
static op *const unary[] = {&op_Sigmoid, &op_Erf, &op_Tanh, &op_Sqrt, &op_Reciprocal, &op_Relu, &op_Exp, NULL};
static op *const binary[] = {&op_Add, &op_Sub, &op_Mul, &op_Div, &op_PowTensorTensor, NULL};

static op *find(op *const *table, const char *name, size_t n) {
  for (; *table; ++table)
    if (strlen((*table)->name) == n && strncmp((*table)->name, name, n) == 0) return *table;
  return NULL;
}

static ir_value *make(ir_graph *g, const char **text);
static ir_value *named[26]; /* by expressions before: "c=Relu(x);Add(c,c)" */

static double number(const char **text) {
  char *end;
  const double x = strtod(*text, &end);
  *text = end;
  return x;
}

static const scalar *next_scalar(ir_graph *g, const char **text) {
  ++*text; /* comma */
  return ir_scalar(g, ACL_FLOAT, number(text));
}

static ir_value *make_binary(ir_graph *g, op *o, ir_value *a, const char **text) {
  ir_value *y, *b;
  ++*text;
  b = make(g, text);
  const tensor *larger = a->tensor.n >= b->tensor.n ? &a->tensor : &b->tensor;
  CHECK(ir_temporary(g, ACL_FLOAT, larger->dims, larger->rank, &y));
  const op_arg out = {.tensor = &y->tensor}, alpha = {.scalar = ir_scalar(g, ACL_INT64, 1)};
  CHECK(ir_add(g, o,
               (const op_arg[]){{.tensor = &a->tensor}, {.tensor = &b->tensor}, o->n_args == 4 ? alpha : out, out}));
  return y;
}

static ir_value *make_mean(ir_graph *g, const ir_value *x, int axis) {
  ir_value *y;
  int64_t dims[3];
  memcpy(dims, x->tensor.dims, sizeof dims);
  dims[axis] = 1;
  const int64_t axes[] = {axis};
  CHECK(ir_temporary(g, ACL_FLOAT, dims, 3, &y));
  CHECK(node_Mean(g, x, ir_int_array(g, axes, 1), true, ACL_FLOAT, y));
  return y;
}

/* Two values, one behind the other along an axis. */
static ir_value *make_cat(ir_graph *g, ir_value *a, const char **text, int axis) {
  ir_value *b, *y;
  int64_t dims[3];
  ++*text;
  b = make(g, text);
  memcpy(dims, a->tensor.dims, sizeof dims);
  dims[axis] += b->tensor.dims[axis];
  CHECK(ir_temporary(g, ACL_FLOAT, dims, 3, &y));
  CHECK(node_Cat(g, ir_list(g, (ir_value *[]){a, b}, 2), axis, y));
  return y;
}

static ir_value *make_product(ir_graph *g, const ir_value *a, const char **text) {
  ir_value *y;
  ++*text;
  const ir_value *b = make(g, text);
  const int64_t dims[] = {a->tensor.dims[0], a->tensor.dims[1], b->tensor.dims[2]};
  CHECK(ir_temporary(g, ACL_FLOAT, dims, 3, &y));
  CHECK(node_Matmul(g, a, b, y, 0));
  return y;
}

/* A batch norm with constants; the channels are the rows. */
static ir_value *make_norm(ir_graph *g, const ir_value *x) {
  static const float constants[][ROWS] = {{1, -2, 0.5f}, {0, 1, -1}, {0.25f, 1, -3}, {1, 4, 0.5f}};
  const int64_t n = ROWS;
  ir_value *c[4], *y;
  for (int i = 0; i < 4; ++i) CHECK(ir_constant(g, ACL_FLOAT, &n, 1, constants[i], &c[i]));
  CHECK(ir_temporary(g, ACL_FLOAT, x->tensor.dims, x->tensor.rank, &y));
  CHECK(node_BatchNorm(g, x, c[0], c[1], c[2], c[3], false, 0.1, 1e-5, y, NULL, NULL));
  return y;
}

static ir_value *make_other(ir_graph *g, const char *name, ir_value *x, const char **text) {
  ir_value *y;
  if (strncmp(name, "Cat0", 4) == 0) return make_cat(g, x, text, 0);
  if (strncmp(name, "Cat1", 4) == 0) return make_cat(g, x, text, 1);
  if (strncmp(name, "Product", 7) == 0) return make_product(g, x, text);
  if (strncmp(name, "Norm", 4) == 0) return make_norm(g, x);
  if (strncmp(name, "Copied", 6) == 0) {
    CHECK(ir_contiguous(g, x, &y));
    return y;
  }
  if (strncmp(name, "Viewed", 6) == 0) { /* another view of the same */
    CHECK(ir_view(g, x, x->tensor.dims, x->tensor.strides, x->tensor.rank, 0, &y));
    return y;
  }
  if (strncmp(name, "Turned", 6) == 0) {
    CHECK(ir_permuted(g, x, (const int[]){0, 2, 1}, &y));
    return y;
  }
  if (strncmp(name, "Softmax", 7) != 0) return NULL;
  CHECK(ir_temporary(g, ACL_FLOAT, x->tensor.dims, x->tensor.rank, &y));
  CHECK(node_Softmax(g, x, 2, y));
  return y;
}

static ir_value *make_call(ir_graph *g, const char **text) {
  const char *name = *text;
  const size_t n = strcspn(name, "(");
  ir_value *y;
  op *o;
  *text += n + 1;
  ir_value *x = make(g, text);
  if ((y = make_other(g, name, x, text))) {
  } else if ((o = find(binary, name, n))) {
    y = make_binary(g, o, x, text);
  } else if (strncmp(name, "Mean", n) == 0) {
    y = make_mean(g, x, 2);
  } else if (strncmp(name, "MeanOfRows", n) == 0) {
    y = make_mean(g, x, 1);
  } else {
    CHECK(ir_temporary(g, ACL_FLOAT, x->tensor.dims, x->tensor.rank, &y));
    const scalar *a = **text == ',' ? next_scalar(g, text) : NULL, *b = **text == ',' ? next_scalar(g, text) : NULL;
    if ((o = find(unary, name, n)))
      CHECK(ir_add(g, o, (const op_arg[]){{.tensor = &x->tensor}, {.tensor = &y->tensor}}));
    else if (strncmp(name, "Clamp", n) == 0)
      CHECK(node_Clamp(g, x, a, b, y));
    else if (strncmp(name, "Muls", n) == 0)
      CHECK(node_Muls(g, x, a, y));
    else if (strncmp(name, "Adds", n) == 0)
      CHECK(node_Adds(g, x, a, ir_scalar(g, ACL_FLOAT, 1), y));
    else if (strncmp(name, "Softplus", n) == 0)
      CHECK(node_Softplus(g, x, a, ir_scalar(g, ACL_FLOAT, 40), y));
    else
      fail_msg("%s", name);
  }
  assert_int_equal(*(*text)++, ')');
  return y;
}

static ir_value *make(ir_graph *g, const char **text) {
  ir_value *v;
  if (isupper((unsigned char)**text)) return make_call(g, text);
  if (!islower((unsigned char)**text)) {
    const int64_t one[] = {1};
    CHECK(ir_constant(g, ACL_FLOAT, one, 1, NULL, &v));
    *(float *)ir_fill(v) = (float)number(text);
    return v;
  }
  if (named[**text - 'a']) return named[*(*text)++ - 'a'];
  for (int i = 0; i < INPUTS; ++i)
    if (inputs[i].name == **text) return ++*text, g->inputs[i];
  fail_msg("%s", *text);
  return NULL;
}

/* The result of the expression is an output; also that of the first node of an operator, if `also` is one. */
static ir_graph *graph_of(const char *text, const char *also) {
  ir_graph *g = ir_new();
  ir_value *v;
  for (int i = 0; i < INPUTS; ++i) {
    const char name[] = {inputs[i].name, 0};
    CHECK(ir_input(g, name, ACL_FLOAT, inputs[i].dims, inputs[i].rank, &v));
    v->name = "";
  }
  g->outputs = REGION_NEW(&g->memory, ir_value *, MOST_OUTPUTS);
  memset(named, 0, sizeof named);
  for (; text[1] == '='; ++text) {
    const char name = text[0];
    text += 2;
    named[name - 'a'] = make(g, &text);
  }
  g->outputs[g->n_outputs++] = make(g, &text);
  if (also) {
    for (int i = 0; i < g->n_nodes && g->n_outputs == 1; ++i)
      if (strcmp(g->nodes[i].op->name, also) == 0)
        g->outputs[g->n_outputs++] = value_of(g->nodes[i].args[g->nodes[i].op->n_args - 1].tensor);
    assert_int_equal(g->n_outputs, 2);
  }
  return g;
}

/* ---- cases ------------------------------------------------------------------------------------------------------- */

static status place(void *owner, ir_storage **constants, int n) {
  (void)owner;
  for (int i = 0; i < n; ++i) constants[i]->address = (void *)(uintptr_t)constants[i]->contents;
  return ST_OK;
}

static void run(ir_graph *g, float y[MOST_OUTPUTS][MOST_ELEMENTS]) {
  float x[INPUTS][2 * ROWS * COLUMNS];
  program *p;
  for (int i = 0; i < INPUTS; ++i)
    for (int k = 0; k < 2 * ROWS * COLUMNS; ++k) x[i][k] = (float)((k * 37 + i * 11) % 23 - 11) / 3;
  CHECK(program_make(g, &(program_owner){.place = place, .share = true}, &p));
  char *arena = aligned_alloc(64, program_sizes(p).arena + 64);
  CHECK(program_run(p, &(program_memory){arena, (void *const[]){x[0], x[1], x[2], x[3]}, (void *const[]){y[0], y[1]}}));
  program_free(p);
  free(arena);
}

typedef struct {
  const char *pass, *text;
  const char *also; /* the operator whose result is an output, too; NULL: none */
  int matches;
} pattern_case;

#define D     "Sub(x,Mean(x))"
#define LAYER "Div(" D ",Sqrt(Add(Mean(PowTensorTensor(" D ",2)),1e-5)))"

static const pattern_case cases[] = {
    {"SwishFusionPass", "Mul(x,Sigmoid(x))", NULL, 1},
    {"SwishFusionPass", "Mul(Sigmoid(x),x)", NULL, 1},
    {"SwishFusionPass", "Mul(x,Sigmoid(Mul(1.702,x)))", NULL, 1},
    {"SwishFusionPass", "Mul(Relu(x),Sigmoid(Relu(x)))", NULL, 0}, /* two values, though they are equal */
    {"SwishFusionPass", "Mul(x,Sigmoid(x))", "Sigmoid", 0},        /* which somebody reads */
    {"SwishFusionPass", "Mul(x,Sigmoid(r))", NULL, 0},
    {"SwishFusionPass", "Mul(x,Tanh(Softplus(x,1)))", NULL, 1},
    {"SwishFusionPass", "Mul(x,Tanh(Softplus(x,2)))", NULL, 0},
    {"GeluFusionPass", "Mul(Mul(x,Add(Erf(Div(x,1.4142135)),1)),0.5)", NULL, 1},
    {"GeluFusionPass", "Mul(0.5,Mul(x,Add(1,Erf(Mul(x,0.70710677)))))", NULL, 1},
    {"GeluFusionPass", "Mul(Mul(x,0.5),Add(Erf(Div(x,1.4142135)),1))", NULL, 1},
    {"GeluFusionPass", "Mul(Mul(x,0.5),Add(Erf(Div(x,1.5)),1))", NULL, 0},
    {"GeluFusionPass", "Mul(Mul(x,0.5),Add(Erf(Div(r,1.4142135)),1))", NULL, 0},
    {"GeluFusionPass", "Mul(Mul(x,0.5),Add(Tanh(Mul(Add(x,Mul(PowTensorTensor(x,3),0.044715)),0.7978845)),1))", NULL,
     1},
    {"HardSwishFusionPass", "Div(Mul(x,Clamp(Add(x,3),0,6)),6)", NULL, 1},
    {"HardSwishFusionPass", "Mul(x,Div(Clamp(Add(x,3),0,6),6))", NULL, 1},
    {"HardSwishFusionPass", "Mul(Mul(x,Clamp(Add(3,x),0,6)),0.16666667)", NULL, 1},
    {"HardSwishFusionPass", "Mul(x,Clamp(Adds(Muls(x,0.16666667),0.5),0,1))", NULL, 1},
    {"HardSwishFusionPass", "Clamp(Adds(Muls(x,0.16666667),0.5),0,1)", NULL, 1},
    {"HardSwishFusionPass", "Clamp(Adds(Muls(x,0.2),0.5),0,1)", NULL, 0},
    {"HardSwishFusionPass", "Div(Mul(x,Clamp(Add(x,2),0,6)),6)", NULL, 0},
    {"HardSwishFusionPass", "Div(Mul(x,Clamp(Add(x,3),0,6)),6)", "Add", 0},
    {"LayerNormONNXFusionPass", LAYER, NULL, 1},
    {"LayerNormONNXFusionPass", "Add(Mul(" LAYER ",g),b)", NULL, 1},
    {"LayerNormONNXFusionPass", "Add(b,Mul(g," LAYER "))", NULL, 1},
    {"LayerNormONNXFusionPass", "Add(Mul(" LAYER ",r),b)", NULL, 1}, /* r is by rows: not part of the norm */
    {"LayerNormONNXFusionPass", "Add(Mul(" LAYER ",g),b)", "Div", 1},
    {"LayerNormONNXFusionPass", "Add(Mul(" LAYER ",g),b)", "Sqrt", 0},
    {"LayerNormONNXFusionPass", "Mul(" D ",Reciprocal(Sqrt(Add(Mean(Mul(" D "," D ")),1e-5))))", NULL, 1},
    {"LayerNormONNXFusionPass", "Div(Sub(x,MeanOfRows(x)),Sqrt(Add(Mean(PowTensorTensor(" D ",2)),1e-5)))", NULL, 0},
    {"LayerNormONNXFusionPass",
     "Div(Sub(x,MeanOfRows(x)),Sqrt(Add(MeanOfRows(PowTensorTensor(Sub(x,MeanOfRows(x)),2)),1e-5)))", NULL, 0},
    {"LayerNormONNXFusionPass", "Div(" D ",Sqrt(Add(Mean(PowTensorTensor(" D ",3)),1e-5)))", NULL, 0},
    {"RmsNormFusionPass", "Mul(Div(x,Sqrt(Add(Mean(PowTensorTensor(x,2)),1e-5))),g)", NULL, 1},
    {"RmsNormFusionPass", "Mul(g,Mul(x,Reciprocal(Sqrt(Add(Mean(Mul(x,x)),1e-5)))))", NULL, 1},
    {"RmsNormFusionPass", "Div(x,Sqrt(Add(Mean(PowTensorTensor(x,2)),1e-5)))", NULL, 0},
    {"RmsNormFusionPass", "Mul(Div(x,Sqrt(Add(MeanOfRows(PowTensorTensor(x,2)),1e-5))),g)", NULL, 0},
    {"MatMulBiasAddFusionPass", "Add(Product(x,Turned(x)),1.5)", NULL, 1},
    {"MatMulBiasAddFusionPass", "Add(Viewed(Product(x,Turned(x))),1.5)", NULL, 0},
    /* few queries of a head are worth it, whatever their size */
    {"FlashAttentionFusionPass", "Relu(Product(Softmax(Product(x,Turned(x))),x))", NULL, 1},
    {"FlashAttentionFusionPass", "Product(Softmax(Div(Product(x,Turned(x)),2.8)),x)", NULL, 1},
    {"FlashAttentionFusionPass", "Product(Softmax(Add(r,Muls(Product(x,Turned(x)),0.3))),Mul(x,g))", NULL, 1},
    {"FlashAttentionFusionPass", "Product(Softmax(Product(Mul(x,0.3),Turned(x))),x)", NULL, 1},
    {"FlashAttentionFusionPass", "Product(Softmax(Product(Copied(Turned(Mul(x,0.3))),x)),Turned(x))", NULL,
     0}, /* many */
    {"FlashAttentionFusionPass", "Product(Softmax(Product(x,Copied(Turned(x)))),x)", NULL, 1},
    {"FlashAttentionFusionPass", "Relu(Copied(Turned(Product(Softmax(Product(x,Turned(x))),x))))", NULL, 1},
    {"FlashAttentionFusionPass", "Product(Softmax(Muls(Product(x,Turned(x)),-0.3)),x)", NULL, 0},
    {"FlashAttentionFusionPass", "Product(Softmax(Adds(Product(x,Turned(x)),1)),x)", NULL, 0},
    {"FlashAttentionFusionPass", "Product(Softmax(Product(x,Turned(x))),x)", "Softmax", 0},
    {"FlashAttentionFusionPass", "Product(Softmax(Product(Product(x,Turned(x)),x)),Turned(x))", NULL, 1},
    {"FlashAttentionFusionPass", "c=Product(x,Turned(x));Product(Softmax(c),Mul(c,2))", NULL, 0},
    {"CommonSubexpressionEliminationPass", "Add(Relu(x),Softmax(Relu(x)))", NULL, 1},
    {"CommonSubexpressionEliminationPass", "Add(Exp(Add(x,2)),Relu(Add(x,2)))", NULL, 1}, /* equal constants */
    {"CommonSubexpressionEliminationPass", "Add(Exp(Add(x,2)),Relu(Add(x,3)))", NULL, 0},
    {"CommonSubexpressionEliminationPass", "Add(Relu(x),Exp(x))", NULL, 0},
    {"CommonSubexpressionEliminationPass", "Add(Clamp(x,0,1),Clamp(x,0,2))", NULL, 0},
    {"BatchnormScalePass", "Relu(Norm(x))", NULL, 1},
    {"BatchnormScalePass", "Softmax(Norm(Relu(x)))", NULL, 1},
    {"BatchnormScalePass", "c=Norm(x);d=Norm(Softmax(c));Add(c,Softmax(d))", NULL, 1}, /* d has no such neighbour */
    {"BatchnormScalePass", "Softmax(Norm(Softmax(x)))", NULL, 0},
    {"ElementwiseFusionPass", "Exp(Relu(x))", NULL, 1},
    {"ElementwiseFusionPass", "Exp(Relu(x))", "Relu", 1}, /* two results */
    {"ElementwiseFusionPass", "Add(Softmax(Mul(Exp(x),g)),b)", NULL, 1},
    {"ElementwiseFusionPass", "Mul(Softmax(Exp(Relu(x))),Sqrt(Clamp(x,1,2)))", NULL, 2},
    {"ElementwiseFusionPass", "Exp(x)", NULL, 0},
    {"ElementwiseFusionPass", "Exp(Turned(Relu(x)))", NULL, 0},
    {"ElementwiseFusionPass", "Exp(Relu(Turned(x)))", NULL, 1},
    {"ElementwiseFusionPass", "Add(Relu(r),x)", NULL, 0}, /* r is repeated in each row */
    {"ElementwiseFusionPass", "Exp(Softmax(Relu(x)))", NULL, 0},
    /* the softmax must run between the two that read c */
    {"ElementwiseFusionPass", "c=Relu(x);Add(Softmax(c),Exp(c))", NULL, 1},
    {"ElementwiseFusionPass", "c=Relu(x);d=Exp(c);Add(Softmax(c),d)", NULL, 1},
    {"InPlacePass", "Exp(Exp(Softmax(x)))", NULL, 1}, /* not over an output */
    {"InPlacePass", "Softmax(Exp(Softmax(x)))", NULL, 1},
    {"InPlacePass", "Softmax(Mul(Softmax(x),r))", NULL, 1},
    {"InPlacePass", "Softmax(Mul(x,Softmax(r)))", NULL, 0}, /* which is repeated in each row */
    {"InPlacePass", "Softmax(Exp(x))", NULL, 0},            /* inputs are not written */
    {"InPlacePass", "c=Softmax(x);Add(Softmax(Exp(c)),c)", NULL, 0},
    {"InPlacePass", "Softmax(Exp(Turned(Softmax(x))))", NULL, 0},
    {"ZConcatDFusionPass", "Softmax(Cat0(Exp(x),Relu(x)))", NULL, 1},
    {"ZConcatDFusionPass", "Softmax(Cat0(Exp(x),x))", NULL, 1}, /* one is copied still */
    {"ZConcatDFusionPass", "c=Exp(x);Cat0(Softmax(Cat0(c,Relu(x))),Cat0(Softmax(c),Softmax(x)))", NULL, 2},
    {"ZConcatDFusionPass", "Softmax(Cat0(Cat0(Exp(x),Relu(x)),Sqrt(x)))", NULL, 2},
    {"ZConcatDFusionPass", "Cat0(Exp(x),Relu(x))", NULL, 0},           /* an output */
    {"ZConcatDFusionPass", "Softmax(Cat1(Exp(x),Relu(x)))", NULL, 0},  /* not in one piece */
    {"ZConcatDFusionPass", "Softmax(Cat0(Exp(x),Relu(x)))", "Exp", 1}, /* which is copied */
    {"ZConcatDFusionPass", "c=Exp(x);Softmax(Cat0(c,c))", NULL, 0},
};

static void check_case(const pattern_case *c) {
  static float plain[MOST_OUTPUTS][MOST_ELEMENTS], passed[MOST_OUTPUTS][MOST_ELEMENTS];
  const int which = pass_find(c->pass);
  int n;
  assert_true(which >= 0);
  ir_graph *g = graph_of(c->text, c->also);
  CHECK(pass_outputs(g));
  run(g, plain);
  g = graph_of(c->text, c->also);
  const int before = g->n_nodes;
  CHECK(passes[which].run(g, &n));
  if (n != c->matches) fail_msg("%s matches %d times, expected %d: %s", c->pass, n, c->matches, c->text);
  const bool fewer = strcmp(c->pass, "InPlacePass") != 0 && strcmp(c->pass, "ZConcatDFusionPass") != 0;
  const int more = strcmp(c->pass, "BatchnormScalePass") == 0 ? n : 0;
  assert_true(n && fewer && !more ? g->n_nodes < before : g->n_nodes <= before + more);
  CHECK(pass_outputs(g));
  run(g, passed);
  for (int i = 0; i < (c->also ? 2 : 1); ++i)
    for (int k = 0; k < MOST_ELEMENTS; ++k)
      if (!(fabsf(plain[i][k] - passed[i][k]) <= 4e-6f + 2e-6f * fabsf(plain[i][k])) &&
          !(isnan(plain[i][k]) && isnan(passed[i][k])))
        fail_msg("%s: element %d of output %d is %g, expected %g: %s", c->pass, k, i, (double)passed[i][k],
                 (double)plain[i][k], c->text);
}

static void test_patterns(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) check_case(&cases[i]);
}

/* A pass is found by its name, and runs unless its bit is set. */
static void test_switches(void **state) {
  pass_report report;
  (void)state;
  assert_int_equal(pass_find("no pass"), -1);
  const int which = pass_find("swishfusionpass");
  ir_graph *g = graph_of("Mul(x,Sigmoid(x))", NULL);
  CHECK(pass_all(g, 0, &report));
  assert_int_equal(report.n_matches[which], 1);
  assert_int_equal(g->n_nodes, 1);
  ir_free(g);
  g = graph_of("Mul(x,Sigmoid(x))", NULL);
  CHECK(pass_all(g, ~UINT64_C(0), &report));
  assert_int_equal(report.n_matches[which], 0);
  assert_int_equal(g->n_nodes, 2);
  ir_free(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_patterns),
      cmocka_unit_test(test_switches),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
