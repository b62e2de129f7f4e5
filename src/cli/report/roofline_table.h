/* SPDX-License-Identifier: Apache-2.0 */
/* Estimated times of operators on the device, as `cannon run` prints them. The model is in runtime/dry/roofline.h. */
#ifndef CANNON_CLI_REPORT_ROOFLINE_TABLE_H
#define CANNON_CLI_REPORT_ROOFLINE_TABLE_H

#include <stdio.h>

#include "trace/stats.h"

/* Prints the operators that would take longest; nothing if none was launched. */
void roofline_print(FILE *out, const stats_file *p);

/* Name of a bound, such as "HBM". */
const char *roofline_bound_name(stats_bound bound);

/* Returns what bounds most of the operator's estimated time. */
stats_bound roofline_bound_of(const stats_op *op);

#endif
