/* SPDX-License-Identifier: Apache-2.0 */
/* Checks and planning steps shared by the operators of moves and by other families that copy tensors. All run in phase
 * one on the calling thread; status functions return the error that the check raised. */
#ifndef CANNON_KERNEL_MOVE_CHECK_H
#define CANNON_KERNEL_MOVE_CHECK_H

#include "kernel/move/move.h"
#include "op/executor.h"

/* Both tensors have the same dtype, one of DTYPES_NUMBER. */
status move_expect_same_dtype(const tensor *self, const char *self_name, const tensor *out, const char *out_name);

/* A conversion from from's dtype to dtype `to` exists: both are equal, or both are types
 * with loads (no complex types). */
status move_expect_conversion(const tensor *from, const char *name, int to);

/* Whether from's shape can be broadcast to to's. */
bool move_broadcasts_to(const tensor *from, const tensor *to);

/* Plans copying one tensor into another, as the whole operator e: sets its plan, cost and run function. The operand
 * numbers are those of the two tensors. Converts where dtypes differ. */
void move_prepare_copy(executor *e, int to_operand, const view *to, int from_operand, const view *from);

/* As above for a given space, without conversion. The offsets are in bytes from the operands' first elements. */
void move_prepare(executor *e, int to_operand, int64_t to_offset, int from_operand, int64_t from_offset,
                  const move_space *s);

/* A run function that does nothing, for operators without elements. */
status move_run_nothing(const executor *e, void *const *view, void *scratch);

#endif
