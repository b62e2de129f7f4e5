/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the memory debugger: CANNON_LEAKS in a program's environment, --leaks of `cannon run`. Any thread. */
#ifndef CANNON_CHECK_LEAKS_LEAKS_OPTIONS_H
#define CANNON_CHECK_LEAKS_LEAKS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
  uint64_t max_blocks; /* warn at this many live blocks; 0: never */
  int signal;          /* a report is written on this signal; 0: on none */
  uint64_t frames;     /* the number of stack frames kept for each allocation, 1 to 8 */
  char report[240];    /* path of the report; %p stands for the process id */
} leaks_options;

enum { LEAKS_OPTIONS_BAD = 64 };

/* Fills *o from a list such as "max=1000,report=/tmp/leaks.%p,signal=USR1,frames=4"; "1" and "" are empty lists.
 * Options that are not given get their defaults: no maximum, cannon-leaks.%p.txt, USR2, 8 frames. False if a part is
 * wrong: bad is the first such part, and the other parts are taken. */
bool leaks_options_parse(const char *text, leaks_options *o, char bad[LEAKS_OPTIONS_BAD]);

#endif
