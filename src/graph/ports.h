/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs and outputs of a model, as its file declares them. Called by model.c, while a model is loaded. */
#ifndef CANNON_GRAPH_PORTS_H
#define CANNON_GRAPH_PORTS_H

#include "graph/file/om.h"
#include "graph/model.h"
#include "graph/onnx/convert.h"

bool port_is_open(const model_port *p);

/* Sets the bytes by the dims; 0: some are open. */
void port_count_bytes(model_port *p);
void port_set_shape(model_port *p, const tensor *t);

/* The model's declaration of an input or output, with a shape that was given for it, or NULL. */
status port_describe(const onnx_value_info *v, const onnx_shape *given, model_port *p);

/* Takes the form in which callers give an input or get an output; NULL: the model's. model: the shape that the model
 * has, of an input; NULL of an output. */
status port_take_form(model_port *p, const om_form *form, const onnx_shape *model);

/* Whether an input of this name is a constant: files of IR version 3 list them as inputs, too. */
bool port_is_initialiser(const onnx_graph *g, const char *name);

/* CANN's name of an output: the node that computes it, which of the node's outputs it is, and its own name. */
status port_name_output(onnx_model *o, model_port *p);

#endif
