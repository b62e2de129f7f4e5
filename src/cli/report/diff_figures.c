/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/diff_figures.h"

#include "cli/report/health.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const diff_figure diff_figures[] = {
    {"peak", DIFF_BYTES, DIFF_SUM, "processes[].devices[].peak_bytes", "live memory of devices, at its peak"},
    {"committed", DIFF_BYTES, DIFF_SUM, "processes[].devices[].peak_committed_bytes",
     "committed memory of devices, at its peak"},
    {"fragmentation", DIFF_SHARE, DIFF_FRAGMENTATION, "processes[].devices[]",
     "the part of committed memory that was not live, as a fraction, if it can be graded"},
    {"allocations", DIFF_COUNT, DIFF_SUM, "processes[].devices[].allocations", "allocations on devices"},
    {"allocated", DIFF_BYTES, DIFF_SUM, "processes[].devices[].allocated_bytes", "what they were given together"},
    {"refused", DIFF_COUNT, DIFF_SUM, "processes[].devices[].refused", "allocations that were refused"},
    {"pinned", DIFF_BYTES, DIFF_SUM, "processes[].pinned.peak_bytes", "pinned memory of the host, at its peak"},
    {"workspace", DIFF_BYTES, DIFF_MOST, "processes[].operators[].workspace.peak_bytes", "the largest workspace"},
    {"leaks", DIFF_COUNT, DIFF_SUM, "processes[].leaks.count", "blocks that were left at the end"},
    {"wrong-frees", DIFF_COUNT, DIFF_SUM, "processes[].wrong_frees", "frees of what was no block"},
    {"errors", DIFF_COUNT, DIFF_SUM, "processes[].errors", "calls that failed"},
    {"copies", DIFF_COUNT, DIFF_SUM, "processes[].copies.*.count", "copies"},
    {"copied", DIFF_BYTES, DIFF_SUM, "processes[].copies.*.bytes", "what they copied"},
    {"pageable", DIFF_BYTES, DIFF_SUM, "processes[].copies.*.pageable_bytes", "the part of it in pageable memory"},
    {"launches", DIFF_COUNT, DIFF_SUM, "processes[].operators[].launches", "operators launched"},
    {"operators", DIFF_TIME, DIFF_SUM, "processes[].operators[].time_ns", "time in operators"},
    {"on-device", DIFF_TIME, DIFF_SUM, "processes[].operators[].device.time_ns", "time that a device needs at least"},
    {"time", DIFF_TIME, DIFF_SUM, "wall_ns", "time from start to end"},
    {"exit", DIFF_COUNT, DIFF_SUM, "exit_status", "exit status of the program"},
    {NULL, DIFF_COUNT, DIFF_SUM, NULL, NULL},
};

const diff_figure *diff_figure_named(const char *name, int length) {
  for (const diff_figure *f = diff_figures; f->name; ++f)
    if ((int)strlen(f->name) == length && strncmp(f->name, name, (size_t)length) == 0) return f;
  return NULL;
}

const char *diff_unit_expected(diff_unit unit) {
  static const char *const texts[] = {
      [DIFF_COUNT] = "a number, or a percentage such as 5%",
      [DIFF_BYTES] = "a size such as 512M or 1.5G, or a percentage such as 5%",
      [DIFF_TIME] = "a time such as 20ms (ns, us, ms or s), or a percentage such as 5%",
      [DIFF_SHARE] = "a fraction such as 0.3, or a percentage of growth such as 5%",
  };
  return texts[unit];
}

/* ---- paths ------------------------------------------------------------------------------------------------------- */

typedef void visitor(const cJSON *found, void *argument);

/* Calls visit() for all that the path finds below `at`. */
static void diff_follow(const cJSON *at, const char *path, visitor *visit, void *argument) {
  if (!at) return;
  if (!*path) {
    visit(at, argument);
    return;
  }
  char name[40];
  const size_t n = strcspn(path, ".["), kept = n < sizeof name ? n : sizeof name - 1;
  memcpy(name, path, kept);
  name[kept] = '\0';
  path += n;
  const bool each_element = strncmp(path, "[]", 2) == 0;
  if (each_element) path += 2;
  if (*path == '.') ++path;
  const bool each_member = strcmp(name, "*") == 0;
  const cJSON *below = each_member ? at : cJSON_GetObjectItemCaseSensitive(at, name);
  if (!each_member && !each_element) {
    diff_follow(below, path, visit, argument);
    return;
  }
  for (const cJSON *item = below ? below->child : NULL; item; item = item->next)
    diff_follow(item, path, visit, argument);
}

typedef struct {
  const diff_figure *figure;
  double value;
} sum;

static void add_fragmentation(const cJSON *device, sum *s) {
  const cJSON *value = cJSON_GetObjectItemCaseSensitive(device, "external_fragmentation");
  const cJSON *committed = cJSON_GetObjectItemCaseSensitive(device, "peak_committed_bytes");
  if (!cJSON_IsNumber(value) || !cJSON_IsNumber(committed) || !(committed->valuedouble > 0)) return;
  const health_grade grade =
      health_judge_of(HEALTH_FRAGMENTATION, value->valuedouble, (uint64_t)committed->valuedouble);
  if (grade != HEALTH_UNKNOWN) s->value = fmax(s->value, value->valuedouble);
}

static void add_value(const cJSON *found, void *argument) {
  sum *s = argument;
  if (s->figure->how == DIFF_FRAGMENTATION) {
    add_fragmentation(found, s);
    return;
  }
  if (!cJSON_IsNumber(found)) return;
  if (s->figure->how == DIFF_SUM)
    s->value += found->valuedouble;
  else if (found->valuedouble > s->value)
    s->value = found->valuedouble;
}

double diff_value(const diff_figure *f, const cJSON *report) {
  sum s = {.figure = f, .value = f->how == DIFF_FRAGMENTATION ? NAN : 0}; /* fmax ignores NaN */
  diff_follow(report, f->path, add_value, &s);
  return s.value;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

typedef struct {
  const diff_table *table;
  int side;
  diff_row *rows;
  size_t n, room;
} row_list;

static diff_row *row_named(row_list *l, const char *name) {
  for (size_t i = 0; i < l->n; ++i)
    if (strcmp(l->rows[i].name, name) == 0) return &l->rows[i];
  if (l->n == l->room) {
    l->room = l->room * 2 + 64;
    l->rows = realloc(l->rows, l->room * sizeof *l->rows);
    if (!l->rows) abort();
  }
  l->rows[l->n] = (diff_row){.name = strdup(name)};
  if (!l->rows[l->n].name) abort();
  return &l->rows[l->n++];
}

static const char *text_member(const cJSON *row, const char *name) {
  const char *text = name ? cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(row, name)) : NULL;
  return text ? text : "";
}

static void add_row(const cJSON *found, void *argument) {
  row_list *l = argument;
  char name[512];
  const char *prefix = text_member(found, l->table->prefix);
  snprintf(name, sizeof name, "%s%s%s", prefix, *prefix ? ", " : "", text_member(found, l->table->name));
  const cJSON *value = cJSON_GetObjectItemCaseSensitive(found, l->table->value);
  if (*name && cJSON_IsNumber(value)) row_named(l, name)->value[l->side] += value->valuedouble;
}

diff_row *diff_rows(const diff_table *table, const cJSON *a, const cJSON *b, size_t *n) {
  row_list l = {.table = table};
  diff_follow(a, table->path, add_row, &l);
  l.side = 1;
  diff_follow(b, table->path, add_row, &l);
  *n = l.n;
  return l.rows;
}

void diff_free_rows(diff_row *rows, size_t n) {
  for (size_t i = 0; i < n; ++i) free(rows[i].name);
  free(rows);
}
