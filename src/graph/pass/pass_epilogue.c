/* SPDX-License-Identifier: Apache-2.0 */
/* What follows a convolution or a product of matrices element by element becomes its epilogue. From a node's result the
 * chain of its only readers is followed as long as it fits; the node then moves to the place of the last one, behind
 * whatever computes the residual. Nodes are taken from the last to the first, so that of two convolutions whose results
 * are added the later one adds, and the earlier one need not move. */
#include <math.h>
#include <string.h>

#include "graph/nodes.h"
#include "graph/pass/affine.h"
#include "graph/pass/pass.h"
#include "graph/uses.h"
#include "op/activations.h"
#include "tensor/objects.h"

enum { ABSORBED_MOST = 12 };

typedef struct {
  ir_graph *g;
  const graph_uses *uses;
  const ir_node *node;
  bool is_conv;
  const tensor *out; /* of the node and what was absorbed so far */
  const tensor *bias, *residual;
  bool residual_first;
  activation act;
  int absorbed[ABSORBED_MOST], n_absorbed; /* nodes; the last one is where the new node goes */
} chain;

/* ---- nodes that begin a chain ------------------------------------------------------------------------------------ */

/* Places of the arguments in the schemas. */
enum { CONV_INPUT, CONV_WEIGHT, CONV_BIAS, CONV_STRIDE, CONV_PADDING, CONV_DILATION, CONV_TRANSPOSED, CONV_EXTRA };
enum { CONV_GROUPS = 8, CONV_OUTPUT };
enum { MATMUL_SELF, MATMUL_MAT2, MATMUL_OUT };
enum { ADDMM_SELF, ADDMM_MAT1, ADDMM_MAT2, ADDMM_BETA, ADDMM_ALPHA, ADDMM_OUT };

static bool begins_chain(ir_graph *g, const graph_uses *u, const ir_node *n, bool convs, chain *c) {
  *c = (chain){.g = g, .uses = u, .node = n, .is_conv = convs};
  if (convs) {
    if (n->op != &op_Convolution) return false;
    c->out = n->args[CONV_OUTPUT].tensor;
    c->bias = n->args[CONV_BIAS].tensor;
  } else if (n->op == &op_Matmul) {
    c->out = n->args[MATMUL_OUT].tensor;
    if (n->args[MATMUL_SELF].tensor->rank < 2 || n->args[MATMUL_MAT2].tensor->rank < 2) return false;
  } else if (n->op == &op_Addmm) {
    if (scalar_real(n->args[ADDMM_BETA].scalar) != 1 || scalar_real(n->args[ADDMM_ALPHA].scalar) != 1) return false;
    c->out = n->args[ADDMM_OUT].tensor;
    c->bias = n->args[ADDMM_SELF].tensor;
  } else {
    return false;
  }
  const tensor *x = n->args[n->op == &op_Addmm ? ADDMM_MAT1 : 0].tensor;
  return c->out->contiguous && value_of(c->out)->storage->kind == STORAGE_TEMPORARY && !value_is_constant(value_of(x));
}

/* ---- what a chain absorbs ---------------------------------------------------------------------------------------- */

static bool chain_same_dims(const tensor *a, const tensor *b) {
  return a->rank == b->rank && !memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims);
}

/* Adds nodes to the chain, whose last result is out. */
static bool take(chain *c, const ir_node *const *nodes, int n, const tensor *out) {
  if (c->n_absorbed + n > ABSORBED_MOST || !out->contiguous || !chain_same_dims(out, c->out) ||
      out->dtype != c->out->dtype)
    return false;
  for (int i = 0; i < n; ++i) c->absorbed[c->n_absorbed++] = (int)(nodes[i] - c->g->nodes);
  c->out = out;
  return true;
}

/* A sum of the result and another value: a bias of the products' columns, or a residual. */
static bool absorb_sum(chain *c, const ir_node *n) {
  if (n->op != &op_Add || scalar_real(n->args[2].scalar) != 1) return false;
  const tensor *first = n->args[0].tensor, *second = n->args[1].tensor, *out = n->args[3].tensor;
  if ((first == c->out) == (second == c->out)) return false; /* it reads another view of the result, or that twice */
  const tensor *other = first == c->out ? second : first;
  if (other->dtype != c->out->dtype || !chain_same_dims(out, c->out)) return false;
  const bool plain = !c->residual && !c->act.function;
  bool by_column = other->rank <= out->rank;
  for (int d = 1; d < other->rank; ++d) by_column &= other->dims[other->rank - 1 - d] == 1;
  const bool written_once = uses_of(c->uses, value_of(other))->n_writes <= 1; /* or by nobody */
  if (!c->is_conv && plain && !c->bias && by_column && written_once) {
    if (!take(c, &n, 1, out)) return false;
    c->bias = other;
    return true;
  }
  if (c->residual || !other->contiguous || !chain_same_dims(other, out) || !written_once) return false;
  if (!take(c, &n, 1, out)) return false;
  c->residual = other;
  c->residual_first = !c->act.function;
  return true;
}

/* Whether an activation may come now. */
static bool wants_activation(const chain *c) { return !c->act.function && (!c->residual || c->residual_first); }

static bool absorb_function(chain *c, const ir_node *n) {
  static const struct {
    op *op;
    activation_function function;
  } functions[] = {{&op_Relu, ACTIVATION_RELU},
                   {&op_Sigmoid, ACTIVATION_SIGMOID},
                   {&op_Tanh, ACTIVATION_TANH},
                   {&op_Silu, ACTIVATION_SILU},
                   {&op_Hardswish, ACTIVATION_HARD_SWISH}};
  activation act = {ACTIVATION_NONE, {1.0f / 6, 0.5f}};
  const tensor *out = n->args[1].tensor;
  for (size_t i = 0; i < sizeof functions / sizeof *functions; ++i)
    if (functions[i].op == n->op) act.function = functions[i].function;
  if (n->op == &op_GeluV2) {
    act.function = n->args[1].integer ? ACTIVATION_GELU_TANH : ACTIVATION_GELU;
    out = n->args[2].tensor;
  } else if (n->op == &op_LeakyRelu) {
    act = (activation){ACTIVATION_LEAKY_RELU, {(float)scalar_real(n->args[1].scalar)}};
    out = n->args[2].tensor;
  }
  if (!act.function || n->args[0].tensor != c->out || !take(c, &n, 1, out)) return false;
  c->act = act;
  return true;
}

/* scale * min(max(p x + q, low), high), of nodes that are listed. */
typedef struct {
  double p, q, low, high, scale;
  bool clamps;
  const tensor *out;
  const ir_node *nodes[ABSORBED_MOST];
  int n;
} gate;

static bool is_about(double x, double y) { return fabs(x - y) <= 1e-6 * fabs(y); }

/* A clamped function that follows the result: a clamp alone, or one between 0 and 1 of p x + q. */
static bool absorb_clamp(chain *c) {
  gate k = {.p = 1, .scale = 1, .out = c->out};
  for (const ir_node *n; k.n < 4 && (n = uses_only_reader(c->g, c->uses, value_of(k.out)));) {
    affine a;
    if (!k.clamps && affine_of(n, &a) && a.x == k.out) {
      k.p *= a.scale;
      k.q = k.q * a.scale + a.shift;
    } else if (!k.clamps && clamp_of(n, &a) && a.x == k.out) {
      k.clamps = true;
      k.low = a.low;
      k.high = a.high;
    } else if (k.clamps && k.n > 1 && k.high != 1 && affine_of(n, &a) && a.x == k.out && a.shift == 0) {
      k.scale = a.scale;
    } else {
      break;
    }
    k.nodes[k.n++] = n;
    k.out = a.out;
    if (k.clamps && (k.n == 1 || is_about(k.scale * k.high, 1))) break;
  }
  const bool alone = k.clamps && k.n == 1, line = k.clamps && k.low == 0 && is_about(k.scale * k.high, 1);
  if ((!alone && !line) || !take(c, k.nodes, k.n, k.out)) return false;
  if (alone)
    c->act = (activation){ACTIVATION_CLAMP, {(float)k.low, (float)k.high}};
  else
    c->act = (activation){ACTIVATION_HARD_SIGMOID, {(float)(k.p * k.scale), (float)(k.q * k.scale)}};
  return true;
}

/* Follows a gate back from its result, which the result of the chain is multiplied by, to that result. */
static bool gate_before(const chain *c, const tensor *t, gate *k) {
  *k = (gate){.p = 1, .scale = 1};
  for (const ir_node *n; t != c->out; k->nodes[k->n++] = n) {
    affine a;
    if (k->n == 4 || !(n = uses_writer_of_one(c->g, c->uses, value_of(t)))) return false;
    if (affine_of(n, &a) && a.out == t) {
      if (!k->clamps && a.shift != 0) return false;
      if (k->clamps) k->q += k->p * a.shift;
      *(k->clamps ? &k->p : &k->scale) *= a.scale;
    } else if (!k->clamps && clamp_of(n, &a) && a.out == t) {
      k->clamps = true;
      k->low = a.low;
      k->high = a.high;
    } else {
      return false;
    }
    t = a.x;
  }
  return k->clamps && k->low == 0 && isfinite(k->high);
}

/* x sigmoid(x); x times a clamped line, whose bound may be divided out behind the product. x has two readers. */
static bool absorb_gated(chain *c) {
  const storage_uses *s = uses_of(c->uses, value_of(c->out));
  if (s->n_reads != 2 || s->n_writes != 1 || s->last_read >= c->g->n_nodes) return false;
  const ir_node *n = &c->g->nodes[s->last_read];
  if (n->op != &op_Mul) return false;
  const tensor *first = n->args[0].tensor, *second = n->args[1].tensor, *out = n->args[2].tensor;
  if ((first == c->out) == (second == c->out)) return false;
  const tensor *factor = first == c->out ? second : first;
  const ir_node *writer = uses_writer_of_one(c->g, c->uses, value_of(factor));
  if (writer && writer->op == &op_Sigmoid && writer->args[0].tensor == c->out) {
    if (!take(c, (const ir_node *const[]){writer, n}, 2, out)) return false;
    c->act.function = ACTIVATION_SILU;
    return true;
  }
  gate k;
  affine a;
  if (!gate_before(c, factor, &k)) return false;
  k.nodes[k.n++] = n;
  if (!is_about(k.scale * k.high, 1)) {
    const ir_node *scaled = uses_only_reader(c->g, c->uses, value_of(out));
    if (!scaled || !affine_of(scaled, &a) || a.x != out || a.shift != 0) return false;
    if (!is_about(k.scale * k.high * a.scale, 1)) return false;
    k.scale *= a.scale;
    k.nodes[k.n++] = scaled;
    out = a.out;
  }
  if (!take(c, k.nodes, k.n, out)) return false;
  c->act = (activation){ACTIVATION_HARD_SWISH, {(float)(k.p * k.scale), (float)(k.q * k.scale)}};
  return true;
}

static bool absorb(chain *c) {
  const ir_node *n = uses_only_reader(c->g, c->uses, value_of(c->out));
  if (n && absorb_sum(c, n)) return true;
  if (!wants_activation(c)) return false;
  return (n && absorb_function(c, n)) || (n && absorb_clamp(c)) || absorb_gated(c);
}

/* ---- the new node ------------------------------------------------------------------------------------------------ */

typedef struct {
  const graph_uses *uses;
  bool holds;
} written_once;

static void check_written_once(void *argument, ir_value *v, unsigned flags) {
  written_once *w = argument;
  if (flags & ARG_READ && uses_of(w->uses, v)->n_writes > 1) w->holds = false;
}

typedef struct {
  const graph_uses *uses;
  int at;
} move_to;

static void move_use(void *argument, ir_value *v, unsigned flags) {
  const move_to *m = argument;
  storage_uses *s = uses_of(m->uses, v);
  if (flags & ARG_READ && s->last_read < m->at) s->last_read = m->at;
  if (flags & ARG_WRITTEN) s->writer = m->at;
}

static status add_node(const chain *c) {
  ir_graph *g = c->g;
  const op_arg *a = c->node->args;
  ir_value *bias = c->bias ? value_of(c->bias) : NULL, *residual = c->residual ? value_of(c->residual) : NULL;
  const double p = (double)c->act.parameter[0], q = (double)c->act.parameter[1];
  if (c->is_conv)
    return node_ConvolutionEpilogue(g, value_of(a[CONV_INPUT].tensor), value_of(a[CONV_WEIGHT].tensor), bias, residual,
                                    value_of(c->out), a[CONV_STRIDE].ints, a[CONV_PADDING].ints, a[CONV_DILATION].ints,
                                    a[CONV_TRANSPOSED].boolean, a[CONV_EXTRA].ints, a[CONV_GROUPS].integer,
                                    c->act.function, p, q, c->residual_first);
  const int first = c->node->op == &op_Addmm ? ADDMM_MAT1 : MATMUL_SELF;
  return node_MatmulEpilogue(g, value_of(a[first].tensor), value_of(a[first + 1].tensor), bias, residual,
                             value_of(c->out), c->act.function, p, q, c->residual_first);
}

/* Puts a new node in the place of the last absorbed one. */
static status chain_replace(const chain *c, bool *gone) {
  ir_graph *g = c->g;
  const int from = (int)(c->node - g->nodes);
  const int at = c->absorbed[c->n_absorbed - 1];
  g->name = c->node->name;
  g->label = c->node->label;
  g->origin = c->node->origin;
  TRY(add_node(c));
  for (int i = 0; i < c->n_absorbed; ++i) gone[c->absorbed[i]] = true;
  gone[from] = true;
  gone[at] = false;
  g->nodes[at] = g->nodes[--g->n_nodes];
  node_visit(&g->nodes[at], move_use, &(move_to){c->uses, at});
  return ST_OK;
}

static status find_chains(ir_graph *g, bool convs, int *n_matches) {
  bool *gone = REGION_NEW(&g->memory, bool, g->n_nodes);
  graph_uses uses;
  int n = 0;
  *n_matches = 0;
  if (!gone) return fail(ST_NO_HOST_MEMORY, "no host memory for a pass");
  TRY(uses_find(g, &uses));
  for (int i = g->n_nodes - 1; i >= 0; --i) {
    chain c;
    written_once inputs = {&uses, true};
    if (gone[i] || !begins_chain(g, &uses, &g->nodes[i], convs, &c)) continue;
    node_visit(c.node, check_written_once, &inputs);
    while (inputs.holds && absorb(&c)) {
    }
    if (!c.n_absorbed) continue;
    TRY(chain_replace(&c, gone));
    ++*n_matches;
  }
  for (int i = 0; i < g->n_nodes; ++i)
    if (!gone[i]) g->nodes[n++] = g->nodes[i];
  g->n_nodes = n;
  g->name = g->label = g->origin = NULL;
  return ST_OK;
}

status pass_conv_epilogue(ir_graph *g, int *n_matches) { return find_chains(g, true, n_matches); }
status pass_product_epilogue(ir_graph *g, int *n_matches) { return find_chains(g, false, n_matches); }
