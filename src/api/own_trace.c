/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points of Cannon's own about what has run (include/cannon/trace.h). */
#include "cannon/trace.h"

#include "api/api.h"
#include "trace/stats_write.h"

uint64_t cannon_operator_launches(void) {
  API_ENTER();
  stats_file *stats = trace_stats();
  const uint32_t n_ops = atomic_load(&stats->n_ops);
  uint64_t n = 0;
  for (uint32_t i = 0; i < n_ops && i < STATS_MAX_OPS; ++i) n += atomic_load(&stats->ops[i].launches);
  return n;
}
