/* The part of the summary that is about memory. */
#ifndef CANNON_CLI_SUMMARY_MEMORY_H
#define CANNON_CLI_SUMMARY_MEMORY_H

#include "cli/stats_read.h"

#include <stdio.h>

/* Devices, pinned and managed memory, pools, alarms, health. */
void summary_memory(FILE *out, const stats_file *p, bool running);

/* Where most memory was allocated from, by peak, and by what is live; nothing without CANNON_SITES. */
void summary_sites(FILE *out, const stats_file *p, bool running);

/* The rows of p->sites that are used, by falling peak (by_live: by falling live bytes); returns how many. */
unsigned summary_sorted_sites(const stats_file *p, const stats_site *sorted[STATS_MAX_SITES], bool by_live);

#endif
