/* SPDX-License-Identifier: Apache-2.0 */
/* What a recorded step takes on N devices. The streams of the recorded ranks run again, with their tasks' time as it
 * was recorded and each collective's as the cost model has it (comm/schedule/cost.h) for a communicator that has grown:
 * a stream does one thing after the other, waits for the events that it waited for, and a collective begins when all of
 * its recorded ranks have come to it. The host is taken to be fast enough: pauses of a stream that no event explains
 * are left out. Called by `cannon scale`; not thread-safe. */
#ifndef CANNON_REPLAY_SCALE_H
#define CANNON_REPLAY_SCALE_H

#include "base/status.h"
#include "comm/schedule/cost.h"
#include "replay/scale_trace.h"

enum { SCALE_MAX_DEVICES = 1 << 20 };

typedef struct {
  uint32_t grows_size; /* communicators of so many ranks grow; 0: only those of all ranks */
  uint64_t grows_id;   /* that communicator grows, and those of the same size and spread, if has_id */
  bool has_id;
  bool strong;    /* the work of all devices together stays the same; otherwise that of each */
  double compute; /* factor of recorded times of tasks */
} scale_options;

/* Collectives of one kind, summed over the recorded ranks, in ns. */
typedef struct {
  uint64_t n_calls;
  double time_ns, exposed_ns;                /* by the model; the part in which the rank computed nothing */
  double latency_ns, transfer_ns, reduce_ns; /* time_ns is their sum */
  double level_ns[SCHEDULE_MAX_LEVELS];
  schedule_spec longest; /* the schedule of the call that takes longest */
  double longest_ns;
} scale_kind;

typedef struct {
  uint32_t n_devices;
  double step_ns, compute_ns;          /* compute_ns: the same without communication */
  double communication_ns, exposed_ns; /* of a rank, on average: while at least one collective runs; without any task */
  scale_kind kind[COMM_N_KINDS];
  uint64_t n_forced; /* waits that were given up, since the recording lacks what they wait for */
} scale_result;

/* The next number of devices from n on, at most SCALE_MAX_DEVICES, that are whole communicators. */
uint32_t scale_round_up(const scale_trace *t, const scale_options *o, uint32_t n);

/* ST_INVALID_VALUE, with a message, if n_devices are not whole communicators. */
status scale_run(const scale_trace *t, const scale_options *o, cost_model *m, uint32_t n_devices, scale_result *out);

/* Whether a communicator grows. */
bool scale_grows(const scale_trace *t, const scale_options *o, const scale_group *g);

/* The kind with the most exposed time; -1: none has any. */
int scale_worst_kind(const scale_result *r);

#endif
