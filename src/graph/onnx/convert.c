/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/onnx/convert.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/layout.h"
#include "graph/onnx/scope.h"

enum { MAX_DEPTH = 64 };

/* ---- the table of operators -------------------------------------------------------------------------------------- */

static const onnx_operator *const all_tables[] = {
    onnx_elementwise, onnx_shape_operators, onnx_constants, onnx_reductions, onnx_products, onnx_quantised,
    onnx_windows,     onnx_pools,           onnx_norms,     onnx_indexing,   onnx_boxes,    onnx_scattering,
    onnx_resampling,  onnx_recurrent,       onnx_losses,    onnx_random,     onnx_spectra,  onnx_control,
    onnx_attention,   onnx_casts,           onnx_deform,    onnx_ngrams,
};

static const onnx_operator *sorted[512];
static size_t n_sorted;
static pthread_once_t sort_once = PTHREAD_ONCE_INIT;

static int compare_entries(const void *a, const void *b) {
  return strcmp((*(const onnx_operator *const *)a)->name, (*(const onnx_operator *const *)b)->name);
}

static void sort_tables(void) {
  for (size_t i = 0; i < sizeof all_tables / sizeof *all_tables; ++i)
    for (const onnx_operator *o = all_tables[i]; o->name && n_sorted < sizeof sorted / sizeof *sorted; ++o)
      sorted[n_sorted++] = o;
  qsort(sorted, n_sorted, sizeof *sorted, compare_entries);
}

static const onnx_operator *operator_of(const onnx_node *n) {
  char name[128];
  const bool is_own = !n->domain[0];
  if (!is_own && snprintf(name, sizeof name, "%s.%s", n->domain, n->op_type) >= (int)sizeof name) return NULL;
  const onnx_operator key = {.name = is_own ? n->op_type : name}, *const p = &key;
  pthread_once(&sort_once, sort_tables);
  const onnx_operator **found = bsearch(&p, sorted, n_sorted, sizeof *sorted, compare_entries);
  return found ? *found : NULL;
}

/* ---- inputs and outputs ------------------------------------------------------------------------------------------ */

ir_value *converter_input(const converter *c, int i) {
  if (i >= c->node->n_inputs || !c->node->inputs[i][0]) return NULL;
  return scope_find(c->scope, c->node->inputs[i]);
}

bool converter_wants(const converter *c, int i) { return i < c->node->n_outputs && c->node->outputs[i][0]; }

status converter_output(converter *c, int i, ir_value *v) {
  if (!converter_wants(c, i)) return ST_OK;
  if (!v->name) v->name = c->node->outputs[i];
  return scope_add(c->scope, c->node->outputs[i], v);
}

status converter_dtype(int onnx_dtype, int *dtype) {
  static const int8_t of[ONNX_DTYPES] = {
      [ONNX_FLOAT] = ACL_FLOAT,   [ONNX_UINT8] = ACL_UINT8,         [ONNX_INT8] = ACL_INT8,
      [ONNX_UINT16] = ACL_UINT16, [ONNX_INT16] = ACL_INT16,         [ONNX_INT32] = ACL_INT32,
      [ONNX_INT64] = ACL_INT64,   [ONNX_BOOL] = ACL_BOOL,           [ONNX_FLOAT16] = ACL_FLOAT16,
      [ONNX_DOUBLE] = ACL_DOUBLE, [ONNX_UINT32] = ACL_UINT32,       [ONNX_UINT64] = ACL_UINT64,
      [ONNX_BFLOAT16] = ACL_BF16, [ONNX_COMPLEX64] = ACL_COMPLEX64, [ONNX_COMPLEX128] = ACL_COMPLEX128,
  };
  if (onnx_dtype_bytes(onnx_dtype) == 0 || onnx_dtype > ONNX_BFLOAT16)
    return OP_FAIL("elements of %s are not supported", onnx_dtype_name(onnx_dtype));
  *dtype = of[onnx_dtype];
  return ST_OK;
}

status converter_stored_dtype(int onnx_dtype, int *dtype, int *narrow) {
  *narrow = onnx_dtype > ONNX_BFLOAT16 && onnx_dtype < ONNX_DTYPES ? onnx_dtype : 0;
  *dtype = onnx_dtype == ONNX_INT4 ? ACL_INT8 : ACL_UINT8;
  return *narrow ? ST_OK : converter_dtype(onnx_dtype, dtype);
}

/* Elements of 4 bits, an element to a byte. */
static status unpacked(converter *c, const onnx_tensor *t, int dtype, ir_value **out) {
  TRY(ir_constant(c->g, dtype, t->dims, t->n_dims, NULL, out));
  uint8_t *to = ir_fill(*out);
  const uint8_t *from = t->contents;
  for (int64_t i = 0; i < (*out)->tensor.n; ++i) {
    const unsigned nibble = from[i / 2] >> i % 2 * 4 & 15;
    to[i] = (uint8_t)(dtype == ACL_INT8 ? (nibble ^ 8) - 8 : nibble);
  }
  return ST_OK;
}

status converter_tensor(converter *c, const onnx_tensor *t, ir_value **out) {
  int dtype, narrow;
  TRY(converter_stored_dtype(t->dtype, &dtype, &narrow));
  if (onnx_dtype_is_packed(t->dtype))
    TRY(unpacked(c, t, dtype, out));
  else
    TRY(ir_constant(c->g, dtype, t->dims, t->n_dims, t->bytes ? t->contents : "", out));
  (*out)->narrow = narrow;
  (*out)->name = t->name[0] ? t->name : NULL;
  return ST_OK;
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */

static const onnx_attribute *find_attribute(const onnx_attribute *list, int n, const char *name) {
  for (int i = 0; i < n; ++i)
    if (!strcmp(list[i].name, name)) return &list[i];
  return NULL;
}

const onnx_attribute *converter_attribute(const converter *c, const char *name) {
  const onnx_attribute *a = find_attribute(c->node->attributes, c->node->n_attributes, name);
  if (!a || !a->reference || !c->call) return a;
  const onnx_attribute *given = find_attribute(c->call->attributes, c->call->n_attributes, a->reference);
  return given ? given : find_attribute(c->callee->defaults, c->callee->n_defaults, a->reference);
}

int64_t attribute_int(const converter *c, const char *name, int64_t otherwise) {
  const onnx_attribute *a = converter_attribute(c, name);
  return a && a->type == ONNX_ATTR_INT ? a->i : otherwise;
}

double attribute_float(const converter *c, const char *name, double otherwise) {
  const onnx_attribute *a = converter_attribute(c, name);
  return a && a->type == ONNX_ATTR_FLOAT ? (double)a->f : otherwise;
}

const char *attribute_string(const converter *c, const char *name, const char *otherwise) {
  const onnx_attribute *a = converter_attribute(c, name);
  return a && a->type == ONNX_ATTR_STRING ? a->s : otherwise;
}

const int64_t *attribute_ints(const converter *c, const char *name, int *n) {
  const onnx_attribute *a = converter_attribute(c, name);
  *n = a && (a->type == ONNX_ATTR_INTS) ? a->n_ints : -1;
  return *n > 0 ? a->ints : NULL;
}

const float *attribute_floats(const converter *c, const char *name, int *n) {
  const onnx_attribute *a = converter_attribute(c, name);
  *n = a && a->type == ONNX_ATTR_FLOATS ? a->n_floats : -1;
  return *n > 0 ? a->floats : NULL;
}

static void find_written(void *argument, ir_value *v, unsigned flags) {
  if (flags & ARG_WRITTEN && v->storage->used) *(bool *)argument = true;
}

static void mark_read(void *argument, ir_value *v, unsigned flags) {
  (void)argument;
  if (flags & ARG_READ) v->storage->used = true;
}

static void unmark(void *argument, ir_value *v, unsigned flags) {
  (void)argument, (void)flags;
  v->storage->used = false;
}

/* Computes the nodes that write marked storages, which were too large to be computed when they were added. */
static status compute_marked(ir_graph *g) {
  ir_node *computed = REGION_NEW(&g->memory, ir_node, g->n_nodes);
  int n = 0, n_computed = 0;
  status st = computed ? ST_OK : fail(ST_NO_HOST_MEMORY, "no host memory for %d nodes", g->n_nodes);
  for (int i = 0; i < g->n_nodes && computed; ++i) {
    const ir_node node = g->nodes[i];
    bool leads_there = false;
    node_visit(&node, find_written, &leads_there);
    if (leads_there && st == ST_OK && !fold_is_possible(node.op, node.args))
      st = OP_FAIL("a value that a shape depends on is random, or its input has no shape here");
    if (leads_there && st == ST_OK) st = fold_call(g, node.op, node.args);
    if (leads_there && st == ST_OK)
      computed[n_computed++] = node;
    else
      g->nodes[n++] = node;
  }
  if (computed) g->n_nodes = n;
  for (int i = 0; i < n_computed; ++i) node_visit(&computed[i], unmark, NULL);
  return st;
}

status converter_known(converter *c, const ir_value *v) {
  if (value_is_constant(v)) return ir_need_contents(v->storage);
  ir_graph *g = c->g;
  bool any = false;
  v->storage->used = true;
  for (int i = g->n_nodes - 1; i >= 0; --i) {
    bool leads_there = false;
    node_visit(&g->nodes[i], find_written, &leads_there);
    if (leads_there) node_visit(&g->nodes[i], mark_read, NULL);
  }
  for (int i = 0; i < g->n_inputs; ++i)
    for (int k = 0; k < c->n_shapes; ++k)
      if (g->inputs[i]->storage->used && !strcmp(c->shapes[k].name, g->inputs[i]->name))
        any = c->shapes[k].wanted = true;
  status st = any ? ONNX_WANTS_CONTENTS : compute_marked(g);
  for (int i = 0; i < g->n_nodes; ++i) node_visit(&g->nodes[i], unmark, NULL);
  for (int i = 0; i < g->n_inputs; ++i) g->inputs[i]->storage->used = false;
  v->storage->used = false;
  if (st == ST_OK && !value_is_constant(v)) return OP_FAIL("a value that a shape depends on is computed by no node");
  return st == ST_OK ? ir_need_contents(v->storage) : st;
}

static status constant_input(converter *c, int input, const ir_value **v) {
  *v = converter_input(c, input);
  if (!*v) return OP_FAIL("input %d is missing", input);
  return converter_known(c, *v);
}

status converter_constant_ints(converter *c, int input, const int64_t **integers, int *n) {
  const ir_value *v;
  TRY(constant_input(c, input, &v));
  int64_t *to = REGION_NEW(&c->g->memory, int64_t, v->tensor.n);
  if (!to) return fail(ST_NO_HOST_MEMORY, "no host memory for %jd integers", (intmax_t)v->tensor.n);
  value_read_integers(v, to);
  *integers = to;
  *n = (int)v->tensor.n;
  return ST_OK;
}

status converter_constant_reals(converter *c, int input, const double **reals, int *n) {
  const ir_value *v;
  TRY(constant_input(c, input, &v));
  double *to = REGION_NEW(&c->g->memory, double, v->tensor.n);
  if (!to) return fail(ST_NO_HOST_MEMORY, "no host memory for %jd numbers", (intmax_t)v->tensor.n);
  value_read_reals(v, to);
  *reals = to;
  *n = (int)v->tensor.n;
  return ST_OK;
}

status converter_ints(converter *c, const char *attribute, int input, const int64_t **integers, int *n) {
  if (converter_input(c, input)) return converter_constant_ints(c, input, integers, n);
  *integers = attribute_ints(c, attribute, n);
  return ST_OK;
}

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

status converter_axis(int64_t axis, int rank, int *out) {
  if (axis < -rank || axis >= rank)
    return OP_FAIL("axis is %jd, expected %d to %d", (intmax_t)axis, -rank, rank ? rank - 1 : 0);
  *out = (int)(axis < 0 ? axis + rank : axis);
  return ST_OK;
}

status converter_broadcast(ir_value *const *values, int n, int64_t *dims, int *rank) {
  *rank = 0;
  for (int i = 0; i < n; ++i)
    if (values[i]->tensor.rank > *rank) *rank = values[i]->tensor.rank;
  for (int d = 0; d < *rank; ++d) dims[d] = 1;
  for (int i = 0; i < n; ++i) {
    const tensor *t = &values[i]->tensor;
    for (int d = 0; d < t->rank; ++d) {
      int64_t *to = &dims[d + *rank - t->rank];
      if (t->dims[d] == 1 || t->dims[d] == *to) continue;
      if (*to != 1)
        return OP_FAIL("input %d has shape %s, which does not broadcast with %s", i, SHAPE_OF(t),
                       DIMS_TEXT(dims, *rank));
      *to = t->dims[d];
    }
  }
  return ST_OK;
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

static status convert_nodes(converter *c, const onnx_node *nodes, int n);

static const onnx_function *function_of(const onnx_model *m, const onnx_node *n) {
  for (int i = 0; i < m->n_functions; ++i)
    if (!strcmp(m->functions[i].name, n->op_type) && !strcmp(m->functions[i].domain, n->domain))
      return &m->functions[i];
  return NULL;
}

/* A function's nodes see its inputs only. */
static status convert_call(converter *c, const onnx_function *f) {
  converter inner = *c;
  inner.call = c->node;
  inner.callee = f;
  inner.opsets = f->n_opsets ? f->opsets : c->opsets;
  inner.n_opsets = f->n_opsets ? f->n_opsets : c->n_opsets;
  inner.version = onnx_version(inner.opsets, inner.n_opsets, "");
  ++inner.depth;
  TRY(scope_new(c->g, NULL, &inner.scope));
  for (int i = 0; i < f->n_inputs && i < c->node->n_inputs; ++i) {
    ir_value *v = converter_input(c, i);
    if (v) TRY(scope_add(inner.scope, f->inputs[i], v));
  }
  TRY(convert_nodes(&inner, f->nodes, f->n_nodes));
  for (int i = 0; i < f->n_outputs && i < c->node->n_outputs; ++i) {
    ir_value *v = scope_find(inner.scope, f->outputs[i]);
    if (!v && converter_wants(c, i))
      return OP_FAIL("function %s does not compute its output %s", f->name, f->outputs[i]);
    if (v) TRY(converter_output(c, i, v));
  }
  return ST_OK;
}

/* Whether an operator does not compute with elements, or knows types that are stored only. */
static bool takes_narrow(const char *name) {
  static const char *const names[] = {"Cast",
                                      "CastLike",
                                      "QuantizeLinear",
                                      "DequantizeLinear",
                                      "Identity",
                                      "Reshape",
                                      "Flatten",
                                      "Squeeze",
                                      "Unsqueeze",
                                      "Transpose",
                                      "Shape",
                                      "Size",
                                      "If",
                                      "Loop",
                                      "Scan"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
    if (!strcmp(names[i], name)) return true;
  return false;
}

static status check_inputs(const converter *c) {
  const onnx_node *n = c->node;
  const bool narrow = takes_narrow(n->op_type);
  for (int i = 0; i < n->n_inputs; ++i)
    if (n->inputs[i][0] && !scope_find(c->scope, n->inputs[i]))
      return OP_FAIL("input %d, %s, is computed by no node before", i, n->inputs[i]);
    else if (!narrow && converter_input(c, i) && converter_input(c, i)->narrow)
      return OP_FAIL("elements of %s are not supported", onnx_dtype_name(converter_input(c, i)->narrow));
  for (int i = 0; i < c->entry->min_inputs; ++i)
    if (!converter_input(c, i)) return OP_FAIL("input %d is missing", i);
  return ST_OK;
}

static status convert_node(converter *c) {
  const onnx_node *n = c->node;
  const onnx_function *f = function_of(c->model, n);
  if (c->depth > MAX_DEPTH) return OP_FAIL("functions and graphs are nested deeper than %d", MAX_DEPTH);
  if (f) return convert_call(c, f);
  c->entry = operator_of(n);
  if (!c->entry) return OP_FAIL("operator %s%s%s is not supported", n->domain, n->domain[0] ? "." : "", n->op_type);
  TRY(check_inputs(c));
  return c->entry->convert(c);
}

static status convert_nodes(converter *c, const onnx_node *nodes, int n) {
  for (int i = 0; i < n; ++i) {
    c->node = &nodes[i];
    c->g->name = nodes[i].name;
    c->g->label = nodes[i].label;
    c->g->origin = nodes[i].op_type;
    const status st = convert_node(c);
    if (st == ST_GRAPH_ENGINE || st == ST_NO_HOST_MEMORY || st == ONNX_WANTS_CONTENTS) return st; /* of a node inside */
    if (st != ST_OK)
      return fail(ST_GRAPH_ENGINE, "node %s (%s): %s", nodes[i].label, nodes[i].op_type, strdupa(fail_take()));
  }
  return ST_OK;
}

static status add_initialisers(converter *c, const onnx_graph *g) {
  for (int i = 0; i < g->n_initialisers; ++i) {
    ir_value *v;
    if (converter_tensor(c, &g->initialisers[i], &v) != ST_OK)
      return fail(ST_GRAPH_ENGINE, "initialiser %s: %s", g->initialisers[i].name, strdupa(fail_take()));
    TRY(scope_add(c->scope, g->initialisers[i].name, v));
  }
  return ST_OK;
}

static status find_outputs(const converter *c, const onnx_graph *g, ir_value **outputs) {
  for (int i = 0; i < g->n_outputs; ++i) {
    outputs[i] = scope_find(c->scope, g->outputs[i].name);
    if (!outputs[i]) return fail(ST_GRAPH_ENGINE, "output %s is computed by no node", g->outputs[i].name);
  }
  return ST_OK;
}

status converter_body(converter *c, const onnx_graph *body, ir_value *const *bound, ir_value **results) {
  converter inner = *c;
  ++inner.depth;
  TRY(scope_new(c->g, c->scope, &inner.scope));
  for (int i = 0; i < body->n_inputs; ++i) TRY(scope_add(inner.scope, body->inputs[i].name, bound[i]));
  TRY(add_initialisers(&inner, body));
  TRY(convert_nodes(&inner, body->nodes, body->n_nodes));
  return find_outputs(&inner, body, results);
}

/* ---- the model's inputs ------------------------------------------------------------------------------------------ */

static onnx_shape *given_shape(onnx_shape *shapes, int n, const char *name) {
  for (int i = 0; i < n; ++i)
    if (!strcmp(shapes[i].name, name)) return &shapes[i];
  return NULL;
}

/* The dims of an input: those that the caller gives, or the declared ones. */
static status input_dims(const onnx_value_info *v, const onnx_shape *given, int64_t *dims, int *rank) {
  const int n = given ? given->n_dims : v->n_dims;
  if (!given && !v->has_shape) return fail(ST_INVALID_PARAM, "input %s has no shape in the model; give one", v->name);
  if (given && v->has_shape && v->n_dims != n)
    return fail(ST_INVALID_PARAM, "input %s has %d dimensions, expected the %d that the model declares", v->name, n,
                v->n_dims);
  if (n > MAX_RANK)
    return fail(ST_INVALID_PARAM, "input %s has %d dimensions, at most %d are supported", v->name, n, MAX_RANK);
  for (int d = 0; d < n; ++d) {
    const int64_t declared = v->has_shape ? v->dims[d].size : -1;
    dims[d] = given ? given->dims[d] : declared;
    if (dims[d] < 0)
      return fail(ST_INVALID_PARAM, "dimension %d (%s) of input %s is open; give its shape", d,
                  v->has_shape && v->dims[d].name ? v->dims[d].name : "without a name", v->name);
    if (declared >= 0 && declared != dims[d])
      return fail(ST_INVALID_PARAM, "dimension %d of input %s is %jd, expected the %jd that the model declares", d,
                  v->name, (intmax_t)dims[d], (intmax_t)declared);
  }
  *rank = n;
  return ST_OK;
}

/* Lets nodes see a copy of what the input contains. It stays an input of the graph. */
static status bind_contents(converter *c, const ir_value *input, const void *contents, ir_value **out) {
  TRY(ir_constant(c->g, input->tensor.dtype, input->tensor.dims, input->tensor.rank, NULL, out));
  memcpy(ir_fill(*out), contents, (size_t)input->tensor.n * dtype_bytes(input->tensor.dtype));
  return ST_OK;
}

/* Adds an input of the graph. What callers give in another form becomes what the model declares, in *out. */
static status converter_add_input(converter *c, const onnx_shape *given, const onnx_value_info *v, int dtype,
                                  const int64_t *dims, int rank, ir_value **out) {
  const bool blocked = given && given->blocked;
  int64_t in_blocks[MAX_RANK];
  const bool half = given && given->half && dtype == ACL_FLOAT;
  if (blocked) layout_blocked_dims(dims, in_blocks);
  TRY(ir_input(c->g, v->name, half ? ACL_FLOAT16 : dtype, blocked ? in_blocks : dims, blocked ? LAYOUT_RANK : rank,
               out));
  if (given && given->contents) TRY(bind_contents(c, *out, given->contents, out));
  if (blocked) TRY(layout_plain(c->g, *out, dims[1], out));
  return half ? ir_cast(c->g, *out, dtype, out) : ST_OK;
}

static status add_inputs(converter *c) {
  const onnx_graph *g = c->model->graph;
  onnx_shape *shapes = c->shapes;
  const int n_shapes = c->n_shapes;
  for (int i = 0; i < g->n_inputs; ++i) {
    const onnx_value_info *v = &g->inputs[i];
    if (scope_find(c->scope, v->name)) continue; /* an initialiser: files of IR version 3 list them as inputs, too */
    int64_t dims[MAX_RANK];
    int rank, dtype, narrow;
    ir_value *value;
    if (!v->is_tensor)
      return fail(ST_GRAPH_ENGINE, "input %s is no tensor; sequences, maps and optionals are not supported", v->name);
    if (converter_stored_dtype(v->dtype, &dtype, &narrow) != ST_OK)
      return fail(ST_GRAPH_ENGINE, "input %s: %s", v->name, strdupa(fail_take()));
    onnx_shape *given = given_shape(shapes, n_shapes, v->name);
    TRY(input_dims(v, given, dims, &rank));
    TRY(converter_add_input(c, given, v, dtype, dims, rank, &value));
    value->narrow = narrow;
    TRY(scope_add(c->scope, v->name, value));
  }
  for (int i = 0; i < n_shapes; ++i) {
    int k = 0;
    while (k < c->g->n_inputs && strcmp(c->g->inputs[k]->name, shapes[i].name) != 0) ++k;
    if (k == c->g->n_inputs) return fail(ST_INVALID_PARAM, "%s is no input of the model", shapes[i].name);
  }
  return ST_OK;
}

static status convert_model(converter *c) {
  const onnx_graph *g = c->model->graph;
  TRY(scope_new(c->g, NULL, &c->scope));
  TRY(add_initialisers(c, g));
  TRY(add_inputs(c));
  TRY(convert_nodes(c, g->nodes, g->n_nodes));
  c->g->n_outputs = g->n_outputs;
  c->g->outputs = REGION_NEW(&c->g->memory, ir_value *, g->n_outputs);
  if (!c->g->outputs) return fail(ST_NO_HOST_MEMORY, "no host memory for the graph of a model");
  return find_outputs(c, g, c->g->outputs);
}

static void forget_contents(const void *model, const void *contents, uint64_t bytes) {
  onnx_forget(model, contents, bytes);
}

status onnx_convert(const onnx_model *m, onnx_shape *shapes, int n_shapes, ir_graph **out) {
  converter c = {
      .g = ir_new(), .model = m, .opsets = m->opsets, .n_opsets = m->n_opsets, .shapes = shapes, .n_shapes = n_shapes};
  if (!c.g) return ST_NO_HOST_MEMORY;
  c.version = onnx_version(m->opsets, m->n_opsets, "");
  c.g->forget = forget_contents;
  c.g->lender = m;
  const status st = convert_model(&c);
  if (st == ST_OK)
    *out = c.g;
  else
    ir_free(c.g);
  return st;
}
