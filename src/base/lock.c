/* SPDX-License-Identifier: Apache-2.0 */
/* The check of the order of locks (lock.h). */
#include "base/lock.h"

#ifdef CANNON_INVARIANTS
#  include <stdio.h>
#  include <stdlib.h>

static const char *const names[] = {
    [LOCK_UNRANKED] = "UNRANKED",
#  define LOCK(name, guards) [LOCK_##name] = #  name " (" guards ")",
#  define LAST_LOCKS         [LOCK_LAST_ONES] = "",
#  include "base/locks.def"
#  undef LOCK
};

enum { MAX_HELD = 16 };

static _Thread_local struct {
  const void *lock;
  lock_rank rank;
} held[MAX_HELD];
static _Thread_local unsigned n_held;

static _Noreturn void refuse(const char *what, lock_rank rank, lock_rank other) {
  fprintf(stderr, "cannon: internal error: a thread %s %s while it holds %s (the order is src/base/locks.def)\n", what,
          names[rank], names[other]);
  abort();
}

void lock_note_taken(const void *lock, lock_rank rank) {
  if (rank == LOCK_UNRANKED || n_held == MAX_HELD) {
    fprintf(stderr, "cannon: internal error: lock %p %s\n", lock,
            n_held < MAX_HELD ? "has no rank" : "is one too many");
    abort();
  }
  for (unsigned i = 0; i < n_held; ++i)
    if (held[i].rank >= rank || held[i].rank > LOCK_LAST_ONES) refuse("takes", rank, held[i].rank);
  held[n_held].lock = lock;
  held[n_held++].rank = rank;
}

/* A lock that was taken by spin_trylock is not in the list. */
void lock_note_released(const void *lock) {
  for (unsigned i = n_held; i-- > 0;)
    if (held[i].lock == lock) {
      held[i] = held[--n_held];
      return;
    }
}

bool lock_is_held(const void *lock) {
  for (unsigned i = 0; i < n_held; ++i)
    if (held[i].lock == lock) return true;
  return false;
}

void lock_expect_none(const void *but) {
  for (unsigned i = 0; i < n_held; ++i)
    if (held[i].lock != but) refuse("sleeps, or calls other code,", LOCK_UNRANKED, held[i].rank);
}
#endif
