/* Records what a process does, with times, while the profiler is on (trace/profiler.h): calls, tasks, marks. Whoever
 * does something worth recording asks timeline_wants() first, which costs a load and a branch.
 *
 * Any thread. One lock guards the writing; nothing is taken after it. */
#ifndef CANNON_TRACE_TIMELINE_H
#define CANNON_TRACE_TIMELINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "trace/timeline_format.h"

enum {
  TIMELINE_WANTS_CALLS = 1,
  TIMELINE_WANTS_TASKS = 2,
  TIMELINE_WANTS_SHAPES = 4, /* of operators' tensors */
  TIMELINE_WANTS_MARKS = 8,
  TIMELINE_WANTS_LOAD = 16, /* how long tasks run (load.h): of no session, for good */
};

extern _Atomic uint32_t timeline_wanted;
static inline bool timeline_wants(uint32_t what) {
  return unlikely(atomic_load_explicit(&timeline_wanted, memory_order_relaxed) & what);
}

uint64_t timeline_now(void);

/* The number of a text; makes it at first use. 0 where nothing is recorded. */
uint32_t timeline_name(const char *text, size_t bytes);

/* Adds a record, whose thread is the caller's; of a device that is not recorded, or after timeline_close, nothing. */
void timeline_add(timeline_record *r);

/* Adds the call that began at start_ns and ends now. */
__attribute__((cold)) void timeline_call(const char *name, uint64_t start_ns);

/* Opens the files in a folder that exists, of the host, then of a device. Nothing is recorded before timeline_want.
 * 100003 (file) where they can't be made. */
status timeline_open(const char *folder);
status timeline_open_device(const char *folder, int device);

/* What is recorded from now on, and of which devices (a bit each). */
void timeline_want(uint32_t what, uint32_t devices);

void timeline_want_load(void);

/* No more than this is written, in bytes; 0: no limit. */
void timeline_limit(uint64_t bytes);

/* Writes what is buffered. Says how many records did not fit into the limit, or that writing failed: 100004. */
status timeline_flush(uint64_t *n_left_out);

void timeline_close(void);

#endif
