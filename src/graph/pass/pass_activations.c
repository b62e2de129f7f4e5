/* SPDX-License-Identifier: Apache-2.0 */
/* Activations that a model has written out become the operators that compute them at once. */
#include "graph/nodes.h"
#include "graph/pass/match.h"
#include "graph/pass/pass.h"

/* A pattern, whose operand is x, and the operator. */
typedef struct {
  const char *pattern;
  op *op;
  int64_t integer; /* an argument of the operator */
} activation;

#define GELU(erf)                                                                                                      \
  {"Mul(Mul(x,Add(Erf(" erf "),1)),0.5)", &op_GeluV2, 0}, {"Mul(x,Mul(Add(Erf(" erf "),1),0.5))", &op_GeluV2, 0}, {    \
    "Mul(Mul(x,0.5),Add(Erf(" erf "),1))", &op_GeluV2, 0                                                               \
  }
#define GELU_TANH(cube)                                                                                                \
  {"Mul(Mul(x,0.5),Add(Tanh(Mul(Add(x,Mul(" cube ",0.044715)),0.7978846)),1))", &op_GeluV2, 1}, {                      \
    "Mul(x,Mul(Add(Tanh(Mul(Add(x,Mul(" cube ",0.044715)),0.7978846)),1),0.5))", &op_GeluV2, 1                         \
  }

static const activation gelus[] = {
    GELU("Div(x,1.4142136)"),
    GELU("Mul(x,0.70710678)"),
    GELU_TANH("PowTensorTensor(x,3)"),
    GELU_TANH("Mul(Mul(x,x),x)"),
    {0},
};

static const activation swishes[] = {
    {"Mul(x,Sigmoid(x))", &op_Silu, 0},
    {"Mul(x,Sigmoid(Mul(x,#b)))", &op_Swish, 0},
    {"Mul(x,Tanh(Softplus(x,1)))", &op_Mish, 0},
    {0},
};

static const activation hard_swishes[] = {
    {"Div(Mul(x,Clamp(Add(x,3),0,6)),6)", &op_Hardswish, 0},
    {"Mul(x,Div(Clamp(Add(x,3),0,6),6))", &op_Hardswish, 0},
    {"Mul(Mul(x,Clamp(Add(x,3),0,6)),0.16666667)", &op_Hardswish, 0},
    {"Mul(x,Mul(Clamp(Add(x,3),0,6),0.16666667))", &op_Hardswish, 0},
    {"Mul(x,Clamp(Adds(Muls(x,0.16666667),0.5),0,1))", &op_Hardswish, 0},
    {"Div(Clamp(Add(x,3),0,6),6)", &op_Hardsigmoid, 0},
    {"Mul(Clamp(Add(x,3),0,6),0.16666667)", &op_Hardsigmoid, 0},
    {"Clamp(Adds(Muls(x,0.16666667),0.5),0,1)", &op_Hardsigmoid, 0},
    {0},
};

/* Whether x has the dtype and the dims of the result, which a constant with one element in more dimensions could have
 * changed. */
static bool has_shape_of_operand(const pattern_match *m) {
  const tensor *x = &match_value(m, 'x')->tensor, *y = &match_result(m)->tensor;
  return x->dtype == y->dtype && dtype_is_float(x->dtype) && tensor_same_dims(x, y);
}

static status activation_replace(pattern_match *m, const activation *a) {
  op_arg args[MATCH_NODES] = {0};
  for (int i = 0; i < a->op->n_args; ++i) {
    const arg_schema *s = &a->op->schema[i];
    if (s->kind == ARG_TENSOR)
      args[i].tensor = s->flags & ARG_READ ? &match_value(m, 'x')->tensor : &match_result(m)->tensor;
    else if (s->kind == ARG_SCALAR && !(args[i].scalar = ir_scalar(m->g, ACL_FLOAT, m->number['b' - 'a'])))
      return ST_NO_HOST_MEMORY;
    else if (s->kind == ARG_INT)
      args[i].integer = a->integer;
  }
  return match_replace(m, a->op, args);
}

static status recognise(ir_graph *g, const activation *table, int *n_matches) {
  graph_uses u;
  *n_matches = 0;
  TRY(uses_find(g, &u));
  for (int i = g->n_nodes - 1; i >= 0; --i) /* the larger pattern first */
    for (const activation *a = table; a->pattern; ++a) {
      pattern_match m;
      if (!match_pattern(&m, g, &u, i, a->pattern) || !has_shape_of_operand(&m)) continue;
      TRY(activation_replace(&m, a));
      ++*n_matches;
      TRY(uses_find(g, &u));
      i -= m.n_nodes - 1; /* the nodes before are fewer now */
      break;
    }
  return ST_OK;
}

status pass_gelu(ir_graph *g, int *n_matches) { return recognise(g, gelus, n_matches); }
status pass_swish(ir_graph *g, int *n_matches) { return recognise(g, swishes, n_matches); }
status pass_hard_swish(ir_graph *g, int *n_matches) { return recognise(g, hard_swishes, n_matches); }
