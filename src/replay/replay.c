/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/replay.h"

#include <stdlib.h>

#include "base/sync.h"

uint64_t replay_roomy_cap(const trace *t) {
  return replay_round_up(16 * t->peak_live_bytes, GRANULE_BYTES) + (1u << 30);
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

static void *no_create(uint64_t cap_bytes) { return replay_must_alloc(cap_bytes ? 1 : 2); }
static uintptr_t no_alloc(void *self, uint64_t bytes) {
  (void)self;
  return (uintptr_t)bytes;
}
static void no_free(void *self, uintptr_t handle) {
  (void)self;
  (void)handle;
}
/* An allocator that does nothing, to measure the cost of the loop itself, including calls through pointers. */
static const allocator nothing = {
    .name = "nothing", .create = no_create, .alloc = no_alloc, .free = no_free, .destroy = free};

static allocator_footprint footprint_of(const allocator *a, void *self) {
  return a->footprint ? a->footprint(self) : (allocator_footprint){.n_calls = UNKNOWN_CALLS};
}

/* Times of one replay, per event, and its number of system calls. */
typedef struct {
  double ns, call_ns;
  uint64_t n_calls;
} run_times;

static run_times replay_run(const allocator *a, void *self, const trace *t, uintptr_t *handle) {
  const allocator_footprint before = footprint_of(a, self);
  const uint64_t start = thread_ns();
  for (const trace_event *e = t->event, *end = e + t->n_events; e < end; ++e) {
    if (e->bytes)
      handle[e->block] = a->alloc(self, e->bytes);
    else if (handle[e->block]) {
      a->free(self, handle[e->block]);
      handle[e->block] = 0;
    }
  }
  const uint64_t end = thread_ns();
  const allocator_footprint after = footprint_of(a, self);
  const double n = (double)t->n_events;
  return (run_times){.ns = (double)(end - start) / n,
                     .call_ns = (double)(after.call_ns - before.call_ns) / n,
                     .n_calls = after.n_calls == UNKNOWN_CALLS ? UNKNOWN_CALLS : after.n_calls - before.n_calls};
}

static void free_rest(const allocator *a, void *self, const trace *t, uintptr_t *handle) {
  for (uint32_t i = 0; i < t->n_blocks; ++i) {
    if (handle[i]) a->free(self, handle[i]);
    handle[i] = 0;
  }
}

static int replay_by_time(const void *a, const void *b) {
  const double x = ((const run_times *)a)->ns, y = ((const run_times *)b)->ns;
  return (x > y) - (x < y);
}

/* Returns the median; of an even number, the faster of the two in the middle. */
static run_times replay_median(run_times *times, int n) {
  qsort(times, (size_t)n, sizeof *times, replay_by_time);
  return times[(n - 1) / 2];
}

/* As replay_time, but including the loop's cost. */
static bool replay_measure_times(const allocator *a, const trace *t, uint64_t cap_bytes, int repetitions,
                                 replay_times *out) {
  uintptr_t *handle = replay_must_alloc((t->n_blocks + (size_t)1) * sizeof *handle);
  run_times *cold = replay_must_alloc((size_t)repetitions * sizeof *cold);
  run_times *warm = replay_must_alloc((size_t)repetitions * sizeof *warm);
  bool made = true;
  for (int i = 0; i < repetitions && made; ++i) {
    void *self = a->create(cap_bytes);
    made = self;
    if (!made) break;
    cold[i] = replay_run(a, self, t, handle);
    free_rest(a, self, t, handle);
    warm[i] = replay_run(a, self, t, handle);
    free_rest(a, self, t, handle);
    a->destroy(self);
  }
  if (made) {
    const run_times c = replay_median(cold, repetitions), w = replay_median(warm, repetitions);
    *out = (replay_times){.cold_ns = c.ns,
                          .warm_ns = w.ns,
                          .cold_call_ns = c.call_ns,
                          .warm_call_ns = w.call_ns,
                          .n_warm_calls = w.n_calls};
  }
  free(handle);
  free(cold);
  free(warm);
  return made;
}

bool replay_time(const allocator *a, const trace *t, uint64_t cap_bytes, int repetitions, replay_times *out) {
  replay_times loop;
  if (!replay_measure_times(&nothing, t, cap_bytes, repetitions, &loop) ||
      !replay_measure_times(a, t, cap_bytes, repetitions, out))
    return false;
  out->cold_ns -= loop.warm_ns;
  out->warm_ns -= loop.warm_ns;
  return true;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

bool replay_walk(const allocator *a, const trace *t, uint64_t cap_bytes, void (*visit)(const replay_step *, void *),
                 void *argument) {
  void *self = a->create(cap_bytes);
  if (!self) return false;
  uintptr_t *handle = replay_must_alloc((t->n_blocks + (size_t)1) * sizeof *handle);
  uint64_t *bytes = replay_must_alloc((t->n_blocks + (size_t)1) * sizeof *bytes), live = 0;
  for (size_t i = 0; i < t->n_events; ++i) {
    const trace_event *e = &t->event[i];
    replay_step step = {.event = i, .block = e->block, .alloc = e->bytes};
    if (e->bytes) handle[e->block] = a->alloc(self, e->bytes);
    if (handle[e->block]) {
      if (e->bytes) bytes[e->block] = e->bytes;
      step.bytes = bytes[e->block];
      step.address = a->address(self, handle[e->block]);
      live = e->bytes ? live + step.bytes : live - step.bytes;
      if (!e->bytes) a->free(self, handle[e->block]);
    }
    step.live_bytes = live;
    step.footprint = a->footprint(self);
    visit(&step, argument);
    if (!e->bytes) handle[e->block] = 0;
  }
  free_rest(a, self, t, handle);
  a->destroy(self);
  free(handle);
  free(bytes);
  return true;
}

static void note_peaks(const replay_step *s, void *argument) {
  replay_result *r = argument;
  if (s->live_bytes > r->peak_live_bytes) r->peak_live_bytes = s->live_bytes;
  if (s->footprint.committed_bytes > r->peak_committed_bytes) r->peak_committed_bytes = s->footprint.committed_bytes;
  r->n_calls = s->footprint.n_calls;
  if (s->alloc && !s->bytes && !r->n_refused++) r->first_refused = s->event;
}

bool replay_measure(const allocator *a, const trace *t, uint64_t cap_bytes, int repetitions, replay_result *out) {
  *out = (replay_result){.allocator = a};
  return replay_walk(a, t, cap_bytes, note_peaks, out) && replay_time(a, t, cap_bytes, repetitions, &out->times);
}
