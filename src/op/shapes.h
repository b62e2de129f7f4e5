/* SPDX-License-Identifier: Apache-2.0 */
/* The shapes of an operator's tensors as a text, for the profiler's timeline. Called by op.c. Thread-safe. */
#ifndef CANNON_OP_SHAPES_H
#define CANNON_OP_SHAPES_H

#include "op/executor.h"

/* Adds to the timeline's names, and returns the number of, a text like
 *
 *   2,3;3|FLOAT;FLOAT|ND;ND|2,3|FLOAT|ND
 *
 * with the shapes, dtypes and formats of the tensors that are read, then of those that are written (a tensor that is
 * both is in both), in the order of the call. The entry of an absent tensor is empty. Cut at 4 KiB. */
__attribute__((cold)) uint32_t shapes_name(const executor *e, const op_arg *a);

#endif
