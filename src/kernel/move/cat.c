/* SPDX-License-Identifier: Apache-2.0 */
/* Cat, Stack, ChunkCat, SplitTensor and SplitWithSize: lists of tensors are copied into
 * one, or one is copied into a list. */
#include <stdlib.h>
#include <string.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/move/check.h"

/* ---- lists of copies --------------------------------------------------------------------------------------------- */

/* One copy. With source operand -1 it fills with zeros. */
typedef struct {
  copy_plan plan;
  int to, from;                   /* operand numbers */
  int64_t to_offset, from_offset; /* bytes */
  uint64_t bytes;
} list_copy;

typedef struct {
  int64_t n;            /* number of copies; they are in e->heap */
  int64_t rows_in_turn; /* rows of each copy, which are copied in turn; 0: one copy after the other */
} list_plan;

typedef struct {
  const list_copy *copies;
  int64_t n;
  void *const *view;
} list_job;

static char *copy_to(const list_copy *c, void *const *view) { return (char *)view[c->to] + c->to_offset; }

static const char *copy_from(const list_copy *c, void *const *view) {
  static const uint64_t zeros[2];
  return c->from < 0 ? (const char *)zeros : (const char *)view[c->from] + c->from_offset;
}

static void run_list_in_turn(const void *job, int64_t begin, int64_t end) {
  enum { RUNS = 32 };
  const list_job *j = job;
  row_run run[RUNS];
  for (int64_t i = 0, n; i < j->n; i += n) {
    n = i64_min(RUNS, j->n - i);
    for (int64_t k = 0; k < n; ++k) {
      const list_copy *c = &j->copies[i + k];
      run[k] = move_run_of(&c->plan.move, copy_to(c, j->view), copy_from(c, j->view));
    }
    moves->in_turn(run, n, begin, end);
  }
}

static status run_list(const executor *e, void *const *view, void *scratch) {
  enum { ROW_GRAIN = 16 };
  (void)scratch;
  const list_plan *p = PLAN(e, list_plan);
  const list_job job = {e->heap, p->n, view};
  if (p->rows_in_turn) {
    rows_parallel(run_list_in_turn, &job, p->rows_in_turn, ROW_GRAIN, e->cost_ns);
    return ST_OK;
  }
  for (const list_copy *c = job.copies; c < job.copies + p->n; ++c)
    move_copy_run(&c->plan, copy_to(c, view), copy_from(c, view), c->bytes / 8);
  return ST_OK;
}

static status list_begin(executor *e, uint64_t most) {
  *PLAN(e, list_plan) = (list_plan){0};
  e->run = run_list;
  return executor_heap(e, most * sizeof(list_copy)) ? ST_OK : ST_NO_HOST_MEMORY;
}

static void list_add_copy(executor *e, int to_operand, int64_t to_offset, const view *to, int from_operand,
                          int64_t from_offset, const view *from) {
  const uint64_t bytes = (uint64_t)view_elements(to) * (dtype_bytes(to->dtype) + dtype_bytes(from->dtype));
  if (bytes == 0) return;
  list_copy *c = (list_copy *)e->heap + PLAN(e, list_plan)->n++;
  move_copy_plan_init(&c->plan, to, from);
  c->to = to_operand;
  c->to_offset = to_offset;
  c->from = from_operand;
  c->from_offset = from_offset;
  c->bytes = bytes;
  executor_cost(e, e->touched_bytes + bytes, 0);
}

/* If all copies have rows of medium length, they are copied row by row in turn, so that memory is written (Cat) or read
 * (Split) in order (bench/torch_npu, cat: 0.8 of the time). */
static void list_end(executor *e) {
  enum { LONG_ROW = 64 << 10 };
  list_plan *p = PLAN(e, list_plan);
  const list_copy *copies = e->heap;
  if (p->n < 2) return;
  const int64_t rows = copies->plan.converts ? 0 : copies->plan.move.rows;
  for (const list_copy *c = copies; c < copies + p->n; ++c) {
    if (c->plan.converts || !move_is_run(&c->plan.move) || c->plan.move.rows != rows) return;
    const int64_t bytes = (int64_t)c->bytes / 2 / rows;
    if (bytes < IN_TURN_LEAST || bytes > LONG_ROW) return;
  }
  p->rows_in_turn = rows;
}

/* ---- Cat --------------------------------------------------------------------------------------------------------- */

/* PyTorch's legacy empty tensor of one dimension, which can be joined with any shape. */
static bool is_skipped(const tensor *t) { return t->rank == 1 && t->n == 0; }

typedef struct {
  int64_t dims[MAX_RANK]; /* shape of the result */
  int rank, dim;
  int dtype; /* promoted dtype of all tensors */
} cat_result;

static status cat_expect_number(const tensor *t, int i) {
  EXPECT(t->dtype >= 0 && DTYPES_NUMBER >> t->dtype & 1, "tensors[%d] has dtype %s, expected a type of numbers", i,
         dtype_name(t->dtype));
  return ST_OK;
}

static status cat_join_dtype(cat_result *r, const tensor *t, int i) {
  TRY(cat_expect_number(t, i));
  const int dtype = r->dtype == ACL_DT_UNDEFINED ? t->dtype : dtype_promote(r->dtype, t->dtype);
  EXPECT(dtype != ACL_DT_UNDEFINED, "tensors[%d] has dtype %s, which has no type in common with %s before", i,
         dtype_name(t->dtype), dtype_name(r->dtype));
  r->dtype = dtype;
  return ST_OK;
}

/* Joins shape and dtype of tensors[i] to the result so far. The first tensor that is not skipped determines the shape;
 * skipped ones do not take part in the promotion. */
static status cat_join(cat_result *r, const tensor *t, int i, int64_t dim) {
  EXPECT(t->rank, "tensors[%d] has no dimension, expected 1 or more", i);
  if (is_skipped(t)) return cat_expect_number(t, i);
  TRY(cat_join_dtype(r, t, i));
  if (r->rank == 0) {
    r->rank = t->rank;
    TRY(op_expect_dim(dim, "dim", t->rank, &r->dim));
    for (int d = 0; d < t->rank; ++d) r->dims[d] = t->dims[d];
    return ST_OK;
  }
  bool fits = t->rank == r->rank;
  for (int d = 0; fits && d < t->rank; ++d) fits = d == r->dim || t->dims[d] == r->dims[d];
  EXPECT(fits, "tensors[%d] has shape %s, expected %s but for dimension %d", i, SHAPE_OF(t), SHAPE_OF(r), r->dim);
  r->dims[r->dim] += t->dims[r->dim];
  return ST_OK;
}

static status cat_join_all(cat_result *r, const aclTensorList *list, int64_t dim) {
  EXPECT(list->size, "tensors is empty, expected one tensor or more");
  for (uint64_t i = 0; i < list->size; ++i) TRY(cat_join(r, list->value[i], (int)i, dim));
  if (r->rank == 0) { /* all tensors were skipped */
    r->rank = 1;
    r->dims[0] = 0;
    for (uint64_t i = 0; i < list->size; ++i) TRY(cat_join_dtype(r, list->value[i], (int)i));
    TRY(op_expect_dim(dim, "dim", 1, &r->dim));
  }
  return ST_OK;
}

/* Checks out: the tensors' common dtype must be castable to out's. */
static status cat_expect_result(const aclTensorList *list, const tensor *out, const cat_result *r) {
  TRY(op_expect_dtype(out, "out", DTYPES_NUMBER));
  EXPECT(dtype_can_cast(r->dtype, out->dtype), "out has dtype %s, expected one that %s, the tensors' type, converts to",
         dtype_name(out->dtype), dtype_name(r->dtype));
  for (uint64_t i = 0; i < list->size; ++i) TRY(move_expect_conversion(list->value[i], "one of tensors", out->dtype));
  return op_expect_same_shape(out, "out", r);
}

status prepare_cat(executor *e, const cat_args *a) {
  const aclTensorList *list = a->tensors;
  const tensor *out = a->out;
  cat_result r = {.dtype = ACL_DT_UNDEFINED};
  tensor room;
  TRY(cat_join_all(&r, list, a->dim));
  out = op_one_as(out, r.dims, r.rank, &room);
  TRY(cat_expect_result(list, out, &r));
  TRY(list_begin(e, list->size));
  view to = view_of(out);
  int64_t offset = 0;
  for (uint64_t i = 0; i < list->size; ++i) {
    if (is_skipped(list->value[i])) continue;
    const view from = view_of(list->value[i]);
    to.dims[r.dim] = from.dims[r.dim];
    list_add_copy(e, (int)list->size, offset, &to, (int)i, 0, &from);
    offset += from.dims[r.dim] * to.strides[r.dim];
  }
  list_end(e);
  return ST_OK;
}

/* Concat by name. */
status prepare_graph_concat(executor *e, const graph_concat_args *a) {
  TRY(op_expect_size(a->concat_dim->size, "concat_dim", 1));
  return prepare_cat(e, &(cat_args){.tensors = a->x, .dim = a->concat_dim->value[0], .out = a->y});
}

/* ---- Stack ------------------------------------------------------------------------------------------------------- */

status prepare_stack(executor *e, const stack_args *a) {
  const aclTensorList *list = a->tensors;
  const tensor *out = a->out;
  cat_result r = {.dtype = ACL_DT_UNDEFINED};
  EXPECT(list->size, "tensors is empty, expected one tensor or more");
  const tensor *first = list->value[0];
  EXPECT(first->rank < MAX_RANK, "tensors[0] has %d dimensions, expected at most %d", first->rank, MAX_RANK - 1);
  TRY(op_expect_dim(a->dim, "dim", first->rank + 1, &r.dim));
  r.rank = first->rank + 1;
  for (int d = 0; d < r.rank; ++d) r.dims[d] = d == r.dim ? (int64_t)list->size : first->dims[d - (d > r.dim)];
  for (uint64_t i = 0; i < list->size; ++i) {
    const tensor *t = list->value[i];
    TRY(cat_join_dtype(&r, t, (int)i));
    EXPECT(tensor_same_dims(t, first), "tensors[%d] has shape %s, expected %s", (int)i, SHAPE_OF(t), SHAPE_OF(first));
  }
  tensor room;
  out = op_one_as(out, r.dims, r.rank, &room);
  TRY(cat_expect_result(list, out, &r));
  TRY(list_begin(e, list->size));
  const view o = view_of(out);
  view to = {.rank = first->rank, .dtype = out->dtype};
  for (int d = 0; d < to.rank; ++d) {
    to.dims[d] = first->dims[d];
    to.strides[d] = o.strides[d + (d >= r.dim)];
  }
  for (uint64_t i = 0; i < list->size; ++i) {
    const view from = view_of(list->value[i]);
    list_add_copy(e, (int)list->size, (int64_t)i * o.strides[r.dim], &to, (int)i, 0, &from);
  }
  list_end(e);
  return ST_OK;
}

/* ---- ChunkCat: the rows of each tensor are distributed over the rows of out and padded with zeros ---------------- */

static int64_t elements_per_row(const tensor *t) {
  int64_t n = 1;
  for (int d = 1; d < t->rank; ++d) n *= t->dims[d];
  return n;
}

/* Adds a copy of a chunk of tensors[i]: `rows` rows from `begin` on, to row c of out at column `at`. */
static void cat_add_chunk(executor *e, const view *o, int out_operand, const tensor *t, int i, int64_t c, int64_t begin,
                          int64_t rows, int64_t at) {
  view from = view_of(t);
  view to = {.rank = from.rank, .dtype = o->dtype};
  int64_t step = o->strides[1];
  from.dims[0] = rows;
  for (int d = from.rank - 1; d >= 0; --d) {
    to.dims[d] = from.dims[d];
    to.strides[d] = step;
    step *= from.dims[d];
  }
  list_add_copy(e, out_operand, c * o->strides[0] + at * o->strides[1], &to, i, begin * from.strides[0], &from);
}

static void cat_add_zeros(executor *e, const view *o, int out_operand, int64_t c, int64_t at, int64_t n) {
  const view to = {.rank = 1, .dtype = o->dtype, .dims = {n}, .strides = {o->strides[1]}};
  const view zero = {.rank = 1, .dtype = o->dtype, .dims = {1}};
  list_add_copy(e, out_operand, c * o->strides[0] + at * o->strides[1], &to, -1, 0, &zero);
}

status prepare_chunk_cat(executor *e, const chunk_cat_args *a) {
  const aclTensorList *list = a->tensors;
  const int64_t n_chunks = a->num_chunks;
  const tensor *out = a->out;
  int64_t width = 0;
  EXPECT(list->size, "tensors is empty, expected one tensor or more");
  EXPECT(a->dim == 0, "dim is %jd, expected 0", (intmax_t)a->dim);
  EXPECT(n_chunks > 0 && n_chunks <= INT32_MAX, "numChunks is %jd, expected 1 or more", (intmax_t)n_chunks);
  TRY(op_expect_dtype(out, "out", DTYPES_FLOAT));
  for (uint64_t i = 0; i < list->size; ++i) {
    const tensor *t = list->value[i];
    EXPECT(t->dtype == list->value[0]->dtype && DTYPES_FLOAT >> t->dtype & 1,
           "tensors[%d] has dtype %s, expected one float type for all", (int)i, dtype_name(t->dtype));
    EXPECT(t->rank, "tensors[%d] has no dimension, expected 1 or more", (int)i);
    width += (t->dims[0] + n_chunks - 1) / n_chunks * elements_per_row(t);
  }
  TRY(op_expect_shape(out, "out", (const int64_t[]){n_chunks, width}, 2));
  TRY(list_begin(e, list->size * (uint64_t)n_chunks * 2));
  const view o = view_of(out);
  int64_t at = 0;
  for (uint64_t i = 0; i < list->size; ++i) {
    const tensor *t = list->value[i];
    const int64_t rows = (t->dims[0] + n_chunks - 1) / n_chunks, row = elements_per_row(t);
    for (int64_t c = 0; c < n_chunks; ++c) {
      const int64_t begin = c * rows < t->dims[0] ? c * rows : t->dims[0];
      const int64_t n = t->dims[0] - begin < rows ? t->dims[0] - begin : rows;
      cat_add_chunk(e, &o, (int)list->size, t, (int)i, c, begin, n, at);
      cat_add_zeros(e, &o, (int)list->size, c, at + n * row, (rows - n) * row);
    }
    at += rows * row;
  }
  list_end(e);
  return ST_OK;
}

/* ---- Split ------------------------------------------------------------------------------------------------------- */

/* Copies consecutive parts of self along dim to out[i]. Part i has size sizes[i], or, if sizes is NULL, `each` (the
 * last one may be smaller). */
static status plan_split(executor *e, const tensor *self, int64_t dim, const aclIntArray *sizes, int64_t each,
                         const aclTensorList *out) {
  int d;
  TRY(op_expect_dtype(self, "self", DTYPES_NUMBER));
  EXPECT(self->rank, "self has no dimension, expected 1 or more");
  TRY(op_expect_dim(dim, "dim", self->rank, &d));
  view from = view_of(self);
  const int64_t n = from.dims[d];
  int64_t begin = 0;
  TRY(list_begin(e, out->size));
  for (uint64_t i = 0; i < out->size; ++i) {
    tensor room;
    const int64_t left = n - begin;
    from.dims[d] = sizes ? sizes->value[i] : left < each ? left : each;
    EXPECT(from.dims[d] >= 0 && from.dims[d] <= left, "splitSize[%d] is %jd, expected 0 to %jd", (int)i,
           (intmax_t)from.dims[d], (intmax_t)left);
    const tensor *t = op_one_as(out->value[i], from.dims, from.rank, &room);
    TRY(move_expect_same_dtype(self, "self", t, "out"));
    TRY(op_expect_shape(t, "out", from.dims, from.rank));
    const view to = view_of(t);
    list_add_copy(e, (int)i + 1, 0, &to, 0, begin * from.strides[d], &from);
    begin += from.dims[d];
  }
  EXPECT(begin == n, "out has tensors for %jd of the %jd elements in dimension %d, expected all", (intmax_t)begin,
         (intmax_t)n, d);
  list_end(e);
  return ST_OK;
}

status prepare_split(executor *e, const split_args *a) {
  const int64_t each = a->split_sections;
  int d;
  TRY(op_expect_dim(a->dim, "dim", a->self->rank, &d));
  const bool is_nothing = a->self->rank && a->self->dims[d] == 0;
  EXPECT(is_nothing ? each == 0 : each > 0, "splitSections is %jd, expected %s", (intmax_t)each,
         is_nothing ? "0 as self has nothing along dim" : "1 or more");
  return plan_split(e, a->self, a->dim, NULL, each, a->out);
}

status prepare_split_sizes(executor *e, const split_sizes_args *a) {
  const aclIntArray *sizes = a->split_size;
  EXPECT(sizes->size == a->out->size, "splitSize has %ju elements, expected %ju, one for each tensor of out",
         (uintmax_t)sizes->size, (uintmax_t)a->out->size);
  return plan_split(e, a->self, a->dim, sizes, 0, a->out);
}

/* Split called by operator name: into equal parts. */
status prepare_graph_split(executor *e, const graph_split_args *a) {
  const int64_t n = a->num_split;
  int d;
  EXPECT(a->split_dim->size == 1, "split_dim has %ju elements, expected 1", (uintmax_t)a->split_dim->size);
  TRY(op_expect_dim(a->split_dim->value[0], "split_dim", a->x->rank, &d));
  const int64_t size = a->x->rank ? a->x->dims[d] : 1;
  EXPECT(n > 0 && size % n == 0, "num_split is %jd, expected a divisor of %jd", (intmax_t)n, (intmax_t)size);
  return prepare_split(e, &(split_args){.self = a->x, .split_sections = size / n, .dim = d, .out = a->y});
}

/* Unpack called by operator name: into slices along a dimension, which they lack. */
status prepare_graph_unpack(executor *e, const graph_unpack_args *a) {
  enum { MOST = 32 };
  tensor slices[MOST];
  union {
    aclTensorList list;
    char room[sizeof(aclTensorList) + MOST * sizeof(aclTensor *)];
  } out = {.list = {.magic = a->y->magic, .size = a->y->size}};
  int d;
  TRY(op_expect_dim(a->axis, "axis", a->x->rank, &d));
  EXPECT(a->x->rank && a->y->size == (uint64_t)a->x->dims[d] && a->y->size <= MOST,
         "y has %ju tensors, expected one for each index along axis, up to %d", (uintmax_t)a->y->size, MOST);
  for (uint64_t i = 0; i < a->y->size; ++i) {
    tensor *t = &slices[i];
    *t = *a->y->value[i];
    EXPECT(t->rank == a->x->rank - 1, "y[%ju] has %d dimensions, expected %d", (uintmax_t)i, t->rank, a->x->rank - 1);
    memmove(&t->dims[d + 1], &t->dims[d], (size_t)(t->rank - d) * sizeof t->dims[0]);
    memmove(&t->strides[d + 1], &t->strides[d], (size_t)(t->rank - d) * sizeof t->strides[0]);
    t->dims[d] = t->strides[d] = 1;
    t->rank++;
    out.list.value[i] = t;
  }
  return prepare_split(e, &(split_args){.self = a->x, .split_sections = 1, .dim = d, .out = &out.list});
}
