/* SPDX-License-Identifier: Apache-2.0 */
/* For passes: which nodes read and write each storage. Found at once for a whole graph; passes that add, move or drop
 * nodes keep it up to date as far as they need it. */
#ifndef CANNON_GRAPH_USES_H
#define CANNON_GRAPH_USES_H

#include "graph/ir.h"

/* Sets n_reads, n_writes, reader and writer of all storages that nodes or outputs use. An output of the model counts as
 * a read by a node behind the last one. */
void uses_find(ir_graph *g);

/* The node that alone reads the value, as it is; NULL: there is none, or others write or read its storage. */
ir_node *uses_only_reader(const ir_graph *g, const tensor *t);

/* The node that has written a temporary value, if that is read once only; NULL otherwise. */
ir_node *uses_writer_of_one(const ir_graph *g, const tensor *t);

#endif
