/* SPDX-License-Identifier: Apache-2.0 */
/* Heaps that nobody observes: threads keep what they freed, and nothing of it is lost to the others. */
#include "memory/heap/thread_cache.h"

#include <pthread.h>
#include <unistd.h>

#include "test_heap.h"

enum { THREADS = 4 };

/* Threads can't assert: cmocka jumps. */
static _Atomic int wrong;
static test_heap t;

static pthread_t start(void *(*work)(void *), void *argument) {
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, work, argument), 0);
  return thread;
}

static void run(void *(*work)(void *), void *argument) { pthread_join(start(work, argument), NULL); }

static void run_all(void *(*work)(void *)) {
  pthread_t thread[THREADS];
  for (uintptr_t i = 0; i < THREADS; i++) thread[i] = start(work, (void *)(i + 1)); // NOLINT(performance-no-int-to-ptr)
  for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
  assert_int_equal(wrong, 0);
}

static int up(void **state) {
  (void)state;
  make_heap_as(&t, 64 * MIB, NULL, false);
  wrong = 0;
  return 0;
}

/* After each test: all can be had, also as one. */
static int down(void **state) {
  (void)state;
  assert_int_equal(free_bytes(&t), 64 * MIB);
  release(&t, alloc(&t, 64 * MIB));
  return 0;
}

/* ---- one thread ---- */

static void a_freed_block_is_the_next_of_its_length(void **state) {
  (void)state;
  static const uint64_t sizes[] = {1, 512, 4 * KIB + 32, 64 * KIB + 32, 300 * KIB, 2 * MIB, 5 * MIB};
  for (size_t i = 0; i < COUNT(sizes); i++) {
    char *p = alloc(&t, sizes[i]);
    const uint64_t number = find(&t, p)->number;
    memset(view(&t, p), 0x42, sizes[i]);
    release(&t, p);
    assert_null(find(&t, p));
    assert_int_equal(heap_free(t.h, (uintptr_t)p, "p", NULL), ST_INVALID_VALUE);
    assert_non_null(strstr(fail_take(), "no live block"));
    assert_null(try_alloc(&t, (UINT64_C(1) << 43) + sizes[i])); /* 2^31 pages more: not taken for the same length */
    fail_take();
    char *q = alloc(&t, sizes[i]);
    assert_ptr_equal(q, p);
    assert_true(find(&t, q)->number > number);
    assert_int_equal(find(&t, q)->bytes, sizes[i]);
    assert_int_equal(view(&t, q)[sizes[i] - 1], 0x42); /* its pages stayed */
    release(&t, q);
  }
}

/* Of one length and of many, more than a cache holds. */
static void caches_pass_on_what_is_too_much(void **state) {
  (void)state;
  enum { N = 20000 };
  static char *p[N];
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < N; i++) p[i] = alloc(&t, round == 1 ? 1 + (uint64_t)i % 5000 : 1024);
    for (int i = 0; i < N; i++) release(&t, p[round == 2 ? N - 1 - i : i]);
  }
}

/* Caches are emptied before anything is refused: what one thread has cached, another can have. */
static void *fill_and_free(void *unused) {
  (void)unused;
  char *p[64];
  for (int i = 0; i < 64; i++) wrong += !(p[i] = try_alloc(&t, MIB));
  wrong += try_alloc(&t, 1) != NULL;
  for (int i = 0; i < 64; i++)
    if (p[i]) wrong += heap_free(t.h, (uintptr_t)p[i], "p", NULL) != ST_OK;
  for (int i = 0; i < 100; i++) p[i % 64] = try_alloc(&t, 4096), wrong += heap_free(t.h, (uintptr_t)p[i % 64], "p", 0);
  return NULL;
}

static void what_others_cache_is_not_missing(void **state) {
  (void)state;
  for (int i = 0; i < 20; i++) {
    run(fill_and_free, NULL);
    fill_and_free(NULL);
    release(&t, alloc(&t, 64 * MIB));
  }
  assert_int_equal(wrong, 0);
}

/* ---- blocks that tasks may still use ---- */

static _Atomic int busy;
static bool passes;
static bool pending(void) { return atomic_load(&busy) != 0; }
static void *take_fence(void) { return pending() ? &busy : NULL; }
static bool has_passed(void *fence) { return fence == &busy && passes; }

/* No cache hands them out: a free that meets a pending task goes to the heap. */
static void what_tasks_use_is_in_no_cache(void **state) {
  (void)state;
  static const heap_fences fences = {&busy, pending, take_fence, has_passed};
  static const uint64_t sizes[] = {512, 4 * KIB, 300 * KIB, 3 * MIB};
  test_heap with_tasks;
  make_heap_as(&with_tasks, 64 * MIB, &fences, false);
  for (size_t i = 0; i < COUNT(sizes); i++) {
    char *cached = alloc(&with_tasks, sizes[i]), *used = alloc(&with_tasks, sizes[i]), *other[64];
    release(&with_tasks, cached); /* nothing is pending */
    atomic_store(&busy, 1);
    passes = false;
    view(&with_tasks, used)[sizes[i] - 1] = 77;
    release(&with_tasks, used);
    assert_int_equal(heap_free(with_tasks.h, (uintptr_t)used, "p", NULL), ST_INVALID_VALUE);
    const int n = sizes[i] > MIB ? 8 : 64; /* there is room elsewhere */
    for (int k = 0; k < n; k++) {
      other[k] = alloc(&with_tasks, sizes[i]);
      assert_ptr_not_equal(other[k], used);
    }
    assert_int_equal(view(&with_tasks, used)[sizes[i] - 1], 77);
    passes = true;
    atomic_store(&busy, 0);
    for (int k = 0; k < n; k++) release(&with_tasks, other[k]);
    assert_int_equal(free_bytes(&with_tasks), 64 * MIB);
  }
}

/* ---- across threads ---- */

/* A ring by which blocks go from the thread that allocates to one that frees. */
enum { RING = 64 };
static _Atomic(char *) ring[RING];
static _Atomic bool produced;

static uint64_t any_size(random_source *random) {
  return random_below(random, 16) ? 1 + random_below(random, 8 * KIB) : 1 + random_below(random, 900 * KIB);
}

static void *produce(void *seed) {
  random_source random = {(uintptr_t)seed};
  for (int i = 0; i < ROUNDS(30000); i++) {
    const uint64_t bytes = any_size(&random);
    char *p = try_alloc(&t, bytes);
    if (!p) continue; /* the others hold everything */
    view(&t, p)[0] = (char)bytes;
    view(&t, p)[bytes - 1] = (char)bytes;
    char *old = atomic_exchange(&ring[random_below(&random, RING)], p);
    if (old) wrong += heap_free(t.h, (uintptr_t)old, "p", NULL) != ST_OK;
  }
  return NULL;
}

static void *consume(void *seed) {
  random_source random = {(uintptr_t)seed};
  while (!atomic_load(&produced)) {
    char *p = atomic_exchange(&ring[random_below(&random, RING)], NULL);
    if (!p) continue;
    const uint64_t bytes = find(&t, p)->bytes;
    wrong += view(&t, p)[0] != view(&t, p)[bytes - 1] || (bytes > 1 && view(&t, p)[0] != (char)bytes);
    wrong += heap_free(t.h, (uintptr_t)p, "p", NULL) != ST_OK;
  }
  return NULL;
}

static void blocks_are_freed_by_other_threads(void **state) {
  (void)state;
  pthread_t maker[2], taker[2];
  atomic_store(&produced, false);
  for (uintptr_t i = 0; i < 2; i++) {
    maker[i] = start(produce, (void *)(i + 1)); // NOLINT(performance-no-int-to-ptr)
    taker[i] = start(consume, (void *)(i + 8)); // NOLINT(performance-no-int-to-ptr)
  }
  for (int i = 0; i < 2; i++) pthread_join(maker[i], NULL);
  atomic_store(&produced, true);
  for (int i = 0; i < 2; i++) pthread_join(taker[i], NULL);
  for (int i = 0; i < RING; i++) {
    char *left = atomic_exchange(&ring[i], NULL);
    if (left) release(&t, left);
  }
  assert_int_equal(wrong, 0);
}

/* ---- the end of a thread ---- */

static void *free_one(void *p) {
  wrong += heap_free(t.h, (uintptr_t)p, "p", NULL) != ST_OK;
  return NULL;
}

/* Without anybody emptying its cache: the place is there for blocks of another length when the thread is gone. */
static void a_thread_gives_back_what_it_keeps(void **state) {
  (void)state;
  char *p = alloc(&t, 4 * KIB);
  run(free_one, p);
  assert_int_equal(wrong, 0);
  uint64_t found = 0;
  char *tried[600];
  for (int i = 0; i < 600; i++) { /* so few that there is memory for them without asking the threads */
    tried[i] = alloc(&t, 3 * KIB);
    found += tried[i] <= p && p < tried[i] + 3 * KIB;
  }
  assert_int_equal(found, 1);
  for (int i = 0; i < 600; i++) release(&t, tried[i]);
}

static void threads_come_and_go(void **state) {
  (void)state;
  for (int i = 0; i < 200; i++) {
    char *p = alloc(&t, 1 + (uint64_t)i * 700);
    run(free_one, p);
  }
  assert_int_equal(wrong, 0);
}

/* ---- looking while others allocate ---- */

enum { HELD = 10, HELD_BYTES = 4096 };
static _Atomic bool stop;
static _Atomic int n_ready;

/* Holds HELD blocks, or one less. */
static void *exchange_blocks(void *seed) {
  random_source random = {(uintptr_t)seed};
  char *p[HELD];
  for (int i = 0; i < HELD; i++) wrong += !(p[i] = try_alloc(&t, HELD_BYTES));
  atomic_fetch_add(&n_ready, 1);
  while (!atomic_load(&stop)) {
    const uint32_t i = random_below(&random, HELD);
    wrong += heap_free(t.h, (uintptr_t)p[i], "p", NULL) != ST_OK;
    wrong += !(p[i] = try_alloc(&t, HELD_BYTES));
  }
  for (int i = 0; i < HELD; i++) wrong += heap_free(t.h, (uintptr_t)p[i], "p", NULL) != ST_OK;
  return NULL;
}

static void count_block(const hook_block *b, void *argument) {
  (void)b;
  ++*(int *)argument;
}

static void looking_counts_what_is_held(void **state) {
  (void)state;
  pthread_t thread[THREADS];
  atomic_store(&stop, false);
  atomic_store(&n_ready, 0);
  for (uintptr_t i = 0; i < THREADS; i++)
    thread[i] = start(exchange_blocks, (void *)(i + 1)); // NOLINT(performance-no-int-to-ptr)
  while (atomic_load(&n_ready) < THREADS) usleep(1000);
  for (int round = 0; round < ROUNDS(1000); round++) {
    int n = 0;
    heap_usage u;
    const uint64_t used = 64 * MIB - free_bytes(&t);
    /* Between emptying one cache and reading the sum, nobody takes out of another: blocks are held, or none's. */
    wrong += used < THREADS * (HELD - 1) * HELD_BYTES || used > THREADS * HELD * HELD_BYTES;
    heap_measure(t.h, &u);
    wrong += u.used_bytes < THREADS * (HELD - 1) * HELD_BYTES || u.committed_bytes < u.used_bytes;
    heap_each_block(t.h, count_block, &n);
    wrong += n > THREADS * HELD + THREADS; /* no snapshot: a thread may give one up behind and get one ahead */
    if (round % 16 == 0) heap_trim(t.h, 0);
  }
  atomic_store(&stop, true);
  for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
  assert_int_equal(wrong, 0);
}

/* ---- what is passed on ---- */

enum { LONG_BYTES = 20 * MIB, REST_BYTES = 60 * MIB };
static pthread_mutex_t long_lock = PTHREAD_MUTEX_INITIALIZER; /* held while a long block is */

/* All blocks this long share a set of a cache, which keeps two: the short ones' frees put the long one out. */
static void *push_out(void *unused) {
  (void)unused;
  while (!atomic_load(&stop)) {
    pthread_mutex_lock(&long_lock);
    void *p = try_alloc(&t, LONG_BYTES);
    wrong += !p || heap_free(t.h, (uintptr_t)p, "p", NULL) != ST_OK;
    pthread_mutex_unlock(&long_lock);
    void *const one = try_alloc(&t, MIB), *const other = try_alloc(&t, MIB);
    wrong += !one || heap_free(t.h, (uintptr_t)one, "one", NULL) != ST_OK;
    wrong += !other || heap_free(t.h, (uintptr_t)other, "other", NULL) != ST_OK;
  }
  return NULL;
}

/* Memory on its way from a cache to the heap is not missing either. */
static void what_is_pushed_out_is_not_missing(void **state) {
  (void)state;
  atomic_store(&stop, false);
  pthread_t thread[2] = {start(push_out, NULL), start(push_out, NULL)};
  for (int round = 0; round < ROUNDS(500000); round++) {
    pthread_mutex_lock(&long_lock);
    void *p = try_alloc(&t, REST_BYTES);
    wrong += !p || heap_free(t.h, (uintptr_t)p, "p", NULL) != ST_OK;
    pthread_mutex_unlock(&long_lock);
  }
  atomic_store(&stop, true);
  for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
  assert_int_equal(wrong, 0);
}

/* ---- lists that go from hand to hand ---- */

/* The first free makes the thread its cache, the last one finds it full. */
enum { MANY = THREAD_CACHE_BLOCKS + 2 };
static char *many[MANY];
static pthread_barrier_t freed;

static void *free_many(void *unused) {
  (void)unused;
  for (int i = 0; i < MANY; i++) wrong += heap_free(t.h, (uintptr_t)many[i], "p", NULL) != ST_OK;
  pthread_barrier_wait(&freed);
  pthread_barrier_wait(&freed); /* the thread's own list is not what is wanted */
  return NULL;
}

/* What one thread frees by the hundred, the next one takes as it is: the last freed first. */
static void a_full_list_is_the_next_threads(void **state) {
  (void)state;
  for (int i = 0; i < MANY; i++) many[i] = alloc(&t, 512);
  pthread_barrier_init(&freed, NULL, 2);
  const pthread_t thread = start(free_many, NULL);
  pthread_barrier_wait(&freed);
  char *p[64];
  int next = MANY - 2, n = 0;
  while (n < 64 && next > MANY - 40) {
    p[n++] = alloc(&t, 512);
    bool among = false;
    for (int i = 0; i < MANY; i++) among |= p[n - 1] == many[i];
    if (among) assert_ptr_equal(p[n - 1], many[next--]);
  }
  assert_int_equal(next, MANY - 40); /* the thread itself had few left of its own */
  while (n > 0) release(&t, p[--n]);
  pthread_barrier_wait(&freed);
  pthread_join(thread, NULL);
  pthread_barrier_destroy(&freed);
  assert_int_equal(wrong, 0);
}

/* ---- double frees, numbers ---- */

static pthread_barrier_t both;
static char *_Atomic contested;
static _Atomic int n_freed, n_refused;

static void *free_contested(void *unused) {
  (void)unused;
  for (int round = 0; round < ROUNDS(5000); round++) {
    pthread_barrier_wait(&both); /* there is a block */
    const bool freed = heap_free(t.h, (uintptr_t)atomic_load(&contested), "p", NULL) == ST_OK;
    atomic_fetch_add(freed ? &n_freed : &n_refused, 1);
    pthread_barrier_wait(&both); /* both have tried */
  }
  return NULL;
}

static void of_two_frees_at_once_one_is_refused(void **state) {
  (void)state;
  static const uint64_t sizes[] = {512, 300 * KIB, 4 * KIB};
  pthread_barrier_init(&both, NULL, 3);
  pthread_t thread[2] = {start(free_contested, NULL), start(free_contested, NULL)};
  for (int round = 0; round < ROUNDS(5000); round++) {
    atomic_store(&contested, try_alloc(&t, sizes[round % 3]));
    pthread_barrier_wait(&both);
    pthread_barrier_wait(&both);
  }
  for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
  pthread_barrier_destroy(&both);
  assert_int_equal(n_freed, ROUNDS(5000));
  assert_int_equal(n_refused, ROUNDS(5000));
}

enum { NUMBERS = 20000 };
static uint64_t numbers[THREADS][NUMBERS];

static void *note_numbers(void *index) {
  uint64_t *mine = numbers[(uintptr_t)index - 1];
  for (int i = 0; i < NUMBERS; i++) {
    char *p = try_alloc(&t, 1 + (uint64_t)i % 3000);
    if (!p) return NULL;
    mine[i] = find(&t, p)->number;
    heap_free(t.h, (uintptr_t)p, "p", NULL);
  }
  return NULL;
}

static int compare(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

static void no_number_is_given_twice(void **state) {
  (void)state;
  run_all(note_numbers);
  for (int i = 0; i < THREADS; i++) /* of one thread, later ones are higher */
    for (int k = 1; k < NUMBERS; k++) assert_true(numbers[i][k - 1] < numbers[i][k]);
  uint64_t *all = numbers[0];
  qsort(all, THREADS * NUMBERS, sizeof *all, compare);
  assert_true(all[0] >= 1);
  for (int i = 1; i < THREADS * NUMBERS; i++) assert_true(all[i - 1] < all[i]);
}

#define CACHE_TEST(function) cmocka_unit_test_setup_teardown(function, up, down)

int main(void) {
  const struct CMUnitTest tests[] = {
      CACHE_TEST(a_freed_block_is_the_next_of_its_length),
      CACHE_TEST(caches_pass_on_what_is_too_much),
      CACHE_TEST(what_others_cache_is_not_missing),
      CACHE_TEST(what_tasks_use_is_in_no_cache),
      CACHE_TEST(blocks_are_freed_by_other_threads),
      CACHE_TEST(a_thread_gives_back_what_it_keeps),
      CACHE_TEST(threads_come_and_go),
      CACHE_TEST(looking_counts_what_is_held),
      CACHE_TEST(what_is_pushed_out_is_not_missing),
      CACHE_TEST(a_full_list_is_the_next_threads),
      CACHE_TEST(of_two_frees_at_once_one_is_refused),
      CACHE_TEST(no_number_is_given_twice),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
