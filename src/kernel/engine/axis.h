/* SPDX-License-Identifier: Apache-2.0 */
/* Splits views into rows along one dimension, for scans, sorts and selections. Pure functions on the caller's views. */
#ifndef CANNON_KERNEL_ENGINE_AXIS_H
#define CANNON_KERNEL_ENGINE_AXIS_H

#include "kernel/engine/rows.h"

/* Removes dimension dim from a view. Returns its stride in bytes; for a view without dimensions, the size of an
 * element. */
static inline int64_t axis_take_dim(view *v, int dim) {
  if (!v->rank) return (int64_t)dtype_bytes(v->dtype);
  const int64_t stride = v->strides[dim];
  --v->rank;
  for (int d = dim; d < v->rank; ++d) {
    v->dims[d] = v->dims[d + 1];
    v->strides[d] = v->strides[d + 1];
  }
  return stride;
}

/* Prepares a walk over the rows along dimension dim. The n_views views have the same shape except for dimension dim.
 * *rows walks the other dimensions, sorted so that those with the smallest strides are innermost; along[k] is the
 * distance in bytes between neighbouring elements of a row of view k. The views are modified. */
static inline void axis_init(walk *rows, int64_t *along, view *const *v, int n_views, int dim) {
  for (int k = 0; k < n_views; ++k) along[k] = axis_take_dim(v[k], dim);
  walk_init_sorted(rows, (const view *const *)v, n_views, v[0]->rank);
}

#endif
