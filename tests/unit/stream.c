/* SPDX-License-Identifier: Apache-2.0 */
/* Streams from inside: order, one runner, failures, blocking, what becomes of tasks that never run, that a warm stream
 * allocates nothing; waits for events and notifies; and that the checks of invariants find what does not agree. */
#include "runtime/stream.h"

#include <pthread.h>

#include "runtime/context.h"
#include "runtime/device.h"
#include "runtime/graph/capture.h"
#include "runtime/graph/capture_lane.h"
#include "runtime/graph/graph.h"
#include "runtime/scheduler.h"
#include "runtime/wait/event.h"
#include "runtime/wait/notify.h"
#include "unit.h"

/* ---- allocations of the library, counted by the linker's --wrap ---- */

static atomic_int n_allocated;

void *__real_aligned_alloc(size_t align, size_t bytes);
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__wrap_aligned_alloc(size_t align, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);

void *__wrap_aligned_alloc(size_t align, size_t bytes) {
  atomic_fetch_add(&n_allocated, 1);
  return __real_aligned_alloc(align, bytes);
}
void *__wrap_malloc(size_t bytes) {
  atomic_fetch_add(&n_allocated, 1);
  return __real_malloc(bytes);
}
void *__wrap_calloc(size_t n, size_t bytes) {
  atomic_fetch_add(&n_allocated, 1);
  return __real_calloc(n, bytes);
}

/* ---- a thread that stops where it unblocks a stream ---- */

static _Atomic enum { PASSES, STOPS_NEXT, STOPPED } at_rouse;

void __real_scheduler_rouse(void);
void __wrap_scheduler_rouse(void);
void __wrap_scheduler_rouse(void) {
  if (atomic_load(&at_rouse) == STOPS_NEXT) {
    atomic_store(&at_rouse, STOPPED);
    while (atomic_load(&at_rouse) == STOPPED) usleep(100);
  }
  __real_scheduler_rouse();
}

/* ---- tasks that count ---- */

enum { MANY = 100000, PRODUCERS = 4 };

/* What the tasks of a test see of each other; host.argument points to it. */
typedef struct {
  atomic_int running, wrong;
  uint64_t next[PRODUCERS]; /* number expected from each producer; only the stream's runner touches it */
  atomic_int n_run, n_dropped;
  atomic_int let_go; /* of blocked tasks */
} record;

/* A task's producer and number travel in fields of its copy part that its host part does not use. */
static status run_counted(task *t, stream *s) {
  (void)s;
  record *r = t->host.argument;
  const uint64_t number = t->copy.dst_pitch, producer = t->copy.src_pitch;
  if (atomic_fetch_add(&r->running, 1)) atomic_fetch_add(&r->wrong, 1);
  if (r->next[producer]++ != number) atomic_fetch_add(&r->wrong, 1);
  atomic_fetch_add(&r->n_run, 1);
  atomic_fetch_sub(&r->running, 1);
  return ST_OK;
}

static status run_failing(task *t, stream *s) {
  run_counted(t, s);
  return fail(ST_DEVICE_EXCEPTION, "task %ju went wrong", (uintmax_t)t->copy.dst_pitch);
}

static status run_blocked(task *t, stream *s) {
  record *r = t->host.argument;
  if (!atomic_load(&r->let_go)) {
    atomic_store(&s->blocked, true);
    return TASK_BLOCKED;
  }
  return run_counted(t, s);
}

static void drop_counted(task *t, stream *s) {
  (void)s;
  atomic_fetch_add(&((record *)t->host.argument)->n_dropped, 1);
}

static void drop_blocked(task *t, stream *s) {
  atomic_store(&s->blocked, false);
  drop_counted(t, s);
}

static const task_kind counted = {.name = "counted", .run = run_counted, .drop = drop_counted};
static const task_kind counted_user = {.name = "user", .run = run_counted, .drop = drop_counted, .user_code = true};
static const task_kind failing = {.name = "failing", .run = run_failing, .drop = drop_counted};
static const task_kind blocking = {.name = "blocking", .run = run_blocked, .drop = drop_blocked};

static bool submit(stream *s, const task_kind *kind, record *r, uint64_t producer, uint64_t number, uint32_t cost_ns) {
  task *t;
  if (stream_new_task(s, kind, &t) != ST_OK) return false;
  t->cost_ns = cost_ns;
  t->host.argument = r;
  t->copy.dst_pitch = number;
  t->copy.src_pitch = producer;
  stream_submit(s, t);
  return true;
}

static context *the_context;

static int up(void **state) {
  (void)state;
  setenv("CANNON_MEM", "16777216", 1);
  return device_set(0) == ST_OK && context_current(&the_context) == ST_OK ? 0 : -1;
}

static int down(void **state) {
  (void)state;
  return device_reset(0, false) == ST_OK ? 0 : -1;
}

static stream *stream_new(void) {
  stream *s = NULL;
  assert_int_equal(stream_create(the_context, 0, 0, &s), ST_OK);
  return s;
}

/* ---- order ---- */

static const uint32_t costs[] = {10, 1000, 30000, TASK_COST_UNKNOWN}; /* for the waiter, ..., for a worker at once */

static void tasks_run_once_and_in_order(void **state) {
  (void)state;
  stream *s = stream_new();
  for (size_t c = 0; c < COUNT(costs); c++) {
    record r = {0};
    for (uint64_t i = 0; i < MANY; i++) assert_true(submit(s, &counted, &r, 0, i, costs[c]));
    assert_int_equal(stream_synchronize(s, 0), ST_OK);
    assert_int_equal(r.n_run, MANY);
    assert_int_equal(r.wrong, 0);
    assert_true(stream_is_idle(s));
  }
  stream_destroy(s, false);
}

typedef struct {
  stream *s;
  record *r;
  uint64_t producer;
} producer_args;

static void *produce(void *arg) {
  const producer_args *a = arg;
  for (uint64_t i = 0; i < ROUNDS(MANY / 2); i++) {
    if (!submit(a->s, i % 100 ? &counted : &counted_user, a->r, a->producer, i, i % 37 ? 50 : 50000))
      atomic_fetch_add(&a->r->wrong, 1);
    if (i % 1000 == 0 && stream_synchronize(a->s, 0) != ST_OK) atomic_fetch_add(&a->r->wrong, 1);
  }
  return NULL;
}

/* They submit, wait and run each other's tasks, one at a time. */
static void producers_share_a_stream(void **state) {
  (void)state;
  static record r;
  memset(&r, 0, sizeof r);
  stream *s = stream_new();
  pthread_t thread[PRODUCERS];
  producer_args args[PRODUCERS];
  for (uint64_t i = 0; i < PRODUCERS; i++) {
    args[i] = (producer_args){s, &r, i};
    assert_int_equal(pthread_create(&thread[i], NULL, produce, &args[i]), 0);
  }
  for (int i = 0; i < PRODUCERS; i++) pthread_join(thread[i], NULL);
  assert_int_equal(stream_synchronize(s, 0), ST_OK);
  assert_int_equal(r.n_run, PRODUCERS * ROUNDS(MANY / 2));
  assert_int_equal(r.wrong, 0);
  stream_destroy(s, false);
}

static void wait_stops_at_its_target(void **state) {
  (void)state;
  record r = {0};
  stream *s = stream_new();
  for (uint64_t i = 0; i < 100; i++) submit(s, &counted, &r, 0, i, 10);
  assert_int_equal(stream_wait(s, 40, 0), ST_OK);
  assert_true(stream_completed(s) >= 40);
  assert_true(r.n_run >= 40);
  stream_destroy(s, false);
  assert_int_equal(r.n_run, 100);
}

/* ---- memory ---- */

static void warm_stream_allocates_nothing(void **state) {
  (void)state;
  static record r;
  memset(&r, 0, sizeof r);
  stream *s = stream_new();
  uint64_t number = 0;
  for (int phase = 0; phase < 2; phase++) {
    atomic_store(&n_allocated, 0);
    for (int round = 0; round < 1000; round++) {
      for (int i = 0; i < 100; i++) submit(s, &counted, &r, 0, number++, 10);
      assert_int_equal(stream_synchronize(s, 0), ST_OK);
    }
  }
  assert_int_equal(atomic_load(&n_allocated), 0);
  assert_int_equal(r.n_run, 2 * MANY);
  assert_int_equal(r.wrong, 0);
  stream_destroy(s, false);
}

/* ---- failures ---- */

static void first_failure_is_kept_and_later_tasks_run(void **state) {
  (void)state;
  record r = {0};
  stream *s = stream_new();
  for (uint64_t i = 0; i < 10; i++) submit(s, i == 3 || i == 5 ? &failing : &counted, &r, 0, i, 10);
  assert_int_equal(stream_synchronize(s, 0), ST_DEVICE_EXCEPTION);
  assert_non_null(strstr(fail_take(), "task 3 went wrong"));
  assert_int_equal(r.n_run, 10);
  assert_int_equal(stream_synchronize(s, 0), ST_OK); /* it was given once */
  submit(s, &failing, &r, 0, 10, 10);
  stream_destroy(s, false); /* with a failure that nobody has taken */
  assert_int_equal(r.n_run, 11);
}

/* ---- blocking ---- */

static void *let_go_later(void *arg) {
  stream *s = arg;
  usleep(20000);
  record *r = s->q.head->tasks[0].host.argument;
  atomic_store(&r->let_go, 1);
  stream_unblock(s);
  return NULL;
}

static void blocked_task_runs_when_it_is_let_go(void **state) {
  (void)state;
  record r = {0};
  stream *s = stream_new();
  pthread_t thread;
  submit(s, &blocking, &r, 0, 0, 10);
  submit(s, &counted, &r, 0, 1, 10);
  assert_int_equal(stream_synchronize(s, 5000000), ST_STREAM_TIMEOUT);
  assert_int_equal(r.n_run, 0);
  assert_false(stream_is_idle(s));
  assert_int_equal(pthread_create(&thread, NULL, let_go_later, s), 0);
  assert_int_equal(stream_synchronize(s, 0), ST_OK);
  assert_int_equal(r.n_run, 2);
  pthread_join(thread, NULL);
  stream_destroy(s, false);
}

/* Nobody waits: the workers find out. */
static void unblocked_stream_goes_on_by_itself(void **state) {
  (void)state;
  record r = {0};
  stream *s = stream_new();
  submit(s, &blocking, &r, 0, 0, TASK_COST_UNKNOWN);
  submit(s, &counted, &r, 0, 1, TASK_COST_UNKNOWN);
  while (!atomic_load(&s->blocked)) usleep(100);
  usleep(2000);
  assert_int_equal(r.n_run, 0);
  atomic_store(&r.let_go, 1);
  stream_unblock(s);
  while (atomic_load(&r.n_run) < 2) usleep(100);
  stream_destroy(s, false);
}

/* ---- ends ---- */

static void discarded_tasks_are_dropped_once(void **state) {
  (void)state;
  record r = {0};
  stream *s = stream_new();
  submit(s, &blocking, &r, 0, 0, 10);
  for (uint64_t i = 1; i < 1000; i++) submit(s, i % 2 ? &counted : &counted_user, &r, 0, i, 10);
  assert_int_equal(stream_wait(s, 1, 1000000), ST_STREAM_TIMEOUT);
  stream_destroy(s, true);
  /* A worker may have been at it: it drops them then. */
  for (int i = 0; i < 10000 && atomic_load(&r.n_dropped) < 1000; i++) usleep(1000);
  assert_int_equal(atomic_load(&r.n_dropped), 1000);
  assert_int_equal(atomic_load(&r.n_run), 0);
}

static void *wait_for_stream(void *arg) { return (void *)(intptr_t)stream_synchronize(arg, 0); }

/* Who waits learns that what it waits for was dropped; what is submitted afterwards is run. */
static void dropped_tasks_wake_who_waits(void **state) {
  (void)state;
  record r = {0};
  stream *s = stream_new();
  pthread_t thread;
  void *result;
  submit(s, &blocking, &r, 0, 0, 10);
  submit(s, &counted_user, &r, 0, 1, 10);
  assert_int_equal(pthread_create(&thread, NULL, wait_for_stream, s), 0);
  while (!atomic_load(&s->sleepers)) usleep(100);
  assert_int_equal(stream_drop_submitted(s), 2);
  pthread_join(thread, &result); /* nobody else runs the stream: the ticker sees to it */
  assert_int_equal((intptr_t)result, ST_DEVICE_ABORT);
  assert_int_equal(atomic_load(&r.n_dropped), 2);
  assert_int_equal(stream_synchronize(s, 0), ST_OK);
  submit(s, &counted, &r, 0, 0, 10);
  assert_int_equal(stream_synchronize(s, 0), ST_OK);
  assert_int_equal(atomic_load(&r.n_run), 1);
  stream_destroy(s, false);
}

/* Streams that come and go with work in them, from several threads. */
static void *come_and_go(void *arg) {
  record *total = arg;
  random_source random = {(uintptr_t)&random};
  for (int round = 0; round < ROUNDS(3000); round++) {
    record r = {0};
    stream *s;
    if (stream_create(the_context, 0, 0, &s) != ST_OK) {
      atomic_fetch_add(&total->wrong, 1);
      continue;
    }
    const uint32_t n = random_below(&random, 300);
    for (uint64_t i = 0; i < n; i++) submit(s, &counted, &r, 0, i, costs[random_below(&random, 3)]);
    object_ref(&s->o);
    stream_destroy(s, round % 2);
    while (stream_completed(s) < n) sched_yield();
    stream_unref(s);
    if (atomic_load(&r.wrong) || atomic_load(&r.n_run) + atomic_load(&r.n_dropped) != (int)n)
      atomic_fetch_add(&total->wrong, 1);
    if (round % 2 == 0 && atomic_load(&r.n_dropped)) atomic_fetch_add(&total->wrong, 1);
  }
  return NULL;
}

static void streams_come_and_go(void **state) {
  (void)state;
  record total = {0};
  pthread_t thread[PRODUCERS];
  for (int i = 0; i < PRODUCERS; i++) assert_int_equal(pthread_create(&thread[i], NULL, come_and_go, &total), 0);
  for (int i = 0; i < PRODUCERS; i++) pthread_join(thread[i], NULL);
  assert_int_equal(atomic_load(&total.wrong), 0);
}

/* ---- events between many streams ---- */

/* A ring in which each stream waits for the one before it: nothing runs before the first event is recorded, and then
 * all in the order of the ring, whoever waits for the last. */
static void waiter_follows_events_from_stream_to_stream(void **state) {
  (void)state;
  enum { RING = 60 }; /* more than a waiter follows by itself */
  static record r;
  memset(&r, 0, sizeof r);
  stream *s[RING];
  event *e[RING];
  for (int i = 0; i < RING; i++) {
    s[i] = stream_new();
    assert_int_equal(event_create(the_context, EVENT_PLAIN, EVENT_SYNC, &e[i]), ST_OK);
  }
  for (int i = RING - 1; i > 0; i--) {
    assert_int_equal(event_wait(e[i - 1], s[i], 0), ST_OK);
    submit(s[i], &counted, &r, 0, (uint64_t)i, 10);
    assert_int_equal(event_record(e[i], s[i]), ST_OK);
  }
  assert_int_equal(stream_synchronize(s[RING - 1], 2000000), ST_STREAM_TIMEOUT);
  assert_int_equal(r.n_run, 0);
  submit(s[0], &counted, &r, 0, 0, 10);
  assert_int_equal(event_record(e[0], s[0]), ST_OK);
  assert_int_equal(stream_synchronize(s[RING - 1], 0), ST_OK);
  assert_int_equal(r.n_run, RING);
  assert_int_equal(r.wrong, 0);
  for (int i = 0; i < RING; i++) {
    event_unref(e[i]);
    stream_destroy(s[i], false);
  }
}

static event *event_new(void) {
  event *e = NULL;
  assert_int_equal(event_create(the_context, EVENT_PLAIN, EVENT_SYNC, &e), ST_OK);
  return e;
}

/* A wait for a record that was undone is for the next one that is reached, also where that was before the reset. */
static void reset_ends_waits_for_what_it_undoes(void **state) {
  (void)state;
  record before_record = {0}, before_reset = {0};
  stream *late = stream_new(), *early = stream_new(), *resets = stream_new(), *waits = stream_new();
  event *e = event_new();
  submit(late, &blocking, &before_record, 0, 0, 10);
  assert_int_equal(event_record(e, late), ST_OK);
  assert_int_equal(event_wait(e, waits, 0), ST_OK);
  submit(resets, &blocking, &before_reset, 0, 0, 10);
  assert_int_equal(event_reset(e, resets), ST_OK);
  assert_int_equal(event_record(e, early), ST_OK);
  assert_int_equal(stream_synchronize(early, 0), ST_OK);
  assert_int_equal(stream_synchronize(waits, 2000000), ST_STREAM_TIMEOUT);
  assert_int_equal(stream_synchronize(resets, 2000000), ST_STREAM_TIMEOUT);
  atomic_store(&before_reset.let_go, 1);
  stream_unblock(resets);
  assert_int_equal(stream_synchronize(resets, 0), ST_OK);
  assert_int_equal(stream_synchronize(waits, 2000000000), ST_OK);
  assert_int_equal(stream_synchronize(late, 2000000), ST_STREAM_TIMEOUT);
  atomic_store(&before_record.let_go, 1);
  stream_unblock(late);
  assert_int_equal(stream_synchronize(late, 0), ST_OK);
  event_unref(e);
  stream_destroy(late, false);
  stream_destroy(early, false);
  stream_destroy(resets, false);
  stream_destroy(waits, false);
}

/* A wait that clears the number may be what another one waits for. */
static void wait_that_clears_lets_others_pass(void **state) {
  (void)state;
  notify *n;
  stream *clears = stream_new(), *waits = stream_new();
  assert_int_equal(notify_create(0, true, &n), ST_OK);
  assert_int_equal(notify_record(n, RECORD_SET, 10, clears), ST_OK);
  assert_int_equal(stream_synchronize(clears, 0), ST_OK);
  assert_int_equal(notify_wait(n, WAIT_LESS, 5, false, 0, waits), ST_OK);
  assert_int_equal(stream_synchronize(waits, 2000000), ST_STREAM_TIMEOUT);
  assert_int_equal(notify_wait(n, WAIT_GREATER, 8, true, 0, clears), ST_OK);
  assert_int_equal(stream_synchronize(clears, 0), ST_OK);
  assert_int_equal(stream_synchronize(waits, 2000000000), ST_OK);
  notify_unref(n);
  stream_destroy(clears, false);
  stream_destroy(waits, false);
}

static void waits_that_ended_otherwise_are_over(void **state) {
  (void)state;
  stream *s = stream_new();
  event *e = event_new();
  assert_int_equal(event_wait(e, s, 0), ST_OK);
  assert_int_equal(stream_synchronize(s, 2000000), ST_STREAM_TIMEOUT);
  assert_false(event_waits_are_complete(e));
  stream_drop_submitted(s);
  const status st = stream_wait(s, 1, 0);
  assert_true(st == ST_DEVICE_ABORT || st == ST_OK); /* OK if a worker has dropped the task before the wait began */
  assert_true(event_waits_are_complete(e));
  assert_int_equal(event_wait(e, s, 2000000), ST_OK);
  assert_int_equal(stream_synchronize(s, 0), ST_WAIT_TIMEOUT);
  assert_true(event_waits_are_complete(e));
  event_unref(e);
  stream_destroy(s, false);
}

typedef struct {
  event *e;
  stream *s;
} record_args;

static void *record_and_wait(void *arg) {
  const record_args *a = arg;
  event_record(a->e, a->s);
  return (void *)(intptr_t)stream_synchronize(a->s, 0);
}

/* A record has taken two streams off the event's list, and is about to unblock them when the second one's wait is
 * dropped and it comes to another: that one is not ended by it. */
static void late_unblock_ends_no_other_wait(void **state) {
  (void)state;
  stream *first = stream_new(), *second = stream_new(), *recorder = stream_new();
  event *e = event_new(), *other = event_new();
  pthread_t thread, waiter;
  assert_int_equal(event_wait(e, first, 0), ST_OK);
  assert_int_equal(stream_synchronize(first, 2000000), ST_STREAM_TIMEOUT);
  assert_int_equal(event_wait(e, second, 0), ST_OK);
  assert_int_equal(stream_synchronize(second, 2000000), ST_STREAM_TIMEOUT);
  atomic_store(&at_rouse, STOPS_NEXT);
  record_args args = {e, recorder};
  assert_int_equal(pthread_create(&thread, NULL, record_and_wait, &args), 0);
  while (atomic_load(&at_rouse) != STOPPED) usleep(100); /* the first is unblocked, the second is not yet */
  stream_drop_submitted(second);
  assert_int_equal(event_wait(other, second, 0), ST_OK);
  assert_int_equal(pthread_create(&waiter, NULL, wait_for_stream, second), 0);
  usleep(20000);
  atomic_store(&at_rouse, PASSES);
  void *result;
  pthread_join(thread, &result);
  assert_int_equal((intptr_t)result, ST_OK);
  while (atomic_load(&second->waits_for) != other || !atomic_load(&second->sleepers)) usleep(100);
  usleep(5000);
  spin_lock(&other->o.lock);
  const bool blocked = atomic_load(&second->blocked), once = other->waiters == second && !second->next_waiter;
  spin_unlock(&other->o.lock);
  assert_true(blocked);
  assert_true(once);
  assert_int_equal(event_record(other, recorder), ST_OK);
  assert_int_equal(stream_synchronize(recorder, 0), ST_OK);
  pthread_join(waiter, &result);
  assert_int_equal((intptr_t)result, ST_OK);
  assert_int_equal(stream_synchronize(first, 0), ST_OK);
  event_unref(e);
  event_unref(other);
  stream_destroy(first, false);
  stream_destroy(second, false);
  stream_destroy(recorder, false);
}

/* ---- checks of invariants ---- */

#ifdef CANNON_INVARIANTS
/* The field's value is wrong for as long as the check is made. */
#  define FINDS(check, field, wrong)                                                                                   \
    do {                                                                                                               \
      const __auto_type good = (field);                                                                                \
      (field) = (wrong);                                                                                               \
      const bool found = !(check);                                                                                     \
      (field) = good;                                                                                                  \
      assert_true(found);                                                                                              \
      assert_true(check);                                                                                              \
    } while (0)

static void stream_checks_find_what_does_not_agree(void **state) {
  (void)state;
  record r = {0};
  stream *s = stream_new();
  submit(s, &blocking, &r, 0, 0, 10);
  submit(s, &counted, &r, 0, 1, 10);
  assert_int_equal(stream_synchronize(s, 2000000), ST_STREAM_TIMEOUT);
  spin_lock(&s->submit_lock);
  assert_true(stream_submission_is_valid(s));
  FINDS(stream_submission_is_valid(s), s->closed, true);
  FINDS(stream_submission_is_valid(s), s->retired_cost_ns, 1000);
  FINDS(stream_submission_is_valid(s), s->q.tail_index, 1);
  FINDS(stream_submission_is_valid(s), s->device, 1);
  FINDS(stream_submission_is_valid(s), s->submit_lock.held, 0);
  spin_unlock(&s->submit_lock);
  while (!spin_trylock(&s->run_lock)) usleep(100);
  assert_true(stream_running_is_valid(s));
  FINDS(stream_running_is_valid(s), s->q.next, 2);
  FINDS(stream_running_is_valid(s), s->q.completed, 1);
  FINDS(stream_running_is_valid(s), s->kept_below, 1);
  FINDS(stream_running_is_valid(s), s->run_lock.held, 0);
  atomic_store(&s->blocked, false);
  FINDS(stream_running_is_valid(s), s->waits_for, (event *)s);
  atomic_store(&r.let_go, 1);
  spin_unlock(&s->run_lock);
  assert_int_equal(stream_synchronize(s, 0), ST_OK);
  while (!spin_trylock(&s->run_lock)) usleep(100);
  FINDS(stream_running_is_valid(s), s->blocked, true); /* with nothing to run */
  spin_unlock(&s->run_lock);
  stream_destroy(s, false);
}

static void event_check_finds_what_does_not_agree(void **state) {
  (void)state;
  record r = {0};
  stream *s = stream_new(), *waits = stream_new();
  event *e = event_new();
  submit(s, &blocking, &r, 0, 0, 10);
  assert_int_equal(event_record(e, s), ST_OK);
  assert_int_equal(event_record(e, s), ST_OK);
  assert_int_equal(event_wait(e, waits, 0), ST_OK);
  assert_int_equal(stream_synchronize(waits, 2000000), ST_STREAM_TIMEOUT);
  spin_lock(&e->o.lock);
  assert_true(event_is_valid(e));
  FINDS(event_is_valid(e), e->submitted, 1);
  FINDS(event_is_valid(e), e->completed, 3);
  FINDS(event_is_valid(e), e->reset_floor, 3);
  FINDS(event_is_valid(e), e->n_waits_done, 2);
  FINDS(event_is_valid(e), e->last_open, e->first_open);
  FINDS(event_is_valid(e), e->first_open->sync.next, NULL);
  FINDS(event_is_valid(e), e->first_open->sync.generation, 2);
  FINDS(event_is_valid(e), waits->waits_for, NULL);
  FINDS(event_is_valid(e), waits->waits_generation, 0);
  spin_unlock(&e->o.lock);
  atomic_store(&r.let_go, 1);
  stream_unblock(s);
  assert_int_equal(stream_synchronize(waits, 0), ST_OK);
  assert_int_equal(stream_synchronize(s, 0), ST_OK);
  event_unref(e);
  stream_destroy(s, false);
  stream_destroy(waits, false);
}

static void notify_check_finds_what_does_not_agree(void **state) {
  (void)state;
  notify *n;
  stream *waits = stream_new();
  assert_int_equal(notify_create(0, false, &n), ST_OK);
  assert_int_equal(notify_wait(n, WAIT_EQUAL, 1, true, 0, waits), ST_OK);
  assert_int_equal(stream_synchronize(waits, 2000000), ST_STREAM_TIMEOUT);
  spin_lock(&n->o.lock);
  assert_true(notify_is_valid(n));
  FINDS(notify_is_valid(n), n->value, 1); /* the stream should have been unblocked */
  FINDS(notify_is_valid(n), n->value, 2);
  FINDS(notify_is_valid(n), waits->waits_task, NULL);
  spin_unlock(&n->o.lock);
  assert_int_equal(notify_record(n, RECORD_SET, 1, waits), ST_OK); /* behind the wait: for nobody */
  stream_destroy(waits, true);
  notify_unref(n);
}

static void list_checks_find_what_does_not_agree(void **state) {
  (void)state;
  stream *s = stream_new();
  mutex_lock(&the_context->lock);
  assert_true(context_is_valid(the_context));
  FINDS(context_is_valid(the_context), s->home, NULL);
  FINDS(context_is_valid(the_context), s->context, NULL);
  FINDS(context_is_valid(the_context), s->next_in_context, s);
  FINDS(context_is_valid(the_context), s->device, 1);
  FINDS(context_is_valid(the_context), the_context->default_stream, (stream *)the_context);
  mutex_unlock(&the_context->lock);
  assert_true(thread_is_valid());
  FINDS(thread_is_valid(), thread_own.streams[0],
        thread_place(s) == &thread_own.streams[0] ? (stream *)((char *)s + 512) : s);
  stream_destroy(s, false);
}

static const task_kind kept = {.name = "kept", .run = run_counted, .captured = &kept};

static void graph_checks_find_what_does_not_agree(void **state) {
  (void)state;
  record r = {0};
  graph *g;
  stream *s = stream_new(), *joins = stream_new();
  event *e, *back;
  assert_int_equal(event_create(the_context, EVENT_EX, EVENT_SYNC, &e), ST_OK);
  assert_int_equal(event_create(the_context, EVENT_EX, EVENT_SYNC, &back), ST_OK);
  assert_int_equal(capture_begin(s, CAPTURE_RELAXED), ST_OK);
  submit(s, &kept, &r, 0, 0, 10);
  submit(s, &kept, &r, 0, 1, 10);
  assert_int_equal(event_record(e, s), ST_OK);
  assert_int_equal(event_wait(e, joins, 0), ST_OK);
  submit(joins, &kept, &r, 1, 0, 10);
  assert_int_equal(event_record(back, joins), ST_OK);
  assert_int_equal(event_wait(back, s, 0), ST_OK);
  assert_true(captures_are_valid());
  capture *c = s->recording->capture;
  FINDS(captures_are_valid(), capture_n_active, 0);
  FINDS(captures_are_valid(), c->graph->capturing, false);
  FINDS(captures_are_valid(), c->origin, joins->recording);
  FINDS(captures_are_valid(), joins->recording, s->recording);
  FINDS(captures_are_valid(), c->lanes->number, 2);
  assert_int_equal(capture_end(s, &g), ST_OK);
  assert_true(graph_is_valid(g));
  FINDS(graph_is_valid(g), g->lanes[0].n_stepped, 1);
  FINDS(graph_is_valid(g), g->lanes[0].tasks[1].id, 0);
  FINDS(graph_is_valid(g), g->lanes[1].stream, NULL);
  FINDS(graph_is_valid(g), g->lanes[0].n_tasks, g->lanes[0].n_room + 1);
  FINDS(graph_is_valid(g), g->steps[0].lane, 2);
  FINDS(graph_is_valid(g), g->steps[0].tasks.first, 1);
  FINDS(graph_is_valid(g), g->steps[1].sync.waited, false);
  FINDS(graph_is_valid(g), g->steps[2].sync.record, 2);
  FINDS(graph_is_valid(g), g->steps[2].sync.event, NULL);
  FINDS(graph_is_valid(g), g->done, NULL);
  assert_int_equal(graph_execute(g, s), ST_OK);
  assert_int_equal(stream_synchronize(s, 0), ST_OK);
  assert_int_equal(r.n_run, 3);
  assert_int_equal(graph_destroy(g), ST_OK);
  event_unref(e);
  event_unref(back);
  stream_destroy(s, false);
  stream_destroy(joins, false);
}
#endif

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tasks_run_once_and_in_order),
      cmocka_unit_test(producers_share_a_stream),
      cmocka_unit_test(wait_stops_at_its_target),
      cmocka_unit_test(warm_stream_allocates_nothing),
      cmocka_unit_test(first_failure_is_kept_and_later_tasks_run),
      cmocka_unit_test(blocked_task_runs_when_it_is_let_go),
      cmocka_unit_test(unblocked_stream_goes_on_by_itself),
      cmocka_unit_test(discarded_tasks_are_dropped_once),
      cmocka_unit_test(dropped_tasks_wake_who_waits),
      cmocka_unit_test(streams_come_and_go),
      cmocka_unit_test(waiter_follows_events_from_stream_to_stream),
      cmocka_unit_test(reset_ends_waits_for_what_it_undoes),
      cmocka_unit_test(wait_that_clears_lets_others_pass),
      cmocka_unit_test(waits_that_ended_otherwise_are_over),
      cmocka_unit_test(late_unblock_ends_no_other_wait),
#ifdef CANNON_INVARIANTS
      cmocka_unit_test(stream_checks_find_what_does_not_agree),
      cmocka_unit_test(event_check_finds_what_does_not_agree),
      cmocka_unit_test(notify_check_finds_what_does_not_agree),
      cmocka_unit_test(list_checks_find_what_does_not_agree),
      cmocka_unit_test(graph_checks_find_what_does_not_agree),
#endif
  };
  return cmocka_run_group_tests(tests, up, down);
}
