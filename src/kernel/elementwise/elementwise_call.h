/* What elementwise operators have in common once their arguments are sorted: types, shapes, the plan. For operators whose
 * arguments are not simply a function's operands and parameters. */
#ifndef CANNON_KERNEL_ELEMENTWISE_ELEMENTWISE_CALL_H
#define CANNON_KERNEL_ELEMENTWISE_ELEMENTWISE_CALL_H

#include "kernel/engine/elementwise.h"
#include "op/executor.h"

/* A parameter: a scalar of the call or a number. */
typedef struct {
  const char *name;
  const scalar *scalar; /* or NULL: */
  double number;
} elementwise_parameter;

/* The call's arguments by what they are to the function. */
typedef struct {
  const tensor *out, *in[ELEMENTWISE_INPUTS];
  const char *out_name, *in_name[ELEMENTWISE_INPUTS];
  elementwise_parameter parameter[ELEMENTWISE_PARAMETERS];
  int n_inputs, n_parameters;
  int8_t operand[1 + ELEMENTWISE_INPUTS]; /* where each of out, in... is among the executor's */
} elementwise_call;

/* Tensors that are read are the inputs, in their order; what is written is the output; scalars and numbers are the
 * parameters. An absent scalar is 1. */
void elementwise_call_of(const op *o, const op_arg *a, elementwise_call *c);

/* Checks, plans, sets the executor's run. */
status elementwise_prepare(executor *e, int function, const elementwise_call *c);

/* The parts of it, for operators that run several functions. dtype: what the function's result is, by promotion. */
status elementwise_check_dtypes(const elementwise_call *c, int function, int *dtype);
compute_value elementwise_value(const elementwise_parameter *p, compute_type compute);
bool elementwise_is_slow(int function);

/* A number as a type holds it. */
double elementwise_stored(double x, int dtype);

#endif
