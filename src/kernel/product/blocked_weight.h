/* SPDX-License-Identifier: Apache-2.0 */
/* Weights that really lie in FRACTAL_NZ: torch_npu's npu_format_cast() makes them by name, and hands them to the
 * operators whose names end in WeightNz. The format of the library's own TransMatmulWeight is the plain one, so a
 * tensor of this format is plain if its storage has its own dimensions or fewer than four, and else has blocks,
 * [..., N1, M1, M0, N0]. Views of some matrices of a larger storage are those of torch_npu's GRU.
 *
 * Used by the prepare and run functions of products: the weight is copied to the operator's
 * scratch as a plain one, whose strides are those of the view. Thread-safe. */
#ifndef CANNON_KERNEL_PRODUCT_BLOCKED_WEIGHT_H
#define CANNON_KERNEL_PRODUCT_BLOCKED_WEIGHT_H

#include "op/executor.h"

typedef struct {
  int64_t matrices, rows, cols; /* of the view, without the padding of blocks; matrices 0: it is not blocked */
  int64_t padded_rows;
  uint64_t plain; /* in scratch */
  int32_t block, element_bytes;
} blocked_weight;

/* Plans the copy of t, an operand that phase one has checked for its dtype, if it is blocked. ST_OP_INVALID for a view
 * that is neither of whole matrices of the storage, one behind the other, nor of their transposes, and for packed
 * int4. */
status blocked_weight_plan(executor *e, int operand, const tensor *t, const char *name, blocked_weight *b);

/* The address of the plain weight: `from`, or the copy that this makes. */
void *blocked_weight_read(const blocked_weight *b, void *from, void *scratch);

#endif
