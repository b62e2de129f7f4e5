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
  TIMELINE_CALL = 1,   /* of a function of the interface; name */
  TIMELINE_SUBMISSION, /* of a task: device, stream, task */
  TIMELINE_TASK,       /* type, name, detail, bytes */
  TIMELINE_MARK,       /* name is the message; type: "mark", "push/pop", "start/end" */
  TIMELINE_MARK_EX,    /* one that a task stands for: device, stream, task; type: "trace", "start", "end", or none */
  TIMELINE_STEP,       /* likewise; type "start" or "end", detail is the step's number */
} timeline_kind;

typedef struct {
  uint32_t kind;
  uint32_t thread; /* the kernel's number of the thread that called, or ran the task */
  uint32_t name, type;
  uint32_t detail;       /* of an operator, where shapes are recorded: the name that shapes.h makes of its tensors */
  int32_t device;        /* -1: none */
  uint32_t stream, task; /* task: low bits of its position in the stream */
  uint64_t bytes;        /* that the task reads and writes; of a mark, the name of its domain */
  uint64_t start_ns, end_ns;
} timeline_record;
_Static_assert(sizeof(timeline_record) == 56, "as in the files");

#endif
