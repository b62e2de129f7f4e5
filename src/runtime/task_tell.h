/* SPDX-License-Identifier: Apache-2.0 */
/* Tells the hooks (base/hooks.h) which memory tasks use, from what their kinds say of it (task_kind.uses). Called where
 * somebody listens to tasks only. Thread-safe. */
#ifndef CANNON_RUNTIME_TASK_TELL_H
#define CANNON_RUNTIME_TASK_TELL_H

#include "runtime/stream.h"

/* A task that is about to be put into the stream's queue, or each task of the graph that it plays. The stream's submit
 * lock is held. */
void task_tell(const task *t, stream *s);

/* A task that the calling thread is about to carry out itself, without a stream. Its views may also be addresses of the
 * host. */
void task_tell_now(const task *t);

#endif
