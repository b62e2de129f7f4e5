/* What the memory debugger is told to do: CANNON_LEAKS in a program's environment, --leaks of `cannon run`. */
#ifndef CANNON_CHECK_LEAKS_OPTIONS_H
#define CANNON_CHECK_LEAKS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
  uint64_t max_blocks; /* warn at this many live blocks; 0: never */
  int signal;          /* that has a report written; 0: none */
  uint64_t frames;     /* of each allocation's stack, 1 to 8 */
  char report[240];    /* path; %p is the process's number */
} leaks_options;

enum { LEAKS_OPTIONS_BAD = 64 };

/* Fills *o from a list like "max=1000,report=/tmp/leaks.%p,signal=USR1,frames=4"; "1" or "" is a list of none, and what is
 * not given gets its default: no maximum, cannon-leaks.%p.txt, USR2, 8 frames. False, and bad is the first wrong part,
 * where there is one (the rest is taken). */
bool leaks_options_parse(const char *text, leaks_options *o, char bad[LEAKS_OPTIONS_BAD]);

#endif
