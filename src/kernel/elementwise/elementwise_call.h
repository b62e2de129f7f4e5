/* SPDX-License-Identifier: Apache-2.0 */
/* Checks and plans of elementwise operators, once their arguments are sorted by role: dtypes, shapes, the plan. Called
 * by prepare functions, of this folder and of others, whose arguments are not simply a function's operands and
 * parameters. Thread-safe: the functions work on the caller's data. */
#ifndef CANNON_KERNEL_ELEMENTWISE_ELEMENTWISE_CALL_H
#define CANNON_KERNEL_ELEMENTWISE_ELEMENTWISE_CALL_H

#include "kernel/engine/elementwise.h"
#include "op/executor.h"

/* A parameter of a function: a scalar of the call, or a number. */
typedef struct {
  const char *name;
  const scalar *scalar; /* NULL: `number` counts */
  double number;
} elementwise_parameter;

/* The call's arguments by their role in the function. */
typedef struct {
  const tensor *out, *in[ELEMENTWISE_INPUTS];
  const char *out_name, *in_name[ELEMENTWISE_INPUTS];
  elementwise_parameter parameter[ELEMENTWISE_PARAMETERS];
  int n_inputs, n_parameters;
  int8_t operand[1 + ELEMENTWISE_INPUTS]; /* index of out and in[0...] among the executor's operands */
  bool of_uint16;                         /* all tensors are UINT16; otherwise none may be */
} elementwise_call;

/* Sorts a call's arguments by the schema: tensors that are read are the inputs, in their order; the tensor that is
 * written is the output; scalars and numbers are the parameters. An absent scalar is 1. */
void elementwise_call_of(const op *o, const op_arg *a, elementwise_call *c);

/* Checks dtypes and shapes, plans the function (EW_...) and sets the executor's run. */
status elementwise_prepare(executor *e, int function, const elementwise_call *c);

/* The plan of an executor that computes one real function by the elementwise engine; otherwise NULL. *operand: which of
 * the executor's operands the plan's are. */
const elementwise_plan *elementwise_plan_of(const executor *e, const int8_t **operand);

/* The steps of elementwise_prepare, for operators that run several functions. check_dtypes sets *dtype to the promoted
 * dtype that the function is computed in, value converts a parameter to a compute type, is_slow tells whether a
 * function's speed is limited by computing. */
status elementwise_check_dtypes(const elementwise_call *c, int function, int *dtype);
compute_value elementwise_value(const elementwise_parameter *p, compute_type compute);

/* x rounded to a dtype. */
double elementwise_stored(double x, int dtype);

#endif
