/* SPDX-License-Identifier: Apache-2.0 */
/* Control flow. Conditions and numbers of turns have to be known while the model is converted, so bodies are unrolled;
 * where they depend on what an input contains, the program is made for those contents. */
#include <string.h>

#include "graph/nodes.h"
#include "graph/onnx/convert.h"

/* Turns of a loop, which could go on for ever, or fill the memory with their nodes. */
enum { MOST_TURNS = 100000 };

static status body_of(const converter *c, const char *name, const onnx_graph **body) {
  const onnx_attribute *a = converter_attribute(c, name);
  if (!a || a->type != ONNX_ATTR_GRAPH) return OP_FAIL("attribute %s is missing, expected a graph", name);
  *body = a->g;
  return ST_OK;
}

static status read_flag(converter *c, ir_value *v, bool *flag) {
  int64_t value;
  TRY(converter_known(c, v));
  if (v->tensor.n != 1) return OP_FAIL("a condition has %jd elements, expected 1", (intmax_t)v->tensor.n);
  value_read_integers(v, &value);
  *flag = value;
  return ST_OK;
}

static status convert_if(converter *c) {
  const onnx_graph *body;
  bool flag;
  TRY(read_flag(c, converter_input(c, 0), &flag));
  TRY(body_of(c, flag ? "then_branch" : "else_branch", &body));
  ir_value **results = REGION_NEW(&c->g->memory, ir_value *, body->n_outputs);
  if (!results) return ST_NO_HOST_MEMORY;
  if (body->n_outputs < c->node->n_outputs)
    return OP_FAIL("the branch has %d outputs, expected %d", body->n_outputs, c->node->n_outputs);
  TRY(converter_body(c, body, NULL, results));
  for (int i = 0; i < c->node->n_outputs; ++i) TRY(converter_output(c, i, results[i]));
  return ST_OK;
}

/* Values that a loop collects, one a turn. */
typedef struct {
  int n;
  ir_value **values;
} collection;

static status collect(converter *c, collection *l, ir_value *v) {
  l->values = region_grow(&c->g->memory, l->values, (size_t)l->n, sizeof *l->values);
  if (!l->values) return ST_NO_HOST_MEMORY;
  l->values[l->n++] = v;
  return ST_OK;
}

/* The collected values, stacked along a new axis, in this or the reverse order. like: the body's declaration, which
 * counts if there are none. */
static status stacked(converter *c, collection *l, const onnx_value_info *like, int64_t axis, bool reverse,
                      ir_value **out) {
  int64_t dims[MAX_RANK];
  int dtype, at;
  if (!l->n) {
    TRY(converter_dtype(like->dtype, &dtype));
    dims[0] = 0;
    for (int d = 0; d < like->n_dims && d + 1 < MAX_RANK; ++d)
      dims[d + 1] = like->dims[d].size < 0 ? 0 : like->dims[d].size;
    return ir_constant(c->g, dtype, dims, like->n_dims + 1, NULL, out);
  }
  const tensor *t = &l->values[0]->tensor;
  if (t->rank == MAX_RANK)
    return OP_FAIL("the result has %d dimensions, at most %d are supported", t->rank + 1, MAX_RANK);
  TRY(converter_axis(axis, t->rank + 1, &at));
  for (int i = 0; reverse && i < l->n / 2; ++i) {
    ir_value *v = l->values[i];
    l->values[i] = l->values[l->n - 1 - i];
    l->values[l->n - 1 - i] = v;
  }
  for (int d = 0; d <= t->rank; ++d) dims[d] = d < at ? t->dims[d] : d == at ? l->n : t->dims[d - 1];
  const aclTensorList *list = ir_list(c->g, l->values, l->n);
  if (!list) return ST_NO_HOST_MEMORY;
  TRY(ir_temporary(c->g, t->dtype, dims, t->rank + 1, out));
  return node_Stack(c->g, list, at, *out);
}

/* Loop(turns?, condition?, state...): body(turn, condition, state...) gives (condition, state..., collected...). */
static status convert_loop(converter *c) {
  const onnx_graph *body;
  int64_t turns = INT64_MAX, turn = 0;
  bool goes_on = true;
  TRY(body_of(c, "body", &body));
  const int n_state = c->node->n_inputs - 2, n_collected = body->n_outputs - 1 - n_state;
  if (n_state < 0 || n_collected < 0 || body->n_inputs != n_state + 2)
    return OP_FAIL("the body has %d inputs and %d outputs, which do not fit the node's %d inputs", body->n_inputs,
                   body->n_outputs, c->node->n_inputs);
  if (converter_input(c, 0)) {
    const int64_t *given;
    int n;
    TRY(converter_constant_ints(c, 0, &given, &n));
    turns = given[0];
  }
  if (converter_input(c, 1)) TRY(read_flag(c, converter_input(c, 1), &goes_on));
  ir_value **bound = REGION_NEW(&c->g->memory, ir_value *, n_state + 2);
  ir_value **results = REGION_NEW(&c->g->memory, ir_value *, body->n_outputs);
  collection *lists = REGION_NEW(&c->g->memory, collection, n_collected);
  if (!bound || !results || !lists) return ST_NO_HOST_MEMORY;
  for (int i = 0; i < n_state; ++i) bound[i + 2] = converter_input(c, i + 2);
  for (; goes_on && turn < turns; ++turn) {
    if (turn == MOST_TURNS) return OP_FAIL("the loop has more than %d turns", MOST_TURNS);
    TRY(ir_constant(c->g, ACL_INT64, NULL, 0, NULL, &bound[0]));
    *(int64_t *)ir_fill(bound[0]) = turn;
    TRY(ir_number(c->g, ACL_BOOL, 1, &bound[1]));
    TRY(converter_body(c, body, bound, results));
    TRY(read_flag(c, results[0], &goes_on));
    for (int i = 0; i < n_state; ++i) bound[i + 2] = results[i + 1];
    for (int i = 0; i < n_collected; ++i) TRY(collect(c, &lists[i], results[1 + n_state + i]));
  }
  for (int i = 0; i < n_state; ++i) TRY(converter_output(c, i, bound[i + 2]));
  for (int i = 0; i < n_collected; ++i) {
    ir_value *y;
    if (!converter_wants(c, n_state + i)) continue;
    TRY(stacked(c, &lists[i], &body->outputs[1 + n_state + i], 0, false, &y));
    TRY(converter_output(c, n_state + i, y));
  }
  return ST_OK;
}

static int64_t list_element(const int64_t *list, int n, int i) { return i < n ? list[i] : 0; }

/* One slice of a value along an axis, without that axis. */
static status slice_of(converter *c, ir_value *x, int64_t axis, int64_t at, ir_value **out) {
  tensor t = x->tensor;
  int a;
  TRY(converter_axis(axis, t.rank, &a));
  const int64_t offset = at * t.strides[a];
  for (int d = a; d + 1 < t.rank; ++d) {
    t.dims[d] = t.dims[d + 1];
    t.strides[d] = t.strides[d + 1];
  }
  return ir_view(c->g, x, t.dims, t.strides, t.rank - 1, offset, out);
}

/* The values of the batches, stacked along a new first axis. Shorter ones have zeros at the end of their first axis. */
static status stacked_batches(converter *c, ir_value **values, int n, int64_t length, ir_value **out) {
  int64_t none[MAX_RANK] = {0}, after[MAX_RANK] = {0};
  collection all = {n, values};
  for (int i = 0; i < n && length >= 0; ++i) {
    after[0] = length - values[i]->tensor.dims[0];
    TRY(converter_padded(c, values[i], none, after, 0, &values[i]));
  }
  return stacked(c, &all, NULL, 0, false, out);
}

/* One batch of Scan of version 8. results: its states, and what it collected. */
static status scan_batch(converter *c, const onnx_graph *body, int n_state, int n_scanned, int64_t batch, int64_t turns,
                         ir_value **results) {
  int n_ways;
  const int64_t *ways = attribute_ints(c, "directions", &n_ways);
  const int n_collected = body->n_outputs - n_state;
  ir_value **bound = REGION_NEW(&c->g->memory, ir_value *, body->n_inputs);
  collection *lists = REGION_NEW(&c->g->memory, collection, n_collected);
  if (!bound || !lists) return ST_NO_HOST_MEMORY;
  for (int i = 0; i < n_state; ++i) TRY(slice_of(c, converter_input(c, 1 + i), 0, batch, &bound[i]));
  for (int64_t turn = 0; turn < turns; ++turn) {
    for (int i = 0; i < n_scanned; ++i) {
      ir_value *of_batch, *scanned = converter_input(c, 1 + n_state + i);
      TRY(slice_of(c, scanned, 0, batch, &of_batch));
      TRY(slice_of(c, of_batch, 0, list_element(ways, n_ways, i) ? turns - 1 - turn : turn, &bound[n_state + i]));
    }
    TRY(converter_body(c, body, bound, results));
    memcpy(bound, results, (size_t)n_state * sizeof *bound);
    for (int i = 0; i < n_collected; ++i) TRY(collect(c, &lists[i], results[n_state + i]));
  }
  memcpy(results, bound, (size_t)n_state * sizeof *bound);
  for (int i = 0; i < n_collected; ++i)
    TRY(stacked(c, &lists[i], &body->outputs[n_state + i], 0, false, &results[n_state + i]));
  return ST_OK;
}

/* Scan of version 8, (lengths?, state..., scanned...): all but the lengths have a first dimension of batches, and are
 * scanned along the second. */
static status convert_scan_8(converter *c) {
  const onnx_graph *body;
  const int64_t *lengths = NULL;
  int n_lengths;
  TRY(body_of(c, "body", &body));
  const int n_scanned = (int)attribute_int(c, "num_scan_inputs", 1), n_state = c->node->n_inputs - 1 - n_scanned;
  if (n_scanned < 1 || n_state < 0 || body->n_outputs < n_state || body->n_inputs != n_state + n_scanned)
    return OP_FAIL("the body has %d inputs and %d outputs, which do not fit the node", body->n_inputs, body->n_outputs);
  for (int i = 1; i < c->node->n_inputs; ++i)
    if (!converter_input(c, i) || converter_input(c, i)->tensor.rank < 1 + (i > n_state))
      return OP_FAIL("input %d is missing, or has no dimension of batches", i);
  const int64_t *dims = converter_input(c, 1 + n_state)->tensor.dims;
  const int64_t n_batches = dims[0], length = dims[1];
  for (int i = 1; i < c->node->n_inputs; ++i) {
    const tensor *t = &converter_input(c, i)->tensor;
    if (t->dims[0] != n_batches || (i > n_state && t->dims[1] != length))
      return OP_FAIL("input %d has shape %s, expected that of the others", i, SHAPE_OF(t));
  }
  if (converter_input(c, 0)) TRY(converter_constant_ints(c, 0, &lengths, &n_lengths));
  if (!n_batches || n_batches > MOST_TURNS || (lengths && n_lengths != n_batches))
    return OP_FAIL("there are %jd batches, and lengths of others", (intmax_t)n_batches);
  ir_value **all = REGION_NEW(&c->g->memory, ir_value *, (n_batches + 1) * body->n_outputs);
  if (!all) return ST_NO_HOST_MEMORY;
  for (int64_t b = 0; b < n_batches; ++b) {
    const int64_t turns = lengths ? lengths[b] : length;
    if (turns < 0 || turns > length)
      return OP_FAIL("a length is %jd, expected 0 to %jd", (intmax_t)turns, (intmax_t)length);
    ir_value **results = all + n_batches * body->n_outputs;
    TRY(scan_batch(c, body, n_state, n_scanned, b, turns, results));
    for (int i = 0; i < body->n_outputs; ++i) all[i * n_batches + b] = results[i];
  }
  for (int i = 0; i < body->n_outputs; ++i) {
    ir_value *y;
    if (!converter_wants(c, i)) continue;
    TRY(stacked_batches(c, all + i * n_batches, (int)n_batches, i < n_state ? -1 : length, &y));
    TRY(converter_output(c, i, y));
  }
  return ST_OK;
}

/* Scan(state..., scanned...): body(state..., slices...) gives (state..., collected...), as often as the scanned values
 * have slices. */
static status convert_scan(converter *c) {
  const onnx_graph *body;
  int n_axes, n_ways, n_out_axes, n_out_ways, a;
  if (c->version < 9) return convert_scan_8(c);
  const int n_scanned = (int)attribute_int(c, "num_scan_inputs", 1), n_state = c->node->n_inputs - n_scanned;
  const int64_t *axes = attribute_ints(c, "scan_input_axes", &n_axes);
  const int64_t *ways = attribute_ints(c, "scan_input_directions", &n_ways);
  const int64_t *out_axes = attribute_ints(c, "scan_output_axes", &n_out_axes);
  const int64_t *out_ways = attribute_ints(c, "scan_output_directions", &n_out_ways);
  TRY(body_of(c, "body", &body));
  const int n_collected = body->n_outputs - n_state;
  if (n_scanned < 1 || n_state < 0 || n_collected < 0 || body->n_inputs != c->node->n_inputs)
    return OP_FAIL("the body has %d inputs and %d outputs, which do not fit the node", body->n_inputs, body->n_outputs);
  ir_value **bound = REGION_NEW(&c->g->memory, ir_value *, body->n_inputs);
  ir_value **results = REGION_NEW(&c->g->memory, ir_value *, body->n_outputs);
  collection *lists = REGION_NEW(&c->g->memory, collection, n_collected);
  if (!bound || !results || !lists) return ST_NO_HOST_MEMORY;
  for (int i = 0; i < n_state; ++i) bound[i] = converter_input(c, i);
  const ir_value *first = converter_input(c, n_state);
  TRY(converter_axis(list_element(axes, n_axes, 0), first->tensor.rank, &a));
  const int64_t turns = first->tensor.dims[a];
  for (int64_t turn = 0; turn < turns; ++turn) {
    for (int i = 0; i < n_scanned; ++i) {
      const int64_t at = list_element(ways, n_ways, i) ? turns - 1 - turn : turn;
      TRY(slice_of(c, converter_input(c, n_state + i), list_element(axes, n_axes, i), at, &bound[n_state + i]));
    }
    TRY(converter_body(c, body, bound, results));
    memcpy(bound, results, (size_t)n_state * sizeof *bound);
    for (int i = 0; i < n_collected; ++i) TRY(collect(c, &lists[i], results[n_state + i]));
  }
  for (int i = 0; i < n_state; ++i) TRY(converter_output(c, i, bound[i]));
  for (int i = 0; i < n_collected; ++i) {
    ir_value *y;
    if (!converter_wants(c, n_state + i)) continue;
    TRY(stacked(c, &lists[i], &body->outputs[n_state + i], list_element(out_axes, n_out_axes, i),
                list_element(out_ways, n_out_ways, i), &y));
    TRY(converter_output(c, n_state + i, y));
  }
  return ST_OK;
}

/* Optional values that are tensors: a model's input always is one, and a node's may be left out. */
static status convert_has_element(converter *c) {
  ir_value *y;
  TRY(ir_number(c->g, ACL_BOOL, converter_input(c, 0) != NULL, &y));
  return converter_output(c, 0, y);
}

static status convert_get_element(converter *c) { return converter_output(c, 0, converter_input(c, 0)); }

const onnx_operator onnx_control[] = {
    {"OptionalHasElement", convert_has_element, 0, NULL, 0},
    {"OptionalGetElement", convert_get_element, 1, NULL, 0},
    {"If", convert_if, 1, NULL, 0},
    {"Loop", convert_loop, 0, NULL, 0},
    {"Scan", convert_scan, 0, NULL, 0},
    {0},
};
