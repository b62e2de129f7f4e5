/* SPDX-License-Identifier: Apache-2.0 */
/* A stream's queue: order over segments, that it allocates nothing once it is warm and frees all, and that its checks
 * find what does not agree. */
#include <pthread.h>
#include <stdatomic.h>

#include "unit.h"

static atomic_int n_allocated, n_freed;

static void *counted_alloc(size_t align, size_t bytes) {
  atomic_fetch_add(&n_allocated, 1);
  return aligned_alloc(align, bytes);
}
static void counted_free(void *p) {
  if (p) atomic_fetch_add(&n_freed, 1);
  free(p);
}
#define aligned_alloc counted_alloc
#define free          counted_free
#include "runtime/queue.h"
#undef aligned_alloc
#undef free

enum { MANY = 100000 };

static const task_kind kind;

static void push(queue *q, uint64_t mark) {
  task *t = queue_slot(q);
  assert_non_null(t);
  t->kind = &kind;
  t->id = (uint32_t)mark;
  t->copy.width = mark * 3;
  queue_push(q);
}

static void pop(queue *q) {
  const uint64_t position = q->next;
  const task *t = queue_front(q);
  assert_int_equal(t->id, position);
  assert_int_equal(t->copy.width, position * 3);
  queue_pop(q);
}

static void tasks_come_out_in_order(void **state) {
  (void)state;
  queue q = {0};
  random_source random = {1};
  uint64_t pushed = 0;
  while (pushed < MANY || q.next < pushed) {
    for (uint32_t n = random_below(&random, 400); n && pushed < MANY; n--) push(&q, pushed++);
    assert_int_equal(q.submitted, pushed);
    for (uint32_t n = random_below(&random, 400); n && q.next < pushed; n--) pop(&q);
  }
  queue_free(&q);
}

static void unused_queue_has_nothing(void **state) {
  (void)state;
  queue q = {0};
  atomic_store(&n_allocated, 0);
  queue_free(&q);
  assert_int_equal(atomic_load(&n_allocated), 0);
}

/* Bursts of every length up to a segment: two segments go round. */
static void warm_queue_allocates_nothing(void **state) {
  (void)state;
  for (unsigned burst = 1; burst <= SEGMENT_TASKS; burst++) {
    queue q = {0};
    uint64_t pushed = 0;
    atomic_store(&n_allocated, 0);
    for (int round = 0; round < 1000; round++) {
      for (unsigned i = 0; i < burst; i++) push(&q, pushed++);
      for (unsigned i = 0; i < burst; i++) pop(&q);
    }
    assert_int_equal(atomic_load(&n_allocated), 2);
    queue_free(&q);
  }
}

/* More than a segment at once: what is drained is not hoarded. */
static void burst_is_given_back(void **state) {
  (void)state;
  queue q = {0};
  uint64_t pushed = 0;
  atomic_store(&n_allocated, 0);
  while (pushed < 10 * SEGMENT_TASKS) push(&q, pushed++);
  assert_int_equal(atomic_load(&n_allocated), 10);
  while (q.next < pushed) pop(&q);
  queue_free(&q); /* leaks are the sanitizer's to find */
}

/* A slot is taken for a task that is then refused, or goes to a graph: with it comes a segment that has no task. */
static void slot_that_was_not_pushed_is_freed(void **state) {
  (void)state;
  for (unsigned n = 0; n <= 2 * SEGMENT_TASKS; n++) {
    queue q = {0};
    uint64_t pushed = 0;
    atomic_store(&n_allocated, 0);
    atomic_store(&n_freed, 0);
    while (pushed < n) push(&q, pushed++);
    while (q.next < pushed) pop(&q);
    assert_non_null(queue_slot(&q));
    queue_free(&q);
    assert_int_equal(atomic_load(&n_freed), atomic_load(&n_allocated));
  }
}

/* ---- checks ---- */

/* The field's value is wrong for as long as the check is made. */
#define FINDS(check, field, wrong)                                                                                     \
  do {                                                                                                                 \
    const __auto_type good = (field);                                                                                  \
    (field) = (wrong);                                                                                                 \
    assert_false(check);                                                                                               \
    (field) = good;                                                                                                    \
    assert_true(check);                                                                                                \
  } while (0)

static void checks_find_what_does_not_agree(void **state) {
  (void)state;
  queue q = {0};
  uint64_t pushed = 0;
  assert_true(queue_is_valid(&q));
  while (pushed < 2 * SEGMENT_TASKS + 20) {
    push(&q, pushed++);
    assert_true(queue_is_valid(&q));
  }
  while (q.next < SEGMENT_TASKS + 10) {
    pop(&q);
    assert_true(queue_is_valid(&q));
  }
  atomic_store(&q.completed, q.next);
  FINDS(queue_producer_is_valid(&q), q.tail_index, q.tail_index + 1);
  FINDS(queue_producer_is_valid(&q), q.tail_index, q.tail_index + SEGMENT_TASKS);
  FINDS(queue_producer_is_valid(&q), q.tail, NULL);
  FINDS(queue_producer_is_valid(&q), q.tail->next, q.head);
  FINDS(queue_producer_is_valid(&q), q.completed, pushed + 1);
  FINDS(queue_consumer_is_valid(&q), q.completed, q.next + 1);
  FINDS(queue_consumer_is_valid(&q), q.head_index, q.head_index - 1);
  FINDS(queue_consumer_is_valid(&q), q.next, q.next + 1);
  FINDS(queue_consumer_is_valid(&q), q.head->next, NULL);
  FINDS(queue_consumer_is_valid(&q), q.head->tasks[SEGMENT_TASKS - 1].id, 0);
  FINDS(queue_consumer_is_valid(&q), q.tail->tasks[0].kind, NULL);
  FINDS(queue_is_valid(&q), q.head, NULL);
  FINDS(queue_is_valid(&q), q.spare, q.head);
  FINDS(queue_is_valid(&q), q.spare, q.tail);
  while (q.next < pushed) pop(&q);
  assert_true(queue_is_valid(&q));
  queue_free(&q);
}

/* ---- a producer and a consumer ---- */

static void *produce(void *arg) {
  queue *q = arg;
  for (uint64_t i = 0; i < MANY; i++) {
    task *t = queue_slot(q);
    t->kind = &kind;
    t->id = (uint32_t)i;
    t->copy.width = i * 3;
    queue_push(q);
  }
  return NULL;
}

static void producer_and_consumer_share_it(void **state) {
  (void)state;
  queue q = {0};
  pthread_t producer;
  assert_int_equal(pthread_create(&producer, NULL, produce, &q), 0);
  while (q.next < MANY)
    if (q.next < atomic_load_explicit(&q.submitted, memory_order_acquire)) pop(&q);
  pthread_join(producer, NULL);
  queue_free(&q);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tasks_come_out_in_order),           cmocka_unit_test(unused_queue_has_nothing),
      cmocka_unit_test(warm_queue_allocates_nothing),      cmocka_unit_test(burst_is_given_back),
      cmocka_unit_test(slot_that_was_not_pushed_is_freed), cmocka_unit_test(checks_find_what_does_not_agree),
      cmocka_unit_test(producer_and_consumer_share_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
