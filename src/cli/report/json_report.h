/* SPDX-License-Identifier: Apache-2.0 */
/* Reads reports that `cannon run --json` wrote. */
#ifndef CANNON_CLI_REPORT_JSON_REPORT_H
#define CANNON_CLI_REPORT_JSON_REPORT_H

#include <cjson/cJSON.h>

/* The report, which the caller deletes. NULL, after a message that begins with the command's name, if the file cannot
 * be read or is none. */
cJSON *json_report_read(const char *command, const char *path);

#endif
