/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points of convolutions and their gradients for the operators' prepare functions, independent of how each
 * operator names and orders its arguments. Called by convolution.c and graph_conv.c on the calling thread; the
 * executor's `run` later executes the plan. */
#ifndef CANNON_KERNEL_CONV_CONVOLUTION_H
#define CANNON_KERNEL_CONV_CONVOLUTION_H

#include "kernel/conv/epilogue.h"
#include "kernel/conv/geometry.h"

enum { CONV_FROM, CONV_BY, CONV_PLUS, CONV_TO, CONV_RESIDUAL, CONV_OPERANDS };

/* The tensors of a forward pass, with channels before the axes. operand: the indices of input, weight, bias, output and
 * residual among the call's tensors. */
typedef struct {
  const tensor *input, *weight, *bias, *output; /* bias may be NULL */
  const char *input_name, *output_name;
  int8_t operand[CONV_OPERANDS];
  conv_epilogue epilogue; /* its residual is a tensor like output */
} conv_forward;

/* Checks the arguments and plans e. Fails with a message that names the argument. */
status conv_prepare_forward(executor *e, const conv_forward *f, const conv_arguments *a);

enum { CONV_GRAD, CONV_INPUT, CONV_WEIGHT, CONV_GRAD_INPUT, CONV_GRAD_WEIGHT, CONV_GRAD_BIAS, CONV_TENSORS };

/* The tensors of the gradients. A result is NULL if it is not wanted. For an input or weight that is needed only for
 * its shape, the caller may pass the tensor of its gradient. */
typedef struct {
  const tensor *t[CONV_TENSORS];
  const char *name[CONV_TENSORS];
  int8_t operand[CONV_TENSORS]; /* indices among the call's tensors */
} conv_backward;

/* As above. The plan is in e->heap. */
status conv_prepare_gradients(executor *e, const conv_backward *b, const conv_arguments *a);

#endif
