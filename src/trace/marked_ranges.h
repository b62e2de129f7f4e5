/* Marks without objects, in domains: moments, and ranges that are ended by id, by any thread. All calls from any
 * thread; nothing is kept but while marks are recorded, except domains. */
#ifndef CANNON_TRACE_MARKED_RANGES_H
#define CANNON_TRACE_MARKED_RANGES_H

#include <stdint.h>

#include "base/status.h"
#include "trace/timeline.h"

enum { RANGE_MAX_MESSAGE = 255, RANGE_MAX_DOMAIN = 1023 };

/* Whose name groups marks; NULL in the calls below: none. ST_INVALID_PARAM for a name other than of letters, digits and
 * underscores. */
status range_domain_create(const char *name, void **domain);
status range_domain_destroy(void *domain);

/* A mark's record, but for its time and place. ST_INVALID_PARAM for a stale domain, or a message that is empty or
 * longer than RANGE_MAX_MESSAGE. */
status range_record(void *domain, const char *message, timeline_record *r);

/* Opens a range: its id, from 1. What it says is as of range_record, and copied; stream is the caller's, for the end. */
status range_start(void *domain, const char *message, void *stream, uint64_t *id);
void range_cancel(uint64_t id);

/* Ends it with a record of its time on the host. *message is what it said, malloc'ed, for the caller to free. */
status range_end(void *domain, uint64_t id, char **message, void **stream);

#endif
