/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/health.h"

#include "cli/report/stats_read.h"

static const struct {
  const char *name;
  double good, bad; /* better than `good` is good; worse than `bad` is bad */
  uint64_t least;   /* with fewer events or bytes than this, the figure says nothing */
} limits[HEALTH_KINDS] = {
    [HEALTH_LATENCY] = {"allocation", 10, 50, 100 /* allocations */},
    [HEALTH_FRAGMENTATION] = {"fragmentation", 0.10, 0.30,
                              64 << 20 /* bytes committed; below, granule rounding dominates */},
    [HEALTH_HIT_RATE] = {"hit rate", 0.90, 0.70, 100 /* allocations */},
    [HEALTH_ZERO_COPY] = {"zero copy", 0.80, 0.50, 1 << 20 /* bytes */},
};

const char *health_name(health_kind kind) { return limits[kind].name; }

const char *health_grade_name(health_grade grade) {
  static const char *const names[] = {"unknown", "good", "fair", "bad"};
  return names[grade];
}

health_grade health_judge(health_kind kind, double value) {
  const bool more_is_better = limits[kind].good > limits[kind].bad;
  const double sign = more_is_better ? -1 : 1;
  if (sign * value < sign * limits[kind].good) return HEALTH_GOOD;
  return sign * value > sign * limits[kind].bad ? HEALTH_BAD : HEALTH_FAIR;
}

health_grade health_judge_of(health_kind kind, double value, uint64_t basis) {
  return basis < limits[kind].least ? HEALTH_UNKNOWN : health_judge(kind, value);
}

static double share(uint64_t part, uint64_t whole) { return whole ? (double)part / (double)whole : 0; }

double health_fragmentation(const stats_heap *h, bool running) {
  const uint64_t live = running ? h->live_bytes : h->peak_bytes;
  const uint64_t committed = running ? h->committed_bytes : h->peak_committed_bytes;
  return committed > live ? 1 - share(live, committed) : 0;
}

double health_internal(const stats_heap *h, bool running) {
  const uint64_t given = running ? h->live_bytes : h->allocated_bytes;
  const uint64_t asked = running ? h->requested_bytes : h->asked_bytes;
  return given > asked ? 1 - share(asked, given) : 0;
}

double health_hit_rate(const stats_heap *h) { return share(h->n_hits, h->n_allocs); }

/* Sums over all devices, for health_of. */
typedef struct {
  uint64_t n_allocs, n_hits, alloc_ns, live, committed;
} device_sums;

static device_sums sum_devices(const stats_file *p, bool running) {
  device_sums sum = {0};
  for (int i = 0; i < STATS_MAX_DEVICES; i++) {
    const stats_heap *h = &p->device[i];
    sum.n_allocs += h->n_allocs;
    sum.n_hits += h->n_hits;
    sum.alloc_ns += h->alloc.sum_ns;
    sum.live += running ? h->live_bytes : h->peak_bytes;
    sum.committed += running ? h->committed_bytes : h->peak_committed_bytes;
  }
  return sum;
}

health_verdict health_of(const stats_file *p, health_kind kind, bool running) {
  const device_sums sum = sum_devices(p, running);
  const uint64_t elided = stats_elided_copies(p).bytes,
                 moved = elided + p->copies[STATS_H2D].bytes + p->copies[STATS_D2H].bytes;
  const struct {
    double value;
    uint64_t basis;
  } figures[HEALTH_KINDS] = {
      [HEALTH_LATENCY] = {share(sum.alloc_ns, sum.n_allocs) / 1000, sum.n_allocs},
      [HEALTH_FRAGMENTATION] = {sum.committed > sum.live ? 1 - share(sum.live, sum.committed) : 0, sum.committed},
      [HEALTH_HIT_RATE] = {share(sum.n_hits, sum.n_allocs), sum.n_allocs},
      [HEALTH_ZERO_COPY] = {share(elided, moved), moved},
  };
  return (health_verdict){figures[kind].value, health_judge_of(kind, figures[kind].value, figures[kind].basis)};
}
