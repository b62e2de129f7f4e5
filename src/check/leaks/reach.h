/* SPDX-License-Identifier: Apache-2.0 */
/* Which values the program still holds: looked for in writable data of the program and its libraries, on the stacks of
 * its threads, and in the heap and other private memory that these lead to. Conservative: any word that looks like the
 * value counts. This library's own data does not, nor does that of the C library. Called at the end of the process. */
#ifndef CANNON_CHECK_LEAKS_REACH_H
#define CANNON_CHECK_LEAKS_REACH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
  uint64_t inverted; /* the value's complement, so that the list itself does not hold it */
  bool is_reachable; /* the result */
} reach_value;

/* Sorts the values and finds out which are reachable. */
void reach_find(reach_value *values, size_t n);

#endif
