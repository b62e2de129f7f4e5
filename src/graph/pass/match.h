/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns of nodes, as text, for passes that recognise what a model has written out of smaller operators:
 *
 *   Mul(x,Sigmoid(x))
 *
 * A pattern is an expression of Cannon's operators (ops/ *.ops). A small letter stands for any value, the same one
 * wherever it occurs; a number for a constant with one element or a scalar of about that value; # and a letter for any
 * such constant, whose value is kept. The operands of Add and Mul may be in either order. Arguments of an operator that
 * a pattern does not name are not compared, but alpha, where there is one, is 1. */
#ifndef CANNON_GRAPH_PASS_MATCH_H
#define CANNON_GRAPH_PASS_MATCH_H

#include "graph/uses.h"

enum { MATCH_NODES = 24, MATCH_LETTERS = 26 };

typedef struct {
  ir_graph *g;
  const graph_uses *uses;
  ir_value *value[MATCH_LETTERS]; /* what letters stand for: value['x' - 'a'] */
  double number[MATCH_LETTERS];
  int n_nodes;
  int nodes[MATCH_NODES]; /* that the pattern is made of; the root is the first */
} pattern_match;

/* Whether the node is the root of the pattern, and nobody else reads what is between its nodes. */
bool match_pattern(pattern_match *m, ir_graph *g, const graph_uses *u, int root, const char *pattern);

static inline ir_value *match_value(const pattern_match *m, char letter) { return m->value[letter - 'a']; }

/* The value that the root writes. */
ir_value *match_result(const pattern_match *m);

/* Replaces the nodes by one call, in the root's place, whose arguments are copied. Nodes have other indices then. */
status match_replace(const pattern_match *m, op *o, const op_arg *args);

/* The node that alone writes the value's storage, and writes this value; -1: there is none. */
int node_that_makes(const ir_graph *g, const graph_uses *u, const ir_value *v);

/* Whether the value is a real constant with one element; *number: that. */
bool value_is_number(const ir_value *v, double *number);

#endif
