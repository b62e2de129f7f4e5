/* SPDX-License-Identifier: Apache-2.0 */
/* Which blocks go where in which round, for each algorithm of schedule.h: arithmetic on the numbers of the members of a
 * group, which has `size` members with a block each. Called by schedule.c only. Pure functions.
 *
 * Only the spreading half is written down. A ReduceScatter is an AllGather with time reversed: who receives a block in
 * the last round sends it in the first, and what meets is reduced. Collecting at a root is likewise a Scatter
 * reversed. */
#ifndef CANNON_COMM_SCHEDULE_SCHEDULE_HOPS_H
#define CANNON_COMM_SCHEDULE_SCHEDULE_HOPS_H

#include <stdbool.h>
#include <stdint.h>

#include "comm/schedule/schedule.h"

/* A message: the blocks first, first + stride, ... (modulo size), `count` of them, to or from the peer. */
typedef struct {
  uint32_t peer, first, count, stride;
} schedule_hop;

/* How many rounds an AllGather or a Scatter has. */
uint32_t schedule_hop_rounds(schedule_algorithm a, uint32_t size);

/* The i-th message that a member sends, or receives, in a round of an AllGather; false if there are no more. */
bool schedule_hop_send(schedule_algorithm a, uint32_t size, uint32_t member, uint32_t round, uint32_t i,
                       schedule_hop *out);
bool schedule_hop_receive(schedule_algorithm a, uint32_t size, uint32_t member, uint32_t round, uint32_t i,
                          schedule_hop *out);

/* The same for a Scatter from a root; sends: what the member sends, otherwise what it receives. */
bool schedule_hop_down(schedule_algorithm a, uint32_t size, uint32_t root, uint32_t member, uint32_t round, uint32_t i,
                       bool sends, schedule_hop *out);

#endif
