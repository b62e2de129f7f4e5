/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory and pinned host memory: alignment, policies, invalid frees, exhaustion. */
#include "acl_test.h"

typedef aclError (*allocator)(void **p, size_t size, aclrtMemMallocPolicy policy);

static const struct {
  const char *name;
  allocator alloc;
} allocators[] = {
    {"aclrtMalloc", aclrtMalloc}, {"aclrtMallocAlign32", aclrtMallocAlign32}, {"aclrtMallocCached", aclrtMallocCached}};
enum { N_ALLOCATORS = sizeof allocators / sizeof *allocators };

static size_t free_memory(void) {
  size_t free_bytes = 0, total = 0;
  CHECK_OK(aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total));
  assert_true(free_bytes <= total && total > 0);
  return free_bytes;
}

/* ---- allocation ---- */

static void blocks_are_aligned_and_usable_to_the_last_byte(void **state) {
  (void)state;
  static const size_t sizes[] = {1,    31,   32,      33,          63,          64,      65,     511,
                                 4095, 4096, 1048575, 1024 * 1024, 1048576 + 1, 2097152, 5000001};
  for (int a = 0; a < N_ALLOCATORS; a++) {
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
      void *p = NULL;
      CHECK_OK(allocators[a].alloc(&p, sizes[i], ACL_MEM_MALLOC_HUGE_FIRST));
      if (allocators[a].alloc != aclrtMallocAlign32) assert_int_equal((uintptr_t)p % 64, 0);
      assert_int_equal((uintptr_t)p % 32, 0);
      CHECK_OK(aclrtMemset(p, sizes[i], (int)i + 1, sizes[i]));
      assert_dev_filled(p, (int)i + 1, sizes[i]);
      CHECK_OK(aclrtFree(p));
    }
  }
}

static void policies_are_hints(void **state) {
  (void)state;
  static const int policies[] = {
      ACL_MEM_MALLOC_HUGE_FIRST,     ACL_MEM_MALLOC_HUGE_ONLY,     ACL_MEM_MALLOC_NORMAL_ONLY,
      ACL_MEM_MALLOC_HUGE_FIRST_P2P, ACL_MEM_MALLOC_HUGE_ONLY_P2P, ACL_MEM_MALLOC_NORMAL_ONLY_P2P,
      ACL_MEM_TYPE_LOW_BAND_WIDTH,   ACL_MEM_TYPE_HIGH_BAND_WIDTH, 77 /* outside the enum: no error */};
  for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
    for (size_t size = 100; size <= 3000000; size *= 30000) {
      void *p = NULL;
      CHECK_OK(aclrtMalloc(&p, size, (aclrtMemMallocPolicy)policies[i]));
      CHECK_OK(aclrtMemset(p, size, 0x42, size));
      assert_int_equal(dev_byte(p, size - 1), 0x42);
      CHECK_OK(aclrtFree(p));
    }
  }
}

static void cached_memory_accepts_fewer_policies(void **state) {
  (void)state;
  void *p = NULL;
  CHECK_FAILS(aclrtMallocCached(&p, 100, ACL_MEM_MALLOC_HUGE_FIRST_P2P));
  CHECK_FAILS(aclrtMallocCached(&p, 100, ACL_MEM_MALLOC_NORMAL_ONLY_P2P));
}

static void live_blocks_never_share_a_byte(void **state) {
  (void)state;
  enum { N = 200, STEPS = 3000 };
  static struct {
    void *p;
    size_t size;
    int mark;
  } live[N];
  uint32_t random = 12345;
  for (int step = 0; step < STEPS; step++) {
    random = random * 1664525 + 1013904223;
    int slot = (int)((random >> 8) % N);
    if (live[slot].p) {
      /* both ends still hold their mark, so no other block overlaps */
      assert_int_equal(dev_byte(live[slot].p, 0), live[slot].mark);
      assert_int_equal(dev_byte(live[slot].p, live[slot].size - 1), live[slot].mark);
      CHECK_OK(aclrtFree(live[slot].p));
      live[slot].p = NULL;
    } else {
      live[slot].size = 1 + (random >> 4) % (1u << (4 + step % 16));
      live[slot].mark = step % 256;
      live[slot].p = dev_filled(live[slot].mark, live[slot].size);
    }
  }
  for (int i = 0; i < N; i++) {
    if (!live[i].p) continue;
    assert_dev_filled(live[i].p, live[i].mark, live[i].size);
    CHECK_OK(aclrtFree(live[i].p));
    live[i].p = NULL;
  }
}

static void *malloc_bare(void *out) {
  void *p = NULL;
  *(aclError *)out = aclrtMalloc(&p, 64, ACL_MEM_MALLOC_HUGE_FIRST);
  return NULL;
}

static void allocation_needs_a_context(void **state) {
  (void)state;
  aclError code = 0;
  on_thread(malloc_bare, &code);
  CHECK_CODE(ACL_ERROR_RT_CONTEXT_NULL, code);
}

/* ---- free ---- */

static void only_the_start_of_a_live_block_can_be_freed(void **state) {
  (void)state;
  char *p = dev_filled(1, 1000), *neighbour = dev_filled(2, 1000), on_stack[64];
  void *host = pinned_new(1000);
  CHECK_FAILS(aclrtFree(NULL));
  CHECK_FAILS(aclrtFree(p + 64));
  CHECK_FAILS(aclrtFree(p + 1));
  CHECK_FAILS(aclrtFree(on_stack));
  CHECK_FAILS(aclrtFree(host));
  CHECK_FAILS(aclrtFreeWithDevSync(p + 64));
  assert_dev_filled(p, 1, 1000); /* its contents are unchanged */
  CHECK_OK(aclrtFree(p));
  CHECK_FAILS(aclrtFree(p));
  CHECK_FAILS(aclrtFreeWithDevSync(p));
  assert_dev_filled(neighbour, 2, 1000);
  CHECK_OK(aclrtFree(neighbour));
  CHECK_OK(aclrtFreeHost(host));
}

static void only_the_start_of_a_live_host_block_can_be_freed(void **state) {
  (void)state;
  char *host = pinned_new(1000), on_stack[64];
  void *device = dev_new(1000);
  memset(host, 3, 1000);
  CHECK_FAILS(aclrtFreeHost(NULL));
  CHECK_FAILS(aclrtFreeHost(host + 64));
  CHECK_FAILS(aclrtFreeHost(on_stack));
  CHECK_FAILS(aclrtFreeHost(device));
  CHECK_FAILS(aclrtFreeHostWithDevSync(NULL));
  assert_int_equal(host[999], 3);
  CHECK_OK(aclrtFreeHost(host));
  CHECK_FAILS(aclrtFreeHost(host));
  CHECK_OK(aclrtFree(device));
}

static void free_does_not_wait(void **state) {
  (void)state;
  aclrtStream stream = stream_new();
  void *device = dev_new(1000), *host = pinned_new(1000);
  gate *g = gate_close(stream);
  CHECK_OK(aclrtFree(device)); /* would hang if they waited */
  CHECK_OK(aclrtFreeHost(host));
  gate_open(g);
  CHECK_OK(aclrtDestroyStream(stream));
}

static void free_with_dev_sync_waits(void **state) {
  (void)state;
  static atomic_int done;
  atomic_store(&done, 0);
  aclrtStream stream = stream_new();
  void *device = dev_new(1000), *host = pinned_new(1000);
  CHECK_OK(aclrtLaunchHostFunc(stream, nap_then_count, &done));
  CHECK_OK(aclrtFreeWithDevSync(device));
  assert_int_equal(atomic_load(&done), 1);
  CHECK_OK(aclrtLaunchHostFunc(stream, nap_then_count, &done));
  CHECK_OK(aclrtFreeHostWithDevSync(host));
  assert_int_equal(atomic_load(&done), 2);
  CHECK_OK(aclrtDestroyStream(stream));
}

typedef struct {
  void *device, *host;
  aclError codes[4];
} parcel;

static void *free_elsewhere(void *arg) {
  parcel *x = arg;
  x->codes[0] = aclrtSetDevice(0);
  x->codes[1] = aclrtFree(x->device);
  x->codes[2] = aclrtFreeHost(x->host);
  x->codes[3] = aclrtResetDevice(0);
  return NULL;
}

static void any_thread_may_free(void **state) {
  (void)state;
  parcel x = {.device = dev_new(5000), .host = pinned_new(5000)};
  on_thread(free_elsewhere, &x);
  for (int i = 0; i < 4; i++) CHECK_OK(x.codes[i]);
  CHECK_FAILS(aclrtFree(x.device)); /* it has been freed */
  CHECK_FAILS(aclrtFreeHost(x.host));
}

/* ---- amounts of memory ---- */

static void free_memory_decreases_and_recovers(void **state) {
  (void)state;
  enum { SIZE = 64 << 20 };
  size_t before = free_memory();
  void *p = dev_new(SIZE);
  size_t during = free_memory();
  assert_true(before - during >= SIZE);
  CHECK_OK(aclrtFree(p));
  assert_true(free_memory() >= during + SIZE);
}

static void each_kind_of_memory_has_its_size(void **state) {
  (void)state;
  static const aclrtMemAttr kinds[] = {ACL_HBM_MEM, ACL_HBM_MEM_HUGE, ACL_HBM_MEM_NORMAL};
  size_t free_bytes, total;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    free_bytes = total = 0;
    CHECK_OK(aclrtGetMemInfo(kinds[i], &free_bytes, &total));
    assert_true(total > 0 && free_bytes <= total);
  }
  free_bytes = total = 77;
  CHECK_OK(aclrtGetMemInfo((aclrtMemAttr)999, &free_bytes, &total)); /* unknown attribute: zeros */
  assert_int_equal(free_bytes, 0);
  assert_int_equal(total, 0);
}

static void exhaustion_returns_its_code_and_changes_nothing(void **state) {
  (void)state;
  void *p = NULL, *kept = dev_filled(6, 1000);
  size_t before = free_memory();
  CHECK_CODE(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMalloc(&p, before * 2, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK_CODE(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMalloc(&p, SIZE_MAX / 2, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK_CODE(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMalloc(&p, SIZE_MAX - 8, ACL_MEM_MALLOC_HUGE_FIRST));
  assert_true(free_memory() >= before);
  void *small = dev_filled(7, 1000);
  assert_dev_filled(kept, 6, 1000);
  assert_dev_filled(small, 7, 1000);
  CHECK_OK(aclrtFree(small));
  CHECK_OK(aclrtFree(kept));
}

static void all_memory_can_be_allocated_and_freed(void **state) {
  (void)state;
  enum { N = 64 };
  void *blocks[N];
  size_t size = free_memory() / (N / 2), before = free_memory();
  aclError code = 0;
  int n = 0;
  while (n < N && (code = aclrtMalloc(&blocks[n], size, ACL_MEM_MALLOC_HUGE_FIRST)) == 0) n++;
  CHECK_CODE(ACL_ERROR_RT_MEMORY_ALLOCATION, code);
  assert_true(n >= 2);              /* fewer than expected are possible, since other programs use the host, too */
  CHECK_OK(aclrtFree(blocks[--n])); /* a program's reaction to exhaustion: free a block and try again */
  CHECK_OK(aclrtMalloc(&blocks[n++], size, ACL_MEM_MALLOC_HUGE_FIRST));
  while (n > 0) CHECK_OK(aclrtFree(blocks[--n]));
  assert_true(free_memory() >= before - size);
}

/* ---- host memory ---- */

static void host_memory_serves_the_program_and_copies(void **state) {
  (void)state;
  static const size_t sizes[] = {1, 63, 4096, 100001, 3 << 20};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    uint8_t *host = pinned_new(sizes[i]);
    assert_int_equal((uintptr_t)host % 64, 0);
    memset(host, 0x11, sizes[i]);
    void *dev = dev_from(host, sizes[i]);
    assert_dev_filled(dev, 0x11, sizes[i]);
    CHECK_OK(aclrtMemset(dev, sizes[i], 0x22, sizes[i]));
    from_dev(host, dev, sizes[i]);
    assert_int_equal(host[0], 0x22);
    assert_int_equal(host[sizes[i] - 1], 0x22);
    CHECK_OK(aclrtFree(dev));
    CHECK_OK(aclrtFreeHost(host));
  }
}

/* ---- after the reset: a separate group without the device fixture ---- */

static void memory_can_be_freed_after_reset_without_a_context(void **state) {
  (void)state;
  CHECK_OK(aclrtSetDevice(0));
  void *a = dev_filled(1, 3 << 20), *b = dev_filled(2, 100), *c = pinned_new(100);
  CHECK_OK(aclrtResetDevice(0));
  CHECK_OK(aclrtFree(a));
  CHECK_OK(aclrtFree(b));
  CHECK_OK(aclrtFreeHost(c));
  CHECK_FAILS(aclrtFree(a));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(blocks_are_aligned_and_usable_to_the_last_byte),
      TEST(policies_are_hints),
      TEST(cached_memory_accepts_fewer_policies),
      TEST(live_blocks_never_share_a_byte),
      TEST(allocation_needs_a_context),
      TEST(only_the_start_of_a_live_block_can_be_freed),
      TEST(only_the_start_of_a_live_host_block_can_be_freed),
      TEST(free_does_not_wait),
      TEST(free_with_dev_sync_waits),
      TEST(any_thread_may_free),
      TEST(free_memory_decreases_and_recovers),
      TEST(each_kind_of_memory_has_its_size),
      TEST(exhaustion_returns_its_code_and_changes_nothing),
      TEST(all_memory_can_be_allocated_and_freed),
      TEST(host_memory_serves_the_program_and_copies),
  };
  const struct CMUnitTest after[] = {TEST(memory_can_be_freed_after_reset_without_a_context)};
  return cmocka_run_group_tests_name("memory", tests, device_up, device_down) +
         cmocka_run_group_tests_name("after reset", after, acl_up, acl_down);
}
