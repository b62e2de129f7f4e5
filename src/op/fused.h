/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that fuse communication with computing. The executor of such an operator has a sequence of steps, each of
 * which is a task on the caller's stream: an operator (a step has its executor), or a collective. What one step leaves
 * for the next lies in the operator's workspace. All ranks of the communicator launch the operator in the same order as
 * their other collectives.
 *
 * A prepare function (phase one) begins with fused_begin, finds its communicator with fused_group, and adds steps in
 * the order in which they run. The tensors that it passes to steps come from fused_operand and fused_temporary, or are
 * views of these: their `data` is no address, but says which operand's address counts at the launch, or which part of
 * the workspace. Called by the fused_*.c beside this file; calls the rest of op/ and src/comm. An executor's sequence
 * is used by one thread at a time, as the executor is. */
#ifndef CANNON_OP_FUSED_H
#define CANNON_OP_FUSED_H

#include "comm/collective.h"
#include "op/executor.h"

/* Gives the executor a sequence without steps, which goes with it. */
status fused_begin(executor *e);

/* The communicator that the argument `index`, a string, names; the sequence has a reference. ST_OP_NULL,
 * ST_OP_INVALID. */
status fused_group(executor *e, const op_arg *a, int index, comm **out);

/* The index of the argument of that name, which may end in "Optional"; -1: the operator has none. */
int fused_find(const op *o, const char *name);

/* The tensor that is argument `index` of the call, which is not absent. */
tensor fused_operand(const executor *e, const op_arg *a, int index);

/* A contiguous tensor in the workspace. */
tensor fused_temporary(executor *e, int dtype, const int64_t *dims, int rank);

/* A contiguous tensor as another with as many elements. */
tensor fused_reshaped(const tensor *t, const int64_t *dims, int rank);

/* A view of the tensor whose dimension i is its dimension order[i]. */
tensor fused_permuted(const tensor *t, const int *order);

/* Adds a step that runs an operator. */
status fused_add_operator(executor *e, op *o, const op_arg *a);

/* Adds a collective between contiguous tensors of one dtype. count: as in collective_call; 0: there is no step. */
status fused_add_collective(executor *e, comm *c, comm_kind kind, const tensor *send, const tensor *receive,
                            int64_t count);

/* Steps that several operators have: out = x1 @ x2 + bias, where the bias may be NULL or broadcast; to += addend, which
 * may be broadcast. */
status fused_add_product(executor *e, const tensor *x1, const tensor *x2, const tensor *bias, const tensor *out);
status fused_add_sum(executor *e, const tensor *to, const tensor *addend);

/* ---- for tables of the operators that steps run ------------------------------------------------------------------ */

#define FUSED_INPUT(called)                                                                                            \
  { called, ARG_TENSOR, ARG_READ }
#define FUSED_OPTIONAL(called)                                                                                         \
  { called, ARG_TENSOR, ARG_READ | ARG_OPTIONAL }
#define FUSED_OUTPUT(called)                                                                                           \
  { called, ARG_TENSOR, ARG_WRITTEN }
#define FUSED_NUMBER(called)                                                                                           \
  { called, ARG_INT, ARG_READ }

/* An operator: its name, prepare function, variant and array of arguments. */
#define FUSED_OPERATOR(called, family, number, arguments)                                                              \
  {                                                                                                                    \
    .name = called, .function = "aclnn" called, .schema = arguments, .n_args = sizeof arguments / sizeof *arguments,   \
    .variant = number, .prepare = family                                                                               \
  }

#endif
