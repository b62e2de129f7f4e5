/* SPDX-License-Identifier: Apache-2.0 */
/* The format of a recording: what happened to a process's memory and streams, in order. Written by
 * trace/record/record.c, read by trace/record/record_read.c; used by the library and by tools.
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
 * From version 3 on:
 *
 *   address    less the address of the record before that has one, zigzag
 *   site       the number of a RECORD_SITE before; 0: not known
 *   position   of a task in its stream (base/hooks.h)
 *   value      as the kind has it
 *   name       the number of a text: the n-th RECORD_TEXT has n, from 1; 0: none
 *   second     likewise
 *   model      nanoseconds of the device by the roofline model; then operations
 *   payload    a number of bytes, at most RECORD_MAX_PAYLOAD, and the bytes
 *
 * The kind 0 is the end: a writer that was killed leaves zeros behind its last whole record, since it writes a record's
 * kind after its fields. */
#ifndef CANNON_TRACE_RECORD_RECORD_CODE_H
#define CANNON_TRACE_RECORD_RECORD_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RECORD_MAGIC "CANNREC1"
/* Version 1 has the kinds up to RECORD_EVENT_DONE, version 2 those up to RECORD_COLLECTIVE, without addresses and
 * sites; files of both are read as well. */
enum {
  RECORD_VERSION = 3,
  RECORD_MAX_PAYLOAD = 1024,
  RECORD_MAX_BYTES = 96 + RECORD_MAX_PAYLOAD,
  RECORD_MAX_DEVICES = 16,
  RECORD_MAX_CALL_KINDS = 32
};

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
  /* Version 3: what others refer to. */
  RECORD_RUN,    /* the devices' memory (requested), and whether the run is dry (value) */
  RECORD_TEXT,   /* the payload */
  RECORD_SITE,   /* the number `site` stands for the frames in the payload (record_frame) */
  RECORD_MODULE, /* a module of the model: name, type (second), the parent's number (value); the n-th has n, from 1 */
  /* Tasks, if they are wanted: */
  RECORD_TASK,     /* is submitted; device -1 and no stream: the host does it now */
  RECORD_ACCESSES, /* more accesses (record_access) of the task before, in the payload */
  RECORD_TASK_RAN, /* the next one that was submitted at this position; duration as measured */
  /* What frameworks tell: */
  RECORD_REGION,     /* a tensor has got these bytes of a larger block (mstx) */
  RECORD_REGION_END, /* no more */
  RECORD_ENTER,      /* the module (value) begins */
  RECORD_LEAVE,      /* and ends */
  RECORD_BACKWARD,   /* what follows is the backward of the module (value) */
  RECORD_PHASE,      /* record_phase (value) begins */
  RECORD_STEP,       /* a step of training is over */
  RECORD_RANGE,      /* the bytes are of record_use (event), of the module (value) */
  RECORD_N_KINDS,
} record_kind;

enum { RECORD_NO_STREAM = -1 };

/* The values of RECORD_PHASE, and what RECORD_RANGE says that a range holds. */
typedef enum { RECORD_OUTSIDE, RECORD_FORWARD, RECORD_IN_BACKWARD, RECORD_UPDATE, RECORD_N_PHASES } record_phase;
typedef enum { RECORD_PARAMETER, RECORD_GRADIENT, RECORD_OPTIMIZER, RECORD_N_USES } record_use;

typedef struct {
  record_kind kind;
  uint64_t time_ns; /* since the header's start */
  int device;       /* or a kind of host memory (base/device_number.h) */
  int64_t stream;   /* or RECORD_NO_STREAM */
  uint64_t event, number, requested, bytes;
  uint64_t generation, communicator, count, duration_ns;
  uint32_t call_kind, dtype_bytes, n_ranks, rank, peer;
  uint64_t address, position, value, model_ns, operations;
  uint32_t site, name, second;
  uint32_t payload_bytes;
  const uint8_t *payload; /* of decoded records: within the data */
} record;

/* The values that the next record's differences refer to; all zeros at the start. */
typedef struct {
  uint64_t time_ns, number[RECORD_MAX_DEVICES + 2]; /* indexed by the device's number as it is written */
  uint64_t address;
  uint32_t version; /* of the file; 0: the present one */
} record_history;

/* Encodes a record, whose values must be in range. Returns the number of bytes written, at most RECORD_MAX_BYTES. */
size_t record_encode(record_history *h, const record *r, uint8_t out[RECORD_MAX_BYTES]);

/* Decodes one record from `n` bytes and sets *used to the number of bytes it has. Returns NULL, or what is wrong.
 * RECORD_END uses no bytes. */
const char *record_decode(record_history *h, const uint8_t *data, size_t n, record *r, size_t *used);

/* A frame of a site, innermost first: a line of Python (file and function are texts), or a return address in an object
 * (file), as its symbol table has it. Lines of Python come first. */
typedef struct {
  uint32_t file, function; /* function: 0 of an object */
  uint64_t at;             /* the line, or the offset */
} record_frame;

/* An operand of a task; its address is written as the difference to that of the one before in the payload. */
typedef struct {
  uint64_t address, bytes;
  uint32_t access; /* HOOK_READS, HOOK_WRITES, HOOK_SCRATCH (base/hooks.h) */
} record_access;

/* Append to a payload of *n bytes, of which RECORD_MAX_PAYLOAD have room; false: there is none. `last`: the address of
 * the one before, 0 for the first. */
bool record_put_frame(uint8_t *payload, uint32_t *n, record_frame f);
bool record_put_access(uint8_t *payload, uint32_t *n, record_access a, uint64_t last);

/* Take the next one from a payload, from *at on; false at its end, or where it is wrong. */
bool record_get_frame(const record *r, uint32_t *at, record_frame *f);
bool record_get_access(const record *r, uint32_t *at, record_access *a, uint64_t last);

#endif
