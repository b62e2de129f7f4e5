/* Views: tensors as kernels walk them. */
#ifndef CANNON_TENSOR_VIEW_H
#define CANNON_TENSOR_VIEW_H

#include "tensor/tensor.h"

/* A tensor's dimensions, and one for the two parts of a complex number. */
enum { VIEW_RANK = MAX_RANK + 1 };

/* A shape with strides in bytes, of one operand. */
typedef struct {
  int rank;
  int dtype;
  int64_t dims[VIEW_RANK];
  int64_t strides[VIEW_RANK]; /* bytes */
} view;

/* A tensor's. view_of is for where nanoseconds don't count: compilers copy what it returns, which takes longer than to
 * make it. */
void view_init(view *v, const tensor *t);
view view_of(const tensor *t);
int64_t view_elements(const view *v);

/* Of complex numbers the real parts, of any others themselves. What takes the parts one by one, as sums do, runs twice
 * over such views, the second time part_bytes further. */
view view_of_parts(const tensor *t);
static inline view parts_view(const view *v) {
  view parts = *v;
  parts.dtype = dtype_part(v->dtype);
  return parts;
}

/* From a real part to the imaginary one; 0: there is none. */
static inline uint8_t part_bytes(int dtype) {
  return dtype_is_complex(dtype) ? (uint8_t)dtype_bytes(dtype_part(dtype)) : 0;
}

/* Row-major without gaps. */
view view_contiguous(int dtype, int rank, const int64_t *dims);

/* v, which broadcasts to dims, as if it had them: strides of 0 where it is repeated. */
view view_broadcast(const view *v, const int64_t *dims, int rank);

#endif
