/* SPDX-License-Identifier: Apache-2.0 */
/* The marks of aclprof...: moments, nested spans of a thread (push and pop), and ranges, spans with ids that any thread
 * may end. Recorded in the timeline while marks are recorded. A stamp holds the message of a mark and is in at most one
 * open span. Called by src/api/prof.c, from any thread. */
#ifndef CANNON_TRACE_STAMPS_H
#define CANNON_TRACE_STAMPS_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { STAMP_MAX_MESSAGE = 127 };

/* Makes a stamp. ST_PROFILER_NOT_RUNNING while marks are not recorded; the functions below return that too, except
 * stamp_destroy. */
status stamp_create(void **stamp);
status stamp_destroy(void *stamp);

/* ST_INVALID_PARAM if the pointer is no live stamp, if the stamp is in an open span already, or if no span is open. */
status stamp_set_message(void *stamp, const char *text, size_t bytes);
status stamp_mark(void *stamp);
status stamp_push(void *stamp);
status stamp_pop(void);
status stamp_range_start(void *stamp, uint32_t *id);
status stamp_range_stop(uint32_t id);

/* Whether marks are recorded; the first check of all functions that mark. */
status stamps_check(void);

/* Checks that the message has 1 to STAMP_MAX_MESSAGE bytes. */
status stamp_check_message(const char *text, size_t bytes);

#endif
