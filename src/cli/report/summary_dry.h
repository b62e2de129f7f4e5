/* SPDX-License-Identifier: Apache-2.0 */
/* What the summary of `cannon run` says of a dry run (runtime/dry/dry.h). */
#ifndef CANNON_CLI_REPORT_SUMMARY_DRY_H
#define CANNON_CLI_REPORT_SUMMARY_DRY_H

#include <cjson/cJSON.h>
#include <stdio.h>

#include "trace/stats.h"

/* The device's time, the shares of what bounds it, and the calls whose results got a stated size. Nothing of a run that
 * was not dry. */
void summary_dry(FILE *out, const stats_file *p);

/* The times for JSON; null of a run that was not dry. */
cJSON *summary_dry_json(const stats_file *p);

#endif
