/* SPDX-License-Identifier: Apache-2.0 */
/* How long a collective takes on a topology, by the model of HCCL's documentation: a round of a schedule (schedule.h)
 * costs alpha + bytes * beta + reduced bytes * gamma, and rounds follow each other. beta is that of the busiest link:
 * of a device, of a pair of devices, or of a group that shares its way out. Where a round has messages at several
 * levels, the slowest level counts, since levels have links of their own. Copies inside a device cost nothing.
 *
 * Only the ranks that can differ are looked at: those of the first and the last group of level 0 and of the root's. All
 * other groups do the same as one of them. So 10,000 ranks take milliseconds.
 *
 * Called by `cannon scale` and by whoever chooses algorithms. A model may be used by one thread at a time. */
#ifndef CANNON_COMM_SCHEDULE_COST_H
#define CANNON_COMM_SCHEDULE_COST_H

#include "comm/schedule/schedule.h"
#include "comm/schedule/topology.h"

/* The user's choice (HCCL_ALGO) for levels 1 and 2: a name as in schedule_algorithm_name; "pipeline" cuts an AllReduce
 * into chunks so that the levels overlap. NULL, "NA", and names that mean nothing here or cannot do a collective leave
 * the choice to the model. Level 0 is never the user's. */
typedef struct {
  const char *level[3];
} cost_names;

/* One collective. Its n_ranks ranks are the devices 0, stride, 2 * stride, ...; the devices between them are assumed to
 * do the same at the same time, in communicators of their own. bytes: of the call's count (schedule_has_parts). */
typedef struct {
  comm_kind kind;
  uint32_t n_ranks, stride, root;
  uint64_t bytes;
} cost_call;

typedef struct {
  schedule_spec spec;
  double time_ns; /* the sum of the following three */
  double latency_ns, transfer_ns, reduce_ns;
  double level_ns[SCHEDULE_MAX_LEVELS]; /* latency and transfer by the level that a round waited for; of the topology */
} cost_result;

typedef struct cost_model cost_model;

/* The topology is copied; the names must live as long as the model. NULL: there is no memory. */
cost_model *cost_model_new(const topology *t, const cost_names *names);
void cost_model_free(cost_model *m);

/* The time of a given schedule. ST_INVALID_VALUE where there is no such schedule; ST_NO_HOST_MEMORY. */
status cost_of_schedule(cost_model *m, const schedule_spec *spec, const cost_call *call, cost_result *out);

/* The schedule that takes least time, of those that the names allow. */
status cost_choose(cost_model *m, const cost_call *call, cost_result *out);

/* Writes "fullmesh", or for several levels "fullmesh + NHR, 4 chunks". */
void cost_words(const schedule_spec *spec, char *text, size_t room);

#endif
