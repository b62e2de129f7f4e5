/* SPDX-License-Identifier: Apache-2.0 */
/* Handles: live ones are known, stale and foreign ones too, and slots are reused as late as possible. */
#include "runtime/object.h"

#include <pthread.h>

#include "runtime/wait/event.h"
#include "unit.h"

/* Slots are reused only when more than this many are free. */
enum { KEPT_FREE = 64 };

/* As the maker of a handle does. */
static void *make(object_kind kind) {
  object *o = object_new(kind);
  if (o) object_publish(o);
  return o;
}

/* The object of a handle, if that is live now. */
static void *live(object_kind kind, const void *handle) {
  object *o = object_acquire(kind, handle);
  if (o) object_unref(o);
  return o;
}

static void drop(object_kind kind, object *o) {
  assert_true(object_kill(o));
  assert_true(object_unref(o));
  object_release(kind, o);
}

static void handles_are_told_apart(void **state) {
  (void)state;
  int local = 0;
  assert_null(live(OBJECT_EVENT, &local)); /* there is no table yet */
  assert_null(live(OBJECT_EVENT, NULL));
  event *e = make(OBJECT_EVENT);
  assert_non_null(e);
  assert_ptr_equal(live(OBJECT_EVENT, e), e);
  assert_null(live(OBJECT_STREAM, e));
  assert_null(live(OBJECT_CONTEXT, e));
  assert_null(live(OBJECT_EVENT, NULL));
  assert_null(live(OBJECT_EVENT, &local));
  for (int d = 1; d < 256; d++) {
    assert_null(live(OBJECT_EVENT, (char *)e + d));
    assert_null(live(OBJECT_EVENT, (char *)e - d));
  }
  assert_null(live(OBJECT_EVENT, (char *)e + 256)); /* a slot that was never used */
  assert_null(live(OBJECT_EVENT, (char *)e - 256)); /* before the table */
  assert_null(live(OBJECT_EVENT, (void *)UINTPTR_MAX));
  assert_true(object_kill(&e->o));
  assert_null(live(OBJECT_EVENT, e));
  assert_false(object_kill(&e->o));
  assert_true(object_unref(&e->o));
  object_release(OBJECT_EVENT, &e->o);
  assert_null(live(OBJECT_EVENT, e));
}

/* What its maker has not completed, no handle means, whatever slot it got. */
static void unpublished_object_has_no_handle(void **state) {
  (void)state;
  event *e = object_new(OBJECT_EVENT);
  assert_null(object_acquire(OBJECT_EVENT, e));
  object_publish(&e->o);
  assert_ptr_equal(object_acquire(OBJECT_EVENT, e), e);
  assert_false(object_unref(&e->o));
  drop(OBJECT_EVENT, &e->o);
}

/* A call that has begun keeps what it uses, and the slot, when another thread destroys the handle. */
static void reference_outlives_the_handle(void **state) {
  (void)state;
  event *e = make(OBJECT_EVENT), *held = object_acquire(OBJECT_EVENT, e);
  assert_true(object_kill(&e->o));
  event_unref(e);
  assert_null(object_acquire(OBJECT_EVENT, e));
  for (int i = 0; i < 4 * KEPT_FREE; i++) {
    event *other = make(OBJECT_EVENT);
    assert_ptr_not_equal(other, held);
    drop(OBJECT_EVENT, &other->o);
  }
  assert_true(object_ref_again(&held->o));
  event_unref(held);
  event_unref(held);
  assert_false(object_ref_again(&held->o));
}

static void last_reference_frees(void **state) {
  (void)state;
  event *e = make(OBJECT_EVENT);
  object_ref(&e->o);
  object_ref(&e->o);
  assert_false(object_unref(&e->o));
  assert_true(object_kill(&e->o));
  assert_false(object_unref(&e->o));
  assert_true(object_unref(&e->o));
  object_release(OBJECT_EVENT, &e->o);
}

static void new_objects_are_blank(void **state) {
  (void)state;
  static const char blank[sizeof(event)];
  uint64_t last = 0;
  for (int i = 0; i < 1000; i++) {
    event *e = make(OBJECT_EVENT);
    assert_memory_equal(&e->o + 1, blank, sizeof *e - sizeof e->o);
    assert_true(e->o.serial > last);
    last = e->o.serial;
    memset(&e->o + 1, 0xff, sizeof *e - sizeof e->o);
    drop(OBJECT_EVENT, &e->o);
  }
}

/* The order of release is the order of reuse, and a stale handle stays stale for KEPT_FREE further releases. */
static void oldest_slot_is_reused_first(void **state) {
  (void)state;
  enum { N = 200 };
  object *o[N];
  int order[N];
  random_source random = {4};
  for (int i = 0; i < N; i++) {
    o[i] = make(OBJECT_STREAM);
    order[i] = i;
  }
  for (int i = N - 1; i > 0; i--) {
    const int k = (int)random_below(&random, (uint32_t)i + 1), was = order[i];
    order[i] = order[k];
    order[k] = was;
  }
  for (int i = 0; i < N; i++) drop(OBJECT_STREAM, o[order[i]]);
  for (int i = 0; i < N; i++) assert_null(live(OBJECT_STREAM, o[i]));
  object *again[N];
  for (int i = 0; i < N; i++) {
    again[i] = make(OBJECT_STREAM);
    if (i < N - KEPT_FREE)
      assert_ptr_equal(again[i], o[order[i]]);
    else
      for (int k = 0; k < N; k++) assert_ptr_not_equal(again[i], o[k]);
  }
  for (int i = 0; i < N; i++) drop(OBJECT_STREAM, again[i]);
}

static void full_table_refuses_and_recovers(void **state) {
  (void)state;
  enum { CAPACITY = 1 << 14 };
  object **o = calloc(CAPACITY, sizeof *o);
  for (int i = 0; i < CAPACITY; i++) assert_non_null(o[i] = make(OBJECT_CONTEXT));
  assert_null(make(OBJECT_CONTEXT));
  drop(OBJECT_CONTEXT, o[77]);
  assert_ptr_equal(make(OBJECT_CONTEXT), o[77]); /* the last resort */
  assert_null(make(OBJECT_CONTEXT));
  for (int i = 0; i < CAPACITY; i++) drop(OBJECT_CONTEXT, o[i]);
  free(o);
}

#ifdef CANNON_INVARIANTS
static void check_finds_a_free_slot_in_use(void **state) {
  (void)state;
  enum { N = 5 };
  object *o[N];
  for (int i = 0; i < N; i++) o[i] = make(OBJECT_GRAPH);
  for (int i = 0; i < N; i++) drop(OBJECT_GRAPH, o[i]);
  assert_true(object_table_is_valid(OBJECT_GRAPH));
  for (int i = 0; i < N; i++) {
    atomic_store(&o[i]->refs, 1);
    assert_false(object_table_is_valid(OBJECT_GRAPH));
    atomic_store(&o[i]->refs, 0);
    atomic_store(&o[i]->live, 1);
    assert_false(object_table_is_valid(OBJECT_GRAPH));
    atomic_store(&o[i]->live, 0);
    object *const next = o[i]->next_free;
    o[i]->next_free = o[0]; /* a circle */
    assert_false(object_table_is_valid(OBJECT_GRAPH));
    o[i]->next_free = (object *)((char *)o[i] + 8); /* no slot */
    assert_false(object_table_is_valid(OBJECT_GRAPH));
    if (next) {
      o[i]->next_free = NULL; /* fewer than are counted */
      assert_false(object_table_is_valid(OBJECT_GRAPH));
    }
    o[i]->next_free = next;
    assert_true(object_table_is_valid(OBJECT_GRAPH));
  }
}
#endif

/* ---- threads ---- */

enum { THREADS = 4, HELD = 50 };
static atomic_int wrong;
static _Atomic uint64_t foreign; /* a handle of some thread's, which it may drop at any time */

static void *make_and_drop(void *seed) {
  random_source random = {(uintptr_t)seed};
  event *held[HELD] = {NULL};
  for (int round = 0; round < ROUNDS(200000); round++) {
    event **e = &held[random_below(&random, HELD)];
    if (*e) {
      event *again = object_acquire(OBJECT_EVENT, *e);
      wrong += again != *e || (*e)->submitted != (uintptr_t)e;
      if (again) event_unref(again);
      wrong += !object_kill(&(*e)->o);
      wrong += object_acquire(OBJECT_EVENT, *e) != NULL; /* ours is not released yet */
      event_unref(*e);
      *e = NULL;
    } else if ((*e = make(OBJECT_EVENT))) {
      wrong += (*e)->submitted != 0;
      (*e)->submitted = (uintptr_t)e;
      atomic_store(&foreign, (uintptr_t)*e);
    }
    event *other = object_acquire(OBJECT_EVENT, (void *)(uintptr_t)atomic_load(&foreign));
    if (other) {
      wrong += !other->o.refs;
      event_unref(other);
    }
  }
  for (int i = 0; i < HELD; i++)
    if (held[i]) drop(OBJECT_EVENT, &held[i]->o);
  return NULL;
}

static void threads_share_the_table(void **state) {
  (void)state;
  pthread_t thread[THREADS];
  for (uintptr_t i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&thread[i], NULL, make_and_drop, (void *)(i + 1)), 0);
  for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
  assert_int_equal(atomic_load(&wrong), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(handles_are_told_apart),
      cmocka_unit_test(reference_outlives_the_handle),
      cmocka_unit_test(unpublished_object_has_no_handle),
      cmocka_unit_test(last_reference_frees),
      cmocka_unit_test(new_objects_are_blank),
      cmocka_unit_test(oldest_slot_is_reused_first),
      cmocka_unit_test(full_table_refuses_and_recovers),
      cmocka_unit_test(threads_share_the_table),
#ifdef CANNON_INVARIANTS
      cmocka_unit_test(check_finds_a_free_slot_in_use),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
