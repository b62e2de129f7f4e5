/* SPDX-License-Identifier: Apache-2.0 */
/* What the tools say of injected failures (base/settings/faults.h): the places, for --help, and what was injected. */
#ifndef CANNON_CLI_CHECK_FAULTS_HELP_H
#define CANNON_CLI_CHECK_FAULTS_HELP_H

#include "cli/report/stats_read.h"

#include <stdio.h>

/* Prints a table of the places: which calls are counted, and what a failure is. */
void faults_help(FILE *out);

/* Lists the failures that were injected into a process; nothing if CANNON_FAIL was not set. */
void faults_print(FILE *out, const stats_file *p);

/* The number of rows of p->faults. */
static inline unsigned faults_listed(const stats_file *p) {
  const uint64_t n = p->n_faults;
  return n < STATS_MAX_FAULTS ? (unsigned)n : STATS_MAX_FAULTS;
}

#endif
