#include "op/parallel.h"

#ifdef _OPENMP
#  include <omp.h>
#  include <pthread.h>
#  include <signal.h>

#  include "base/log.h"
#endif

#include "runtime/scheduler.h"

static spinlock team; /* held by the one task that runs with several threads */

#ifdef _OPENMP
/* The threads that this process could start beside the one that asks; libgomp ends the program where it can't (limits
 * of processes: ulimit -u, a control group's), so they are tried once, all at a time. Some 30 us each. */
static int n_startable;

static void *pass(void *gate) {
  pthread_mutex_lock(gate);
  pthread_mutex_unlock(gate);
  return NULL;
}

static void try_threads(void) {
  enum { MOST_TRIED = 255 };
  static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
  pthread_t thread[MOST_TRIED];
  sigset_t all, before;
  const int cores = scheduler_n_cores(), wanted = cores - 1 < MOST_TRIED ? cores - 1 : MOST_TRIED;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); /* the program's signals are not these threads' to take */
  pthread_mutex_lock(&gate);
  while (n_startable < wanted && pthread_create(&thread[n_startable], NULL, pass, &gate) == 0) ++n_startable;
  pthread_mutex_unlock(&gate);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  for (int i = 0; i < n_startable; ++i) pthread_join(thread[i], NULL);
  if (n_startable == wanted) return;
  log_line(LOG_WARNING, "operators could use %d threads beside the first, but only %d can be started (ulimit -u?)",
           wanted, n_startable);
  n_startable /= 2; /* other threads are started, too */
}

static int most_threads(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  const int allowed = omp_get_max_threads(), cores = scheduler_n_cores(), most = allowed < cores ? allowed : cores;
  if (most > 1) pthread_once(&once, try_threads);
  return most <= n_startable + 1 ? most : n_startable + 1;
}
#endif

int parallel_most(uint64_t cost_ns) {
#ifdef _OPENMP
  if (likely(cost_ns < SCHEDULER_LONG_NS)) return 1;
  const int most = most_threads();
  const uint64_t worth = cost_ns / (SCHEDULER_LONG_NS / 2);
  return worth < (uint64_t)most ? (int)worth : most;
#else
  (void)cost_ns;
  return 1;
#endif
}

int parallel_begin(uint64_t cost_ns) {
  const int most = parallel_most(cost_ns);
  /* The task itself is one of the long ones where its estimate said so. */
  return most > 1 && scheduler_n_long() <= 1 && spin_trylock(&team) ? most : 1;
}

void parallel_end(int n_threads) {
  if (n_threads > 1) spin_unlock(&team);
}
