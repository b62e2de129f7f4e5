/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of a stream: tasks in order, in a chain of segments. Used by stream.c only.
 *
 * A position counts the tasks of the queue from 0. Producers hold the stream's submit lock, consumers its run lock; a
 * producer and a consumer share only `submitted` and `completed`, and need no common lock. One drained segment is kept
 * for the producers, so that a stream in steady state allocates nothing. A queue that was never used has no segment. */
#ifndef CANNON_RUNTIME_QUEUE_H
#define CANNON_RUNTIME_QUEUE_H

#include <stdatomic.h>
#include <stdlib.h>

#include "base/invariant.h"
#include "runtime/task.h"

enum { SEGMENT_TASKS = 127 };

typedef struct segment {
  struct segment *next;
  uint64_t *submitted_ns; /* in dry runs: when each task was submitted, by the host's clock (dry_clock.h); malloc'ed.
                             NULL: at 0 */
  char padding[48];
  task tasks[SEGMENT_TASKS];
} segment;

typedef struct {
  /* Written by producers. */
  _Alignas(64) _Atomic uint64_t submitted; /* tasks at positions below this were pushed */
  segment *tail;
  uint32_t tail_index;
  /* Written by consumers. */
  _Alignas(64) _Atomic uint64_t completed; /* tasks at positions below this are done; stored once for a batch of
                                              tasks */
  uint64_t next;                           /* position of the front, the first task that is not done; only for
                                              consumers */
  segment *head;
  uint32_t head_index;
  segment *_Atomic spare; /* a drained segment, or NULL; exchanged by both sides */
} queue;

static inline void segment_free(segment *s) {
  if (s) free(s->submitted_ns);
  free(s);
}

/* The slot of the next task, which the producer fills and then pushes. Until it is pushed, the same slot is returned
 * again. NULL if there is no host memory. */
static inline task *queue_slot(queue *q) {
  if (unlikely(!q->tail || q->tail_index == SEGMENT_TASKS)) {
    segment *fresh = atomic_exchange_explicit(&q->spare, NULL, memory_order_acquire);
    if (!fresh) {
      fresh = aligned_alloc(64, sizeof *fresh);
      if (!fresh) return NULL;
      fresh->submitted_ns = NULL;
    }
    fresh->next = NULL;
    if (q->tail)
      q->tail->next = fresh;
    else
      q->head = fresh;
    q->tail = fresh;
    q->tail_index = 0;
  }
  return &q->tail->tasks[q->tail_index];
}

/* Publishes the slot as the task at position `submitted`. */
static inline void queue_push(queue *q) {
  INVARIANT(q->tail && q->tail_index < SEGMENT_TASKS && q->tail->tasks[q->tail_index].kind);
  ++q->tail_index;
  const uint64_t n = atomic_load_explicit(&q->submitted, memory_order_relaxed) + 1;
  atomic_store_explicit(&q->submitted, n, memory_order_release);
}

/* The front task, at position q->next, which must be below `submitted`. */
static inline task *queue_front(queue *q) {
  INVARIANT(q->next < atomic_load_explicit(&q->submitted, memory_order_acquire));
  if (unlikely(q->head_index == SEGMENT_TASKS)) {
    segment *drained = q->head;
    q->head = drained->next;
    INVARIANT(q->head);
    q->head_index = 0;
    segment_free(atomic_exchange_explicit(&q->spare, drained, memory_order_release));
  }
  return &q->head->tasks[q->head_index];
}

/* The task n < SEGMENT_TASKS positions behind the front, which queue_front() has returned; NULL: there is none yet. */
static inline task *queue_peek(queue *q, uint32_t n) {
  if (q->next + n >= atomic_load_explicit(&q->submitted, memory_order_acquire)) return NULL;
  const uint32_t at = q->head_index + n;
  return at < SEGMENT_TASKS ? &q->head->tasks[at] : &q->head->next->tasks[at - SEGMENT_TASKS];
}

/* The front task is done. */
static inline void queue_pop(queue *q) {
  INVARIANT(q->head_index < SEGMENT_TASKS);
  ++q->head_index;
  ++q->next;
}

/* Notes when the task that is about to be pushed was submitted; without memory it was so at 0. */
__attribute__((cold)) static inline void queue_note_ns(queue *q, uint64_t ns) {
  segment *s = q->tail;
  if (!s->submitted_ns && ns) s->submitted_ns = calloc(SEGMENT_TASKS, sizeof *s->submitted_ns);
  if (s->submitted_ns) s->submitted_ns[q->tail_index] = ns;
}

/* What was noted of the front task. */
static inline uint64_t queue_front_ns(const queue *q) {
  return q->head->submitted_ns ? q->head->submitted_ns[q->head_index] : 0;
}

/* Frees the segments. The queue is empty, and nobody uses it any more. */
static inline void queue_free(queue *q) {
  INVARIANT(q->next == atomic_load_explicit(&q->submitted, memory_order_relaxed));
  for (segment *s = q->head, *next; s; s = next) { /* two if a slot that was never pushed began one */
    next = s->next;
    segment_free(s);
  }
  segment_free(q->spare);
}

/* ---- checks of invariants (base/invariant.h) --------------------------------------------------------------------- */

/* Checks what producers write. The caller is a producer. All segments but the last are full, so that the index in the
 * last one follows from the position. */
static inline bool queue_producer_is_valid(const queue *q) {
  const uint64_t completed = atomic_load(&q->completed), submitted = atomic_load(&q->submitted);
  if (!q->tail) return !submitted && !q->tail_index;
  return completed <= submitted && q->tail_index <= SEGMENT_TASKS && q->tail_index <= submitted &&
         (submitted - q->tail_index) % SEGMENT_TASKS == 0 && !q->tail->next;
}

/* Checks what consumers write, and each task that is pushed and not done. The caller is a consumer. */
static inline bool queue_consumer_is_valid(const queue *q) {
  const uint64_t completed = atomic_load(&q->completed), submitted = atomic_load(&q->submitted);
  if (completed > q->next || q->next > submitted || q->head_index > SEGMENT_TASKS || q->head_index > q->next)
    return false;
  if ((q->next - q->head_index) % SEGMENT_TASKS) return false;
  const segment *s = q->head;
  uint32_t i = q->head_index;
  for (uint64_t position = q->next; position < submitted; ++position, ++i) {
    if (i == SEGMENT_TASKS) {
      s = s->next;
      i = 0;
    }
    if (!s || !s->tasks[i].kind || s->tasks[i].id != (uint32_t)position) return false;
  }
  return true;
}

/* Checks the whole queue, which nobody else uses meanwhile. */
static inline bool queue_is_valid(const queue *q) {
  if (!queue_producer_is_valid(q) || !queue_consumer_is_valid(q) || !q->head != !q->tail) return false;
  const segment *s = q->head;
  while (s && s != q->tail) s = s == atomic_load(&q->spare) ? NULL : s->next;
  return s == q->tail && (!s || s != atomic_load(&q->spare));
}

#endif
