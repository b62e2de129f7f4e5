/* SPDX-License-Identifier: Apache-2.0 */
/* Passes: changes of a graph between the reader of a model and program.h. They keep what the model computes, up to
 * rounding. Called by model.c and by tests; one thread at a time works on a graph. */
#ifndef CANNON_GRAPH_PASS_H
#define CANNON_GRAPH_PASS_H

#include "graph/ir.h"

typedef struct {
  const char *name; /* as GE calls it, where it has one */
  status (*run)(ir_graph *g, int *n_matches);
} pass;

/* The passes, in the order in which they run. */
extern const pass passes[];
extern const int n_passes;

/* Runs all passes, and prepares the graph for a program: each output of the model becomes a storage of its own, which
 * its last node writes where the caller wants it (outputs that are inputs, constants, views or given twice get a copy),
 * and nodes whose results nobody uses are removed. */
status pass_all(ir_graph *g);

/* ---- the passes -------------------------------------------------------------------------------------------------- */

/* Batch norms in inference go into the weights and the bias of the convolution before them. */
status pass_conv_batch_norm(ir_graph *g, int *n_matches);

/* For pass_all. */
status pass_outputs(ir_graph *g);
status pass_dead_nodes(ir_graph *g, int *n_removed);

#endif
