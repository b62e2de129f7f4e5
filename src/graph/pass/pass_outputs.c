/* SPDX-License-Identifier: Apache-2.0 */
/* Lets calls write a model's outputs where the caller wants them, where they can (pass.h). */
#include "graph/nodes.h"
#include "graph/pass/pass.h"

/* Whether the value is all of a temporary storage, so that the storage can be the caller's buffer. */
static bool is_whole_temporary(const ir_value *v) {
  const tensor *t = &v->tensor;
  return v->storage->kind == STORAGE_TEMPORARY && t->contiguous && !t->offset && t->n &&
         (uint64_t)t->n * dtype_bytes(t->dtype) == v->storage->bytes;
}

status pass_outputs(ir_graph *g) {
  for (int i = 0; i < g->n_outputs; ++i) {
    ir_value *v = g->outputs[i], *copy = v;
    const bool whole = is_whole_temporary(v);
    if (!whole) TRY(ir_temporary(g, v->tensor.dtype, v->tensor.dims, v->tensor.rank, &copy));
    copy->storage->kind = STORAGE_OUTPUT; /* before the copy is added, which would be computed otherwise */
    copy->storage->index = (uint32_t)i;
    if (!whole) TRY(node_InplaceCopy(g, copy, v));
    if (!copy->name) copy->name = v->name;
    g->outputs[i] = copy;
  }
  return ST_OK;
}

static void note_written(void *argument, ir_value *v, unsigned flags) {
  if (flags & ARG_WRITTEN && (v->storage->used || v->storage->kind == STORAGE_OUTPUT)) *(bool *)argument = true;
}

static void mark_used(void *argument, ir_value *v, unsigned flags) {
  (void)argument;
  if (flags & ARG_READ) v->storage->used = true;
}

static void mark_unused(void *argument, ir_value *v, unsigned flags) {
  (void)argument, (void)flags;
  v->storage->used = false;
}

status pass_dead_nodes(ir_graph *g, int *n_removed) {
  bool *needed = REGION_NEW(&g->memory, bool, g->n_nodes);
  if (!needed) return fail(ST_NO_HOST_MEMORY, "no host memory for a pass");
  for (int i = 0; i < g->n_outputs; ++i) g->outputs[i]->storage->used = true;
  for (int i = g->n_nodes - 1; i >= 0; --i) {
    node_visit(&g->nodes[i], note_written, &needed[i]);
    if (needed[i]) node_visit(&g->nodes[i], mark_used, NULL);
  }
  int n = 0;
  for (int i = 0; i < g->n_nodes; ++i) {
    node_visit(&g->nodes[i], mark_unused, NULL);
    if (needed[i]) g->nodes[n++] = g->nodes[i];
  }
  for (int i = 0; i < g->n_outputs; ++i) g->outputs[i]->storage->used = false;
  *n_removed = g->n_nodes - n;
  g->n_nodes = n;
  return ST_OK;
}
