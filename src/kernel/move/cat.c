/* Cat, Stack, ChunkCat, SplitTensor, SplitWithSize: a list of tensors and the parts of one. */
#include <stdlib.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/move/check.h"

/* ---- lists of copies --------------------------------------------------------------------------------------------- */

/* One copy; a source operand of -1 fills with zeros. */
typedef struct {
  copy_plan plan;
  int to, from;                   /* operands */
  int64_t to_offset, from_offset; /* bytes */
  uint64_t bytes;
} list_copy;

typedef struct {
  int64_t n;            /* copies, which are in e->heap */
  int64_t rows_in_turn; /* of each copy; 0: one copy after the other */
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

static void run_in_turn(const void *job, int64_t begin, int64_t end) {
  enum { RUNS = 32 };
  const list_job *j = job;
  row_run run[RUNS];
  for (int64_t i = 0, n; i < j->n; i += n) {
    n = smaller(RUNS, j->n - i);
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
    rows_parallel(run_in_turn, &job, p->rows_in_turn, ROW_GRAIN, e->cost_ns);
    return ST_OK;
  }
  for (const list_copy *c = job.copies; c < job.copies + p->n; ++c)
    copy_run(&c->plan, copy_to(c, view), copy_from(c, view), c->bytes / 8);
  return ST_OK;
}

static status begin_list(executor *e, uint64_t most) {
  *PLAN(e, list_plan) = (list_plan){0};
  e->run = run_list;
  e->heap = most ? malloc(most * sizeof(list_copy)) : NULL;
  if (most && !e->heap) return fail(ST_NO_HOST_MEMORY, "no host memory for the plan of %ju copies", (uintmax_t)most);
  return ST_OK;
}

static void add_copy(executor *e, int to_operand, int64_t to_offset, const view *to, int from_operand,
                     int64_t from_offset, const view *from) {
  const uint64_t bytes = (uint64_t)view_elements(to) * (dtype_bytes(to->dtype) + dtype_bytes(from->dtype));
  if (bytes == 0) return;
  list_copy *c = (list_copy *)e->heap + PLAN(e, list_plan)->n++;
  copy_plan_init(&c->plan, to, from);
  c->to = to_operand;
  c->to_offset = to_offset;
  c->from = from_operand;
  c->from_offset = from_offset;
  c->bytes = bytes;
  executor_cost(e, e->touched_bytes + bytes, 0);
}

/* Rows of several copies that are neither short nor long are moved in turn: what lies side by side is then written, or
 * read, in order (bench/torch_npu, cat: 0.8 of the time). */
static void end_list(executor *e) {
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

/* The old empty tensor of one dimension, which joins anything. */
static bool is_skipped(const tensor *t) { return t->rank == 1 && t->n == 0; }

typedef struct {
  int64_t dims[MAX_RANK]; /* of the result */
  int rank, dim;
  int dtype; /* of all together */
} cat_result;

static status expect_number(const tensor *t, int i) {
  EXPECT(t->dtype >= 0 && DTYPES_NUMBER >> t->dtype & 1, "tensors[%d] has dtype %s, expected a type of numbers", i,
         dtype_name(t->dtype));
  return ST_OK;
}

static status join_dtype(cat_result *r, const tensor *t, int i) {
  TRY(expect_number(t, i));
  const int dtype = r->dtype == ACL_DT_UNDEFINED ? t->dtype : dtype_promote(r->dtype, t->dtype);
  EXPECT(dtype != ACL_DT_UNDEFINED, "tensors[%d] has dtype %s, which has no type in common with %s before", i,
         dtype_name(t->dtype), dtype_name(r->dtype));
  r->dtype = dtype;
  return ST_OK;
}

/* Joins shape and dtype of tensors[i] to the result so far. The first that is not skipped gives its shape; those that are
 * have no say in the dtype. */
static status join(cat_result *r, const tensor *t, int i, int64_t dim) {
  char is[SHAPE_TEXT], expected[SHAPE_TEXT];
  EXPECT(t->rank, "tensors[%d] has no dimension, expected 1 or more", i);
  if (is_skipped(t)) return expect_number(t, i);
  TRY(join_dtype(r, t, i));
  if (r->rank == 0) {
    r->rank = t->rank;
    TRY(op_expect_dim(dim, "dim", t->rank, &r->dim));
    for (int d = 0; d < t->rank; ++d) r->dims[d] = t->dims[d];
    return ST_OK;
  }
  bool fits = t->rank == r->rank;
  for (int d = 0; fits && d < t->rank; ++d) fits = d == r->dim || t->dims[d] == r->dims[d];
  EXPECT(fits, "tensors[%d] has shape %s, expected %s but for dimension %d", i, shape_text(t->dims, t->rank, is),
         shape_text(r->dims, r->rank, expected), r->dim);
  r->dims[r->dim] += t->dims[r->dim];
  return ST_OK;
}

static status join_all(cat_result *r, const aclTensorList *list, int64_t dim) {
  EXPECT(list->size, "tensors is empty, expected one tensor or more");
  for (uint64_t i = 0; i < list->size; ++i) TRY(join(r, list->value[i], (int)i, dim));
  if (r->rank == 0) { /* all were skipped */
    r->rank = 1;
    r->dims[0] = 0;
    for (uint64_t i = 0; i < list->size; ++i) TRY(join_dtype(r, list->value[i], (int)i));
    TRY(op_expect_dim(dim, "dim", 1, &r->dim));
  }
  return ST_OK;
}

/* The tensors' common type is stored as out's. */
static status expect_result(const aclTensorList *list, const tensor *out, const cat_result *r) {
  TRY(op_expect_dtype(out, "out", DTYPES_NUMBER));
  EXPECT(dtype_can_cast(r->dtype, out->dtype), "out has dtype %s, expected one that %s, the tensors' type, converts to",
         dtype_name(out->dtype), dtype_name(r->dtype));
  for (uint64_t i = 0; i < list->size; ++i) TRY(expect_conversion(list->value[i], "one of tensors", out->dtype));
  return op_expect_shape(out, "out", r->dims, r->rank);
}

status prepare_cat(executor *e, const op_arg *a) {
  const aclTensorList *list = a[0].tensors;
  const tensor *out = a[2].tensor;
  cat_result r = {.dtype = ACL_DT_UNDEFINED};
  tensor room;
  TRY(join_all(&r, list, a[1].integer));
  out = op_one_as(out, r.dims, r.rank, &room);
  TRY(expect_result(list, out, &r));
  TRY(begin_list(e, list->size));
  view to = view_of(out);
  int64_t offset = 0;
  for (uint64_t i = 0; i < list->size; ++i) {
    if (is_skipped(list->value[i])) continue;
    const view from = view_of(list->value[i]);
    to.dims[r.dim] = from.dims[r.dim];
    add_copy(e, (int)list->size, offset, &to, (int)i, 0, &from);
    offset += from.dims[r.dim] * to.strides[r.dim];
  }
  end_list(e);
  return ST_OK;
}

/* ---- Stack ------------------------------------------------------------------------------------------------------- */

status prepare_stack(executor *e, const op_arg *a) {
  const aclTensorList *list = a[0].tensors;
  const tensor *out = a[2].tensor;
  cat_result r = {.dtype = ACL_DT_UNDEFINED};
  char is[SHAPE_TEXT], expected[SHAPE_TEXT];
  EXPECT(list->size, "tensors is empty, expected one tensor or more");
  const tensor *first = list->value[0];
  EXPECT(first->rank < MAX_RANK, "tensors[0] has %d dimensions, expected at most %d", first->rank, MAX_RANK - 1);
  TRY(op_expect_dim(a[1].integer, "dim", first->rank + 1, &r.dim));
  r.rank = first->rank + 1;
  for (int d = 0; d < r.rank; ++d) r.dims[d] = d == r.dim ? (int64_t)list->size : first->dims[d - (d > r.dim)];
  for (uint64_t i = 0; i < list->size; ++i) {
    const tensor *t = list->value[i];
    TRY(join_dtype(&r, t, (int)i));
    EXPECT(same_dims(t, first), "tensors[%d] has shape %s, expected %s", (int)i, shape_text(t->dims, t->rank, is),
           shape_text(first->dims, first->rank, expected));
  }
  tensor room;
  out = op_one_as(out, r.dims, r.rank, &room);
  TRY(expect_result(list, out, &r));
  TRY(begin_list(e, list->size));
  const view o = view_of(out);
  view to = {.rank = first->rank, .dtype = out->dtype};
  for (int d = 0; d < to.rank; ++d) {
    to.dims[d] = first->dims[d];
    to.strides[d] = o.strides[d + (d >= r.dim)];
  }
  for (uint64_t i = 0; i < list->size; ++i) {
    const view from = view_of(list->value[i]);
    add_copy(e, (int)list->size, (int64_t)i * o.strides[r.dim], &to, (int)i, 0, &from);
  }
  end_list(e);
  return ST_OK;
}

/* ---- ChunkCat: each tensor's rows are dealt to the rows of out, and filled up with zeros ------------------------- */

static int64_t elements_behind(const tensor *t) {
  int64_t n = 1;
  for (int d = 1; d < t->rank; ++d) n *= t->dims[d];
  return n;
}

/* A chunk of tensors[i]: `rows` rows from `begin` on, to row c of out at column `at`. */
static void add_chunk(executor *e, const view *o, int out_operand, const tensor *t, int i, int64_t c, int64_t begin,
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
  add_copy(e, out_operand, c * o->strides[0] + at * o->strides[1], &to, i, begin * from.strides[0], &from);
}

static void add_zeros(executor *e, const view *o, int out_operand, int64_t c, int64_t at, int64_t n) {
  const view to = {.rank = 1, .dtype = o->dtype, .dims = {n}, .strides = {o->strides[1]}};
  const view zero = {.rank = 1, .dtype = o->dtype, .dims = {1}};
  add_copy(e, out_operand, c * o->strides[0] + at * o->strides[1], &to, -1, 0, &zero);
}

status prepare_chunk_cat(executor *e, const op_arg *a) {
  const aclTensorList *list = a[0].tensors;
  const int64_t n_chunks = a[2].integer;
  const tensor *out = a[3].tensor;
  int64_t width = 0;
  EXPECT(list->size, "tensors is empty, expected one tensor or more");
  EXPECT(a[1].integer == 0, "dim is %jd, expected 0", (intmax_t)a[1].integer);
  EXPECT(n_chunks > 0 && n_chunks <= INT32_MAX, "numChunks is %jd, expected 1 or more", (intmax_t)n_chunks);
  TRY(op_expect_dtype(out, "out", DTYPES_FLOAT));
  for (uint64_t i = 0; i < list->size; ++i) {
    const tensor *t = list->value[i];
    EXPECT(t->dtype == list->value[0]->dtype && DTYPES_FLOAT >> t->dtype & 1,
           "tensors[%d] has dtype %s, expected one float type for all", (int)i, dtype_name(t->dtype));
    EXPECT(t->rank, "tensors[%d] has no dimension, expected 1 or more", (int)i);
    width += (t->dims[0] + n_chunks - 1) / n_chunks * elements_behind(t);
  }
  TRY(op_expect_shape(out, "out", (const int64_t[]){n_chunks, width}, 2));
  TRY(begin_list(e, list->size * (uint64_t)n_chunks * 2));
  const view o = view_of(out);
  int64_t at = 0;
  for (uint64_t i = 0; i < list->size; ++i) {
    const tensor *t = list->value[i];
    const int64_t rows = (t->dims[0] + n_chunks - 1) / n_chunks, row = elements_behind(t);
    for (int64_t c = 0; c < n_chunks; ++c) {
      const int64_t begin = c * rows < t->dims[0] ? c * rows : t->dims[0];
      const int64_t n = t->dims[0] - begin < rows ? t->dims[0] - begin : rows;
      add_chunk(e, &o, (int)list->size, t, (int)i, c, begin, n, at);
      add_zeros(e, &o, (int)list->size, c, at + n * row, (rows - n) * row);
    }
    at += rows * row;
  }
  end_list(e);
  return ST_OK;
}

/* ---- Split ------------------------------------------------------------------------------------------------------- */

/* Part i of `sizes` (or each of `each`, the last of what is left) goes to out[i]. */
static status split(executor *e, const tensor *self, int64_t dim, const aclIntArray *sizes, int64_t each,
                    const aclTensorList *out) {
  int d;
  TRY(op_expect_dtype(self, "self", DTYPES_NUMBER));
  EXPECT(self->rank, "self has no dimension, expected 1 or more");
  TRY(op_expect_dim(dim, "dim", self->rank, &d));
  view from = view_of(self);
  const int64_t n = from.dims[d];
  int64_t begin = 0;
  TRY(begin_list(e, out->size));
  for (uint64_t i = 0; i < out->size; ++i) {
    tensor room;
    const int64_t left = n - begin;
    from.dims[d] = sizes ? sizes->value[i] : left < each ? left : each;
    EXPECT(from.dims[d] >= 0 && from.dims[d] <= left, "splitSize[%d] is %jd, expected 0 to %jd", (int)i,
           (intmax_t)from.dims[d], (intmax_t)left);
    const tensor *t = op_one_as(out->value[i], from.dims, from.rank, &room);
    TRY(expect_same_dtype(self, "self", t, "out"));
    TRY(op_expect_shape(t, "out", from.dims, from.rank));
    const view to = view_of(t);
    add_copy(e, (int)i + 1, 0, &to, 0, begin * from.strides[d], &from);
    begin += from.dims[d];
  }
  EXPECT(begin == n, "out has tensors for %jd of the %jd elements in dimension %d, expected all", (intmax_t)begin,
         (intmax_t)n, d);
  end_list(e);
  return ST_OK;
}

status prepare_split(executor *e, const op_arg *a) {
  const int64_t each = a[1].integer;
  int d;
  TRY(op_expect_dim(a[2].integer, "dim", a[0].tensor->rank, &d));
  const bool is_nothing = a[0].tensor->rank && a[0].tensor->dims[d] == 0;
  EXPECT(is_nothing ? each == 0 : each > 0, "splitSections is %jd, expected %s", (intmax_t)each,
         is_nothing ? "0 as self has nothing along dim" : "1 or more");
  return split(e, a[0].tensor, a[2].integer, NULL, each, a[3].tensors);
}

status prepare_split_sizes(executor *e, const op_arg *a) {
  const aclIntArray *sizes = a[1].ints;
  EXPECT(sizes->size == a[3].tensors->size, "splitSize has %ju elements, expected %ju, one for each tensor of out",
         (uintmax_t)sizes->size, (uintmax_t)a[3].tensors->size);
  return split(e, a[0].tensor, a[2].integer, sizes, 0, a[3].tensors);
}
