/* SPDX-License-Identifier: Apache-2.0 */
/* Records tasks in the profiler's timeline (trace/timeline.h): when and by which thread each was submitted, and when it
 * ran. Called by stream.c, graph_run.c and src/api. */
#ifndef CANNON_RUNTIME_TASK_RECORD_H
#define CANNON_RUNTIME_TASK_RECORD_H

#include "runtime/stream.h"
#include "trace/timeline.h"

/* Records that the task of this id was submitted, between start_ns and now. */
__attribute__((cold)) void task_record_submission(const stream *s, uint32_t id, uint64_t start_ns);

/* Runs the front task and records it, or only accounts its time as load of the device (trace/load.h), or tells it to
 * the recorder (base/hooks.h). A task that blocks, or looks for other processes again and again, is recorded when it
 * has run to its end. */
__attribute__((cold, noinline)) status task_run_recorded(task *t, stream *s);

/* Runs a task; for the stream's runner. */
static inline status task_run(task *t, stream *s) {
  INVARIANT(spin_is_held(&s->run_lock, memory_order_relaxed)); /* one runner at a time */
  return timeline_wants(TIMELINE_WANTS_TASKS | TIMELINE_ALWAYS) ? task_run_recorded(t, s) : t->kind->run(t, s);
}

/* Submits a task that does nothing, and adds the record r, a mark or a step, which refers to it. */
status task_record_point(timeline_record *r, stream *s);

#endif
