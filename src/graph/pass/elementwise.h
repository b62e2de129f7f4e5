/* SPDX-License-Identifier: Apache-2.0 */
/* For passes: nodes that can be part of an elementwise program (op/elementwise_program.h). */
#ifndef CANNON_GRAPH_PASS_ELEMENTWISE_H
#define CANNON_GRAPH_PASS_ELEMENTWISE_H

#include "graph/ir.h"

/* Whether the node computes one element of its only result from one element of each operand, so that it may also write
 * over an operand of the same layout. Kernels know: the answer is whether they prepare a program of this node alone. */
bool node_is_elementwise(const ir_node *n);

#endif
