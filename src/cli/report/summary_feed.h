/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds of data in the summary of `cannon run` and its JSON form. */
#ifndef CANNON_CLI_REPORT_SUMMARY_FEED_H
#define CANNON_CLI_REPORT_SUMMARY_FEED_H

#include <cjson/cJSON.h>
#include <stdio.h>

#include "trace/stats.h"

/* A line for each feed, with the time for which the device waited for data, and its share of the time between the first
 * request and the last hand-over; nothing if there is no feed. */
void summary_feed(FILE *out, const stats_file *p);

/* An object for each feed. */
cJSON *summary_feed_json(const stats_file *p);

#endif
