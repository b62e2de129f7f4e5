/* SPDX-License-Identifier: Apache-2.0 */
/* Stream-ordered memory pools, and allocators registered for streams: return codes, attributes, and the streams that
 * may reuse a freed block. */
#include "acl/acl_rt_memory_soma.h"

#include "acl/acl_rt_allocator.h"
#include "acl_test.h"

enum { MIB = 1 << 20, BLOCK = 4 * MIB, POOL = 64 * MIB };

static aclrtMemPoolProps props(size_t max_size) {
  return (aclrtMemPoolProps){.allocType = ACL_MEM_ALLOCATION_TYPE_PINNED,
                             .handleType = ACL_MEM_HANDLE_TYPE_NONE,
                             .location = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE},
                             .maxSize = max_size};
}

/* Creates a pool that keeps all its free memory. */
static aclrtMemPool pool_new(size_t max_size) {
  const aclrtMemPoolProps p = props(max_size);
  uint64_t threshold = UINT64_MAX;
  aclrtMemPool pool = NULL;
  CHECK_OK(aclrtMemPoolCreate(&pool, &p));
  assert_non_null(pool);
  CHECK_OK(aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, &threshold));
  return pool;
}

static void *block_new(aclrtMemPool pool, size_t size, aclrtStream stream) {
  void *p = NULL;
  CHECK_OK(aclrtMemPoolMallocAsync(&p, size, pool, stream));
  assert_non_null(p);
  assert_int_equal((uintptr_t)p % 64, 0);
  return p;
}

static uint64_t bytes_of(aclrtMemPool pool, aclrtMemPoolAttr attr) {
  uint64_t value = UINT64_MAX;
  CHECK_OK(aclrtMemPoolGetAttr(pool, attr, &value));
  return value;
}

static uint32_t switch_of(aclrtMemPool pool, aclrtMemPoolAttr attr) {
  uint32_t value = UINT32_MAX;
  CHECK_OK(aclrtMemPoolGetAttr(pool, attr, &value));
  return value;
}

static void set_switch(aclrtMemPool pool, aclrtMemPoolAttr attr, uint32_t on) {
  CHECK_OK(aclrtMemPoolSetAttr(pool, attr, &on));
}

/* Leaves only two ways of reuse: in the same stream, and after the host has waited for the free. */
static void set_strict(aclrtMemPool pool) {
  set_switch(pool, ACL_RT_MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES, 0);
  set_switch(pool, ACL_RT_MEM_POOL_REUSE_ALLOW_OPPORTUNISTIC, 0);
  set_switch(pool, ACL_RT_MEM_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 0);
}

/* ---- pools ---- */

static void pools_are_made_of_pinned_device_memory(void **state) {
  (void)state;
  aclrtMemPool pool = NULL;
  aclrtMemPoolProps p = props(POOL);
  CHECK_FAILS(aclrtMemPoolCreate(NULL, &p));
  CHECK_FAILS(aclrtMemPoolCreate(&pool, NULL));
  p.allocType = (aclrtMemAllocationType)7;
  CHECK_FAILS(aclrtMemPoolCreate(&pool, &p));
  p = props(POOL);
  p.location.type = ACL_MEM_LOCATION_TYPE_HOST;
  CHECK_FAILS(aclrtMemPoolCreate(&pool, &p));
  p = props(POOL);
  p.location.id = 1000;
  CHECK_FAILS(aclrtMemPoolCreate(&pool, &p));
  p = props(POOL);
  p.reserved[31] = 1;
  CHECK_FAILS(aclrtMemPoolCreate(&pool, &p));
  p = props(SIZE_MAX);
  CHECK_FAILS(aclrtMemPoolCreate(&pool, &p));
  assert_null(pool);
  p = props(0);
  CHECK_OK(aclrtMemPoolCreate(&pool, &p));
  CHECK_OK(aclrtMemPoolDestroy(pool));
  CHECK_FAILS(aclrtMemPoolDestroy(pool));
  CHECK_FAILS(aclrtMemPoolDestroy(NULL));
}

static void a_block_is_used_in_stream_order(void **state) {
  (void)state;
  aclrtMemPool pool = pool_new(POOL);
  aclrtStream stream = stream_new();
  uint8_t *host = pinned_new(BLOCK);
  for (int i = 0; i < 20; i++) {
    void *p = block_new(pool, BLOCK, stream);
    CHECK_OK(aclrtMemsetAsync(p, BLOCK, 16 + i, BLOCK, stream));
    CHECK_OK(aclrtMemcpyAsync(host, BLOCK, p, BLOCK, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    CHECK_OK(aclrtMemPoolFreeAsync(p, stream));
    if (i % 2) {
      CHECK_OK(aclrtSynchronizeStream(stream));
      assert_int_equal(host[0], 16 + i);
      assert_int_equal(host[BLOCK - 1], 16 + i);
    }
  }
  assert_true(bytes_of(pool, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH) < 2 * BLOCK);
  CHECK_OK(aclrtFreeHost(host));
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtMemPoolDestroy(pool));
}

static void bad_arguments_of_blocks_are_errors(void **state) {
  (void)state;
  int on_stack = 0;
  void *p = NULL, *device = dev_new(1024);
  aclrtMemPool pool = pool_new(POOL);
  CHECK_FAILS(aclrtMemPoolMallocAsync(NULL, 64, pool, NULL));
  CHECK_FAILS(aclrtMemPoolMallocAsync(&p, 0, pool, NULL));
  CHECK_FAILS(aclrtMemPoolMallocAsync(&p, 64, NULL, NULL));
  CHECK_FAILS(aclrtMemPoolMallocAsync(&p, 64, &on_stack, NULL));
  CHECK_FAILS(aclrtMemPoolMallocAsync(&p, SIZE_MAX, pool, NULL));
  CHECK_CODE(207001, aclrtMemPoolMallocAsync(&p, POOL + MIB, pool, NULL));
  assert_null(p);
  CHECK_FAILS(aclrtMemPoolFreeAsync(NULL, NULL));
  CHECK_FAILS(aclrtMemPoolFreeAsync(&on_stack, NULL));
  CHECK_FAILS(aclrtMemPoolFreeAsync(device, NULL));
  CHECK_OK(aclrtFree(device));
  p = block_new(pool, 1000, NULL);
  CHECK_FAILS(aclrtMemPoolFreeAsync((char *)p + 64, NULL));
  CHECK_OK(aclrtMemPoolFreeAsync(p, NULL));
  CHECK_FAILS(aclrtMemPoolFreeAsync(p, NULL));
  CHECK_OK(aclrtMemPoolDestroy(pool));
  CHECK_FAILS(aclrtMemPoolMallocAsync(&p, 64, pool, NULL));
}

static void a_full_pool_refuses_and_remains_usable(void **state) {
  (void)state;
  aclrtMemPool pool = pool_new(POOL);
  void *p[POOL / BLOCK], *q = NULL;
  size_t n = 0;
  while (n < POOL / BLOCK && aclrtMemPoolMallocAsync(&p[n], BLOCK - 64, pool, NULL) == ACL_SUCCESS) n++;
  assert_true(n >= POOL / BLOCK / 2);
  CHECK_CODE(207001, aclrtMemPoolMallocAsync(&q, BLOCK, pool, NULL));
  CHECK_OK(aclrtMemPoolFreeAsync(p[0], NULL));
  p[0] = block_new(pool, BLOCK - 64, NULL);
  for (size_t i = 0; i < n; i++) CHECK_OK(aclrtMemPoolFreeAsync(p[i], NULL));
  CHECK_OK(aclrtMemPoolDestroy(pool));
}

static void a_destroyed_pool_lives_until_its_last_block_is_freed(void **state) {
  (void)state;
  aclrtMemPool pool = pool_new(POOL);
  void *p = block_new(pool, BLOCK, NULL);
  CHECK_OK(aclrtMemPoolDestroy(pool));
  CHECK_OK(aclrtMemset(p, BLOCK, 7, BLOCK));
  assert_dev_filled(p, 7, BLOCK);
  CHECK_OK(aclrtMemPoolFreeAsync(p, NULL));
  CHECK_FAILS(aclrtMemPoolFreeAsync(p, NULL));
}

/* ---- attributes ---- */

static void switches_are_0_or_1(void **state) {
  (void)state;
  aclrtMemPool pool = pool_new(POOL);
  uint32_t bad = 17;
  for (int attr = 1; attr <= 3; attr++) {
    set_switch(pool, (aclrtMemPoolAttr)attr, 0);
    assert_int_equal(switch_of(pool, (aclrtMemPoolAttr)attr), 0);
    set_switch(pool, (aclrtMemPoolAttr)attr, 1);
    assert_int_equal(switch_of(pool, (aclrtMemPoolAttr)attr), 1);
    CHECK_FAILS(aclrtMemPoolSetAttr(pool, (aclrtMemPoolAttr)attr, &bad));
    assert_int_equal(switch_of(pool, (aclrtMemPoolAttr)attr), 1);
    CHECK_FAILS(aclrtMemPoolSetAttr(pool, (aclrtMemPoolAttr)attr, NULL));
  }
  CHECK_FAILS(aclrtMemPoolSetAttr(pool, (aclrtMemPoolAttr)0, &bad));
  CHECK_FAILS(aclrtMemPoolGetAttr(pool, (aclrtMemPoolAttr)9, &bad));
  CHECK_FAILS(aclrtMemPoolGetAttr(NULL, ACL_RT_MEM_POOL_REUSE_ALLOW_OPPORTUNISTIC, &bad));
  CHECK_OK(aclrtMemPoolDestroy(pool));
}

static void used_bytes_and_their_peak_are_counted(void **state) {
  (void)state;
  aclrtMemPool pool = pool_new(POOL);
  uint64_t zero = 0, one = 1;
  assert_int_equal(bytes_of(pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT), 0);
  assert_int_equal(bytes_of(pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH), 0);
  void *p = block_new(pool, BLOCK, NULL), *q = block_new(pool, BLOCK, NULL);
  const uint64_t used = bytes_of(pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT);
  assert_true(used >= 2 * BLOCK);
  assert_true(bytes_of(pool, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT) >= used);
  CHECK_OK(aclrtMemPoolFreeAsync(q, NULL));
  CHECK_OK(aclrtSynchronizeStream(NULL));
  assert_true(bytes_of(pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT) < used);
  assert_int_equal(bytes_of(pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH), used);
  CHECK_FAILS(aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH, &one));
  CHECK_FAILS(aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH, &one));
  CHECK_FAILS(aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT, &zero));
  CHECK_FAILS(aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT, &zero));
  CHECK_OK(aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH, &zero));
  assert_true(bytes_of(pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH) < used);
  CHECK_OK(aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH, &zero));
  CHECK_OK(aclrtMemPoolFreeAsync(p, NULL));
  CHECK_OK(aclrtMemPoolDestroy(pool));
}

static void synchronisation_releases_memory_above_the_threshold(void **state) {
  (void)state;
  aclrtMemPool pool = NULL;
  const aclrtMemPoolProps p = props(POOL);
  CHECK_OK(aclrtMemPoolCreate(&pool, &p));
  assert_int_equal(bytes_of(pool, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD), 0);
  for (uint64_t threshold = 0; threshold < POOL; threshold += POOL / 2) {
    CHECK_OK(aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, &threshold));
    void *block = block_new(pool, 3 * POOL / 4, NULL);
    CHECK_OK(aclrtMemPoolFreeAsync(block, NULL));
    assert_true(bytes_of(pool, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT) >= 3 * POOL / 4);
    CHECK_OK(aclrtSynchronizeStream(NULL));
    assert_true(bytes_of(pool, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT) <= threshold);
  }
  CHECK_OK(aclrtMemPoolDestroy(pool));
}

static void trimming_keeps_the_requested_bytes(void **state) {
  (void)state;
  aclrtMemPool pool = pool_new(POOL);
  void *live = block_new(pool, BLOCK, NULL), *p = block_new(pool, POOL / 2, NULL);
  CHECK_OK(aclrtMemPoolFreeAsync(p, NULL));
  CHECK_OK(aclrtSynchronizeStream(NULL));
  CHECK_OK(aclrtMemPoolTrimTo(pool, POOL / 4));
  assert_true(bytes_of(pool, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT) <= POOL / 4);
  assert_true(bytes_of(pool, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT) >= BLOCK);
  CHECK_OK(aclrtMemPoolTrimTo(pool, 0));
  assert_true(bytes_of(pool, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT) >= BLOCK);
  CHECK_OK(aclrtMemset(live, BLOCK, 3, BLOCK));
  assert_dev_filled(live, 3, BLOCK);
  CHECK_FAILS(aclrtMemPoolTrimTo(NULL, 0));
  CHECK_OK(aclrtMemPoolFreeAsync(live, NULL));
  CHECK_OK(aclrtMemPoolDestroy(pool));
}

/* ---- reuse by other streams ---- */

/* A pool with room for one block, which is freed in a stream that a gate holds. */
typedef struct {
  aclrtMemPool pool;
  aclrtStream first, second;
  aclrtEvent event;
  gate *held;
  void *block;
} passing;

static void passing_up(passing *t) {
  t->pool = pool_new(BLOCK + 2 * MIB);
  set_strict(t->pool);
  t->first = stream_new();
  t->second = stream_new();
  CHECK_OK(aclrtCreateEventExWithFlag(&t->event, ACL_EVENT_SYNC));
  t->block = block_new(t->pool, BLOCK, t->first);
  t->held = gate_close(t->first);
  CHECK_OK(aclrtMemPoolFreeAsync(t->block, t->first));
}

static void passing_down(passing *t) {
  gate_open(t->held);
  CHECK_OK(aclrtSynchronizeDevice());
  CHECK_OK(aclrtDestroyEvent(t->event));
  CHECK_OK(aclrtMemPoolDestroy(t->pool));
  CHECK_OK(aclrtDestroyStream(t->first));
  CHECK_OK(aclrtDestroyStream(t->second));
}

static bool second_gets_a_block(passing *t) {
  void *p = NULL;
  if (aclrtMemPoolMallocAsync(&p, BLOCK, t->pool, t->second) != ACL_SUCCESS) return false;
  CHECK_OK(aclrtMemPoolFreeAsync(p, t->second));
  return true;
}

static void another_stream_gets_a_block_only_after_its_free(void **state) {
  (void)state;
  passing t;
  passing_up(&t);
  assert_false(second_gets_a_block(&t));
  void *again = block_new(t.pool, BLOCK, t.first);
  CHECK_OK(aclrtMemPoolFreeAsync(again, t.first));
  assert_false(second_gets_a_block(&t));
  gate_open(t.held);
  CHECK_OK(aclrtSynchronizeStream(t.first));
  assert_true(second_gets_a_block(&t));
  passing_down(&t);
}

static void an_event_after_the_free_allows_reuse(void **state) {
  (void)state;
  passing t;
  passing_up(&t);
  CHECK_OK(aclrtRecordEvent(t.event, t.first));
  set_switch(t.pool, ACL_RT_MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES, 1);
  assert_false(second_gets_a_block(&t));
  CHECK_OK(aclrtStreamWaitEvent(t.second, t.event));
  assert_true(second_gets_a_block(&t));
  passing_down(&t);
}

static void an_event_before_the_free_allows_no_reuse(void **state) {
  (void)state;
  passing t;
  passing_up(&t);
  void *block = block_new(t.pool, BLOCK, t.first);
  set_switch(t.pool, ACL_RT_MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES, 1);
  CHECK_OK(aclrtRecordEvent(t.event, t.first));
  CHECK_OK(aclrtMemsetAsync(block, BLOCK, 1, BLOCK, t.first));
  CHECK_OK(aclrtMemPoolFreeAsync(block, t.first));
  CHECK_OK(aclrtStreamWaitEvent(t.second, t.event));
  assert_false(second_gets_a_block(&t));
  passing_down(&t);
}

static void completed_frees_are_reused_if_allowed(void **state) {
  (void)state;
  passing t;
  passing_up(&t);
  atomic_int done = 0;
  set_switch(t.pool, ACL_RT_MEM_POOL_REUSE_ALLOW_OPPORTUNISTIC, 1);
  assert_false(second_gets_a_block(&t));
  gate_open(t.held);
  CHECK_OK(aclrtLaunchHostFunc(t.first, count_one, &done));
  while (!atomic_load(&done)) nap_ms(1);
  while (!second_gets_a_block(&t)) nap_ms(1);
  passing_down(&t);
}

static void a_wait_is_inserted_if_allowed(void **state) {
  (void)state;
  passing t;
  passing_up(&t);
  void *p = NULL;
  set_switch(t.pool, ACL_RT_MEM_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 1);
  CHECK_OK(aclrtMemPoolMallocAsync(&p, BLOCK, t.pool, t.second));
  CHECK_OK(aclrtMemsetAsync(p, BLOCK, 5, BLOCK, t.second));
  assert_int_equal(stream_status(t.second), ACL_STREAM_STATUS_NOT_READY);
  gate_open(t.held);
  CHECK_OK(aclrtSynchronizeStream(t.second));
  assert_dev_filled(p, 5, BLOCK);
  CHECK_OK(aclrtMemPoolFreeAsync(p, t.second));
  passing_down(&t);
}

static void blocks_of_a_destroyed_stream_are_reused(void **state) {
  (void)state;
  aclrtMemPool pool = pool_new(BLOCK + 2 * MIB);
  set_strict(pool);
  aclrtStream stream = stream_new();
  void *p = block_new(pool, BLOCK, stream);
  CHECK_OK(aclrtMemsetAsync(p, BLOCK, 1, BLOCK, stream));
  CHECK_OK(aclrtMemPoolFreeAsync(p, stream));
  CHECK_OK(aclrtSynchronizeStream(stream));
  CHECK_OK(aclrtDestroyStream(stream));
  p = block_new(pool, BLOCK, NULL);
  CHECK_OK(aclrtMemPoolFreeAsync(p, NULL));
  CHECK_OK(aclrtMemPoolDestroy(pool));
}

static void the_best_fit_is_reused(void **state) {
  (void)state;
  aclrtMemPool pool = pool_new(POOL);
  void *p[5];
  for (int i = 0; i < 5; i++)
    p[i] = block_new(pool, (size_t)(i == 2 ? 3 : i == 3 ? 8 : i == 4 ? 1 : 6 - i) * 2 * MIB, NULL);
  CHECK_OK(aclrtMemPoolFreeAsync(p[0], NULL)); /* free areas of 12, 6 and 16 MiB, between live blocks or at an end */
  CHECK_OK(aclrtMemPoolFreeAsync(p[2], NULL));
  void *again = block_new(pool, 6 * MIB, NULL);
  assert_ptr_equal(again, p[2]);
  CHECK_OK(aclrtMemPoolFreeAsync(again, NULL));
  CHECK_OK(aclrtMemPoolFreeAsync(p[1], NULL));
  CHECK_OK(aclrtMemPoolFreeAsync(p[3], NULL));
  CHECK_OK(aclrtMemPoolFreeAsync(p[4], NULL));
  CHECK_OK(aclrtMemPoolDestroy(pool));
}

/* ---- allocators ---- */

static void *alloc_of(aclrtAllocator allocator, size_t size) { return (char *)allocator + size; }
static void free_of(aclrtAllocator allocator, aclrtAllocatorBlock block) { *(void **)allocator = block; }
static void *advise_of(aclrtAllocator allocator, size_t size, aclrtAllocatorAddr addr) {
  (void)allocator;
  (void)size;
  return addr;
}
static void *address_of(aclrtAllocatorBlock block) { return block; }
static void *other_address_of(aclrtAllocatorBlock block) { return block; }

typedef struct {
  aclrtAllocatorDesc desc;
  aclrtAllocator object;
  aclrtAllocatorAllocFunc alloc;
  aclrtAllocatorFreeFunc free;
  aclrtAllocatorAllocAdviseFunc advise;
  aclrtAllocatorGetAddrFromBlockFunc address;
} found;

static aclError look_up(aclrtStream stream, found *f) {
  return aclrtAllocatorGetByStream(stream, &f->desc, &f->object, &f->alloc, &f->free, &f->advise, &f->address);
}

static aclrtAllocatorDesc desc_new(void *object, aclrtAllocatorGetAddrFromBlockFunc address) {
  aclrtAllocatorDesc desc = aclrtAllocatorCreateDesc();
  assert_non_null(desc);
  CHECK_OK(aclrtAllocatorSetObjToDesc(desc, object));
  CHECK_OK(aclrtAllocatorSetAllocFuncToDesc(desc, alloc_of));
  CHECK_OK(aclrtAllocatorSetFreeFuncToDesc(desc, free_of));
  CHECK_OK(aclrtAllocatorSetAllocAdviseFuncToDesc(desc, advise_of));
  CHECK_OK(aclrtAllocatorSetGetAddrFromBlockFuncToDesc(desc, address));
  return desc;
}

static void allocators_are_found_by_their_stream(void **state) {
  (void)state;
  void *object[2];
  found f;
  aclrtStream stream = stream_new(), other = stream_new();
  aclrtAllocatorDesc desc = desc_new(&object[0], address_of), newer = desc_new(&object[1], other_address_of);
  CHECK_CODE(100000, look_up(stream, &f));
  CHECK_OK(aclrtAllocatorRegister(stream, desc));
  CHECK_OK(look_up(stream, &f));
  assert_ptr_equal(f.desc, desc);
  assert_ptr_equal(f.object, &object[0]);
  assert_true(f.alloc == alloc_of && f.free == free_of && f.advise == advise_of && f.address == address_of);
  CHECK_CODE(100000, look_up(other, &f));
  CHECK_OK(aclrtAllocatorRegister(stream, newer));
  CHECK_OK(look_up(stream, &f));
  assert_ptr_equal(f.desc, newer);
  assert_true(f.address == other_address_of);
  CHECK_OK(aclrtAllocatorUnregister(stream));
  CHECK_CODE(100000, look_up(stream, &f));
  CHECK_OK(aclrtAllocatorUnregister(stream));
  CHECK_OK(aclrtAllocatorDestroyDesc(desc));
  CHECK_OK(aclrtAllocatorDestroyDesc(newer));
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtDestroyStream(other));
}

static void bad_arguments_of_allocators_are_errors(void **state) {
  (void)state;
  void *object;
  found f;
  aclrtAllocatorDesc desc = desc_new(&object, address_of);
  CHECK_FAILS(aclrtAllocatorRegister(NULL, desc));
  CHECK_FAILS(aclrtAllocatorUnregister(NULL));
  CHECK_FAILS(look_up(NULL, &f));
  aclrtStream stream = stream_new();
  CHECK_FAILS(aclrtAllocatorRegister(stream, NULL));
  CHECK_FAILS(aclrtAllocatorSetAllocFuncToDesc(NULL, alloc_of));
  CHECK_FAILS(aclrtAllocatorSetAllocFuncToDesc(desc, NULL));
  CHECK_FAILS(aclrtAllocatorDestroyDesc(NULL));
  CHECK_OK(aclrtAllocatorDestroyDesc(desc));
  CHECK_OK(aclrtDestroyStream(stream));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(pools_are_made_of_pinned_device_memory),
      TEST(a_block_is_used_in_stream_order),
      TEST(bad_arguments_of_blocks_are_errors),
      TEST(a_full_pool_refuses_and_remains_usable),
      TEST(a_destroyed_pool_lives_until_its_last_block_is_freed),
      TEST(switches_are_0_or_1),
      TEST(used_bytes_and_their_peak_are_counted),
      TEST(synchronisation_releases_memory_above_the_threshold),
      TEST(trimming_keeps_the_requested_bytes),
      TEST(another_stream_gets_a_block_only_after_its_free),
      TEST(an_event_after_the_free_allows_reuse),
      TEST(an_event_before_the_free_allows_no_reuse),
      TEST(completed_frees_are_reused_if_allowed),
      TEST(a_wait_is_inserted_if_allowed),
      TEST(blocks_of_a_destroyed_stream_are_reused),
      TEST(the_best_fit_is_reused),
      TEST(allocators_are_found_by_their_stream),
      TEST(bad_arguments_of_allocators_are_errors),
  };
  return cmocka_run_group_tests(tests, device_up, device_down);
}
