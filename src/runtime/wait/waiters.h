/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of blocked streams whose front tasks wait for a condition of which nobody gets a message: somebody must look
 * again and again. value.c has one, and outside.c; sources that keep their waiters elsewhere are in the scheduler's
 * table of sources, too. Called by these files. Thread-safe. */
#ifndef CANNON_RUNTIME_WAIT_WAITERS_H
#define CANNON_RUNTIME_WAIT_WAITERS_H

#include "runtime/stream.h"

typedef struct {
  spinlock lock; /* guards the list, and waits_task of its streams */
  stream *first; /* chained through next_waiter, each with a reference */
  _Atomic int n;
  bool (*is_over)(const task *t); /* whether the condition of the task holds; called under the lock */
} waiters;

#define WAITERS(rank, is_over_now)                                                                                     \
  { .lock = SPINLOCK_INITIALIZER(rank), .is_over = (is_over_now) }

static inline bool waiters_any(const waiters *w) { return atomic_load_explicit(&w->n, memory_order_relaxed); }

/* Makes s wait at its front task t; for the task's run(), which then returns TASK_BLOCKED. */
void waiters_enter(waiters *w, task *t, stream *s);

/* Ends the wait of a task that is dropped; for its drop(). */
void waiters_leave(waiters *w, stream *s);

/* Unblocks the streams whose condition holds. No lock is held. */
void waiters_look(waiters *w);

/* Whether the list is consistent (base/invariant.h). The caller holds its lock. */
bool waiters_are_valid(const waiters *w);

#endif
