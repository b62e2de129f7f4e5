/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the summary that concerns memory. */
#ifndef CANNON_CLI_REPORT_SUMMARY_MEMORY_H
#define CANNON_CLI_REPORT_SUMMARY_MEMORY_H

#include "cli/report/stats_read.h"

#include <stdio.h>

/* Prints devices, pinned and managed memory, pools, streams, alarms and health. */
void summary_memory(FILE *out, const stats_file *p, bool running);

/* Prints the call sites with the most memory, by peak and by live bytes; nothing without CANNON_SITES. */
void summary_sites(FILE *out, const stats_file *p, bool running);

/* Fills `sorted` with the rows of p->sites in use, in descending order of peak bytes (by_live: of live bytes).
 * Returns their number. */
unsigned summary_sorted_sites(const stats_file *p, const stats_site *sorted[STATS_MAX_SITES], bool by_live);

#endif
