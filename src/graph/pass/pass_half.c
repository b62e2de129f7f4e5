/* SPDX-License-Identifier: Apache-2.0 */
/* Where 16-bit numbers were asked for or are allowed, operators that know them compute in float16 or bfloat16, and what
 * lies between such operators is stored in it. Inputs, outputs and what other operators read or write stay float32,
 * with a cast beside the node, as do nodes that were named for that. Sums of products are in float32 in either case.
 *
 * A permission is used for the whole model or not at all, since casts between would cost what a single node saves: when
 * the operators' own estimates for products and convolutions are lower in sum. Of two types that are allowed, the one
 * with the lower estimates is taken, and float16, which has more digits, if they are equal. */
#include <string.h>

#include "graph/file/model_def.h"
#include "graph/nodes.h"
#include "graph/pass/pass.h"
#include "graph/uses.h"
#include "op/executor.h"

/* Those whose 16-bit results are the float32 ones, rounded. */
static op *const products[] = {&op_Convolution, &op_Matmul, &op_BatchMatMul, &op_Mm, &op_Addmm, &op_Baddbmm};
static op *const others[] = {&op_Add,       &op_Sub,     &op_Mul,     &op_Adds,      &op_Muls,        &op_Maximum,
                             &op_Minimum,   &op_Relu,    &op_Clamp,   &op_LeakyRelu, &op_Sigmoid,     &op_Tanh,
                             &op_Silu,      &op_Neg,     &op_Abs,     &op_Hardswish, &op_Hardsigmoid, &op_GeluV2,
                             &op_AvgPool2d, &op_MaxPool, &op_Softmax, &op_Cat,       &op_InplaceCopy};

/* Permissions are used from this gain on: estimates are not better than that. */
#define PERMISSION_GAIN 0.9

static bool is_one_of(const op *o, op *const *list, size_t n) {
  for (size_t i = 0; i < n; ++i)
    if (list[i] == o) return true;
  return false;
}

#define IS_ONE_OF(o, list) is_one_of(o, list, sizeof(list) / sizeof *(list))

static void survey_half(void *argument, ir_value *v, unsigned flags) {
  bool *fits = argument;
  *fits &= v->tensor.dtype == ACL_FLOAT && !(flags & ARG_READ && flags & ARG_WRITTEN);
}

/* Whether a node can compute in 16 bits: an operator of the lists, all of whose tensors are float32. */
static bool half_fits(const ir_node *n) {
  bool fits = IS_ONE_OF(n->op, products) || IS_ONE_OF(n->op, others);
  if (fits) node_visit(n, survey_half, &fits);
  return fits;
}

/* Whether the node was named to stay float32: by its name, or by its operator, as ONNX or as Ascend names that. */
static bool half_is_refused(const ir_graph *g, const ir_node *n) {
  static const char by_type[] = "OpType::";
  const char *const names[] = {n->name, n->origin, model_def_type(n)};
  for (const char *p = g->kept_whole; p && *p; p += strcspn(p, "\t"), p += *p == '\t') {
    const bool is_type = strncmp(p, by_type, sizeof by_type - 1) == 0;
    const char *word = is_type ? p + sizeof by_type - 1 : p;
    const size_t bytes = strcspn(word, "\t");
    for (int i = is_type; i < (is_type ? 3 : 1); ++i)
      if (strlen(names[i]) == bytes && memcmp(names[i], word, bytes) == 0) return true;
  }
  return false;
}

/* ---- the choice -------------------------------------------------------------------------------------------------- */

/* The estimate for a node whose tensors have this type; 0: the operator refuses. */
static double node_cost(const ir_node *n, int dtype) {
  op_arg args[32];
  ir_value values[32];
  uint64_t workspace;
  executor *e;
  if (n->op->n_args > 32) return 0;
  for (int i = 0; i < n->op->n_args; ++i) {
    args[i] = n->args[i];
    if (n->op->schema[i].kind != ARG_TENSOR || !args[i].tensor) continue;
    values[i] = *value_of(args[i].tensor);
    values[i].tensor.dtype = dtype;
    args[i].tensor = &values[i].tensor;
  }
  if (op_prepare(n->op, args, &workspace, &e) != ST_OK) return (void)fail_take(), 0;
  const double cost = e->cost_ns;
  executor_unref(e);
  return cost;
}

/* The estimates for products and convolutions with a 16-bit type, as a part of those for float32. */
static double half_cost(const ir_graph *g, int dtype) {
  double now = 0, then = 0;
  for (int i = 0; i < g->n_nodes; ++i) {
    const ir_node *n = &g->nodes[i];
    if (!IS_ONE_OF(n->op, products) || !half_fits(n)) continue;
    const double half = node_cost(n, dtype), whole = node_cost(n, ACL_FLOAT);
    now += whole;
    then += half ? half : whole;
  }
  return now > 0 ? then / now : 1;
}

/* The 16-bit type to use; 0: none. */
static int half_choose(const ir_graph *g) {
  const bool either = g->half == HALF_ANY_ALLOWED;
  double best = PERMISSION_GAIN;
  int dtype = 0;
  if (g->half == HALF_WANTED) return ACL_FLOAT16;
  if (g->half == HALF_ALLOWED || either) {
    const double cost = half_cost(g, ACL_FLOAT16);
    if (cost < best) best = cost, dtype = ACL_FLOAT16;
  }
  if ((g->half == HALF_BFLOAT16_ALLOWED || either) && half_cost(g, ACL_BF16) < best) dtype = ACL_BF16;
  return dtype;
}

/* ---- the change -------------------------------------------------------------------------------------------------- */

typedef struct {
  const ir_value *whole;
  ir_value *half;
} half_pair;

typedef struct {
  ir_graph *g;
  half_pair *pairs; /* casts of values that nobody writes any more */
  int n_pairs;
  ir_value *to, *from; /* of the node: what it writes, and the 16-bit value in its place */
  status st;
} halving;

static void forbid_storage(void *argument, ir_value *v, unsigned flags) {
  (void)argument, (void)flags;
  v->storage->wanted = false;
}

static void allow_storage(void *argument, ir_value *v, unsigned flags) {
  (void)argument, (void)flags;
  v->storage->wanted = v->storage->kind == STORAGE_TEMPORARY;
}

/* Turns values of storages that may be 16-bit into that, once. */
static void turn_value(void *argument, ir_value *v, unsigned flags) {
  const ir_graph *g = argument;
  (void)flags;
  if (!v->storage->wanted || v->tensor.dtype != ACL_FLOAT) return;
  v->tensor.dtype = g->half_dtype;
}

static void shrink_storage(void *argument, ir_value *v, unsigned flags) {
  (void)argument, (void)flags;
  if (!v->storage->wanted) return;
  v->storage->bytes = (v->storage->bytes + 1) / 2;
  v->storage->wanted = false;
}

/* A cast of the value in front of the node. That of a constant is computed now, and serves all nodes. */
static status half_of(halving *h, ir_value *v, ir_value **out) {
  for (int i = 0; i < h->n_pairs; ++i)
    if (h->pairs[i].whole == v) return *out = h->pairs[i].half, ST_OK;
  TRY(ir_cast(h->g, v, h->g->half_dtype, out));
  if (!value_is_constant(v)) return ST_OK;
  h->pairs = region_grow(&h->g->memory, h->pairs, (size_t)h->n_pairs, sizeof *h->pairs);
  if (!h->pairs) return fail(ST_NO_HOST_MEMORY, "no host memory for a pass");
  h->pairs[h->n_pairs++] = (half_pair){v, *out};
  return ST_OK;
}

static void halve_operand(void *argument, const tensor **place, unsigned flags) {
  halving *h = argument;
  ir_value *v = value_of(*place), *half = NULL;
  if (h->st != ST_OK || v->tensor.dtype != ACL_FLOAT) return;
  if (flags & ARG_WRITTEN) {
    h->st = h->to ? fail(ST_GRAPH_ENGINE, "a node of one result has two")
                  : ir_temporary(h->g, h->g->half_dtype, v->tensor.dims, v->tensor.rank, &half);
    h->to = v;
    h->from = half;
  } else {
    h->st = half_of(h, v, &half);
  }
  if (h->st == ST_OK) *place = &half->tensor;
}

/* Appends the node with the casts that it needs. */
static status append_half(halving *h, ir_node n) {
  ir_graph *g = h->g;
  h->to = NULL;
  g->name = n.name;
  g->label = n.label;
  g->origin = n.origin;
  node_visit_places(&n, halve_operand, h);
  TRY(h->st);
  g->nodes = region_grow(&g->memory, g->nodes, (size_t)g->n_nodes, sizeof *g->nodes);
  if (!g->nodes) return fail(ST_NO_HOST_MEMORY, "no host memory for a pass");
  g->nodes[g->n_nodes++] = n;
  return h->to ? node_InplaceCopy(g, h->to, h->from) : ST_OK;
}

static status append_whole(ir_graph *g, ir_node n) {
  g->nodes = region_grow(&g->memory, g->nodes, (size_t)g->n_nodes, sizeof *g->nodes);
  if (!g->nodes) return fail(ST_NO_HOST_MEMORY, "no host memory for a pass");
  g->nodes[g->n_nodes++] = n;
  return ST_OK;
}

/* Finds the storages that only nodes in 16 bits use, and turns them. */
static void turn_storages(ir_graph *g, const bool *half) {
  for (int i = 0; i < g->n_nodes; ++i) node_visit(&g->nodes[i], allow_storage, NULL);
  for (int i = 0; i < g->n_nodes; ++i)
    if (!half[i]) node_visit(&g->nodes[i], forbid_storage, NULL);
  for (int i = 0; i < g->n_outputs; ++i) forbid_storage(NULL, g->outputs[i], 0);
  for (int i = 0; i < g->n_nodes; ++i) node_visit(&g->nodes[i], turn_value, g);
  for (int i = 0; i < g->n_nodes; ++i) node_visit(&g->nodes[i], shrink_storage, NULL);
}

status pass_half(ir_graph *g, int *n_matches) {
  *n_matches = 0;
  if (!(g->half_dtype = half_choose(g))) return ST_OK;
  const int n = g->n_nodes;
  const ir_node *nodes = g->nodes;
  bool *half = REGION_NEW(&g->memory, bool, n + 1);
  if (!half) return fail(ST_NO_HOST_MEMORY, "no host memory for a pass");
  for (int i = 0; i < n; ++i)
    *n_matches += half[i] =
        half_fits(&nodes[i]) && !half_is_refused(g, &nodes[i]) && node_cost(&nodes[i], g->half_dtype) > 0;
  if (!*n_matches) return ST_OK;
  turn_storages(g, half);
  halving h = {.g = g};
  g->nodes = NULL;
  g->n_nodes = 0;
  for (int i = 0; i < n; ++i) TRY(half[i] ? append_half(&h, nodes[i]) : append_whole(g, nodes[i]));
  g->name = g->label = g->origin = NULL;
  return ST_OK;
}
