/* SPDX-License-Identifier: Apache-2.0 */
/* Which part of a dry run's communication hides behind computing, in the time that is modelled (dry_clock.h). Streams
 * are run in any order, so what hides a collective may be told before it or after it. Called by dry_clock.c. Any
 * thread. */
#ifndef CANNON_RUNTIME_DRY_DRY_OVERLAP_H
#define CANNON_RUNTIME_DRY_DRY_OVERLAP_H

#include "trace/stats.h"

/* The device works from begin_ns to end_ns: collectives of that time are less exposed, if nothing hid them before. */
void dry_overlap_work(int device, uint64_t begin_ns, uint64_t end_ns);

/* A collective of the row takes from begin_ns to end_ns; adds to its exposed time. */
void dry_overlap_communicate(int device, stats_collective *row, uint64_t begin_ns, uint64_t end_ns);

#endif
