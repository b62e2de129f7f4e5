/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of reductions, one per instruction set level (kernel/engine/level.h). Used by reduce.c, which chooses one,
 * and by the unit test, which compares all of them. */
#ifndef CANNON_COMM_REDUCE_LEVEL_H
#define CANNON_COMM_REDUCE_LEVEL_H

#include "comm/reduce.h"

typedef struct {
  const char *name; /* the level's */
  comm_reduce *of[COMM_N_DTYPES][COMM_N_REDUCTIONS];
  void (*copy)(void *const *out, int n_out, const void *in, size_t bytes, bool stream_out); /* comm_copy */
} comm_reduce_table;

extern const comm_reduce_table *comm_reductions; /* the level in use; set before main */

#endif
