/* SPDX-License-Identifier: Apache-2.0 */
/* The choice among the reductions of reduce_level.c. */
#include "comm/reduce.h"

#include "comm/reduce_level.h"
#include "kernel/engine/level_choice.h"

LEVEL_CHOICE(comm_reduce_table, comm_reductions, comm_reduce_table)

comm_reduce *comm_reduce_for(comm_dtype dtype, comm_reduction op) {
  const bool known = (unsigned)dtype < COMM_N_DTYPES && (unsigned)op < COMM_N_REDUCTIONS;
  return known ? comm_reductions->of[dtype][op] : NULL;
}

void comm_copy(void *const *out, int n_out, const void *in, size_t bytes, bool stream_out) {
  comm_reductions->copy(out, n_out, in, bytes, stream_out);
}
