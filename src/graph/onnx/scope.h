/* SPDX-License-Identifier: Apache-2.0 */
/* Names of values while a model is converted. The nodes of a nested graph see the names outside of it, too. In the
 * graph's memory. For convert.c. */
#ifndef CANNON_GRAPH_ONNX_SCOPE_H
#define CANNON_GRAPH_ONNX_SCOPE_H

#include "graph/ir.h"

typedef struct onnx_scope onnx_scope;

/* outside: the enclosing scope, or NULL. */
status scope_new(ir_graph *g, onnx_scope *outside, onnx_scope **out);

/* Adds a name, which must not be in the scope already (ST_GRAPH_ENGINE); it hides one outside. */
status scope_add(onnx_scope *s, const char *name, ir_value *v);

/* The value of a name; NULL if there is none. */
ir_value *scope_find(const onnx_scope *s, const char *name);

#endif
