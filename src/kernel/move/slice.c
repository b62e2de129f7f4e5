/* SPDX-License-Identifier: Apache-2.0 */
/* Slice, SliceV2, StridedSlice with its gradient, and StridedSliceAssignV2: parts of a tensor at regular steps. */
#include <string.h>

#include "kernel/families.h"
#include "kernel/move/check.h"

/* The view of a part of a tensor. */
typedef struct {
  view v;
  int64_t offset; /* of the part's first element in the tensor, in bytes */
} part;

static int64_t clamped(int64_t v, int64_t low, int64_t high) { return v < low ? low : v > high ? high : v; }

/* Narrows dimension d to begin, begin + step, ... before end. Negative positions count from the end;
 * positions out of range are clamped. */
static status slice_narrow(part *p, int d, int64_t begin, int64_t end, int64_t step, const char *step_name) {
  const int64_t n = p->v.dims[d];
  EXPECT(step > 0, "%s is %jd, expected 1 or more", step_name, (intmax_t)step);
  begin = clamped(begin < 0 ? begin + n : begin, 0, n);
  end = clamped(end < 0 ? end + n : end, begin, n);
  p->offset += begin * p->v.strides[d];
  p->v.dims[d] = end > begin ? (end - begin - 1) / step + 1 : 0;
  p->v.strides[d] *= step;
  return ST_OK;
}

/* Plans copying part p of self (operand 0) to out (operand 1). */
static status plan_slice_copy(executor *e, const part *p, const tensor *self, const tensor *out) {
  TRY(move_expect_same_dtype(self, "self", out, "out"));
  TRY(op_expect_shape(out, "out", p->v.dims, p->v.rank));
  const view to = view_of(out);
  move_space s;
  move_space_of_views(&s, &to, &p->v);
  move_prepare(e, 1, 0, 0, p->offset, &s);
  return ST_OK;
}

status prepare_slice(executor *e, const slice_args *a) {
  const tensor *self = a->self;
  int dim;
  TRY(op_expect_dim(a->dim, "dim", self->rank, &dim));
  EXPECT(self->rank, "self has no dimension, expected 1 or more");
  part p = {.v = view_of(self)};
  TRY(slice_narrow(&p, dim, a->start, a->end, a->step, "step"));
  return plan_slice_copy(e, &p, self, a->out);
}

/* Narrows the dimensions `axes` (NULL: the first ones) by begins, ends and steps. */
static status slice_narrow_axes(part *p, const aclIntArray *begins, const aclIntArray *ends, const aclIntArray *axes,
                                const aclIntArray *steps, const char *const *names) {
  const uint64_t n = begins->size;
  bool used[MAX_RANK] = {false};
  EXPECT(n <= (uint64_t)p->v.rank, "%s has %ju elements, expected at most %d", names[0], (uintmax_t)n, p->v.rank);
  TRY(op_expect_size(ends->size, names[1], n));
  TRY(op_expect_size(steps->size, names[3], n));
  EXPECT(!axes || axes->size == n, "%s has %ju elements, expected %ju", names[2], (uintmax_t)(axes ? axes->size : 0),
         (uintmax_t)n);
  for (uint64_t i = 0; i < n; ++i) {
    int d = (int)i;
    if (axes) TRY(op_expect_dim(axes->value[i], names[2], p->v.rank, &d));
    EXPECT(!used[d], "%s has dimension %d twice, expected each once", names[2], d);
    used[d] = true;
    TRY(slice_narrow(p, d, begins->value[i], ends->value[i], steps->value[i], names[3]));
  }
  return ST_OK;
}

status prepare_slice_axes(executor *e, const slice_axes_args *a) {
  static const char *const names[] = {"starts", "ends", "axes", "steps"};
  part p = {.v = view_of(a->self)};
  TRY(slice_narrow_axes(&p, a->starts, a->ends, a->axes, a->steps, names));
  return plan_slice_copy(e, &p, a->self, a->out);
}

/* Slice called by operator name, with an offset and a size for each dimension. A size of -1 reaches to the end. */
status prepare_graph_slice(executor *e, const graph_slice_args *a) {
  const aclIntArray *offsets = a->offsets, *sizes = a->size;
  part p = {.v = view_of(a->x)};
  TRY(op_expect_size(offsets->size, "offsets", (uint64_t)p.v.rank));
  TRY(op_expect_size(sizes->size, "size", (uint64_t)p.v.rank));
  for (int d = 0; d < p.v.rank; ++d) {
    const int64_t n = p.v.dims[d], begin = offsets->value[d], size = sizes->value[d];
    EXPECT(begin >= 0 && begin <= n, "offsets[%d] is %jd, expected 0 to %jd", d, (intmax_t)begin, (intmax_t)n);
    EXPECT(size >= -1 && size <= n - begin, "size[%d] is %jd, expected -1 to %jd", d, (intmax_t)size,
           (intmax_t)(n - begin));
    TRY(slice_narrow(&p, d, begin, size < 0 ? n : begin + size, 1, "step"));
  }
  return plan_slice_copy(e, &p, a->x, a->y);
}

status prepare_slice_assign(executor *e, const slice_assign_args *a) {
  static const char *const names[] = {"begin", "end", "axesOptional", "strides"};
  const tensor *var = a->var, *value = a->input_value;
  part p = {.v = view_of(var)};
  TRY(move_expect_same_dtype(var, "varRef", value, "inputValue"));
  TRY(slice_narrow_axes(&p, a->begin, a->end, a->axes, a->strides, names));
  TRY(op_expect_shape(value, "inputValue", p.v.dims, p.v.rank));
  const view from = view_of(value);
  move_space s;
  move_space_of_views(&s, &p.v, &from);
  move_prepare(e, 0, p.offset, 1, 0, &s);
  return ST_OK;
}

/* ---- StridedSlice, with TensorFlow's masks ----------------------------------------------------------------------- */

typedef struct {
  const aclIntArray *begin, *end, *strides;
  int64_t begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask;
} slice_spec;

static bool slice_mask_bit(int64_t mask, uint64_t i) { return i < 63 && mask >> i & 1; }

static void slice_keep_dim(part *result, const view *v, int d) {
  result->v.dims[result->v.rank] = v->dims[d];
  result->v.strides[result->v.rank++] = v->strides[d];
}

/* Applies entry i of the arrays to dimension d of v. */
static status slice_apply_entry(part *result, const slice_spec *s, const view *v, int d, uint64_t i) {
  const int64_t n = v->dims[d], begin = s->begin->value[i], step = s->strides->value[i];
  part one = {.v = {.rank = 1, .dims = {n}, .strides = {v->strides[d]}}};
  if (slice_mask_bit(s->shrink_axis_mask, i)) {
    EXPECT(begin >= -n && begin < n, "begin[%ju] is %jd, expected %jd to %jd", (uintmax_t)i, (intmax_t)begin,
           (intmax_t)-n, (intmax_t)n - 1);
    result->offset += (begin < 0 ? begin + n : begin) * v->strides[d];
    return ST_OK;
  }
  TRY(slice_narrow(&one, 0, slice_mask_bit(s->begin_mask, i) ? 0 : begin,
                   slice_mask_bit(s->end_mask, i) ? n : s->end->value[i], step, "strides"));
  result->offset += one.offset;
  slice_keep_dim(result, &one.v, 0);
  return ST_OK;
}

static status slice_apply_entries(part *result, const slice_spec *s, const view *v) {
  uint64_t n_new = 0;
  int d = 0;
  bool seen = false;
  for (uint64_t i = 0; i < s->begin->size; ++i)
    n_new += slice_mask_bit(s->new_axis_mask, i) && !slice_mask_bit(s->ellipsis_mask, i);
  for (uint64_t i = 0; i < s->begin->size; ++i) {
    if (slice_mask_bit(s->ellipsis_mask, i)) {
      EXPECT(!seen, "ellipsisMask is %jd, expected one bit at most", (intmax_t)s->ellipsis_mask);
      seen = true;
      /* The ellipsis stands for the dimensions that the entries after it leave. */
      const int64_t behind = (int64_t)(s->begin->size - i - 1);
      int64_t new_behind = 0;
      for (uint64_t j = i + 1; j < s->begin->size; ++j) new_behind += slice_mask_bit(s->new_axis_mask, j);
      for (const int64_t end = v->rank - (behind - new_behind); d < end; ++d) slice_keep_dim(result, v, d);
    } else if (slice_mask_bit(s->new_axis_mask, i)) {
      EXPECT(result->v.rank < MAX_RANK, "newAxisMask is %jd, expected at most %d dimensions",
             (intmax_t)s->new_axis_mask, MAX_RANK);
      result->v.dims[result->v.rank] = 1;
      result->v.strides[result->v.rank++] = 0;
    } else {
      EXPECT(d < v->rank, "begin has %ju elements, expected at most %ju", (uintmax_t)s->begin->size,
             (uintmax_t)v->rank + n_new);
      TRY(slice_apply_entry(result, s, v, d++, i));
    }
  }
  for (; d < v->rank && result->v.rank < VIEW_RANK; ++d) slice_keep_dim(result, v, d);
  EXPECT(result->v.rank <= MAX_RANK, "newAxisMask is %jd, expected at most %d dimensions", (intmax_t)s->new_axis_mask,
         MAX_RANK);
  return ST_OK;
}

/* The part of `whole` that the masks and arrays name. */
static status slice_part_of(const slice_spec *s, const tensor *whole, part *p) {
  const view v = view_of(whole);
  *p = (part){.v = {.dtype = whole->dtype}};
  TRY(op_expect_size(s->end->size, "end", s->begin->size));
  TRY(op_expect_size(s->strides->size, "strides", s->begin->size));
  return slice_apply_entries(p, s, &v);
}

status prepare_strided_slice(executor *e, const strided_slice_args *a) {
  const slice_spec s = {a->begin,    a->end,           a->strides,       a->begin_mask,
                        a->end_mask, a->ellipsis_mask, a->new_axis_mask, a->shrink_axis_mask};
  part p;
  TRY(slice_part_of(&s, a->self, &p));
  return plan_slice_copy(e, &p, a->self, a->out);
}

/* ---- its gradient: zero but for the part, which is dy ------------------------------------------------------------ */

typedef struct {
  copy_plan copy;
  uint64_t bytes; /* of all of the output, which is contiguous as all operands of operators by name */
  int64_t offset; /* of the part, in bytes */
} slice_grad_plan;

static status slice_grad_run(const executor *e, void *const *at, void *scratch) {
  const slice_grad_plan *p = PLAN(e, slice_grad_plan);
  char *out = at[GRAPH_SLICE_GRAD_OUTPUT];
  (void)scratch;
  memset(out, 0, p->bytes);
  move_copy_run(&p->copy, out + p->offset, at[GRAPH_SLICE_GRAD_DY], e->cost_ns);
  return ST_OK;
}

status prepare_graph_slice_grad(executor *e, const graph_slice_grad_args *a) {
  const tensor *dy = a->dy, *out = a->output;
  const slice_spec s = {a->begin,    a->end,           a->strides,       a->begin_mask,
                        a->end_mask, a->ellipsis_mask, a->new_axis_mask, a->shrink_axis_mask};
  slice_grad_plan *plan = PLAN(e, slice_grad_plan);
  part p;
  EXPECT(a->shape->size <= MAX_RANK, "shape has %ju elements, expected at most %d", (uintmax_t)a->shape->size,
         MAX_RANK);
  TRY(op_expect_shape(out, "output", a->shape->value, (int)a->shape->size));
  TRY(move_expect_same_dtype(dy, "dy", out, "output"));
  TRY(slice_part_of(&s, out, &p));
  TRY(op_expect_shape(dy, "dy", p.v.dims, p.v.rank));
  const view from = view_of(dy);
  move_copy_plan_init(&plan->copy, &p.v, &from);
  plan->bytes = (uint64_t)out->n * dtype_bytes(out->dtype);
  plan->offset = p.offset;
  executor_cost(e, (uint64_t)(out->n + dy->n) * dtype_bytes(out->dtype), 0);
  e->run = slice_grad_run;
  return ST_OK;
}
