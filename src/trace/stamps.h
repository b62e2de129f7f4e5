/* The user's marks in the timeline, while marks are recorded: moments, spans of a thread (push and pop, nested), and
 * spans across threads (ranges, which have ids). A stamp is what a mark says; it is in one open span at most. Any thread. */
#ifndef CANNON_TRACE_STAMPS_H
#define CANNON_TRACE_STAMPS_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { STAMP_MAX_MESSAGE = 127 };

/* ST_PROFILER_NOT_RUNNING while marks are not recorded: here, and of all below but destroying. */
status stamp_create(void **stamp);
status stamp_destroy(void *stamp);

/* ST_INVALID_PARAM for what is no stamp, is in an open span already, or where no span is open. */
status stamp_set_message(void *stamp, const char *text, size_t bytes);
status stamp_mark(void *stamp);
status stamp_push(void *stamp);
status stamp_pop(void);
status stamp_range_start(void *stamp, uint32_t *id);
status stamp_range_stop(uint32_t id);

/* What the mark functions begin with. */
status stamps_check(void);

/* 1 to STAMP_MAX_MESSAGE bytes. */
status stamp_check_message(const char *text, size_t bytes);

#endif
