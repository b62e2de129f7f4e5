/* SPDX-License-Identifier: Apache-2.0 */
/* Thread caches of objects: reuse by the same thread, by other threads, and after a thread has ended. Sanitizer builds
 * allocate every object with malloc, so only correct use is checked there. */
#include "base/store/cache.h"

#include <pthread.h>
#include <stdatomic.h>

#include "unit.h"

enum { BYTES = 200, SOME = 40, MANY = 1000, CACHED = !(WITH_ASAN || WITH_TSAN) };

static void get(void **o, int n) {
  for (int i = 0; i < n; i++) {
    o[i] = cache_get(CACHE_TENSOR, BYTES);
    assert_non_null(o[i]);
    assert_int_equal((uintptr_t)o[i] % 64, 0);
    memset(o[i], i, BYTES);
  }
}

static void put(void **o, int n) {
  for (int i = 0; i < n; i++) cache_put(CACHE_TENSOR, o[i]);
}

static bool contains(void **o, int n, const void *p) {
  for (int i = 0; i < n; i++)
    if (o[i] == p) return true;
  return false;
}

static void assert_distinct(void **o, int n) {
  for (int i = 0; i < n; i++) assert_false(contains(o + i + 1, n - i - 1, o[i]));
}

static void objects_are_distinct_and_reused(void **state) {
  (void)state;
  void *a[MANY], *b[MANY];
  get(a, MANY);
  assert_distinct(a, MANY);
  for (int i = 0; i < MANY; i++)
    for (int k = 0; k < BYTES; k++) assert_int_equal(((unsigned char *)a[i])[k], i & 0xff);
  put(a, MANY);
  get(b, MANY);
  assert_distinct(b, MANY);
  if (CACHED)
    for (int i = 0; i < MANY; i++) assert_true(contains(a, MANY, b[i]));
  put(b, MANY);
}

static void kinds_do_not_share_objects(void **state) {
  (void)state;
  void *p = cache_get(CACHE_TENSOR, BYTES);
  cache_put(CACHE_TENSOR, p);
  void *q = cache_get(CACHE_SCALAR, 32);
  if (CACHED) assert_ptr_not_equal(p, q);
  cache_put(CACHE_SCALAR, q);
}

static void *get_and_put(void *o) {
  get(o, SOME);
  put(o, SOME);
  return NULL;
}

/* The objects that a thread has cached are in the depot after it has ended. */
static void ended_thread_leaves_its_objects(void **state) {
  (void)state;
  void *theirs[SOME], *all[MANY];
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, get_and_put, theirs), 0);
  pthread_join(thread, NULL);
  get(all, MANY);
  assert_distinct(all, MANY);
  if (CACHED)
    for (int i = 0; i < SOME; i++) assert_true(contains(all, MANY, theirs[i]));
  put(all, MANY);
}

/* ---- one thread allocates, another frees ---- */

enum { ROUND = 64 };
static void *_Atomic mailbox[ROUND];
static void *destroyed[MANY];

static void *destroy_what_comes(void *unused) {
  (void)unused;
  for (int n = 0; n < ROUNDS(20000); n++) {
    void *o;
    while (!(o = atomic_exchange(&mailbox[n % ROUND], NULL))) sched_yield();
    destroyed[n % MANY] = o;
    cache_put(CACHE_EXECUTOR, o);
  }
  return NULL;
}

static void objects_are_reused_across_threads(void **state) {
  (void)state;
  pthread_t thread;
  enum { MOST = 20000 };
  static void *made[MOST];
  int n_made = 0, n_distinct = 0;
  assert_int_equal(pthread_create(&thread, NULL, destroy_what_comes, NULL), 0);
  for (int n = 0; n < ROUNDS(20000); n++) {
    void *o = cache_get(CACHE_EXECUTOR, BYTES), *empty = NULL;
    assert_non_null(o);
    memset(o, n, BYTES);
    made[n_made++] = o;
    while (!atomic_compare_exchange_weak(&mailbox[n % ROUND], &empty, o)) {
      empty = NULL;
      sched_yield();
    }
  }
  pthread_join(thread, NULL);
  /* Freed objects return through the depot: the objects in flight and in the two magazines are all that exist. */
  for (int i = 0; i < n_made && n_distinct < MANY; i++) n_distinct += !contains(made, i, made[i]);
  if (CACHED) assert_true(n_distinct <= ROUND + 3 * 64);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(objects_are_distinct_and_reused),
      cmocka_unit_test(kinds_do_not_share_objects),
      cmocka_unit_test(ended_thread_leaves_its_objects),
      cmocka_unit_test(objects_are_reused_across_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
