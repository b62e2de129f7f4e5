/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/wait/waiters.h"

#include "base/invariant.h"
#include "base/lock.h"
#include "runtime/scheduler.h"

#ifdef CANNON_INVARIANTS
bool waiters_are_valid(const waiters *w) {
  int n = 0;
  for (const stream *s = w->first; s; s = s->next_waiter, ++n)
    if (!atomic_load(&s->o.refs) || !s->waits_task || s->next_waiter == s) return false;
  return n == atomic_load(&w->n);
}
#endif

/* Takes streams off the list and returns them as a chain: the stream `only`, or if that is NULL, those whose condition
 * holds, which are marked as released. The lock is held. */
static stream *waiters_take(waiters *w, const stream *only) {
  stream *taken = NULL, **link = &w->first;
  while (*link) {
    stream *s = *link;
    if (only ? s != only : !w->is_over(s->waits_task)) {
      link = &s->next_waiter;
      continue;
    }
    *link = s->next_waiter;
    if (!only) atomic_store(&s->released, true);
    s->next_waiter = taken;
    taken = s;
    atomic_fetch_sub(&w->n, 1);
  }
  INVARIANT_WALK(waiters_are_valid(w));
  return taken;
}

void waiters_look(waiters *w) {
  spin_lock(&w->lock);
  stream *taken = waiters_take(w, NULL);
  spin_unlock(&w->lock);
  stream_unblock_all(taken);
}

void waiters_enter(waiters *w, task *t, stream *s) {
  stream_await_unblock(s);
  spin_lock(&w->lock);
  INVARIANT(!atomic_load(&s->waits_for) && spin_is_held(&s->run_lock, memory_order_relaxed));
  object_ref(&s->o);
  atomic_store(&s->blocked, true);
  s->waits_task = t;
  s->next_waiter = w->first;
  w->first = s;
  atomic_fetch_add(&w->n, 1);
  INVARIANT_WALK(waiters_are_valid(w));
  spin_unlock(&w->lock);
  scheduler_rouse();
}

void waiters_leave(waiters *w, stream *s) {
  spin_lock(&w->lock);
  stream *taken = waiters_take(w, s);
  spin_unlock(&w->lock);
  atomic_store(&s->blocked, false);
  if (taken) stream_unref(taken);
}
