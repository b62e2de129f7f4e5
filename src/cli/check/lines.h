/* SPDX-License-Identifier: Apache-2.0 */
/* Finds source lines of code addresses in debug information (with elfutils' libdw), and describes the places that
 * statistics record. Files are opened once and stay open. Not thread-safe. */
#ifndef CANNON_CLI_CHECK_LINES_H
#define CANNON_CLI_CHECK_LINES_H

#include "trace/stats.h"

#include <stddef.h>
#include <stdio.h>

typedef struct {
  const char *file; /* path as the compiler was given it; NULL: no line is known */
  int line;
  const char *function; /* demangled if it is C++; valid until the next call; NULL: unknown */
  uint64_t into;        /* offset in bytes within the function */
} source_line;

/* offset: a return address; the line is that of the call before it. */
source_line lines_find(const char *module, uint64_t offset);

/* A function at a return address: the innermost that was inlined there, then those around it, to the function that the
 * address belongs to. */
typedef struct {
  const char *function, *file; /* NULL: unknown; valid during the call */
  int line;
} source_frame;

/* Tells each of them; one without anything known if there is no debug information. */
void lines_walk(const char *module, uint64_t offset, void (*tell)(const source_frame *frame, void *argument),
                void *argument);

/* Writes "main.c:12 (function)", without debug information "object(function+0x12)", without symbols "object+0x1234",
 * or "?" if the place is unknown. */
void lines_describe(const stats_file *p, stats_place place, char *text, size_t bytes);

/* Copies a report of the memory debugger (check/leaks/leaks_report.h), replacing "object+0x1234 [path+0x1234]" by
 * "object(function+0x12) main.c:12" where function and line are known. */
void lines_copy_report(FILE *from, FILE *to);

#endif
