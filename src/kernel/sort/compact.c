/* SPDX-License-Identifier: Apache-2.0 */
/* Nonzero and MaskedSelect: the number of results depends on the data. The caller provides an output for the maximum
 * number and reads its actual shape after synchronising. A contiguous output is then contiguous in that shape. */
#include "kernel/sort/compact.h"

#include "kernel/engine/level_choice.h"
#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "op/executor.h"
#include "tensor/objects.h"

LEVEL_CHOICE(compact_table, compacts, compacts)

/* How elements are converted to mask bytes (0 or not 0). */
typedef struct {
  row_access in;
  store_loop *to_bool; /* NULL: elements are mask bytes already */
} mask_access;

static mask_access mask_access_of(int dtype, int64_t along) {
  const compute_type compute = !dtype_is_float(dtype) ? COMPUTE_I64 : dtype == ACL_DOUBLE ? COMPUTE_F64 : COMPUTE_F32;
  mask_access m = {.in = row_access_of(dtype, compute, along, 0, COMPACT_BLOCK)};
  if (dtype != ACL_BOOL && dtype != ACL_UINT8)
    m.to_bool = loops->store[ACL_BOOL][compute];
  else if (along != 1)
    m.to_bool = loops->store[ACL_BOOL][COMPUTE_I64];
  return m;
}

typedef struct {
  _Alignas(64) char tile[COMPACT_BLOCK * sizeof(double)];
  uint8_t mask[COMPACT_BLOCK];
  int32_t place[COMPACT_BLOCK + COMPACT_SPARE];
} compact_buffer;

/* Returns the mask bytes of n <= COMPACT_BLOCK elements of a row. */
static const uint8_t *compact_mask(const mask_access *m, const char *at, int64_t n, compact_buffer *b) {
  if (!m->to_bool) return (const uint8_t *)at;
  m->to_bool(b->mask, 1, row_fetch(&m->in, b->tile, at, 1, n), n);
  return b->mask;
}

/* The error for more results than the output has room for. */
static status compact_too_many(int64_t found, int64_t room) {
  return OP_FAIL("out has room for %jd results, expected at least %jd", (intmax_t)room, (intmax_t)found);
}

/* ---- Nonzero ----------------------------------------------------------------------------------------------------- */

typedef struct {
  view self; /* its dimensions are not merged, since the result consists of coordinates */
  mask_access mask;
  int64_t n, room;
  int64_t out_strides[2]; /* strides in bytes, by result and by coordinate */
  bool coordinates_first, out_is_contiguous;
} nonzero_plan;

static int64_t nonzero_count(const nonzero_plan *p, char *at) {
  compact_buffer b;
  walk w;
  cursor c;
  int64_t found = 0;
  if (!p->n) return 0;
  walk_init(&w, (const view *const[]){&p->self}, 1, p->self.rank);
  const mask_access m = mask_access_of(p->self.dtype, w.strides[0][w.rank - 1]);
  cursor_start(&c, &w, (void *const[]){at}, 0);
  for (int64_t i = 0, n; i < p->n; i += n, cursor_next(&c, n)) {
    n = cursor_row(&c, i64_min(COMPACT_BLOCK, p->n - i));
    found += compacts->count(compact_mask(&m, c.at[0], n, &b), n);
  }
  return found;
}

/* Writes the coordinates of n elements of a row, the one at index[] and the place[i]-th ones after it. */
static void nonzero_write_coordinates(const nonzero_plan *p, const int64_t *strides, char *to, const int64_t *index,
                                      const int32_t *place, int64_t n) {
  const int last = p->self.rank - 1;
  for (int d = 0; d < last; ++d)
    for (int64_t i = 0; i < n; ++i) *(int64_t *)(void *)(to + i * strides[0] + d * strides[1]) = index[d];
  for (int64_t i = 0; i < n; ++i)
    *(int64_t *)(void *)(to + i * strides[0] + last * strides[1]) = index[last] + place[i];
}

static status nonzero_write(const nonzero_plan *p, char *at, char *out, const int64_t *strides, int64_t *found) {
  compact_buffer b;
  cursor c;
  if (!p->n) return ST_OK;
  cursor_init(&c, p->self.dims, p->self.strides, VIEW_RANK, p->self.rank, 1);
  cursor_seek(&c, (void *const[]){at}, 0);
  for (int64_t i = 0, n; i < p->n; i += n, cursor_next(&c, n)) {
    n = cursor_row(&c, i64_min(COMPACT_BLOCK, p->n - i));
    const int64_t here = compacts->places(b.place, compact_mask(&p->mask, c.at[0], n, &b), n);
    if (*found + here > p->room) return compact_too_many(*found + here, p->room);
    nonzero_write_coordinates(p, strides, out + *found * strides[0], c.index, b.place, here);
    *found += here;
  }
  return ST_OK;
}

static status nonzero_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const nonzero_plan *p = PLAN(e, nonzero_plan);
  const int rank = p->self.rank;
  int64_t found = 0, strides[2] = {p->out_strides[0], p->out_strides[1]};
  if (p->coordinates_first && p->out_is_contiguous) strides[1] = 8 * nonzero_count(p, view[NONZERO_SELF]);
  if (rank == 0)
    found = p->n && *compact_mask(&p->mask, view[NONZERO_SELF], 1, &(compact_buffer){0}) != 0;
  else
    TRY(nonzero_write(p, view[NONZERO_SELF], view[NONZERO_OUT], strides, &found));
  tensor_set_shape(e->results[0],
                   (const int64_t[]){p->coordinates_first ? rank : found, p->coordinates_first ? found : rank}, 2);
  return ST_OK;
}

/* (self, out): one row of coordinates for each element that is not 0; NonzeroV2, and with `transpose`: one column. */
status prepare_nonzero(executor *e, const nonzero_args *a) {
  const tensor *self = a->self, *out = a->out;
  nonzero_plan *p = PLAN(e, nonzero_plan);
  p->coordinates_first = e->op->variant == NONZERO_COLUMNS || a->transpose;
  const int result_dim = p->coordinates_first;
  TRY(op_expect_dtype(self, "self", DTYPES_REAL));
  TRY(op_expect_dtype(out, "out", DTYPE_BIT(ACL_INT64)));
  EXPECT(out->rank == 2 && out->dims[!result_dim] == self->rank,
         p->coordinates_first ? "out has shape %s, expected [%d, most results]"
                              : "out has shape %s, expected [most results, %d]",
         SHAPE_OF(out), self->rank);
  p->self = view_of(self);
  p->n = self->n;
  p->room = out->dims[result_dim];
  p->mask =
      mask_access_of(self->dtype, self->rank ? p->self.strides[self->rank - 1] : (int64_t)dtype_bytes(self->dtype));
  p->out_strides[0] = out->strides[result_dim] * 8;
  p->out_strides[1] = out->strides[!result_dim] * 8;
  p->out_is_contiguous = out->contiguous;
  executor_result(e, out, out, result_dim);
  executor_cost(e, (uint64_t)self->n * (dtype_bytes(self->dtype) + 4), (uint64_t)self->n * 16);
  e->run = nonzero_run;
  return ST_OK;
}

/* ---- MaskedSelect ------------------------------------------------------------------------------------------------ */

typedef struct {
  walk both; /* operands: 0 self, 1 mask, both broadcast to their common shape */
  mask_access mask;
  int64_t room, out_stride;
  int bytes;
} masked_select_plan;

static status masked_select_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const masked_select_plan *p = PLAN(e, masked_select_plan);
  const int64_t stride = p->both.strides[0][p->both.rank - 1];
  char *const out = view[MASKED_SELECT_OUT];
  compact_buffer b;
  int64_t found = 0;
  cursor c;
  cursor_start(&c, &p->both, view, 0);
  for (int64_t i = 0, n; i < p->both.n; i += n, cursor_next(&c, n)) {
    n = cursor_row(&c, i64_min(COMPACT_BLOCK, p->both.n - i));
    const int64_t here = compacts->places(b.place, compact_mask(&p->mask, c.at[1], n, &b), n);
    if (found + here > p->room) return compact_too_many(found + here, p->room);
    compacts->take(out + found * p->out_stride, p->out_stride, c.at[0], stride, b.place, here, p->bytes);
    found += here;
  }
  tensor_set_shape(e->results[0], &found, 1);
  return ST_OK;
}

/* Broadcasts v to these dims. Returns false if that is impossible. */
static bool compact_broadcast(view *v, const int64_t *dims, int rank) {
  const int missing = rank - v->rank;
  for (int d = rank - 1; d >= 0; --d) {
    const bool is_there = d >= missing;
    if (is_there && v->dims[d - missing] != dims[d] && v->dims[d - missing] != 1) return false;
    v->strides[d] = is_there && v->dims[d - missing] == dims[d] ? v->strides[d - missing] : 0;
  }
  v->rank = rank;
  for (int d = 0; d < rank; ++d) v->dims[d] = dims[d];
  return true;
}

/* (self, mask, out) */
status prepare_masked_select(executor *e, const masked_select_args *a) {
  const tensor *self = a->self, *mask = a->mask, *out = a->out;
  masked_select_plan *p = PLAN(e, masked_select_plan);
  TRY(op_expect_dtype(self, "self", DTYPES_NUMBER));
  TRY(op_expect_dtype(mask, "mask", DTYPE_BIT(ACL_BOOL) | DTYPE_BIT(ACL_UINT8)));
  EXPECT(out->dtype == self->dtype, "out has dtype %s, expected that of self, %s", dtype_name(out->dtype),
         dtype_name(self->dtype));
  TRY(op_expect_rank(out, "out", 1, 1));
  const int rank = self->rank > mask->rank ? self->rank : mask->rank;
  int64_t dims[MAX_RANK];
  for (int d = 0; d < rank; ++d) {
    const int s = d - rank + self->rank, m = d - rank + mask->rank;
    dims[d] = s < 0 || self->dims[s] == 1 ? (m < 0 ? 1 : mask->dims[m]) : self->dims[s];
  }
  view x = view_of(self), y = view_of(mask);
  EXPECT(compact_broadcast(&x, dims, rank) && compact_broadcast(&y, dims, rank),
         "mask has shape %s, expected one that broadcasts with self's, %s", SHAPE_OF(mask), SHAPE_OF(self));
  walk_init(&p->both, (const view *const[]){&x, &y}, 2, rank);
  EXPECT(out->n == p->both.n, "out has %jd elements, expected %jd, those of self and mask broadcast together",
         (intmax_t)out->n, (intmax_t)p->both.n);
  p->mask = mask_access_of(mask->dtype, p->both.strides[1][p->both.rank - 1]);
  p->room = out->dims[0];
  p->out_stride = out->strides[0] * (int64_t)dtype_bytes(out->dtype);
  p->bytes = (int)dtype_bytes(self->dtype);
  executor_result(e, out, out, 0);
  executor_cost(e, (uint64_t)p->both.n * (uint64_t)(2 * p->bytes + 1), (uint64_t)p->both.n * 16);
  e->run = masked_select_run;
  return ST_OK;
}
