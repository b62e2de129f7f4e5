/* SPDX-License-Identifier: Apache-2.0 */
/* The one function of the program's that is told each task that failed (aclrtSetExceptionInfoCallback). Set by src/api
 * at any time, called by stream.c in whichever thread runs the task. */
#ifndef CANNON_RUNTIME_EXCEPTION_H
#define CANNON_RUNTIME_EXCEPTION_H

#include <stdint.h>

#include "base/status.h"

/* A failed task, as the program's function gets it: valid until that returns. */
struct rtExceptionInfo {
  uint32_t device, stream, task, thread; /* thread: of the system, in which the task ran */
  status code;
};

typedef void exception_function(struct rtExceptionInfo *info);

/* NULL: nobody is told. */
void exception_set_function(exception_function *function);

void exception_tell(int device, uint32_t stream, uint32_t task, status code);

#endif
