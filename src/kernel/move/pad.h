/* SPDX-License-Identifier: Apache-2.0 */
/* Padding, as shared by pad.c and pad_backward.c. Each padded dimension of the result consists of a border, the centre
 * (the source's elements) and another border. */
#ifndef CANNON_KERNEL_MOVE_PAD_H
#define CANNON_KERNEL_MOVE_PAD_H

#include "kernel/families.h"

typedef enum {
  PADDING_CONSTANT,
  PADDING_REFLECT,
  PADDING_SYMMETRIC, /* the edge is repeated; by name only */
  PADDING_REPLICATE,
  PADDING_CIRCULAR,
} padding_kind;

/* One dimension: n source elements become before + n + after. Negative numbers remove elements. */
typedef struct {
  int64_t n, before, after;
} padded_dim;

static inline int64_t pad_size(const padded_dim *d) { return d->before + d->n + d->after; }

/* Index of the source element that element i of the result is copied from; not for PADDING_CONSTANT. */
static inline int64_t pad_source(padding_kind kind, const padded_dim *d, int64_t i) {
  const int64_t s = i - d->before;
  if (s >= 0 && s < d->n) return s;
  switch (kind) {
  case PADDING_REFLECT: return s < 0 ? -s : 2 * (d->n - 1) - s;
  case PADDING_SYMMETRIC: return s < 0 ? -s - 1 : 2 * d->n - 1 - s;
  case PADDING_CIRCULAR: return s < 0 ? s + d->n : s - d->n;
  default: return s < 0 ? 0 : d->n - 1;
  }
}

/* Checks rank and padding of self, whose last n_padded dimensions are padded. Stores each dimension's padding in
 * padded[] and the result's shape in dims[], both of self's rank. */
status pad_expect(const tensor *self, padding_kind kind, int n_padded, const aclIntArray *pads, padded_dim *padded,
                  int64_t *dims);

/* The kind that PadV3's mode names; NULL: PADDING_CONSTANT. */
status pad_kind_of(const char *mode, padding_kind *kind);

/* Prepares the gradient of a padding operator. */
status pad_prepare_backward(executor *e, const pad_args *a, padding_kind kind, int n_padded);

#endif
