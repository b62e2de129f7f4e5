/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/uses.h"

#include <string.h>

#include "tensor/objects.h"

typedef struct {
  graph_uses *u;
  int node, n_storages;
} uses_walk;

static void uses_forget(void *argument, ir_value *v, unsigned flags) {
  (void)argument, (void)flags;
  v->storage->id = -1;
}

static void uses_number(void *argument, ir_value *v, unsigned flags) {
  uses_walk *w = argument;
  (void)flags;
  if (v->storage->id < 0) v->storage->id = w->n_storages++;
}

static void uses_note(void *argument, ir_value *v, unsigned flags) {
  const uses_walk *w = argument;
  storage_uses *s = uses_of(w->u, v);
  if (flags & ARG_READ) {
    ++s->n_reads;
    s->last_read = w->node;
  }
  if (flags & ARG_WRITTEN) {
    ++s->n_writes;
    s->writer = w->node;
  }
}

static void visit_all(ir_graph *g, node_visitor *visit, uses_walk *w) {
  for (w->node = 0; w->node < g->n_nodes; ++w->node) node_visit(&g->nodes[w->node], visit, w);
  for (int i = 0; i < g->n_outputs; ++i) visit(w, g->outputs[i], ARG_READ);
}

status uses_find(ir_graph *g, graph_uses *u) {
  uses_walk w = {.u = u};
  visit_all(g, uses_forget, &w);
  visit_all(g, uses_number, &w);
  u->n = w.n_storages;
  u->of = REGION_NEW(&g->memory, storage_uses, u->n);
  if (!u->of) return fail(ST_NO_HOST_MEMORY, "no host memory for a pass");
  for (int i = 0; i < u->n; ++i) u->of[i] = (storage_uses){.last_read = -1, .writer = -1};
  visit_all(g, uses_note, &w);
  return ST_OK;
}

ir_node *uses_only_reader(const ir_graph *g, const graph_uses *u, const ir_value *v) {
  const storage_uses *s = uses_of(u, v);
  return s->n_reads == 1 && s->n_writes == 1 && s->last_read < g->n_nodes ? &g->nodes[s->last_read] : NULL;
}

ir_node *uses_writer_of_one(const ir_graph *g, const graph_uses *u, const ir_value *v) {
  const storage_uses *s = uses_of(u, v);
  const bool fits = v->storage->kind == STORAGE_TEMPORARY && s->n_reads == 1 && s->n_writes == 1;
  return fits ? &g->nodes[s->writer] : NULL;
}

bool value_same(const ir_value *a, const ir_value *b) {
  const tensor *x = &a->tensor, *y = &b->tensor;
  if (a == b) return true;
  if (a->storage != b->storage || x->dtype != y->dtype || x->offset != y->offset || x->rank != y->rank) return false;
  for (int d = 0; d < x->rank; ++d)
    if (x->dims[d] != y->dims[d] || (x->dims[d] != 1 && x->strides[d] != y->strides[d])) return false;
  return true;
}

bool value_is_whole(const ir_value *v) {
  const tensor *t = &v->tensor;
  return t->contiguous && !t->offset && t->n && (uint64_t)t->n * dtype_bytes(t->dtype) == v->storage->bytes;
}

bool tensor_same_shape(const tensor *a, const tensor *b) {
  if (a->rank > b->rank) return tensor_same_shape(b, a);
  const int more = b->rank - a->rank;
  for (int d = 0; d < b->rank; ++d)
    if (b->dims[d] != (d < more ? 1 : a->dims[d - more])) return false;
  return true;
}

typedef struct {
  const ir_storage *from;
  ir_storage *to;
  int64_t offset;
} relocation;

static void relocate(void *argument, ir_value *v, unsigned flags) {
  const relocation *r = argument;
  (void)flags;
  if (v->storage != r->from) return;
  v->storage = r->to;
  v->tensor.offset += r->offset;
}

void storage_move(ir_graph *g, const ir_storage *from, ir_storage *to, int64_t offset) {
  relocation r = {from, to, offset};
  for (int i = 0; i < g->n_nodes; ++i) node_visit(&g->nodes[i], relocate, &r);
  for (int i = 0; i < g->n_outputs; ++i) relocate(&r, g->outputs[i], 0);
}

void node_visit_places(ir_node *n, place_visitor *visit, void *argument) {
  for (int i = 0; i < n->op->n_args; ++i) {
    const arg_schema *s = &n->op->schema[i];
    const unsigned flags = s->flags & (ARG_READ | ARG_WRITTEN);
    if (s->kind == ARG_TENSOR && n->args[i].tensor) visit(argument, &n->args[i].tensor, flags);
    if (s->kind != ARG_TENSOR_LIST || !n->args[i].tensors) continue;
    aclTensorList *list = (aclTensorList *)(uintptr_t)n->args[i].tensors; /* in the graph's memory (ir_list) */
    for (uint64_t k = 0; k < list->size; ++k) visit(argument, (const tensor **)(void *)&list->value[k], flags);
  }
}
