/* A trace through an allocator: what it costs, and what it holds. */
#ifndef CANNON_REPLAY_REPLAY_H
#define CANNON_REPLAY_REPLAY_H

#include "replay/allocation_trace.h"
#include "replay/replay_allocator.h"

/* ns per event, the loop's own cost taken off: from nothing, and once more on the same instance, whose memory is there.
 * Medians over repetitions, each with an instance of its own; processor time, so that others on the machine don't count. */
typedef struct {
  double cold_ns, warm_ns;
  double cold_call_ns, warm_call_ns; /* of these, in system calls on mappings; 0 where they are not counted */
  uint64_t n_warm_calls;             /* of the second time; or UNKNOWN_CALLS */
} replay_times;
bool replay_time(const allocator *a, const trace *t, uint64_t cap_bytes, int repetitions, replay_times *out);

/* Calls visit behind each event with the block that came or went (bytes 0: it was refused). */
typedef struct {
  size_t event;
  uint32_t block;
  bool alloc;
  uint64_t address, bytes, live_bytes;
  allocator_footprint footprint;
} replay_step;
bool replay_walk(const allocator *a, const trace *t, uint64_t cap_bytes, void (*visit)(const replay_step *, void *),
                 void *argument);

/* Both. All three are false where the allocator can't be made. */
typedef struct {
  const allocator *allocator;
  replay_times times;
  uint64_t peak_committed_bytes, peak_live_bytes; /* live: what was not refused */
  uint64_t n_calls;                               /* or UNKNOWN_CALLS */
  uint64_t n_refused;
  size_t first_refused; /* event; only where n_refused */
} replay_result;
bool replay_measure(const allocator *a, const trace *t, uint64_t cap_bytes, int repetitions, replay_result *out);

/* What to take as the cap where none is given: no model runs into it, and tables stay small. */
uint64_t replay_roomy_cap(const trace *t);

#endif
