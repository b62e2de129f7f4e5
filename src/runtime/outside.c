/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/outside.h"

#include "base/invariant.h"
#include "base/lock.h"
#include "runtime/scheduler.h"

static spinlock lock = SPINLOCK_INITIALIZER(OUTSIDE); /* guards the list, and waits_task of the streams in it */
static stream *waiting; /* blocked streams, chained through next_waiter, each with a reference */
_Atomic int outside_n_waiting;

/* Takes streams off the list and returns them as a chain: the stream `only`, or if that is NULL, those that are ready,
 * which are marked as released. The lock is held. */
static stream *outside_take(const stream *only) {
  stream *taken = NULL, **link = &waiting;
  while (*link) {
    stream *s = *link;
    const task *t = s->waits_task;
    if (only ? s != only : !t->kind->ready(t)) {
      link = &s->next_waiter;
      continue;
    }
    *link = s->next_waiter;
    if (!only) atomic_store(&s->released, true);
    s->next_waiter = taken;
    taken = s;
    atomic_fetch_sub(&outside_n_waiting, 1);
  }
  return taken;
}

void outside_look(void) {
  spin_lock(&lock);
  stream *taken = outside_take(NULL);
  spin_unlock(&lock);
  stream_unblock_all(taken);
}

void outside_block(task *t, stream *s) {
  INVARIANT(t->kind->ready);
  stream_await_unblock(s);
  spin_lock(&lock);
  INVARIANT(!atomic_load(&s->waits_for) && spin_is_held(&s->run_lock, memory_order_relaxed));
  object_ref(&s->o);
  atomic_store(&s->blocked, true);
  s->waits_task = t;
  s->next_waiter = waiting;
  waiting = s;
  atomic_fetch_add(&outside_n_waiting, 1);
  spin_unlock(&lock);
  scheduler_rouse();
}

void outside_leave(stream *s) {
  spin_lock(&lock);
  stream *taken = outside_take(s);
  spin_unlock(&lock);
  atomic_store(&s->blocked, false);
  if (taken) stream_unref(taken);
}

void outside_each(void (*visit)(const task *t, void *argument), void *argument) {
  spin_lock(&lock);
  for (const stream *s = waiting; s; s = s->next_waiter) visit(s->waits_task, argument);
  spin_unlock(&lock);
}
