/* SPDX-License-Identifier: Apache-2.0 */
/* The part for usage has two files: usage.c for streams, events, copies and the process, usage_handles.c for handles
 * and failed calls whose results are used. Any thread. */
#ifndef CANNON_CHECK_USAGE_H
#define CANNON_CHECK_USAGE_H

#include "check/finding.h"

/* A finding of kind misuse at the calling thread's place, in the call `what`. */
finding usage_finding(const char *what);

/* Starts what usage_handles.c looks for. */
void usage_handles_start(void);

#endif
