/* SPDX-License-Identifier: Apache-2.0 */
/* The report of a process that was not started by `cannon run`: as text, with the symbols that the process itself knows
 * (dladdr), without source lines. Called at the end of the process. */
#ifndef CANNON_CHECK_FINDINGS_PRINT_H
#define CANNON_CHECK_FINDINGS_PRINT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "check/finding.h"

/* Prints nothing without findings. untold: how many there were beyond those in the list. */
void findings_print(FILE *to, const char *program, const finding *all, size_t n, uint64_t untold);

#endif
