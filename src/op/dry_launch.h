/* SPDX-License-Identifier: Apache-2.0 */
/* Operators in a dry run (runtime/dry/dry.h): decides of each launch whether it is computed. */
#ifndef CANNON_OP_DRY_LAUNCH_H
#define CANNON_OP_DRY_LAUNCH_H

#include "op/executor.h"
#include "trace/stats.h"

/* In place of e->run(): computes a small operator whose inputs are all real, and one that the user wants computed
 * (--real), for which inputs that are not real are made zeros. Otherwise the outputs are not real from now on, and
 * results whose shape depends on the data get the size that the user states. row: the operator's, for counting. */
status dry_launch(const executor *e, void *const *view, void *scratch, stats_op *row);

#endif
