/* Checks that several operators of moves share. */
#ifndef CANNON_KERNEL_MOVE_CHECK_H
#define CANNON_KERNEL_MOVE_CHECK_H

#include "kernel/move/move.h"
#include "op/executor.h"

/* Both have one dtype, a type of whole bytes. */
status expect_same_dtype(const tensor *self, const char *self_name, const tensor *out, const char *out_name);

/* There is a conversion from one dtype to the other: not where complex numbers are involved. */
status expect_conversion(const tensor *from, const char *name, int to);

bool broadcasts_to(const tensor *from, const tensor *to);

/* The plan of one tensor's copy into another, whose operands are these; sets cost and run. */
void plan_copy(executor *e, int to_operand, const view *to, int from_operand, const view *from);

/* The same where the space is known. `to_offset`, `from_offset`: bytes from the operands' first elements. */
void plan_move(executor *e, int to_operand, int64_t to_offset, int from_operand, int64_t from_offset,
               const move_space *s);

/* Nothing is to be done. */
status run_nothing(const executor *e, void *const *view, void *scratch);

#endif
