/* SPDX-License-Identifier: Apache-2.0 */
/* What the HTML pages of cannon's commands share. */
#ifndef CANNON_CLI_PAGE_H
#define CANNON_CLI_PAGE_H

#include <stdio.h>

/* The text of page_common.js. */
extern const char page_common[];

/* Writes JSON inside a script: names that it holds cannot end the script. */
void page_write_json(FILE *f, const char *json);

#endif
