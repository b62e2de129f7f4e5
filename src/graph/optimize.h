/* SPDX-License-Identifier: Apache-2.0 */
/* What a program is made for, where there is a choice (atc --optimize). The kernels' rules and the order with the
 * lowest live peak are taken without a goal, and for time.
 *
 *   memory   more orders are tried. Constants are packed only where the packed form stands in their place and is
 *            about as large. At the step with the most live bytes, implementations with less workspace replace the
 *            usual ones, until none is left that lowers the peak.
 *   power    operations times bytes moved decide: the operands', and the workspace's, which is written and read. An
 *            implementation with a tenth less of it replaces the usual one. Constants stay packed, since packing them
 *            at each run moves them once more.
 *
 * Nothing is measured, so that a model has the same sizes each time. References are not taken. For program.c. */
#ifndef CANNON_GRAPH_OPTIMIZE_H
#define CANNON_GRAPH_OPTIMIZE_H

#include "graph/ir.h"

typedef enum { GOAL_NONE, GOAL_TIME, GOAL_MEMORY, GOAL_POWER, N_GOALS } program_goal;

/* "time" and so on; "" for GOAL_NONE. The goal with this name; N_GOALS: there is none. */
const char *goal_name(program_goal goal);
program_goal goal_find(const char *name);

/* Replaces the executor of a node by one with less workspace, or, with GOAL_POWER, by one that moves fewer bytes.
 * constants: as for op_prepare_constant. Returns whether it did. */
bool optimize_implementation(program_goal goal, const ir_node *n, uint64_t constants, executor **e);

/* For GOAL_MEMORY: replaces the executor by one that reads a constant as it is, if the packed one is beside it, or is
 * larger by an eighth. constant_bytes: of the operand that would be packed. Returns whether it did. */
bool optimize_packing(const ir_node *n, uint64_t constant_bytes, executor **e);

#endif
