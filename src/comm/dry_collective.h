/* SPDX-License-Identifier: Apache-2.0 */
/* The time of collectives in a dry run (runtime/dry/dry_clock.h), by the model of cost.h on the topology of the device,
 * or on the one that the user names. A collective begins when the last of its ranks on this host has come to it, for
 * which ranks tell each other their streams' clocks with their records (node.h); what ranks of other hosts do is not
 * known. It takes the time of the schedule that is fastest by the model, for the largest part that any of these ranks
 * has; transfers take that of the busiest link, all transfers of a batch being under way at the same time.
 *
 * Ranks are the devices of their numbers, so that ranks of several hosts follow each other; where numbers are not all
 * different (each process sees one device), ranks are taken for the devices 0, 1, 2, ...
 *
 * Called by collective.c and part.c, by the thread that runs the task. */
#ifndef CANNON_COMM_DRY_COLLECTIVE_H
#define CANNON_COMM_DRY_COLLECTIVE_H

#include "comm/collective_private.h"

/* The task runs: notes how far its stream is, before the call brings a record. */
void dry_collective_come(collective *op, const stream *s);

/* What this rank tells the others with its record, and what another's record tells. */
void dry_collective_tell(const collective *op, node_record *r);
void dry_collective_hear(collective *op, const node_record *r);

/* The call is over: counts its time. */
void dry_collective_done(const collective *op, stream *s);

#endif
