/* Storage formats: where the elements of a tensor lie that does not lie as its dims say.
 *
 * An axis is plain (element i is i * outer elements on) or cut into blocks of `block`, of which the last is padded:
 * element i is (i / block) * outer + (i % block) * inner elements on. The formats:
 *
 *   ND NCHW NHWC HWCN NCDHW NDHWC NCL NC   row-major in the order of the letters
 *   NC1HWC0 NDC1HWC0                       channels cut, their blocks outside of H and W
 *   FRACTAL_Z FRACTAL_Z_3D                 weights: channels and outputs cut: [(D) C1 H W, N1, N0, C0]
 *   FRACTAL_NZ                             the last two dims cut: [..., N1, M1, M0, N0]
 *
 * The sizes of blocks are the storage's last dims. Axes are those of the origin, in its order; where its letters are
 * not those of an image (ND, or fewer dims), dims are C, CH, CHW, NCHW and NCDHW by their number, as torch_npu has
 * them. */
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
  const char *axes;  /* a letter for each; NULL: they have none */
} storage_layout;

/* Row-major in some order of the axes. */
bool format_is_plain(int format);

/* "NCHW": the axes of so many dims in a plain format; NULL where there are no letters for them. */
const char *format_axes(int format, int rank);

/* "FRACTAL_Z", or "format 99". */
const char *format_name(int format);

/* Of a tensor with an origin format. ST_OP_INVALID for a format that is not known here, and for dims of the storage
 * that do not hold the origin's. */
status storage_layout_of(const tensor *t, const char *name, storage_layout *l);

/* Row-major in the order of the origin's axes: the tensor lies as its dims say. */
bool storage_layout_is_origin(const storage_layout *l);

#endif
