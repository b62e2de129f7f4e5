/* SPDX-License-Identifier: Apache-2.0 */
/* Counters by call site: with CANNON_SITES=1, and if somebody reads them (CANNON_STATS_DIR), allocations are counted by
 * the place in the program that made them, in the table of trace/stats.h. */
#include "base/hooks.h"
#include "base/settings/variables.h"
#include "trace/stats_write.h"

static void count_alloc(const hook_block *b) {
  stats_site *row = trace_site(b->site, b->call);
  const uint64_t live = atomic_fetch_add_explicit(&row->live_bytes, b->requested, memory_order_relaxed) + b->requested;
  trace_max(&row->peak_bytes, live);
  trace_add(&row->live_blocks, 1);
  trace_add(&row->allocated_bytes, b->requested);
  trace_add(&row->n_allocs, 1);
}

static void count_free(const hook_block *b, void *site) {
  (void)site;
  stats_site *row = trace_site(b->site, b->call);
  atomic_fetch_sub_explicit(&row->live_bytes, b->requested, memory_order_relaxed);
  atomic_fetch_sub_explicit(&row->live_blocks, 1, memory_order_relaxed);
}

__attribute__((constructor)) static void sites_start(void) {
  static const hooks listener = {.alloc = count_alloc, .free = count_free};
  uint64_t wanted;
  /* Reads only the environment here: a process that uses no device does without counters. */
  if (variable_read(VARIABLE_SITES, &wanted) && wanted && variable_text(VARIABLE_STATS_DIR)) hooks_add(&listener);
}
