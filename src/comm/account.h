/* SPDX-License-Identifier: Apache-2.0 */
/* What a collective tells of itself: counters (trace/stats.h), the profiler's rows, the recording (base/hooks.h), and
 * for whom it waits (waits.h). Called by collective.c, by the thread that runs the task. */
#ifndef CANNON_COMM_ACCOUNT_H
#define CANNON_COMM_ACCOUNT_H

#include "base/hooks.h"
#include "comm/waits.h"
#include "runtime/stream.h"
#include "trace/stats_write.h"
#include "trace/timeline.h"

struct collective;

/* Part of a collective. */
typedef struct {
  uint64_t begun_ns;    /* when the task ran for the first time, while somebody wants to know; else 0 */
  uint64_t overlap_ns;  /* overlap_ns() then */
  uint64_t timeline_ns; /* timeline_now() then; 0: nothing was profiled */
  machine_wait_slot *slot;
} account_state;

/* Whether anybody wants to know: three loads. */
static inline bool account_is_wanted(void) {
  return trace_is_on() || hooks_any() || timeline_wants(TIMELINE_WANTS_TASKS);
}

/* The task is about to run, while somebody wants to know; is about to wait outside; has done its work. */
void account_begin(struct collective *op);
void account_wait(struct collective *op);
void account_done(const struct collective *op, const stream *s);

/* The collective is freed. */
void account_end(struct collective *op);

/* For the profiler's timeline (task_kind.describe). The detail is
 * "group|rank|ranks|number|type|count|sent|received|peer", which packaging/tools/profiler reads; peer is the only rank
 * with which this one exchanges data, or -1. */
void account_describe(const struct collective *op, task_words *words);

/* Words for the ranks that wait for each other in a cycle with this collective; false: none do. */
bool account_describe_cycle(const struct collective *op, char *words, size_t bytes);

#endif
