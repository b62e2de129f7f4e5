/* SPDX-License-Identifier: Apache-2.0 */
/* Parallel loops inside a task: a team of library threads runs the chunks of a loop. There is one team in the process,
 * for one loop at a time. A loop gets it only if it is long enough (PARALLEL_LEAST_NS) and no other long task runs.
 *
 *   parallel_team   what a loop got, from parallel_begin() to parallel_end(): the team, or the calling thread alone
 *   chunk           the work that a thread takes at once. The caller takes chunks as the other threads do, and at the
 *                   end waits only for chunks that another thread has begun, so a thread that gets no processor delays
 *                   nobody
 *
 * OMP_NUM_THREADS, affinity, the control groups' quotas, and what teams have won and lost lately (runtime/bank.h)
 * bound the size of a team. Which thread runs a chunk is not determined, so results must not depend on it, nor on the
 * number of threads or chunks. Threads are started by the first loop that needs them; if the host refuses, there are
 * fewer. They look for the next loop for a short while and then sleep. The child of a fork has none of them and starts
 * its own.
 *
 * Called by kernels. Thread-safe. */
#ifndef CANNON_RUNTIME_PARALLEL_H
#define CANNON_RUNTIME_PARALLEL_H

#include <stdbool.h>
#include <stdint.h>

enum { PARALLEL_LEAST_NS = 20 * 1000 };

typedef struct {
  int n_threads; /* that may run chunks, with the caller; 1: no team. The caller may lower it. */
  bool is_held;  /* the loop has the team, whether it uses it or not */
  uint64_t cost_ns, begin_ns;
} parallel_team;

/* Runs one chunk (part); thread is 0 for the caller, and below n_threads. Runs the indices from begin to end - 1. */
typedef void parallel_body(const void *job, int64_t part, int thread);
typedef void parallel_range(const void *job, int64_t begin, int64_t end);

/* For the two functions below. */
parallel_team parallel_take(uint64_t cost_ns);
void parallel_give(const parallel_team *team);

/* Gets a team for a loop that takes about cost_ns on one core. If n_threads is 1, the caller runs the loop itself. In
 * both cases it calls parallel_end() afterwards. Inside a chunk no further team is given. */
static inline parallel_team parallel_begin(uint64_t cost_ns) {
  return __builtin_expect(cost_ns < PARALLEL_LEAST_NS, 1) ? (parallel_team){.n_threads = 1} : parallel_take(cost_ns);
}
static inline void parallel_end(const parallel_team *team) {
  if (__builtin_expect(team->is_held, 0)) parallel_give(team);
}

/* Calls body(job, part, thread) once for each chunk from 0 to n_parts - 1, and returns when all are done. May be called
 * again before parallel_end(). n_parts is below 2^28. */
void parallel_run(const parallel_team *team, parallel_body *body, const void *job, int64_t n_parts);

/* Divides [0, total) at multiples of grain into ranges and calls body(job, begin, end) for each. */
void parallel_ranges(const parallel_team *team, parallel_range *body, const void *job, int64_t total, int64_t grain);

/* The maximum number of threads that a loop of cost_ns gets, for workspace that each thread needs. Always
 * the same for the same cost. */
int parallel_max_threads(uint64_t cost_ns);

/* The range [*begin, *end) of `total` items that chunk t of n has, with bounds at multiples of grain. */
static inline void parallel_share(int64_t total, int64_t grain, int64_t t, int64_t n, int64_t *begin, int64_t *end) {
  const int64_t grains = (total + grain - 1) / grain;
  *begin = grains * t / n * grain;
  *end = grains * (t + 1) / n * grain;
  if (*begin > total) *begin = total;
  if (*end > total) *end = total;
}

#endif
