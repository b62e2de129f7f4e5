/* SPDX-License-Identifier: Apache-2.0 */
/* Walks several tensors of one shape together, in logical (row-major) order, row by row. For kernels whose elements
 * depend on their position, such as random numbers, or that have more operands than the elementwise engine takes.
 *
 *   cursor c;
 *   cursor_start(&c, &w, view, begin);
 *   for (int64_t i = begin, n; i < end; i += n, cursor_next(&c, n)) {
 *     n = cursor_row(&c, end - i);      n elements at c.at[k], w.strides[k][w.rank - 1] bytes apart
 *   }
 *
 * A walk is plain data and may be shared by threads, each with its own cursor. */
#ifndef CANNON_KERNEL_ENGINE_WALK_H
#define CANNON_KERNEL_ENGINE_WALK_H

#include "tensor/view.h"

enum { WALK_OPERANDS = 6 };

typedef struct {
  int rank; /* at least 1, after merging */
  int n_operands;
  int64_t n; /* elements */
  int64_t dims[MAX_RANK];
  int64_t strides[WALK_OPERANDS][MAX_RANK]; /* bytes */
} walk;

typedef struct {
  const walk *of;
  char *at[WALK_OPERANDS];
  int64_t index[MAX_RANK];
} cursor;

/* Plans a walk over the first `rank` dimensions of the views. Adjacent dimensions are merged where all operands permit
 * it. */
static inline void walk_init(walk *w, const view *const *v, int n_operands, int rank) {
  w->rank = 0;
  w->n_operands = n_operands;
  w->n = 1;
  for (int d = 0; d < rank; ++d) {
    const int64_t dim = v[0]->dims[d];
    w->n *= dim;
    if (dim == 1) continue;
    bool merges = w->rank > 0;
    for (int k = 0; merges && k < n_operands; ++k) merges = w->strides[k][w->rank - 1] == dim * v[k]->strides[d];
    const int at = merges ? w->rank - 1 : w->rank++;
    w->dims[at] = merges ? w->dims[at] * dim : dim;
    for (int k = 0; k < n_operands; ++k) w->strides[k][at] = v[k]->strides[d];
  }
  if (w->rank) return;
  w->dims[w->rank++] = 1; /* one element */
  for (int k = 0; k < n_operands; ++k) w->strides[k][0] = 0;
}

/* Whether operand k is contiguous. */
static inline bool walk_is_contiguous(const walk *w, int k, int64_t element_bytes) {
  return w->rank == 1 && (w->dims[0] == 1 || w->strides[k][0] == element_bytes);
}

/* Sets the cursor to element number `element`, which must exist. base[k] is the address of operand k's first
 * element. */
static inline void cursor_start(cursor *c, const walk *w, void *const *base, int64_t element) {
  c->of = w;
  for (int k = 0; k < w->n_operands; ++k) c->at[k] = base[k];
  for (int d = w->rank - 1; d >= 0; --d) {
    c->index[d] = element % w->dims[d];
    element /= w->dims[d];
    for (int k = 0; k < w->n_operands; ++k) c->at[k] += c->index[d] * w->strides[k][d];
  }
}

/* The number of elements left in the row, at most `limit`. */
static inline int64_t cursor_row(const cursor *c, int64_t limit) {
  const int d = c->of->rank - 1;
  const int64_t left = c->of->dims[d] - c->index[d];
  return left < limit ? left : limit;
}

/* Advances by n elements, at most what cursor_row returned. */
static inline void cursor_next(cursor *c, int64_t n) {
  const walk *w = c->of;
  int d = w->rank - 1;
  c->index[d] += n;
  for (int k = 0; k < w->n_operands; ++k) c->at[k] += n * w->strides[k][d];
  for (; d > 0 && c->index[d] == w->dims[d]; --d) {
    c->index[d] = 0;
    ++c->index[d - 1];
    for (int k = 0; k < w->n_operands; ++k) c->at[k] += w->strides[k][d - 1] - w->dims[d] * w->strides[k][d];
  }
}

#endif
