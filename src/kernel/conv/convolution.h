/* Convolutions and their gradients as an operator's prepare function asks for them, whatever its arguments are called. */
#ifndef CANNON_KERNEL_CONV_CONVOLUTION_H
#define CANNON_KERNEL_CONV_CONVOLUTION_H

#include "kernel/conv/geometry.h"

/* Tensors have channels before the axes. operand: where input, weight, bias and output are among the call's tensors. */
typedef struct {
  const tensor *input, *weight, *bias, *output; /* bias: or NULL */
  const char *input_name, *output_name;
  int8_t operand[4];
} conv_forward;

status conv_prepare_forward(executor *e, const conv_forward *f, const conv_arguments *a);

enum { CONV_GRAD, CONV_INPUT, CONV_WEIGHT, CONV_GRAD_INPUT, CONV_GRAD_WEIGHT, CONV_GRAD_BIAS, CONV_TENSORS };

/* Results are NULL where they are not asked for. Of an input or a weight that only its shape is needed of, the gradient may
 * stand for it. */
typedef struct {
  const tensor *t[CONV_TENSORS];
  const char *name[CONV_TENSORS];
  int8_t operand[CONV_TENSORS]; /* among the call's */
} conv_backward;

status conv_prepare_gradients(executor *e, const conv_backward *b, const conv_arguments *a);

#endif
