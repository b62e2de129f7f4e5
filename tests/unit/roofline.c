/* SPDX-License-Identifier: Apache-2.0 */
/* The roofline model and the model of the L2 cache, on cases computed by hand. */
#include "runtime/dry/roofline.h"

#include "runtime/memory/residency.h"
#include "unit.h"

enum { KIB = 1 << 10, MIB = 1 << 20 };

/* A device with round numbers, so that each tier's time is a simple division. */
static const device_profile device = {
    .cube_cores = 10,
    .vector_cores = 20,
    .core_hz = 1000000000,
    .cube_macs_per_cycle = 4000,   /* 40e12 multiply-adds per second */
    .vector_bytes_per_cycle = 200, /* 4e12 bytes of elements per second */
    .hbm_bytes = 1,
    .hbm_bandwidth_bytes_per_s = 1000000000000,
    .hbm_latency_ns = 600,
    .l2_bandwidth_bytes_per_s = 2000000000000,
    .l2_latency_ns = 300,
    .l1_bandwidth_bytes_per_s = 5000000000000,
    .ub_bandwidth_bytes_per_s = 8000000000000,
    .l0_bandwidth_bytes_per_s = 10000000000000,
    .l0c_bytes = 64 * KIB, /* 128 x 128 floats */
    .host_link_bandwidth_bytes_per_s = 10000000000,
    .host_link_latency_ns = 2000,
};

/* Addition of two vectors of 100 million floats: 1.2 GB, more than L2. */
static void a_long_vector_is_bound_by_memory(void **state) {
  (void)state;
  const roofline_work w = {.memory_bytes = 1200000000, .elements = 100000000, .element_bytes = 4};
  const roofline_time t = roofline_of(&device, &w);
  assert_int_equal(t.tier_ns[STATS_BOUND_HBM], 1200000);
  assert_int_equal(t.tier_ns[STATS_BOUND_L2], 600000);
  assert_int_equal(t.tier_ns[STATS_BOUND_UB], 150000);
  assert_int_equal(t.tier_ns[STATS_BOUND_VECTOR], 100000);
  assert_int_equal(t.tier_ns[STATS_BOUND_CUBE], 0);
  assert_int_equal(t.bound, STATS_BOUND_HBM);
  assert_int_equal(t.ns, 1200600);
  assert_int_equal(roofline_operations(&w), 100000000);
}

/* The same addition when L2 holds all data. */
static void data_held_by_l2_costs_no_memory_time(void **state) {
  (void)state;
  const roofline_work w = {.l2_bytes = 1200000000, .elements = 100000000, .element_bytes = 4};
  const roofline_time t = roofline_of(&device, &w);
  assert_int_equal(t.tier_ns[STATS_BOUND_HBM], 0);
  assert_int_equal(t.bound, STATS_BOUND_L2);
  assert_int_equal(t.ns, 600300);
}

static void operands_on_the_host_use_the_host_link(void **state) {
  (void)state;
  const roofline_work w = {.host_bytes = 1000000, .memory_bytes = 2000000, .elements = 250000, .element_bytes = 4};
  const roofline_time t = roofline_of(&device, &w);
  assert_int_equal(t.tier_ns[STATS_BOUND_HOST_LINK], 100000);
  assert_int_equal(t.tier_ns[STATS_BOUND_HBM], 2000);
  assert_int_equal(t.tier_ns[STATS_BOUND_L2], 1500);
  assert_int_equal(t.bound, STATS_BOUND_HOST_LINK);
  assert_int_equal(t.ns, 102000);
}

static void a_short_vector_is_bound_by_latency(void **state) {
  (void)state;
  const roofline_work w = {.memory_bytes = 3000, .elements = 250, .element_bytes = 4};
  const roofline_time t = roofline_of(&device, &w);
  assert_int_equal(t.bound, STATS_BOUND_LATENCY);
  assert_int_equal(t.ns, 603);
}

/* GEMM of 4000 x 4000 x 4000 half-precision floats: 64e9 multiply-adds, three matrices of 32 MB. */
static void a_large_gemm_is_bound_by_the_cube(void **state) {
  (void)state;
  const roofline_work w = {
      .memory_bytes = 96000000, .multiply_adds = 64000000000, .elements = 16000000, .element_bytes = 2};
  const roofline_time t = roofline_of(&device, &w);
  assert_int_equal(t.tier_ns[STATS_BOUND_HBM], 96000);
  assert_int_equal(t.tier_ns[STATS_BOUND_L2], 48000);
  assert_int_equal(t.tier_ns[STATS_BOUND_L1], 400000);  /* 64e9 * 2 * 2 / 128 bytes at 5e12 */
  assert_int_equal(t.tier_ns[STATS_BOUND_L0], 1600000); /* 64e9 * 2 * 2 / 16 bytes at 10e12 */
  assert_int_equal(t.tier_ns[STATS_BOUND_CUBE], 1600000);
  assert_int_equal(t.tier_ns[STATS_BOUND_UB], 0);
  assert_int_equal(t.bound, STATS_BOUND_CUBE); /* L0 takes equally long */
  assert_int_equal(t.ns, 1600600);
  assert_int_equal(roofline_operations(&w), 128000000000);
}

/* A vector times a 4000 x 4000 matrix: each matrix element is read for two operations. */
static void a_gemv_is_bound_by_memory(void **state) {
  (void)state;
  const roofline_work w = {
      .memory_bytes = 32016000, .multiply_adds = 16000000, .elements = 16000000, .element_bytes = 2};
  const roofline_time t = roofline_of(&device, &w);
  assert_int_equal(t.tier_ns[STATS_BOUND_CUBE], 400);
  assert_int_equal(t.bound, STATS_BOUND_HBM);
  assert_int_equal(t.ns, 32616);
}

/* Relative to half precision, float takes twice and int8 half the time of the cube unit. */
static void element_types_change_the_cubes_rate(void **state) {
  (void)state;
  roofline_work w = {.memory_bytes = 1, .multiply_adds = 40000000000, .element_bytes = 4};
  assert_int_equal(roofline_of(&device, &w).tier_ns[STATS_BOUND_CUBE], 2000000);
  w.element_bytes = 1;
  assert_int_equal(roofline_of(&device, &w).tier_ns[STATS_BOUND_CUBE], 500000);
}

static void a_device_without_hbm_uses_its_ddr(void **state) {
  (void)state;
  device_profile p = device;
  p.hbm_bytes = p.hbm_bandwidth_bytes_per_s = p.hbm_latency_ns = 0;
  p.ddr_bytes = 1;
  p.ddr_bandwidth_bytes_per_s = 200000000000;
  p.ddr_latency_ns = 200;
  const roofline_work w = {.memory_bytes = 2000000, .elements = 1, .element_bytes = 4};
  const roofline_time t = roofline_of(&p, &w);
  assert_int_equal(t.tier_ns[STATS_BOUND_HBM], 0);
  assert_int_equal(t.bound, STATS_BOUND_DDR);
  assert_int_equal(t.ns, 10200);
}

/* For each real profile, more work never takes less time, and nothing divides by zero. */
static void all_profiles_work_with_the_model(void **state) {
  (void)state;
  for (unsigned i = 0; i < profile_count(); ++i) {
    uint64_t before = 0;
    for (uint64_t n = 1; n < UINT64_C(1) << 40; n *= 16) {
      const roofline_work w = {.memory_bytes = 3 * n, .multiply_adds = n * 8, .elements = n, .element_bytes = 2};
      const roofline_time t = roofline_of(profile_at(i), &w);
      assert_true(t.ns >= before && t.ns < UINT64_C(1) << 62);
      before = t.ns;
    }
  }
}

/* ---- L2 ---- */

static void the_most_recently_used_ranges_are_held(void **state) {
  (void)state;
  residency r = {0};
  assert_int_equal(residency_touch(&r, MIB, 0x100000, 512 * KIB), 0);
  assert_int_equal(residency_touch(&r, MIB, 0x100000, 512 * KIB), 512 * KIB);
  assert_int_equal(residency_touch(&r, MIB, 0x900000, 512 * KIB), 0);
  assert_int_equal(residency_touch(&r, MIB, 0x100000, 512 * KIB), 512 * KIB); /* both ranges fit */
  assert_int_equal(residency_touch(&r, MIB, 0xf00000, 4 * KIB), 0);           /* evicts 0x900000, the oldest */
  assert_int_equal(residency_touch(&r, MIB, 0x100000, 512 * KIB), 512 * KIB);
  assert_int_equal(residency_touch(&r, MIB, 0x900000, 512 * KIB), 0);
}

static void overlapping_ranges_are_held_in_part(void **state) {
  (void)state;
  residency r = {0};
  residency_touch(&r, MIB, 1000, 1000);
  assert_int_equal(residency_touch(&r, MIB, 1500, 1000), 500); /* the held range is now 1000 to 2500 */
  assert_int_equal(residency_touch(&r, MIB, 0, 4000), 1500);
  assert_int_equal(residency_touch(&r, MIB, 1200, 10), 10); /* from the middle: the parts on both sides stay */
  assert_int_equal(residency_touch(&r, MIB, 0, 4000), 4000);
  assert_int_equal(r.bytes, 4000);
}

static void a_range_larger_than_the_cache_evicts_everything(void **state) {
  (void)state;
  residency r = {0};
  residency_touch(&r, MIB, 0, 1000);
  assert_int_equal(residency_touch(&r, MIB, 0, 2 * MIB), 1000);
  assert_int_equal(residency_touch(&r, MIB, 0, 1000), 0);
}

/* Compared with a model that stores only which pages were used: nothing is evicted while table and capacity suffice. */
static void random_accesses_agree_with_a_model(void **state) {
  (void)state;
  enum { PAGES = RESIDENCY_RANGES, STEPS = 20000 };
  residency r = {0};
  bool held[PAGES] = {false};
  uint32_t random = 7;
  for (int step = 0; step < STEPS; ++step) {
    random = random * 1664525 + 1013904223;
    const unsigned start = (random >> 8) % PAGES, n = 1 + (random >> 20) % (PAGES - start);
    uint64_t expected = 0;
    for (unsigned i = start; i < start + n; ++i) {
      expected += held[i];
      held[i] = true;
    }
    assert_int_equal(residency_touch(&r, PAGES, start, n), expected);
    if (step % 100 == 99) { /* evict everything */
      residency_touch(&r, PAGES, 1 << 20, PAGES);
      residency_touch(&r, PAGES, 1 << 20, PAGES + 1);
      assert_int_equal(r.bytes, 0);
      for (unsigned i = 0; i < PAGES; ++i) held[i] = false;
    }
  }
}

/* Many scattered ranges: the oldest are evicted, and the counts remain correct. */
static void a_full_table_evicts_the_oldest_range(void **state) {
  (void)state;
  residency r = {0};
  for (uintptr_t i = 0; i < 3 * RESIDENCY_RANGES; ++i) assert_int_equal(residency_touch(&r, MIB, i * 100, 10), 0);
  assert_int_equal(r.n, RESIDENCY_RANGES);
  assert_int_equal(r.bytes, RESIDENCY_RANGES * 10);
  assert_int_equal(residency_touch(&r, MIB, (2 * RESIDENCY_RANGES) * 100, 10), 10);
  assert_int_equal(residency_touch(&r, MIB, (2 * RESIDENCY_RANGES - 1) * 100, 10), 0);
  const uintptr_t last = (3 * RESIDENCY_RANGES - 1) * 100;
  assert_int_equal(residency_touch(&r, MIB, last + 3, 4), 4); /* splits a range while the table is full */
  assert_int_equal(r.n, RESIDENCY_RANGES);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_long_vector_is_bound_by_memory),
      cmocka_unit_test(data_held_by_l2_costs_no_memory_time),
      cmocka_unit_test(operands_on_the_host_use_the_host_link),
      cmocka_unit_test(a_short_vector_is_bound_by_latency),
      cmocka_unit_test(a_large_gemm_is_bound_by_the_cube),
      cmocka_unit_test(a_gemv_is_bound_by_memory),
      cmocka_unit_test(element_types_change_the_cubes_rate),
      cmocka_unit_test(a_device_without_hbm_uses_its_ddr),
      cmocka_unit_test(all_profiles_work_with_the_model),
      cmocka_unit_test(the_most_recently_used_ranges_are_held),
      cmocka_unit_test(overlapping_ranges_are_held_in_part),
      cmocka_unit_test(a_range_larger_than_the_cache_evicts_everything),
      cmocka_unit_test(random_accesses_agree_with_a_model),
      cmocka_unit_test(a_full_table_evicts_the_oldest_range),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
