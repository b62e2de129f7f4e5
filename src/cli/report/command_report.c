/* SPDX-License-Identifier: Apache-2.0 */
/* cannon report: where the memory of a run went, on one screen, from its JSON report. */
#include "cli/commands.h"
#include "cli/figures.h"
#include "cli/report/health.h"
#include "cli/report/json_report.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPORT_TOP = 8 }; /* rows of a table: all tables of a process fit on one screen */

static const char help[] = "Usage: cannon report [--memory] FILE\n"
                           "\n"
                           "Shows where the memory of a run went, on one screen.\n"
                           "\n"
                           "FILE is the report of `cannon run --json`. Shown are peaks, fragmentation, refusals and\n"
                           "efficiency; what holds most, by line and by operator; and what leaked, by line. Lines\n"
                           "are known if the program ran with --sites.\n"
                           "\n"
                           "Options:\n"
                           "  --memory    the memory analysis, which is the only report and the default\n"
                           "  -h, --help  print this help and exit\n"
                           "\n"
                           "Exit status:\n"
                           "  0  success\n"
                           "  2  the command line is wrong, or the file is no such report\n"
                           "\n"
                           "Examples:\n"
                           "  cannon run --sites --json run.json ./train\n"
                           "  cannon report --memory run.json\n";

static const cJSON *member(const cJSON *object, const char *name) {
  return cJSON_GetObjectItemCaseSensitive(object, name);
}

static double report_number(const cJSON *object, const char *name) {
  const cJSON *value = member(object, name);
  return cJSON_IsNumber(value) && value->valuedouble > 0 ? value->valuedouble : 0;
}

static const char *report_text(const cJSON *object, const char *name) {
  const char *text = cJSON_GetStringValue(member(object, name));
  return text ? format_text(text) : "?";
}

static const char *bytes_text(double bytes) { return format_bytes((uint64_t)bytes); }

static double report_percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

/* ---- memory by device -------------------------------------------------------------------------------------------- */

static void report_heap(const char *name, const cJSON *heap) {
  const double peak = report_number(heap, "peak_bytes"), committed = report_number(heap, "peak_committed_bytes");
  const double size = report_number(heap, "size_bytes"), refused = report_number(heap, "refused");
  if (!report_number(heap, "allocations") && !refused) return;
  printf("  %-9s  peak %s of %s (%.1f %%), %.0f allocations\n", name, bytes_text(peak), bytes_text(size),
         report_percent(peak, size), report_number(heap, "allocations"));
  printf("             efficiency %.1f %%: %s live of %s committed, at the peaks\n", report_percent(peak, committed),
         bytes_text(peak), bytes_text(committed));
  const double fragmentation = report_number(heap, "external_fragmentation");
  const health_grade grade = health_judge_of(HEALTH_FRAGMENTATION, fragmentation, (uint64_t)committed);
  if (grade == HEALTH_UNKNOWN)
    printf("             fragmentation: %s is too little to grade it\n", bytes_text(committed));
  else
    printf("             fragmentation %.1f %% of %s: %s; rounding %.1f %%\n", 100 * fragmentation,
           bytes_text(committed), health_grade_name(grade), 100 * report_number(heap, "internal_fragmentation"));
  if (refused) printf("             refused %.0f allocations: the device, or the host, had no memory\n", refused);
  if (report_number(heap, "live_bytes"))
    printf("             left %s\n", bytes_text(report_number(heap, "live_bytes")));
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

typedef struct {
  const cJSON *row;
  double bytes;
} report_row;

static int report_by_bytes(const void *a, const void *b) {
  const report_row *x = a, *y = b;
  return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

/* The elements of an array with more than 0 bytes, the largest first; the caller frees them. */
static report_row *sorted_rows(const cJSON *array, double (*bytes_of)(const cJSON *row), int *n) {
  report_row *rows = calloc((size_t)cJSON_GetArraySize(array) + 1, sizeof *rows);
  if (!rows) abort();
  *n = 0;
  const cJSON *row;
  cJSON_ArrayForEach(row, array) {
    const double bytes = bytes_of(row);
    if (bytes > 0) rows[(*n)++] = (report_row){row, bytes};
  }
  qsort(rows, (size_t)*n, sizeof *rows, report_by_bytes);
  return rows;
}

static double peak_of_site(const cJSON *site) { return report_number(site, "peak_bytes"); }
static double left_of_site(const cJSON *site) { return report_number(site, "live_bytes"); }

static double outputs_of(const cJSON *op) { return report_number(member(op, "outputs"), "peak_bytes"); }
static double workspace_of(const cJSON *op) { return report_number(member(op, "workspace"), "peak_bytes"); }
static double memory_of(const cJSON *op) { return outputs_of(op) + workspace_of(op); }

static void report_more(int n) {
  if (n > REPORT_TOP) printf("  %d more\n", n - REPORT_TOP);
}

static void report_sites(const cJSON *sites, double peak) {
  int n;
  report_row *rows = sorted_rows(sites, peak_of_site, &n);
  if (n) printf("\n  by line, at the peak of each: %10s %7s %11s\n", "bytes", "share", "allocations");
  for (int i = 0; i < n && i < REPORT_TOP; ++i)
    printf("%41s %5.1f %% %11.0f  %s, %s\n", bytes_text(rows[i].bytes), report_percent(rows[i].bytes, peak),
           report_number(rows[i].row, "allocations"), report_text(rows[i].row, "call"),
           report_text(rows[i].row, "where"));
  report_more(n);
  free(rows);
}

static void report_operators(const cJSON *operators, double peak) {
  int n;
  report_row *rows = sorted_rows(operators, memory_of, &n);
  if (n) printf("\n  by operator, largest launch: %11s %7s %11s %11s\n", "bytes", "share", "outputs", "workspace");
  for (int i = 0; i < n && i < REPORT_TOP; ++i)
    printf("%41s %5.1f %% %11s %11s  %s\n", bytes_text(rows[i].bytes), report_percent(rows[i].bytes, peak),
           bytes_text(outputs_of(rows[i].row)), bytes_text(workspace_of(rows[i].row)),
           report_text(rows[i].row, "name"));
  report_more(n);
  free(rows);
}

static void report_leaks(const cJSON *process) {
  int n;
  const double count = report_number(member(process, "leaks"), "count");
  report_row *rows = sorted_rows(member(process, "sites"), left_of_site, &n);
  if (!count && !n) printf("\n  leaks: none\n");
  if (count) printf("\n  leaks: %.0f blocks\n", count);
  for (int i = 0; i < n && i < REPORT_TOP; ++i)
    printf("%41s %7s %11.0f  %s, %s\n", bytes_text(rows[i].bytes), "", report_number(rows[i].row, "live_blocks"),
           report_text(rows[i].row, "call"), report_text(rows[i].row, "where"));
  report_more(n);
  free(rows);
}

static double largest_peak(const cJSON *devices) {
  double most = 0;
  const cJSON *device;
  cJSON_ArrayForEach(device, devices) if (report_number(device, "peak_bytes") > most) most =
      report_number(device, "peak_bytes");
  return most;
}

static void report_process(const cJSON *process) {
  const cJSON *devices = member(process, "devices"), *device;
  const double peak = largest_peak(devices);
  int i = 0;
  printf("memory of %s (process %.0f), %s\n", report_text(process, "program"), report_number(process, "pid"),
         report_text(process, "soc_name"));
  cJSON_ArrayForEach(device, devices) {
    char name[24];
    snprintf(name, sizeof name, "device %d", i++);
    report_heap(name, device);
  }
  report_heap("pinned", member(process, "pinned"));
  report_heap("managed", member(process, "managed"));
  report_sites(member(process, "sites"), peak);
  if (!cJSON_GetArraySize(member(process, "sites"))) puts("\n  by line: not known; run with --sites");
  report_operators(member(process, "operators"), peak);
  report_leaks(process);
  if (peak > 0) printf("\n  shares are of the largest device peak, %s; peaks need not coincide\n", bytes_text(peak));
}

int command_report(int argc, char **argv) {
  enum { MEMORY = 1, HELP = 'h' };
  static const struct option options[] = {
      {"memory", no_argument, NULL, MEMORY}, {"help", no_argument, NULL, HELP}, {NULL, 0, NULL, 0}};
  argv[0] = "cannon report"; /* getopt's messages begin with it */
  for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
    if (option == HELP) fputs(help, stdout);
    if (option != MEMORY) return option == HELP ? 0 : EXIT_USAGE;
  }
  if (argc - optind != 1) {
    fprintf(stderr, "cannon report: %d files are given, expected the JSON report of a run\n", argc - optind);
    return EXIT_USAGE;
  }
  cJSON *report = json_report_read("cannon report", argv[optind]);
  if (!report) return EXIT_USAGE;
  const cJSON *processes = member(report, "processes"), *process;
  if (!cJSON_GetArraySize(processes)) puts("no process used a device");
  cJSON_ArrayForEach(process, processes) {
    if (process != processes->child) putchar('\n');
    report_process(process);
  }
  cJSON_Delete(report);
  return 0;
}
