/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which a program runs the nodes of a graph. Any order in which each node follows those that it depends on
 * computes the same; the order decides how many bytes are live at once, and so how small the arena can be. Several
 * orders are made, and the one with the lowest live peak is taken:
 *
 *   given        that of the graph, which is the model's
 *   least        next comes the node after which the fewest bytes are live
 *   backward     the same from the last node to the first
 *   random       for memory (optimize.h), several times: as `least` and `backward`, among nodes after which about as
 *                few bytes are live
 *   depth first  each node right before the first that needs it; of a node's inputs, the one whose making needs the
 *                most memory beyond what it leaves comes first (Sethi and Ullman's rule for trees)
 *
 * Called by program.c. */
#ifndef CANNON_GRAPH_ORDER_H
#define CANNON_GRAPH_ORDER_H

#include "graph/ir.h"

/* What was chosen. Peaks are bytes of temporaries and workspaces that are live at one step. */
typedef struct {
  const char *name;
  uint64_t peak, given_peak;
} order_choice;

/* Finds an order: runs_at[k] is the index of the node to run k-th. scratch_bytes: of each node's workspace. n_random:
 * how many random orders are tried, which are the same each time. The given
 * order is taken if no other is better. Uses `used` and `first` of the storages, and leaves `used` false.
 * ST_NO_HOST_MEMORY. */
status order_choose(ir_graph *g, const uint64_t *scratch_bytes, int n_random, uint32_t *runs_at, order_choice *out);

#endif
