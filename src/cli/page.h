/* SPDX-License-Identifier: Apache-2.0 */
/* What the HTML pages of cannon's commands share. */
#ifndef CANNON_CLI_PAGE_H
#define CANNON_CLI_PAGE_H

#include <stdio.h>

/* Writes a page's own text, then the style and the functions that pages share (page_common.css, page_common.js), and
 * begins a call of its show(): its arguments and ");</script>" are left to the caller. */
void page_begin(FILE *f, const char *own);

/* Writes JSON inside a script: names that it holds cannot end the script. */
void page_write_json(FILE *f, const char *json);

#endif
