/* Padding: every padded dimension of the result has a centre, the source's elements, and borders on both sides. */
#ifndef CANNON_KERNEL_MOVE_PAD_H
#define CANNON_KERNEL_MOVE_PAD_H

#include "op/executor.h"

typedef enum { PADDING_CONSTANT, PADDING_REFLECT, PADDING_REPLICATE, PADDING_CIRCULAR } padding_kind;

/* One dimension: n elements become before + n + after; negative numbers cut off. */
typedef struct {
  int64_t n, before, after;
} padded_dim;

static inline int64_t padded_size(const padded_dim *d) { return d->before + d->n + d->after; }

/* Where element i of the result comes from; not for constants. */
static inline int64_t pad_source(padding_kind kind, const padded_dim *d, int64_t i) {
  const int64_t s = i - d->before;
  if (s >= 0 && s < d->n) return s;
  switch (kind) {
  case PADDING_REFLECT: return s < 0 ? -s : 2 * (d->n - 1) - s;
  case PADDING_CIRCULAR: return s < 0 ? s + d->n : s - d->n;
  default: return s < 0 ? 0 : d->n - 1;
  }
}

/* Checks rank and padding; gives every dimension's padding, and the result's size. */
status pad_expect(const tensor *self, padding_kind kind, int n_padded, const aclIntArray *pads, padded_dim *padded,
                  int64_t *dims);

/* gradOutput, self, padding, gradInput. */
status prepare_pad_backward(executor *e, const op_arg *a, padding_kind kind, int n_padded);

#endif
