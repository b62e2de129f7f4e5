/* SPDX-License-Identifier: Apache-2.0 */
/* For how long any task of a device has run, whichever its stream: by this the time of communication is told apart
 * that hides behind computing from the time that is exposed (comm/account.c). Nothing is timed before somebody
 * switches TIMELINE_WANTS_OVERLAP on; from then on each task is, but those that only order other tasks, or
 * communicate. Called by task_record.c and account.c. Any thread. */
#ifndef CANNON_TRACE_OVERLAP_H
#define CANNON_TRACE_OVERLAP_H

#include <stdint.h>

/* To be called before and after a task. */
void overlap_begin(int device);
void overlap_end(int device);

/* The time in which at least one task ran, up to now. Only differences have a meaning. */
uint64_t overlap_ns(int device);

#endif
