/* Parallel loops inside a task: a team of library threads, for one loop at a time in the process, and only for work
 * that is worth it (PARALLEL_LEAST_NS) while no other long task runs.
 *
 *   parallel_team   what one loop got, from parallel_begin() to parallel_end(): the team, or the caller alone
 *   a part          what a thread takes at once. The caller takes parts as the others do and waits only for those that
 *                   others have begun, so a thread that is given no processor keeps nobody waiting.
 *
 * The size of a team is bounded by OMP_NUM_THREADS, affinity, control groups' quotas, and by what teams have won and
 * lost lately (runtime/bank.h). Which thread runs a part is up to chance, so results must not depend on it, nor on how many
 * threads or parts there are. The first loop that needs a thread starts it; where the host refuses, there are fewer.
 * Threads look for the next loop for a little while and then sleep. A forked child has none and starts its own. */
#ifndef CANNON_RUNTIME_PARALLEL_H
#define CANNON_RUNTIME_PARALLEL_H

#include <stdbool.h>
#include <stdint.h>

enum { PARALLEL_LEAST_NS = 20 * 1000 };

typedef struct {
  int n_threads; /* that may run parts, the caller's included; 1: no team. The caller may lower it. */
  bool is_held;  /* the team is kept from others, with or without use */
  uint64_t cost_ns, begin_ns;
} parallel_team;

/* A part, on a thread that is numbered below n_threads; the caller's is 0. */
typedef void parallel_body(const void *job, int64_t part, int thread);
typedef void parallel_range(const void *job, int64_t begin, int64_t end);

/* parallel.c's. */
parallel_team parallel_take(uint64_t cost_ns);
void parallel_give(const parallel_team *team);

/* The team for a loop of about cost_ns on one core. With n_threads 1 the caller runs the loop itself. In both cases it
 * calls parallel_end() behind it. Thread-safe; inside a part there is no other team. */
static inline parallel_team parallel_begin(uint64_t cost_ns) {
  return __builtin_expect(cost_ns < PARALLEL_LEAST_NS, 1) ? (parallel_team){.n_threads = 1} : parallel_take(cost_ns);
}
static inline void parallel_end(const parallel_team *team) {
  if (__builtin_expect(team->is_held, 0)) parallel_give(team);
}

/* Runs body(job, part, thread) once for each part below n_parts, and returns when all are done. May be called again
 * before parallel_end(). n_parts is below 2^28. */
void parallel_run(const parallel_team *team, parallel_body *body, const void *job, int64_t n_parts);

/* Runs body(job, begin, end) over [0, total), cut at multiples of grain into ranges. */
void parallel_ranges(const parallel_team *team, parallel_range *body, const void *job, int64_t total, int64_t grain);

/* The most threads that a loop of cost_ns gets: for workspace by threads. The same for one cost as long as the process
 * lives. */
int parallel_most(uint64_t cost_ns);

/* [*begin, *end): the share of part t of n in `total` items, cut at multiples of grain. */
static inline void parallel_share(int64_t total, int64_t grain, int64_t t, int64_t n, int64_t *begin, int64_t *end) {
  const int64_t grains = (total + grain - 1) / grain;
  *begin = grains * t / n * grain;
  *end = grains * (t + 1) / n * grain;
  if (*begin > total) *begin = total;
  if (*end > total) *end = total;
}

#endif
