/* SPDX-License-Identifier: Apache-2.0 */
/* Losses: the negative of the score of each target, weighted by class. */
#include <string.h>

#include "graph/nodes.h"
#include "graph/onnx/convert.h"

/* The weight of each target: that of its class, or 1, and 0 for the class that is ignored. NULL: 1 everywhere. */
static status target_weights(converter *c, ir_value *target, ir_value *kept, ir_value *weight, int dtype,
                             ir_value **out) {
  *out = NULL;
  if (weight) {
    TRY(ir_temporary(c->g, weight->tensor.dtype, target->tensor.dims, target->tensor.rank, out));
    TRY(node_GatherV2(c->g, weight, 0, target, *out));
  }
  if (!kept) return ST_OK;
  TRY(ir_cast(c->g, kept, dtype, &kept));
  if (!*out) return *out = kept, ST_OK;
  return converter_binary(c, &op_Mul, *out, kept, dtype, out);
}

static status loss_sum(converter *c, ir_value *x, ir_value **out) {
  int64_t axes[MAX_RANK];
  for (int d = 0; d < x->tensor.rank; ++d) axes[d] = d;
  const aclIntArray *all = ir_int_array(c->g, axes, x->tensor.rank);
  if (!all) return ST_NO_HOST_MEMORY;
  TRY(ir_temporary(c->g, x->tensor.dtype, NULL, 0, out));
  return node_ReduceSum(c->g, x, all, false, x->tensor.dtype, *out);
}

/* scores: [batch, classes, places...], targets: [batch, places...]. */
static status negative_log_likelihood(converter *c, ir_value *scores, ir_value *target, ir_value *weight,
                                      ir_value **out) {
  ir_graph *g = c->g;
  const int dtype = scores->tensor.dtype, rank = scores->tensor.rank;
  const char *reduction = attribute_string(c, "reduction", "mean");
  ir_value *kept = NULL, *picked, *zero, *weights, *loss, *sum, *divisor;
  int64_t dims[MAX_RANK];
  if (rank < 2 || target->tensor.rank != rank - 1)
    return OP_FAIL("the target has %d dimensions, expected %d", target->tensor.rank, rank - 1);
  TRY(ir_cast(g, target, ACL_INT64, &target));
  if (converter_attribute(c, "ignore_index")) {
    ir_value *ignored, *safe;
    TRY(ir_number(g, ACL_INT64, (double)attribute_int(c, "ignore_index", 0), &ignored));
    TRY(ir_number(g, ACL_INT64, 0, &zero));
    TRY(converter_binary(c, &op_NeTensor, target, ignored, ACL_BOOL, &kept));
    TRY(ir_temporary(g, ACL_INT64, target->tensor.dims, target->tensor.rank, &safe));
    TRY(node_SWhere(g, kept, target, zero, safe));
    target = safe;
  }
  TRY(target_weights(c, target, kept, weight, dtype, &weights));
  memcpy(dims, scores->tensor.dims, sizeof dims);
  dims[1] = 1;
  TRY(ir_reshaped(g, target, dims, rank, &target));
  TRY(ir_temporary(g, dtype, dims, rank, &picked));
  TRY(node_Gather(g, scores, 1, target, picked));
  memmove(dims + 1, dims + 2, (size_t)(rank - 2) * sizeof *dims);
  TRY(ir_reshaped(g, picked, dims, rank - 1, &picked));
  TRY(converter_unary(c, &op_Neg, picked, dtype, &loss));
  if (weights) TRY(converter_binary(c, &op_Mul, loss, weights, dtype, &loss));
  *out = loss;
  if (!strcmp(reduction, "none")) return ST_OK;
  TRY(loss_sum(c, loss, &sum));
  *out = sum;
  if (!strcmp(reduction, "sum")) return ST_OK;
  if (weights)
    TRY(loss_sum(c, weights, &divisor));
  else
    TRY(ir_number(g, dtype, (double)loss->tensor.n, &divisor));
  return converter_binary(c, &op_Div, sum, divisor, dtype, out);
}

static status convert_nll(converter *c) {
  ir_value *y;
  TRY(negative_log_likelihood(c, converter_input(c, 0), converter_input(c, 1), converter_input(c, 2), &y));
  return converter_output(c, 0, y);
}

static status convert_cross_entropy(converter *c) {
  ir_value *x = converter_input(c, 0), *logs, *y;
  TRY(ir_temporary(c->g, x->tensor.dtype, x->tensor.dims, x->tensor.rank, &logs));
  TRY(node_LogSoftmax(c->g, x, 1, logs));
  TRY(negative_log_likelihood(c, logs, converter_input(c, 1), converter_input(c, 2), &y));
  TRY(converter_output(c, 0, y));
  return converter_output(c, 1, logs);
}

const onnx_operator onnx_losses[] = {
    {"NegativeLogLikelihoodLoss", convert_nll, 2, NULL, 0},
    {"SoftmaxCrossEntropyLoss", convert_cross_entropy, 2, NULL, 0},
    {0},
};
