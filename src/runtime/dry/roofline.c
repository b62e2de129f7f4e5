/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/dry/roofline.h"

#include <math.h>
#include <stdbool.h>

enum { TILE = 16, ACCUMULATOR_BYTES = 4, HALF_BYTES = 2 };

/* The time of an amount at a rate per second. */
static uint64_t ns_at(double amount, double per_s) { return amount > 0 ? (uint64_t)(amount / per_s * 1e9 + 0.5) : 0; }

/* The cube units compute cube_macs_per_cycle with half-precision factors. Wider elements take longer in proportion to
 * their size, as a step has 32 bytes along k. */
static void add_cube(const device_profile *p, const roofline_work *w, uint64_t *ns) {
  const double macs = (double)w->multiply_adds, element = (double)w->element_bytes;
  const double cubes = (double)p->cube_cores * (double)p->core_hz;
  const double side = sqrt((double)p->l0c_bytes / ACCUMULATOR_BYTES);
  ns[STATS_BOUND_L1] = ns_at(macs * element * 2 / side, (double)p->l1_bandwidth_bytes_per_s);
  ns[STATS_BOUND_L0] = ns_at(macs * element * 2 / TILE, (double)p->l0_bandwidth_bytes_per_s);
  ns[STATS_BOUND_CUBE] = ns_at(macs * element / HALF_BYTES, (double)p->cube_macs_per_cycle * cubes);
}

static void add_vector(const device_profile *p, const roofline_work *w, double bytes, uint64_t *ns) {
  const double vectors = (double)p->vector_cores * (double)p->core_hz;
  ns[STATS_BOUND_UB] = ns_at(bytes, (double)p->ub_bandwidth_bytes_per_s);
  ns[STATS_BOUND_VECTOR] =
      ns_at((double)w->elements * (double)w->element_bytes, (double)p->vector_bytes_per_cycle * vectors);
}

/* The latency of the farthest tier that is used. */
static uint64_t latency_of(const device_profile *p, const roofline_work *w) {
  if (w->host_bytes) return p->host_link_latency_ns;
  if (w->memory_bytes) return p->hbm_bytes ? p->hbm_latency_ns : p->ddr_latency_ns;
  return w->l2_bytes ? p->l2_latency_ns : 0;
}

roofline_time roofline_of(const device_profile *p, const roofline_work *w) {
  roofline_time t = {.bound = STATS_BOUND_LATENCY};
  const bool hbm = p->hbm_bytes;
  const double bytes = (double)w->host_bytes + (double)w->memory_bytes + (double)w->l2_bytes;
  t.tier_ns[STATS_BOUND_LATENCY] = latency_of(p, w);
  t.tier_ns[STATS_BOUND_HOST_LINK] = ns_at((double)w->host_bytes, (double)p->host_link_bandwidth_bytes_per_s);
  t.tier_ns[hbm ? STATS_BOUND_HBM : STATS_BOUND_DDR] =
      ns_at((double)w->memory_bytes, (double)(hbm ? p->hbm_bandwidth_bytes_per_s : p->ddr_bandwidth_bytes_per_s));
  t.tier_ns[STATS_BOUND_L2] = ns_at(bytes, (double)p->l2_bandwidth_bytes_per_s);
  if (w->multiply_adds)
    add_cube(p, w, t.tier_ns);
  else
    add_vector(p, w, bytes, t.tier_ns);
  uint64_t slowest = 0;
  for (int b = 0; b < STATS_N_BOUNDS; ++b) {
    if (b != STATS_BOUND_LATENCY && t.tier_ns[b] > slowest) slowest = t.tier_ns[b];
    /* Of equal ones the last: the cube unit rather than its L0. */
    if (t.tier_ns[b] && t.tier_ns[b] >= t.tier_ns[t.bound]) t.bound = (stats_bound)b;
  }
  t.ns = t.tier_ns[STATS_BOUND_LATENCY] + slowest;
  return t;
}
