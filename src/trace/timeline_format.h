/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a timeline, in a folder PROF_... that aclprofStart makes (trace/profiler.h):
 *
 *   host/data/names           the texts that records refer to by number (0: none): the number of the first (uint32_t),
 *                             then of each its length (uint32_t) and its bytes, by ascending number
 *   host/data/calls           timeline_record: calls, submissions, marks, as they ended
 *   device_N/data/tasks       timeline_record: the tasks of the device's streams, as they ended
 *
 * Numbers are little-endian; times are of CLOCK_MONOTONIC_RAW, and host/start_info says what it showed at a time of the
 * day. packaging/tools/profiler reads them. */
#ifndef CANNON_TRACE_TIMELINE_FORMAT_H
#define CANNON_TRACE_TIMELINE_FORMAT_H

#include <stdint.h>

typedef enum {
  TIMELINE_CALL = 1,   /* a call of an entry point: name */
  TIMELINE_SUBMISSION, /* a task was submitted: device, stream, task */
  TIMELINE_TASK,       /* a task ran: type, name, detail, bytes */
  TIMELINE_MARK,       /* name is the message; type: "mark", "push/pop", "start/end" */
  TIMELINE_MARK_EX,    /* a mark in a stream's order: device, stream, task; type: "trace", "start", "end", or none */
  TIMELINE_STEP,       /* a step's mark in a stream's order; type "start" or "end"; detail is the step's number */
  TIMELINE_ALLOC, /* a block of device memory is allocated by the call `name`: bytes as rounded by the rules. Its */
  TIMELINE_FREE,  /* address is in stream (the low half) and task, the requested bytes in implementation and reason */
} timeline_kind;

typedef struct {
  uint32_t kind;
  uint32_t thread; /* the kernel's id of the thread that called, or that ran the task */
  uint32_t name, type;
  uint32_t detail;       /* the name that shapes.h makes of an operator's tensors, where shapes are recorded */
  int32_t device;        /* -1: none */
  uint32_t stream, task; /* task: the low bits of the task's position in the stream */
  uint32_t implementation, reason; /* of an operator's task: names that op/choice.h makes */
  uint64_t bytes; /* bytes that the task reads and writes; for a mark, the number of its domain's name */
  uint64_t start_ns, end_ns;
} timeline_record;
_Static_assert(sizeof(timeline_record) == 64, "as in the files");

#endif
