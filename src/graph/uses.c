/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/uses.h"

static void uses_forget(void *argument, ir_value *v, unsigned flags) {
  (void)argument, (void)flags;
  v->storage->n_reads = v->storage->n_writes = 0;
  v->storage->reader = v->storage->writer = -1;
}

static void uses_note(void *argument, ir_value *v, unsigned flags) {
  const int node = *(const int *)argument;
  if (flags & ARG_READ) ++v->storage->n_reads, v->storage->reader = node;
  if (flags & ARG_WRITTEN) ++v->storage->n_writes, v->storage->writer = node;
}

void uses_find(ir_graph *g) {
  int i;
  for (i = 0; i < g->n_nodes; ++i) node_visit(&g->nodes[i], uses_forget, NULL);
  for (i = 0; i < g->n_outputs; ++i) uses_forget(NULL, g->outputs[i], 0);
  for (i = 0; i < g->n_nodes; ++i) node_visit(&g->nodes[i], uses_note, &i);
  for (int k = 0; k < g->n_outputs; ++k) uses_note(&i, g->outputs[k], ARG_READ);
}

ir_node *uses_only_reader(const ir_graph *g, const tensor *t) {
  const ir_storage *s = value_of(t)->storage;
  return s->n_reads == 1 && s->n_writes == 1 && s->reader < g->n_nodes ? &g->nodes[s->reader] : NULL;
}

ir_node *uses_writer_of_one(const ir_graph *g, const tensor *t) {
  const ir_storage *s = value_of(t)->storage;
  return s->kind == STORAGE_TEMPORARY && s->n_reads == 1 && s->n_writes == 1 ? &g->nodes[s->writer] : NULL;
}
