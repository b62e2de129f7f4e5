/* Source lines of code, by the debug information of the file it is in (elfutils' libdw); what the statistics call a
 * place. Files are opened once and stay open. Not for several threads. */
#ifndef CANNON_CLI_LINES_H
#define CANNON_CLI_LINES_H

#include "trace/stats.h"

#include <stddef.h>
#include <stdio.h>

typedef struct {
  const char *file; /* as the compiler was given it; NULL: no line is known */
  int line;
  const char *function; /* readable, also of C++; valid until the next call; NULL: not known */
  uint64_t into;        /* bytes into the function */
} source_line;

/* offset: a return address; the line is that of the call. */
source_line lines_find(const char *module, uint64_t offset);

/* "main.c:12 (function)"; without debug information "object(function+0x12)", without symbols "object+0x1234", "?"
 * where the place is not known. */
void lines_describe(const stats_file *p, stats_place place, char *text, size_t bytes);

/* Copies a report of the debugger (check/leaks_report.h) with "object(function+0x12) main.c:12" for each
 * "object+0x1234 [path+0x1234]" of which these are known. */
void lines_copy_report(FILE *from, FILE *to);

#endif
