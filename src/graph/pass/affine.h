/* SPDX-License-Identifier: Apache-2.0 */
/* For passes: nodes that compute a x + b, or clamp x, with constants. */
#ifndef CANNON_GRAPH_PASS_AFFINE_H
#define CANNON_GRAPH_PASS_AFFINE_H

#include "graph/ir.h"

/* The node reads x, and computes `scale` x + `shift` of it, or min(max(x, low), high). */
typedef struct {
  const tensor *x, *out;
  double scale, shift, low, high;
} affine;

/* Whether the node is of that kind, with numbers for all elements; its result has x's shape. */
bool affine_of(const ir_node *n, affine *a);
bool clamp_of(const ir_node *n, affine *a);

#endif
