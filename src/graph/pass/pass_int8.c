/* SPDX-License-Identifier: Apache-2.0 */
/* What follows a product or a convolution of 8-bit integers becomes its epilogue: the conversion to float, the product
 * with a scale, and the sum with a bias, one for all or for each column or output channel. The kernel rounds after each
 * of them, as the nodes do, so that results keep their bits; the int32 sums are not stored. Scales may be computed by
 * the model, so the new node stands where the last one was. */
#include <string.h>

#include "graph/nodes.h"
#include "graph/pass/pass.h"
#include "graph/uses.h"
#include "tensor/objects.h"

/* Places of the arguments in the schemas; those of MatmulInteger and ConvolutionInteger are the same up to here. */
enum { INT8_INPUT, INT8_WEIGHT, INT8_INPUT_ZERO, INT8_WEIGHT_ZERO, INT8_SCALE, INT8_BIAS, INT8_OUT };
enum { CAST_SELF, CAST_DTYPE, CAST_OUT };
enum { BINARY_SELF, BINARY_OTHER };

typedef struct {
  ir_graph *g;
  const graph_uses *uses;
  ir_value *out, *scale, *bias; /* scale and bias: as vectors or numbers */
  int absorbed[3], n;
  int channel; /* the dimension of out, counted from the last, that has columns or output channels */
} int8_chain;

/* Whether a tensor has one number for each channel, and the same for all that it is expanded over. */
static bool int8_by_channel(const int8_chain *c, const tensor *t, int64_t channels) {
  const int at = t->rank - 1 - c->channel;
  bool holds = at >= 0 && t->dims[at] == channels && t->strides[at] == 1;
  for (int d = 0; d < t->rank; ++d) holds &= d == at || t->dims[d] == 1 || t->strides[d] == 0;
  return holds;
}

/* The operand of a node beside the chain's result, if it has one value for all, or one for each channel. It becomes a
 * vector or a number. */
static bool other_operand(const int8_chain *c, const ir_node *n, ir_value **out) {
  const tensor *a = n->args[BINARY_SELF].tensor, *b = n->args[BINARY_OTHER].tensor;
  const bool first = value_of(a)->storage == c->out->storage;
  const tensor *t = first ? b : a;
  ir_value *v = value_of(t);
  if (first == (value_of(b)->storage == c->out->storage) || t->dtype != ACL_FLOAT) return false;
  if (uses_of(c->uses, v)->n_writes > 1) return false;
  if (t->n == 1) return ir_view(c->g, v, NULL, NULL, 0, 0, out) == ST_OK;
  const int64_t channels = c->out->tensor.dims[c->out->tensor.rank - 1 - c->channel];
  const int64_t stride = 1;
  return int8_by_channel(c, t, channels) && ir_view(c->g, v, &channels, &stride, 1, 0, out) == ST_OK;
}

/* Takes a node whose result is `to` into the chain. */
static bool int8_take(int8_chain *c, const ir_node *n, const tensor *to) {
  if (to->dtype != ACL_FLOAT || !to->contiguous || to->n != c->out->tensor.n) return false;
  c->absorbed[c->n++] = (int)(n - c->g->nodes);
  c->out = value_of(to);
  return true;
}

static const ir_node *int8_next(const int8_chain *c) { return uses_only_reader(c->g, c->uses, c->out); }

static bool follow_chain(int8_chain *c) {
  const ir_node *n = int8_next(c);
  if (!n || n->op != &op_Cast || !int8_take(c, n, n->args[CAST_OUT].tensor)) return false;
  n = int8_next(c);
  if (!n || n->op != &op_Mul || !other_operand(c, n, &c->scale) || !int8_take(c, n, n->args[2].tensor)) return false;
  n = int8_next(c);
  if (!n || n->op != &op_Add || scalar_real(n->args[2].scalar) != 1 || !other_operand(c, n, &c->bias)) return true;
  if (!int8_take(c, n, n->args[3].tensor)) c->bias = NULL;
  return true;
}

/* The value that the node writes, in the dims of its old result. */
static status int8_result(const int8_chain *c, const tensor *old, ir_value **out) {
  return ir_reshaped(c->g, c->out, old->dims, old->rank, out);
}

static status int8_replace(const int8_chain *c, const ir_node *n, bool *gone) {
  ir_graph *g = c->g;
  const int at = c->absorbed[c->n - 1], from = (int)(n - g->nodes);
  const op_arg *a = n->args;
  op_arg *args = REGION_NEW(&g->memory, op_arg, n->op->n_args);
  ir_value *out;
  if (!args) return fail(ST_NO_HOST_MEMORY, "no host memory for a pass");
  TRY(int8_result(c, a[INT8_OUT].tensor, &out));
  memcpy(args, a, n->op->n_args * sizeof *args);
  args[INT8_SCALE].tensor = value_tensor(c->scale);
  args[INT8_BIAS].tensor = value_tensor(c->bias);
  args[INT8_OUT].tensor = &out->tensor;
  for (int i = 0; i < c->n; ++i) gone[c->absorbed[i]] = true;
  gone[from] = true;
  gone[at] = false;
  const ir_node moved = {.op = n->op, .args = args, .name = n->name, .origin = n->origin};
  g->nodes[at] = moved;
  return ST_OK;
}

/* Whether what the node reads stays as it is until the place where the new node will be. */
static void reads_stay(void *argument, ir_value *v, unsigned flags) {
  int8_chain *c = argument;
  if (flags & ARG_READ && uses_of(c->uses, v)->n_writes > 1) c->n = 0;
}

status pass_int8(ir_graph *g, int *n_matches) {
  bool *gone = REGION_NEW(&g->memory, bool, g->n_nodes + 1);
  graph_uses uses;
  int n = 0;
  *n_matches = 0;
  if (!gone) return fail(ST_NO_HOST_MEMORY, "no host memory for a pass");
  TRY(uses_find(g, &uses));
  for (int i = 0; i < g->n_nodes; ++i) {
    const ir_node *node = &g->nodes[i];
    const bool conv = node->op == &op_ConvolutionInteger;
    if (gone[i] || (node->op != &op_MatmulInteger && !conv) || node->args[INT8_SCALE].tensor) continue;
    int8_chain c = {.g = g, .uses = &uses, .out = value_of(node->args[INT8_OUT].tensor)};
    c.channel = conv ? c.out->tensor.rank - 2 : 0;
    const bool follows = c.out->tensor.contiguous && follow_chain(&c);
    node_visit(node, reads_stay, &c);
    if (!follows || !c.n) continue;
    TRY(int8_replace(&c, node, gone));
    ++*n_matches;
  }
  for (int i = 0; i < g->n_nodes; ++i)
    if (!gone[i]) g->nodes[n++] = g->nodes[i];
  g->n_nodes = n;
  return ST_OK;
}
