/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of communicators that have ranks on several hosts: composed of jobs of each host's ranks, messages between the
 * hosts, and reductions. Called by collective.c. Files:
 *
 *   wide.c            which parts a call has, and whether the hosts call the same
 *   wide_levels.c     by levels: the ranks of a host reduce (or gather) among themselves, each for a slice of the
 *                     vector; ranks with the same index exchange these slices between the hosts. Needs hosts with the
 *                     same number of ranks
 *   wide_flat.c       flat: each rank exchanges with every other. For calls that move different data between each pair
 *                     of ranks, and for reductions with HCCL_DETERMINISTIC=strict, whose order is that of the ranks
 *   wide_schedule.c   the exchange between hosts, from a schedule (schedule.h) */
#ifndef CANNON_COMM_SCHEDULE_WIDE_H
#define CANNON_COMM_SCHEDULE_WIDE_H

#include "comm/collective_private.h"

/* Composes the call's parts. */
status wide_build(collective *op);

/* Compares what the first ranks of the hosts called; when the first stage is over. */
status wide_check(const collective *op);

/* Gives messages their places in the order of calls. */
void wide_number(collective *op);

#endif
