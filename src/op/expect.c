/* SPDX-License-Identifier: Apache-2.0 */
#include "op/expect.h"

#include <stdio.h>

status op_expect_tensor(const tensor *t, const char *name) {
  if (likely(t->magic == MAGIC_TENSOR)) return ST_OK;
  EXPECT(t->magic == MAGIC_WIDE_TENSOR, "%s is no object of its type (destroyed?)", name);
  const tensor_shape *s = t->wide;
  const bool view = s->rank > MAX_RANK;
  return OP_FAIL("%s has %s %s, %d dimensions, but cannot be larger than %d dimensions", name,
                 view ? "shape" : "a storage of shape",
                 view ? DIMS_TEXT(s->dims, s->rank) : DIMS_TEXT(s->storage_dims, s->storage_rank),
                 view ? s->rank : s->storage_rank, MAX_RANK);
}

status op_expect_dtype_argument(int64_t dtype, const tensor *out) {
  EXPECT(out->dtype == dtype, "dtype is %s, expected that of out, %s", dtype_name((int)dtype), dtype_name(out->dtype));
  return ST_OK;
}

status op_expect_dtype(const tensor *t, const char *name, uint64_t allowed) {
  if (likely(t->dtype >= 0 && allowed >> t->dtype & 1)) return ST_OK;
  char list[256] = "";
  int n = 0;
  for (int d = 0; d < DTYPE_END && n < (int)sizeof list - 24; ++d)
    if (allowed >> d & 1) n += snprintf(list + n, sizeof list - (size_t)n, "%s%s", n ? ", " : "", dtype_name(d));
  return OP_FAIL("%s has dtype %s, expected one of %s", name, dtype_name(t->dtype), list);
}

status op_expect_one(const tensor *t, const char *name, uint64_t allowed) {
  TRY(op_expect_dtype(t, name, allowed));
  EXPECT(t->n == 1, "%s has %jd elements, expected 1", name, (intmax_t)t->n);
  return ST_OK;
}

status op_expect_shape(const tensor *t, const char *name, const int64_t *dims, int rank) {
  bool same = t->rank == rank;
  for (int d = 0; same && d < rank; ++d) same = t->dims[d] == dims[d];
  if (likely(same)) return ST_OK;
  return OP_FAIL("%s has shape %s, expected %s", name, SHAPE_OF(t), DIMS_TEXT(dims, rank));
}

status op_expect_like(const tensor *t, const char *name, const tensor *other) {
  TRY(op_expect_dtype(t, name, DTYPE_BIT(other->dtype)));
  return op_expect_same_shape(t, name, other);
}

status op_expect_rank(const tensor *t, const char *name, int least, int most) {
  char expected[32];
  if (likely(t->rank >= least && t->rank <= most)) return ST_OK;
  if (least == most)
    snprintf(expected, sizeof expected, "%d dimension%s", least, least == 1 ? "" : "s");
  else if (most == MAX_RANK)
    snprintf(expected, sizeof expected, "%d or more dimensions", least);
  else
    snprintf(expected, sizeof expected, "%d %s %d dimensions", least, most == least + 1 ? "or" : "to", most);
  return OP_FAIL("%s has shape %s, expected %s", name, SHAPE_OF(t), expected);
}

status op_expect_size(uint64_t size, const char *name, uint64_t expected) {
  EXPECT(size == expected, "%s has %ju elements, expected %ju", name, (uintmax_t)size, (uintmax_t)expected);
  return ST_OK;
}

const tensor *op_one_as(const tensor *t, const int64_t *dims, int rank, tensor *room) {
  bool is_one = t->n == 1 && t->rank != rank;
  for (int d = 0; is_one && d < rank; ++d) is_one = dims[d] == 1;
  if (likely(!is_one)) return t;
  *room = *t;
  room->rank = (uint8_t)rank;
  for (int d = 0; d < rank; ++d) room->dims[d] = room->strides[d] = 1;
  return room;
}

status op_expect_dim(int64_t value, const char *name, int rank, int *dim) {
  const int n = rank ? rank : 1;
  if (value < -n || value >= n) return OP_FAIL("%s is %jd, expected %d to %d", name, (intmax_t)value, -n, n - 1);
  *dim = (int)(value < 0 ? value + n : value);
  return ST_OK;
}
