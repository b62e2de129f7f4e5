/* Parallel loops inside a task: libgomp teams, one at a time in the process, and only for work that is worth opening
 * one (SCHEDULER_LONG_NS) while no other long task runs. Results must not depend on the number of threads. */
#ifndef CANNON_OP_PARALLEL_H
#define CANNON_OP_PARALLEL_H

#include <stdint.h>

/* The number of threads for a loop of about cost_ns on one core; more than 1 takes the team, and the caller returns it
 * with parallel_end(). */
int parallel_begin(uint64_t cost_ns);
void parallel_end(int n_threads);

/* The most that parallel_begin ever returns. */
int parallel_most(void);

/* [*begin, *end): the share of thread t of n in `total` items, cut at multiples of grain. */
static inline void parallel_share(int64_t total, int64_t grain, int t, int n, int64_t *begin, int64_t *end) {
  const int64_t grains = (total + grain - 1) / grain;
  *begin = grains * t / n * grain;
  *end = grains * (t + 1) / n * grain;
  if (*begin > total) *begin = total;
  if (*end > total) *end = total;
}

#endif
