/* What the profiler's timeline says of an operator's tensors. */
#ifndef CANNON_OP_SHAPES_H
#define CANNON_OP_SHAPES_H

#include "op/executor.h"

/* The number, among the timeline's names, of the text
 *
 *   2,3;3|FLOAT;FLOAT|ND;ND|2,3|FLOAT|ND
 *
 * which has the shapes, dtypes and formats of the tensors that are read, then of those that are written (for one that is
 * both: in both), in the order of the call; an absent one is empty. Cut at 4 KiB. */
__attribute__((cold)) uint32_t shapes_name(const executor *e, const op_arg *a);

#endif
