#include "replay/replay.h"

#include <stdlib.h>
#include <time.h>

uint64_t replay_roomy_cap(const trace *t) { return round_up(16 * t->peak_live_bytes, GRANULE_BYTES) + (1u << 30); }

/* ---- time -------------------------------------------------------------------------------------------------------- */

static void *no_create(uint64_t cap_bytes) { return must_alloc(cap_bytes ? 1 : 2); }
static uintptr_t no_alloc(void *self, uint64_t bytes) {
  (void)self;
  return (uintptr_t)bytes;
}
static void no_free(void *self, uintptr_t handle) {
  (void)self;
  (void)handle;
}
/* What the loop itself costs, calls through pointers included. */
static const allocator nothing = {
    .name = "nothing", .create = no_create, .alloc = no_alloc, .free = no_free, .destroy = free};

/* The thread's own time, so that others on the machine don't count. */
static uint64_t cpu_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static double run(const allocator *a, void *self, const trace *t, uintptr_t *handle) {
  const uint64_t start = cpu_ns();
  for (const trace_event *e = t->event, *end = e + t->n_events; e < end; ++e) {
    if (e->bytes)
      handle[e->block] = a->alloc(self, e->bytes);
    else if (handle[e->block]) {
      a->free(self, handle[e->block]);
      handle[e->block] = 0;
    }
  }
  return (double)(cpu_ns() - start) / (double)t->n_events;
}

static void free_rest(const allocator *a, void *self, const trace *t, uintptr_t *handle) {
  for (uint32_t i = 0; i < t->n_blocks; ++i) {
    if (handle[i]) a->free(self, handle[i]);
    handle[i] = 0;
  }
}

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *value, int n) {
  qsort(value, (size_t)n, sizeof *value, by_value);
  return n % 2 ? value[n / 2] : (value[n / 2 - 1] + value[n / 2]) / 2;
}

static uint64_t calls_of(const allocator *a, void *self) {
  return a->footprint ? a->footprint(self).n_calls : UNKNOWN_CALLS;
}

/* As replay_time, the loop's cost included. */
static bool measure(const allocator *a, const trace *t, uint64_t cap_bytes, int repetitions, replay_times *out) {
  uintptr_t *handle = must_alloc((t->n_blocks + (size_t)1) * sizeof *handle);
  double *cold = must_alloc((size_t)repetitions * sizeof *cold), *warm = must_alloc((size_t)repetitions * sizeof *warm);
  bool made = true;
  for (int i = 0; i < repetitions && made; ++i) {
    void *self = a->create(cap_bytes);
    made = self;
    if (!made) break;
    cold[i] = run(a, self, t, handle);
    free_rest(a, self, t, handle);
    const uint64_t calls = calls_of(a, self);
    warm[i] = run(a, self, t, handle);
    out->n_warm_calls = calls == UNKNOWN_CALLS ? calls : calls_of(a, self) - calls;
    free_rest(a, self, t, handle);
    a->destroy(self);
  }
  if (made) {
    out->cold_ns = median(cold, repetitions);
    out->warm_ns = median(warm, repetitions);
  }
  free(handle);
  free(cold);
  free(warm);
  return made;
}

bool replay_time(const allocator *a, const trace *t, uint64_t cap_bytes, int repetitions, replay_times *out) {
  replay_times loop;
  if (!measure(&nothing, t, cap_bytes, repetitions, &loop) || !measure(a, t, cap_bytes, repetitions, out)) return false;
  out->cold_ns -= loop.warm_ns;
  out->warm_ns -= loop.warm_ns;
  return true;
}

/* ---- space ------------------------------------------------------------------------------------------------------- */

bool replay_walk(const allocator *a, const trace *t, uint64_t cap_bytes, void (*visit)(const replay_step *, void *),
                 void *argument) {
  void *self = a->create(cap_bytes);
  if (!self) return false;
  uintptr_t *handle = must_alloc((t->n_blocks + (size_t)1) * sizeof *handle);
  uint64_t *bytes = must_alloc((t->n_blocks + (size_t)1) * sizeof *bytes), live = 0;
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
