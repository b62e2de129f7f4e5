/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/outputs.h"

#include <stdlib.h>
#include <string.h>

static status outputs_no_memory(void) { return fail(ST_NO_HOST_MEMORY, "no host memory for the outputs of a model"); }

/* The name of the value that "node:index" is; NULL: there is no such node. */
static const char *value_of_node(const onnx_graph *g, const char *text) {
  const char *colon = strrchr(text, ':');
  char *end = NULL;
  const long index = colon ? strtol(colon + 1, &end, 10) : -1;
  if (index < 0 || end == colon + 1 || *end) return NULL;
  for (int i = 0; i < g->n_nodes; ++i) {
    const onnx_node *n = &g->nodes[i];
    if (strlen(n->name) == (size_t)(colon - text) && !strncmp(n->name, text, (size_t)(colon - text)))
      return index < n->n_outputs ? n->outputs[index] : NULL;
  }
  return NULL;
}

static bool is_value(const onnx_graph *g, const char *name) {
  for (int i = 0; i < g->n_nodes; ++i)
    for (int k = 0; k < g->nodes[i].n_outputs; ++k)
      if (!strcmp(g->nodes[i].outputs[k], name)) return true;
  return false;
}

/* What is not an output of the model has no declaration; its type and shape are known once there is a program. */
status outputs_choose(onnx_model *m, const om_output *given, int n_given) {
  onnx_graph *g = m->graph;
  onnx_value_info *chosen = REGION_NEW(&m->memory, onnx_value_info, n_given + 1);
  int n = 0;
  if (!chosen) return outputs_no_memory();
  for (int i = 0; i < n_given; ++i) {
    const char *text = given[i].name, *of_node = value_of_node(g, text);
    if (given[i].dtype >= 0) continue;
    const char *name = of_node ? of_node : is_value(g, text) ? text : NULL;
    if (!name) return fail(ST_INVALID_PARAM, "%s is no node with an output of this number, and no value", text);
    onnx_value_info *v = &chosen[n++];
    *v = (onnx_value_info){.dtype = ONNX_FLOAT, .is_tensor = true};
    if (!(v->name = region_text(&m->memory, name, strlen(name)))) return outputs_no_memory();
    for (int k = 0; k < g->n_outputs; ++k)
      if (!strcmp(g->outputs[k].name, name)) *v = g->outputs[k];
  }
  if (!n) return ST_OK;
  g->outputs = chosen;
  g->n_outputs = n;
  return ST_OK;
}

bool output_is_meant(const model_port *p, const char *given) {
  const size_t n = strlen(given);
  if (!n || !strcmp(p->name, given)) return true;
  return !strncmp(p->full_name, given, n) && (!p->full_name[n] || p->full_name[n] == ':');
}

status outputs_type(onnx_model *m, model_port *outputs, int n, const om_output *given, int n_given, int *dtypes) {
  for (int i = 0; i < n; ++i) dtypes[i] = -1;
  for (int k = 0; k < n_given; ++k) {
    const om_output *o = &given[k];
    bool any = false;
    for (int i = 0; i < n; ++i) {
      model_port *p = &outputs[i];
      if (!output_is_meant(p, o->name)) continue;
      any = true;
      if (o->dtype >= 0)
        dtypes[i] = p->dtype = o->dtype;
      else if (strcmp(p->name, o->name) != 0 && !(p->full_name = region_text(&m->memory, o->name, strlen(o->name))))
        return outputs_no_memory();
    }
    if (!any) return fail(ST_INVALID_PARAM, "%s is no output of the model", o->name);
  }
  return ST_OK;
}

const om_form *outputs_form(const om_contents *om, const model_port *p) {
  const om_form *form = om_form_of(om, true, p->name);
  for (int i = 0; !form && i < om->n_forms; ++i)
    if (om->forms[i].is_output && output_is_meant(p, om->forms[i].name)) form = &om->forms[i];
  return form;
}
