/* SPDX-License-Identifier: Apache-2.0 */
/* Outputs of a model that were chosen by atc's --out_nodes and --output_type (om_output). Called by model.c, while a
 * model is loaded. */
#ifndef CANNON_GRAPH_OUTPUTS_H
#define CANNON_GRAPH_OUTPUTS_H

#include "graph/file/om.h"
#include "graph/model.h"

/* Replaces the model's outputs by those that were chosen, if there are some. ST_INVALID_PARAM: one is unknown. */
status outputs_choose(onnx_model *m, const om_output *given, int n_given);

/* Sets the types that outputs are to have: in the ports, and in dtypes[], where -1 means that there is none; and gives
 * outputs that were chosen as "node:index" this name, as CANN does. ST_INVALID_PARAM: one is unknown. */
status outputs_type(onnx_model *m, model_port *outputs, int n, const om_output *given, int n_given, int *dtypes);

/* The form of an output, which is named as it was chosen: by its own name or as "node:index"; NULL: the model's. */
const om_form *outputs_form(const om_contents *om, const model_port *p);

/* Whether a name that was given means the output: its own, or "node:index", or "" for all. */
bool output_is_meant(const model_port *p, const char *given);

#endif
