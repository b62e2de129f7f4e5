#include "kernel/norm/norm.h"

#include "kernel/engine/level.h"

LEVEL_CHOICE(norm_loops, norm, norm_loops)

status norm_expect(const tensor *t, const char *name, const int64_t *dims, int rank) {
  TRY(op_expect_dtype(t, name, DTYPES_NORM));
  return op_expect_shape(t, name, dims, rank);
}

status norm_rows_view(const tensor *t, const char *name, const int64_t *dims, int n_outer, view *v) {
  char is[SHAPE_TEXT], expected[SHAPE_TEXT];
  TRY(op_expect_dtype(t, name, DTYPES_NORM));
  int64_t n = 1;
  bool same = t->rank >= n_outer;
  for (int d = 0; d < n_outer; ++d) {
    n *= dims[d];
    same = same && t->dims[d] == dims[d];
  }
  for (int d = n_outer; same && d < t->rank; ++d) same = t->dims[d] == 1;
  EXPECT(same || (t->contiguous && t->n == n), "%s has shape %s, expected %s (and ones)", name,
         shape_text(t->dims, t->rank, is), shape_text(dims, n_outer, expected));
  *v = same ? view_of(t) : view_contiguous(t->dtype, n_outer, dims);
  return ST_OK;
}

status norm_expect_normalized_shape(const tensor *input, const aclIntArray *shape, int *n_outer) {
  char is[SHAPE_TEXT], of[SHAPE_TEXT];
  const int rank = shape->size <= MAX_RANK ? (int)shape->size : 0;
  bool fits = rank >= 1 && rank <= input->rank;
  for (int d = 0; fits && d < rank; ++d) fits = shape->value[d] == input->dims[input->rank - rank + d];
  EXPECT(fits, "normalizedShape is %s, expected the last dimensions of input, whose shape is %s",
         shape_text(shape->value, rank, is), shape_text(input->dims, input->rank, of));
  *n_outer = input->rank - rank;
  return ST_OK;
}
