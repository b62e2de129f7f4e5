/* SPDX-License-Identifier: Apache-2.0 */
/* A trace of allocations in memory. It is read from a recording of `cannon run --record` (trace/record/record_read.h)
 * or from text with one event per line; either may be compressed by gzip. Called by the commands `cannon replay` and
 * `cannon plan` and by bench. Functions may be called from any thread; a trace is owned by its caller.
 *
 *   a ID SIZE    allocates SIZE bytes (1 or more) under ID, which must not be live
 *   f ID         frees it
 *   # ...        a comment; empty lines are skipped, too
 *
 * An ID is a number, decimal or with 0x. An ID may be used again after its block is freed, so addresses can serve as
 * IDs. */
#ifndef CANNON_REPLAY_ALLOCATION_TRACE_H
#define CANNON_REPLAY_ALLOCATION_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
  uint64_t bytes; /* 0: the event is a free */
  uint32_t block; /* number of the allocation, from 0; each allocation has its own */
} trace_event;

/* Where an allocation of a recording comes from. */
typedef struct {
  uint64_t moment; /* its number among the records of the file, as in fit/history.h */
  int64_t stream;  /* in whose order it was made, or RECORD_NO_STREAM */
  uint32_t site;   /* the recording's number of the call site; 0: not known */
} trace_origin;

typedef struct {
  trace_event *event;
  size_t n_events;
  uint32_t n_blocks;
  trace_origin *origin;     /* of each block; NULL if the trace is text */
  uint64_t peak_live_bytes; /* largest sum of the requested bytes that are live at once */
  /* of a recording: streams created, event records and event waits, synchronisations by the host */
  uint64_t n_streams, n_edges, n_waits;
} trace;

/* Reads a file. In a recording, `device` selects the blocks of one device or one kind of host memory
 * (base/device_number.h); text has no devices. Returns false, and a message with the line or offset in error, if the
 * file cannot be read or is malformed. On success the caller frees *out with trace_free. */
bool trace_read(const char *path, int device, trace *out, char error[256]);
void trace_free(trace *t);

/* Returns the contents of a file, unpacked if it is compressed by gzip and followed by a zero byte, to be freed by the
 * caller; NULL, with the reason in error, if it cannot be read. */
char *trace_unpack(const char *path, size_t *n, char error[256]);

#endif
