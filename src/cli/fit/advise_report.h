/* SPDX-License-Identifier: Apache-2.0 */
/* Output of `cannon advise`: tables for people, JSON for programs, and a page with the frontier. */
#ifndef CANNON_CLI_FIT_ADVISE_REPORT_H
#define CANNON_CLI_FIT_ADVISE_REPORT_H

#include <stdio.h>

#include "fit/advise/advise.h"

typedef struct {
  const char *path;
  const advice *advice;
  const advice *second; /* of a recording with another batch; NULL: there is none */
  uint64_t batch[2];    /* of the recordings; 0: not given */
  unsigned top;         /* rows of each table */
} advise_report;

void advise_print(FILE *f, const advise_report *r);
/* The JSON text, which the caller frees by cJSON_free; NULL: there is no memory. */
char *advise_json(const advise_report *r);
bool advise_write_json(FILE *f, const advise_report *r);
bool advise_write_html(FILE *f, const advise_report *r);

/* First bytes of advise_page.html, by which such pages are told from other files. */
#define ADVISE_PAGE_BEGINS "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>cannon advise"

/* "amp, recompute layers.3 to layers.7 and layers.9", "as it is". */
void advise_plan_words(const advise_report *r, const advise_plan *plan, char *text, size_t room);

/* What to change in the program for a plan, one line each: "train.py:41: ...". Calls `tell` for each. */
void advise_plan_steps(const advise_report *r, const advise_plan *plan, void (*tell)(void *to, const char *line),
                       void *to);

/* The largest batch that fits by the line through two recordings, or by factor; 0: unknown. */
uint64_t advise_largest_batch(const advise_report *r);

#endif
