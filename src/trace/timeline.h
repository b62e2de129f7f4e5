/* SPDX-License-Identifier: Apache-2.0 */
/* The timeline: records what a process does, with times, while the profiler is on (trace/profiler.h): calls, tasks,
 * marks. Everybody who has something to record asks timeline_wants() first, which costs a load and a branch.
 *
 * Any thread. One lock guards the writing; no other lock is taken while it is held. */
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
  TIMELINE_WANTS_SHAPES = 4, /* shapes of the tensors of operators */
  TIMELINE_WANTS_MARKS = 8,
  TIMELINE_WANTS_MEMORY = 128, /* allocations and frees of device memory (profiler_memory.h) */
  /* These belong to no session and are never switched off. */
  TIMELINE_WANTS_LOAD = 16,    /* how long tasks run (load.h) */
  TIMELINE_WANTS_WORK = 32,    /* tasks for a recording (record.h) */
  TIMELINE_WANTS_OVERLAP = 64, /* when any task runs (overlap.h) */
  TIMELINE_WANTS_DRY = 256,    /* the clocks of a dry run (runtime/dry/dry.h) */
  TIMELINE_ALWAYS = TIMELINE_WANTS_LOAD | TIMELINE_WANTS_WORK | TIMELINE_WANTS_OVERLAP | TIMELINE_WANTS_DRY,
  /* Not of the timeline, but asked with the same load, where a call begins: the checker is told of handles. Never
   * switched off. */
  TIMELINE_TELLS_HANDLES = 128,
};

extern _Atomic uint32_t timeline_wanted;
static inline bool timeline_wants(uint32_t what) {
  return unlikely(atomic_load_explicit(&timeline_wanted, memory_order_relaxed) & what);
}

uint64_t timeline_now(void);

/* Returns the number of a text, which gets one at its first use; 0 while nothing is recorded. */
uint32_t timeline_name(const char *text, size_t bytes);

/* Adds a record; its thread is the caller. Does nothing for a device that is not recorded, or after timeline_close. */
void timeline_add(timeline_record *r);

/* When the call began that the calling thread begins; TIMELINE_UNTIMED where only handles are told. Never 0. */
#define TIMELINE_UNTIMED UINT64_MAX
__attribute__((cold)) uint64_t timeline_begin_call(void);

/* Adds a call that began at start_ns, which may be TIMELINE_UNTIMED, and ends now. */
__attribute__((cold)) void timeline_call(const char *name, uint64_t start_ns);

/* Open the files of the host, and then of a device, in an existing folder. Nothing is recorded before timeline_want.
 * ST_CONFIG_PATH if a file can't be made. */
status timeline_open(const char *folder);
status timeline_open_device(const char *folder, int device);

/* Sets what is recorded from now on, and for which devices (a bit each). */
void timeline_want(uint32_t what, uint32_t devices);

/* Switches one of TIMELINE_ALWAYS, or TIMELINE_TELLS_HANDLES, on. */
void timeline_want_always(uint32_t what);

/* Limits what is written to this many bytes; 0: no limit. */
void timeline_limit(uint64_t bytes);

/* Writes what is buffered. Tells how many records the limit kept out. ST_WRITE_FILE if writing failed. */
status timeline_flush(uint64_t *n_left_out);

void timeline_close(void);

#endif
