/* Rows along one dimension of several views: what scans, sorts and selections work on. */
#ifndef CANNON_KERNEL_ENGINE_AXIS_H
#define CANNON_KERNEL_ENGINE_AXIS_H

#include "kernel/engine/rows.h"

/* Takes dimension dim out of a view; returns its stride (that of an element, where the view has no dimensions). */
static inline int64_t view_take_dim(view *v, int dim) {
  if (!v->rank) return (int64_t)dtype_bytes(v->dtype);
  const int64_t stride = v->strides[dim];
  --v->rank;
  for (int d = dim; d < v->rank; ++d) {
    v->dims[d] = v->dims[d + 1];
    v->strides[d] = v->strides[d + 1];
  }
  return stride;
}

/* The rows of n_views views of one shape but for dimension dim, in *rows, the nearest innermost; along[k]: bytes from
 * element to element. The views are used up. */
static inline void axis_init(walk *rows, int64_t *along, view *const *v, int n_views, int dim) {
  for (int k = 0; k < n_views; ++k) along[k] = view_take_dim(v[k], dim);
  rows_sort(v, n_views);
  walk_init(rows, (const view *const *)v, n_views, v[0]->rank);
}

#endif
