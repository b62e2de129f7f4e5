/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/summary_memory.h"
#include "cli/check/lines.h"
#include "cli/figures.h"
#include "cli/report/health.h"

#include <inttypes.h>
#include <stdlib.h>

enum { TOP_SITES = 5, TOP_POOLS = 4, TOP_STREAMS = 6 };

/* Little memory is always fragmented, as it comes in whole pages: that is no fault of the program and not graded. */
static void print_fragmentation(FILE *out, const stats_heap *h, bool running) {
  const uint64_t committed = running ? h->committed_bytes : h->peak_committed_bytes;
  const double value = health_fragmentation(h, running);
  const health_grade grade = health_judge_of(HEALTH_FRAGMENTATION, value, committed);
  if (grade == HEALTH_UNKNOWN)
    fprintf(out, "fragmentation unrated");
  else
    fprintf(out, "fragmentation %.1f %% (%s)", 100 * value, health_grade_name(grade));
}

static void print_heap(FILE *out, const char *name, const stats_heap *h, bool running) {
  uint64_t live = h->live_bytes;
  fprintf(out, "  memory      %-9s peak %s of %s, %" PRIu64 " allocations (%s), %" PRIu64 " frees, %" PRIu64 " refused",
          name, format_bytes(h->peak_bytes), format_bytes(h->size_bytes), h->n_allocs, format_bytes(h->allocated_bytes),
          h->n_frees, h->n_refused);
  if (live) fprintf(out, ", %s %s", format_bytes(live), running ? "live" : "left");
  fputc('\n', out);
  if (!h->n_allocs) return;
  fprintf(out, "              committed %s, peak %s, cached %s; ", format_bytes(h->committed_bytes),
          format_bytes(h->peak_committed_bytes), format_bytes(h->cached_bytes));
  print_fragmentation(out, h, running);
  fprintf(out, "; rounding %.1f %%; hits %.1f %%\n", 100 * health_internal(h, running), 100 * health_hit_rate(h));
}

static void print_latencies(FILE *out, const char *name, const stats_heap *h) {
  if (!latency_count(&h->alloc)) return;
  fprintf(out, "  latency     %-9s allocation 50 %% %s, 99 %% %s", name, format_ns(latency_percentile(&h->alloc, 50)),
          format_ns(latency_percentile(&h->alloc, 99)));
  if (latency_count(&h->free))
    fprintf(out, "; free 50 %% %s, 99 %% %s", format_ns(latency_percentile(&h->free, 50)),
            format_ns(latency_percentile(&h->free, 99)));
  fputc('\n', out);
}

static void print_alarm(FILE *out, const char *name, const stats_heap *h) {
  if (h->alarm_bytes)
    fprintf(out, "  alarm       %-9s %s of %s were in use\n", name, format_bytes(h->alarm_bytes),
            format_bytes(h->size_bytes));
}

static void summary_print_memory(FILE *out, int device, const stats_heap *h, bool running) {
  const device_words name = device_in_words(device);
  if (!h->size_bytes || (device < 0 && !h->n_allocs && !h->n_refused)) return;
  print_heap(out, name.text, h, running);
  print_latencies(out, name.text, h);
  print_alarm(out, name.text, h);
}

static void print_streams(FILE *out, const stats_file *p) {
  unsigned shown = 0, more = 0;
  for (int i = 0; i < STATS_MAX_STREAMS; i++) {
    const stats_stream *s = &p->streams[i];
    if (s->state == STATS_ROW_UNUSED || !s->memory.n_allocs) continue;
    if (shown == TOP_STREAMS) {
      more++;
      continue;
    }
    shown++;
    char name[24] = "others";
    if (s->id != UINT32_MAX) snprintf(name, sizeof name, "%u", s->id);
    fprintf(out, "  stream      %-16s device %d, peak %s of pools, %" PRIu64 " allocations, hits %.1f %%, 99 %% %s\n",
            name, s->device, format_bytes(s->memory.peak_bytes), s->memory.n_allocs, 100 * health_hit_rate(&s->memory),
            format_ns(latency_percentile(&s->memory.alloc, 99)));
  }
  if (more) fprintf(out, "              %u more\n", more);
}

static void print_pools(FILE *out, const stats_file *p, bool running) {
  unsigned shown = 0, more = 0;
  for (int i = 0; i < STATS_MAX_POOLS; i++) {
    const stats_pool *pool = &p->pools[i];
    if (pool->state == STATS_ROW_UNUSED || !pool->memory.n_allocs) continue;
    if (shown == TOP_POOLS) {
      more++;
      continue;
    }
    shown++;
    fprintf(out, "  pool        %-16.16s device %d, peak %s, committed %s, %" PRIu64 " allocations, hits %.1f %%\n",
            pool->name, pool->device, format_bytes(pool->memory.peak_bytes),
            format_bytes(running ? pool->memory.committed_bytes : pool->memory.peak_committed_bytes),
            pool->memory.n_allocs, 100 * health_hit_rate(&pool->memory));
  }
  if (more) fprintf(out, "              %u more\n", more);
}

static void print_health(FILE *out, const stats_file *p, bool running) {
  const char *before = "  health      ";
  for (health_kind kind = 0; kind < HEALTH_KINDS; kind++) {
    const health_verdict v = health_of(p, kind, running);
    if (v.grade == HEALTH_UNKNOWN) continue;
    fprintf(out, "%s%s %s", before, health_name(kind), health_grade_name(v.grade));
    if (kind == HEALTH_LATENCY)
      fprintf(out, " (%.2f us)", v.value);
    else
      fprintf(out, " (%.1f %%)", 100 * v.value);
    before = ", ";
  }
  if (*before == ',') fputc('\n', out);
}

void summary_memory(FILE *out, const stats_file *p, bool running) {
  for (unsigned i = 0; i < stats_device_count(p); i++) summary_print_memory(out, (int)i, &p->device[i], running);
  summary_print_memory(out, HOST_PINNED, &p->pinned, running);
  summary_print_memory(out, HOST_MANAGED, &p->managed, running);
  print_pools(out, p, running);
  print_streams(out, p);
  print_health(out, p, running);
}

static int by_peak(const void *a, const void *b) {
  const stats_site *x = *(const stats_site *const *)a, *y = *(const stats_site *const *)b;
  return (x->peak_bytes < y->peak_bytes) - (x->peak_bytes > y->peak_bytes);
}

static int by_live(const void *a, const void *b) {
  const stats_site *x = *(const stats_site *const *)a, *y = *(const stats_site *const *)b;
  return (x->live_bytes < y->live_bytes) - (x->live_bytes > y->live_bytes);
}

unsigned summary_sorted_sites(const stats_file *p, const stats_site *sorted[STATS_MAX_SITES], bool live) {
  unsigned n = 0;
  for (int i = 0; i < STATS_MAX_SITES; i++)
    if (p->sites[i].address) sorted[n++] = &p->sites[i];
  if (n) qsort(sorted, n, sizeof *sorted, live ? by_live : by_peak);
  return n;
}

static void print_site(FILE *out, const stats_file *p, const stats_site *site) {
  char text[256];
  lines_describe(p, site->place, text, sizeof text);
  fprintf(out, "              %10s %10s %8" PRIu64 "  %s, %s\n", format_bytes(site->peak_bytes),
          format_bytes(site->live_bytes), site->n_allocs, site->call, text);
}

void summary_sites(FILE *out, const stats_file *p, bool running) {
  const stats_site *sites[STATS_MAX_SITES];
  unsigned n = summary_sorted_sites(p, sites, false);
  if (!n) return;
  fprintf(out, "  sites       %10s %10s %8s  by peak\n", "peak", running ? "live" : "left", "count");
  for (unsigned i = 0; i < n && i < TOP_SITES; i++) print_site(out, p, sites[i]);
  if (n > TOP_SITES) fprintf(out, "              %u more\n", n - TOP_SITES);
  summary_sorted_sites(p, sites, true);
  if (!sites[0]->live_bytes) return;
  fprintf(out, "              %10s %10s %8s  by what is %s\n", "", "", "", running ? "live" : "left");
  for (unsigned i = 0; i < n && i < TOP_SITES && sites[i]->live_bytes; i++) print_site(out, p, sites[i]);
}
