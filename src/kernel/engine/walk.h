/* SPDX-License-Identifier: Apache-2.0 */
/* Strided spaces: the dimensions that several operands are iterated over together. Dimensions of size 1 are dropped,
 * the others are sorted by stride where the order does not matter, neighbours are merged where all operands permit it,
 * and a cursor follows the addresses of all operands. Used by the engines and other kernels. Pure functions on the
 * caller's data.
 *
 * A walk is such a space made from views. It is plain data and may be shared by threads, each with its own cursor:
 *
 *   cursor c;
 *   cursor_start(&c, &w, view, begin);
 *   for (int64_t i = begin, n; i < end; i += n, cursor_next(&c, n)) {
 *     n = cursor_row(&c, end - i);      n elements at c.at[k], w.strides[k][w.rank - 1] bytes apart
 *   }
 */
#ifndef CANNON_KERNEL_ENGINE_WALK_H
#define CANNON_KERNEL_ENGINE_WALK_H

#include "tensor/view.h"

/* ---- dimensions -------------------------------------------------------------------------------------------------- */

/* Dimensions in arrays that belong to a plan, the outermost first. Strides are in bytes. */
typedef struct {
  int64_t *dims;
  int64_t *strides; /* of operand k along dimension d: strides[k * pitch + d] */
  int pitch;        /* negative if the operands are in the opposite order of memory */
  int n_operands;
} walk_space;

static inline void walk_copy_dim(const walk_space *s, int to, int from) {
  s->dims[to] = s->dims[from];
  for (int k = 0; k < s->n_operands; ++k) s->strides[k * s->pitch + to] = s->strides[k * s->pitch + from];
}

static inline void walk_swap_dims(const walk_space *s, int a, int b) {
  const int64_t dim = s->dims[a];
  s->dims[a] = s->dims[b];
  s->dims[b] = dim;
  for (int k = 0; k < s->n_operands; ++k) {
    int64_t *const strides = s->strides + k * s->pitch, stride = strides[a];
    strides[a] = strides[b];
    strides[b] = stride;
  }
}

/* Whether dimension a must be outside of b: the first of n_keys operands whose strides differ has the larger one in
 * a. */
static inline bool walk_goes_outside(const walk_space *s, int a, int b, int n_keys, bool by_magnitude) {
  for (int k = 0; k < n_keys; ++k) {
    int64_t x = s->strides[k * s->pitch + a], y = s->strides[k * s->pitch + b];
    if (by_magnitude) x = x < 0 ? -x : x, y = y < 0 ? -y : y;
    if (x != y) return x > y;
  }
  return false;
}

/* Sorts the first `rank` dimensions by the strides (or their magnitudes) of the first n_keys operands, the largest
 * outermost. Dimensions with equal strides keep their order. */
static inline void walk_sort(const walk_space *s, int rank, int n_keys, bool by_magnitude) {
  for (int i = 1; i < rank; ++i)
    for (int j = i; j > 0 && walk_goes_outside(s, j, j - 1, n_keys, by_magnitude); --j) walk_swap_dims(s, j, j - 1);
}

/* Appends the dimension that is stored at position `rank` to dimensions [first, rank): drops it if its size is 1, or
 * merges it with the last one if all operands permit that. Returns the new end of the dimensions. */
static inline int walk_append(const walk_space *s, int first, int rank) {
  const int64_t dim = s->dims[rank];
  if (dim == 1) return rank;
  if (rank == first) return rank + 1;
  for (int k = 0; k < s->n_operands; ++k)
    if (s->strides[k * s->pitch + rank - 1] != dim * s->strides[k * s->pitch + rank]) return rank + 1;
  const int64_t outer = s->dims[rank - 1];
  walk_copy_dim(s, rank - 1, rank);
  s->dims[rank - 1] = outer * dim;
  return rank;
}

/* Moves dimensions [begin, end) to position `to`, which is at most begin, without those of size 1 and with neighbours
 * merged. Returns their new number, which may be 0. */
static inline int walk_merge(const walk_space *s, int begin, int end, int to) {
  const int first = to;
  for (int d = begin; d < end; ++d) {
    if (to != d) walk_copy_dim(s, to, d);
    to = walk_append(s, first, to);
  }
  return to - first;
}

/* ---- walks ------------------------------------------------------------------------------------------------------- */

enum { WALK_OPERANDS = 6 };

typedef struct {
  int rank; /* at least 1, after merging */
  int n_operands;
  int64_t n; /* elements */
  int64_t dims[MAX_RANK];
  int64_t strides[WALK_OPERANDS][MAX_RANK]; /* bytes */
} walk;

/* Plans a walk over the first `rank` dimensions of the views, whose sizes are those of v[0]: in logical (row-major)
 * order, or sorted by the strides of operand 0, the largest outermost. */
static inline void walk_init_as(walk *w, const view *const *v, int n_operands, int rank, bool sorted) {
  const walk_space s = {w->dims, w->strides[0], MAX_RANK, n_operands};
  w->rank = 0;
  w->n_operands = n_operands;
  w->n = 1;
  for (int d = 0; d < rank; ++d) {
    w->n *= v[0]->dims[d];
    if (v[0]->dims[d] == 1) continue;
    w->dims[w->rank] = v[0]->dims[d];
    for (int k = 0; k < n_operands; ++k) w->strides[k][w->rank] = v[k]->strides[d];
    w->rank = sorted ? w->rank + 1 : walk_append(&s, 0, w->rank);
  }
  if (sorted) {
    walk_sort(&s, w->rank, 1, false);
    w->rank = walk_merge(&s, 0, w->rank, 0);
  }
  if (w->rank) return;
  w->dims[w->rank++] = 1; /* one element */
  for (int k = 0; k < n_operands; ++k) w->strides[k][0] = 0;
}

static inline void walk_init(walk *w, const view *const *v, int n_operands, int rank) {
  walk_init_as(w, v, n_operands, rank, false);
}

/* For elements or rows whose order does not matter. */
static inline void walk_init_sorted(walk *w, const view *const *v, int n_operands, int rank) {
  walk_init_as(w, v, n_operands, rank, true);
}

/* Whether operand k is contiguous. */
static inline bool walk_is_contiguous(const walk *w, int k, int64_t element_bytes) {
  return w->rank == 1 && (w->dims[0] == 1 || w->strides[k][0] == element_bytes);
}

/* ---- cursors ----------------------------------------------------------------------------------------------------- */

enum { CURSOR_OPERANDS = 16, CURSOR_RANK = 2 * MAX_RANK };

/* A position in a space. The sizes and strides are borrowed, see walk_space. */
typedef struct {
  const int64_t *dims, *strides;
  int pitch, rank, n_operands;
  char *at[CURSOR_OPERANDS]; /* addresses of the operands' current elements */
  int64_t index[CURSOR_RANK];
} cursor;

static inline void cursor_init(cursor *c, const int64_t *dims, const int64_t *strides, int pitch, int rank,
                               int n_operands) {
  c->dims = dims;
  c->strides = strides;
  c->pitch = pitch;
  c->rank = rank;
  c->n_operands = n_operands;
}

/* Sets the cursor to element number `element`, which exists or is 0. base[k] is the address of operand k's first
 * element. */
static inline void cursor_seek(cursor *c, void *const *base, int64_t element) {
  const int n_operands = c->n_operands, pitch = c->pitch;
  const int64_t *const dims = c->dims, *const strides = c->strides;
  for (int k = 0; k < n_operands; ++k) c->at[k] = base[k];
  for (int d = c->rank - 1; d >= 0; --d) {
    const int64_t i = element ? element % dims[d] : 0;
    c->index[d] = i;
    if (!element) continue;
    element /= dims[d];
    for (int k = 0; k < n_operands; ++k) c->at[k] += i * strides[k * pitch + d];
  }
}

static inline void cursor_start(cursor *c, const walk *w, void *const *base, int64_t element) {
  cursor_init(c, w->dims, w->strides[0], MAX_RANK, w->rank, w->n_operands);
  cursor_seek(c, base, element);
}

/* Makes *one a cursor of operand k alone, as its operand 0, at the same position as c. */
static inline void cursor_of_operand(cursor *one, const cursor *c, int k) {
  cursor_init(one, c->dims, c->strides + k * c->pitch, c->pitch, c->rank, 1);
  one->at[0] = c->at[k];
  for (int d = 0; d < c->rank; ++d) one->index[d] = c->index[d];
}

/* The number of elements left in the row, at most `limit`. */
static inline int64_t cursor_row(const cursor *c, int64_t limit) {
  const int d = c->rank - 1;
  const int64_t left = c->dims[d] - c->index[d];
  return left < limit ? left : limit;
}

/* Advances by n elements, at most what cursor_row returned. The fields are read once, since compilers must assume that
 * the addresses written here may be those of the fields. */
static inline void cursor_next(cursor *c, int64_t n) {
  const int n_operands = c->n_operands, pitch = c->pitch;
  const int64_t *const dims = c->dims, *strides = c->strides + c->rank - 1;
  int d = c->rank - 1;
  c->index[d] += n;
  for (int k = 0; k < n_operands; ++k) c->at[k] += n * strides[k * pitch];
  for (; d > 0 && c->index[d] == dims[d]; --d) {
    c->index[d] = 0;
    ++c->index[d - 1];
    --strides;
    for (int k = 0; k < n_operands; ++k) c->at[k] += strides[k * pitch] - dims[d] * strides[k * pitch + 1];
  }
}

#endif
