/* SPDX-License-Identifier: Apache-2.0 */
/* InplaceMaskedScatter: the elements that the mask selects are replaced, in order, by the elements of source. */
#include "kernel/engine/walk.h"
#include "kernel/families.h"
#include "kernel/move/check.h"

typedef struct {
  walk places; /* operands: 0 self, 1 the mask */
  view source;
  int64_t n_source, element_bytes;
} masked_scatter;

static status too_few(const masked_scatter *p) {
  return fail(ST_DEVICE_EXCEPTION, "source has %jd elements, expected at least as many as mask marks",
              (intmax_t)p->n_source);
}

#define MASKED(size, T)                                                                                                \
  case size:                                                                                                           \
    for (int64_t k = 0; k < n; ++k) {                                                                                  \
      if (!mask[k * mask_step]) continue;                                                                              \
      if (unlikely(taken++ == p->n_source)) return too_few(p);                                                         \
      *(T *)(void *)(to + k * to_step) = *(const T *)(const void *)from.at[0];                                         \
      if (taken < p->n_source) cursor_next(&from, 1);                                                                  \
    }                                                                                                                  \
    break

static status run_masked_scatter(const executor *e, void *const *at, void *scratch) {
  (void)scratch;
  const masked_scatter *p = PLAN(e, masked_scatter);
  walk source;
  cursor c, from;
  int64_t taken = 0;
  walk_init(&source, (const view *const[]){&p->source}, 1, p->source.rank);
  cursor_start(&from, &source, &at[2], 0);
  cursor_start(&c, &p->places, at, 0);
  const int last = p->places.rank - 1;
  const int64_t to_step = p->places.strides[0][last], mask_step = p->places.strides[1][last];
  for (int64_t i = 0, n; i < p->places.n; i += n, cursor_next(&c, n)) {
    n = cursor_row(&c, p->places.n - i);
    char *const to = c.at[0];
    const char *const mask = c.at[1];
    switch (p->element_bytes) {
      MASKED(1, uint8_t);
      MASKED(2, uint16_t);
      MASKED(4, uint32_t);
      MASKED(8, uint64_t);
      MASKED(16, word16);
    }
  }
  return ST_OK;
}

status prepare_masked_scatter(executor *e, const masked_scatter_args *a) {
  const tensor *self = a->self, *mask = a->mask, *source = a->source;
  masked_scatter *p = PLAN(e, masked_scatter);
  TRY(move_expect_same_dtype(self, "selfRef", source, "source"));
  TRY(op_expect_dtype(mask, "mask", DTYPE_BIT(ACL_BOOL) | DTYPE_BIT(ACL_UINT8)));
  EXPECT(move_broadcasts_to(mask, self), "mask has shape %s, expected one that broadcasts to selfRef's, %s",
         SHAPE_OF(mask), SHAPE_OF(self));
  const view to = view_of(self), m = view_of(mask);
  view marks = {.rank = to.rank, .dtype = m.dtype};
  for (int d = 0; d < to.rank; ++d) {
    const int k = d - (to.rank - m.rank);
    marks.dims[d] = to.dims[d];
    marks.strides[d] = k >= 0 && m.dims[k] != 1 ? m.strides[k] : 0;
  }
  walk_init(&p->places, (const view *const[]){&to, &marks}, 2, to.rank);
  p->source = view_of(source);
  p->n_source = source->n;
  p->element_bytes = (int64_t)dtype_bytes(self->dtype);
  executor_cost(e, (uint64_t)(self->n * (2 * p->element_bytes + 1)), (uint64_t)self->n * 16);
  e->run = self->n ? run_masked_scatter : move_run_nothing;
  return ST_OK;
}
