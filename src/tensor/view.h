/* SPDX-License-Identifier: Apache-2.0 */
/* Views: the dimensions and byte strides that kernels use to iterate over an operand. Called
 * by kernels. Pure functions. */
#ifndef CANNON_TENSOR_VIEW_H
#define CANNON_TENSOR_VIEW_H

#include "tensor/tensor.h"

/* The dimensions of a tensor, and one for the real and the imaginary part of a complex number. */
enum { VIEW_RANK = MAX_RANK + 1 };

typedef struct {
  int rank;
  int dtype;
  int64_t dims[VIEW_RANK];
  int64_t strides[VIEW_RANK]; /* in bytes */
} view;

/* The view of a tensor. view_init() is for code where nanoseconds count: compilers copy the result of view_of(), which
 * takes longer than filling it in. */
void view_init(view *v, const tensor *t);
view view_of(const tensor *t);
int64_t view_elements(const view *v);

/* The view of the real parts of complex numbers; of any other type, of the numbers. Kernels that treat
 * real and imaginary parts separately, as sums do, run a second time over such views with addresses
 * that are dtype_part_bytes() larger. */
view view_of_real_parts(const tensor *t);
static inline view view_real_parts(const view *v) {
  view parts = *v;
  parts.dtype = dtype_part(v->dtype);
  return parts;
}

/* The distance of the imaginary part of a complex number from its real part, in bytes; 0 for other types. */
static inline uint8_t dtype_part_bytes(int dtype) {
  return dtype_is_complex(dtype) ? (uint8_t)dtype_bytes(dtype_part(dtype)) : 0;
}

/* A row-major view without gaps. */
view view_contiguous(int dtype, int rank, const int64_t *dims);

/* v broadcast to dims: its strides are 0 in dimensions in which it is repeated. */
view view_broadcast(const view *v, const int64_t *dims, int rank);

#endif
