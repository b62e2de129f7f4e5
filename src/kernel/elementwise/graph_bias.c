/* SPDX-License-Identifier: Apache-2.0 */
/* Operators called by name (ops/graph.aclop) that are elementwise functions once an operand is shaped, or parameters
 * are added. */
#include <string.h>

#include "kernel/elementwise/elementwise_call.h"
#include "kernel/engine/loops.h"
#include "kernel/families.h"

/* The bias has a number for each index along the second dimension (NCHW), or along the last. */
status prepare_graph_bias_add(executor *e, const graph_bias_add_args *a) {
  const tensor *x = a->x;
  tensor bias = *a->bias;
  elementwise_call c;
  TRY(op_expect_rank(x, "x", 2, MAX_RANK));
  const int axis = strcmp(a->data_format, "NHWC") != 0 && strcmp(a->data_format, "NDHWC") != 0 ? 1 : x->rank - 1;
  TRY(op_expect_shape(&bias, "bias", &x->dims[axis], 1));
  bias.rank = (uint8_t)(x->rank - axis);
  for (int d = 1; d < bias.rank; ++d) bias.dims[d] = bias.strides[d] = 1;
  elementwise_call_of(e->op, a->all, &c);
  c.in[1] = &bias;
  c.parameter[c.n_parameters++] = (elementwise_parameter){.name = "alpha", .number = 1};
  return elementwise_prepare(e, EW_add, &c);
}

/* Functions whose parameters the operator fixes. */
typedef struct {
  int function, n;
  double parameter[ELEMENTWISE_PARAMETERS];
} constant_function;

static const constant_function constant_functions[] = {
    [GRAPH_CONSTANTS_FAST_GELU] = {EW_swish, 1, {1.702}},
    [GRAPH_CONSTANTS_FAST_GELU_GRAD] = {EW_swish_backward, 1, {1.702}},
};

status prepare_graph_constants(executor *e, const graph_constants_args *a) {
  const constant_function *f = &constant_functions[e->op->variant];
  elementwise_call c;
  elementwise_call_of(e->op, a->all, &c);
  for (int i = 0; i < f->n; ++i)
    c.parameter[c.n_parameters++] = (elementwise_parameter){.name = "the constant", .number = f->parameter[i]};
  return elementwise_prepare(e, f->function, &c);
}
