/* SPDX-License-Identifier: Apache-2.0 */
/* Where findings go. If CANNON_CHECK_REPORT names a folder, a finding is appended to its file `<pid>.findings` when it
 * is found, and `cannon run` reads that (cli/check/check_report.h). Otherwise the process prints a report when it ends.
 *
 * The file has a JSON object in each line:
 *
 *   {"begins":"cannon findings 1","program":"/path","pid":1}    first
 *   {"number":0,"kind":"race","message":"...","here":PLACE,"other":PLACE,
 *    "allocation":{"address":1,"size":2,"call":"...","stack":[FRAME]},"first":0,"bytes":4}
 *   {"number":0,"count":3}                                      at the end, where it is not 1
 *   {"ended":true,"untold":0}                                   last; untold: of causes beyond those that are kept
 *
 * PLACE is {"what","stream","device","stack":[FRAME]}; "other" and "allocation" are left out where there is none.
 * FRAME is {"file","line","function"} for a line of Python and {"object","offset"} for native code: a return address,
 * as the object's symbol table has it. Called by finding.c, under its lock. */
#ifndef CANNON_CHECK_FINDINGS_WRITE_H
#define CANNON_CHECK_FINDINGS_WRITE_H

#include <stddef.h>
#include <stdint.h>

#include "check/finding.h"

#define FINDINGS_BEGIN "cannon findings 1"

/* Finds out whether there is to be a file. To be called before any hook. */
void findings_file_start(void);

/* In a forked child: the file is the parent's; the child's findings go to one of its own. */
void findings_file_forget(void);

/* Tells of a new finding, whose number counts from 0. */
void findings_file_add(const finding *f, size_t number);

/* Tells how often each was found, or prints all of them. */
void findings_file_end(const finding *all, size_t n, uint64_t untold);

#endif
