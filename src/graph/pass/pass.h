/* SPDX-License-Identifier: Apache-2.0 */
/* Passes: changes of a graph between the reader of a model and program.h. They keep what the model computes, up to
 * rounding. Called by model.c and by tests; one thread at a time works on a graph. */
#ifndef CANNON_GRAPH_PASS_PASS_H
#define CANNON_GRAPH_PASS_PASS_H

#include "graph/ir.h"

typedef struct {
  const char *name; /* as GE calls it, where it has one */
  status (*run)(ir_graph *g, int *n_matches);
} pass;

/* The passes, in the order in which they run. */
extern const pass passes[];
extern const int n_passes;

/* A set of passes: bit i is passes[i]. */
typedef uint64_t pass_set;
enum { PASSES_MOST = 64 };

/* How often each pass matched: n_matches[i] belongs to passes[i]; 0 for passes that were off. */
typedef struct {
  int n_matches[PASSES_MOST];
} pass_report;

/* The number of the pass with this name, whatever the case of its letters; -1: there is none. */
int pass_find(const char *name);

/* Runs all passes but those of a set, and prepares the graph for a program: each output of the model becomes a storage
 * of its own, which its last node writes where the caller wants it (outputs that are inputs, constants, views or given
 * twice get a copy), and nodes whose results nobody uses are removed. report: or NULL. */
status pass_all(ir_graph *g, pass_set off, pass_report *report);

/* ---- the passes -------------------------------------------------------------------------------------------------- */

/* Batch norms in inference go into the weights and the bias of the convolution before them. */
status pass_conv_batch_norm(ir_graph *g, int *n_matches);

/* Other batch norms become a product and a sum, where an elementwise node is beside them. */
status pass_batch_norm(ir_graph *g, int *n_matches);

/* Constant factors and summands of a convolution's results, one for all or for each channel, go into its weights and
 * its bias. */
status pass_conv_scale(ir_graph *g, int *n_matches);

/* Nodes compute in float16 or bfloat16 where that was asked for, or is allowed and pays (ir_graph.half). */
status pass_half(ir_graph *g, int *n_matches);

/* Products and convolutions of dequantised numbers become those of the integers. Before all others. */
status pass_qdq(ir_graph *g, int *n_matches);

/* Conversions to float, scales and biases behind products and convolutions of 8-bit integers become their epilogue. */
status pass_int8(ir_graph *g, int *n_matches);

/* Biases, activations and residual sums behind a convolution, or behind a product of matrices, become its epilogue:
 * activation(sums + bias + residual), or activation(sums + bias) + residual. Activations are also recognised where they
 * are written out: x sigmoid(x), x clip(x + 3, 0, 6) / 6 and the like. */
status pass_conv_epilogue(ir_graph *g, int *n_matches);
status pass_product_epilogue(ir_graph *g, int *n_matches);

/* Nodes that compute the same become one. */
status pass_common_subexpressions(ir_graph *g, int *n_matches);

/* Activations that are written out. */
status pass_gelu(ir_graph *g, int *n_matches);
status pass_swish(ir_graph *g, int *n_matches);
status pass_hard_swish(ir_graph *g, int *n_matches);

/* Norms over the last dimensions that are written out. */
status pass_layer_norm(ir_graph *g, int *n_matches);
status pass_rms_norm(ir_graph *g, int *n_matches);

/* Attention that is written out. */
status pass_attention(ir_graph *g, int *n_matches);

/* Elementwise nodes that read each other's results become one node. */
status pass_elementwise(ir_graph *g, int *n_matches);

/* What is concatenated is written into the result where it is made. */
status pass_concat(ir_graph *g, int *n_matches);

/* Elementwise nodes write over an operand that nobody uses afterwards. */
status pass_in_place(ir_graph *g, int *n_matches);

/* For pass_all: outputs, and nodes whose results nobody uses. */
status pass_outputs(ir_graph *g);
status pass_dead_nodes(ir_graph *g, int *n_removed);

#endif
