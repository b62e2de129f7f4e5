#include "op/parallel.h"

#ifdef _OPENMP
#  include <omp.h>
#endif

#include "runtime/scheduler.h"

static spinlock team; /* held by the one task that runs with several threads */

int parallel_most(void) {
#ifdef _OPENMP
  const int allowed = omp_get_max_threads(), cores = scheduler_n_cores();
  return allowed < cores ? allowed : cores;
#else
  return 1;
#endif
}

int parallel_begin(uint64_t cost_ns) {
#ifdef _OPENMP
  if (likely(cost_ns < SCHEDULER_LONG_NS)) return 1;
  const int most = parallel_most();
  /* The task itself is one of the long ones where its estimate said so. */
  if (most <= 1 || scheduler_n_long() > 1 || !spin_trylock(&team)) return 1;
  const uint64_t worth = cost_ns / (SCHEDULER_LONG_NS / 2);
  return worth < (uint64_t)most ? (int)worth : most;
#else
  (void)cost_ns;
  return 1;
#endif
}

void parallel_end(int n_threads) {
  if (n_threads > 1) spin_unlock(&team);
}
