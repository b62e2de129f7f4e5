/* SPDX-License-Identifier: Apache-2.0 */
/* ScatterReduce and InplaceScatterReduce: as Scatter, where several values that meet at an element are reduced to one,
 * with or without the element of self. A lane is all of out along `dim`; a thread processes whole lanes, so values are
 * taken in order, and the result does not depend on threads. Sums of floats are floats (of doubles, doubles), rounded
 * once at the end; integers are INT64, and wrap when they are stored. */
#include <string.h>

#include "kernel/engine/rows.h"
#include "kernel/engine/scratch.h"
#include "kernel/families.h"

typedef enum { REDUCE_NONE, REDUCE_ADD, REDUCE_MUL, REDUCE_MAX, REDUCE_MIN, REDUCE_MEAN, N_REDUCE } reduction;

typedef struct {
  walk lanes;                                  /* operands SELF, OUT: the positions of lanes */
  view index, src;                             /* of the operands, without the offset of a lane */
  int64_t dims[MAX_RANK], lane_dims[MAX_RANK]; /* of index and of out, with 1 in place of the scattered one */
  int rank, dim;
  int64_t extent, values;       /* of out and of index, along the dimension */
  int64_t self_step, out_step;  /* bytes, along the dimension */
  int self, out, index_operand; /* operands; src is the one behind the index */
  int dtype;
  compute_type compute;
  reduction how;
  bool include_self;
  uint64_t cost_ns;
} reduce_plan;

enum { SELF, OUT };

typedef struct {
  const reduce_plan *p;
  void *const *view;
  status *result;
} reduce_job;

/* Combines old and x; the types are those that tensors are computed in. */
#define REDUCE_STEP(type, whole)                                                                                       \
  static type step_##type(reduction how, type old, type x) {                                                           \
    switch (how) {                                                                                                     \
    case REDUCE_ADD:                                                                                                   \
    case REDUCE_MEAN: return (type)((whole)old + (whole)x);                                                            \
    case REDUCE_MUL: return (type)((whole)old * (whole)x);                                                             \
    case REDUCE_MAX: return old != old || old > x ? old : x;                                                           \
    case REDUCE_MIN: return old != old || old < x ? old : x;                                                           \
    default: return x;                                                                                                 \
    }                                                                                                                  \
  }
REDUCE_STEP(float, float)
REDUCE_STEP(double, double)
REDUCE_STEP(int64_t, uint64_t)

/* A mean of integers is rounded towards minus infinity, as in PyTorch. */
static int64_t floor_quotient(int64_t sum, int64_t n) { return sum / n - (sum % n < 0); }

static int64_t index_at(const reduce_plan *p, const char *at) {
  return p->index.dtype == ACL_INT32 ? *(const int32_t *)(const void *)at : *(const int64_t *)(const void *)at;
}

/* The room of a lane: its elements, how many values each has, and one value. */
typedef struct {
  char *element;
  int64_t *count;
} lane_room;

static void reduce_value(const reduce_plan *p, const lane_room *r, int64_t to, const char *from) {
  compute_value x;
  loops->load[p->dtype][p->compute](&x, from, 0, 1);
  const reduction how = r->count[to]++ ? p->how : REDUCE_NONE;
  if (p->compute == COMPUTE_F32)
    ((float *)(void *)r->element)[to] = step_float(how, ((float *)(void *)r->element)[to], x.f32);
  else if (p->compute == COMPUTE_F64)
    ((double *)(void *)r->element)[to] = step_double(how, ((double *)(void *)r->element)[to], x.f64);
  else
    ((int64_t *)(void *)r->element)[to] = step_int64_t(how, ((int64_t *)(void *)r->element)[to], x.i64);
}

static void reduce_means(const reduce_plan *p, const lane_room *r) {
  for (int64_t i = 0; i < p->extent; ++i) {
    if (r->count[i] < 2) continue;
    if (p->compute == COMPUTE_F32)
      ((float *)(void *)r->element)[i] /= (float)r->count[i];
    else if (p->compute == COMPUTE_F64)
      ((double *)(void *)r->element)[i] /= (double)r->count[i];
    else
      ((int64_t *)(void *)r->element)[i] = floor_quotient(((int64_t *)(void *)r->element)[i], r->count[i]);
  }
}

/* The offsets of a lane, whose number counts positions in the order of out's dimensions, in index and src; false: the
 * index has no values for it. */
static bool lane_offsets(const reduce_plan *p, int64_t lane, int64_t *index, int64_t *src) {
  bool inside = true;
  *index = *src = 0;
  for (int d = p->rank - 1; d >= 0; --d) {
    const int64_t at = lane % p->lane_dims[d];
    lane /= p->lane_dims[d];
    inside &= at < p->dims[d];
    *index += at * p->index.strides[d];
    *src += at * p->src.strides[d];
  }
  return inside;
}

static status reduce_lane(const reduce_job *j, int64_t lane, const lane_room *r) {
  const reduce_plan *p = j->p;
  int64_t index_offset, src_offset;
  if (!lane_offsets(p, lane, &index_offset, &src_offset)) return ST_OK;
  const char *const index = (const char *)j->view[p->index_operand] + index_offset,
                    *const src = (const char *)j->view[p->index_operand + 1] + src_offset;
  for (int64_t i = 0; i < p->values; ++i) {
    const int64_t to = index_at(p, index + i * p->index.strides[p->dim]);
    if (to < 0 || to >= p->extent)
      return fail(ST_DEVICE_EXCEPTION, "index has %jd, expected 0 to %jd", (intmax_t)to, (intmax_t)p->extent - 1);
    reduce_value(p, r, to, src + i * p->src.strides[p->dim]);
  }
  if (p->how == REDUCE_MEAN) reduce_means(p, r);
  return ST_OK;
}

static void reduce_lanes(const void *job, int64_t begin, int64_t end) {
  const reduce_job *j = job;
  const reduce_plan *p = j->p;
  const size_t size = p->compute == COMPUTE_F32 ? sizeof(float) : sizeof(double), n = (size_t)p->extent;
  char *const room = scratch_take(n * (size + sizeof(int64_t)));
  if (!room) {
    __atomic_store_n(j->result, ST_NO_MEMORY, __ATOMIC_RELAXED);
    return;
  }
  const lane_room r = {room + n * sizeof(int64_t), (int64_t *)(void *)room};
  void *const at[] = {j->view[p->self], j->view[p->out]};
  cursor c;
  cursor_start(&c, &p->lanes, at, begin);
  const int last = p->lanes.rank - 1;
  for (int64_t i = begin, m; i < end; i += m, cursor_next(&c, m)) {
    m = cursor_row(&c, end - i);
    for (int64_t k = 0; k < m; ++k) {
      for (size_t v = 0; v < n; ++v) r.count[v] = p->include_self;
      loops->load[p->dtype][p->compute](r.element, c.at[SELF] + k * p->lanes.strides[SELF][last], p->self_step,
                                        p->extent);
      const status s = reduce_lane(j, i + k, &r);
      if (s) {
        __atomic_store_n(j->result, s, __ATOMIC_RELAXED);
        return;
      }
      loops->store[p->dtype][p->compute](c.at[OUT] + k * p->lanes.strides[OUT][last], p->out_step, r.element,
                                         p->extent);
    }
  }
}

static status run_scatter_reduce(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const reduce_plan *p = e->heap;
  status result = ST_OK;
  const reduce_job job = {p, view, &result};
  if (p->lanes.n > 0 && p->extent > 0) rows_parallel(reduce_lanes, &job, p->lanes.n, 1, e->cost_ns);
  return result;
}

static status reduce_check(const scatter_reduce_args *a, const tensor *out, const char *name) {
  TRY(op_expect_dtype(a->self, name, DTYPES_REAL));
  TRY(op_expect_dtype(a->index, "index", DTYPES_INDEX));
  TRY(op_expect_dtype(a->src, "src", DTYPE_BIT(a->self->dtype)));
  if (out != a->self) TRY(op_expect_like(out, "out", a->self));
  EXPECT(a->reduce >= 0 && a->reduce < N_REDUCE, "reduce is %jd, expected 0 to %d", (intmax_t)a->reduce, N_REDUCE - 1);
  EXPECT(a->index->rank == a->self->rank && a->src->rank == a->self->rank,
         "%s, index and src have %d, %d and %d dimensions, expected as many", name, a->self->rank, a->index->rank,
         a->src->rank);
  return ST_OK;
}

status prepare_scatter_reduce(executor *e, const scatter_reduce_args *a) {
  const tensor *const out = a->out ? a->out : a->self;
  int dim;
  TRY(reduce_check(a, out, a->name.self));
  TRY(op_expect_dim(a->dim, "dim", a->self->rank, &dim));
  HEAP_PLAN(reduce_plan, p, e, sizeof *p);
  *p = (reduce_plan){.index = view_of(a->index),
                     .src = view_of(a->src),
                     .rank = a->self->rank,
                     .dim = dim,
                     .self = SCATTER_REDUCE_SELF,
                     .out = a->out ? SCATTER_REDUCE_OUT : SCATTER_REDUCE_SELF,
                     .index_operand = SCATTER_REDUCE_INDEX,
                     .dtype = a->self->dtype,
                     .how = (reduction)a->reduce,
                     .include_self = a->include_self};
  p->compute = dtype_class_of(p->dtype) <= CLASS_INTEGER ? COMPUTE_I64
               : p->dtype == ACL_DOUBLE                  ? COMPUTE_F64
                                                         : COMPUTE_F32;
  view self = view_of(a->self), to = view_of(out);
  if (p->rank == 0) /* one element is a lane of one */
    p->rank = p->index.rank = p->src.rank = self.rank = to.rank = 1, p->index.dims[0] = p->src.dims[0] = 1,
    self.dims[0] = to.dims[0] = 1, p->index.strides[0] = p->src.strides[0] = self.strides[0] = to.strides[0] = 0;
  p->extent = self.dims[dim], p->values = p->index.dims[dim];
  p->self_step = self.strides[dim], p->out_step = to.strides[dim];
  for (int d = 0; d < p->rank; ++d) {
    EXPECT(p->index.dims[d] <= p->src.dims[d] && (d == dim || p->index.dims[d] <= self.dims[d]),
           "index has shape %s, expected none larger than src, %s, nor (but for dimension %d) than %s, %s",
           SHAPE_OF(a->index), SHAPE_OF(a->src), dim, a->name.self, SHAPE_OF(a->self));
    p->dims[d] = d == dim ? 1 : p->index.dims[d];
    p->lane_dims[d] = d == dim ? 1 : self.dims[d];
  }
  self.dims[dim] = to.dims[dim] = 1;
  walk_init(&p->lanes, (const view *const[]){&self, &to}, 2, p->rank);
  const uint64_t elements = (uint64_t)(p->lanes.n * p->extent), values = (uint64_t)a->index->n;
  executor_cost(e, (2 * elements + values) * dtype_bytes(p->dtype) + values * 8, (elements + 4 * values) * 32);
  e->run = run_scatter_reduce;
  return ST_OK;
}
