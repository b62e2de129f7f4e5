/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/view.h"

#include "base/invariant.h"

void view_init(view *v, const tensor *t) {
  const int64_t bytes = (int64_t)dtype_bytes(t->dtype);
  INVARIANT(t->rank <= MAX_RANK);
  v->rank = t->rank;
  v->dtype = t->dtype;
  for (int d = 0; d < t->rank; ++d) {
    v->dims[d] = t->dims[d];
    v->strides[d] = t->strides[d] * bytes;
  }
}

view view_of(const tensor *t) {
  view v; /* dims beyond the rank stay uninitialised */
  view_init(&v, t);
  return v;
}

view view_of_real_parts(const tensor *t) {
  const view v = view_of(t);
  return view_real_parts(&v);
}

int64_t view_elements(const view *v) {
  int64_t n = 1;
  for (int d = 0; d < v->rank; ++d) n *= v->dims[d];
  return n;
}

view view_contiguous(int dtype, int rank, const int64_t *dims) {
  view v;
  INVARIANT(rank >= 0 && rank <= VIEW_RANK);
  v.rank = rank;
  v.dtype = dtype;
  int64_t step = (int64_t)dtype_bytes(dtype);
  for (int d = rank - 1; d >= 0; --d) {
    v.dims[d] = dims[d];
    v.strides[d] = step;
    step *= dims[d];
  }
  return v;
}

view view_broadcast(const view *v, const int64_t *dims, int rank) {
  view b = {.rank = rank, .dtype = v->dtype};
  const int missing = rank - v->rank;
  INVARIANT(missing >= 0 && rank <= VIEW_RANK);
  for (int d = 0; d < rank; ++d) {
    INVARIANT(d < missing || v->dims[d - missing] == 1 || v->dims[d - missing] == dims[d]);
    b.dims[d] = dims[d];
    b.strides[d] = d >= missing && v->dims[d - missing] != 1 ? v->strides[d - missing] : 0;
  }
  return b;
}
