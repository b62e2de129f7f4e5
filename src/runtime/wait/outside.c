/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/wait/outside.h"

#include "base/invariant.h"

static bool outside_is_ready(const task *t) { return t->kind->ready(t); }

waiters outside_waiters = WAITERS(OUTSIDE, outside_is_ready);

void outside_block(task *t, stream *s) {
  INVARIANT(t->kind->ready);
  waiters_enter(&outside_waiters, t, s);
}

void outside_leave(stream *s) { waiters_leave(&outside_waiters, s); }

void outside_look(void) { waiters_look(&outside_waiters); }

void outside_each(void (*visit)(const task *t, void *argument), void *argument) {
  spin_lock(&outside_waiters.lock);
  for (const stream *s = outside_waiters.first; s; s = s->next_waiter) visit(s->waits_task, argument);
  spin_unlock(&outside_waiters.lock);
}
