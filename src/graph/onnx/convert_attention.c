/* SPDX-License-Identifier: Apache-2.0 */
/* What transformers are made of, from version 23 of ONNX on. */
#include <math.h>
#include <string.h>

#include "graph/nodes.h"
#include "graph/onnx/convert.h"

/* ---- Attention --------------------------------------------------------------------------------------------------- */

/* Heads of queries that share a head of keys and values are a group, which is a dimension of its own, so nothing is
 * repeated: queries are [batch, groups, in a group, rows, width], and keys and values [batch, groups, 1, columns,
 * width]. */
typedef struct {
  ir_value *q, *k, *v;
  int64_t batch, groups, in_group, rows, columns, past;
  bool flat; /* the inputs have three dimensions, heads and widths being one */
  int dtype;
} attention;

/* [batch, rows, heads * width] as [batch, heads, rows, width]. */
static status split_heads(converter *c, ir_value *x, const char *attribute, ir_value **out) {
  static const int order[] = {0, 2, 1, 3};
  const int64_t heads = attribute_int(c, attribute, 0), *dims = x->tensor.dims;
  *out = x;
  if (x->tensor.rank == 4) return ST_OK;
  if (x->tensor.rank != 3 || heads < 1 || dims[2] % heads)
    return OP_FAIL("%s is %jd for an input of %d dimensions, expected a divisor of the last of three dimensions",
                   attribute, (intmax_t)heads, x->tensor.rank);
  const int64_t split[] = {dims[0], dims[1], heads, dims[2] / heads};
  TRY(ir_reshaped(c->g, x, split, 4, out));
  return ir_permuted(c->g, *out, order, out);
}

/* The keys or values of earlier tokens, which are another input, in front of the new ones. */
static status join_past(converter *c, ir_value *past, int output, ir_value **x) {
  if (past) {
    int64_t dims[MAX_RANK];
    memcpy(dims, (*x)->tensor.dims, sizeof dims);
    const aclTensorList *list = ir_list(c->g, (ir_value *const[]){past, *x}, 2);
    if (!list) return ST_NO_HOST_MEMORY;
    if (past->tensor.rank != 4) return OP_FAIL("the past has %d dimensions, expected 4", past->tensor.rank);
    dims[2] += past->tensor.dims[2];
    TRY(ir_temporary(c->g, (*x)->tensor.dtype, dims, 4, x));
    TRY(node_Cat(c->g, list, 2, *x));
  }
  return converter_wants(c, output) ? converter_output(c, output, *x) : ST_OK;
}

static status read_attention(converter *c, attention *a) {
  ir_value *q = converter_input(c, 0), *k = converter_input(c, 1), *v = converter_input(c, 2);
  ir_value *past = converter_input(c, 4);
  *a = (attention){.flat = q->tensor.rank == 3, .dtype = q->tensor.dtype, .past = past ? past->tensor.dims[2] : 0};
  TRY(split_heads(c, q, "q_num_heads", &q));
  TRY(split_heads(c, k, "kv_num_heads", &k));
  TRY(split_heads(c, v, "kv_num_heads", &v));
  TRY(join_past(c, past, 1, &k));
  TRY(join_past(c, converter_input(c, 5), 2, &v));
  const int64_t *dims = q->tensor.dims, heads = dims[1];
  a->batch = dims[0], a->groups = k->tensor.dims[1], a->rows = dims[2], a->columns = k->tensor.dims[2];
  if (a->groups < 1 || heads % a->groups || v->tensor.dims[1] != a->groups)
    return OP_FAIL("%jd heads of queries, %jd of keys and %jd of values, expected a multiple and equal numbers",
                   (intmax_t)heads, (intmax_t)a->groups, (intmax_t)v->tensor.dims[1]);
  a->in_group = heads / a->groups;
  const int64_t q_dims[] = {a->batch, a->groups, a->in_group, a->rows, dims[3]};
  const int64_t *s = q->tensor.strides, q_strides[] = {s[0], s[1] * a->in_group, s[1], s[2], s[3]};
  TRY(ir_view(c->g, q, q_dims, q_strides, 5, 0, &a->q));
  const int64_t k_dims[] = {a->batch, a->groups, 1, k->tensor.dims[3], a->columns};
  s = k->tensor.strides;
  TRY(ir_view(c->g, k, k_dims, (const int64_t[]){s[0], s[1], 0, s[3], s[2]}, 5, 0, &a->k));
  const int64_t v_dims[] = {a->batch, a->groups, 1, a->columns, v->tensor.dims[3]};
  s = v->tensor.strides;
  return ir_view(c->g, v, v_dims, (const int64_t[]){s[0], s[1], 0, s[2], s[3]}, 5, 0, &a->v);
}

/* 0 where a condition holds and minus infinity elsewhere. */
static status bias_where(converter *c, ir_value *condition, int dtype, ir_value **out) {
  ir_value *zero, *never;
  TRY(ir_number(c->g, dtype, 0, &zero));
  TRY(ir_number(c->g, dtype, -INFINITY, &never));
  TRY(ir_temporary(c->g, dtype, condition->tensor.dims, condition->tensor.rank, out));
  TRY(ir_expanded(c->g, zero, condition->tensor.dims, condition->tensor.rank, &zero));
  TRY(ir_expanded(c->g, never, condition->tensor.dims, condition->tensor.rank, &never));
  return node_SWhere(c->g, condition, zero, never, *out);
}

/* The mask that is an input, as a bias with the five dimensions of the scores or 1 in their place. */
static status given_bias(converter *c, const attention *a, ir_value *mask, ir_value **out) {
  int64_t dims[] = {1, 1, 1, 1, 1}, before[5] = {0}, after[5] = {0};
  const tensor *t = &mask->tensor;
  if (t->rank < 2 || t->rank > 4) return OP_FAIL("attn_mask has %d dimensions, expected 2 to 4", t->rank);
  if (t->dtype == ACL_BOOL) TRY(bias_where(c, mask, a->dtype, &mask));
  t = &mask->tensor;
  for (int d = 1; d <= 2; ++d) dims[5 - d] = t->dims[t->rank - d];
  const int64_t heads = t->rank > 2 ? t->dims[t->rank - 3] : 1;
  dims[0] = t->rank > 3 ? t->dims[0] : 1;
  dims[1] = heads == 1 ? 1 : a->groups;
  dims[2] = heads == 1 ? 1 : a->in_group;
  TRY(ir_reshaped(c->g, mask, dims, 5, &mask));
  after[4] = a->columns - dims[4];
  *out = mask;
  if (after[4] <= 0 || dims[4] == 1) return ST_OK; /* one column is broadcast */
  return converter_padded(c, mask, before, after, -INFINITY, out);
}

/* Tokens do not see later ones. */
static status causal_bias(converter *c, const attention *a, ir_value **out) {
  const int64_t dims[] = {a->rows, a->columns};
  TRY(ir_constant(c->g, ACL_FLOAT, dims, 2, NULL, out));
  float *bias = ir_fill(*out);
  for (int64_t i = 0; i < a->rows; ++i)
    for (int64_t j = a->past + i + 1; j < a->columns; ++j) bias[i * a->columns + j] = -INFINITY;
  return ir_cast(c->g, *out, a->dtype, out);
}

/* The columns behind the number that is valid for each of the batch. */
static status padding_bias(converter *c, const attention *a, ir_value *valid, ir_value **out) {
  const int64_t dims[] = {a->batch, 1, 1, 1, 1};
  ir_value *column, *condition;
  TRY(ir_constant(c->g, ACL_INT64, &a->columns, 1, NULL, &column));
  for (int64_t j = 0; j < a->columns; ++j) ((int64_t *)ir_fill(column))[j] = j;
  TRY(ir_cast(c->g, valid, ACL_INT64, &valid));
  TRY(ir_reshaped(c->g, valid, dims, 5, &valid));
  TRY(converter_binary(c, &op_LtTensor, column, valid, ACL_BOOL, &condition));
  return bias_where(c, condition, a->dtype, out);
}

static status add_bias(converter *c, const attention *a, ir_value **scores) {
  ir_value *bias[3], *mask = converter_input(c, 3), *valid = converter_input(c, 6);
  int n = 0;
  if (mask) TRY(given_bias(c, a, mask, &bias[n++]));
  if (attribute_int(c, "is_causal", 0)) TRY(causal_bias(c, a, &bias[n++]));
  if (valid) TRY(padding_bias(c, a, valid, &bias[n++]));
  for (int i = 1; i < n; ++i) TRY(converter_binary(c, &op_Add, bias[0], bias[i], a->dtype, &bias[0]));
  return n ? converter_binary(c, &op_Add, *scores, bias[0], a->dtype, scores) : ST_OK;
}

static status scaled(converter *c, ir_value *x, double by, ir_value **out) {
  const scalar *factor = ir_scalar(c->g, ACL_FLOAT, by);
  ir_value *from = x;
  if (!factor) return ST_NO_HOST_MEMORY;
  TRY(ir_temporary(c->g, x->tensor.dtype, x->tensor.dims, x->tensor.rank, out));
  return node_Muls(c->g, from, factor, *out);
}

/* softcap * tanh(scores / softcap) */
static status cap(converter *c, ir_value **scores) {
  const double most = attribute_float(c, "softcap", 0);
  if (!(most > 0)) return ST_OK;
  TRY(scaled(c, *scores, 1 / most, scores));
  TRY(converter_unary(c, &op_Tanh, *scores, (*scores)->tensor.dtype, scores));
  return scaled(c, *scores, most, scores);
}

static status normalise(converter *c, const attention *a, ir_value **scores) {
  int dtype = a->dtype;
  const int64_t precision = attribute_int(c, "softmax_precision", 0);
  if (precision) TRY(converter_dtype((int)precision, &dtype));
  ir_value *from;
  TRY(ir_cast(c->g, *scores, dtype, &from));
  TRY(ir_temporary(c->g, dtype, from->tensor.dims, 5, scores));
  TRY(node_Softmax(c->g, from, 4, *scores));
  return ir_cast(c->g, *scores, a->dtype, scores);
}

/* The scores after a stage, if they are wanted as an output. */
static status tell_scores(converter *c, const attention *a, int stage, ir_value *scores) {
  const int64_t dims[] = {a->batch, a->groups * a->in_group, a->rows, a->columns};
  if (attribute_int(c, "qk_matmul_output_mode", 0) != stage || !converter_wants(c, 3)) return ST_OK;
  TRY(ir_reshaped(c->g, scores, dims, 4, &scores));
  return converter_output(c, 3, scores);
}

static status convert_attention(converter *c) {
  static const int order[] = {0, 2, 1, 3};
  attention a;
  ir_value *scores, *y;
  TRY(read_attention(c, &a));
  const int64_t width = a.q->tensor.dims[4], v_width = a.v->tensor.dims[4], heads = a.groups * a.in_group;
  TRY(scaled(c, a.q, attribute_float(c, "scale", 1 / sqrt((double)width)), &a.q));
  TRY(converter_product(c, a.q, a.k, &scores));
  TRY(tell_scores(c, &a, 0, scores));
  TRY(add_bias(c, &a, &scores));
  TRY(tell_scores(c, &a, 1, scores));
  TRY(cap(c, &scores));
  TRY(tell_scores(c, &a, 2, scores));
  TRY(normalise(c, &a, &scores));
  TRY(tell_scores(c, &a, 3, scores));
  TRY(converter_product(c, scores, a.v, &y));
  TRY(ir_reshaped(c->g, y, (const int64_t[]){a.batch, heads, a.rows, v_width}, 4, &y));
  if (a.flat) {
    TRY(ir_permuted(c->g, y, order, &y));
    TRY(ir_reshaped(c->g, y, (const int64_t[]){a.batch, a.rows, heads * v_width}, 3, &y));
  }
  return converter_output(c, 0, y);
}

/* ---- RotaryEmbedding --------------------------------------------------------------------------------------------- */

/* The cosines or sines of each token, [batch, rows, n], with a dimension of 1 for the heads. */
static status angles(converter *c, ir_value *cache, ir_value *positions, int heads_at, ir_value **out) {
  if (positions) {
    ir_value *flat;
    const int64_t n = positions->tensor.n, *dims = positions->tensor.dims, width = cache->tensor.dims[1];
    if (positions->tensor.rank != 2 || cache->tensor.rank != 2)
      return OP_FAIL("position_ids and the cache have %d and %d dimensions, expected 2", positions->tensor.rank,
                     cache->tensor.rank);
    TRY(ir_reshaped(c->g, positions, &n, 1, &flat));
    TRY(converter_wrapped(c, flat, cache->tensor.dims[0], &flat));
    ir_value *taken;
    TRY(ir_temporary(c->g, cache->tensor.dtype, (const int64_t[]){n, width}, 2, &taken));
    TRY(node_IndexSelect(c->g, cache, 0, flat, taken));
    TRY(ir_reshaped(c->g, taken, (const int64_t[]){dims[0], dims[1], width}, 3, &cache));
  }
  if (cache->tensor.rank != 3) return OP_FAIL("the cache has %d dimensions, expected 3", cache->tensor.rank);
  const int64_t *d = cache->tensor.dims;
  int64_t dims[] = {d[0], d[1], 1, d[2]};
  if (heads_at == 1) dims[1] = 1, dims[2] = d[1];
  return ir_reshaped(c->g, cache, dims, 4, out);
}

/* Every second element of the last dimension, or a half of it; of `n` elements. */
static status rotary_half(converter *c, ir_value *x, bool interleaved, int half, int64_t n, ir_value **out) {
  int64_t dims[MAX_RANK], strides[MAX_RANK];
  memcpy(dims, x->tensor.dims, sizeof dims);
  memcpy(strides, x->tensor.strides, sizeof strides);
  const int64_t step = strides[3];
  dims[3] = n;
  if (interleaved) strides[3] *= 2;
  return ir_view(c->g, x, dims, strides, 4, half * step * (interleaved ? 1 : n), out);
}

static status convert_rotary(converter *c) {
  ir_graph *g = c->g;
  ir_value *x = converter_input(c, 0), *y, *cosine, *sine, *half[2], *to[2], *part[4];
  const bool flat = x->tensor.rank == 3, interleaved = attribute_int(c, "interleaved", 0);
  const int64_t heads = attribute_int(c, "num_heads", 0), *given = x->tensor.dims;
  if (flat) {
    if (heads < 1 || given[2] % heads)
      return OP_FAIL("num_heads is %jd, expected a divisor of the width", (intmax_t)heads);
    TRY(ir_reshaped(g, x, (const int64_t[]){given[0], given[1], heads, given[2] / heads}, 4, &x));
  }
  if (x->tensor.rank != 4) return OP_FAIL("the input has %d dimensions, expected 3 or 4", x->tensor.rank);
  const int64_t width = x->tensor.dims[3], turned = attribute_int(c, "rotary_embedding_dim", 0),
                n = (turned ? turned : width) / 2;
  if (n < 0 || 2 * n > width)
    return OP_FAIL("rotary_embedding_dim is %jd, expected at most %jd", (intmax_t)turned, (intmax_t)width);
  const int dtype = x->tensor.dtype, heads_at = flat ? 2 : 1;
  TRY(angles(c, converter_input(c, 1), converter_input(c, 3), heads_at, &cosine));
  TRY(angles(c, converter_input(c, 2), converter_input(c, 3), heads_at, &sine));
  TRY(ir_temporary(g, dtype, x->tensor.dims, 4, &y));
  for (int i = 0; i < 2; ++i) {
    TRY(rotary_half(c, x, interleaved, i, n, &half[i]));
    TRY(rotary_half(c, y, interleaved, i, n, &to[i]));
    TRY(converter_binary(c, &op_Mul, half[i], cosine, dtype, &part[2 * i]));
    TRY(converter_binary(c, &op_Mul, half[i], sine, dtype, &part[2 * i + 1]));
  }
  const scalar *one = ir_scalar(g, ACL_FLOAT, 1);
  if (!one) return ST_NO_HOST_MEMORY;
  TRY(node_Sub(g, part[0], part[3], one, to[0]));
  TRY(node_Add(g, part[1], part[2], one, to[1]));
  if (2 * n < width) {
    int64_t dims[MAX_RANK];
    memcpy(dims, x->tensor.dims, sizeof dims);
    dims[3] = width - 2 * n;
    TRY(ir_view(g, x, dims, x->tensor.strides, 4, 2 * n * x->tensor.strides[3], &half[0]));
    TRY(ir_view(g, y, dims, y->tensor.strides, 4, 2 * n, &to[0]));
    TRY(node_InplaceCopy(g, to[0], half[0]));
  }
  if (flat) TRY(ir_reshaped(g, y, given, 3, &y));
  return converter_output(c, 0, y);
}

/* ---- TensorScatter ----------------------------------------------------------------------------------------------- */

/* Rows of a cache that are overwritten, from a row on that is given for each of the batch. */
static status convert_tensor_scatter(converter *c) {
  ir_graph *g = c->g;
  ir_value *x = converter_input(c, 0), *update = converter_input(c, 1), *start = converter_input(c, 2), *at, *y;
  const bool circular = !strcmp(attribute_string(c, "mode", "linear"), "circular");
  int64_t dims[MAX_RANK];
  int axis;
  TRY(converter_axis(attribute_int(c, "axis", -2), x->tensor.rank, &axis));
  if (!axis || update->tensor.rank != x->tensor.rank)
    return OP_FAIL("axis is %d for %d and %d dimensions, expected 1 or more and equal ones", axis, x->tensor.rank,
                   update->tensor.rank);
  for (int d = 0; d < MAX_RANK; ++d) dims[d] = 1;
  const int64_t n = dims[axis] = update->tensor.dims[axis], size = x->tensor.dims[axis];
  TRY(ir_constant(g, ACL_INT64, dims, x->tensor.rank, NULL, &at));
  for (int64_t i = 0; i < n; ++i) ((int64_t *)ir_fill(at))[i] = i;
  if (start) {
    dims[axis] = 1;
    dims[0] = start->tensor.n;
    TRY(ir_cast(g, start, ACL_INT64, &start));
    TRY(ir_reshaped(g, start, dims, x->tensor.rank, &start));
    TRY(converter_binary(c, &op_Add, at, start, ACL_INT64, &at));
  }
  if (circular && start) {
    ir_value *from = at;
    const scalar *whole = ir_scalar(g, ACL_INT64, (double)size);
    if (!whole) return ST_NO_HOST_MEMORY;
    TRY(ir_temporary(g, ACL_INT64, at->tensor.dims, at->tensor.rank, &at));
    TRY(node_RemainderTensorScalar(g, from, whole, at));
  }
  TRY(ir_expanded(g, at, update->tensor.dims, update->tensor.rank, &at));
  TRY(ir_contiguous(g, at, &at));
  TRY(ir_temporary(g, x->tensor.dtype, x->tensor.dims, x->tensor.rank, &y));
  TRY(node_Scatter(g, x, axis, at, update, 0, y));
  return converter_output(c, 0, y);
}

const onnx_operator onnx_attention[] = {
    {"Attention", convert_attention, 3, NULL, 0},
    {"RotaryEmbedding", convert_rotary, 3, NULL, 0},
    {"TensorScatter", convert_tensor_scatter, 2, NULL, 0},
    {0},
};
