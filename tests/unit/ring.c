/* SPDX-License-Identifier: Apache-2.0 */
/* The ring between producers and consumers (feed/ring.h). */
#include "feed/ring.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "unit.h"

enum { NOW_NS = 1 };

static void claim(ring *r, uint64_t want, uint32_t n_pieces) {
  for (uint32_t i = 0; i < n_pieces; ++i) {
    uint64_t sequence;
    uint32_t piece;
    assert_int_equal(ring_claim(r, &sequence, &piece), RING_OK);
    assert_int_equal(sequence, want);
    assert_int_equal(piece, i);
  }
}

static void finish(ring *r, uint64_t number, uint32_t n_pieces) {
  for (uint32_t i = 0; i < n_pieces; ++i) ring_done(r, number);
}

static void fill(ring *r, uint64_t number, uint32_t n_pieces) {
  claim(r, number, n_pieces);
  finish(r, number, n_pieces);
}

static void publish(ring *r, uint64_t want) {
  uint64_t sequence;
  assert_true(ring_leave(r, &sequence));
  assert_int_equal(sequence, want);
  assert_false(ring_leave(r, &sequence)); /* one at a time */
  ring_publish(r, want);
}

static void slots_are_taken_in_order(void **state) {
  (void)state;
  ring *r;
  uint64_t sequence;
  assert_int_equal(ring_create(3, 2, &r), ST_OK);
  assert_int_equal(ring_take(r, NOW_NS, &sequence), RING_TIMEOUT);
  claim(r, 0, 2);
  claim(r, 1, 2);
  finish(r, 1, 2);
  finish(r, 0, 1);
  assert_false(ring_leave(r, &sequence)); /* 0 comes first, and lacks a piece */
  finish(r, 0, 1);
  publish(r, 0);
  publish(r, 1);
  assert_int_equal(ring_take(r, 0, &sequence), RING_OK);
  assert_int_equal(sequence, 0);
  assert_int_equal(ring_take(r, 0, &sequence), RING_OK);
  assert_int_equal(sequence, 1);
  fill(r, 2, 2);
  publish(r, 2);
  assert_int_equal(ring_take(r, 0, &sequence), RING_OK);
  assert_int_equal(ring_take(r, 0, &sequence), RING_HELD); /* the next one would need the slot of 0 */
  assert_true(ring_release(r, 1));
  assert_false(ring_release(r, 1));
  assert_int_equal(ring_take(r, 0, &sequence), RING_HELD);
  assert_true(ring_release(r, 0));
  fill(r, 3, 2);
  fill(r, 4, 2);
  publish(r, 3);
  ring_end(r, 4); /* 4 has failed */
  ring_end(r, 5);
  assert_int_equal(ring_take(r, 0, &sequence), RING_OK);
  assert_int_equal(ring_take(r, 0, &sequence), RING_ENDED);
  assert_int_equal(ring_claim(r, &sequence, &(uint32_t){0}), RING_ENDED);
  ring_stop(r);
  assert_true(ring_is_stopped(r));
  assert_int_equal(ring_take(r, 0, &sequence), RING_STOPPED);
  assert_int_equal(ring_claim(r, &sequence, &(uint32_t){0}), RING_STOPPED);
  assert_true(ring_is_valid(r));
  ring_free(r);
}

/* Producers and a consumer go as fast as they can. Each piece is done once, no slot is filled while it is taken. */
enum { SLOTS = 3, PIECES = 4, LAST = ROUNDS(20000) };
typedef struct {
  ring *r;
  atomic_int taken[SLOTS];
  atomic_int pieces[SLOTS];
  atomic_int faults;
} traffic;

static void *produce(void *argument) {
  traffic *t = argument;
  uint64_t sequence;
  uint32_t piece;
  while (ring_claim(t->r, &sequence, &piece) == RING_OK) {
    const int i = (int)(sequence % SLOTS);
    if (atomic_load(&t->taken[i])) atomic_fetch_add(&t->faults, 1);
    atomic_fetch_add(&t->pieces[i], 1);
    if (piece == 1) sched_yield();
    ring_done(t->r, sequence);
    for (uint64_t next; ring_leave(t->r, &next);) ring_publish(t->r, next);
  }
  return NULL;
}

static void threads_share_the_pieces(void **state) {
  (void)state;
  traffic t = {0};
  pthread_t threads[4];
  uint64_t sequence;
  assert_int_equal(ring_create(SLOTS, PIECES, &t.r), ST_OK);
  ring_end(t.r, LAST);
  for (size_t i = 0; i < COUNT(threads); ++i) assert_int_equal(pthread_create(&threads[i], NULL, produce, &t), 0);
  uint64_t next = 0;
  for (ring_result result; (result = ring_take(t.r, 0, &sequence)) != RING_ENDED; ++next) {
    const int i = (int)(sequence % SLOTS);
    if (result != RING_OK || sequence != next || atomic_exchange(&t.pieces[i], 0) != PIECES)
      atomic_fetch_add(&t.faults, 1);
    atomic_store(&t.taken[i], 1);
    if (sequence % 7 == 0) sched_yield();
    atomic_store(&t.taken[i], 0);
    ring_release(t.r, sequence);
  }
  for (size_t i = 0; i < COUNT(threads); ++i) pthread_join(threads[i], NULL);
  assert_int_equal(next, LAST);
  assert_int_equal(atomic_load(&t.faults), 0);
  assert_true(ring_is_valid(t.r));
  ring_free(t.r);
}

/* Wherever it comes, a stop ends all waits. */
static void a_stop_ends_all_waits(void **state) {
  (void)state;
  for (int round = 0; round < ROUNDS(300); ++round) {
    traffic t = {0};
    pthread_t threads[3];
    uint64_t sequence;
    assert_int_equal(ring_create(SLOTS, PIECES, &t.r), ST_OK);
    for (size_t i = 0; i < COUNT(threads); ++i) assert_int_equal(pthread_create(&threads[i], NULL, produce, &t), 0);
    for (int i = 0; i < round % 17; ++i)
      if (ring_take(t.r, 0, &sequence) == RING_OK) ring_release(t.r, sequence);
    ring_stop(t.r);
    for (size_t i = 0; i < COUNT(threads); ++i) pthread_join(threads[i], NULL);
    assert_int_equal(ring_take(t.r, 0, &sequence), RING_STOPPED);
    ring_free(t.r);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(slots_are_taken_in_order),
      cmocka_unit_test(threads_share_the_pieces),
      cmocka_unit_test(a_stop_ends_all_waits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
