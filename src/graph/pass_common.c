/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that compute the same of the same operands become one. */
#include <string.h>

#include "graph/elementwise.h"
#include "graph/match.h"
#include "graph/nodes.h"
#include "graph/pass.h"
#include "graph/uses.h"
#include "tensor/objects.h"

/* Besides elementwise operators: those that give the same each time, and write one result. */
static op *const repeatable[] = {&op_Cast, &op_InplaceCopy, &op_Mean, &op_ReduceSum, &op_Amax, &op_Amin};

static bool is_repeatable(const ir_node *n) {
  for (size_t i = 0; i < sizeof repeatable / sizeof *repeatable; ++i)
    if (n->op == repeatable[i]) return true;
  return node_is_elementwise(n);
}

/* Equal, and nobody changes them in between; or equal numbers. */
static bool same_operand(const graph_uses *u, const tensor *a, const tensor *b) {
  double x, y;
  if (!a || !b) return a == b;
  const ir_value *v = value_of(a), *w = value_of(b);
  if (value_same(v, w)) return uses_of(u, v)->n_writes <= 1;
  return a->dtype == b->dtype && tensor_same_dims(a, b) && value_is_number(v, &x) && value_is_number(w, &y) &&
         memcmp(value_contents(v), value_contents(w), dtype_bytes(a->dtype)) == 0;
}

static bool same_scalar(const scalar *a, const scalar *b) {
  return a == b || (a && b && a->dtype == b->dtype && scalar_real(a) == scalar_real(b) &&
                    scalar_integer(a) == scalar_integer(b) && !dtype_is_complex(a->dtype));
}

static bool same_ints(const aclIntArray *a, const aclIntArray *b) {
  return a == b || (a && b && a->size == b->size && memcmp(a->value, b->value, a->size * sizeof *a->value) == 0);
}

static bool same_argument(const graph_uses *u, const arg_schema *s, const op_arg *a, const op_arg *b) {
  switch (s->kind) {
  case ARG_TENSOR: return s->flags & ARG_WRITTEN ? !(s->flags & ARG_READ) : same_operand(u, a->tensor, b->tensor);
  case ARG_SCALAR: return same_scalar(a->scalar, b->scalar);
  case ARG_INT_ARRAY: return same_ints(a->ints, b->ints);
  case ARG_INT: return a->integer == b->integer;
  case ARG_FLOAT: return a->real == b->real;
  case ARG_BOOL: return a->boolean == b->boolean;
  default: return false;
  }
}

static bool same_arguments(const graph_uses *u, const ir_node *a, const ir_node *b) {
  for (int i = 0; i < a->op->n_args; ++i)
    if (!same_argument(u, &a->op->schema[i], &a->args[i], &b->args[i])) return false;
  return true;
}

typedef struct {
  ir_value *v;
  int n;
} result_note;

static void common_note_result(void *argument, ir_value *v, unsigned flags) {
  result_note *r = argument;
  if (!(flags & ARG_WRITTEN)) return;
  r->v = v;
  ++r->n;
}

/* The node's only result, if it is all of a temporary storage that nobody else writes; otherwise NULL. */
static ir_value *only_result(const graph_uses *u, const ir_node *n) {
  result_note r = {0};
  node_visit(n, common_note_result, &r);
  return r.n == 1 && r.v->storage->kind == STORAGE_TEMPORARY && value_is_whole(r.v) && uses_of(u, r.v)->n_writes == 1
             ? r.v
             : NULL;
}

/* The node before node i that computes the same; -1: there is none. */
static int find_same(const ir_graph *g, const graph_uses *u, ir_value *const *results, int i) {
  const ir_node *n = &g->nodes[i];
  for (int k = 0; k < i; ++k)
    if (g->nodes[k].op == n->op && results[k] && results[k]->tensor.dtype == results[i]->tensor.dtype &&
        tensor_same_dims(&results[k]->tensor, &results[i]->tensor) && same_arguments(u, &g->nodes[k], n))
      return k;
  return -1;
}

status pass_common_subexpressions(ir_graph *g, int *n_matches) {
  graph_uses u;
  ir_value **results = REGION_NEW(&g->memory, ir_value *, g->n_nodes);
  int n = 0;
  *n_matches = 0;
  if (!results) return fail(ST_NO_HOST_MEMORY, "no host memory for a pass");
  TRY(uses_find(g, &u));
  for (int i = 0; i < g->n_nodes; ++i) {
    results[n] = only_result(&u, &g->nodes[i]);
    g->nodes[n] = g->nodes[i];
    const int same = results[n] ? find_same(g, &u, results, n) : -1;
    if (same < 0 || uses_of(&u, results[n])->last_read == g->n_nodes || !is_repeatable(&g->nodes[n])) {
      ++n;
      continue;
    }
    storage_move(g, results[n]->storage, results[same]->storage, 0);
    ++*n_matches;
  }
  g->n_nodes = n;
  return ST_OK;
}
