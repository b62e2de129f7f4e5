/* SPDX-License-Identifier: Apache-2.0 */
/* Replays a trace through an allocator, and measures time and memory. Called by `cannon replay`. Measurements run in
 * the calling thread. */
#ifndef CANNON_REPLAY_REPLAY_H
#define CANNON_REPLAY_REPLAY_H

#include "replay/allocation_trace.h"
#include "replay/replay_allocator.h"

/* Processor time per event in ns, without the cost of the replay loop itself. Cold: on a new instance. Warm: a
 * second time on the same instance, which has its memory already. Medians over the repetitions, each of which has an
 * instance of its own. Processor time of the thread is used, so that other processes do not count. */
typedef struct {
  double cold_ns, warm_ns;
  /* part of the times above spent in system calls that map memory; 0 where they are not counted */
  double cold_call_ns, warm_call_ns;
  uint64_t n_warm_calls; /* such calls in the second replay, or UNKNOWN_CALLS */
} replay_times;
bool replay_time(const allocator *a, const trace *t, uint64_t cap_bytes, int repetitions, replay_times *out);

/* Replays a trace and calls `visit` after each event with the block that was allocated or freed; bytes is 0 if the
 * allocation was refused. */
typedef struct {
  size_t event;
  uint32_t block;
  bool alloc;
  uint64_t address, bytes, live_bytes;
  allocator_footprint footprint;
} replay_step;
bool replay_walk(const allocator *a, const trace *t, uint64_t cap_bytes, void (*visit)(const replay_step *, void *),
                 void *argument);

/* Measures both time and memory. This function and the two above return false if the allocator cannot be created. */
typedef struct {
  const allocator *allocator;
  replay_times times;
  uint64_t peak_committed_bytes, peak_live_bytes; /* live: without refused allocations */
  uint64_t n_calls;                               /* or UNKNOWN_CALLS */
  uint64_t n_refused;
  size_t first_refused; /* index of the event; valid only if n_refused is not 0 */
} replay_result;
bool replay_measure(const allocator *a, const trace *t, uint64_t cap_bytes, int repetitions, replay_result *out);

/* Returns a cap to use where the user gives none: large enough for every model, small enough for their tables. */
uint64_t replay_roomy_cap(const trace *t);

#endif
