/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/ports.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/layout.h"
#include "graph/onnx/convert.h"

static status ports_no_memory(void) { return fail(ST_NO_HOST_MEMORY, "no host memory for a model"); }

bool port_is_open(const model_port *p) {
  for (int d = 0; d < p->rank; ++d)
    if (p->dims[d] < 0) return true;
  return false;
}

void port_count_bytes(model_port *p) {
  p->bytes = port_is_open(p) ? 0 : dtype_bytes(p->dtype);
  for (int d = 0; d < p->rank; ++d) p->bytes *= (uint64_t)p->dims[d];
}

void port_set_shape(model_port *p, const tensor *t) {
  p->rank = t->rank;
  p->dtype = t->dtype;
  memcpy(p->dims, t->dims, sizeof p->dims);
  port_count_bytes(p);
}

status port_describe(const onnx_value_info *v, const onnx_shape *given, model_port *p) {
  *p = (model_port){.name = v->name, .rank = given ? given->n_dims : v->n_dims};
  if (!v->is_tensor)
    return fail(ST_GRAPH_ENGINE, "%s is no tensor; sequences, maps and optionals are not supported", v->name);
  if (converter_stored_dtype(v->dtype, &p->dtype, &(int){0}) != ST_OK)
    return fail(ST_GRAPH_ENGINE, "%s: %s", v->name, strdupa(fail_take()));
  if (p->rank > MAX_RANK)
    return fail(ST_GRAPH_ENGINE, "%s has %d dimensions, at most %d are supported", v->name, p->rank, MAX_RANK);
  if (given && v->has_shape && given->n_dims != v->n_dims)
    return fail(ST_INVALID_PARAM, "input %s has %d dimensions, expected %d", v->name, given->n_dims, v->n_dims);
  for (int d = 0; d < p->rank; ++d) {
    p->dims[d] = given ? given->dims[d] : v->dims[d].size;
    if (given) p->least[d] = given->least[d], p->most[d] = given->most[d];
    const int64_t declared = v->has_shape ? v->dims[d].size : -1;
    if (declared >= 0 && p->dims[d] != declared)
      return fail(ST_INVALID_PARAM, "dimension %d of input %s is %jd, expected the %jd that the model declares", d,
                  v->name, (intmax_t)p->dims[d], (intmax_t)declared);
  }
  port_count_bytes(p);
  return ST_OK;
}

status port_take_form(model_port *p, const om_form *form, const onnx_shape *model) {
  if (!form) return ST_OK;
  const char *kind = model ? "input" : "output";
  p->half = form->half;
  p->blocked = form->blocked;
  if (p->half && p->dtype != ACL_FLOAT && p->dtype != ACL_FLOAT16)
    return fail(ST_INVALID_PARAM, "%s %s has dtype %s, expected FLOAT where it is to be FLOAT16", kind, p->name,
                dtype_name(p->dtype));
  if (p->half) p->dtype = ACL_FLOAT16;
  bool known = p->rank == 4;
  for (int d = 0; known && model && d < 4; ++d) known = model->dims[d] > 0;
  if (p->blocked && !known)
    return fail(ST_INVALID_PARAM,
                "%s %s has another shape than 4 known dimensions, expected NCHW where it is to be "
                "NC1HWC0",
                kind, p->name);
  if (p->blocked && model) {
    layout_blocked_dims(model->dims, p->dims);
    p->rank = LAYOUT_RANK;
  }
  port_count_bytes(p);
  return ST_OK;
}

bool port_is_initialiser(const onnx_graph *g, const char *name) {
  for (int i = 0; i < g->n_initialisers; ++i)
    if (!strcmp(g->initialisers[i].name, name)) return true;
  return false;
}

status port_name_output(onnx_model *o, model_port *p) {
  const onnx_graph *g = o->graph;
  const char *node = "";
  int at = 0;
  for (int i = 0; i < g->n_nodes; ++i)
    for (int k = 0; k < g->nodes[i].n_outputs; ++k)
      if (!strcmp(g->nodes[i].outputs[k], p->name)) node = g->nodes[i].name, at = k;
  char *text;
  if (asprintf(&text, "%s:%d:%s", node, at, p->name) < 0) return ports_no_memory();
  p->full_name = region_text(&o->memory, text, strlen(text));
  free(text);
  return p->full_name ? ST_OK : ports_no_memory();
}
