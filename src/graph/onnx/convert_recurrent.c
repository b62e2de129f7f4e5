/* SPDX-License-Identifier: Apache-2.0 */
/* Recurrent layers. LSTM and GRU with the usual functions are one operator a direction; the plain RNN, GRU without
 * linear_before_reset, peepholes, clipping and other functions are unrolled, a few nodes a step. So is onnxruntime's
 * DynamicQuantizeLSTM, which multiplies weights of 8 bits by the input and by each step's state, as uint8 with the
 * scale and the zero point that DynamicQuantizeLinear finds. */
#include <string.h>
#include <strings.h>

#include "graph/nodes.h"
#include "graph/onnx/convert.h"

enum { RNN, GRU, LSTM, QUANTISED_LSTM };
enum { MOST_GATES = 4 };

/* A layer in one direction. Weights have a row for each gate and element of the state; ONNX orders gates z r h (GRU)
 * and i o f c (LSTM). */
typedef struct {
  int kind, n_gates;
  int64_t steps, batch, hidden;
  ir_value *x;            /* [steps, batch, inputs] */
  ir_value *w, *r;        /* [gates * hidden, inputs], [gates * hidden, hidden] */
  ir_value *bias[2];      /* of the input's and the state's weights, [gates * hidden]; or NULL */
  ir_value *lengths;      /* [batch], int32; or NULL */
  ir_value *h, *c, *peep; /* initial states [batch, hidden], peepholes [3 * hidden]; or NULL */
  /* These belong to weights of 8 bits, which are transposed: [inputs, gates * hidden]. They are NULL for other weights;
   * zero points may be NULL for these, too. */
  ir_value *w_scale, *w_zero, *r_scale, *r_zero;
  bool reversed, linear_before_reset;
  const char *functions[3];
  double clip;
  ir_value *y, *last_h, *last_c; /* results: [steps, batch, hidden], [batch, hidden] */
} layer;

/* Element i of the first dimension, without it. */
static status recurrent_part(converter *c, ir_value *v, int64_t i, ir_value **out) {
  const tensor *t = &v->tensor;
  return ir_view(c->g, v, t->dims + 1, t->strides + 1, t->rank - 1, i * t->strides[0], out);
}

/* n rows of the first dimension. */
static status rows(converter *c, ir_value *v, int64_t first, int64_t n, ir_value **out) {
  tensor t = v->tensor;
  t.dims[0] = n;
  return ir_view(c->g, v, t.dims, t.strides, t.rank, first * t.strides[0], out);
}

static status recurrent_transposed(converter *c, ir_value *v, ir_value **out) {
  TRY(ir_permuted(c->g, v, (const int[]){1, 0}, &v));
  return ir_contiguous(c->g, v, out);
}

/* ---- one operator ------------------------------------------------------------------------------------------------ */

static bool is_usual(const layer *l) {
  if (l->kind == RNN || l->peep || l->clip > 0 || l->w_scale || strcasecmp(l->functions[0], "Sigmoid") != 0)
    return false;
  if (strcasecmp(l->functions[1], "Tanh") != 0) return false;
  return l->kind == GRU ? l->linear_before_reset : !strcasecmp(l->functions[2], "Tanh");
}

/* The bias of the input's weights and that of the state's, added. */
static status joined_bias(converter *c, const layer *l, ir_value **out) {
  *out = NULL;
  return l->bias[0] ? converter_binary(c, &op_Add, l->bias[0], l->bias[1], l->x->tensor.dtype, out) : ST_OK;
}

static status run_as_operator(converter *c, layer *l) {
  ir_graph *g = c->g;
  const int64_t dims[] = {l->steps, l->batch, l->hidden};
  const int dtype = l->x->tensor.dtype;
  const char *direction = l->reversed ? "REDIRECTIONAL" : "UNIDIRECTIONAL";
  ir_value *w, *r, *bias, *x, *states, *cells;
  TRY(recurrent_transposed(c, l->w, &w));
  TRY(recurrent_transposed(c, l->r, &r));
  TRY(ir_contiguous(g, l->x, &x));
  if (l->h) TRY(ir_contiguous(g, l->h, &l->h));
  if (l->c) TRY(ir_contiguous(g, l->c, &l->c));
  TRY(ir_temporary(g, dtype, dims, 3, &l->y));
  TRY(ir_temporary(g, dtype, dims, 3, &states));
  if (l->kind == LSTM) {
    TRY(joined_bias(c, l, &bias));
    TRY(ir_temporary(g, dtype, dims, 3, &cells));
    TRY(node_Lstm(g, x, w, r, bias, l->lengths, l->h, l->c, NULL, NULL, NULL, NULL, l->y, states, cells, NULL, NULL,
                  NULL, NULL, NULL, direction, true, 0, 1, -1, false, "iofj", "tanh", 0));
    TRY(recurrent_part(c, cells, l->reversed ? 0 : l->steps - 1, &l->last_c));
  } else {
    TRY(node_Gru(g, x, w, r, l->bias[0], l->bias[1], l->lengths, l->h, l->y, states, NULL, NULL, NULL, NULL, direction,
                 true, 0, 1, -1, true, "zrh", "tanh"));
  }
  return recurrent_part(c, states, l->reversed ? 0 : l->steps - 1, &l->last_h);
}

/* ---- unrolled ---------------------------------------------------------------------------------------------------- */

static status apply(converter *c, const char *function, ir_value *x, ir_value **out) {
  op *o = !strcasecmp(function, "Sigmoid")    ? &op_Sigmoid
          : !strcasecmp(function, "Tanh")     ? &op_Tanh
          : !strcasecmp(function, "Relu")     ? &op_Relu
          : !strcasecmp(function, "Softplus") ? &op_Exp /* and log1p below */
                                              : NULL;
  if (!strcasecmp(function, "Affine") || !strcasecmp(function, "Identity")) return *out = x, ST_OK;
  if (!o) return OP_FAIL("activation %s is not supported", function);
  TRY(converter_unary(c, o, x, x->tensor.dtype, out));
  return o == &op_Exp ? converter_unary(c, &op_Log1p, *out, x->tensor.dtype, out) : ST_OK;
}

static status add(converter *c, ir_value *a, ir_value *b, ir_value **out) {
  *out = a;
  return b ? converter_binary(c, &op_Add, a, b, a->tensor.dtype, out) : ST_OK;
}

static status state_multiply(converter *c, ir_value *a, ir_value *b, ir_value **out) {
  return converter_binary(c, &op_Mul, a, b, a->tensor.dtype, out);
}

static status clipped(converter *c, const layer *l, ir_value *x, ir_value **out) {
  *out = x;
  if (l->clip <= 0) return ST_OK;
  const scalar *low = ir_scalar(c->g, ACL_FLOAT, -l->clip), *high = ir_scalar(c->g, ACL_FLOAT, l->clip);
  if (!low || !high) return ST_NO_HOST_MEMORY;
  TRY(ir_temporary(c->g, x->tensor.dtype, x->tensor.dims, x->tensor.rank, out));
  return node_Clamp(c->g, x, low, high, *out);
}

/* What one step works on: for each gate, input @ w' + its bias, [steps, batch, hidden], which is computed for all steps
 * at once, and the transposed weight and bias of the state. With weights of 8 bits, `sums` are the step's products of
 * the state for all gates, in place of r. */
typedef struct {
  ir_value *of_x[MOST_GATES], *r[MOST_GATES], *bias[MOST_GATES];
  ir_value *sums; /* [batch, gates * hidden] */
} gates;

/* Gate k of a value whose last dimension has all of them. */
static status columns_of_gate(converter *c, const layer *l, ir_value *v, int k, ir_value **out) {
  tensor t = v->tensor;
  t.dims[t.rank - 1] = l->hidden;
  return ir_view(c->g, v, t.dims, t.strides, t.rank, k * l->hidden * t.strides[t.rank - 1], out);
}

/* x @ w for weights of 8 bits and an x that is quantised by its range. */
static status quantised_product(converter *c, ir_value *x, ir_value *w, ir_value *scale, ir_value *zero,
                                ir_value **out) {
  ir_value *q, *x_scale, *x_zero, *factor;
  TRY(converter_quantised(c, x, &q, &x_scale, &x_zero));
  TRY(converter_integer_product(c, q, x_zero, w, zero, out));
  TRY(ir_cast(c->g, *out, ACL_FLOAT, out));
  TRY(converter_binary(c, &op_Mul, x_scale, scale, ACL_FLOAT, &factor));
  return converter_binary(c, &op_Mul, *out, factor, ACL_FLOAT, out);
}

static status make_quantised_gates(converter *c, const layer *l, gates *all) {
  ir_value *sums, *bias;
  TRY(quantised_product(c, l->x, l->w, l->w_scale, l->w_zero, &sums));
  TRY(joined_bias(c, l, &bias));
  if (bias) TRY(converter_binary(c, &op_Add, sums, bias, ACL_FLOAT, &sums));
  for (int k = 0; k < l->n_gates; ++k) TRY(columns_of_gate(c, l, sums, k, &all->of_x[k]));
  return ST_OK;
}

static status make_gates(converter *c, const layer *l, gates *all) {
  for (int k = 0; k < l->n_gates; ++k) {
    ir_value *w, *bias = NULL;
    TRY(rows(c, l->w, k * l->hidden, l->hidden, &w));
    TRY(ir_permuted(c->g, w, (const int[]){1, 0}, &w));
    TRY(rows(c, l->r, k * l->hidden, l->hidden, &all->r[k]));
    TRY(ir_permuted(c->g, all->r[k], (const int[]){1, 0}, &all->r[k]));
    all->bias[k] = NULL;
    if (l->bias[0]) TRY(rows(c, l->bias[0], k * l->hidden, l->hidden, &bias));
    if (l->bias[1]) TRY(rows(c, l->bias[1], k * l->hidden, l->hidden, &all->bias[k]));
    TRY(converter_product(c, l->x, w, &all->of_x[k]));
    TRY(add(c, all->of_x[k], bias, &all->of_x[k]));
  }
  return ST_OK;
}

/* of_x[k] of the step + state @ r' + bias, before the function. */
static status gate_sum(converter *c, const layer *l, const gates *all, int k, int64_t step, ir_value *state,
                       ir_value **out) {
  ir_value *x, *sum;
  TRY(recurrent_part(c, all->of_x[k], step, &x));
  if (l->w_scale) {
    TRY(columns_of_gate(c, l, all->sums, k, &sum));
    return add(c, x, sum, out);
  }
  TRY(converter_product(c, state, all->r[k], &sum));
  TRY(add(c, sum, all->bias[k], &sum));
  return add(c, x, sum, out);
}

static status gate(converter *c, const layer *l, const gates *all, int k, int64_t step, ir_value *state,
                   const char *function, ir_value **out) {
  TRY(gate_sum(c, l, all, k, step, state, out));
  TRY(clipped(c, l, *out, out));
  return apply(c, function, *out, out);
}

static status rnn_step(converter *c, const layer *l, const gates *all, int64_t step, ir_value **h) {
  return gate(c, l, all, 0, step, *h, l->functions[0], h);
}

/* h = (1 - z) * n + z * h, where n is of r * h, or r times what is of h. */
static status gru_step(converter *c, const layer *l, const gates *all, int64_t step, ir_value **h) {
  ir_value *z, *r, *n, *x, *kept, *rest;
  TRY(gate(c, l, all, 0, step, *h, l->functions[0], &z));
  TRY(gate(c, l, all, 1, step, *h, l->functions[0], &r));
  TRY(recurrent_part(c, all->of_x[2], step, &x));
  if (l->linear_before_reset) {
    TRY(converter_product(c, *h, all->r[2], &n));
    TRY(add(c, n, all->bias[2], &n));
    TRY(state_multiply(c, r, n, &n));
  } else {
    TRY(state_multiply(c, r, *h, &n));
    TRY(converter_product(c, n, all->r[2], &n));
    TRY(add(c, n, all->bias[2], &n));
  }
  TRY(add(c, x, n, &n));
  TRY(clipped(c, l, n, &n));
  TRY(apply(c, l->functions[1], n, &n));
  TRY(converter_binary(c, &op_Sub, *h, n, n->tensor.dtype, &rest));
  TRY(state_multiply(c, z, rest, &kept));
  return add(c, n, kept, h);
}

/* A gate that also sees the cell, through peephole weights (ONNX orders them i o f). */
static status peeping_gate(converter *c, const layer *l, const gates *all, int k, int peep, int64_t step, ir_value *h,
                           ir_value *cell, ir_value **out) {
  TRY(gate_sum(c, l, all, k, step, h, out));
  if (l->peep) {
    ir_value *p;
    TRY(rows(c, l->peep, peep * l->hidden, l->hidden, &p));
    TRY(state_multiply(c, cell, p, &p));
    TRY(add(c, *out, p, out));
  }
  TRY(clipped(c, l, *out, out));
  return apply(c, l->functions[0], *out, out);
}

static status lstm_step(converter *c, const layer *l, gates *all, int64_t step, ir_value **h, ir_value **cell) {
  ir_value *i, *o, *f, *n, *kept, *taken, *shown;
  if (l->w_scale) TRY(quantised_product(c, *h, l->r, l->r_scale, l->r_zero, &all->sums));
  TRY(peeping_gate(c, l, all, 0, 0, step, *h, *cell, &i));
  TRY(peeping_gate(c, l, all, 2, 2, step, *h, *cell, &f));
  TRY(gate(c, l, all, 3, step, *h, l->functions[1], &n));
  TRY(state_multiply(c, f, *cell, &kept));
  TRY(state_multiply(c, i, n, &taken));
  TRY(add(c, kept, taken, cell));
  TRY(peeping_gate(c, l, all, 1, 1, step, *h, *cell, &o));
  TRY(apply(c, l->functions[2], *cell, &shown));
  return state_multiply(c, o, shown, h);
}

/* Where a sequence has ended, the state stays, and the output is 0. */
static status mask_step(converter *c, const layer *l, int64_t step, ir_value *otherwise, ir_value *now,
                        ir_value **out) {
  ir_value *number, *inside, *lengths;
  TRY(ir_number(c->g, ACL_INT32, (double)step, &number));
  TRY(ir_reshaped(c->g, l->lengths, (const int64_t[]){l->batch, 1}, 2, &lengths));
  TRY(converter_binary(c, &op_GtTensor, lengths, number, ACL_BOOL, &inside));
  TRY(ir_temporary(c->g, now->tensor.dtype, now->tensor.dims, now->tensor.rank, out));
  return node_SWhere(c->g, inside, now, otherwise, *out);
}

static status run_unrolled(converter *c, layer *l) {
  gates all;
  const int64_t dims[] = {l->batch, l->hidden};
  ir_value *zero, *h = l->h, *cell = l->c;
  ir_value **outputs = REGION_NEW(&c->g->memory, ir_value *, l->steps);
  if (!outputs) return ST_NO_HOST_MEMORY;
  TRY(l->w_scale ? make_quantised_gates(c, l, &all) : make_gates(c, l, &all));
  TRY(ir_number(c->g, l->x->tensor.dtype, 0, &zero));
  TRY(ir_expanded(c->g, zero, dims, 2, &zero));
  if (!h) h = zero;
  if (!cell) cell = zero;
  for (int64_t s = 0; s < l->steps; ++s) {
    const int64_t step = l->reversed ? l->steps - 1 - s : s;
    ir_value *const old_h = h, *const old_cell = cell;
    TRY(l->kind == RNN   ? rnn_step(c, l, &all, step, &h)
        : l->kind == GRU ? gru_step(c, l, &all, step, &h)
                         : lstm_step(c, l, &all, step, &h, &cell));
    outputs[step] = h;
    if (!l->lengths) continue;
    TRY(mask_step(c, l, step, zero, h, &outputs[step]));
    TRY(mask_step(c, l, step, old_h, h, &h));
    if (l->kind == LSTM) TRY(mask_step(c, l, step, old_cell, cell, &cell));
  }
  const aclTensorList *list = ir_list(c->g, outputs, (int)l->steps);
  if (!list) return ST_NO_HOST_MEMORY;
  TRY(ir_temporary(c->g, h->tensor.dtype, (const int64_t[]){l->steps, l->batch, l->hidden}, 3, &l->y));
  TRY(node_Stack(c->g, list, 0, l->y));
  l->last_h = h;
  l->last_c = cell;
  return ST_OK;
}

/* ---- the node ---------------------------------------------------------------------------------------------------- */

/* Weights of 8 bits with their scales and zero points, one number a direction or one for each column. */
static status read_quantised(converter *c, int d, layer *l) {
  ir_value **const to[] = {&l->w_scale, &l->w_zero, &l->r_scale, &l->r_zero};
  for (int i = 0; i < 4; ++i) {
    ir_value *v = converter_input(c, 8 + i);
    if (!v && i % 2 == 0) return OP_FAIL("input %d, a scale, is missing", 8 + i);
    if (!v) continue;
    TRY(ir_contiguous(c->g, v, &v));
    if (v->tensor.rank < 1) return OP_FAIL("input %d has 0 dimensions, expected 1 or 2", 8 + i);
    TRY(recurrent_part(c, v, d, &v));
    TRY(ir_reshaped(c->g, v, &v->tensor.n, v->tensor.n > 1, to[i]));
  }
  if (l->x->tensor.dtype != ACL_FLOAT) return OP_FAIL("X is not float");
  return ST_OK;
}

static bool weights_fit(const layer *l) {
  const int64_t all = l->n_gates * l->hidden;
  const tensor *w = &l->w->tensor, *r = &l->r->tensor;
  return w->rank == 2 && r->rank == 2 && r->dims[l->w_scale ? 1 : 0] == all && w->dims[l->w_scale ? 1 : 0] == all;
}

/* The layer of direction d, of the node's inputs. */
static status read_layer(converter *c, int d, layer *l) {
  static const char *const usual[] = {"Sigmoid", "Tanh", "Tanh"};
  const onnx_attribute *names = converter_attribute(c, "activations");
  const int n_functions = l->kind == LSTM ? 3 : l->kind == GRU ? 2 : 1;
  ir_value *bias = converter_input(c, 3), *lengths = converter_input(c, 4), *h = converter_input(c, 5);
  ir_value *cell = l->kind == LSTM ? converter_input(c, 6) : NULL,
           *peep = l->kind == LSTM ? converter_input(c, 7) : NULL;
  TRY(recurrent_part(c, converter_input(c, 1), d, &l->w));
  TRY(recurrent_part(c, converter_input(c, 2), d, &l->r));
  if (c->entry->number == QUANTISED_LSTM) TRY(read_quantised(c, d, l));
  l->hidden = l->r->tensor.dims[l->w_scale ? 0 : 1];
  l->n_gates = l->kind == LSTM ? 4 : l->kind == GRU ? 3 : 1;
  if (!weights_fit(l)) return OP_FAIL("the weights do not have the shape of %d gates", l->n_gates);
  if (bias) {
    TRY(recurrent_part(c, bias, d, &bias));
    for (int i = 0; i < 2; ++i) TRY(rows(c, bias, i * l->n_gates * l->hidden, l->n_gates * l->hidden, &l->bias[i]));
  }
  if (lengths) TRY(ir_cast(c->g, lengths, ACL_INT32, &l->lengths));
  const bool batch_first = attribute_int(c, "layout", 0);
  if (h && batch_first) TRY(ir_permuted(c->g, h, (const int[]){1, 0, 2}, &h));
  if (cell && batch_first) TRY(ir_permuted(c->g, cell, (const int[]){1, 0, 2}, &cell));
  if (h) TRY(recurrent_part(c, h, d, &l->h));
  if (cell) TRY(recurrent_part(c, cell, d, &l->c));
  if (peep) TRY(recurrent_part(c, peep, d, &l->peep));
  for (int i = 0; i < n_functions; ++i)
    l->functions[i] = names && names->n_strings > d * n_functions + i ? names->strings[d * n_functions + i]
                      : l->kind == RNN                                ? "Tanh"
                                                                      : usual[i];
  return ST_OK;
}

/* The results of the directions side by side, along a new first dimension or after that of the steps. */
static status directions(converter *c, ir_value **values, int n, int axis, ir_value **out) {
  int64_t dims[MAX_RANK];
  const tensor *t = &values[0]->tensor;
  for (int d = 0; d <= t->rank; ++d) dims[d] = d < axis ? t->dims[d] : d == axis ? n : t->dims[d - 1];
  if (n == 1) return ir_reshaped(c->g, values[0], dims, t->rank + 1, out);
  const aclTensorList *list = ir_list(c->g, values, n);
  if (!list) return ST_NO_HOST_MEMORY;
  TRY(ir_temporary(c->g, t->dtype, dims, t->rank + 1, out));
  return node_Stack(c->g, list, axis, *out);
}

static status give_outputs(converter *c, layer *l, int n) {
  ir_value *parts[2], *y;
  const bool batch_first = attribute_int(c, "layout", 0);
  for (int k = 0; k < (l->kind == LSTM ? 3 : 2); ++k) {
    if (!converter_wants(c, k)) continue;
    for (int d = 0; d < n; ++d) parts[d] = k == 0 ? l[d].y : k == 1 ? l[d].last_h : l[d].last_c;
    TRY(directions(c, parts, n, k == 0, &y));
    if (batch_first && k == 0) TRY(ir_permuted(c->g, y, (const int[]){2, 0, 1, 3}, &y));
    if (batch_first && k) TRY(ir_permuted(c->g, y, (const int[]){1, 0, 2}, &y));
    TRY(converter_output(c, k, y));
  }
  return ST_OK;
}

static status convert_recurrent(converter *c) {
  const char *direction = attribute_string(c, "direction", "forward");
  const int n = !strcmp(direction, "bidirectional") ? 2 : 1;
  ir_value *x = converter_input(c, 0);
  layer l[2] = {0};
  if (x->tensor.rank != 3) return OP_FAIL("X has %d dimensions, expected 3", x->tensor.rank);
  if (attribute_int(c, "layout", 0)) TRY(ir_permuted(c->g, x, (const int[]){1, 0, 2}, &x));
  if (attribute_int(c, "input_forget", 0)) return OP_FAIL("input_forget is 1, expected 0");
  for (int d = 0; d < n; ++d) {
    l[d] = (layer){.kind = c->entry->number == QUANTISED_LSTM ? LSTM : c->entry->number,
                   .steps = x->tensor.dims[0],
                   .batch = x->tensor.dims[1],
                   .x = x,
                   .reversed = d == 1 || !strcmp(direction, "reverse"),
                   .linear_before_reset = attribute_int(c, "linear_before_reset", 0),
                   .clip = attribute_float(c, "clip", 0)};
    TRY(read_layer(c, d, &l[d]));
    TRY(is_usual(&l[d]) && l[d].steps ? run_as_operator(c, &l[d]) : run_unrolled(c, &l[d]));
  }
  return give_outputs(c, l, n);
}

const onnx_operator onnx_recurrent[] = {
    {"RNN", convert_recurrent, 3, NULL, RNN},
    {"GRU", convert_recurrent, 3, NULL, GRU},
    {"LSTM", convert_recurrent, 3, NULL, LSTM},
    {"com.microsoft.DynamicQuantizeLSTM", convert_recurrent, 3, NULL, QUANTISED_LSTM},
    {0},
};
