/* SPDX-License-Identifier: Apache-2.0 */
/* Assertions of invariants. They are compiled into debug and sanitizer builds (CANNON_INVARIANTS, set by
 * CMakeLists.txt) and cost nothing in other builds, where the compiler checks the expression but never evaluates it.
 *
 * A module with a state of its own has a function NAME_is_valid() that walks the whole state and says whether it is
 * consistent. Public functions that change the state end with INVARIANT_WALK(NAME_is_valid(...)), while they still hold
 * the lock that guards it. */
#ifndef CANNON_BASE_INVARIANT_H
#define CANNON_BASE_INVARIANT_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef CANNON_INVARIANTS
enum { INVARIANTS_ON = 1 };
#else
enum { INVARIANTS_ON = 0 };
#endif

/* Ends the program with a message on stderr. */
static inline void invariant_fail(const char *expression, const char *function, const char *file, int line) {
  fprintf(stderr, "cannon: internal error: %s does not hold in %s (%s:%d)\n", expression, function, file, line);
  abort();
}

/* Whether the calling thread shall check a whole state now: the first 32 times, then every 61st time, so that long
 * stress tests stay linear in their number of calls. All callers share the thread's count. 61 is a prime, so that a
 * loop does not always skip the same callers. */
static inline bool invariant_walk_due(void) {
#ifdef CANNON_INVARIANTS
  static _Thread_local unsigned n_calls;
  return ++n_calls <= 32 || n_calls % 61 == 0;
#else
  return false;
#endif
}

/* For expressions of a few instructions: evaluated each time. */
#define INVARIANT(expression)                                                                                          \
  do {                                                                                                                 \
    if (INVARIANTS_ON && !(expression)) invariant_fail(#expression, __func__, __FILE__, __LINE__);                     \
  } while (0)

/* For functions that walk a whole state: evaluated when invariant_walk_due() says so. */
#define INVARIANT_WALK(expression)                                                                                     \
  do {                                                                                                                 \
    if (INVARIANTS_ON && invariant_walk_due() && !(expression))                                                        \
      invariant_fail(#expression, __func__, __FILE__, __LINE__);                                                       \
  } while (0)

#endif
