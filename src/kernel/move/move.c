/* InplaceCopy, Cast, Permute, Cat: elements are moved, and converted where the dtypes differ. */
#include <stdlib.h>

#include "kernel/families.h"
#include "kernel/engine/rows.h"

/* Conversions between dtypes without a loop don't exist: they involve complex numbers. */
static status expect_conversion(const tensor *from, const char *name, int to) {
  EXPECT(from->dtype == to || (loops->load[from->dtype][0] && loops->load[to][0]),
         "%s has dtype %s, which does not convert to %s", name, dtype_name(from->dtype), dtype_name(to));
  return ST_OK;
}

/* ---- one tensor to another --------------------------------------------------------------------------------------- */

typedef struct {
  elementwise_plan plan;
  uint8_t out, in; /* which operands */
} move_plan;

static status move_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const move_plan *p = PLAN(e, move_plan);
  elementwise_run(&p->plan, (void *const[]){view[p->out], view[p->in]}, e->cost_ns);
  return ST_OK;
}

static void plan_move(executor *e, int out_operand, const tensor *out, const view *in) {
  move_plan *p = PLAN(e, move_plan);
  const view v = view_of(out);
  elementwise_copy_plan(&p->plan, &v, in);
  p->out = (uint8_t)out_operand;
  p->in = (uint8_t)!out_operand;
  executor_cost(e, (uint64_t)out->n * (dtype_bytes(out->dtype) + dtype_bytes(in->dtype)), 0);
  e->run = move_run;
}

static bool broadcasts_to(const tensor *from, const tensor *to) {
  const int missing = to->rank - from->rank;
  for (int d = 0; d < from->rank; ++d)
    if (missing < 0 || (from->dims[d] != 1 && from->dims[d] != to->dims[missing + d])) return false;
  return true;
}

status prepare_copy(executor *e, const op_arg *a) {
  const tensor *self = a[0].tensor, *src = a[1].tensor;
  char from[SHAPE_TEXT], to[SHAPE_TEXT];
  TRY(op_expect_dtype(self, "selfRef", DTYPES_NUMBER));
  TRY(op_expect_dtype(src, "src", DTYPES_NUMBER));
  TRY(expect_conversion(src, "src", self->dtype));
  EXPECT(broadcasts_to(src, self), "src has shape %s, expected one that broadcasts to selfRef's, %s",
         shape_text(src->dims, src->rank, from), shape_text(self->dims, self->rank, to));
  const view in = view_of(src);
  plan_move(e, 0, self, &in);
  return ST_OK;
}

status prepare_cast(executor *e, const op_arg *a) {
  const tensor *self = a[0].tensor, *out = a[2].tensor;
  TRY(op_expect_dtype(self, "self", DTYPES_NUMBER));
  TRY(op_expect_dtype(out, "out", DTYPES_NUMBER));
  EXPECT(a[1].integer == out->dtype, "dtype is %s, expected that of out, %s", dtype_name((int)a[1].integer),
         dtype_name(out->dtype));
  TRY(expect_conversion(self, "self", out->dtype));
  TRY(op_expect_shape(out, "out", self->dims, self->rank));
  const view in = view_of(self);
  plan_move(e, 1, out, &in);
  return ST_OK;
}

status prepare_permute(executor *e, const op_arg *a) {
  const tensor *self = a[0].tensor, *out = a[2].tensor;
  const aclIntArray *dims = a[1].ints;
  const view v = view_of(self);
  view permuted = {.rank = v.rank, .dtype = v.dtype};
  bool used[MAX_RANK] = {false};
  TRY(op_expect_dtype(self, "self", DTYPES_NUMBER));
  EXPECT(out->dtype == self->dtype, "out has dtype %s, expected that of self, %s", dtype_name(out->dtype),
         dtype_name(self->dtype));
  EXPECT(dims->size == (uint64_t)v.rank, "dims has %ju elements, expected %d, one for each dimension of self",
         (uintmax_t)dims->size, v.rank);
  for (int i = 0; i < v.rank; ++i) {
    int d;
    TRY(op_expect_dim(dims->value[i], "dims", v.rank, &d));
    EXPECT(!used[d], "dims has dimension %d twice, expected each once", d);
    used[d] = true;
    permuted.dims[i] = v.dims[d];
    permuted.strides[i] = v.strides[d];
  }
  TRY(op_expect_shape(out, "out", permuted.dims, permuted.rank));
  plan_move(e, 1, out, &permuted);
  return ST_OK;
}

/* ---- Cat --------------------------------------------------------------------------------------------------------- */

/* One tensor of the list: operand i; the output is the operand behind the last. Parts are in e->heap. */
typedef struct {
  elementwise_plan plan;
  int64_t offset; /* bytes, of the part in the output */
  uint64_t cost_ns;
} cat_part;

static status cat_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const cat_part *part = e->heap;
  const int n = e->n_operands - 1;
  for (int i = 0; i < n; ++i)
    if (part[i].plan.n)
      elementwise_run(&part[i].plan, (void *const[]){(char *)view[n] + part[i].offset, view[i]}, part[i].cost_ns);
  return ST_OK;
}

/* The old empty tensor of one dimension, which joins anything. */
static bool is_skipped(const tensor *t) { return t->rank == 1 && t->n == 0; }

typedef struct {
  int64_t dims[MAX_RANK]; /* of the result */
  int rank, dim;
  int dtype; /* of all together */
} cat_result;

static bool is_number(int dtype) { return dtype >= 0 && DTYPES_NUMBER >> dtype & 1; }

/* Joins shape and dtype of tensors[i] to the result so far. The first that is not skipped gives its shape. */
static status join(cat_result *r, const tensor *t, int i, int64_t dim) {
  char is[SHAPE_TEXT], expected[SHAPE_TEXT];
  if (!t) return fail(ST_OP_NULL, "tensors[%d] is NULL, expected a tensor", i);
  EXPECT(is_number(t->dtype), "tensors[%d] has dtype %s, expected a type of numbers", i, dtype_name(t->dtype));
  const int dtype = r->dtype == ACL_DT_UNDEFINED ? t->dtype : dtype_promote(r->dtype, t->dtype);
  EXPECT(dtype != ACL_DT_UNDEFINED, "tensors[%d] has dtype %s, which has no type in common with %s before", i,
         dtype_name(t->dtype), dtype_name(r->dtype));
  r->dtype = dtype;
  EXPECT(t->rank, "tensors[%d] has no dimension, expected 1 or more", i);
  if (is_skipped(t)) return ST_OK;
  if (r->rank == 0) {
    r->rank = t->rank;
    TRY(op_expect_dim(dim, "dim", t->rank, &r->dim));
    memcpy(r->dims, t->dims, sizeof r->dims);
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
    TRY(op_expect_dim(dim, "dim", 1, &r->dim));
  }
  return ST_OK;
}

static uint64_t plan_parts(cat_part *part, const aclTensorList *list, const tensor *out, int dim) {
  uint64_t bytes = 0;
  int64_t offset = 0;
  for (uint64_t i = 0; i < list->size; ++i) {
    const tensor *t = list->value[i];
    if (t->n == 0) {
      part[i].plan.n = 0;
      continue;
    }
    view to = view_of(out);
    const view from = view_of(t);
    const uint64_t part_bytes = (uint64_t)t->n * (dtype_bytes(t->dtype) + dtype_bytes(out->dtype));
    to.dims[dim] = t->dims[dim];
    elementwise_copy_plan(&part[i].plan, &to, &from);
    part[i].offset = offset;
    part[i].cost_ns = part_bytes / 8;
    offset += t->dims[dim] * to.strides[dim];
    bytes += part_bytes;
  }
  return bytes;
}

status prepare_cat(executor *e, const op_arg *a) {
  const aclTensorList *list = a[0].tensors;
  const tensor *out = a[2].tensor;
  cat_result r = {.dtype = ACL_DT_UNDEFINED};
  TRY(join_all(&r, list, a[1].integer));
  TRY(op_expect_dtype(out, "out", DTYPES_NUMBER));
  EXPECT(dtype_can_cast(r.dtype, out->dtype), "out has dtype %s, expected one that %s, the tensors' type, converts to",
         dtype_name(out->dtype), dtype_name(r.dtype));
  for (uint64_t i = 0; i < list->size; ++i) TRY(expect_conversion(list->value[i], "one of tensors", out->dtype));
  TRY(op_expect_shape(out, "out", r.dims, r.rank));

  e->heap = malloc(list->size * sizeof(cat_part));
  if (!e->heap) return fail(ST_NO_HOST_MEMORY, "no host memory for the plan of %ju tensors", (uintmax_t)list->size);
  executor_cost(e, plan_parts(e->heap, list, out, r.dim), 0);
  e->run = cat_run;
  return ST_OK;
}
