/* SPDX-License-Identifier: Apache-2.0 */
/* Tells the hooks (base/hooks.h) which memory tasks use, from what their kinds say of it (task_kind.uses), and what
 * orders them (task_kind.orders). Called where somebody listens to tasks only. Thread-safe. */
#ifndef CANNON_RUNTIME_TASK_TELL_H
#define CANNON_RUNTIME_TASK_TELL_H

#include "runtime/stream.h"

/* A task that is about to be put into the stream's queue, or each task of the graph that it plays. The stream's submit
 * lock is held. */
void task_tell(const task *t, stream *s);

/* A task that the calling thread is about to carry out itself, without a stream. Its views may also be addresses of the
 * host. model_ns as hook_task has it. */
void task_tell_now(const task *t, uint64_t model_ns);

/* A step of the front task, for the stream's runner: HOOK_ENTERS or HOOK_RESUMES. */
void task_tell_step(hook_order_kind kind, const stream *s);

static inline void task_tell_passed(const stream *s) {
  if (hooks_tasks_wanted()) task_tell_step(HOOK_RESUMES, s);
}

/* The host has waited for all tasks of the stream, or (is_query) has been told that they are done. */
static inline void task_tell_waited(const stream *s, bool is_query) {
  if (hooks_tasks_wanted())
    hooks_order((hook_order){.kind = HOOK_STREAM_AWAITED, .device = s->device, .stream = s->id, .is_query = is_query});
}

#endif
