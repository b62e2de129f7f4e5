/* SPDX-License-Identifier: Apache-2.0 */
/* The marks of mstx, in domains: single moments, and ranges, which any thread may end by their id. Called by
 * src/api/mstx.c, from any thread. Apart from domains, nothing is kept while marks are not recorded. */
#ifndef CANNON_TRACE_MARKED_RANGES_H
#define CANNON_TRACE_MARKED_RANGES_H

#include <stdint.h>

#include "base/status.h"
#include "trace/timeline.h"

enum { RANGE_MAX_MESSAGE = 255, RANGE_MAX_DOMAIN = 1023 };

/* A domain's name groups marks; the functions below take NULL for no domain. ST_INVALID_PARAM if the name has other
 * characters than letters, digits and underscores. */
status range_domain_create(const char *name, void **domain);
status range_domain_destroy(void *domain);

/* Fills a mark's record, except its time and place. ST_INVALID_PARAM for a destroyed domain, or a message that is empty
 * or longer than RANGE_MAX_MESSAGE. */
status range_record(void *domain, const char *message, timeline_record *r);

/* Opens a range; *id counts from 1. The message is checked as by range_record and copied. stream is kept for
 * range_end. */
status range_start(void *domain, const char *message, void *stream, uint64_t *id);
void range_cancel(uint64_t id);

/* Ends a range and records its time on the host. *message is the range's message; the caller frees it. */
status range_end(void *domain, uint64_t id, char **message, void **stream);

#endif
