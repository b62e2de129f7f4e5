/* SPDX-License-Identifier: Apache-2.0 */
/* Storage formats: where the elements of a tensor lie in memory if not row-major in the order of its dims.
 *
 * An axis is plain (element i lies i * outer elements from the first) or blocked into blocks of `block` elements, the
 * last of which is padded: element i lies (i / block) * outer + (i % block) * inner elements from the first. The
 * formats:
 *
 *   ND NCHW NHWC HWCN NCDHW NDHWC NCL NC   row-major in the order of the letters
 *   NC1HWC0 NDC1HWC0                       channels blocked, the index of the block outside of H and W
 *   FRACTAL_Z FRACTAL_Z_3D                 weights: channels and outputs blocked: [(D) C1 H W, N1, N0, C0]
 *   FRACTAL_NZ                             the last two dims blocked: [..., N1, M1, M0, N0]
 *
 * The last dims of the storage are the sizes of the blocks. Axes are those of the origin, in its order. If the origin's
 * letters are not those of an image (ND, or fewer dims), its dims are C, CH, CHW, NCHW or NCDHW by their number, as in
 * torch_npu. Called by op/ and by the kernels of TransData. Pure functions. */
#ifndef CANNON_TENSOR_FORMAT_H
#define CANNON_TENSOR_FORMAT_H

#include "base/status.h"
#include "tensor/tensor.h"

typedef struct {
  int64_t dim;
  int64_t block; /* 0: plain */
  int64_t outer, inner;
} storage_axis;

typedef struct {
  int rank;
  storage_axis axis[MAX_RANK];
  int64_t n_storage; /* elements, with padding */
  const char *axes;  /* a letter for each axis; NULL: there are no letters */
} storage_layout;

/* Whether the format is row-major in some order of the axes. */
bool format_is_plain(int format);

/* The letters of the axes of a plain format with `rank` dims ("NCHW"); NULL if there are none. */
const char *format_axes(int format, int rank);

/* The name of a format, for messages. */
const char *format_name(int format);

/* The layout of a tensor that has an origin format. name: of the argument. ST_OP_INVALID for an unknown format, and if
 * the dims of the storage do not hold those of the origin. */
status storage_layout_of(const tensor *t, const char *name, storage_layout *l);

/* Whether the layout is row-major in the order of the origin's axes, that is, in the order of the tensor's dims. */
bool storage_layout_is_origin(const storage_layout *l);

#endif
