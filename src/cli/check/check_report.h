/* SPDX-License-Identifier: Apache-2.0 */
/* What the checker found in the processes of a run: read from their files (check/findings_write.h), with source lines,
 * without what is suppressed. It is one object of JSON, which is also what is printed and drawn:
 *
 *   {"program": "name", "findings": [FINDING], "summary": {...}}
 *   FINDING {"kind", "message", "count", "process", "tasks": [names], "stream", "device", "stack": [FRAME],
 *            "other": {"what", "stream", "device", "stack"},
 *            "allocation": {"address", "size", "call", "first", "bytes", "stack"}}
 *           "other" and "allocation" are left out where there is none
 *   FRAME   {"function", "file", "line"} with "language": "python", or with "object" and "offset"; functions that were
 *           inlined into another share its offset. What is not known is left out */
#ifndef CANNON_CLI_CHECK_CHECK_REPORT_H
#define CANNON_CLI_CHECK_CHECK_REPORT_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdio.h>

#include "check/suppress.h"

#define CHECK_PAGE_BEGINS "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>cannon run --check"

/* Reads the folder's files. Findings with the same kind and lines are one. */
cJSON *check_report_read(const char *folder, char *const *program, suppressions *known);

/* The number of findings that are not suppressed. */
int check_report_count(const cJSON *report);

/* Prints all findings and a last line with their number; the latter not if there are none and `quiet`. */
void check_report_print(FILE *to, const cJSON *report, bool quiet);

/* Writes the page; false if that fails. */
bool check_report_write_html(FILE *to, const cJSON *report);

#endif
