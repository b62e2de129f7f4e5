/* SPDX-License-Identifier: Apache-2.0 */
/* Who uses what in a graph: for passes, which ask about storages, and about nodes that change places. Made for the
 * graph as it is, in its memory; nodes are told by their index. */
#ifndef CANNON_GRAPH_USES_H
#define CANNON_GRAPH_USES_H

#include "graph/ir.h"

typedef struct {
  int n_reads, n_writes; /* by arguments of nodes; an output of the model counts as a read */
  int last_read;         /* node; n_nodes for an output of the model; -1: none */
  int writer;            /* the last node that writes it; -1: none */
} storage_uses;

typedef struct {
  storage_uses *of; /* by ir_storage.id */
  int n;
} graph_uses;

status uses_find(ir_graph *g, graph_uses *u);

static inline storage_uses *uses_of(const graph_uses *u, const ir_value *v) { return &u->of[v->storage->id]; }

/* The node that alone reads a value which one node has written; NULL: there is none, or an output of the model. */
ir_node *uses_only_reader(const ir_graph *g, const graph_uses *u, const ir_value *v);

/* The node that has written a temporary value, if that is read once only; NULL otherwise. */
ir_node *uses_writer_of_one(const ir_graph *g, const graph_uses *u, const ir_value *v);

/* Whether two values are the same elements in the same order. */
bool value_same(const ir_value *a, const ir_value *b);

/* Whether the value is its whole storage, without gaps and in order. */
bool value_is_whole(const ir_value *v);

/* Whether the shapes are the same but for leading dimensions of size 1. */
bool tensor_same_shape(const tensor *a, const tensor *b);

/* Makes all values in a storage lie in another one, `offset` elements further on. */
void storage_move(ir_graph *g, const ir_storage *from, ir_storage *to, int64_t offset);

/* Calls visit() for the places of tensors in a node's arguments, lists included, so that it can change them. */
typedef void place_visitor(void *argument, const tensor **place, unsigned flags);
void node_visit_places(ir_node *n, place_visitor *visit, void *argument);

#endif
