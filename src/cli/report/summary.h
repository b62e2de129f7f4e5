/* SPDX-License-Identifier: Apache-2.0 */
/* The summary of `cannon run`, and its JSON form. */
#ifndef CANNON_CLI_REPORT_SUMMARY_H
#define CANNON_CLI_REPORT_SUMMARY_H

#include "cli/report/stats_read.h"

#include <stdio.h>

/* For people: about 40 lines per process, with the most expensive operators only. */
void summary_print(FILE *out, const run_report *run);

/* Prints one process; also while it runs (`cannon top`). */
void summary_print_process(FILE *out, const stats_file *p, process_state state);

/* For programs: everything. Returns 0, or -1 with errno set. */
int summary_write_json(FILE *out, const run_report *run);

extern const char *const stats_direction_names[STATS_N_DIRECTIONS];

#endif
