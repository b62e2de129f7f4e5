/* SPDX-License-Identifier: Apache-2.0 */
/* See layout.h. */
#include "kernel/attention/layout.h"

#include <string.h>

static const head_layout layouts[] = {
    {"BSH", 3, 0, ABSENT, 1, 2, true},  {"SBH", 3, 1, ABSENT, 0, 2, true}, {"BSND", 4, 0, 2, 1, 3, false},
    {"BNSD", 4, 0, 1, 2, 3, false},     {"NBSD", 4, 1, 0, 2, 3, false},    {"TND", 3, ABSENT, 1, 0, 2, false},
    {"NTD", 3, ABSENT, 0, 1, 2, false},
};

bool layout_has_word(const char *text, const char *word) {
  const size_t n = strlen(word);
  for (const char *at = text; (at = strstr(at, word)); at += n)
    if ((at == text || at[-1] == ' ') && (at[n] == ' ' || !at[n])) return true;
  return false;
}

status head_layout_find(const char *name, const char *argument, const char *standard, const char *allowed,
                        const head_layout **out) {
  if (!name) name = standard;
  if (!name) return fail(ST_OP_NULL, "%s is NULL, expected one of %s", argument, allowed);
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; ++i)
    if (!strcmp(layouts[i].name, name) && layout_has_word(allowed, name)) {
      *out = &layouts[i];
      return ST_OK;
    }
  return OP_FAIL("%s is \"%.32s\", expected one of %s", argument, name, allowed);
}

status head_view_of(const tensor *t, const char *name, int operand, const head_layout *l, head_view *v,
                    head_dims *dims) {
  EXPECT(t->rank == l->rank, "%s has %d dimensions, expected the %d of %s", name, t->rank, l->rank, l->name);
  const int64_t size = dtype_bytes(t->dtype), *const st = t->strides;
  const int64_t heads = l->hidden ? dims->heads : t->dims[l->head];
  if (l->hidden)
    EXPECT(heads > 0 && t->dims[l->col] % heads == 0, "%s has %jd components, expected a multiple of the %jd heads",
           name, (intmax_t)t->dims[l->col], (intmax_t)heads);
  *dims = (head_dims){.batches = l->batch >= 0 ? t->dims[l->batch] : 1,
                      .heads = heads,
                      .rows = t->dims[l->row],
                      .d = l->hidden ? t->dims[l->col] / heads : t->dims[l->col]};
  *v = (head_view){.operand = (int16_t)operand,
                   .dtype = t->dtype,
                   .batch = l->batch >= 0 ? st[l->batch] * size : 0,
                   .head = (l->hidden ? st[l->col] * dims->d : st[l->head]) * size,
                   .row = st[l->row] * size,
                   .col = st[l->col] * size};
  return ST_OK;
}

status score_view_of(const tensor *t, const char *name, int operand, const attention_plan *p, bool batch_first,
                     int64_t rows, int64_t cols, head_view *v) {
  const int r = t->rank;
  const int64_t *d = t->dims, size = dtype_bytes(t->dtype);
  const int batch = r == 4 || (r == 3 && batch_first) ? 0 : ABSENT, head = r == 4                   ? 1
                                                                           : r == 3 && !batch_first ? 0
                                                                                                    : ABSENT;
  EXPECT(r >= 2 && r <= 4 && d[r - 2] >= rows && d[r - 1] >= cols &&
             (batch < 0 || d[batch] == 1 || d[batch] == p->n_batches) &&
             (head < 0 || d[head] == 1 || d[head] == p->n_heads),
         "%s has shape %s, expected [%jd or 1, %jd or 1, %jd, %jd]", name, DIMS_TEXT(d, r), (intmax_t)p->n_batches,
         (intmax_t)p->n_heads, (intmax_t)rows, (intmax_t)cols);
  *v = (head_view){.operand = (int16_t)operand,
                   .dtype = t->dtype,
                   .batch = batch >= 0 && d[batch] > 1 ? t->strides[batch] * size : 0,
                   .head = head >= 0 && d[head] > 1 ? t->strides[head] * size : 0,
                   .row = t->strides[r - 2] * size,
                   .col = t->strides[r - 1] * size};
  return ST_OK;
}

status softmax_view_of(const tensor *t, const char *name, int operand, const int64_t *dims, int rank, head_view *v) {
  const bool flat = rank == 3;
  TRY(op_expect_dtype(t, name, DTYPE_BIT(ACL_FLOAT)));
  TRY(op_expect_shape(t, name, dims, rank));
  *v = (head_view){.operand = (int16_t)operand,
                   .dtype = t->dtype,
                   .batch = flat ? 0 : t->strides[0] * 4,
                   .head = t->strides[1] * 4,
                   .row = t->strides[flat ? 0 : 2] * 4,
                   .col = t->strides[rank - 1] * 4};
  return ST_OK;
}

static int64_t tokens(int64_t n) { return n > BAND_ALL ? BAND_ALL : n < -BAND_ALL ? -BAND_ALL : n; }

void layout_set_band(attention_batch *s, int64_t mode, int64_t before, int64_t after) {
  const int64_t corner = s->n_keys - s->n_queries;
  s->band_low = -(int64_t)BAND_ALL * 2;
  s->band_high = (int64_t)BAND_ALL * 2;
  switch (mode) {
  case SPARSE_DEFAULT:
    s->band_low = -tokens(before);
    s->band_high = tokens(after);
    break;
  case SPARSE_LEFT_UP: s->band_high = 0; break;
  case SPARSE_RIGHT_DOWN:
  case SPARSE_PREFIX:
  case SPARSE_PREFIX_SMALL: s->band_high = corner; break;
  case SPARSE_BAND:
    s->band_low = corner - tokens(before);
    s->band_high = corner + tokens(after);
    break;
  default: break;
  }
}

status layout_check_pattern(const tensor *mask, const char *name, int64_t mode) {
  const int64_t rows = mode == SPARSE_PREFIX_SMALL ? 3072 : 2048, cols = 2048;
  const int r = mask->rank;
  bool fits = r >= 2 && mask->dims[r - 1] == cols && mask->dims[r - 2] == rows;
  for (int d = 0; d < r - 2; ++d) fits &= mask->dims[d] == 1;
  EXPECT(fits, "%s has shape %s, expected the pattern of sparseMode %jd, [%jd, %jd]", name, DIMS_TEXT(mask->dims, r),
         (intmax_t)mode, (intmax_t)rows, (intmax_t)cols);
  return ST_OK;
}
