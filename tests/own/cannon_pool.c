/* SPDX-License-Identifier: Apache-2.0 */
/* Cannon's own pool interface (cannon/pool.h): configuration, statistics, behaviour when memory is short, and messages.
 * The device has 256 MiB. */
#include "cannon/pool.h"

#include "acl/acl_rt_memory_soma.h"
#include "acl_test.h"

enum { KIB = 1 << 10, MIB = 1 << 20, DEVICE = 256 * MIB };

static cannon_pool *pool_with(cannon_pool_config config) {
  cannon_pool *pool = NULL;
  CHECK_OK(cannon_pool_create(&pool, &config));
  assert_non_null(pool);
  return pool;
}

static cannon_pool *pool_new(uint64_t initial_bytes) {
  cannon_pool_config config = cannon_pool_default_config();
  config.initial_bytes = initial_bytes;
  return pool_with(config);
}

static void *block_new(cannon_pool *pool, size_t size, aclrtStream stream) {
  void *p = NULL;
  CHECK_OK(cannon_pool_alloc(pool, size, stream, &p));
  assert_non_null(p);
  return p;
}

static cannon_pool_stats stats_of(cannon_pool *pool) {
  cannon_pool_stats stats;
  CHECK_OK(cannon_pool_get_stats(pool, &stats));
  return stats;
}

static size_t device_free(void) {
  size_t left, total;
  CHECK_OK(aclrtGetMemInfo(ACL_HBM_MEM, &left, &total));
  return left;
}

static void expect_words(const char *words) {
  const char *message = aclGetRecentErrMsg();
  assert_non_null(message);
  if (!strstr(message, words)) print_error("message: %s\nlacks: %s\n", message, words);
  assert_non_null(strstr(message, words));
}

/* ---- configuration ---- */

static void defaults_are_as_documented(void **state) {
  (void)state;
  const cannon_pool_config c = cannon_pool_default_config();
  assert_int_equal(c.device, -1);
  assert_int_equal(c.initial_bytes, 256 * MIB);
  assert_int_equal(c.max_bytes, 0);
  assert_int_equal(c.max_cached_bytes, UINT64_C(2) << 30);
  assert_int_equal(c.growth_bytes, 2 * MIB);
  assert_int_equal(c.alignment, 64);
  assert_true(c.defragment_threshold == 0.3);
}

static void refused(cannon_pool_config config, const char *words) {
  cannon_pool *pool = NULL;
  CHECK_CODE(107000, cannon_pool_create(&pool, &config));
  assert_null(pool);
  expect_words(words);
}

static void values_out_of_range_are_refused_with_a_message(void **state) {
  (void)state;
  const cannon_pool_config good = cannon_pool_default_config();
  cannon_pool_config c = good;
  cannon_pool *pool = NULL;
  c.initial_bytes = DEVICE + 1;
  refused(c, "initial_bytes is 268435457");
  c = good;
  c.initial_bytes = MIB;
  c.max_bytes = MIB - 1;
  refused(c, "max_bytes is 1048575");
  c = good;
  c.growth_bytes = (UINT64_C(1) << 30) + 1;
  refused(c, "growth_bytes is 1073741825");
  static const uint64_t alignments[] = {0, 32, 96, 4 * MIB};
  for (size_t i = 0; i < sizeof alignments / sizeof *alignments; i++) {
    c = good;
    c.alignment = alignments[i];
    refused(c, "alignment is ");
  }
  c = good;
  c.defragment_threshold = 1.5;
  refused(c, "defragment_threshold is 1.5");
  c.defragment_threshold = __builtin_nan("");
  refused(c, "defragment_threshold is ");
  c = good;
  c.device = 1000;
  CHECK_CODE(107001, cannon_pool_create(&pool, &c));
  CHECK_CODE(100000, cannon_pool_create(NULL, &good));
  /* the default takes all of the device, and its reserve comes on top */
  CHECK_CODE(207001, cannon_pool_create(&pool, NULL));
  assert_null(pool);
  assert_int_equal(device_free(), DEVICE);
}

static void the_initial_size_is_allocated_at_creation(void **state) {
  (void)state;
  cannon_pool *pool = pool_new(64 * MIB);
  assert_int_equal(stats_of(pool).held_bytes, 65 * MIB);
  assert_int_equal(stats_of(pool).reserve_bytes, MIB);
  assert_int_equal(device_free(), DEVICE - 65 * MIB);
  void *p = block_new(pool, 16 * MIB, NULL);
  assert_int_equal(stats_of(pool).held_bytes, 65 * MIB);
  CHECK_OK(cannon_pool_free_async(pool, p, NULL));
  CHECK_OK(aclrtSynchronizeStream(NULL));
  assert_int_equal(stats_of(pool).held_bytes, 65 * MIB);
  CHECK_OK(cannon_pool_destroy(pool));
  assert_int_equal(device_free(), DEVICE);
}

static void blocks_have_the_alignment(void **state) {
  (void)state;
  for (uint64_t alignment = 64; alignment <= 2 * MIB; alignment *= 4) {
    cannon_pool_config c = cannon_pool_default_config();
    c.initial_bytes = 0;
    c.alignment = alignment;
    cannon_pool *pool = pool_with(c);
    void *p[12];
    for (size_t i = 0; i < 12; i++) {
      p[i] = block_new(pool, i % 2 ? 1000 : 300 * KIB + i, NULL);
      assert_int_equal((uintptr_t)p[i] % alignment, 0);
    }
    for (size_t i = 0; i < 12; i++) CHECK_OK(cannon_pool_free(pool, p[i]));
    CHECK_OK(cannon_pool_destroy(pool));
  }
}

/* ---- blocks ---- */

static void used_bytes_are_counted(void **state) {
  (void)state;
  cannon_pool *pool = pool_new(0);
  void *p = block_new(pool, MIB, NULL), *q = block_new(pool, MIB, NULL);
  cannon_pool_stats s = stats_of(pool);
  assert_int_equal(s.n_live, 2);
  assert_true(s.live_bytes >= 2 * MIB && s.held_bytes >= s.live_bytes);
  assert_int_equal(s.peak_live_bytes, s.live_bytes);
  CHECK_OK(cannon_pool_free_async(pool, p, NULL));
  p = block_new(pool, MIB, NULL);
  CHECK_OK(cannon_pool_free(pool, q));
  s = stats_of(pool);
  assert_int_equal(s.n_allocs, 3);
  assert_int_equal(s.n_frees, 2);
  assert_int_equal(s.n_live, 1);
  assert_true(s.n_reused >= 1);
  assert_true(s.fragmentation > 0 && s.fragmentation < 1);
  CHECK_OK(cannon_pool_free(pool, p));
  CHECK_OK(cannon_pool_destroy(pool));
}

static void bad_arguments_are_refused_with_a_message(void **state) {
  (void)state;
  cannon_pool *pool = pool_new(0), *other = pool_new(0);
  void *p = NULL, *device = dev_new(64);
  CHECK_CODE(100000, cannon_pool_alloc(NULL, 64, NULL, &p));
  CHECK_CODE(100000, cannon_pool_alloc(pool, 64, NULL, NULL));
  CHECK_CODE(100000, cannon_pool_alloc(pool, 0, NULL, &p));
  CHECK_CODE(207001, cannon_pool_alloc(pool, SIZE_MAX, NULL, &p));
  CHECK_CODE(107000, cannon_pool_alloc(pool, 64, (aclrtStream)&p, &p));
  CHECK_CODE(107000, cannon_pool_alloc((cannon_pool *)&p, 64, NULL, &p));
  expect_words("no pool of cannon_pool_create");
  CHECK_CODE(107000, aclrtMemPoolTrimTo(pool, 0)); /* this call is for pools of another interface */
  CHECK_CODE(107000, cannon_pool_free(pool, device));
  expect_words("a block of aclrtMalloc");
  p = block_new(pool, 1000, NULL);
  CHECK_CODE(107000, cannon_pool_free(other, p));
  expect_words("a block of cannon_pool_alloc, expected one of the pool");
  CHECK_CODE(107000, cannon_pool_free(pool, (char *)p + 512));
  expect_words("inside the block of 1000 bytes");
  CHECK_CODE(107000, cannon_pool_destroy(pool));
  expect_words("1 live blocks");
  CHECK_OK(cannon_pool_free(pool, p));
  CHECK_CODE(107000, cannon_pool_free(pool, p));
  expect_words("freed before");
  CHECK_CODE(107000, aclrtFree(p));
  expect_words("freed before");
  CHECK_FAILS(aclrtMemset(p, 1000, 0, 1000));
  CHECK_OK(cannon_pool_destroy(pool));
  CHECK_CODE(107000, cannon_pool_destroy(pool));
  CHECK_OK(cannon_pool_destroy(other));
  CHECK_OK(aclrtFree(device));
}

static void aclrt_free_accepts_blocks_of_pools(void **state) {
  (void)state;
  cannon_pool *pool = pool_new(0);
  void *p = block_new(pool, MIB, NULL);
  CHECK_OK(aclrtFree(p));
  assert_int_equal(stats_of(pool).n_live, 0);
  CHECK_OK(cannon_pool_destroy(pool));
}

/* A free without a stream takes effect after the earlier tasks of all streams. */
static void a_block_freed_without_a_stream_waits_for_all_streams(void **state) {
  (void)state;
  cannon_pool_config c = cannon_pool_default_config();
  c.initial_bytes = 0;
  c.max_bytes = 4 * MIB;
  cannon_pool *pool = pool_with(c);
  aclrtStream stream = stream_new(), busy = stream_new();
  void *p = block_new(pool, 3 * MIB, stream), *q = NULL;
  gate *held = gate_close(busy);
  CHECK_OK(cannon_pool_free(pool, p));
  CHECK_CODE(207001, cannon_pool_alloc(pool, 3 * MIB, stream, &q));
  gate_open(held);
  CHECK_OK(aclrtSynchronizeStream(busy));
  q = block_new(pool, 3 * MIB, stream);
  CHECK_OK(cannon_pool_free(pool, q));
  CHECK_OK(cannon_pool_destroy(pool));
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtDestroyStream(busy));
}

/* ---- when memory is short ---- */

static void a_refusal_names_the_largest_blocks_and_the_size_that_fits(void **state) {
  (void)state;
  cannon_pool_config c = cannon_pool_default_config();
  c.initial_bytes = 0;
  c.max_bytes = 16 * MIB;
  cannon_pool *pool = pool_with(c);
  void *p = block_new(pool, 5 * MIB, NULL), *q = block_new(pool, 3 * MIB, NULL), *r = NULL;
  CHECK_CODE(207001, cannon_pool_alloc(pool, 12 * MIB, NULL, &r));
  const char *message = aclGetRecentErrMsg();
  assert_non_null(strstr(message, "size is 12582912 bytes"));
  assert_non_null(strstr(message, "largest: 5.00 MiB ("));
  assert_non_null(strstr(message, ", 3.00 MiB ("));
  assert_non_null(strstr(message, "would fit"));
  c.max_bytes = 0;
  cannon_pool *other = pool_with(c);
  CHECK_CODE(207001, cannon_pool_alloc(other, DEVICE, NULL, &r));
  expect_words("more than device 0 has left");
  assert_int_equal(stats_of(pool).n_refused, 1);
  CHECK_OK(cannon_pool_free(pool, p));
  CHECK_OK(cannon_pool_free(pool, q));
  CHECK_OK(cannon_pool_destroy(pool));
  CHECK_OK(cannon_pool_destroy(other));
}

/* Returns the number after the last "at most" in the message of a refused allocation. */
static size_t said_to_fit(aclError code) {
  assert_int_equal(code, 207001);
  const char *message = aclGetRecentErrMsg(), *at = NULL;
  for (const char *next = message; next && (next = strstr(next, "at most ")); next++) at = next;
  assert_non_null(at);
  return strtoull(at + strlen("at most "), NULL, 10);
}

static void the_size_reported_to_fit_is_exact(void **state) {
  (void)state;
  static const aclrtMemMallocPolicy policies[] = {ACL_MEM_MALLOC_HUGE_FIRST, ACL_MEM_MALLOC_HUGE_ONLY};
  cannon_pool_config c = cannon_pool_default_config();
  c.initial_bytes = 0;
  c.max_bytes = 16 * MIB;
  c.alignment = 4 * KIB;
  cannon_pool *pool = pool_with(c);
  void *p = block_new(pool, 5 * MIB, NULL), *q = NULL, *small = dev_new(100);
  size_t fits = said_to_fit(cannon_pool_alloc(pool, 12 * MIB, NULL, &q));
  assert_int_equal(said_to_fit(cannon_pool_alloc(pool, fits + 1, NULL, &q)), fits);
  CHECK_OK(cannon_pool_free(pool, block_new(pool, fits, NULL)));
  for (size_t i = 0; i < 2; i++) {
    fits = said_to_fit(aclrtMalloc(&q, DEVICE - 5 * MIB - 77, policies[i]));
    said_to_fit(aclrtMalloc(&q, fits + 64 + 1, policies[i]));
    CHECK_OK(aclrtMalloc(&q, fits, policies[i]));
    CHECK_OK(aclrtFree(q));
  }
  CHECK_OK(aclrtFree(small));
  CHECK_OK(cannon_pool_free(pool, p));
  CHECK_OK(cannon_pool_destroy(pool));
}

static void idle_memory_serves_other_pools_and_allocations(void **state) {
  (void)state;
  cannon_pool *pool = pool_new(0), *other = pool_new(0);
  void *p = block_new(pool, 200 * MIB, NULL);
  CHECK_OK(cannon_pool_free(pool, p));
  p = block_new(other, 200 * MIB, NULL);
  CHECK_OK(cannon_pool_free(other, p));
  p = dev_new(200 * MIB);
  CHECK_OK(aclrtFree(p));
  CHECK_OK(cannon_pool_destroy(pool));
  CHECK_OK(cannon_pool_destroy(other));
}

static void the_reserve_is_used_last(void **state) {
  (void)state;
  cannon_pool_config c = cannon_pool_default_config();
  c.initial_bytes = c.max_bytes = 128 * MIB;
  cannon_pool *pool = pool_with(c);
  void *p = block_new(pool, 128 * MIB - 64, NULL);
  assert_int_equal(stats_of(pool).reserve_bytes, 2 * MIB);
  void *q = block_new(pool, 100 * KIB, NULL);
  assert_int_equal(stats_of(pool).reserve_bytes, 0);
  CHECK_OK(cannon_pool_free(pool, p));
  CHECK_OK(cannon_pool_free(pool, q));
  CHECK_OK(aclrtSynchronizeStream(NULL));
  assert_int_equal(stats_of(pool).reserve_bytes, 2 * MIB);
  CHECK_OK(cannon_pool_destroy(pool));
}

static void a_wait_is_inserted_instead_of_a_refusal(void **state) {
  (void)state;
  cannon_pool_config c = cannon_pool_default_config();
  c.initial_bytes = 0;
  c.max_bytes = 8 * MIB;
  cannon_pool *pool = pool_with(c);
  aclrtStream first = stream_new(), second = stream_new();
  void *p = block_new(pool, 7 * MIB, first);
  gate *held = gate_close(first);
  CHECK_OK(aclrtMemsetAsync(p, 7 * MIB, 1, 7 * MIB, first));
  CHECK_OK(cannon_pool_free_async(pool, p, first));
  void *q = block_new(pool, 7 * MIB, second);
  assert_int_equal(stats_of(pool).n_waits, 1);
  CHECK_OK(aclrtMemsetAsync(q, 7 * MIB, 2, 7 * MIB, second));
  gate_open(held);
  CHECK_OK(aclrtSynchronizeDevice());
  assert_dev_filled(q, 2, 7 * MIB);
  CHECK_OK(cannon_pool_free_async(pool, q, second));
  CHECK_OK(cannon_pool_destroy(pool));
  CHECK_OK(aclrtDestroyStream(first));
  CHECK_OK(aclrtDestroyStream(second));
}

/* The other thread queries free memory all the time. Such a query returns memory that was unmapped while tasks were
 * pending, at any point of the main thread's allocations. */
static _Atomic bool asking;

static void *ask(void *unused) {
  size_t left, total;
  if (aclrtSetDevice(0) != ACL_SUCCESS) abort();
  while (atomic_load(&asking)) aclrtGetMemInfo(ACL_HBM_MEM, &left, &total);
  return unused;
}

static void memory_returned_by_another_thread_can_be_allocated(void **state) {
  (void)state;
  enum { N = 3000 };
  const aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_HUGE, .location = {.type = ACL_MEM_LOCATION_TYPE_DEVICE}};
  const size_t all_bytes = device_free() - 64;
  aclrtStream stream = stream_new();
  pthread_t thread;
  void *at, *all;
  CHECK_OK(aclrtReserveMemAddress(&at, 2 * MIB, 0, NULL, 0));
  atomic_store(&asking, true);
  assert_int_equal(pthread_create(&thread, NULL, ask, NULL), 0);
  for (int i = 0; i < N; i++) {
    aclrtDrvMemHandle handle;
    CHECK_OK(aclrtMallocPhysical(&handle, 2 * MIB, &prop, 0));
    CHECK_OK(aclrtMapMem(at, 2 * MIB, 0, handle, 0));
    CHECK_OK(aclrtMemsetAsync(at, KIB, 1, KIB, stream));
    CHECK_OK(aclrtUnmapMem(at));
    CHECK_OK(aclrtFreePhysical(handle));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtMalloc(&all, all_bytes, ACL_MEM_MALLOC_NORMAL_ONLY));
    CHECK_OK(aclrtFree(all));
  }
  atomic_store(&asking, false);
  pthread_join(thread, NULL);
  CHECK_OK(aclrtReleaseMemAddress(at));
  CHECK_OK(aclrtDestroyStream(stream));
}

/* ---- defragmentation ---- */

enum { MOST_BLOCKS = 2000 };

static uint64_t draw(uint64_t *seed) {
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return *seed >> 33;
}

/* A random size from 3 KiB to 3 MiB; each power of two is equally likely. */
static size_t any_size(uint64_t *seed) {
  const size_t octave = (size_t)(3 * KIB) << draw(seed) % 10;
  return octave + draw(seed) % octave;
}

static void defragmentation_keeps_live_blocks(void **state) {
  (void)state;
  static void *block[MOST_BLOCKS];
  static size_t size[MOST_BLOCKS];
  uint64_t seed = 1, live = 0;
  size_t n = 0;
  cannon_pool *pool = pool_new(0);
  for (size_t total = 0; total < 160 * MIB && n < MOST_BLOCKS; n++) {
    size[n] = any_size(&seed);
    total += size[n];
    block[n] = block_new(pool, size[n], NULL);
    CHECK_OK(aclrtMemset(block[n], size[n], (int)(n % 251), size[n]));
  }
  for (size_t i = 0; i < n; i++) {
    if (draw(&seed) % 10 < 7) {
      CHECK_OK(cannon_pool_free_async(pool, block[i], NULL));
      block[i] = NULL;
    } else {
      live += (size[i] + 32 + 4095) / 4096 * 4096;
    }
  }
  CHECK_OK(aclrtSynchronizeStream(NULL));
  assert_true(stats_of(pool).fragmentation > 0.5);
  CHECK_OK(cannon_pool_defragment(pool));
  assert_true(stats_of(pool).held_bytes <= live + live / 100);
  assert_true(DEVICE - device_free() <= live + live / 100);
  assert_int_equal(stats_of(pool).n_defragments, 1);
  for (size_t i = 0; i < n; i++) {
    if (!block[i]) continue;
    assert_dev_filled(block[i], (int)(i % 251), size[i]);
    CHECK_OK(cannon_pool_free_async(pool, block[i], NULL));
  }
  CHECK_OK(cannon_pool_destroy(pool));
}

/* A request for one block larger than any free area succeeds while the free memory is scattered. */
static void scattered_free_memory_serves_a_large_block(void **state) {
  (void)state;
  enum { N = 100 };
  void *block[N];
  cannon_pool *pool = pool_new(0);
  for (int i = 0; i < N; i++) {
    block[i] = block_new(pool, 2 * MIB - 64, NULL);
    CHECK_OK(aclrtMemset(block[i], 2 * MIB - 64, i, 2 * MIB - 64));
  }
  for (int i = 0; i < N; i += 2) CHECK_OK(cannon_pool_free_async(pool, block[i], NULL));
  void *large = block_new(pool, 130 * MIB, NULL);
  CHECK_OK(aclrtMemset(large, 130 * MIB, 200, 130 * MIB));
  for (int i = 1; i < N; i += 2) {
    assert_dev_filled(block[i], i, 2 * MIB - 64);
    CHECK_OK(cannon_pool_free_async(pool, block[i], NULL));
  }
  assert_dev_filled(large, 200, 130 * MIB);
  CHECK_OK(cannon_pool_free_async(pool, large, NULL));
  CHECK_OK(cannon_pool_destroy(pool));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(defaults_are_as_documented),
      TEST(values_out_of_range_are_refused_with_a_message),
      TEST(the_initial_size_is_allocated_at_creation),
      TEST(blocks_have_the_alignment),
      TEST(used_bytes_are_counted),
      TEST(bad_arguments_are_refused_with_a_message),
      TEST(aclrt_free_accepts_blocks_of_pools),
      TEST(a_block_freed_without_a_stream_waits_for_all_streams),
      TEST(a_refusal_names_the_largest_blocks_and_the_size_that_fits),
      TEST(the_size_reported_to_fit_is_exact),
      TEST(idle_memory_serves_other_pools_and_allocations),
      TEST(the_reserve_is_used_last),
      TEST(a_wait_is_inserted_instead_of_a_refusal),
      TEST(memory_returned_by_another_thread_can_be_allocated),
      TEST(defragmentation_keeps_live_blocks),
      TEST(scattered_free_memory_serves_a_large_block),
  };
  setenv("CANNON_MEM", "268435456", 1);
  return cmocka_run_group_tests(tests, device_up, device_down);
}
