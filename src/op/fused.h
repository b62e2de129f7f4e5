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

/* The communicator of that name; the sequence has a reference. argument: that of the call. ST_OP_NULL,
 * ST_OP_INVALID. */
status fused_group(executor *e, const char *name, const char *argument, comm **out);

/* The tensor of the call that is the operand of this number. */
tensor fused_operand(const tensor *t, int operand);

/* The same where the tensor may be absent (NULL). *room: where it is put. */
const tensor *fused_optional(const tensor *t, int operand, tensor *room);

/* A contiguous tensor in the workspace. */
tensor fused_temporary(executor *e, int dtype, const int64_t *dims, int rank);

/* A contiguous tensor as another with as many elements. */
tensor fused_reshaped(const tensor *t, const int64_t *dims, int rank);

/* A view of the tensor whose dimension i is its dimension order[i]. */
tensor fused_permuted(const tensor *t, const int *order);

/* Adds a step that runs an operator. Called by the functions of fused_steps.h, which is generated from the steps in
 * ops/. */
status fused_add_operator(executor *e, op *o, const op_arg *a);

/* Adds a collective between contiguous tensors of one dtype. count: as in collective_call; 0: there is no step. */
status fused_add_collective(executor *e, comm *c, comm_kind kind, const tensor *send, const tensor *receive,
                            int64_t count);

#endif
