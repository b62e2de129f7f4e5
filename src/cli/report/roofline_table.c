/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/roofline_table.h"

#include <stdlib.h>

#include "cli/figures.h"
#include "cli/report/stats_read.h"

enum { TOP = 8 };

const char *roofline_bound_name(stats_bound bound) {
  static const char *const names[STATS_N_BOUNDS] = {
      [STATS_BOUND_LATENCY] = "latency", [STATS_BOUND_HOST_LINK] = "host link",
      [STATS_BOUND_HBM] = "HBM",         [STATS_BOUND_DDR] = "DDR",
      [STATS_BOUND_L2] = "L2",           [STATS_BOUND_L1] = "L1",
      [STATS_BOUND_UB] = "UB",           [STATS_BOUND_L0] = "L0",
      [STATS_BOUND_CUBE] = "cube",       [STATS_BOUND_VECTOR] = "vector"};
  return names[bound];
}

stats_bound roofline_bound_of(const stats_op *op) {
  stats_bound most = STATS_BOUND_LATENCY;
  for (int b = 0; b < STATS_N_BOUNDS; b++)
    if (op->bound_ns[b] > op->bound_ns[most]) most = (stats_bound)b;
  return most;
}

static int by_device_time(const void *a, const void *b) {
  const stats_op *x = *(const stats_op *const *)a, *y = *(const stats_op *const *)b;
  return (x->device_ns < y->device_ns) - (x->device_ns > y->device_ns);
}

static void print_row(FILE *out, const stats_op *op, uint64_t total_ns) {
  const uint64_t ns = op->device_ns, bytes = op->moved_bytes;
  const stats_bound bound = roofline_bound_of(op);
  fprintf(out, "              %-24.40s %10s %9.1f %10s %5.1f %%  %-9s %3.0f %%\n", op->name, format_bytes(bytes),
          bytes ? (double)op->operations / (double)bytes : 0.0, format_ns(ns), 100.0 * (double)ns / (double)total_ns,
          roofline_bound_name(bound), 100.0 * (double)op->bound_ns[bound] / (double)ns);
}

void roofline_print(FILE *out, const stats_file *p) {
  const stats_op *ops[STATS_MAX_OPS];
  unsigned n = 0;
  uint64_t total_ns = 0;
  for (unsigned i = 0; i < stats_op_count(p); i++) {
    if (!p->ops[i].device_ns) continue;
    ops[n++] = &p->ops[i];
    total_ns += p->ops[i].device_ns;
  }
  if (!n) return;
  qsort(ops, n, sizeof *ops, by_device_time);
  fprintf(out, "  on device   %-24s %10s %9s %10s %7s  bound by\n", "at least", "bytes", "ops/byte",
          format_ns(total_ns), "share");
  for (unsigned i = 0; i < n && i < TOP; i++) print_row(out, ops[i], total_ns);
  if (n > TOP) fprintf(out, "              %u more\n", n - TOP);
}
