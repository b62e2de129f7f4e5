/* SPDX-License-Identifier: Apache-2.0 */
/* What is concatenated is written where the result wants it, so that nothing is copied. This is done where each
 * operand's place in the result is one piece: the dimensions before the axis have size 1. */
#include <string.h>

#include "graph/nodes.h"
#include "graph/pass/pass.h"
#include "graph/uses.h"

enum { CAT_TENSORS, CAT_DIM, CAT_OUT };

/* Whether the value can move into the result: it is all of its storage, which only one node writes. */
static bool can_move(const graph_uses *u, const ir_graph *g, const ir_value *v, const ir_value *out) {
  const storage_uses *s = uses_of(u, v);
  return v->storage->kind == STORAGE_TEMPORARY && v->storage != out->storage && v->tensor.dtype == out->tensor.dtype &&
         value_is_whole(v) && s->n_writes == 1 && s->last_read < g->n_nodes;
}

/* Whether a node is a concatenation of whole pieces into a storage of its own, which nobody else writes. */
static bool is_suitable(const ir_graph *g, const graph_uses *u, const ir_node *n) {
  if (n->op != &op_Cat) return false;
  const ir_value *v = value_of(n->args[CAT_OUT].tensor);
  const tensor *out = &v->tensor;
  const storage_uses *s = uses_of(u, v);
  int64_t before = 1, axis = n->args[CAT_DIM].integer;
  if (axis < 0) axis += out->rank;
  for (int64_t d = 0; d < axis; ++d) before *= out->dims[d];
  return before == 1 && value_is_whole(v) && v->storage->kind == STORAGE_TEMPORARY && s->n_writes == 1 &&
         s->last_read < g->n_nodes;
}

/* Copies what cannot be written in place, in the place of the concatenation. */
static status copy_into(ir_graph *g, ir_node *n, const tensor *from, const ir_value *out, int64_t offset) {
  int64_t strides[MAX_RANK], step = 1;
  ir_value *piece;
  op_arg *args = REGION_NEW(&g->memory, op_arg, 2);
  for (int d = from->rank - 1; d >= 0; step *= from->dims[d--]) strides[d] = step;
  TRY(ir_view(g, out, from->dims, strides, from->rank, offset, &piece));
  if (!args) return fail(ST_NO_HOST_MEMORY, "no host memory for a pass");
  args[0].tensor = &piece->tensor;
  args[1].tensor = from;
  n->op = &op_InplaceCopy;
  n->args = args;
  return ST_OK;
}

/* Whether an operand is given twice. */
static bool is_repeated(const aclTensorList *list, uint64_t k) {
  for (uint64_t i = 0; i < list->size; ++i)
    if (i != k && value_of(list->value[i])->storage == value_of(list->value[k])->storage) return true;
  return false;
}

/* Moves the operands of node i into its result. At most one of them is copied. *done: whether the node is no longer a
 * concatenation; *gone: whether it is to be removed. */
static status place_operands(ir_graph *g, const graph_uses *u, int i, bool *done, bool *gone) {
  ir_node *n = &g->nodes[i];
  const aclTensorList *list = n->args[CAT_TENSORS].tensors;
  ir_value *out = value_of(n->args[CAT_OUT].tensor);
  const tensor *copied = NULL;
  int64_t at = 0, copied_at = 0;
  int n_copied = 0;
  *done = *gone = false;
  for (uint64_t k = 0; k < list->size; ++k) {
    const tensor *t = list->value[k];
    if (t->dtype != out->tensor.dtype || !t->n || t->rank != out->tensor.rank) return ST_OK;
    if (is_repeated(list, k) || !can_move(u, g, value_of(t), out)) {
      copied = t;
      copied_at = at;
      ++n_copied;
    }
    at += t->n;
  }
  if (n_copied > 1 || list->size < 2) return ST_OK;
  at = 0;
  for (uint64_t k = 0; k < list->size; ++k) {
    const tensor *t = list->value[k];
    if (t != copied) storage_move(g, value_of(t)->storage, out->storage, out->tensor.offset + at);
    at += t->n;
  }
  *done = true;
  *gone = !copied;
  return copied ? copy_into(g, n, copied, out, copied_at) : ST_OK;
}

/* From the last node to the first, since a concatenation may itself move into another. */
status pass_concat(ir_graph *g, int *n_matches) {
  graph_uses u;
  bool *suitable = REGION_NEW(&g->memory, bool, g->n_nodes);
  *n_matches = 0;
  if (!suitable) return fail(ST_NO_HOST_MEMORY, "no host memory for a pass");
  TRY(uses_find(g, &u));
  for (int i = 0; i < g->n_nodes; ++i) suitable[i] = is_suitable(g, &u, &g->nodes[i]);
  for (int i = g->n_nodes - 1; i >= 0; --i) {
    bool done, gone;
    if (!suitable[i]) continue;
    TRY(place_operands(g, &u, i, &done, &gone));
    if (!done) continue;
    ++*n_matches;
    if (gone) memmove(&g->nodes[i], &g->nodes[i + 1], (size_t)(--g->n_nodes - i) * sizeof *g->nodes);
    TRY(uses_find(g, &u));
  }
  return ST_OK;
}
