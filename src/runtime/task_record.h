/* Tasks in the profiler's timeline: when and by whom each was submitted, and when it ran. */
#ifndef CANNON_RUNTIME_TASK_RECORD_H
#define CANNON_RUNTIME_TASK_RECORD_H

#include "runtime/stream.h"
#include "trace/timeline.h"

/* The task of that id was submitted, between start_ns and now. */
__attribute__((cold)) void task_record_submission(const stream *s, uint32_t id, uint64_t start_ns);

/* The front task's run, recorded, or only timed (trace/load.h). One that is blocked is recorded when it has run to its
 * end. */
__attribute__((cold, noinline)) status task_run_recorded(task *t, stream *s);

static inline status task_run(task *t, stream *s) {
  INVARIANT(atomic_load_explicit(&s->run_lock, memory_order_relaxed)); /* one runner at a time */
  return timeline_wants(TIMELINE_WANTS_TASKS | TIMELINE_WANTS_LOAD) ? task_run_recorded(t, s) : t->kind->run(t, s);
}

/* Puts a task into the stream that does nothing but be recorded, and adds r, a mark or a step, that refers to it. */
status task_record_point(timeline_record *r, stream *s);

#endif
