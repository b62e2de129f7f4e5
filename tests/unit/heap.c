/* SPDX-License-Identifier: Apache-2.0 */
/* Heaps by themselves: blocks and their edges, the promise of memory, what waits for tasks, threads. */
#include "memory/heap/heap.h"

#include <pthread.h>

#include "memory/heap/store.h"
#include "memory/host.h"
#include "test_heap.h"

/* ---- one block ---- */

static void block_is_found_by_all_of_its_addresses(void **state) {
  (void)state;
  static const uint64_t sizes[] = {1,   32,      511,         512,     513,         1024,        4096,        MIB - 1,
                                   MIB, MIB + 1, 2 * MIB - 1, 2 * MIB, 2 * MIB + 1, 5 * MIB - 7, 16 * MIB + 1};
  test_heap t;
  make_heap(&t, 64 * MIB, NULL);
  for (size_t i = 0; i < COUNT(sizes); i++) {
    const uint64_t n = sizes[i], unit = n > HEAP_SMALL_BYTES ? HEAP_GRANULE_BYTES : 512;
    char *p = alloc(&t, n), *q = alloc(&t, n);
    assert_int_equal((uintptr_t)p % 512, 0);
    const heap_block *b = find(&t, p);
    assert_non_null(b);
    assert_int_equal(b->address, (uintptr_t)p);
    assert_int_equal(b->bytes, n);
    assert_ptr_equal(find(&t, p + n / 2), b);
    assert_ptr_equal(find(&t, p + n - 1), b);
    assert_ptr_not_equal(find(&t, p - 1), b);
    assert_ptr_not_equal(find(&t, p + (n + unit - 1) / unit * unit), b);
    assert_ptr_not_equal(find(&t, q), b);
    view(&t, p)[0] = 1;
    view(&t, p)[n - 1] = 2;
    release(&t, p);
    assert_null(find(&t, p));
    assert_null(find(&t, p + n - 1));
    assert_ptr_equal(find(&t, q)->address, q);
    release(&t, q);
  }
  assert_int_equal(free_bytes(&t), t.config.size_bytes);
  assert_int_equal(t.stats.live_bytes, 0);
  assert_int_equal(t.stats.n_allocs, 2 * COUNT(sizes));
  assert_int_equal(t.stats.n_frees, 2 * COUNT(sizes));
}

static void addresses_outside_of_the_window_are_no_block(void **state) {
  (void)state;
  test_heap t;
  int local = 0;
  make_heap(&t, 4 * MIB, NULL);
  char *const window = (char *)t.config.window, *const end = window + t.config.window_bytes;
  char *p = alloc(&t, 512);
  assert_null(find(&t, NULL));
  assert_null(find(&t, &local));
  assert_null(find(&t, window - 1));
  assert_null(find(&t, end));
  assert_null(find(&t, end - 1));
  assert_null(find(&t, view(&t, p)));
  release(&t, p);
}

static void wrong_frees_say_why_and_change_nothing(void **state) {
  (void)state;
  test_heap t;
  make_heap(&t, 16 * MIB, NULL);
  static const uint64_t sizes[] = {512, MIB, 3 * MIB};
  for (size_t i = 0; i < COUNT(sizes); i++) {
    char *p = alloc(&t, sizes[i]), *other = alloc(&t, sizes[i]);
    const uint64_t left = free_bytes(&t);
    for (int k = 0; k < 2; k++) {
      assert_int_equal(heap_free(t.h, (uintptr_t)p + (k ? sizes[i] - 1 : 1), "p", NULL), ST_INVALID_VALUE);
      assert_non_null(strstr(fail_take(), "inside the block"));
    }
    assert_int_equal(free_bytes(&t), left);
    assert_int_equal(find(&t, p)->bytes, sizes[i]);
    release(&t, p);
    for (int k = 0; k < 2; k++) {
      assert_int_equal(heap_free(t.h, (uintptr_t)p, "p", NULL), ST_INVALID_VALUE);
      assert_non_null(strstr(fail_take(), "no live block"));
    }
    assert_int_equal(find(&t, other)->bytes, sizes[i]);
    release(&t, other);
  }
  assert_int_equal(heap_free(t.h, t.config.window + t.config.window_bytes, "p", NULL), ST_INVALID_VALUE);
  assert_int_equal(t.stats.n_frees, 2 * COUNT(sizes));
}

/* ---- room ---- */

static unsigned fill(test_heap *t, uint64_t bytes, void **block, unsigned most) {
  unsigned n = 0;
  while (n < most && (block[n] = try_alloc(t, bytes))) n++;
  return n;
}

/* Whatever filled the heap, all of it can be had as one block afterwards, and no more. */
static void freed_memory_is_one_again(void **state) {
  (void)state;
  enum { MOST = 64 * KIB };
  static const uint64_t sizes[] = {512, 8 * KIB + 32, MIB / 2, MIB, MIB + 1, 2 * MIB, 3 * MIB};
  static void *block[MOST];
  const uint64_t size = 16 * MIB;
  random_source random = {3};
  test_heap t;
  make_heap(&t, size, NULL);
  for (size_t i = 0; i < COUNT(sizes); i++) {
    const uint64_t n = sizes[i];
    const uint64_t unit = n > STORE_SMALL_BYTES ? PAGE_BYTES : 512;
    unsigned count = fill(&t, n, block, MOST);
    assert_int_equal(count, size / ((n + unit - 1) / unit * unit));
    while (count) {
      const unsigned which = random_below(&random, count--);
      release(&t, block[which]);
      block[which] = block[count];
    }
    assert_int_equal(free_bytes(&t), size);
    release(&t, alloc(&t, size));
    assert_null(try_alloc(&t, size + 1));
  }
}

/* Granules that are cached elsewhere in the window count: they go where they are wanted. */
static void caches_go_back_before_anything_is_refused(void **state) {
  (void)state;
  enum { GRANULES = 8 };
  test_heap t;
  make_heap(&t, GRANULES * 2 * MIB, NULL);
  char *block[GRANULES];
  for (int i = 0; i < GRANULES; i++) {
    block[i] = alloc(&t, 2 * MIB);
    memset(view(&t, block[i]), 0xaa, 2 * MIB);
  }
  for (int i = 0; i < GRANULES; i += 2) release(&t, block[i]);
  char *big = alloc(&t, GRANULES / 2 * 2 * MIB); /* fits in no hole */
  memset(view(&t, big), 0x55, GRANULES / 2 * 2 * MIB);
  for (int i = 1; i < GRANULES; i += 2)
    for (int k = 0; k < 2 * MIB; k += 4 * KIB) assert_int_equal((uint8_t)view(&t, block[i])[k], 0xaa);
  assert_int_equal(free_bytes(&t), 0);
  assert_null(try_alloc(&t, 1));
  release(&t, big);
  for (int i = 1; i < GRANULES; i += 2) release(&t, block[i]);
  release(&t, alloc(&t, GRANULES * 2 * MIB));
}

/* A page of which one unit is used is no room for a large block. The heap has 8 MiB, all free. */
static void expect_partly_used_pages_not_to_fit(test_heap *t) {
  enum { MOST = 4 * (65536 / 512) }; /* pages have 64 KiB at most */
  const int n_units = (int)PAGE_BYTES / 512, n = 4 * n_units;
  char *small[MOST], *p = alloc(t, 3 * MIB), want[64];
  for (int i = 0; i < n; i++) small[i] = alloc(t, 512);
  for (int i = 0; i < n; i++)
    if (i % n_units) release(t, small[i]);
  const uint64_t fits = 5 * MIB - 4 * (uint64_t)PAGE_BYTES;
  snprintf(want, sizeof want, "at most %ju bytes (", (uintmax_t)fits);
  assert_null(try_alloc(t, fits + 1));
  assert_non_null(strstr(fail_take(), want));
  release(t, alloc(t, fits));
  for (int i = 0; i < n; i += n_units) release(t, small[i]);
  release(t, p);
}

static void refusal_names_the_numbers_and_changes_nothing(void **state) {
  (void)state;
  test_heap t;
  make_heap(&t, 8 * MIB, NULL);
  char *p = alloc(&t, 3 * MIB), *small = alloc(&t, 512), *got = (char *)&t;
  const uint64_t left = free_bytes(&t);
  assert_int_equal(left, 5 * MIB - 512);
  const uint64_t sizes[] = {5 * MIB - PAGE_BYTES + 1, 8 * MIB, 32 * MIB, 33 * MIB, UINT64_MAX / 2, UINT64_MAX - 63};
  for (size_t i = 0; i < COUNT(sizes); i++) {
    char number[32];
    assert_int_equal(heap_alloc(t.h, sizes[i], sizes[i] - 9, origin_of(RULE_OTHER, PAGES_SMALL), NULL, (void **)&got),
                     ST_NO_MEMORY);
    assert_ptr_equal(got, &t);
    const char *words = fail_take();
    snprintf(number, sizeof number, " %ju ", (uintmax_t)sizes[i] - 9); /* what was asked for */
    assert_non_null(strstr(words, number));
    assert_non_null(strstr(words, "the heap"));
    assert_non_null(strstr(words, " 3.00 MiB of 8.00 MiB ")); /* in use */
    assert_non_null(
        strstr(words, "at most 5238775 bytes (5.00 MiB) would fit")); /* whole pages, less what the rules add */
    assert_non_null(strstr(
        words, "largest: 3.00 MiB (allocation 1, an internal caller), 512 B (allocation 2, an internal caller)"));
    assert_int_equal(t.stats.n_refused, i + 1);
    assert_int_equal(free_bytes(&t), left);
    assert_int_equal(t.stats.live_bytes, 3 * MIB + 512);
  }
  release(&t, alloc(&t, 5 * MIB - PAGE_BYTES));
  assert_int_equal(find(&t, small)->bytes, 512);
  release(&t, p);
  release(&t, small);
  expect_partly_used_pages_not_to_fit(&t);
}

static struct {
  heap *heap;
  char *idle; /* a block that somebody can do without */
  int n_asked;
} others;

static bool find_room(int device, unsigned failures) {
  (void)device, (void)failures;
  others.n_asked++;
  if (!others.idle) return false;
  assert_int_equal(heap_free(others.heap, (uintptr_t)others.idle, "idle", NULL), ST_OK);
  others.idle = NULL;
  return true;
}

static void others_are_asked_before_anything_is_refused(void **state) {
  (void)state;
  test_heap t;
  void *p;
  prepare_heap(&t, 8 * MIB, NULL, true);
  t.config.find_room = find_room;
  assert_int_equal(heap_create(&t.config, &t.h), ST_OK);
  others.heap = t.h;
  others.idle = alloc(&t, 5 * MIB);
  p = alloc(&t, 6 * MIB);
  assert_int_equal(others.n_asked, 1);
  assert_int_equal(t.stats.n_refused, 0); /* nobody was */
  assert_null(try_alloc(&t, 6 * MIB));
  assert_int_equal(others.n_asked, 2);
  assert_int_equal(t.stats.n_refused, 1);
  release(&t, p);
}

/* A heap larger than the host: what the host can't back is refused. Pinned memory, with a view of its own. */
static void host_is_not_promised_beyond_what_it_has(void **state) {
  (void)state;
  test_heap t = {.config = {.name = "pinned",
                            .device = -1,
                            .window_bytes = 16 * (uint64_t)MIB,
                            .unit_shift = RULE_PINNED_UNIT_SHIFT,
                            .size_bytes = UINT64_C(1) << 50,
                            .check_host = true}};
  assert_int_equal(space_check(), ST_OK);
  t.config.stats = &t.stats;
  t.config.window = space.pinned_base;
  t.config.window_bytes = space_stride();
  assert_int_equal(heap_create(&t.config, &t.h), ST_OK);
  kept[0] = t.h;
  assert_null(try_alloc(&t, host_available_bytes() + MIB));
  assert_non_null(strstr(fail_take(), "the host has"));
  char *p = alloc(&t, 3 * MIB);
  assert_int_equal((uintptr_t)p % 4096, 0);
  memset(p, 1, 3 * MIB); /* users and kernels share the addresses */
  release(&t, p);
}

/* ---- blocks that tasks may still use ---- */

/* A runtime with one task at a time: pending until it is set false; fences pass when told. */
static struct {
  bool pending, passes, exhausted;
  int n_taken, n_passed;
} tasks;

static bool fake_pending(void) { return tasks.pending; }

static void *fake_take(void) {
  if (tasks.exhausted || !tasks.pending) return NULL;
  tasks.n_taken++;
  return &tasks;
}

static bool fake_passed(void *fence) {
  assert_ptr_equal(fence, &tasks);
  tasks.n_passed += tasks.passes;
  return tasks.passes;
}

static const heap_fences fake_fences = {NULL, fake_pending, fake_take, fake_passed};

static void freed_block_is_reused_when_earlier_tasks_are_done(void **state) {
  (void)state;
  static const uint64_t sizes[] = {512, MIB, 2 * MIB};
  for (size_t i = 0; i < COUNT(sizes); i++) {
    const uint64_t n = sizes[i];
    test_heap t;
    memset(&tasks, 0, sizeof tasks);
    make_heap(&t, 64 * MIB, &fake_fences);
    char *a = alloc(&t, n);
    view(&t, a)[0] = 7;
    release(&t, a);
    assert_ptr_equal(alloc(&t, n), a); /* nothing is pending: at once */

    tasks.pending = true;
    release(&t, a);
    assert_null(find(&t, a));
    assert_int_equal(view(&t, a)[0], 7); /* the task can still read it */
    assert_int_equal(heap_free(t.h, (uintptr_t)a, "p", NULL), ST_INVALID_VALUE);
    char *b = alloc(&t, n);
    assert_ptr_not_equal(b, a);
    tasks.passes = true;
    assert_ptr_equal(alloc(&t, n), a);
    assert_int_equal(tasks.n_taken, tasks.n_passed);
  }
}

/* What is freed while a fence is out waits for the next one. */
static void one_fence_serves_for_many_blocks(void **state) {
  (void)state;
  test_heap t;
  memset(&tasks, 0, sizeof tasks);
  make_heap(&t, 64 * MIB, &fake_fences);
  char *early = alloc(&t, 2 * MIB), *late[5];
  for (size_t i = 0; i < COUNT(late); i++) late[i] = alloc(&t, 2 * MIB);
  tasks.pending = true;
  release(&t, early);
  for (size_t i = 0; i < COUNT(late); i++) release(&t, late[i]);
  assert_int_equal(tasks.n_taken, 1);
  tasks.passes = true;
  assert_ptr_equal(alloc(&t, 2 * MIB), early); /* passes the first, takes the second */
  assert_int_equal(tasks.n_taken, 2);
  tasks.passes = false;
  char *fresh = alloc(&t, 2 * MIB);
  for (size_t i = 0; i < COUNT(late); i++) assert_ptr_not_equal(fresh, late[i]);
  tasks.passes = true;
  tasks.pending = false;
  assert_int_equal(free_bytes(&t), 60 * MIB); /* asking is enough */
}

static void blocks_wait_where_no_fence_can_be_had(void **state) {
  (void)state;
  test_heap t;
  memset(&tasks, 0, sizeof tasks);
  make_heap(&t, 64 * MIB, &fake_fences);
  char *a = alloc(&t, 2 * MIB);
  tasks.pending = tasks.exhausted = true;
  release(&t, a);
  assert_ptr_not_equal(alloc(&t, 2 * MIB), a);
  tasks.pending = false;
  assert_ptr_equal(alloc(&t, 2 * MIB), a);
}

static void waiting_blocks_are_reused_before_anything_is_refused(void **state) {
  (void)state;
  test_heap t;
  memset(&tasks, 0, sizeof tasks);
  make_heap(&t, 8 * MIB, &fake_fences);
  void *block[5];
  assert_int_equal(fill(&t, 2 * MIB, block, 5), 4);
  tasks.pending = true;
  for (int i = 0; i < 4; i++) release(&t, block[i]);
  assert_non_null(try_alloc(&t, 8 * MIB));
  assert_null(try_alloc(&t, 1));
  assert_int_equal(t.stats.n_refused, 2); /* fill's, and this one */
}

/* Room is made out of caches, never out of what a task may still read. */
static void waiting_blocks_are_not_given_back(void **state) {
  (void)state;
  enum { GRANULES = 8 };
  test_heap t;
  memset(&tasks, 0, sizeof tasks);
  make_heap(&t, GRANULES * 2 * MIB, &fake_fences);
  char *block[GRANULES];
  for (int i = 0; i < GRANULES; i++) {
    block[i] = alloc(&t, 2 * MIB);
    memset(view(&t, block[i]), 0xaa, 2 * MIB);
  }
  release(&t, block[2]); /* two caches */
  release(&t, block[4]);
  tasks.pending = true;
  release(&t, block[0]);
  char *big = alloc(&t, 4 * MIB);
  for (int k = 0; k < 2 * MIB; k += 4 * KIB) assert_int_equal((uint8_t)view(&t, block[0])[k], 0xaa);
  release(&t, big);
  for (int i = 1; i < GRANULES; i++)
    if (i != 2 && i != 4) release(&t, block[i]);
  tasks.pending = false;
  tasks.passes = true;
  assert_int_equal(free_bytes(&t), GRANULES * 2 * MIB);
  release(&t, alloc(&t, GRANULES * 2 * MIB)); /* nothing is charged that nobody has */
}

/* What can't be had anyway costs nobody a block. */
static void impossible_request_leaves_waiting_blocks_alone(void **state) {
  (void)state;
  test_heap t;
  memset(&tasks, 0, sizeof tasks);
  make_heap(&t, 8 * MIB, &fake_fences);
  char *a = alloc(&t, 2 * MIB);
  tasks.pending = true;
  release(&t, a);
  assert_null(try_alloc(&t, 8 * MIB + 1));
  assert_ptr_not_equal(alloc(&t, 2 * MIB), a);
}

/* ---- a heap for more than one test ---- */

static test_heap shared;

static int make_shared(void **state) {
  (void)state;
  make_heap(&shared, 64 * MIB, NULL);
  return 0;
}

/* What is live may lie anywhere: here so that each free range of addresses is a little too short for the next block. */
static void scattered_blocks_leave_addresses_enough(void **state) {
  (void)state;
  enum { N = 16, FIRST_BYTES = 40 * MIB, STEP_BYTES = MIB, LIVE_BYTES = MIB / 2 };
  char *live[N];
  for (uint64_t i = 0; i < N; i++) {
    const uint64_t bytes = FIRST_BYTES + i * STEP_BYTES;
    release(&shared, alloc(&shared, bytes + LIVE_BYTES));
    char *longest = alloc(&shared, bytes);
    live[i] = alloc(&shared, LIVE_BYTES); /* right behind it: there alone something is cached */
    assert_ptr_equal(live[i], longest + bytes);
    release(&shared, longest);
    heap_trim(shared.h, 0);
  }
  release(&shared, alloc(&shared, 64 * MIB - (uint64_t)N * LIVE_BYTES));
  for (int i = 0; i < N; i++) release(&shared, live[i]);
}

enum { THREADS = 4, HELD = 24 };
static _Atomic int wrong;

typedef struct {
  unsigned char *p;
  uint64_t n;
  unsigned char mark;
} held_block;

static bool is_intact(const held_block *b) {
  const unsigned char *v = (unsigned char *)view(&shared, b->p);
  for (uint64_t k = 0; k < b->n; k += 61)
    if (v[k] != b->mark) return false;
  return v[b->n - 1] == b->mark;
}

static void drop(held_block *b) {
  const heap_block *found = find(&shared, b->p + b->n - 1);
  wrong += !found || found->address != (uintptr_t)b->p || found->bytes != b->n || !is_intact(b);
  wrong += heap_free(shared.h, (uintptr_t)b->p, "p", NULL) != ST_OK;
  b->p = NULL;
}

static uint64_t any_size(random_source *random) {
  switch (random_below(random, 8)) {
  case 0: return MIB - 2 + random_below(random, 5);
  case 1: return 2 * MIB - 2 + random_below(random, 5);
  case 2: return 1 + random_below(random, 3 * MIB);
  default: return 1 + random_below(random, 5000);
  }
}

static void *allocate_and_free(void *seed) {
  random_source random = {(uintptr_t)seed};
  held_block held[HELD] = {{0}};
  for (int round = 0; round < ROUNDS(6000); round++) {
    held_block *b = &held[random_below(&random, HELD)];
    if (b->p) drop(b);
    b->n = any_size(&random);
    b->mark = (unsigned char)random_next(&random);
    b->p = try_alloc(&shared, b->n);
    if (b->p) memset(view(&shared, b->p), b->mark, b->n);
    /* Somebody's, or nobody's: it may change at any time, and must not crash. */
    const heap_block *any =
        heap_find(shared.h, shared.config.window + random_next(&random) % shared.config.window_bytes);
    if (any) wrong += any->address - shared.config.window >= shared.config.window_bytes;
  }
  for (int i = 0; i < HELD; i++)
    if (held[i].p) drop(&held[i]);
  return NULL;
}

static void threads_share_a_heap(void **state) {
  (void)state;
  pthread_t thread[THREADS];
  for (uintptr_t i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&thread[i], NULL, allocate_and_free, (void *)(i + 1)), 0);
  for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
  assert_int_equal(wrong, 0);
  assert_int_equal(shared.stats.live_bytes, 0);
  assert_int_equal(shared.stats.n_allocs, shared.stats.n_frees);
  assert_true(shared.stats.n_refused > 0); /* so small is it */
  assert_int_equal(free_bytes(&shared), 64 * MIB);
  release(&shared, alloc(&shared, 64 * MIB));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(block_is_found_by_all_of_its_addresses),
      cmocka_unit_test(addresses_outside_of_the_window_are_no_block),
      cmocka_unit_test(wrong_frees_say_why_and_change_nothing),
      cmocka_unit_test(freed_memory_is_one_again),
      cmocka_unit_test(caches_go_back_before_anything_is_refused),
      cmocka_unit_test(refusal_names_the_numbers_and_changes_nothing),
      cmocka_unit_test(others_are_asked_before_anything_is_refused),
      cmocka_unit_test(host_is_not_promised_beyond_what_it_has),
      cmocka_unit_test(freed_block_is_reused_when_earlier_tasks_are_done),
      cmocka_unit_test(one_fence_serves_for_many_blocks),
      cmocka_unit_test(blocks_wait_where_no_fence_can_be_had),
      cmocka_unit_test(waiting_blocks_are_reused_before_anything_is_refused),
      cmocka_unit_test(waiting_blocks_are_not_given_back),
      cmocka_unit_test(impossible_request_leaves_waiting_blocks_alone),
      cmocka_unit_test(scattered_blocks_leave_addresses_enough),
      cmocka_unit_test(threads_share_a_heap),
  };
  return cmocka_run_group_tests(tests, make_shared, NULL);
}
