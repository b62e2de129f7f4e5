/* SPDX-License-Identifier: Apache-2.0 */
/* Communication in the summary of `cannon run` and its JSON form. */
#ifndef CANNON_CLI_REPORT_SUMMARY_COMM_H
#define CANNON_CLI_REPORT_SUMMARY_COMM_H

#include <cjson/cJSON.h>
#include <stdio.h>

#include "trace/stats.h"

/* A line for each kind of collective that the process has called; nothing if there is none. */
void summary_comm(FILE *out, const stats_file *p);

/* An object for each of these kinds. */
cJSON *summary_comm_json(const stats_file *p);

#endif
