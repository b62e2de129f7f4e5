/* SPDX-License-Identifier: Apache-2.0 */
/* The layout NC1HWC0 of a model's inputs and outputs: NCHW with the channels in blocks of 16, the last of which is
 * filled with zeros. Called while a graph is made. */
#ifndef CANNON_GRAPH_LAYOUT_H
#define CANNON_GRAPH_LAYOUT_H

#include "graph/ir.h"

enum { LAYOUT_RANK = 5, LAYOUT_BLOCK = 16 };

/* The dims of NCHW's 4 dims in blocks: N, C1, H, W, 16. */
void layout_blocked_dims(const int64_t *dims, int64_t *blocked);

/* A value in blocks as NCHW, with so many channels; and the other way round. */
status layout_plain(ir_graph *g, ir_value *blocked, int64_t channels, ir_value **out);
status layout_blocked(ir_graph *g, ir_value *plain, ir_value **out);

#endif
