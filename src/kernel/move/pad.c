/* SPDX-License-Identifier: Apache-2.0 */
/* ConstantPadNd, ReflectionPad, ReplicationPad, CircularPad, and PadV3 by name. The result is divided into boxes, each
 * of which is filled by one move. */
#include "kernel/move/pad.h"

#include <stdlib.h>
#include <string.h>

#include "kernel/elementwise/fill.h"
#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/move/check.h"

/* in results up to this size the constant is written everywhere, then the centre: two boxes */
enum { SMALL_BYTES = 2048 };
enum { SLICE_BYTES = 128 * 1024 }; /* slices of about this size are processed box by box, while they stay in a cache */

typedef struct {
  move_plan plan;
  int64_t to, from; /* offsets in bytes */
  bool is_border;   /* filled with the constant */
} box;

/* The plan. Slices run over leading dimensions that are not padded; the boxes, in e->heap, cover one slice. */
typedef struct {
  walk slices; /* operands: 0 out, 1 self */
  int n_boxes;
  int8_t out, value_from; /* operand numbers (self is 0); value_from: -1 if the constant is in `value` */
  _Alignas(16) char value[16];
} pad_plan;

typedef struct {
  const pad_plan *plan;
  const box *boxes;
  const char *value;
  void *at[2];
  uint64_t cost_ns; /* cost of a slice, if several threads may share it; otherwise 0 */
} pad_job;

static void pad_slices(const void *arg, int64_t begin, int64_t end) {
  const pad_job *job = arg;
  const pad_plan *p = job->plan;
  cursor c;
  cursor_start(&c, &p->slices, job->at, begin);
  for (; begin < end; ++begin, cursor_next(&c, 1))
    for (int i = 0; i < p->n_boxes; ++i) {
      const box *b = &job->boxes[i];
      move_run(&b->plan, c.at[0] + b->to, b->is_border ? job->value : c.at[1] + b->from, job->cost_ns);
    }
}

static status run_pad(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const pad_plan *p = PLAN(e, pad_plan);
  const char *value = p->value_from < 0 ? p->value : view[p->value_from];
  pad_job job = {.plan = p, .boxes = e->heap, .value = value, .at = {view[p->out], view[0]}};
  if (p->slices.n == 1) {
    job.cost_ns = e->cost_ns;
    pad_slices(&job, 0, 1);
  } else {
    rows_parallel(pad_slices, &job, p->slices.n, 1, e->cost_ns);
  }
  return ST_OK;
}

/* ---- boxes ------------------------------------------------------------------------------------------------------- */

typedef struct {
  view to, from;
  padding_kind kind;
  padded_dim dims[MAX_RANK];
  int first; /* first dimension of a slice */
} padding;

typedef enum { BEFORE, CENTRE, AFTER } segment;

/* Returns the size of a segment of dimension d, and where it begins in the result and in the source. *step is the
 * direction in which the source is read: 1, -1, or 0 for one repeated element. */
static int64_t segment_of(const padding *p, int d, segment which, int64_t *to, int64_t *from, int64_t *step) {
  const padded_dim *dim = &p->dims[d];
  const int64_t size = pad_size(dim), before = dim->before > 0 ? dim->before : 0;
  const int64_t after = dim->after > 0 ? dim->after : 0;
  const bool mirrors = p->kind == PADDING_REFLECT || p->kind == PADDING_SYMMETRIC;
  *step = which == CENTRE ? 1 : mirrors ? -1 : p->kind == PADDING_REPLICATE ? 0 : 1;
  *to = which == BEFORE ? 0 : which == CENTRE ? before : size - after;
  *from = p->kind == PADDING_CONSTANT && which != CENTRE ? 0 : pad_source(p->kind, dim, *to);
  return which == BEFORE ? before : which == AFTER ? after : size - before - after;
}

static void pad_add_box(pad_plan *plan, box *b, const move_space *s, int64_t to, int64_t from, bool is_border) {
  for (int d = 0; d < s->rank; ++d)
    if (s->dims[d] <= 0) return;
  b += plan->n_boxes++;
  move_plan_init(&b->plan, s);
  b->to = to;
  b->from = from;
  b->is_border = is_border;
}

/* Adds one box for each combination of segments of the padded dimensions. */
static void pad_add_segments(pad_plan *plan, box *boxes, const padding *p, int n_padded) {
  const int rank = p->to.rank;
  int combinations = 1;
  for (int i = 0; i < n_padded; ++i) combinations *= 3;
  for (int k = 0; k < combinations; ++k) {
    move_space s = {.element_bytes = (int64_t)dtype_bytes(p->to.dtype)};
    int64_t to = 0, from = 0;
    for (int d = p->first, left = k; d < rank; ++d) {
      int64_t to_begin, from_begin, step;
      const bool is_padded = d >= rank - n_padded;
      const int64_t n = segment_of(p, d, is_padded ? (segment)(left % 3) : CENTRE, &to_begin, &from_begin, &step);
      if (is_padded) left /= 3;
      move_space_add(&s, n, p->to.strides[d], step * p->from.strides[d]);
      to += to_begin * p->to.strides[d];
      from += from_begin * p->from.strides[d];
    }
    pad_add_box(plan, boxes, &s, to, from, false);
  }
}

/* Adds the centre, and two border slabs for each dimension: these cover only the centre of outer
 * dimensions and all of inner ones. */
static void pad_add_constant(pad_plan *plan, box *boxes, const padding *p) {
  const int64_t bytes = (int64_t)dtype_bytes(p->to.dtype);
  const int rank = p->to.rank;
  int d = p->first; /* d == rank stands for the centre */
  if (view_elements(&p->to) * bytes <= SMALL_BYTES) {
    move_space whole;
    move_space_of_views(&whole, &p->to, &(view){.dtype = p->to.dtype});
    pad_add_box(plan, boxes, &whole, 0, 0, true);
    d = rank;
  }
  for (; d <= rank; ++d) {
    for (segment which = BEFORE; which <= AFTER; which += 2) {
      move_space s = {.element_bytes = bytes};
      int64_t to = 0, from = 0;
      for (int i = p->first; i < rank; ++i) {
        int64_t to_begin = 0, from_begin = 0, step = 0;
        const int64_t n =
            i > d ? p->to.dims[i] : segment_of(p, i, i == d ? which : CENTRE, &to_begin, &from_begin, &step);
        move_space_add(&s, n, p->to.strides[i], d < rank ? 0 : p->from.strides[i]);
        to += to_begin * p->to.strides[i];
        from += from_begin * p->from.strides[i];
      }
      pad_add_box(plan, boxes, &s, to, from, d < rank);
      if (d == rank) return;
    }
  }
}

/* Turns leading dimensions that are not padded into slices, until a slice is small enough. */
static void pad_choose_slices(padding *p) {
  int64_t bytes = view_elements(&p->to) * (int64_t)dtype_bytes(p->to.dtype);
  for (p->first = 0; p->first < p->to.rank && bytes > SLICE_BYTES; ++p->first) {
    const padded_dim *d = &p->dims[p->first];
    if (d->before || d->after) return;
    bytes /= d->n;
  }
}

static status plan_pad(executor *e, padding *p, int n_padded) {
  pad_plan *plan = PLAN(e, pad_plan);
  int most = 2 * p->to.rank + 2, combinations = 1;
  if (p->kind != PADDING_CONSTANT) {
    for (int i = 0; i < n_padded; ++i) combinations *= 3;
    most = combinations;
  }
  e->run = move_run_nothing;
  executor_cost(e, (uint64_t)(2 * view_elements(&p->to)) * dtype_bytes(p->to.dtype), 0);
  if (view_elements(&p->to) == 0) return ST_OK;
  if (!executor_heap(e, (size_t)most * sizeof(box))) return ST_NO_HOST_MEMORY;
  pad_choose_slices(p);
  plan->n_boxes = 0;
  plan->out = 1;
  plan->value_from = -1;
  walk_init(&plan->slices, (const view *const[]){&p->to, &p->from}, 2, p->first);
  if (p->kind == PADDING_CONSTANT)
    pad_add_constant(plan, e->heap, p);
  else
    pad_add_segments(plan, e->heap, p, n_padded);
  e->run = run_pad;
  return ST_OK;
}

/* ---- operators --------------------------------------------------------------------------------------------------- */

static status pad_set_dim(padding *p, const tensor *self, int d, int64_t before, int64_t after, const char *name,
                          int64_t *dims) {
  p->dims[d] = (padded_dim){self->dims[d], before, after};
  dims[d] = pad_size(&p->dims[d]);
  EXPECT(dims[d] >= 0 && -before <= self->dims[d] && -after <= self->dims[d],
         "%s removes %jd and %jd of the %jd elements of dimension %d, expected at most that many", name,
         (intmax_t)-before, (intmax_t)-after, (intmax_t)self->dims[d], d);
  return ST_OK;
}

/* Reads pads: pairs of before and after, from the last dimension on. */
static status pad_read_list(padding *p, const tensor *self, const char *name, const aclIntArray *pads, int64_t *dims) {
  for (int d = 0; d < self->rank; ++d) {
    const uint64_t i = 2 * (uint64_t)(self->rank - 1 - d);
    const bool given = i < pads->size;
    TRY(pad_set_dim(p, self, d, given ? pads->value[i] : 0, given ? pads->value[i + 1] : 0, name, dims));
  }
  return ST_OK;
}

/* If any number of pad is positive, no padded dimension may become empty. */
static status pad_expect_not_empty(const aclIntArray *pad, const int64_t *dims, int rank) {
  bool adds = false;
  for (uint64_t i = 0; i < pad->size; ++i) adds |= pad->value[i] > 0;
  for (int d = rank - (int)pad->size / 2; adds && d < rank; ++d)
    EXPECT(dims[d], "pad leaves nothing of dimension %d, expected 1 or more as some of pad is positive", d);
  return ST_OK;
}

status prepare_constant_pad(executor *e, const constant_pad_args *a) {
  const tensor *self = a->self, *out = a->out;
  const aclIntArray *pad = a->pad;
  padding p = {.kind = PADDING_CONSTANT};
  int64_t dims[MAX_RANK];
  TRY(move_expect_same_dtype(self, "self", out, "out"));
  EXPECT(pad->size % 2 == 0 && pad->size <= 2 * (uint64_t)self->rank,
         "pad has %ju elements, expected an even number of at most %d", (uintmax_t)pad->size, 2 * self->rank);
  TRY(pad_read_list(&p, self, "pad", pad, dims));
  TRY(pad_expect_not_empty(pad, dims, self->rank));
  TRY(op_expect_shape(out, "out", dims, self->rank));
  TRY(fill_value_of(self, "self", a->value, PLAN(e, pad_plan)->value));
  p.from = view_of(self);
  p.to = view_of(out);
  return plan_pad(e, &p, self->rank);
}

/* Pads with zeros, for operators that are called by name. out: y's number among the operands. */
static status pad_with_zeros(executor *e, padding *p, const tensor *x, const tensor *y, int out) {
  pad_plan *plan = PLAN(e, pad_plan);
  p->from = view_of(x);
  p->to = view_of(y);
  memset(plan->value, 0, sizeof plan->value);
  TRY(plan_pad(e, p, x->rank));
  plan->out = (uint8_t)out;
  return ST_OK;
}

/* Checks that a border of dimension d is not larger than its kind allows. */
static status pad_expect_reach(const padding *p, int d) {
  const padded_dim *dim = &p->dims[d];
  const int64_t most = p->kind == PADDING_REFLECT ? dim->n - 1 : dim->n;
  EXPECT(p->kind == PADDING_REPLICATE || (dim->before <= most && dim->after <= most),
         "padding is %jd and %jd in dimension %d, expected at most %jd", (intmax_t)dim->before, (intmax_t)dim->after, d,
         (intmax_t)most);
  return ST_OK;
}

/* Pads with other elements of x, for operators that are called by name, from dims[]. out: y's number. */
static status pad_with_elements(executor *e, padding *p, const tensor *x, const tensor *y, int out) {
  int n_padded = 0; /* up to the last dimension, from the first that is padded */
  for (int d = 0; d < x->rank; ++d) {
    const padded_dim *dim = &p->dims[d];
    if (!dim->before && !dim->after) continue;
    EXPECT(dim->before >= 0 && dim->after >= 0, "paddings has a negative number, expected 0 or more");
    EXPECT(dim->n > 0, "x has no element in dimension %d, expected 1 or more", d);
    TRY(pad_expect_reach(p, d));
    if (!n_padded) n_padded = x->rank - d;
  }
  p->from = view_of(x);
  p->to = view_of(y);
  TRY(plan_pad(e, p, n_padded));
  PLAN(e, pad_plan)->out = (uint8_t)out;
  return ST_OK;
}

status pad_kind_of(const char *mode, padding_kind *kind) {
  static const char *const modes[] = {"constant", "reflect", "edge", "circular"};
  static const padding_kind kinds[] = {PADDING_CONSTANT, PADDING_REFLECT, PADDING_REPLICATE, PADDING_CIRCULAR};
  int i = 0;
  while (mode && i < 4 && strcmp(mode, modes[i]) != 0) ++i; /* Pad has no mode */
  EXPECT(i < 4, "mode is \"%.32s\", expected \"constant\", \"reflect\", \"edge\" or \"circular\"", mode);
  *kind = kinds[i];
  return ST_OK;
}

/* PadV3 by name: x, paddings, constant_values, y, mode, paddings_contiguous; Pad: x, paddings, y. paddings has a pair
 * (before, after) for each dimension if paddings_contiguous, otherwise all `before` and then all `after`. */
status prepare_graph_pad(executor *e, const graph_pad_args *a) {
  const tensor *x = a->x, *value = a->constant_values, *y = a->y;
  const aclIntArray *pads = a->paddings;
  const bool by_dimension = a->paddings_contiguous || !a->mode; /* Pad has neither attribute */
  padding p = {.kind = PADDING_CONSTANT};
  int64_t dims[MAX_RANK];
  TRY(pad_kind_of(a->mode, &p.kind));
  TRY(move_expect_same_dtype(x, "x", y, "y"));
  TRY(op_expect_size(pads->size, "paddings", 2 * (uint64_t)x->rank));
  for (int d = 0; d < x->rank; ++d) {
    const int64_t before = pads->value[by_dimension ? 2 * d : d],
                  after = pads->value[by_dimension ? 2 * d + 1 : x->rank + d];
    TRY(pad_set_dim(&p, x, d, before, after, "paddings", dims));
  }
  TRY(op_expect_shape(y, "y", dims, x->rank));
  if (p.kind != PADDING_CONSTANT) return pad_with_elements(e, &p, x, y, a->view.y);
  if (value) TRY(op_expect_one(value, "constant_values", DTYPE_BIT(x->dtype)));
  TRY(pad_with_zeros(e, &p, x, y, a->view.y));
  if (value) PLAN(e, pad_plan)->value_from = GRAPH_PAD_CONSTANT_VALUES;
  return ST_OK;
}

/* SliceGrad: zeros, but for dy in the part that starts at `begin`. A size of -1 means all that is left. */
status prepare_graph_slice_backward(executor *e, const graph_slice_backward_args *a) {
  const tensor *dy = a->dy, *dx = a->dx;
  padding p = {.kind = PADDING_CONSTANT};
  int64_t dims[MAX_RANK];
  TRY(move_expect_same_dtype(dy, "dy", dx, "dx"));
  TRY(op_expect_same_shape(dx, "dx", a->x));
  TRY(op_expect_rank(dy, "dy", dx->rank, dx->rank));
  TRY(op_expect_size(a->begin->size, "begin", (uint64_t)dx->rank));
  TRY(op_expect_size(a->size->size, "size", (uint64_t)dx->rank));
  for (int d = 0; d < dx->rank; ++d) {
    const int64_t begin = a->begin->value[d], rest = dx->dims[d] - begin, n = a->size->value[d];
    EXPECT(begin >= 0 && rest >= 0, "begin[%d] is %jd, expected 0 to %jd", d, (intmax_t)begin, (intmax_t)dx->dims[d]);
    EXPECT(n >= -1 && n <= rest, "size[%d] is %jd, expected -1 to %jd", d, (intmax_t)n, (intmax_t)rest);
    dims[d] = n < 0 ? rest : n;
  }
  TRY(op_expect_shape(dy, "dy", dims, dx->rank));
  for (int d = 0; d < dx->rank; ++d)
    p.dims[d] = (padded_dim){dims[d], a->begin->value[d], dx->dims[d] - a->begin->value[d] - dims[d]};
  return pad_with_zeros(e, &p, dy, dx, GRAPH_SLICE_BACKWARD_DX);
}

/* FFTShapeCopy: each dimension is cut to the length in shape, or gets zeros behind. */
status prepare_graph_cut_or_pad(executor *e, const graph_cut_or_pad_args *a) {
  const tensor *x = a->x, *y = a->y;
  padding p = {.kind = PADDING_CONSTANT};
  int64_t dims[MAX_RANK];
  TRY(move_expect_same_dtype(x, "x", y, "y"));
  TRY(op_expect_size(a->shape->size, "shape", (uint64_t)x->rank));
  for (int d = 0; d < x->rank; ++d) {
    EXPECT(a->shape->value[d] >= 0, "shape[%d] is %jd, expected 0 or more", d, (intmax_t)a->shape->value[d]);
    TRY(pad_set_dim(&p, x, d, 0, a->shape->value[d] - x->dims[d], "shape", dims));
  }
  TRY(op_expect_shape(y, "y", dims, x->rank));
  return pad_with_zeros(e, &p, x, y, GRAPH_CUT_OR_PAD_Y);
}

status prepare_graph_padding(executor *e, const graph_padding_args *a) {
  const tensor *x = a->x, *y = a->y;
  const int last = x->rank - 1;
  padding p = {.kind = PADDING_CONSTANT};
  int64_t dims[MAX_RANK];
  TRY(move_expect_same_dtype(x, "x", y, "y"));
  EXPECT(x->rank >= 2 && x->dims[last] == 1, "x has shape %s, expected two dimensions or more, the last of 1",
         SHAPE_OF(x));
  EXPECT(a->pad_dim_size > 0, "pad_dim_size is %jd, expected 1 or more", (intmax_t)a->pad_dim_size);
  for (int d = 0; d < x->rank; ++d) TRY(pad_set_dim(&p, x, d, 0, d == last ? a->pad_dim_size - 1 : 0, "x", dims));
  TRY(op_expect_shape(y, "y", dims, x->rank));
  return pad_with_zeros(e, &p, x, y, GRAPH_PADDING_Y);
}

static const struct {
  uint8_t kind, n_dims;
  bool is_backward;
} pad_variants[] = {
    [PAD_REFLECT_1D] = {PADDING_REFLECT, 1, false},     [PAD_REFLECT_1D_BACKWARD] = {PADDING_REFLECT, 1, true},
    [PAD_REFLECT_2D] = {PADDING_REFLECT, 2, false},     [PAD_REFLECT_2D_BACKWARD] = {PADDING_REFLECT, 2, true},
    [PAD_REFLECT_3D] = {PADDING_REFLECT, 3, false},     [PAD_REFLECT_3D_BACKWARD] = {PADDING_REFLECT, 3, true},
    [PAD_REPLICATE_1D] = {PADDING_REPLICATE, 1, false}, [PAD_REPLICATE_1D_BACKWARD] = {PADDING_REPLICATE, 1, true},
    [PAD_REPLICATE_2D] = {PADDING_REPLICATE, 2, false}, [PAD_REPLICATE_2D_BACKWARD] = {PADDING_REPLICATE, 2, true},
    [PAD_REPLICATE_3D] = {PADDING_REPLICATE, 3, false}, [PAD_REPLICATE_3D_BACKWARD] = {PADDING_REPLICATE, 3, true},
    [PAD_CIRCULAR_2D] = {PADDING_CIRCULAR, 2, false},   [PAD_CIRCULAR_2D_BACKWARD] = {PADDING_CIRCULAR, 2, true},
    [PAD_CIRCULAR_3D] = {PADDING_CIRCULAR, 3, false},   [PAD_CIRCULAR_3D_BACKWARD] = {PADDING_CIRCULAR, 3, true},
};

status pad_expect(const tensor *self, padding_kind kind, int n_padded, const aclIntArray *pads, padded_dim *padded,
                  int64_t *dims) {
  padding p = {.kind = kind};
  EXPECT(self->rank == n_padded + 1 || self->rank == n_padded + 2, "self has %d dimensions, expected %d or %d",
         self->rank, n_padded + 1, n_padded + 2);
  TRY(op_expect_size(pads->size, "padding", 2 * (uint64_t)n_padded));
  TRY(pad_read_list(&p, self, "padding", pads, dims));
  for (int d = self->rank - n_padded - 1; d < self->rank; ++d) /* the batch dimension is optional */
    EXPECT(self->dims[d] > 0, "self has no element in dimension %d, expected 1 or more", d);
  for (int d = self->rank - n_padded; d < self->rank; ++d) TRY(pad_expect_reach(&p, d));
  for (int d = 0; d < self->rank; ++d) padded[d] = p.dims[d];
  return ST_OK;
}

status prepare_pad(executor *e, const pad_args *a) {
  const int n_padded = pad_variants[e->op->variant].n_dims;
  padding p = {.kind = (padding_kind)pad_variants[e->op->variant].kind};
  if (pad_variants[e->op->variant].is_backward) return pad_prepare_backward(e, a, p.kind, n_padded);
  const tensor *self = a->self, *out = a->out;
  int64_t dims[MAX_RANK];
  TRY(move_expect_same_dtype(self, "self", out, "out"));
  TRY(pad_expect(self, p.kind, n_padded, a->padding, p.dims, dims));
  TRY(op_expect_shape(out, "out", dims, self->rank));
  p.from = view_of(self);
  p.to = view_of(out);
  return plan_pad(e, &p, n_padded);
}

/* MirrorPad by name. */
status prepare_graph_mirror_pad(executor *e, const graph_mirror_pad_args *a) {
  const tensor *x = a->x, *y = a->y;
  const aclIntArray *pads = a->paddings;
  const bool reflects = strcmp(a->mode, "REFLECT") == 0;
  padding p = {.kind = reflects ? PADDING_REFLECT : PADDING_SYMMETRIC};
  int64_t dims[MAX_RANK];
  EXPECT(reflects || strcmp(a->mode, "SYMMETRIC") == 0, "mode is \"%.32s\", expected \"REFLECT\" or \"SYMMETRIC\"",
         a->mode);
  TRY(move_expect_same_dtype(x, "x", y, "y"));
  TRY(op_expect_size(pads->size, "paddings", 2 * (uint64_t)x->rank));
  for (int d = 0; d < x->rank; ++d)
    TRY(pad_set_dim(&p, x, d, pads->value[2 * d], pads->value[2 * d + 1], "paddings", dims));
  TRY(op_expect_shape(y, "y", dims, x->rank));
  return pad_with_elements(e, &p, x, y, GRAPH_MIRROR_PAD_Y);
}
