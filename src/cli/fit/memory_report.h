/* SPDX-License-Identifier: Apache-2.0 */
/* What `cannon memory` says of a recording: tables and a page for people, JSON and CSV for programs.
 * The parts of it are in fit/account.h, fit/idle.h and fit/growth.h. */
#ifndef CANNON_CLI_FIT_MEMORY_REPORT_H
#define CANNON_CLI_FIT_MEMORY_REPORT_H

#include <stdio.h>

#include "fit/account.h"
#include "fit/growth.h"
#include "fit/idle.h"

typedef enum { MEMORY_ALL, MEMORY_BY_CLASS, MEMORY_BY_MODULE, MEMORY_BY_LINE, MEMORY_BY_BLOCK } memory_by;

typedef struct {
  const char *path; /* for people: the recording's name */
  const history *h;
  uint32_t device;
  memory_by by;
  size_t top; /* rows of each table */
  curve c;
  account_lines lines;
  curve_point peak; /* of the whole run */
  account at;       /* the moment that was asked for */
  bool is_peak;     /* it is the peak */
  growth growth;
  curve_module_peak *module_peaks;
  /* Empty if the recording has no tasks: */
  idle_clock clock;
  size_t n_waits, n_idle;
  idle_wait *waits; /* in the moment's step, if it is in one */
  idle_block *idle;
} memory_report;

/* Fills all but the first five fields from these. moment: HISTORY_NEVER for the peak. */
void memory_report_make(memory_report *r, uint64_t moment);
void memory_report_free(memory_report *r);

bool memory_has_tasks(const memory_report *r);

/* "train.py:41 (step)"; the file without its folders. NULL: "not known". One of eight static buffers in turn. */
const char *memory_line_words(const history_line *line);
const char *memory_site_words(const memory_report *r, uint32_t site);
const char *memory_module_name(const memory_report *r, uint32_t module); /* never NULL */

/* The step in which a moment is, from 1; 0: none. */
size_t memory_step_of(const history *h, uint64_t moment);

/* The last task submitted until a moment, or NULL. */
const history_task *memory_task_at(const history *h, uint32_t device, uint64_t moment);

/* Modules that stand for the tree in a table: the largest, each with its parents. A module whose only content is one
 * child of the same size is left out. */
typedef struct {
  uint32_t module, depth;
} memory_row;
size_t memory_choose_modules(const memory_report *r, const account_sum *sums, size_t most, memory_row *out);

/* What is idle, by line of the program. */
typedef struct {
  uint32_t line; /* or r->lines.n */
  idle_kind kind;
  uint64_t bytes, all_bytes; /* of those that live at the moment, and of all in the run */
  uint32_t n, n_all;
  const idle_block *largest; /* of those that live at the moment, otherwise of all */
} memory_idle_line;

/* The lines of the kinds, those with most bytes at the moment first; to be freed. */
size_t memory_idle_lines(const memory_report *r, bool kept, memory_idle_line **out);

void memory_print(FILE *f, const memory_report *r);
bool memory_write_json(FILE *f, const memory_report *r);
bool memory_write_csv(FILE *f, const memory_report *r);

/* What memory_write_json writes, to be freed by cJSON_free; NULL without memory. */
char *memory_report_json(const memory_report *r);

/* A page with the curve of memory over time, and the blocks of any moment (memory_page.html). */
bool memory_write_page(FILE *f, const memory_report *r);

/* First bytes of the files, by which cannon's are told from others. */
#define MEMORY_TABLE_BEGINS "moment,device,bytes,"
#define MEMORY_PAGE_BEGINS  "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>cannon memory"

#endif
