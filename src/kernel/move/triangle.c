/* SPDX-License-Identifier: Apache-2.0 */
/* Tril, Triu, Diag, DiagFlat. */
#include <string.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/move/check.h"

static const uint64_t zeros[2];

/* ---- Tril, Triu -------------------------------------------------------------------------------------------------- */

typedef struct {
  walk matrices; /* over all dimensions except the last two; operands: 0 out, 1 self */
  int64_t n[2];  /* rows, columns */
  int64_t to[2], from[2];
  int64_t element_bytes, diagonal;
  bool lower;
  int operand; /* operand number of out */
} triangle_plan;

typedef struct {
  const triangle_plan *plan;
  void *at[2];
} triangle_job;

/* Writes row i: columns [begin, end) are copied, the others are set to zero. */
static void triangle_row(const triangle_plan *p, int64_t i, char *to, const char *from) {
  const int64_t n = p->n[1], first = i + p->diagonal + (p->lower ? 1 : 0); /* first column beyond the diagonal */
  const int64_t edge = first < 0 ? 0 : first > n ? n : first;
  const int64_t begin = p->lower ? 0 : edge, end = p->lower ? edge : n;
  const int64_t zero_begin = p->lower ? edge : 0, zero_end = p->lower ? n : edge;
  plane_loop *const strided = moves->strided[move_element_size_log2(p->element_bytes)];
  plane row = {.n = {1, end - begin}, .to = {0, p->to[1]}, .from = {0, p->from[1]}, .element_bytes = p->element_bytes};
  to += i * p->to[0];
  from += i * p->from[0];
  if (row.n[1] && to != from) {
    const bool dense = row.to[1] == p->element_bytes && row.from[1] == p->element_bytes;
    (dense ? moves->rows : strided)(&row, to + begin * p->to[1], from + begin * p->from[1]);
  }
  row.n[1] = zero_end - zero_begin;
  row.from[1] = 0;
  if (row.to[1] == p->element_bytes)
    memset(to + zero_begin * p->to[1], 0, (size_t)(row.n[1] * p->element_bytes));
  else
    strided(&row, to + zero_begin * p->to[1], (const char *)zeros);
}

static void triangle_rows(const void *arg, int64_t begin, int64_t end) {
  const triangle_job *job = arg;
  const triangle_plan *p = job->plan;
  cursor c;
  cursor_start(&c, &p->matrices, job->at, begin / p->n[0]);
  for (int64_t row = begin % p->n[0]; begin < end; ++begin) {
    triangle_row(p, row, c.at[0], c.at[1]);
    if (++row < p->n[0]) continue;
    row = 0;
    cursor_next(&c, 1);
  }
}

static status run_triangle(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const triangle_plan *p = PLAN(e, triangle_plan);
  const triangle_job job = {p, {view[p->operand], view[TRIANGLE_SELF]}};
  rows_parallel(triangle_rows, &job, p->matrices.n * p->n[0], 16, e->cost_ns);
  return ST_OK;
}

status prepare_triangle(executor *e, const triangle_args *a) {
  const tensor *self = a->self, *out = a->out ? a->out : self;
  const char *name = a->name.self;
  const int64_t diagonal = a->diagonal;
  triangle_plan *p = PLAN(e, triangle_plan);
  TRY(move_expect_same_dtype(self, name, out, "out"));
  EXPECT(self->rank >= 2, "%s has %d dimensions, expected 2 or more", name, self->rank);
  TRY(op_expect_same_shape(out, "out", self));
  const view from = view_of(self), to = view_of(out);
  const view *const walked[] = {&to, &from};
  const int rows = self->rank - 2, columns = self->rank - 1;
  *p = (triangle_plan){.n = {to.dims[rows], to.dims[columns]},
                       .to = {to.strides[rows], to.strides[columns]},
                       .from = {from.strides[rows], from.strides[columns]},
                       .element_bytes = (int64_t)dtype_bytes(self->dtype),
                       /* Clamped to just outside of the matrix, which has the same effect and cannot overflow. */
                       .diagonal = diagonal < -to.dims[rows] - 1     ? -to.dims[rows] - 1
                                   : diagonal > to.dims[columns] + 1 ? to.dims[columns] + 1
                                                                     : diagonal,
                       .lower = e->op->variant == TRIANGLE_LOWER,
                       .operand = a->out ? TRIANGLE_OUT : TRIANGLE_SELF};
  walk_init(&p->matrices, walked, 2, rows);
  executor_cost(e, (uint64_t)(2 * self->n * p->element_bytes), 0);
  e->run = self->n ? run_triangle : move_run_nothing;
  return ST_OK;
}

/* ---- Diag, DiagFlat ---------------------------------------------------------------------------------------------- */

/* Plan of a vector that becomes a diagonal of a matrix of zeros. */
typedef struct {
  view out, from; /* out: the whole matrix; from: read in row-major order */
  view diagonal;  /* the diagonal of out */
  int64_t offset; /* of the diagonal in out, in bytes */
} diagonal_plan;

static status run_make_diagonal(const executor *e, void *const *at, void *scratch) {
  (void)scratch;
  const diagonal_plan *p = PLAN(e, diagonal_plan);
  const view zero = {.dtype = p->out.dtype};
  move_space s;
  move_space_of_views(&s, &p->out, &zero);
  move_now(&s, at[1], zeros, e->cost_ns);
  if (at[0]) move_in_order(&p->diagonal, (char *)at[1] + p->offset, 0, &p->from, at[0], 0, view_elements(&p->from));
  return ST_OK;
}

/* Byte offset of the first element of diagonal `diagonal` of a matrix v. */
static int64_t diagonal_offset(const view *v, int64_t diagonal) {
  return diagonal >= 0 ? diagonal * v->strides[1] : -diagonal * v->strides[0];
}

static status plan_make_diagonal(executor *e, const tensor *self, int64_t diagonal, const tensor *out) {
  diagonal_plan *p = PLAN(e, diagonal_plan);
  EXPECT(diagonal > INT32_MIN && diagonal < INT32_MAX, "diagonal is %jd, expected less", (intmax_t)diagonal);
  const int64_t side = self->n + (diagonal < 0 ? -diagonal : diagonal), dims[] = {side, side};
  tensor room;
  out = op_one_as(out, dims, 2, &room);
  TRY(op_expect_shape(out, "out", dims, 2));
  p->out = view_of(out);
  p->from = view_of(self);
  p->offset = diagonal_offset(&p->out, diagonal);
  p->diagonal =
      (view){.rank = 1, .dtype = out->dtype, .dims = {self->n}, .strides = {p->out.strides[0] + p->out.strides[1]}};
  executor_cost(e, (uint64_t)(out->n + self->n * 2) * dtype_bytes(out->dtype), 0);
  e->run = out->n ? run_make_diagonal : move_run_nothing;
  return ST_OK;
}

status prepare_diag(executor *e, const diag_args *a) {
  const tensor *self = a->self, *out = a->out;
  const int64_t diagonal = a->diagonal;
  TRY(move_expect_same_dtype(self, "self", out, "out"));
  EXPECT(self->rank <= 2, "self has %d dimensions, expected at most 2", self->rank);
  if (self->rank < 2) return plan_make_diagonal(e, self, diagonal, out);
  const view v = view_of(self);
  EXPECT(diagonal >= -v.dims[0] && diagonal <= v.dims[1], "diagonal is %jd, expected %jd to %jd", (intmax_t)diagonal,
         (intmax_t)-v.dims[0], (intmax_t)v.dims[1]);
  const int64_t down = v.dims[0] + (diagonal < 0 ? diagonal : 0), across = v.dims[1] - (diagonal > 0 ? diagonal : 0);
  const view taken = {
      .rank = 1, .dtype = v.dtype, .dims = {down < across ? down : across}, .strides = {v.strides[0] + v.strides[1]}};
  tensor room;
  out = op_one_as(out, taken.dims, 1, &room);
  TRY(op_expect_shape(out, "out", taken.dims, 1));
  const view o = view_of(out);
  move_space s;
  move_space_of_views(&s, &o, &taken);
  move_prepare(e, 1, 0, 0, diagonal_offset(&v, diagonal), &s);
  return ST_OK;
}

status prepare_diag_flat(executor *e, const diag_flat_args *a) {
  TRY(move_expect_same_dtype(a->self, "self", a->out, "out"));
  return plan_make_diagonal(e, a->self, a->diagonal, a->out);
}
