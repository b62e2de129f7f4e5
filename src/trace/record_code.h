/* SPDX-License-Identifier: Apache-2.0 */
/* The format of a recording: what happened to a process's memory and streams, in order. Written by trace/record.c,
 * read by trace/record_read.c; used by the library and by tools.
 *
 * A header of fixed size is followed by records: a byte for the kind, then the kind's fields as numbers of 7 bits a
 * byte, the least significant first, with the high bit set in all bytes but the last. The fields come in this order;
 * which of them a kind has is a table in record_code.c:
 *
 *   time       nanoseconds since the record before (the first: since the header's start)
 *   device     plus 1: 0 is pinned host memory; RECORD_MAX_DEVICES + 1: managed memory
 *   stream     its number on the device plus 1; 0 none: an allocation or free outside of any stream's order
 *   event      its number
 *   number     which block: the heap's counter of allocations, less that of the device's allocation before, zigzag
 *   requested  bytes as asked for
 *   bytes      as rounded, less those requested, zigzag
 *   generation which record of the event, counted from 1
 *   communicator  its number
 *   call       the kind of collective (comm_kind) + 32 * the bytes of an element
 *   count      elements, as the call has it
 *   ranks      two numbers: how many, and which; then the root or peer
 *   duration   nanoseconds
 *
 * The kind 0 is the end: a writer that was killed leaves zeros behind its last whole record, since it writes a record's
 * kind after its fields. */
#ifndef CANNON_TRACE_RECORD_CODE_H
#define CANNON_TRACE_RECORD_CODE_H

#include <stddef.h>
#include <stdint.h>

#define RECORD_MAGIC "CANNREC1"
/* Version 1 has the kinds up to RECORD_EVENT_DONE; its files are read as well. */
enum { RECORD_VERSION = 2, RECORD_MAX_BYTES = 96, RECORD_MAX_DEVICES = 16, RECORD_MAX_CALL_KINDS = 32 };

typedef struct {
  char magic[8]; /* RECORD_MAGIC, written last */
  uint32_t version, header_bytes;
  int32_t pid;
  uint32_t n_devices;
  uint64_t started_ns; /* CLOCK_REALTIME */
  char soc_name[32];
  char program[256]; /* /proc/self/exe */
} record_header;

typedef enum {
  RECORD_END,
  RECORD_ALLOC,
  RECORD_FREE,
  RECORD_STREAM_CREATED,
  RECORD_STREAM_DESTROYED,
  RECORD_EVENT_RECORDED,
  RECORD_EVENT_AWAITED,
  RECORD_STREAM_DONE, /* the host has learnt that all tasks submitted to the stream are done */
  RECORD_EVENT_DONE,  /* the host has learnt that the event was reached */
  /* What follows is in the order in which tasks run: */
  RECORD_EVENT_REACHED, /* the stream has come to the event's record */
  RECORD_EVENT_PASSED,  /* the stream has passed a wait for it */
  RECORD_WORK,          /* tasks of the stream have run so long, since what the stream recorded before */
  RECORD_COLLECTIVE,    /* one is over */
  RECORD_N_KINDS,
} record_kind;

enum { RECORD_NO_STREAM = -1 };

typedef struct {
  record_kind kind;
  uint64_t time_ns; /* since the header's start */
  int device;       /* or a kind of host memory (base/device_number.h) */
  int64_t stream;   /* or RECORD_NO_STREAM */
  uint64_t event, number, requested, bytes;
  uint64_t generation, communicator, count, duration_ns;
  uint32_t call_kind, dtype_bytes, n_ranks, rank, peer;
} record;

/* The values that the next record's differences refer to; all zeros at the start. */
typedef struct {
  uint64_t time_ns, number[RECORD_MAX_DEVICES + 2]; /* indexed by the device's number as it is written */
} record_history;

/* Encodes a record, whose values must be in range. Returns the number of bytes written, at most RECORD_MAX_BYTES. */
size_t record_encode(record_history *h, const record *r, uint8_t out[RECORD_MAX_BYTES]);

/* Decodes one record from `n` bytes and sets *used to the number of bytes it has. Returns NULL, or what is wrong.
 * RECORD_END uses no bytes. */
const char *record_decode(record_history *h, const uint8_t *data, size_t n, record *r, size_t *used);

#endif
