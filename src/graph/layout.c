/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/layout.h"

#include <string.h>

#include "graph/nodes.h"

void layout_blocked_dims(const int64_t *dims, int64_t *blocked) {
  const int64_t n_blocks = (dims[1] + LAYOUT_BLOCK - 1) / LAYOUT_BLOCK;
  memcpy(blocked, (int64_t[]){dims[0], n_blocks, dims[2], dims[3], LAYOUT_BLOCK}, LAYOUT_RANK * sizeof *blocked);
}

status layout_plain(ir_graph *g, ir_value *blocked, int64_t channels, ir_value **out) {
  const int64_t *d = blocked->tensor.dims;
  const int64_t all[] = {d[0], d[1] * LAYOUT_BLOCK, d[2], d[3]}, kept[] = {d[0], channels, d[2], d[3]};
  ir_value *v;
  TRY(ir_permuted(g, blocked, (const int[]){0, 1, 4, 2, 3}, &v));
  TRY(ir_reshaped(g, v, all, 4, &v));
  return ir_view(g, v, kept, v->tensor.strides, 4, 0, out);
}

/* The plain value with channels of zeros behind its own. */
static status with_whole_blocks(ir_graph *g, ir_value *plain, const int64_t *dims, ir_value **out) {
  const int64_t more = dims[1] - plain->tensor.dims[1];
  *out = plain;
  if (!more) return ST_OK;
  const int64_t pad[] = {0, 0, 0, 0, 0, more, 0, 0}; /* from the last dimension on */
  const aclIntArray *list = ir_int_array(g, pad, sizeof pad / sizeof *pad);
  const scalar *zero = ir_scalar(g, plain->tensor.dtype, 0);
  if (!list || !zero) return ST_NO_HOST_MEMORY;
  TRY(ir_temporary(g, plain->tensor.dtype, dims, 4, out));
  return node_ConstantPadNd(g, plain, list, zero, *out);
}

status layout_blocked(ir_graph *g, ir_value *plain, ir_value **out) {
  int64_t b[LAYOUT_RANK];
  ir_value *v;
  layout_blocked_dims(plain->tensor.dims, b);
  TRY(with_whole_blocks(g, plain, (const int64_t[]){b[0], b[1] * LAYOUT_BLOCK, b[2], b[3]}, &v));
  TRY(ir_reshaped(g, v, (const int64_t[]){b[0], b[1], LAYOUT_BLOCK, b[2], b[3]}, LAYOUT_RANK, &v));
  TRY(ir_permuted(g, v, (const int[]){0, 1, 3, 4, 2}, &v));
  return ir_contiguous(g, v, out);
}
