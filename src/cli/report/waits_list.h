/* SPDX-License-Identifier: Apache-2.0 */
/* Prints what the ranks of communicators wait for. Called by `cannon top`. */
#ifndef CANNON_CLI_REPORT_WAITS_LIST_H
#define CANNON_CLI_REPORT_WAITS_LIST_H

#include <stdio.h>

#include "cli/report/charges.h"

/* Prints a line for each task that waits, of one process or of all (pid 0), and a line if ranks wait for each other
 * in a cycle. Prints nothing where no task waits. */
void waits_list_print(FILE *out, const charge_list *charges, pid_t pid);

#endif
