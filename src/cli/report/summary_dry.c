/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/summary_dry.h"

#include <inttypes.h>
#include <string.h>

#include "base/settings/dry_options.h"
#include "cli/figures.h"
#include "cli/report/roofline_table.h"
#include "cli/report/stats_read.h"

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

/* The end of the run in modelled time. Copies for which the host waited without a stream are in the host's clock, if
 * there is one. */
static uint64_t dry_end_ns(const stats_dry *d) {
  const uint64_t host_ns = d->host == DRY_HOST_NONE ? d->waited_ns : d->host_ns;
  return d->latest_ns > host_ns ? d->latest_ns : host_ns;
}

static void dry_print_time(FILE *out, const stats_file *p) {
  const stats_dry *d = &p->dry;
  uint64_t communicated_ns = 0, exposed_ns = 0;
  for (int i = 0; i < STATS_MAX_COLLECTIVES; i++) {
    communicated_ns += p->collectives[i].dry_ns;
    exposed_ns += p->collectives[i].dry_exposed_ns;
  }
  const bool has_host = d->host != DRY_HOST_NONE;
  fprintf(out, "              device time at least %s: %s of tasks, as streams overlap%s\n", format_ns(dry_end_ns(d)),
          format_ns(d->busy_ns + d->waited_ns), has_host ? " and the host submits them" : "; without the host's time");
  if (has_host) {
    const uint64_t busy_ns = d->host_ns > d->host_waited_ns ? d->host_ns - d->host_waited_ns : 0;
    fprintf(out,
            "              the host works %s of it, %.0f %%, and waits for devices %s; %" PRIu64
            " submissions, each %s\n",
            format_ns(busy_ns), dry_end_ns(d) ? 100.0 * (double)busy_ns / (double)dry_end_ns(d) : 0.0,
            format_ns(d->host_waited_ns), d->n_submitted, format_ns(d->n_submitted ? busy_ns / d->n_submitted : 0));
  }
  if (*d->topology)
    fprintf(out, "              communication on %s: %s, of which %s exposed, the rest behind computing\n", d->topology,
            format_ns(communicated_ns), format_ns(exposed_ns));
}

static void print_values(FILE *out, const stats_file *p) {
  for (uint64_t i = 0; i < p->dry.n_values && i < STATS_MAX_DRY_VALUES; i++) {
    const stats_dry_value *v = &p->dry.values[i];
    if (v->copies)
      fprintf(out, "              %-24s %" PRIu64 " copies to the host got values\n", v->site, v->copies);
    else
      fprintf(out, "              %-24s no copy to the host from there needed a value\n", v->site);
    if (v->misfits)
      fprintf(out, "              %-24s %" PRIu64 " copies got zeros: their size is none of the type's\n", v->site,
              v->misfits);
  }
}

static cJSON *dry_values_json(const stats_dry *d) {
  cJSON *array = cJSON_CreateArray();
  for (uint64_t i = 0; i < d->n_values && i < STATS_MAX_DRY_VALUES; i++) {
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "line", d->values[i].site);
    cJSON_AddNumberToObject(row, "copies", (double)d->values[i].copies);
    cJSON_AddNumberToObject(row, "misfits", (double)d->values[i].misfits);
    cJSON_AddItemToArray(array, row);
  }
  return array;
}

cJSON *summary_dry_json(const stats_file *p) {
  static const char *const hosts[] = {
      [DRY_HOST_NONE] = "none", [DRY_HOST_MEASURED] = "measured", [DRY_HOST_GIVEN] = "given"};
  const stats_dry *d = &p->dry;
  if (!d->on) return cJSON_CreateNull();
  cJSON *object = cJSON_CreateObject();
  cJSON_AddNumberToObject(object, "time_ns", (double)dry_end_ns(d));
  cJSON_AddNumberToObject(object, "busy_ns", (double)(d->busy_ns + d->waited_ns));
  cJSON_AddStringToObject(object, "host_time", hosts[d->host <= DRY_HOST_GIVEN ? d->host : DRY_HOST_NONE]);
  cJSON_AddNumberToObject(object, "host_ns", (double)d->host_ns);
  cJSON_AddNumberToObject(object, "host_waited_ns", (double)d->host_waited_ns);
  cJSON_AddNumberToObject(object, "submissions", (double)d->n_submitted);
  cJSON_AddStringToObject(object, "topology", d->topology);
  cJSON_AddItemToObject(object, "values", dry_values_json(d));
  return object;
}

void summary_dry(FILE *out, const stats_file *p) {
  if (!p->dry.on) return;
  print_launches(out, p);
  dry_print_time(out, p);
  print_bounds(out, p);
  print_unknown(out, p);
  print_values(out, p);
}
