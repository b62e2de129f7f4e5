/* Words of device memory that streams write and wait for. A wait is a state of its stream, not of a thread: while the
 * condition does not hold the stream is blocked, and looked at again whenever tasks have retired and with each tick of
 * the scheduler, since anything may change the word. */
#ifndef CANNON_RUNTIME_VALUE_H
#define CANNON_RUNTIME_VALUE_H

#include "runtime/stream.h"

typedef enum {
  VALUE_GEQ, /* (int64_t)(*word - value) >= 0 */
  VALUE_EQ,  /* *word == value */
  VALUE_AND, /* *word & value */
  VALUE_NOR, /* ~(*word | value) */
  N_VALUE_CONDITIONS
} value_condition;

/* The two tasks. word: 8 bytes of device memory, aligned to 8. */
status value_write(void *word, uint64_t value, stream *s);
status value_wait(void *word, uint64_t value, value_condition condition, stream *s);

/* Whether any stream waits. */
extern _Atomic int value_n_waiting;
static inline bool value_any(void) { return atomic_load_explicit(&value_n_waiting, memory_order_relaxed); }

/* Unblocks the streams whose condition holds now. No lock is held. */
__attribute__((cold)) void value_look(void);

/* Whether the list of waiting streams agrees with their state (base/invariant.h); the caller holds its lock. */
bool value_list_is_valid(void);

#endif
