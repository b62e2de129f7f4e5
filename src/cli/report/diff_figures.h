/* SPDX-License-Identifier: Apache-2.0 */
/* The figures that `cannon diff` reads from a JSON report of `cannon run`: each is a path into the report, and a rule
 * that makes one number of all that the path finds. Not thread-safe. */
#ifndef CANNON_CLI_REPORT_DIFF_FIGURES_H
#define CANNON_CLI_REPORT_DIFF_FIGURES_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

typedef enum { DIFF_COUNT, DIFF_BYTES, DIFF_TIME /* ns */, DIFF_SHARE /* a fraction of 1 */ } diff_unit;

/* A path is a list of names with dots between: "NAME[]" stands for all elements of an array, "*" for all members. What
 * a report lacks counts as 0. DIFF_FRAGMENTATION: the path finds devices, and the largest fragmentation counts of those
 * that have committed enough to be graded (health.h). */
typedef struct {
  const char *name;
  diff_unit unit;
  enum { DIFF_SUM, DIFF_MOST, DIFF_FRAGMENTATION } how;
  const char *path, *about;
} diff_figure;

extern const diff_figure diff_figures[]; /* up to one without a name */

/* NULL: there is none of this name. */
const diff_figure *diff_figure_named(const char *name, int length);

/* NaN: fragmentation that is not graded. */
double diff_value(const diff_figure *f, const cJSON *report);

/* What a value of this unit looks like, for messages. */
const char *diff_unit_expected(diff_unit unit);

/* A list of rows with names: those that `path` finds, joined by their members `name` and, if not NULL, `prefix`. */
typedef struct {
  const char *title, *path, *name, *prefix, *value;
  diff_unit unit;
} diff_table;

typedef struct {
  char *name;
  double value[2]; /* in either report; 0 if it has no such row */
} diff_row;

/* The rows of both reports; n may be 0. */
diff_row *diff_rows(const diff_table *table, const cJSON *a, const cJSON *b, size_t *n);
void diff_free_rows(diff_row *rows, size_t n);

#endif
