/* SPDX-License-Identifier: Apache-2.0 */
/* Failed tasks, for the program's callback (aclrtSetExceptionInfoCallback). A failure is kept when its task has run,
 * and told on the thread that gets the failure from a synchronisation, before that returns: so the callback may call
 * whatever it likes. Nothing is kept while there is no callback. Any thread, without locks. Called by stream.c and
 * src/api. */
#ifndef CANNON_RUNTIME_EXCEPTION_H
#define CANNON_RUNTIME_EXCEPTION_H

#include <stdint.h>

#include "base/status.h"

/* A failed task, as aclrtExceptionInfo. Lives for the time of the callback. */
typedef struct rtExceptionInfo {
  struct rtExceptionInfo *next;
  uint32_t task, stream, device;
  uint32_t thread; /* the system's number of the thread that ran the task */
  uint32_t code;
} exception_info;

typedef void exception_callback(exception_info *info);

/* NULL: none. A callback that is running meanwhile is not waited for. */
void exception_set_callback(exception_callback *callback);

/* Keeps a failure. */
void exception_keep(uint32_t device, uint32_t stream, uint32_t task, status code);

/* Tells what was kept, in the order in which it happened. The caller holds no lock. */
void exception_tell(void);

#endif
