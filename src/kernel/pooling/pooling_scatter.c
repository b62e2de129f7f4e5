/* SPDX-License-Identifier: Apache-2.0 */
/* Scatters values to, or gathers them from, the positions that a max pool has returned: the gradients of max pools
 * (sums), MaxUnpool (copies) and its gradient (a gather). A position outside of its plane fails the task when it is
 * found; what has been written by then stays. Each plane is processed by one thread, in order. */
#include <stdlib.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/pooling/max.h"
#include "kernel/pooling/pooling_loops.h"

enum { TILE = 512, SMALL = 0, LARGE = 1, INDEX = 2 };

typedef enum { SCATTER_ADD, SCATTER_MOVE, GATHER } scatter_kind;

typedef struct {
  walk planes;                    /* operands: the small tensor (the pool's output), the large one, the indices */
  int64_t dims[2][WINDOW_AXES];   /* of the small and the large tensor */
  int64_t stride[3][WINDOW_AXES]; /* bytes */
  int64_t plane;                  /* elements of a plane of the large tensor */
  int operand[3];                 /* their indices among the call's tensors */
  int small_dtype, large_dtype;
  scatter_kind kind;
  load_loop *load, *load_index;
  store_loop *store;
  int8_t size;     /* bytes of an element; for sums, of the type that they are computed in */
  bool direct;     /* sums are accumulated in the large tensor itself, otherwise in scratch */
  bool mask;       /* indices are a mask; see max.h */
  bool one;        /* the mask holds no positions, since windows have one element */
  int64_t step[2]; /* strides of these windows */
} scatter_plan;

typedef struct {
  const scatter_plan *plan;
  void *const *at;
  char *sums;
  int64_t *bad; /* an index out of range, or -1; shared by all planes */
} scatter_job;

static const char index_name[] = "indices";

static char *max_scatter_element(const scatter_plan *p, char *plane, int64_t index) {
  const int64_t w = p->dims[LARGE][2], h = p->dims[LARGE][1];
  return plane + index / (w * h) * p->stride[LARGE][0] + index / w % h * p->stride[LARGE][1] +
         index % w * p->stride[LARGE][2];
}

/* Processes n elements of small, whose positions are index[]. Returns the number of the first position out of range,
 * or n. */
static int64_t max_scatter_part(const scatter_plan *p, char *large, char *small, const int64_t *index, int64_t n,
                                char *tile) {
  const int64_t bad = max_loops->first_outside(index, p->plane, n);
  if (unlikely(bad < n)) return bad;
  const int64_t step = p->stride[SMALL][2];
  if (p->kind == SCATTER_ADD) {
    if (p->small_dtype == (p->size == sizeof(double) ? ACL_DOUBLE : ACL_FLOAT) && step == p->size)
      tile = small;
    else
      p->load(tile, small, step, n);
    max_loops->of[p->size == sizeof(double) ? COMPUTE_F64 : COMPUTE_F32].add(large, tile, index, n);
  } else if (p->kind == SCATTER_MOVE) {
    for (int64_t i = 0; i < n; ++i) memcpy(max_scatter_element(p, large, index[i]), small + i * step, (size_t)p->size);
  } else {
    for (int64_t i = 0; i < n; ++i) memcpy(small + i * step, max_scatter_element(p, large, index[i]), (size_t)p->size);
  }
  return n;
}

/* Loads the positions of n elements from (d, h, w) on. */
static void max_scatter_load_index(const scatter_plan *p, const char *plane, int64_t d, int64_t h, int64_t w,
                                   int64_t *index, int64_t n) {
  if (p->one) {
    for (int64_t i = 0; i < n; ++i) index[i] = h * p->step[0] * p->dims[LARGE][2] + (w + i) * p->step[1];
    return;
  }
  const int64_t *s = p->stride[INDEX];
  p->load_index(index, plane + d * s[0] + h * s[1] + w * s[2], s[2], n);
}

static void max_scatter_clear(const scatter_plan *p, char *plane) {
  static const int64_t zero[2]; /* 16 bytes, as large as the widest dtype */
  const view v = {.rank = 3,
                  .dtype = p->large_dtype,
                  .dims = {p->dims[LARGE][0], p->dims[LARGE][1], p->dims[LARGE][2]},
                  .strides = {p->stride[LARGE][0], p->stride[LARGE][1], p->stride[LARGE][2]}};
  view none = v;
  memset(none.strides, 0, sizeof none.strides);
  elementwise_copy(plane, &v, zero, &none, 0);
}

/* Stores sums in the large tensor. */
static void max_scatter_store_sums(const scatter_plan *p, char *plane, const char *sums) {
  const int64_t *s = p->stride[LARGE], width = p->dims[LARGE][2];
  for (int64_t d = 0, row = 0; d < p->dims[LARGE][0]; ++d)
    for (int64_t h = 0; h < p->dims[LARGE][1]; ++h, ++row)
      p->store(plane + d * s[0] + h * s[1], s[2], sums + row * width * p->size, width);
}

/* Returns -1, or an index out of range (INT64_MIN if it is negative). */
static int64_t max_scatter_plane(const scatter_plan *p, char *const at[3], char *sums) {
  _Alignas(64) char tile[TILE * sizeof(double)];
  int64_t index[TILE];
  char *large = p->kind == SCATTER_ADD && !p->direct ? sums : at[LARGE];
  if (p->kind == SCATTER_ADD)
    memset(large, 0, (size_t)(p->plane * p->size));
  else if (p->kind == SCATTER_MOVE)
    max_scatter_clear(p, large);
  for (int64_t d = 0; d < p->dims[SMALL][0]; ++d)
    for (int64_t h = 0; h < p->dims[SMALL][1]; ++h)
      for (int64_t w = 0, n; w < p->dims[SMALL][2]; w += n) {
        n = i64_min(TILE, p->dims[SMALL][2] - w);
        const int64_t *s = p->stride[SMALL];
        max_scatter_load_index(p, at[INDEX], d, h, w, index, n);
        const int64_t done = max_scatter_part(p, large, at[SMALL] + d * s[0] + h * s[1] + w * s[2], index, n, tile);
        if (unlikely(done < n)) return index[done] < 0 ? INT64_MIN : index[done];
      }
  if (large == sums) max_scatter_store_sums(p, at[LARGE], sums);
  return -1;
}

static void max_scatter_planes(const void *job, int64_t begin, int64_t end) {
  const scatter_job *j = job;
  const scatter_plan *p = j->plan;
  const int64_t positions = p->dims[SMALL][0] * p->dims[SMALL][1] * p->dims[SMALL][2];
  cursor c;
  cursor_start(&c, &p->planes, j->at, begin);
  for (int64_t i = begin; i < end; ++i, cursor_next(&c, 1)) {
    char *at[3] = {c.at[0], c.at[1], c.at[2]};
    if (p->mask) at[INDEX] = (char *)j->at[INDEX] + i * positions * (int64_t)sizeof(int32_t);
    const int64_t bad = max_scatter_plane(p, at, j->sums ? j->sums + i * p->plane * p->size : NULL);
    if (unlikely(bad != -1)) {
      __atomic_store_n(j->bad, bad, __ATOMIC_RELAXED);
      return;
    }
  }
}

static status max_scatter_run(const executor *e, void *const *view, void *scratch) {
  const scatter_plan *p = PLAN(e, scatter_plan);
  void *const at[] = {view[p->operand[0]], view[p->operand[1]], view[p->operand[2]]};
  int64_t bad = -1;
  const scatter_job job = {.plan = p, .at = at, .sums = p->direct ? NULL : scratch, .bad = &bad};
  rows_parallel(max_scatter_planes, &job, p->planes.n, 1, e->cost_ns);
  if (likely(bad == -1)) return ST_OK;
  if (bad == INT64_MIN) return fail(ST_DEVICE_EXCEPTION, "%s has a negative index, expected 0 or more", index_name);
  return fail(ST_DEVICE_EXCEPTION, "%s has an index of %jd, expected 0 to %jd", index_name, (intmax_t)bad,
              (intmax_t)p->plane - 1);
}

/* Merges rows that are contiguous in both small and indices into longer ones. */
static void max_scatter_merge_rows(scatter_plan *p) {
  int64_t *const d = p->dims[SMALL];
  for (int i = 1; i >= 0; --i) {
    for (int k = SMALL; k <= INDEX; k += INDEX - SMALL)
      if (d[i] != 1 && p->stride[k][i] != d[2] * p->stride[k][2]) return;
    d[2] *= d[i];
    d[i] = 1;
  }
}

static status max_scatter_run_empty(const executor *e, void *const *view, void *scratch) {
  (void)e, (void)view, (void)scratch;
  return ST_OK;
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

/* The walk over the planes, and the dimensions and strides within them. */
static void max_scatter_plan_planes(scatter_plan *p, int n, const tensor *const t[3], bool has_mask) {
  window_planes w[3];
  const view *views[3];
  for (int k = 0; k < 3; ++k) {
    window_planes_init(&w[k], has_mask && k == INDEX ? t[SMALL] : t[k], n);
    views[k] = &w[k].planes;
    memcpy(p->stride[k], w[k].stride, sizeof w[k].stride);
  }
  memcpy(p->dims[SMALL], w[SMALL].dims, sizeof w[SMALL].dims);
  memcpy(p->dims[LARGE], w[LARGE].dims, sizeof w[LARGE].dims);
  walk_init(&p->planes, views, 3, w[0].planes.rank);
  p->plane = p->dims[LARGE][0] * p->dims[LARGE][1] * p->dims[LARGE][2];
}

/* Where positions come from: from the indices, or from a mask of int32, whose windows may consist of one element. */
static void max_scatter_plan_positions(scatter_plan *p, const tensor *indices, const window_axis *mask) {
  p->load_index = loops->load[mask ? ACL_INT32 : indices->dtype][COMPUTE_I64];
  p->mask = mask && max_mask_has_positions(mask);
  p->one = mask && !p->mask;
  if (p->mask) {
    p->stride[INDEX][2] = sizeof(int32_t);
    p->stride[INDEX][1] = p->dims[SMALL][2] * (int64_t)sizeof(int32_t);
    p->stride[INDEX][0] = p->dims[SMALL][1] * p->stride[INDEX][1];
  }
  for (int i = 0; p->one && i < 2; ++i) p->step[i] = mask[i].stride;
  if (!p->one) max_scatter_merge_rows(p);
}

/* Sums are computed in the compute type: in place where the result is a contiguous plane of it. */
static void max_scatter_plan_sums(executor *e, scatter_plan *p) {
  const compute_type compute = compute_type_of(p->large_dtype);
  const int64_t *s = p->stride[LARGE], *d = p->dims[LARGE];
  p->load = loops->load[p->small_dtype][compute];
  p->store = loops->store[p->large_dtype][compute];
  p->size = compute == COMPUTE_F64 ? sizeof(double) : sizeof(float);
  p->direct = p->size == (int64_t)dtype_bytes(p->large_dtype) && (s[2] == p->size || d[2] == 1) &&
              (s[1] == d[2] * p->size || d[1] == 1) && (s[0] == d[1] * d[2] * p->size || d[0] == 1);
  if (!p->direct) workspace_intermediate(e, (uint64_t)(p->planes.n * p->plane * p->size));
}

/* t: small, large, indices; operand: their indices among the call's tensors. mask: the windows if the indices are a
 * mask, otherwise NULL. */
static status max_scatter_prepare(executor *e, scatter_kind kind, int n, const tensor *const t[3], const int operand[3],
                                  const window_axis *mask) {
  e->run = max_scatter_run_empty;
  if (t[LARGE]->n == 0 || (kind == GATHER && t[SMALL]->n == 0)) return ST_OK;
  scatter_plan *p = PLAN(e, scatter_plan);
  for (int k = 0; k < 3; ++k) p->operand[k] = operand[k];
  p->kind = kind;
  p->small_dtype = t[SMALL]->dtype;
  p->large_dtype = t[LARGE]->dtype;
  p->size = (int8_t)dtype_bytes(p->large_dtype);
  p->direct = true;
  max_scatter_plan_planes(p, n, t, mask != NULL);
  max_scatter_plan_positions(p, t[INDEX], mask);
  if (kind == SCATTER_ADD) max_scatter_plan_sums(e, p);
  e->run = max_scatter_run;
  executor_cost(e, (uint64_t)(t[SMALL]->n + t[LARGE]->n) * dtype_bytes(p->large_dtype), (uint64_t)t[SMALL]->n * 48);
  return ST_OK;
}

status max_prepare_gradient(executor *e, const tensor *grad, const tensor *grad_self) {
  const tensor positions = max_positions(grad);
  const tensor *const t[3] = {grad, grad_self, &positions};
  return max_scatter_prepare(e, SCATTER_ADD, 2, t, (const int[]){0, 3, 2}, NULL);
}

status prepare_max_pool_backward(executor *e, const max_pool_backward_args *a) {
  const tensor *grad = a->grad_output, *self = a->self, *indices = a->indices, *out = a->grad_input;
  const int n = e->op->variant == MAX_INDICES_3D_BACKWARD ? 3 : 2;
  const bool mask = e->op->variant == MAX_MASK_2D_BACKWARD;
  window_axis axis[WINDOW_AXES];
  TRY(op_expect_dtype(grad, "gradOutput", DTYPES_FLOAT));
  TRY(op_expect_dtype(out, "gradInput", DTYPE_BIT(grad->dtype)));
  if (n == 2) TRY(max_expect_undilated(a->dilation, "dilation"));
  const window_arrays windows = MAX_WINDOWS(a);
  TRY(max_windows_init(axis, n, self, &windows));
  TRY(windows_expect_out(axis, n, self, grad, "gradOutput"));
  TRY(op_expect_same_shape(out, "gradInput", self));
  if (mask) {
    TRY(max_mask_expect(indices, axis, self));
  } else {
    TRY(op_expect_dtype(indices, "indices", DTYPES_INDEX));
    TRY(windows_expect_out(axis, n, self, indices, "indices"));
  }
  const tensor *const t[3] = {grad, out, indices};
  const int operands[] = {a->view.grad_output, MAX_POOL_BACKWARD_GRAD_INPUT, MAX_POOL_BACKWARD_INDICES};
  return max_scatter_prepare(e, SCATTER_ADD, n, t, operands, mask ? axis : NULL);
}

status prepare_adaptive_max_backward(executor *e, const adaptive_max_backward_args *a) {
  const tensor *grad = a->grad_output, *self = a->self, *indices = a->indices, *out = a->grad_input;
  const int n = e->op->variant == ADAPTIVE_MAX_3D_BACKWARD ? 3 : 2;
  TRY(op_expect_dtype(grad, "gradOutput", DTYPES_FLOAT));
  TRY(op_expect_dtype(out, "gradInput", DTYPE_BIT(grad->dtype)));
  TRY(op_expect_dtype(indices, "indices", DTYPES_INDEX));
  TRY(op_expect_rank(grad, "gradOutput", n + 1, n + 2));
  TRY(op_expect_rank(self, "self", grad->rank, grad->rank));
  int64_t dims[MAX_RANK];
  for (int d = 0; d < grad->rank; ++d) dims[d] = d < grad->rank - n ? self->dims[d] : grad->dims[d];
  TRY(op_expect_shape(grad, "gradOutput", dims, grad->rank));
  TRY(op_expect_same_shape(indices, "indices", grad));
  TRY(op_expect_same_shape(out, "gradInput", self));
  const tensor *const t[3] = {grad, out, indices};
  const int operands[] = {a->view.grad_output, ADAPTIVE_MAX_BACKWARD_GRAD_INPUT, ADAPTIVE_MAX_BACKWARD_INDICES};
  return max_scatter_prepare(e, SCATTER_ADD, n, t, operands, NULL);
}

/* Checks that indices has the shape of small, and that large has outputSize, if it is given, as its last dimensions. */
static status expect_unpooled(const tensor *small, const char *small_name, const tensor *large, const char *large_name,
                              const tensor *indices, const aclIntArray *size, int n) {
  TRY(op_expect_dtype(small, small_name, DTYPES_NUMBER));
  TRY(op_expect_dtype(large, large_name, DTYPE_BIT(small->dtype)));
  TRY(op_expect_dtype(indices, "indices", DTYPES_INDEX));
  TRY(op_expect_rank(small, small_name, n + 1, n + 2));
  TRY(op_expect_same_shape(indices, "indices", small));
  TRY(op_expect_rank(large, large_name, small->rank, small->rank));
  if (size) TRY(op_expect_size(size->size, "outputSize", (uint64_t)n));
  int64_t dims[MAX_RANK];
  for (int d = 0; d < small->rank; ++d)
    dims[d] = d < small->rank - n ? small->dims[d] : size ? size->value[d - small->rank + n] : large->dims[d];
  return op_expect_shape(large, large_name, dims, small->rank);
}

/* Checks that outputSize, if it is given, has room for what was pooled. In three dimensions there are stride and
 * padding; they only tell which outputSize is possible, and that is given, so they are not used otherwise. */
static status expect_room(const aclIntArray *size, const aclIntArray *stride, const aclIntArray *padding,
                          const tensor *small, int n) {
  int64_t room = 1, pooled = 1;
  if (!size) return ST_OK;
  if (n == 3) {
    TRY(op_expect_size(stride->size, "stride", 3));
    TRY(op_expect_size(padding->size, "padding", 3));
  }
  for (int i = 0; i < n; ++i) {
    EXPECT(n == 2 || stride->value[i] > 0, "stride[%d] is %jd, expected 1 or more", i, (intmax_t)stride->value[i]);
    room *= size->value[i];
    pooled *= small->dims[small->rank - n + i];
  }
  EXPECT(room >= pooled && room > 0, "outputSize has room for %jd elements, expected self's %jd or more",
         (intmax_t)room, (intmax_t)pooled);
  return ST_OK;
}

status prepare_max_unpool(executor *e, const max_unpool_args *a) {
  const int n = e->op->variant == MAX_UNPOOL_3D ? 3 : 2;
  const tensor *const t[3] = {a->self, a->out, a->indices};
  TRY(expect_unpooled(t[SMALL], "self", t[LARGE], a->name.out, t[INDEX], a->output_size, n));
  TRY(expect_room(a->output_size, a->stride, a->padding, t[SMALL], n));
  const int operands[] = {MAX_UNPOOL_SELF, MAX_UNPOOL_OUT, MAX_UNPOOL_INDICES};
  return max_scatter_prepare(e, SCATTER_MOVE, n, t, operands, NULL);
}

status prepare_max_unpool_backward(executor *e, const max_unpool_backward_args *a) {
  const int n = e->op->variant == MAX_UNPOOL_3D_BACKWARD ? 3 : 2;
  const tensor *const t[3] = {a->out, a->grad_output, a->indices};
  TRY(expect_unpooled(t[SMALL], "out", t[LARGE], "gradOutput", t[INDEX], a->output_size, n));
  TRY(op_expect_same_shape(a->self, "self", t[SMALL]));
  if (n == 3) TRY(expect_room(a->output_size, a->stride, a->padding, t[SMALL], n));
  const int operands[] = {MAX_UNPOOL_BACKWARD_OUT, a->view.grad_output, MAX_UNPOOL_BACKWARD_INDICES};
  return max_scatter_prepare(e, GATHER, n, t, operands, NULL);
}
