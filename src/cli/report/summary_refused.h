/* SPDX-License-Identifier: Apache-2.0 */
/* What the summary of `cannon run` says of refused allocations: which lines held the memory then. */
#ifndef CANNON_CLI_REPORT_SUMMARY_REFUSED_H
#define CANNON_CLI_REPORT_SUMMARY_REFUSED_H

#include <cjson/cJSON.h>
#include <stdio.h>

#include "trace/stats.h"

/* Of the first refusal, and of that of the largest request. Nothing if none was seen. */
void summary_refused(FILE *out, const stats_file *p);
cJSON *summary_refused_json(const stats_file *p);

#endif
