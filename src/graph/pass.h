/* SPDX-License-Identifier: Apache-2.0 */
/* Passes: changes of a graph between the reader of a model and program.h. Each has a name, by which it can be switched
 * off, and says how often it matched. */
#ifndef CANNON_GRAPH_PASS_H
#define CANNON_GRAPH_PASS_H

#include "graph/ir.h"

/* Makes each output of the model a storage of its own, which its last node writes where the caller wants it; outputs
 * that are inputs, constants, views or given twice get a copy. Then removes nodes whose results nobody uses. Not to be
 * switched off. */
status pass_outputs(ir_graph *g);
status pass_dead_nodes(ir_graph *g, int *n_removed);

#endif
