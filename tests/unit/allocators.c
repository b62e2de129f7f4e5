/* SPDX-License-Identifier: Apache-2.0 */
/* The allocators of `cannon replay`: cases computed by hand from the rules of each, and properties that all of them
 * guarantee. */
#include "replay/replay_allocator.h"

#include "unit.h"

enum { KIB = 1 << 10, MIB = 1 << 20 };

/* ---- one instance per test ---- */

static const allocator *a;
static void *self;

static void make(const allocator *chosen, uint64_t cap_bytes) {
  a = chosen;
  self = a->create(cap_bytes);
  assert_non_null(self);
}

static int destroy(void **state) {
  (void)state;
  a->destroy(self);
  return 0;
}

static uintptr_t alloc(uint64_t bytes) {
  const uintptr_t handle = a->alloc(self, bytes);
  assert_true(handle);
  return handle;
}
static uint64_t at(uintptr_t handle) { return a->address(self, handle); }
static uint64_t alloc_at(uint64_t bytes) { return at(alloc(bytes)); }
static void release(uintptr_t handle) { a->free(self, handle); }
static bool is_refused(uint64_t bytes) { return !a->alloc(self, bytes); }

static void assert_footprint(uint64_t committed_bytes, uint64_t n_calls) {
  const allocator_footprint f = a->footprint(self);
  assert_int_equal(f.committed_bytes, committed_bytes);
  assert_int_equal(f.n_calls, n_calls);
}

/* ---- first fit and best fit ---- */

/* Makes holes of 2 KiB at offset 0 and 1 KiB at offset 3 KiB. */
static void make_holes(void) {
  const uintptr_t two = alloc(2 * KIB);
  alloc(KIB);
  const uintptr_t one = alloc(KIB);
  alloc(KIB);
  release(two);
  release(one);
}

static void first_fit_takes_the_lowest_hole(void **state) {
  (void)state;
  make(&first_fit_allocator, 64 * MIB);
  make_holes();
  assert_int_equal(alloc_at(KIB), 0);
  assert_int_equal(alloc_at(2 * KIB), 5 * KIB); /* neither hole is large enough any more */
  assert_int_equal(alloc_at(KIB), KIB);
}

static void best_fit_takes_the_smallest_hole(void **state) {
  (void)state;
  make(&best_fit_allocator, 64 * MIB);
  make_holes();
  assert_int_equal(alloc_at(KIB), 3 * KIB);
  assert_int_equal(alloc_at(1), 0);
  assert_int_equal(alloc_at(1537), 5 * KIB); /* only 1,536 bytes are left at offset 512 */
  assert_int_equal(alloc_at(1536), 512);
}

static void a_hole_at_the_end_is_extended(void **state) {
  (void)state;
  make(&best_fit_allocator, 8 * MIB);
  alloc(MIB);
  const uintptr_t last = alloc(2 * MIB);
  release(last);
  assert_int_equal(alloc_at(3 * MIB), MIB);
  assert_footprint(4 * MIB, 2);
  assert_true(is_refused(4 * MIB + 1));
  assert_int_equal(alloc_at(4 * MIB), 4 * MIB);
}

/* ---- buddy ---- */

static void buddies_split_and_merge(void **state) {
  (void)state;
  make(&buddy_allocator, 4 * MIB);
  const uintptr_t x = alloc(512), y = alloc(1);
  assert_int_equal(at(x), 0);
  assert_int_equal(at(y), 512);
  assert_int_equal(alloc_at(513), KIB);
  const uintptr_t z = alloc(1500); /* rounded up to 2 KiB */
  assert_int_equal(at(z), 2 * KIB);
  release(x);
  assert_int_equal(alloc_at(KIB), 4 * KIB); /* the block at 512 is still in use, so no 1 KiB block below is free */
  release(y);
  assert_int_equal(alloc_at(600), 0);
  assert_footprint(2 * MIB, 1);
}

static void a_buddy_cap_is_split_into_powers_of_two(void **state) {
  (void)state;
  make(&buddy_allocator, 3 * MIB);
  const uintptr_t small = alloc(MIB), large = alloc(2 * MIB);
  assert_int_equal(at(small), 2 * MIB);
  assert_int_equal(at(large), 0);
  assert_true(is_refused(1));
  release(small);
  release(large);
  assert_true(is_refused(2 * MIB + 1)); /* the two parts are not buddies and never merge */
}

/* ---- binning ---- */

static void bins_keep_their_freed_blocks(void **state) {
  (void)state;
  make(&binning_allocator, 64 * MIB);
  const uintptr_t x = alloc(513);
  assert_int_equal(at(x), 0);
  assert_int_equal(alloc_at(1024), KIB);
  assert_int_equal(alloc_at(512), 2 * MIB); /* another bin with its own slab */
  assert_footprint(4 * MIB, 2);
  release(x);
  assert_int_equal(alloc_at(512), 2 * MIB + 512);
  assert_int_equal(alloc_at(700), 0);
  assert_int_equal(alloc_at(3 * MIB), 4 * MIB); /* a slab holding one block of 4 MiB */
  assert_int_equal(alloc_at(4 * MIB + 1), 8 * MIB);
  assert_int_equal(alloc_at(4 * MIB + 1), 12 * MIB + 512);
  assert_footprint(18 * MIB, 5);
}

/* ---- PyTorch ---- */

static void small_requests_share_segments_of_2_mib(void **state) {
  (void)state;
  make(&pytorch_allocator, 1024 * (uint64_t)MIB);
  assert_int_equal(alloc_at(1), 0);
  assert_int_equal(alloc_at(513), 512);
  assert_int_equal(alloc_at(512), 512 + KIB);
  assert_footprint(2 * MIB, 1);
  assert_int_equal(alloc_at(MIB), 2 * KIB); /* the largest small request */
  assert_int_equal(alloc_at(MIB), 2 * MIB); /* 1 MiB - 2 KiB is left in the first segment */
  assert_footprint(4 * MIB, 2);
}

static void requests_below_10_mib_share_segments_of_20(void **state) {
  (void)state;
  make(&pytorch_allocator, 1024 * (uint64_t)MIB);
  assert_int_equal(alloc_at(MIB + 1), 0);
  assert_footprint(20 * MIB, 1);
  assert_int_equal(alloc_at(9 * MIB), MIB + 512);
  assert_int_equal(alloc_at(9 * MIB), 10 * MIB + 512); /* the remaining 1 MiB - 512 is not split off */
  assert_int_equal(alloc_at(MIB + 512), 20 * MIB);
  assert_footprint(40 * MIB, 2);
}

static void larger_requests_get_their_own_rounded_to_2_mib(void **state) {
  (void)state;
  make(&pytorch_allocator, 1024 * (uint64_t)MIB);
  alloc(10 * MIB);
  assert_footprint(10 * MIB, 1);
  alloc(10 * MIB + 1); /* a segment of 12 MiB, of which 2 MiB - 512 are split off */
  assert_footprint(22 * MIB, 2);
  assert_int_equal(alloc_at(MIB + 512), 20 * MIB + 512);
  assert_footprint(22 * MIB, 2);
  alloc(11 * MIB); /* a segment of 12 MiB; the remaining 1 MiB is not split off, since that takes more than 1 MiB */
  assert_footprint(34 * MIB, 3);
  assert_int_equal(alloc_at(MIB + 512), 34 * MIB);
}

static void the_best_fitting_cached_block_is_taken(void **state) {
  (void)state;
  make(&pytorch_allocator, 1024 * (uint64_t)MIB);
  const uintptr_t large = alloc(30 * MIB), middle = alloc(14 * MIB), small = alloc(12 * MIB);
  release(large);
  release(middle);
  release(small);
  assert_int_equal(alloc_at(13 * MIB), 30 * MIB);
  assert_int_equal(alloc_at(13 * MIB), 0);
  assert_int_equal(alloc_at(16 * MIB), 13 * MIB);
  assert_footprint(56 * MIB, 3);
}

static void adjacent_free_blocks_of_a_segment_merge(void **state) {
  (void)state;
  make(&pytorch_allocator, 1024 * (uint64_t)MIB);
  const uintptr_t x = alloc(5 * MIB), y = alloc(5 * MIB), z = alloc(9 * MIB);
  release(x);
  release(z);
  release(y);
  assert_int_equal(alloc_at(20 * MIB), 0);
  assert_footprint(20 * MIB, 1);
}

static void whole_segments_are_released_before_a_refusal(void **state) {
  (void)state;
  make(&pytorch_allocator, 42 * MIB);
  const uintptr_t small = alloc(1), middle = alloc(5 * MIB), large = alloc(20 * MIB);
  assert_footprint(42 * MIB, 3);
  assert_true(is_refused(16 * MIB)); /* 15 MiB of the segment of 20 are free, but not the whole segment */
  assert_footprint(42 * MIB, 3);
  release(small);
  release(large);
  assert_int_equal(alloc_at(22 * MIB), 42 * MIB);
  assert_footprint(42 * MIB, 6);
  assert_int_equal(alloc_at(15 * MIB), 22 * MIB - 15 * MIB);
  release(middle);
  assert_true(is_refused(1));
}

static void torch_npu_adds_32_bytes(void **state) {
  (void)state;
  make(&torch_npu_allocator, 1024 * (uint64_t)MIB);
  assert_int_equal(alloc_at(480), 0);
  assert_int_equal(alloc_at(481), 512);
  assert_int_equal(alloc_at(1), 512 + KIB);
  assert_int_equal(alloc_at(MIB - 32), 2 * KIB);
  assert_footprint(2 * MIB, 1);
  alloc(MIB); /* above 1 MiB with the added 32 bytes */
  assert_footprint(22 * MIB, 2);
  alloc(12 * MIB);
  assert_footprint(22 * MIB, 2);
  alloc(12 * MIB); /* a segment of 14 MiB */
  assert_footprint(36 * MIB, 3);
}

/* ---- the library's own heap ---- */

static void the_pool_obeys_its_cap(void **state) {
  (void)state;
  make(&pool_allocator, 16 * MIB);
  const uintptr_t most = alloc(16 * MIB - 32); /* the rule of aclrtMalloc adds 32 */
  assert_true(is_refused(1));
  assert_int_equal(a->footprint(self).committed_bytes, 16 * MIB);
  release(most);
  alloc(16 * MIB - 32);
}

/* ---- all allocators ---- */

enum { N_LIVE = 300 };
typedef struct {
  uintptr_t handle;
  uint64_t address, bytes;
} live_block;

static uint64_t random_bytes(random_source *r) { return 1 + random_next(r) % ((uint64_t)1 << random_below(r, 24)); }

static void assert_apart(const live_block *live, const live_block *added) {
  for (const live_block *b = live; b < live + N_LIVE; ++b)
    assert_true(b == added || !b->handle || b->address + b->bytes <= added->address ||
                added->address + added->bytes <= b->address);
}

/* Random blocks never overlap, the committed memory contains them and stays within the cap, and all of it can be reused
 * afterwards. */
static void blocks_do_not_overlap_and_are_committed(const allocator *chosen) {
  const uint64_t cap_bytes = 512 * MIB;
  random_source r = {7};
  live_block live[N_LIVE] = {0};
  uint64_t live_bytes = 0;
  make(chosen, cap_bytes);
  for (int i = 0; i < ROUNDS(20000); ++i) {
    live_block *b = &live[random_below(&r, N_LIVE)];
    if (b->handle) {
      assert_int_equal(at(b->handle), b->address);
      release(b->handle);
      live_bytes -= b->bytes;
      b->handle = 0;
      continue;
    }
    b->bytes = random_bytes(&r);
    b->handle = a->alloc(self, b->bytes);
    if (!b->handle) continue;
    b->address = at(b->handle);
    live_bytes += b->bytes;
    const uint64_t committed_bytes = a->footprint(self).committed_bytes;
    assert_true(committed_bytes >= live_bytes && committed_bytes <= cap_bytes);
    assert_apart(live, b);
  }
  for (live_block *b = live; b < live + N_LIVE; ++b)
    if (b->handle) release(b->handle);
  if (chosen != &binning_allocator) release(alloc(cap_bytes / 2)); /* bins keep their memory */
  destroy(NULL);
}

static void no_allocator_returns_overlapping_blocks(void **state) {
  (void)state;
  for (const allocator *const *each = allocators; *each; ++each) blocks_do_not_overlap_and_are_committed(*each);
}

static void allocators_are_found_by_name(void **state) {
  (void)state;
  for (const allocator *const *each = allocators; *each; ++each) assert_ptr_equal(allocator_find((*each)->name), *each);
  assert_null(allocator_find("poo"));
  assert_null(allocator_find(""));
}

#define CASE(function) cmocka_unit_test_teardown(function, destroy)

int main(void) {
  const struct CMUnitTest tests[] = {
      CASE(first_fit_takes_the_lowest_hole),
      CASE(best_fit_takes_the_smallest_hole),
      CASE(a_hole_at_the_end_is_extended),
      CASE(buddies_split_and_merge),
      CASE(a_buddy_cap_is_split_into_powers_of_two),
      CASE(bins_keep_their_freed_blocks),
      CASE(small_requests_share_segments_of_2_mib),
      CASE(requests_below_10_mib_share_segments_of_20),
      CASE(larger_requests_get_their_own_rounded_to_2_mib),
      CASE(the_best_fitting_cached_block_is_taken),
      CASE(adjacent_free_blocks_of_a_segment_merge),
      CASE(whole_segments_are_released_before_a_refusal),
      CASE(torch_npu_adds_32_bytes),
      CASE(the_pool_obeys_its_cap),
      cmocka_unit_test(no_allocator_returns_overlapping_blocks),
      cmocka_unit_test(allocators_are_found_by_name),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
