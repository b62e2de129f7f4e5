/* SPDX-License-Identifier: Apache-2.0 */
/* cannon diff: what two runs differ in, from their JSON reports. */
#include "base/size.h"
#include "cli/commands.h"
#include "cli/figures.h"
#include "cli/report/diff_figures.h"
#include "cli/report/json_report.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CONDITIONS = 32, TOP_ROWS = 10 };

static const char help[] = "Usage: cannon diff [OPTION]... A.json B.json\n"
                           "\n"
                           "Shows what two runs differ in.\n"
                           "\n"
                           "A.json and B.json are reports of `cannon run --json`. Compared are memory, errors,\n"
                           "leaks, copies, operators, and the places that allocate (of runs with --sites).\n"
                           "\n"
                           "Options:\n"
                           "  --fail-on LIST  conditions, separated by commas, one of which makes the exit status 1:\n"
                           "                    FIGURE>N%   the figure grew by more than N percent from A to B\n"
                           "                    FIGURE>N    it is more than N in B: a size (1.5G), a time (20ms,\n"
                           "                                3us) or a number, as the figure is\n"
                           "                  and the same with <, where a negative N% is what it shrank by\n"
                           "  --all           also show what is the same\n"
                           "  -h, --help      print this help and exit\n"
                           "\n"
                           "Figures:\n";

static const char help_end[] = "\n"
                               "  Those of several devices and processes are added up; of fragmentation and workspace\n"
                               "  the largest is taken. Fragmentation of little memory is not graded, and meets no\n"
                               "  condition.\n"
                               "\n"
                               "Exit status:\n"
                               "  0  compared; no condition holds\n"
                               "  1  a condition of --fail-on holds\n"
                               "  2  the command line is wrong, or a file is no such report\n"
                               "\n"
                               "Examples:\n"
                               "  cannon run --json before.json ./train\n"
                               "  cannon run --json after.json ./train\n"
                               "  cannon diff before.json after.json --fail-on 'peak>5%,leaks>0,errors>0'\n";

typedef struct {
  const diff_figure *figure;
  bool less, is_growth;
  double limit; /* a fraction of A's value, or a value of B's */
  const char *text;
  int length;
} diff_condition;

typedef struct {
  const char *path[2];
  cJSON *report[2];
  diff_condition conditions[MAX_CONDITIONS];
  int n_conditions;
  bool all;
} diff_options;

static void diff_print_help(void) {
  fputs(help, stdout);
  for (const diff_figure *f = diff_figures; f->name; ++f) printf("  %-14s  %s\n", f->name, f->about);
  fputs(help_end, stdout);
}

/* ---- conditions -------------------------------------------------------------------------------------------------- */

static int bad_condition(const char *text, int length, const char *expected) {
  fprintf(stderr, "cannon diff: --fail-on has '%.*s', expected %s\n", length, text, expected);
  return EXIT_USAGE;
}

/* A number of the figure's unit. */
static bool parse_limit(const char *text, diff_unit unit, double *value) {
  static const struct {
    const char *unit;
    double ns;
  } times[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
  uint64_t bytes;
  char *end;
  if (unit == DIFF_BYTES) {
    if (size_parse(text, 0, UINT64_MAX / 2, &bytes) != SIZE_OK) return false;
    *value = (double)bytes;
    return true;
  }
  errno = 0;
  *value = strtod(text, &end);
  if (end == text || errno || *value != *value) return false;
  if (unit != DIFF_TIME) return !*end;
  for (size_t i = 0; i < sizeof times / sizeof *times; ++i) {
    if (strcmp(end, times[i].unit) != 0) continue;
    *value *= times[i].ns;
    return true;
  }
  return false;
}

static int parse_condition(const char *text, int length, diff_options *o) {
  char value[40];
  diff_condition c = {.text = text, .length = length};
  const int n = (int)strcspn(text, "<>,");
  if (n >= length || n == 0) return bad_condition(text, length, "FIGURE>VALUE or FIGURE<VALUE");
  c.figure = diff_figure_named(text, n);
  if (!c.figure) return bad_condition(text, n, "a figure that `cannon diff --help` lists");
  c.less = text[n] == '<';
  const int rest = length - n - 1;
  if (rest <= 0 || rest >= (int)sizeof value) return bad_condition(text, length, "a value behind the comparison");
  memcpy(value, text + n + 1, (size_t)rest);
  value[rest] = '\0';
  c.is_growth = value[rest - 1] == '%';
  if (c.is_growth) value[rest - 1] = '\0';
  if (!parse_limit(value, c.is_growth ? DIFF_COUNT : c.figure->unit, &c.limit))
    return bad_condition(text, length, diff_unit_expected(c.figure->unit));
  if (c.is_growth) c.limit /= 100;
  if (o->n_conditions == MAX_CONDITIONS) return bad_condition(text, length, "at most 32 conditions");
  o->conditions[o->n_conditions++] = c;
  return 0;
}

static int parse_conditions(const char *list, diff_options *o) {
  for (const char *at = list;; ++at) {
    const int length = (int)strcspn(at, ",");
    const int bad = parse_condition(at, length, o);
    if (bad) return bad;
    at += length;
    if (!*at) return 0;
  }
}

static bool figures_agree(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

/* How much more B's value is than A's, as a fraction of A's; NaN, which meets no condition, if one is not graded. */
static double growth(double a, double b) {
  if (isnan(a) || isnan(b)) return NAN;
  if (a == b) return 0;
  return a > 0 ? (b - a) / a : HUGE_VAL;
}

static bool condition_holds(const diff_condition *c, const diff_options *o) {
  const double a = diff_value(c->figure, o->report[0]), b = diff_value(c->figure, o->report[1]);
  const double value = c->is_growth ? growth(a, b) : b;
  return c->less ? value < c->limit : value > c->limit;
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

static const char *value_text(double value, diff_unit unit) {
  static char texts[4][24];
  static unsigned turn;
  char *text = texts[turn++ % 4];
  if (isnan(value)) return "ungraded";
  switch (unit) {
  case DIFF_BYTES: return format_bytes((uint64_t)value);
  case DIFF_TIME: return format_ns((uint64_t)value);
  case DIFF_SHARE: snprintf(text, sizeof texts[0], "%.1f %%", 100 * value); break;
  case DIFF_COUNT: snprintf(text, sizeof texts[0], "%.0f", value); break;
  }
  return text;
}

static const char *growth_text(double a, double b) {
  static char text[24];
  if (figures_agree(a, b))
    snprintf(text, sizeof text, "same");
  else if (isnan(a) || isnan(b))
    snprintf(text, sizeof text, "-");
  else if (a <= 0)
    snprintf(text, sizeof text, "new");
  else if (b <= 0)
    snprintf(text, sizeof text, "gone");
  else
    snprintf(text, sizeof text, "%+.1f %%", 100 * growth(a, b));
  return text;
}

static void print_difference(const char *name, double a, double b, diff_unit unit) {
  printf("%-14s %12s %12s  %s\n", name, value_text(a, unit), value_text(b, unit), growth_text(a, b));
}

static void print_figures(const diff_options *o) {
  unsigned same = 0;
  printf("%-14s %12s %12s\n", "", "A", "B");
  for (const diff_figure *f = diff_figures; f->name; ++f) {
    const double a = diff_value(f, o->report[0]), b = diff_value(f, o->report[1]);
    if (figures_agree(a, b) && !o->all)
      ++same;
    else
      print_difference(f->name, a, b, f->unit);
  }
  if (same) printf("%u figures are the same\n", same);
}

static int by_difference(const void *x, const void *y) {
  const diff_row *p = x, *q = y;
  const double a = p->value[1] > p->value[0] ? p->value[1] - p->value[0] : p->value[0] - p->value[1];
  const double b = q->value[1] > q->value[0] ? q->value[1] - q->value[0] : q->value[0] - q->value[1];
  return (a < b) - (a > b);
}

/* The rows that differ most. */
static void print_rows(const diff_options *o, const diff_table *table) {
  size_t n, shown = 0;
  diff_row *rows = diff_rows(table, o->report[0], o->report[1], &n);
  if (n) qsort(rows, n, sizeof *rows, by_difference);
  for (size_t i = 0; i < n && shown < TOP_ROWS; ++i) {
    if (rows[i].value[0] == rows[i].value[1] && !o->all) break;
    if (!shown++) printf("\n%s\n", table->title);
    printf("%-14s %12s %12s  %-9s %s\n", "", value_text(rows[i].value[0], table->unit),
           value_text(rows[i].value[1], table->unit), growth_text(rows[i].value[0], rows[i].value[1]),
           format_text(rows[i].name));
  }
  diff_free_rows(rows, n);
}

static int print_conditions(const diff_options *o) {
  int held = 0;
  for (const diff_condition *c = o->conditions; c < o->conditions + o->n_conditions; ++c) {
    if (!condition_holds(c, o)) continue;
    if (!held) putchar('\n');
    const double a = diff_value(c->figure, o->report[0]), b = diff_value(c->figure, o->report[1]);
    printf("failed: %.*s: %s is %s in A and %s in B\n", c->length, c->text, c->figure->name,
           value_text(a, c->figure->unit), value_text(b, c->figure->unit));
    ++held;
  }
  return held ? 1 : 0;
}

/* ---- command ----------------------------------------------------------------------------------------------------- */

/* Returns 0 or the exit status; -1: the help was wanted. */
static int diff_parse(int argc, char **argv, diff_options *o) {
  enum { FAIL_ON = 1, ALL, HELP = 'h' };
  static const struct option options[] = {{"fail-on", required_argument, NULL, FAIL_ON},
                                          {"all", no_argument, NULL, ALL},
                                          {"help", no_argument, NULL, HELP},
                                          {NULL, 0, NULL, 0}};
  argv[0] = "cannon diff"; /* getopt's messages begin with it */
  for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
    if (option == HELP) return -1;
    if (option == ALL) o->all = true;
    if (option == FAIL_ON && parse_conditions(optarg, o)) return EXIT_USAGE;
    if (option == '?') return EXIT_USAGE;
  }
  if (argc - optind != 2) {
    fprintf(stderr, "cannon diff: %d files are given, expected A.json and B.json\n", argc - optind);
    return EXIT_USAGE;
  }
  o->path[0] = argv[optind];
  o->path[1] = argv[optind + 1];
  return 0;
}

static const diff_table tables[] = {
    {"operators, time", "processes[].operators[]", "name", NULL, "time_ns", DIFF_TIME},
    {"operators, launches", "processes[].operators[]", "name", NULL, "launches", DIFF_COUNT},
    {"places that allocate, peak", "processes[].sites[]", "where", "call", "peak_bytes", DIFF_BYTES},
    {"places that allocate, left", "processes[].sites[]", "where", "call", "live_bytes", DIFF_BYTES},
};

int command_diff(int argc, char **argv) {
  diff_options o = {0};
  const int bad = diff_parse(argc, argv, &o);
  if (bad > 0) return bad;
  if (bad < 0) {
    diff_print_help();
    return 0;
  }
  o.report[0] = json_report_read("cannon diff", o.path[0]);
  o.report[1] = o.report[0] ? json_report_read("cannon diff", o.path[1]) : NULL;
  int result = EXIT_USAGE;
  if (o.report[1]) {
    printf("A: %s\nB: %s\n\n", format_text(o.path[0]), format_text(o.path[1]));
    print_figures(&o);
    for (size_t i = 0; i < sizeof tables / sizeof *tables; ++i) print_rows(&o, &tables[i]);
    result = print_conditions(&o);
  }
  cJSON_Delete(o.report[0]);
  cJSON_Delete(o.report[1]);
  return result;
}
