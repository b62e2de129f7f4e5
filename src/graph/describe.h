/* SPDX-License-Identifier: Apache-2.0 */
/* Describes what becomes of a model, as JSON: its passes, the graph before and after them, the implementation of each
 * step with the reason why it was chosen, and the plan of memory. docs/graph.md lists the members. Called by src/api;
 * nothing of a
 * device is needed. */
#ifndef CANNON_GRAPH_DESCRIBE_H
#define CANNON_GRAPH_DESCRIBE_H

#include "graph/model.h"

/* shapes: of inputs, where the model leaves them open; with gears, the largest gear is described. On success the caller
 * frees *json with free(). ST_INVALID_PARAM: a shape is open still, or does not fit; otherwise as model_load. */
status model_describe(model *m, const onnx_shape *shapes, int n, char **json);

#endif
