/* SPDX-License-Identifier: Apache-2.0 */
/* Reads an ONNX file, whose contents are not trusted, into the structures of onnx.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/onnx/onnx.h"
#include "graph/onnx/tensor_contents.h"
#include "graph/onnx/wire.h"

/* Graphs lie in attributes of nodes of graphs; a hostile file could nest them until the stack ends. */
enum { MAX_DEPTH = 32 };

#define PARSE_FAIL(...) fail(ST_CONFIG_PARSE, __VA_ARGS__)

static status onnx_no_memory(void) {
  return fail(ST_NO_HOST_MEMORY, "no host memory for the structures of an ONNX model");
}

/* Appends a zeroed element to an array of the region, and sets `pointer` to it. */
#define APPEND(reader, array, n, pointer)                                                                              \
  do {                                                                                                                 \
    (array) = region_grow(&(reader)->model->memory, array, (size_t)(n), sizeof *(array));                              \
    if (!(array)) return onnx_no_memory();                                                                             \
    (pointer) = &(array)[(n)++];                                                                                       \
  } while (0)

static status onnx_read_text(onnx_reader *r, const wire_field *f, const char **out) {
  const size_t n = (size_t)(f->bytes.end - f->bytes.next);
  if (f->type != WIRE_BYTES) return PARSE_FAIL("field %u of a message is no text", f->number);
  if (memchr(f->bytes.next, 0, n)) return PARSE_FAIL("a name or text contains a NUL character");
  *out = region_text(&r->model->memory, (const char *)f->bytes.next, n);
  return *out ? ST_OK : onnx_no_memory();
}

static status add_text(onnx_reader *r, const wire_field *f, const char ***array, int *n) {
  const char **slot;
  APPEND(r, *array, *n, slot);
  return onnx_read_text(r, f, slot);
}

/* The elements of a repeated number: packed, or one of them. */
static wire elements_of(const wire_field *f) { return f->type == WIRE_BYTES ? f->bytes : wire_of(NULL, 0); }

static status add_int(onnx_reader *r, uint64_t value, int64_t **array, int *n) {
  int64_t *slot;
  APPEND(r, *array, *n, slot);
  *slot = (int64_t)value;
  return ST_OK;
}

static status add_ints(onnx_reader *r, const wire_field *f, int64_t **array, int *n) {
  if (f->type == WIRE_VARINT) return add_int(r, f->value, array, n);
  wire w = elements_of(f);
  for (uint64_t value; wire_element(&w, WIRE_VARINT, &value);) TRY(add_int(r, value, array, n));
  return w.bad ? PARSE_FAIL("a list of integers is cut off") : ST_OK;
}

static status add_floats(onnx_reader *r, const wire_field *f, onnx_attribute *a) {
  wire w = elements_of(f);
  uint64_t value = f->value;
  for (bool more = f->type == WIRE_FIXED32 || wire_element(&w, WIRE_FIXED32, &value); more;
       more = wire_element(&w, WIRE_FIXED32, &value)) {
    float *slot;
    APPEND(r, a->floats, a->n_floats, slot);
    *slot = wire_float(value);
  }
  return w.bad ? PARSE_FAIL("a list of numbers is cut off") : ST_OK;
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

static status read_external(onnx_reader *r, wire w, tensor_contents *c) {
  const char *key = "", *value = "";
  for (wire_field f; wire_next(&w, &f);) {
    if (f.number == 1) TRY(onnx_read_text(r, &f, &key));
    if (f.number == 2) TRY(onnx_read_text(r, &f, &value));
  }
  if (!strcmp(key, "location")) c->location = value;
  if (!strcmp(key, "offset")) c->offset = strtoull(value, NULL, 10);
  if (!strcmp(key, "length")) c->length = strtoull(value, NULL, 10), c->has_length = true;
  return w.bad ? PARSE_FAIL("the place of external data is cut off") : ST_OK;
}

status onnx_read_tensor(onnx_reader *r, wire w, onnx_tensor *t) {
  tensor_contents c = {.message = w};
  t->name = "";
  for (wire_field f; wire_next(&w, &f);) {
    switch (f.number) {
    case 1: TRY(add_ints(r, &f, &t->dims, &t->n_dims)); break;
    case 2: t->dtype = (int)f.value; break;
    case 3: return PARSE_FAIL("tensor %s is stored in segments, which ONNX no longer has", t->name);
    case 8: TRY(onnx_read_text(r, &f, &t->name)); break;
    case 9: c.raw = f.bytes.next, c.raw_bytes = (uint64_t)(f.bytes.end - f.bytes.next); break;
    case 13: TRY(read_external(r, f.bytes, &c)); break;
    case 14: c.is_external = f.value == 1; break;
    default: break;
    }
  }
  if (w.bad) return PARSE_FAIL("tensor %s is cut off or malformed", t->name);
  return tensor_contents_find(r, &c, t);
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

static status read_graph(onnx_reader *r, wire w, onnx_graph *g);

static status read_attribute(onnx_reader *r, wire w, onnx_attribute *a) {
  a->name = a->s = "";
  for (wire_field f; wire_next(&w, &f);) {
    switch (f.number) {
    case 1: TRY(onnx_read_text(r, &f, &a->name)); break;
    case 2: a->f = wire_float(f.value); break;
    case 3: a->i = (int64_t)f.value; break;
    case 4: TRY(onnx_read_text(r, &f, &a->s)); break;
    case 5:
      if (!(a->t = REGION_NEW(&r->model->memory, onnx_tensor, 1))) return onnx_no_memory();
      TRY(onnx_read_tensor(r, f.bytes, a->t));
      break;
    case 6:
      if (!(a->g = REGION_NEW(&r->model->memory, onnx_graph, 1))) return onnx_no_memory();
      TRY(read_graph(r, f.bytes, a->g));
      break;
    case 7: TRY(add_floats(r, &f, a)); break;
    case 8: TRY(add_ints(r, &f, &a->ints, &a->n_ints)); break;
    case 9: TRY(add_text(r, &f, &a->strings, &a->n_strings)); break;
    case 20: a->type = (int)f.value; break;
    case 21: TRY(onnx_read_text(r, &f, &a->reference)); break;
    default: break;
    }
  }
  if (a->type == ONNX_ATTR_NONE) /* files of IR version 1 leave the type out */
    a->type = a->t          ? ONNX_ATTR_TENSOR
              : a->g        ? ONNX_ATTR_GRAPH
              : a->n_floats ? ONNX_ATTR_FLOATS
              : a->n_ints   ? ONNX_ATTR_INTS
              : *a->s       ? ONNX_ATTR_STRING
                            : ONNX_ATTR_INT;
  const bool whole = (a->type != ONNX_ATTR_TENSOR || a->t) && (a->type != ONNX_ATTR_GRAPH || a->g);
  return w.bad || !(whole || a->reference) ? PARSE_FAIL("attribute %s is cut off or malformed", a->name) : ST_OK;
}

/* Messages name a node without a name by its number, from 0, and what it makes. */
static status label_node(onnx_reader *r, onnx_node *n, int number) {
  char text[160];
  n->label = n->name;
  if (*n->name) return ST_OK;
  if (n->n_outputs)
    snprintf(text, sizeof text, "%d without a name, which makes %.100s", number, n->outputs[0]);
  else
    snprintf(text, sizeof text, "%d without a name", number);
  n->label = region_text(&r->model->memory, text, strlen(text));
  return n->label ? ST_OK : onnx_no_memory();
}

/* number: of the node in its graph. */
static status read_node(onnx_reader *r, wire w, onnx_node *n, int number) {
  n->name = n->op_type = n->domain = "";
  for (wire_field f; wire_next(&w, &f);) {
    onnx_attribute *a;
    switch (f.number) {
    case 1: TRY(add_text(r, &f, &n->inputs, &n->n_inputs)); break;
    case 2: TRY(add_text(r, &f, &n->outputs, &n->n_outputs)); break;
    case 3: TRY(onnx_read_text(r, &f, &n->name)); break;
    case 4: TRY(onnx_read_text(r, &f, &n->op_type)); break;
    case 5:
      APPEND(r, n->attributes, n->n_attributes, a);
      if (read_attribute(r, f.bytes, a) != ST_OK) {
        TRY(label_node(r, n, number));
        return PARSE_FAIL("node %s (%s): %s", n->label, n->op_type, strdupa(fail_take()));
      }
      break;
    case 7: TRY(onnx_read_text(r, &f, &n->domain)); break;
    default: break;
    }
  }
  if (!strcmp(n->domain, "ai.onnx")) n->domain = "";
  TRY(label_node(r, n, number));
  return w.bad ? PARSE_FAIL("node %s (%s) is cut off or malformed", n->label, n->op_type) : ST_OK;
}

/* ---- declarations ------------------------------------------------------------------------------------------------ */

static status read_dim(onnx_reader *r, wire w, onnx_dim *d) {
  *d = (onnx_dim){.size = -1};
  for (wire_field f; wire_next(&w, &f);) {
    if (f.number == 1) d->size = (int64_t)f.value < 0 ? -1 : (int64_t)f.value;
    if (f.number == 2) TRY(onnx_read_text(r, &f, &d->name));
  }
  return w.bad ? PARSE_FAIL("a dimension is cut off") : ST_OK;
}

static status read_tensor_type(onnx_reader *r, wire w, onnx_value_info *v) {
  for (wire_field f; wire_next(&w, &f);) {
    if (f.number == 1) v->dtype = (int)f.value;
    if (f.number != 2) continue;
    v->has_shape = true;
    wire shape = f.bytes;
    for (wire_field dim; wire_next(&shape, &dim);) {
      if (dim.number != 1) continue;
      onnx_dim *d;
      APPEND(r, v->dims, v->n_dims, d);
      TRY(read_dim(r, dim.bytes, d));
    }
    if (shape.bad) w.bad = true;
  }
  return w.bad ? PARSE_FAIL("the type of value %s is cut off or malformed", v->name) : ST_OK;
}

/* Whether a type is optional, and of what: an optional tensor is one that the caller gives. */
static bool read_optional(wire type, wire *element) {
  bool found = false;
  for (wire_field f; wire_next(&type, &f);) {
    if (f.number != 9) continue;
    for (wire_field of; wire_next(&f.bytes, &of);)
      if (of.number == 1) *element = of.bytes, found = true;
  }
  return found;
}

static status read_value_info(onnx_reader *r, wire w, onnx_value_info *v) {
  wire type = {0}, element;
  v->name = "";
  for (wire_field f; wire_next(&w, &f);) {
    if (f.number == 1) TRY(onnx_read_text(r, &f, &v->name));
    if (f.number == 2) type = f.bytes;
  }
  if (read_optional(type, &element)) type = element;
  for (wire_field f; wire_next(&type, &f);) {
    if (f.number != 1) continue;
    v->is_tensor = true;
    TRY(read_tensor_type(r, f.bytes, v));
  }
  return w.bad || type.bad ? PARSE_FAIL("the declaration of value %s is cut off or malformed", v->name) : ST_OK;
}

/* ---- graphs, functions, models ----------------------------------------------------------------------------------- */

static status read_graph_field(onnx_reader *r, const wire_field *f, onnx_graph *g) {
  onnx_node *n;
  onnx_tensor *t;
  onnx_value_info *v;
  switch (f->number) {
  case 1: APPEND(r, g->nodes, g->n_nodes, n); return read_node(r, f->bytes, n, g->n_nodes - 1);
  case 2: return onnx_read_text(r, f, &g->name);
  case 5: APPEND(r, g->initialisers, g->n_initialisers, t); return onnx_read_tensor(r, f->bytes, t);
  case 11: APPEND(r, g->inputs, g->n_inputs, v); return read_value_info(r, f->bytes, v);
  case 12: APPEND(r, g->outputs, g->n_outputs, v); return read_value_info(r, f->bytes, v);
  case 15: return PARSE_FAIL("graph %s has sparse initialisers, which are not supported", g->name);
  default: return ST_OK;
  }
}

static status read_graph(onnx_reader *r, wire w, onnx_graph *g) {
  if (r->depth == MAX_DEPTH) return PARSE_FAIL("graphs are nested deeper than %d", MAX_DEPTH);
  g->name = "";
  ++r->depth;
  for (wire_field f; wire_next(&w, &f);) TRY(read_graph_field(r, &f, g));
  --r->depth;
  return w.bad ? PARSE_FAIL("graph %s is cut off or malformed", g->name) : ST_OK;
}

static status read_opset(onnx_reader *r, wire w, onnx_opset *o) {
  o->domain = "";
  for (wire_field f; wire_next(&w, &f);) {
    if (f.number == 1) TRY(onnx_read_text(r, &f, &o->domain));
    if (f.number == 2) o->version = (int64_t)f.value;
  }
  if (!strcmp(o->domain, "ai.onnx")) o->domain = "";
  return w.bad ? PARSE_FAIL("the version of an operator set is cut off") : ST_OK;
}

static status read_function(onnx_reader *r, wire w, onnx_function *p) {
  p->name = p->domain = "";
  for (wire_field f; wire_next(&w, &f);) {
    onnx_node *n;
    onnx_opset *o;
    onnx_attribute *a;
    switch (f.number) {
    case 1: TRY(onnx_read_text(r, &f, &p->name)); break;
    case 4: TRY(add_text(r, &f, &p->inputs, &p->n_inputs)); break;
    case 5: TRY(add_text(r, &f, &p->outputs, &p->n_outputs)); break;
    case 7:
      APPEND(r, p->nodes, p->n_nodes, n);
      TRY(read_node(r, f.bytes, n, p->n_nodes - 1));
      break;
    case 9:
      APPEND(r, p->opsets, p->n_opsets, o);
      TRY(read_opset(r, f.bytes, o));
      break;
    case 10: TRY(onnx_read_text(r, &f, &p->domain)); break;
    case 11:
      APPEND(r, p->defaults, p->n_defaults, a);
      TRY(read_attribute(r, f.bytes, a));
      break;
    default: break;
    }
  }
  return w.bad ? PARSE_FAIL("function %s is cut off or malformed", p->name) : ST_OK;
}

static status read_model(onnx_reader *r, wire w) {
  onnx_model *m = r->model;
  m->producer = "";
  for (wire_field f; wire_next(&w, &f);) {
    onnx_opset *o;
    onnx_function *p;
    switch (f.number) {
    case 1: m->ir_version = (int64_t)f.value; break;
    case 2: TRY(onnx_read_text(r, &f, &m->producer)); break;
    case 7:
      if (!m->graph && !(m->graph = REGION_NEW(&m->memory, onnx_graph, 1))) return onnx_no_memory();
      TRY(read_graph(r, f.bytes, m->graph));
      break;
    case 8:
      APPEND(r, m->opsets, m->n_opsets, o);
      TRY(read_opset(r, f.bytes, o));
      break;
    case 25:
      APPEND(r, m->functions, m->n_functions, p);
      TRY(read_function(r, f.bytes, p));
      break;
    default: break;
    }
  }
  if (w.bad) return PARSE_FAIL("the file is cut off, or is no ONNX model");
  return m->graph ? ST_OK : PARSE_FAIL("the file has no graph: it is no ONNX model");
}

status onnx_read(const void *bytes, size_t n, const onnx_data *data, onnx_model **out) {
  static const onnx_data none;
  onnx_reader r = {.model = calloc(1, sizeof *r.model), .data = data ? data : &none};
  if (!r.model) return onnx_no_memory();
  const status st = read_model(&r, wire_of(bytes, n));
  if (st == ST_OK)
    *out = r.model;
  else
    onnx_free(r.model);
  return st;
}

void onnx_free(onnx_model *m) {
  tensor_contents_unmap(m);
  region_free(&m->memory);
  free(m);
}

int64_t onnx_version(const onnx_opset *opsets, int n, const char *domain) {
  for (int i = 0; i < n; ++i)
    if (!strcmp(opsets[i].domain, domain)) return opsets[i].version;
  return 0;
}
