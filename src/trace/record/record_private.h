/* SPDX-License-Identifier: Apache-2.0 */
/* The recorder's parts (record*.c): what they write goes through record_put(), one record at a time. */
#ifndef CANNON_TRACE_RECORD_RECORD_PRIVATE_H
#define CANNON_TRACE_RECORD_RECORD_PRIVATE_H

#include <stdbool.h>

#include "base/hooks.h"
#include "trace/record/record_code.h"

/* Whether tasks are recorded, too; set before the hooks are. */
extern bool record_wants_tasks;

/* Whether there is a file. */
bool record_is_on(void);

/* The recorder's lock, under which no other lock is taken. */
void record_lock(void);
void record_unlock(void);

/* Writes a record, with the present time: the fields first and the kind, which makes them a record, last. The lock is
 * held. record_write takes the lock. */
void record_put(record *r);
void record_write(record *r);

/* Hooks. */
void record_task(const hook_task *task);
void record_region(const hook_region *region);
void record_region_end(int device, uintptr_t address);

/* The time of a task. The lock is held. */
void record_task_ran(const hook_work *work);

#endif
