/* SPDX-License-Identifier: Apache-2.0 */
/* Prints what the ranks of communicators wait for. Called by `cannon top`. */
#ifndef CANNON_CLI_WAITS_LIST_H
#define CANNON_CLI_WAITS_LIST_H

#include <stdio.h>

#include "cli/charges.h"

/* Of all processes (pid 0) or of one, a line for each task that waits, and a line if ranks wait for each other in a
 * cycle. Nothing where none waits. */
void waits_list_print(FILE *out, const charge_list *charges, pid_t pid);

#endif
