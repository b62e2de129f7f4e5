/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/summary_dry.h"

#include <inttypes.h>
#include <string.h>

#include "cli/figures.h"
#include "cli/roofline_table.h"
#include "cli/stats_read.h"

enum { MOST_BOUNDS = 4 };

static void print_launches(FILE *out, const stats_file *p) {
  uint64_t launches = 0, computed = 0;
  for (unsigned i = 0; i < stats_op_count(p); i++) {
    launches += p->ops[i].launches;
    computed += p->ops[i].computed;
  }
  fprintf(out,
          "  dry run     %" PRIu64 " operators, of which %" PRIu64
          " small ones were computed; all other results are 0\n",
          launches, computed);
}

/* The units and links that bound the operators, by their share of the operators' time. */
static void print_bounds(FILE *out, const stats_file *p) {
  uint64_t ns[STATS_N_BOUNDS] = {0}, all = 0;
  for (unsigned i = 0; i < stats_op_count(p); i++)
    for (int b = 0; b < STATS_N_BOUNDS; b++) {
      ns[b] += p->ops[i].bound_ns[b];
      all += p->ops[i].bound_ns[b];
    }
  if (!all) return;
  fprintf(out, "              operators are bound by");
  for (int n = 0; n < MOST_BOUNDS; n++) {
    int most = 0;
    for (int b = 1; b < STATS_N_BOUNDS; b++)
      if (ns[b] > ns[most]) most = b;
    if (!ns[most]) break;
    fprintf(out, "%s %s %.0f %%", n ? "," : "", roofline_bound_name((stats_bound)most),
            100.0 * (double)ns[most] / (double)all);
    ns[most] = 0;
  }
  fprintf(out, "\n");
}

static void print_unknown(FILE *out, const stats_file *p) {
  for (unsigned i = 0; i < stats_op_count(p); i++)
    if (p->ops[i].unknown)
      fprintf(out, "              %-24.40s %" PRIu64 " of %" PRIu64 " results have the size that --unknown states\n",
              p->ops[i].name, p->ops[i].unknown, p->ops[i].launches);
}

void summary_dry(FILE *out, const stats_file *p) {
  if (!p->dry.on) return;
  print_launches(out, p);
  fprintf(out, "              device time at least %s: %s of tasks, as streams overlap; without host and collectives\n",
          format_ns(p->dry.latest_ns > p->dry.waited_ns ? p->dry.latest_ns : p->dry.waited_ns),
          format_ns(p->dry.busy_ns + p->dry.waited_ns));
  print_bounds(out, p);
  print_unknown(out, p);
}
