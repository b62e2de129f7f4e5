/* SPDX-License-Identifier: Apache-2.0 */
/* Words of device memory that streams write and wait for (aclrtValueWrite, aclrtValueWait). Waiting is a state of the
 * stream, not of a thread: while the condition does not hold, the stream is blocked. Anything may change the word, so
 * the conditions are checked again after each batch of tasks and at each tick of the scheduler. Called by src/api,
 * stream.c and the scheduler. Thread-safe. */
#ifndef CANNON_RUNTIME_WAIT_VALUE_H
#define CANNON_RUNTIME_WAIT_VALUE_H

#include "runtime/wait/waiters.h"

typedef enum {
  VALUE_GEQ, /* (int64_t)(*word - value) >= 0 */
  VALUE_EQ,  /* *word == value */
  VALUE_AND, /* *word & value */
  VALUE_NOR, /* ~(*word | value) */
  N_VALUE_CONDITIONS
} value_condition;

/* Submit a write or a wait. word: the address of 8 bytes of device memory, a multiple of 8. */
status value_write(void *word, uint64_t value, stream *s);
status value_wait(void *word, uint64_t value, value_condition condition, stream *s);

/* The streams that wait for a value. */
extern INTERNAL waiters value_waiters;
static inline bool value_any(void) { return waiters_any(&value_waiters); }

/* Unblocks the streams whose condition holds now. No lock is held. */
__attribute__((cold)) void value_look(void);
#endif
