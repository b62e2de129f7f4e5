/* SPDX-License-Identifier: Apache-2.0 */
/* Normalisations. */
#include <string.h>

#include "graph/nodes.h"
#include "graph/onnx/convert.h"

static status norm_like(converter *c, const ir_value *x, ir_value **out) {
  return ir_temporary(c->g, x->tensor.dtype, x->tensor.dims, x->tensor.rank, out);
}

/* old * momentum + new * (1 - momentum) */
static status running(converter *c, ir_value *old, ir_value *now, double momentum, ir_value **out) {
  const scalar *keep = ir_scalar(c->g, ACL_DOUBLE, momentum), *take = ir_scalar(c->g, ACL_DOUBLE, 1 - momentum);
  ir_value *kept, *taken;
  if (!keep || !take) return ST_NO_HOST_MEMORY;
  TRY(norm_like(c, old, &kept));
  TRY(norm_like(c, old, &taken));
  TRY(node_Muls(c->g, old, keep, kept));
  TRY(node_Muls(c->g, now, take, taken));
  return converter_binary(c, &op_Add, kept, taken, old->tensor.dtype, out);
}

/* Mean and variance of this batch, and the second and third outputs. */
static status batch_statistics(converter *c, ir_value *x, ir_value **mean, ir_value **variance) {
  int64_t axes[MAX_RANK];
  int n = 0;
  const double momentum = attribute_float(c, "momentum", 0.9);
  ir_value *now_mean, *now_variance, *next;
  for (int d = 0; d < x->tensor.rank; ++d)
    if (d != 1) axes[n++] = d;
  const aclIntArray *list = ir_int_array(c->g, axes, n);
  if (!list) return ST_NO_HOST_MEMORY;
  TRY(norm_like(c, *mean, &now_mean));
  TRY(norm_like(c, *mean, &now_variance));
  TRY(node_VarMean(c->g, x, list, 0, false, now_variance, now_mean));
  TRY(running(c, *mean, now_mean, momentum, &next));
  TRY(converter_output(c, 1, next));
  TRY(running(c, *variance, now_variance, momentum, &next));
  *mean = now_mean;
  *variance = now_variance;
  return converter_output(c, 2, next);
}

/* (x - mean) / sqrt(variance + epsilon) * scale + bias, by channel. */
static status convert_batch_norm(converter *c) {
  ir_value *x = converter_input(c, 0), *part[5] = {0}, *y;
  if (c->version < 7 && !attribute_int(c, "is_test", 0)) return OP_FAIL("training is supported from version 7 on");
  for (int i = 1; i < 5; ++i) TRY(ir_cast(c->g, converter_input(c, i), x->tensor.dtype, &part[i]));
  if (attribute_int(c, "training_mode", 0)) TRY(batch_statistics(c, x, &part[3], &part[4]));
  TRY(norm_like(c, x, &y));
  TRY(node_BatchNorm(c->g, x, part[1], part[2], part[3], part[4], false, 0.1, attribute_float(c, "epsilon", 1e-5), y,
                     NULL, NULL));
  return converter_output(c, 0, y);
}

/* Groups of channels; y has the dims [batch, channels, rest]. */
static status group_norm(converter *c, ir_value *x, ir_value *gamma, ir_value *beta, int64_t groups, double epsilon,
                         ir_value **y) {
  const tensor *t = &x->tensor;
  if (t->rank < 2 || groups < 1) return OP_FAIL("the input has %d dimensions, expected 2 or more", t->rank);
  const int64_t spread = t->dims[0] && t->dims[1] ? t->n / (t->dims[0] * t->dims[1]) : 0, of[] = {t->dims[0], groups};
  ir_value *mean, *rstd;
  TRY(ir_contiguous(c->g, x, &x));
  TRY(norm_like(c, x, y));
  TRY(ir_temporary(c->g, t->dtype, of, 2, &mean));
  TRY(ir_temporary(c->g, t->dtype, of, 2, &rstd));
  return node_GroupNorm(c->g, x, gamma, beta, t->dims[0], t->dims[1], spread, groups, epsilon, *y, mean, rstd);
}

static status convert_instance_norm(converter *c) {
  ir_value *x = converter_input(c, 0), *y;
  TRY(group_norm(c, x, converter_input(c, 1), converter_input(c, 2), x->tensor.rank > 1 ? x->tensor.dims[1] : 0,
                 attribute_float(c, "epsilon", 1e-5), &y));
  return converter_output(c, 0, y);
}

/* Scale and bias are by group before version 21, and by channel since. */
static status by_channel(converter *c, ir_value *v, int64_t groups, int64_t channels, ir_value **out) {
  const int64_t one[] = {groups, 1}, all[] = {groups, channels / groups};
  *out = v;
  if (v->tensor.dims[0] == channels) return ST_OK;
  TRY(ir_reshaped(c->g, v, one, 2, &v));
  TRY(ir_expanded(c->g, v, all, 2, &v));
  return ir_reshaped(c->g, v, &channels, 1, out);
}

static status convert_group_norm(converter *c) {
  ir_value *x = converter_input(c, 0), *scale = converter_input(c, 1), *bias = converter_input(c, 2), *y;
  const int64_t groups = attribute_int(c, "num_groups", 1);
  if (x->tensor.rank < 2 || groups < 1 || x->tensor.dims[1] % groups)
    return OP_FAIL("num_groups is %jd, expected a divisor of the channels", (intmax_t)groups);
  TRY(by_channel(c, scale, groups, x->tensor.dims[1], &scale));
  TRY(by_channel(c, bias, groups, x->tensor.dims[1], &bias));
  TRY(group_norm(c, x, scale, bias, groups, attribute_float(c, "epsilon", 1e-5), &y));
  return converter_output(c, 0, y);
}

static status convert_layer_norm(converter *c) {
  ir_value *x = converter_input(c, 0), *scale = converter_input(c, 1), *bias = converter_input(c, 2), *y, *mean, *rstd;
  const tensor *t = &x->tensor;
  int64_t of[MAX_RANK];
  int axis;
  TRY(converter_axis(attribute_int(c, "axis", -1), t->rank, &axis));
  for (int d = 0; d < t->rank; ++d) of[d] = d < axis ? t->dims[d] : 1;
  const aclIntArray *shape = ir_int_array(c->g, t->dims + axis, t->rank - axis);
  if (!shape) return ST_NO_HOST_MEMORY;
  TRY(ir_expanded(c->g, scale, t->dims + axis, t->rank - axis, &scale));
  if (bias) TRY(ir_expanded(c->g, bias, t->dims + axis, t->rank - axis, &bias));
  TRY(norm_like(c, x, &y));
  TRY(ir_temporary(c->g, ACL_FLOAT, of, t->rank, &mean));
  TRY(ir_temporary(c->g, ACL_FLOAT, of, t->rank, &rstd));
  const bool statistics = converter_wants(c, 1) || converter_wants(c, 2);
  TRY(node_LayerNorm(c->g, x, shape, scale, bias, attribute_float(c, "epsilon", 1e-5), y, statistics ? mean : NULL,
                     statistics ? rstd : NULL));
  TRY(converter_output(c, 0, y));
  TRY(converter_output(c, 1, mean));
  return converter_output(c, 2, rstd);
}

/* x / sqrt(mean of squares + epsilon) * scale, over the dimensions from an axis on. */
static status convert_rms_norm(converter *c) {
  ir_value *x = converter_input(c, 0), *scale = converter_input(c, 1), *y, *rstd;
  const tensor *t = &x->tensor;
  int64_t of[MAX_RANK];
  int axis;
  TRY(converter_axis(attribute_int(c, "axis", -1), t->rank, &axis));
  for (int d = 0; d < t->rank; ++d) of[d] = d < axis ? t->dims[d] : 1;
  TRY(ir_expanded(c->g, scale, t->dims + axis, t->rank - axis, &scale));
  TRY(norm_like(c, x, &y));
  TRY(ir_temporary(c->g, ACL_FLOAT, of, t->rank, &rstd));
  TRY(node_RmsNorm(c->g, x, scale, attribute_float(c, "epsilon", 1e-5), y, rstd));
  return converter_output(c, 0, y);
}

static status norm_along(converter *c, ir_value *x, int axis, double p, ir_value **out) {
  int64_t dims[MAX_RANK];
  const int64_t list[] = {axis};
  memcpy(dims, x->tensor.dims, sizeof dims);
  dims[axis] = 1;
  const aclIntArray *axes = ir_int_array(c->g, list, 1);
  const scalar *order = ir_scalar(c->g, ACL_FLOAT, p);
  if (!axes || !order) return ST_NO_HOST_MEMORY;
  TRY(ir_temporary(c->g, x->tensor.dtype, dims, x->tensor.rank, out));
  return node_LinalgVectorNorm(c->g, x, order, axes, true, x->tensor.dtype, *out);
}

static status convert_lp_norm(converter *c) {
  ir_value *x = converter_input(c, 0), *norm, *y;
  int axis;
  TRY(converter_axis(attribute_int(c, "axis", -1), x->tensor.rank, &axis));
  TRY(norm_along(c, x, axis, (double)attribute_int(c, "p", 2), &norm));
  TRY(converter_binary(c, &op_Div, x, norm, x->tensor.dtype, &y));
  return converter_output(c, 0, y);
}

/* x / (bias + alpha / size * sum of squares over `size` channels)^beta. The sums are over a view of the padded squares,
 * in which the window is a dimension of its own. */
static status convert_lrn(converter *c) {
  ir_graph *g = c->g;
  ir_value *x = converter_input(c, 0), *squares, *padded, *sums, *scaled, *moved, *divisor, *y;
  const tensor *t = &x->tensor;
  const int64_t size = attribute_int(c, "size", 1);
  int64_t pad[2 * MAX_RANK] = {0}, dims[MAX_RANK], strides[MAX_RANK], last = t->rank;
  if (t->rank < 3 || t->rank >= MAX_RANK || size < 1)
    return OP_FAIL("the input has %d dimensions, expected 3 to %d", t->rank, MAX_RANK - 1);
  pad[2 * (t->rank - 2)] = (size - 1) / 2;
  pad[2 * (t->rank - 2) + 1] = size - 1 - (size - 1) / 2;
  const aclIntArray *margins = ir_int_array(g, pad, 2 * t->rank), *axes = ir_int_array(g, &last, 1);
  const scalar *zero = ir_scalar(g, ACL_FLOAT, 0), *one = ir_scalar(g, ACL_FLOAT, 1);
  const scalar *alpha = ir_scalar(g, ACL_DOUBLE, attribute_float(c, "alpha", 1e-4) / (double)size);
  const scalar *beta = ir_scalar(g, ACL_DOUBLE, attribute_float(c, "beta", 0.75));
  const scalar *bias = ir_scalar(g, ACL_DOUBLE, attribute_float(c, "bias", 1));
  if (!margins || !axes || !zero || !one || !alpha || !beta || !bias) return ST_NO_HOST_MEMORY;
  TRY(converter_unary(c, &op_Square, x, t->dtype, &squares));
  memcpy(dims, t->dims, sizeof dims);
  dims[1] += size - 1;
  TRY(ir_temporary(g, t->dtype, dims, t->rank, &padded));
  TRY(node_ConstantPadNd(g, squares, margins, zero, padded));
  memcpy(strides, padded->tensor.strides, sizeof strides);
  dims[1] = t->dims[1];
  dims[t->rank] = size;
  strides[t->rank] = strides[1];
  TRY(ir_view(g, padded, dims, strides, t->rank + 1, 0, &padded));
  TRY(norm_like(c, x, &sums));
  TRY(node_ReduceSum(g, padded, axes, false, t->dtype, sums));
  TRY(norm_like(c, x, &scaled));
  TRY(node_Muls(g, sums, alpha, scaled));
  TRY(norm_like(c, x, &moved));
  TRY(node_Adds(g, scaled, bias, one, moved));
  TRY(norm_like(c, x, &divisor));
  TRY(node_PowTensorScalar(g, moved, beta, divisor));
  TRY(converter_binary(c, &op_Div, x, divisor, t->dtype, &y));
  return converter_output(c, 0, y);
}

/* (x - mean) / sqrt(E(x^2) - mean^2) over the axes, which are 0, 2 and 3 by default; 1e-9 keeps it from dividing by
 * zero. */
static status convert_mean_variance_norm(converter *c) {
  static const int64_t usual[] = {0, 2, 3};
  ir_graph *g = c->g;
  ir_value *x = converter_input(c, 0), *mean, *variance, *spread, *deviation, *moved, *y;
  int n;
  const int64_t *axes = attribute_ints(c, "axes", &n);
  if (n < 0) axes = usual, n = 3;
  int64_t dims[MAX_RANK], list[MAX_RANK];
  memcpy(dims, x->tensor.dims, sizeof dims);
  for (int i = 0; i < n && i < MAX_RANK; ++i) {
    int axis;
    TRY(converter_axis(axes[i], x->tensor.rank, &axis));
    dims[axis] = 1;
    list[i] = axis;
  }
  const aclIntArray *of = ir_int_array(g, list, n);
  const scalar *tiny = ir_scalar(g, ACL_DOUBLE, 1e-9), *one = ir_scalar(g, ACL_FLOAT, 1);
  if (!of || !tiny || !one) return ST_NO_HOST_MEMORY;
  TRY(ir_temporary(g, x->tensor.dtype, dims, x->tensor.rank, &variance));
  TRY(ir_temporary(g, x->tensor.dtype, dims, x->tensor.rank, &mean));
  TRY(node_VarMean(g, x, of, 0, true, variance, mean));
  TRY(converter_unary(c, &op_Sqrt, variance, x->tensor.dtype, &spread));
  TRY(norm_like(c, spread, &moved));
  TRY(node_Adds(g, spread, tiny, one, moved));
  TRY(converter_binary(c, &op_Sub, x, mean, x->tensor.dtype, &deviation));
  TRY(converter_binary(c, &op_Div, deviation, moved, x->tensor.dtype, &y));
  return converter_output(c, 0, y);
}

const onnx_operator onnx_norms[] = {
    {"BatchNormalization", convert_batch_norm, 5, NULL, 0},
    {"InstanceNormalization", convert_instance_norm, 3, NULL, 0},
    {"GroupNormalization", convert_group_norm, 3, NULL, 0},
    {"LayerNormalization", convert_layer_norm, 2, NULL, 0},
    {"RMSNormalization", convert_rms_norm, 2, NULL, 0},
    {"LpNormalization", convert_lp_norm, 1, NULL, 0},
    {"LRN", convert_lrn, 1, NULL, 0},
    {"MeanVarianceNormalization", convert_mean_variance_norm, 1, NULL, 0},
    {0},
};
