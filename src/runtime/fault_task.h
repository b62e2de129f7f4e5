/* SPDX-License-Identifier: Apache-2.0 */
/* A task that fails, in place of one whose failure is injected (base/settings/faults.h). */
#ifndef CANNON_RUNTIME_FAULT_TASK_H
#define CANNON_RUNTIME_FAULT_TASK_H

#include "runtime/stream.h"

/* Submits it. code: the failure. what: what fails, a text that stays, as spec does. */
__attribute__((cold)) status fault_submit(stream *s, status code, const char *what, const char *spec);

#endif
