/* The writer's side of stats.h. With CANNON_STATS_DIR unset everything here is a load and a branch. */
#ifndef CANNON_TRACE_TRACE_H
#define CANNON_TRACE_TRACE_H

#include <stdbool.h>

#include "trace/stats.h"

/* The process's counters, never NULL; maps the file at first use. */
stats_file *trace_stats(void);

/* Whether somebody reads the counters, so that clocks are worth reading. Fixed when the library is loaded. */
extern bool trace_wanted; /* CANNON_STATS_DIR is set */
bool trace_is_mapped(void);
static inline bool trace_is_on(void) { return __builtin_expect(trace_wanted, false) && trace_is_mapped(); }

/* The row of an operator or task kind; makes it at first use. Look up once and keep: rows never move. */
stats_op *trace_row(const char *name);

static inline void trace_add(counter *c, uint64_t n) { atomic_fetch_add_explicit(c, n, memory_order_relaxed); }

/* Raises *c to n. */
static inline void trace_max(counter *c, uint64_t n) {
  uint64_t seen = atomic_load_explicit(c, memory_order_relaxed);
  while (seen < n && !atomic_compare_exchange_weak_explicit(c, &seen, n, memory_order_relaxed, memory_order_relaxed)) {
  }
}

void trace_error(void);

/* At the end of the process: no more task runs. Lists what was never freed. */
void trace_close(void);

#endif
