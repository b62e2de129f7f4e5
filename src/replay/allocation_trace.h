/* A trace of allocations in memory, and where it comes from: a recording of `cannon run --record` (trace/record_read.h),
 * or text with a line per event, either of them compressed by gzip or not.
 *
 *   a ID SIZE    allocates SIZE bytes (1 or more) as ID, which is not live
 *   f ID         frees it
 *   # ...        a comment; empty lines are skipped, too
 *
 * IDs are numbers, decimal or with 0x: addresses will do, since an ID may be used again once it is free. */
#ifndef CANNON_REPLAY_ALLOCATION_TRACE_H
#define CANNON_REPLAY_ALLOCATION_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
  uint64_t bytes; /* 0: a free */
  uint32_t block; /* each allocation's own, from 0 */
} trace_event;

typedef struct {
  trace_event *event;
  size_t n_events;
  uint32_t n_blocks;
  uint64_t peak_live_bytes;             /* live is the sum of what was requested */
  uint64_t n_streams, n_edges, n_waits; /* of a recording: streams made, event records and waits, synchronisations */
} trace;

/* Reads a file; `device` chooses whose blocks (or which kind of host memory, base/device_number.h), which text does not know.
 * False with a message that has the line or the offset in error. */
bool trace_read(const char *path, int device, trace *out, char error[256]);
void trace_free(trace *t);

#endif
