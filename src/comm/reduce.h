/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of collectives: one vector from several, element by element, in a fixed order. Compiled once for each
 * instruction set level (reduce_level.c). Called by job.c, in any thread. */
#ifndef CANNON_COMM_REDUCE_H
#define CANNON_COMM_REDUCE_H

#include <stdbool.h>
#include <stddef.h>

#include "comm/comm_types.h"

/* Reduces the n_in >= 1 vectors in[] of `count` elements, in the order of in[], and writes the result to each of the
 * n_out >= 1 vectors out[]. An output may be the same vector as an input, but must not overlap one otherwise. Addresses
 * are multiples of the element's size. Integers wrap around. 16-bit floats are reduced in float and rounded once, to
 * nearest even. A maximum or minimum with a NaN among its operands is NaN; of zeros with different signs, max takes +0
 * and min -0. The bits of the result depend on the operands only: a result that is NaN has the bits of the positive
 * quiet NaN without payload. A single input (n_in 1) is copied as it is. stream_out: the outputs are long, and are
 * written past the caches; other threads see them after any release, as they see ordinary stores. */
typedef void comm_reduce(void *const *out, int n_out, const void *const *in, int n_in, size_t count, bool stream_out);

/* The function for a type and an operation on this processor; NULL where HCCL has none (8-bit floats, int128). */
comm_reduce *comm_reduce_for(comm_dtype dtype, comm_reduction op);

/* Copies in[0..bytes) to each of the n_out vectors out[], with stream_out as above. An output at the input's address is
 * skipped; no output overlaps the input otherwise. */
void comm_copy(void *const *out, int n_out, const void *in, size_t bytes, bool stream_out);

#endif
