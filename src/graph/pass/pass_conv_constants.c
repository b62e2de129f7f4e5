/* SPDX-License-Identifier: Apache-2.0 */
/* conv(x, w) + b, normalised by channel, is conv(x, w * s) + (b - mean) * s + beta, where s is gamma / sqrt(variance +
 * epsilon). All of that is constant. Likewise for constant factors and summands that follow a convolution. Batch norms
 * elsewhere become a product and a sum where elementwise nodes are beside them. */
#include <string.h>

#include "graph/nodes.h"
#include "graph/pass/elementwise.h"
#include "graph/pass/pass.h"
#include "tensor/objects.h"

/* Places of the arguments in the schemas of Convolution and BatchNorm. */
enum { CONV_WEIGHT = 1, CONV_BIAS = 2, CONV_TRANSPOSED = 6, CONV_OUTPUT = 9 };
enum { NORM_INPUT, NORM_GAMMA, NORM_BETA, NORM_MEAN, NORM_VARIANCE, NORM_TRAINING, NORM_EPSILON = 7, NORM_OUTPUT };

static bool conv_is_constant(const tensor *t) { return !t || value_is_constant(value_of(t)); }

/* Whether the node is a convolution whose constants can take the norm's. */
static bool conv_fits(const ir_node *n, const tensor *out) {
  return n->op == &op_Convolution && !n->args[CONV_TRANSPOSED].boolean && n->args[CONV_OUTPUT].tensor == out &&
         conv_is_constant(n->args[CONV_WEIGHT].tensor) && conv_is_constant(n->args[CONV_BIAS].tensor) &&
         out->contiguous;
}

static bool norm_fits(const ir_node *n) {
  if (n->op != &op_BatchNorm || n->args[NORM_TRAINING].boolean) return false;
  for (int i = NORM_GAMMA; i <= NORM_VARIANCE; ++i)
    if (!n->args[i].tensor || !conv_is_constant(n->args[i].tensor)) return false;
  return true;
}

typedef struct {
  const ir_storage *storage;
  int n;
} read_count;

static void count_reads(void *argument, ir_value *v, unsigned flags) {
  read_count *c = argument;
  c->n += flags & ARG_READ && v->storage == c->storage;
}

/* Whether nothing but one node reads the storage. */
static bool is_read_once(const ir_graph *g, const ir_storage *s) {
  read_count c = {.storage = s};
  for (int i = 0; i < g->n_nodes; ++i) node_visit(&g->nodes[i], count_reads, &c);
  for (int i = 0; i < g->n_outputs; ++i) c.n += g->outputs[i]->storage == s;
  return c.n == 1;
}

/* gamma / sqrt(variance + epsilon) */
static status norm_factor(ir_graph *g, const ir_node *norm, ir_value **out) {
  const tensor *variance = norm->args[NORM_VARIANCE].tensor;
  const scalar *epsilon = ir_scalar(g, ACL_DOUBLE, norm->args[NORM_EPSILON].real), *one = ir_scalar(g, ACL_FLOAT, 1);
  ir_value *sum, *root;
  if (!epsilon || !one) return ST_NO_HOST_MEMORY;
  TRY(ir_temporary(g, variance->dtype, variance->dims, variance->rank, &sum));
  TRY(ir_temporary(g, variance->dtype, variance->dims, variance->rank, &root));
  TRY(ir_temporary(g, variance->dtype, variance->dims, variance->rank, out));
  TRY(node_Adds(g, value_of(variance), epsilon, one, sum));
  TRY(node_Sqrt(g, sum, root));
  return node_Div(g, value_of(norm->args[NORM_GAMMA].tensor), root, *out);
}

/* (bias - mean) * factor + beta */
static status new_bias(ir_graph *g, const ir_node *norm, const tensor *bias, ir_value *factor, ir_value **out) {
  const tensor *mean = norm->args[NORM_MEAN].tensor;
  const scalar *one = ir_scalar(g, ACL_FLOAT, 1);
  ir_value *moved, *scaled;
  if (!one) return ST_NO_HOST_MEMORY;
  TRY(ir_temporary(g, mean->dtype, mean->dims, mean->rank, &moved));
  TRY(ir_temporary(g, mean->dtype, mean->dims, mean->rank, &scaled));
  TRY(ir_temporary(g, mean->dtype, mean->dims, mean->rank, out));
  TRY(bias ? node_Sub(g, value_of(bias), value_of(mean), one, moved) : node_Neg(g, value_of(mean), moved));
  TRY(node_Mul(g, moved, factor, scaled));
  return node_Add(g, scaled, value_of(norm->args[NORM_BETA].tensor), one, *out);
}

/* The weight [out channels, ...] times the factor of each output channel, or one factor. */
static status new_weight(ir_graph *g, const tensor *weight, ir_value *factor, ir_value **out) {
  int64_t dims[MAX_RANK];
  ir_value *by_channel;
  for (int d = 0; d < weight->rank; ++d) dims[d] = d ? 1 : factor->tensor.n;
  TRY(ir_reshaped(g, factor, dims, weight->rank, &by_channel));
  TRY(ir_temporary(g, weight->dtype, weight->dims, weight->rank, out));
  return node_Mul(g, value_of(weight), by_channel, *out);
}

static void drop_node(ir_graph *g, int at) {
  memmove(&g->nodes[at], &g->nodes[at + 1], (size_t)(g->n_nodes - at - 1) * sizeof *g->nodes);
  --g->n_nodes;
}

static status join(ir_graph *g, int conv_at, int norm_at) {
  const ir_node norm = g->nodes[norm_at], conv = g->nodes[conv_at]; /* adding nodes may move the array */
  ir_value *factor, *weight, *bias;
  TRY(norm_factor(g, &norm, &factor));
  TRY(new_weight(g, conv.args[CONV_WEIGHT].tensor, factor, &weight));
  TRY(new_bias(g, &norm, conv.args[CONV_BIAS].tensor, factor, &bias));
  conv.args[CONV_WEIGHT].tensor = &weight->tensor;
  conv.args[CONV_BIAS].tensor = &bias->tensor;
  conv.args[CONV_OUTPUT] = norm.args[NORM_OUTPUT];
  drop_node(g, norm_at);
  return ST_OK;
}

status pass_conv_batch_norm(ir_graph *g, int *n_matches) {
  *n_matches = 0;
  for (int i = 1; i < g->n_nodes; ++i) {
    const ir_node *norm = &g->nodes[i];
    if (!norm_fits(norm)) continue;
    const tensor *x = norm->args[NORM_INPUT].tensor;
    int conv = i - 1;
    while (conv >= 0 && !conv_fits(&g->nodes[conv], x)) --conv;
    if (conv < 0 || x->dtype != norm->args[NORM_GAMMA].tensor->dtype || !is_read_once(g, value_of(x)->storage))
      continue;
    TRY(join(g, conv, i--));
    ++*n_matches;
  }
  return ST_OK;
}

/* ---- constant factors and summands ------------------------------------------------------------------------------- */

/* A node that multiplies or adds a constant, which has one element or one for each channel. */
typedef struct {
  const tensor *x, *constant, *out;
  op *op;
} scaling;

static bool is_by_channel(const tensor *t, const tensor *of) {
  if (!value_is_constant(value_of(t)) || t->rank > of->rank || t->dtype != of->dtype) return false;
  for (int d = 0; d < t->rank; ++d) {
    const int at = of->rank - t->rank + d;
    if (t->dims[d] != 1 && (at != 1 || t->dims[d] != of->dims[1])) return false;
  }
  return true;
}

static bool scaling_of(const ir_node *n, scaling *s) {
  const bool sum = n->op == &op_Add || n->op == &op_Sub, either = n->op == &op_Add || n->op == &op_Mul;
  if (!sum && n->op != &op_Mul && n->op != &op_Div) return false;
  const tensor *first = n->args[0].tensor, *second = n->args[1].tensor;
  *s = (scaling){.x = first, .constant = second, .out = n->args[sum ? 3 : 2].tensor, .op = n->op};
  if (sum && scalar_real(n->args[2].scalar) != 1) return false;
  if (either && value_is_constant(value_of(first))) s->x = second, s->constant = first;
  return s->x->rank >= 3 && s->out->rank == s->x->rank && s->x->dtype == s->out->dtype &&
         is_by_channel(s->constant, s->x);
}

/* a (op) b for constants of one dimension. */
static status scale_by_channel(ir_graph *g, op *o, ir_value *a, ir_value *b, int64_t n, ir_value **out) {
  const scalar *one = ir_scalar(g, ACL_FLOAT, 1);
  if (!one) return ST_NO_HOST_MEMORY;
  TRY(ir_temporary(g, a->tensor.dtype, &n, 1, out));
  if (o == &op_Add) return node_Add(g, a, b, one, *out);
  if (o == &op_Sub) return node_Sub(g, a, b, one, *out);
  return o == &op_Mul ? node_Mul(g, a, b, *out) : node_Div(g, a, b, *out);
}

static status scale(ir_graph *g, int conv_at, int at, const scaling *s) {
  const ir_node conv = g->nodes[conv_at];
  const tensor *given = conv.args[CONV_BIAS].tensor, *weight = conv.args[CONV_WEIGHT].tensor;
  const int64_t channels = s->x->dims[1], n = s->constant->n;
  ir_value *constant, *bias = given ? value_of(given) : NULL, *by;
  TRY(ir_reshaped(g, value_of(s->constant), &n, 1, &constant));
  if (s->op == &op_Add || s->op == &op_Sub) {
    if (!bias) TRY(ir_constant(g, s->x->dtype, &channels, 1, NULL, &bias));
    TRY(scale_by_channel(g, s->op, bias, constant, channels, &bias));
  } else {
    by = constant;
    if (s->op == &op_Div) {
      TRY(ir_number(g, s->x->dtype, 1, &by));
      TRY(scale_by_channel(g, &op_Div, by, constant, n, &by));
    }
    if (bias) TRY(scale_by_channel(g, &op_Mul, bias, by, channels, &bias));
    TRY(new_weight(g, weight, by, &by));
    conv.args[CONV_WEIGHT].tensor = &by->tensor;
  }
  if (bias) conv.args[CONV_BIAS].tensor = &bias->tensor;
  conv.args[CONV_OUTPUT].tensor = s->out;
  drop_node(g, at);
  return ST_OK;
}

status pass_conv_scale(ir_graph *g, int *n_matches) {
  *n_matches = 0;
  for (int i = 1; i < g->n_nodes; ++i) {
    scaling s;
    if (!scaling_of(&g->nodes[i], &s)) continue;
    int conv = i - 1;
    while (conv >= 0 && !conv_fits(&g->nodes[conv], s.x)) --conv;
    if (conv < 0 || !is_read_once(g, value_of(s.x)->storage)) continue;
    const tensor *weight = g->nodes[conv].args[CONV_WEIGHT].tensor, *bias = g->nodes[conv].args[CONV_BIAS].tensor;
    if (weight->dtype != s.x->dtype || (bias && bias->dtype != s.x->dtype)) continue;
    TRY(scale(g, conv, i--, &s));
    ++*n_matches;
  }
  return ST_OK;
}

/* ---- batch norms elsewhere --------------------------------------------------------------------------------------- */

typedef struct {
  const ir_storage *storage;
  unsigned flag;
  bool does;
} norm_neighbour;

static void search_neighbour(void *argument, ir_value *v, unsigned flags) {
  norm_neighbour *s = argument;
  s->does |= flags & s->flag && v->storage == s->storage;
}

/* Whether an elementwise node makes what a norm reads, or reads what it makes. */
static bool is_beside_elementwise(const ir_graph *g, const ir_node *norm) {
  for (int i = 0; i < g->n_nodes; ++i) {
    norm_neighbour before = {.storage = value_of(norm->args[NORM_INPUT].tensor)->storage, .flag = ARG_WRITTEN},
                   behind = {.storage = value_of(norm->args[NORM_OUTPUT].tensor)->storage, .flag = ARG_READ};
    node_visit(&g->nodes[i], search_neighbour, &before);
    node_visit(&g->nodes[i], search_neighbour, &behind);
    if ((before.does || behind.does) && node_is_elementwise(&g->nodes[i])) return true;
  }
  return false;
}

/* A constant of one dimension, the channels, as a view that broadcasts to a value of this rank. */
static status channels_as_operand(ir_graph *g, ir_value *v, int rank, ir_value **out) {
  int64_t dims[MAX_RANK];
  for (int d = 0; d + 1 < rank; ++d) dims[d] = d ? 1 : v->tensor.n;
  return ir_reshaped(g, v, dims, rank - 1, out);
}

/* Replaces the norm by x * factor and the sum of that and shift. */
static status norm_as_sum(ir_graph *g, int at) {
  const ir_node norm = g->nodes[at]; /* adding nodes may move the array */
  const tensor *x = norm.args[NORM_INPUT].tensor;
  const scalar *one = ir_scalar(g, ACL_FLOAT, 1);
  ir_value *factor, *shift, *product;
  if (!one) return ST_NO_HOST_MEMORY;
  TRY(norm_factor(g, &norm, &factor));
  TRY(new_bias(g, &norm, NULL, factor, &shift));
  TRY(channels_as_operand(g, factor, x->rank, &factor));
  TRY(channels_as_operand(g, shift, x->rank, &shift));
  TRY(ir_temporary(g, x->dtype, x->dims, x->rank, &product));
  const int n = g->n_nodes;
  g->name = norm.name;
  g->label = norm.label;
  g->origin = norm.origin;
  TRY(node_Mul(g, value_of(x), factor, product));
  TRY(node_Add(g, product, shift, one, value_of(norm.args[NORM_OUTPUT].tensor)));
  g->name = g->label = g->origin = NULL;
  const ir_node first = g->nodes[n], second = g->nodes[n + 1];
  memmove(&g->nodes[at + 2], &g->nodes[at + 1], (size_t)(n - at - 1) * sizeof *g->nodes);
  g->nodes[at] = first;
  g->nodes[at + 1] = second;
  g->n_nodes = n + 1;
  return ST_OK;
}

status pass_batch_norm(ir_graph *g, int *n_matches) {
  *n_matches = 0;
  for (int i = 0; i < g->n_nodes; ++i) {
    const ir_node *n = &g->nodes[i];
    if (!norm_fits(n)) continue;
    const tensor *x = n->args[NORM_INPUT].tensor;
    /* 16-bit types would be rounded twice */
    if ((x->dtype != ACL_FLOAT && x->dtype != ACL_DOUBLE) || x->dtype != n->args[NORM_GAMMA].tensor->dtype ||
        x->rank < 2 || value_is_constant(value_of(x)) || !is_beside_elementwise(g, n))
      continue;
    TRY(norm_as_sum(g, i++));
    ++*n_matches;
  }
  return ST_OK;
}
