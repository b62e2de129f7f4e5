/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks that wait for something outside of the process's streams: another process, or a network (src/comm). Waiting is
 * a state of the stream, as a wait for a value is. Whoever learns that something has changed calls outside_look(); the
 * scheduler's ticker does so at each tick, too, so that nothing is missed for longer. Called by src/comm, stream.c and
 * the scheduler. Thread-safe. */
#ifndef CANNON_RUNTIME_WAIT_OUTSIDE_H
#define CANNON_RUNTIME_WAIT_OUTSIDE_H

#include "runtime/wait/waiters.h"

/* The streams that wait. */
extern INTERNAL waiters outside_waiters;
static inline bool outside_any(void) { return waiters_any(&outside_waiters); }

/* Makes s wait at its front task t until t's kind says that it is ready; for the task's run(), which then returns
 * TASK_BLOCKED. The caller checks once more whether the task is ready, since nobody may look again, and if so calls
 * outside_look(). */
void outside_block(task *t, stream *s);

/* Ends the wait of a task that is dropped; for its drop(). */
void outside_leave(stream *s);

/* Unblocks the streams whose front tasks are ready. No lock is held. */
void outside_look(void);

/* Calls visit for the front task of each stream that waits, under the list's lock. */
void outside_each(void (*visit)(const task *t, void *argument), void *argument);

#endif
