/* SPDX-License-Identifier: Apache-2.0 */
/* ChamferDistanceBackward: the gradient of the squared distances of points to the nearest points of another set, whose
 * indices the forward operator gives. Sums are in double, in order. */
#include "kernel/engine/rows.h"
#include "kernel/engine/scratch.h"
#include "kernel/families.h"
#include "kernel/move/check.h"

enum { AXES = 2 };

/* [0]: of the first set, [1]: of the second. Strides in bytes. */
typedef struct {
  int64_t batches, n[2];
  int64_t point[2][3], index[2][2], gradient[2][2], out[2][3];
  load_loop *load;
  store_loop *store;
} chamfer_plan;

typedef struct {
  const chamfer_plan *plan;
  const char *point[2], *index[2], *gradient[2];
  char *out[2];
  status *result;
} chamfer_job;

/* Adds the gradients of the distances from set s to the other set. sum: of both sets. */
static status add_distances(const chamfer_job *j, int64_t batch, int s, double *const *sum) {
  const chamfer_plan *p = j->plan;
  const int o = !s;
  for (int64_t i = 0; i < p->n[s]; ++i) {
    const int64_t to = *(const int32_t *)(j->index[s] + batch * p->index[s][0] + i * p->index[s][1]);
    double x[AXES], y[AXES], g;
    EXPECT(to >= 0 && to < p->n[o], "idx%d[%jd, %jd] is %jd, expected 0 to %jd", s + 1, (intmax_t)batch, (intmax_t)i,
           (intmax_t)to, (intmax_t)p->n[o] - 1);
    p->load(x, j->point[s] + batch * p->point[s][0] + i * p->point[s][1], p->point[s][2], AXES);
    p->load(y, j->point[o] + batch * p->point[o][0] + to * p->point[o][1], p->point[o][2], AXES);
    p->load(&g, j->gradient[s] + batch * p->gradient[s][0] + i * p->gradient[s][1], 0, 1);
    for (int d = 0; d < AXES; ++d) {
      const double step = 2 * g * (x[d] - y[d]);
      sum[s][AXES * i + d] += step;
      sum[o][AXES * to + d] -= step;
    }
  }
  return ST_OK;
}

static void chamfer_range(const void *arg, int64_t begin, int64_t end) {
  const chamfer_job *j = arg;
  const chamfer_plan *p = j->plan;
  const int64_t total = AXES * (p->n[0] + p->n[1]);
  double *const room = (double *)(void *)scratch_take((size_t)(total + 1) * sizeof *room);
  double *const sum[2] = {room, room + AXES * p->n[0]};
  status result = room ? ST_OK : ST_NO_MEMORY;
  for (; begin < end && result == ST_OK; ++begin) {
    for (int64_t i = 0; i < total; ++i) room[i] = 0;
    for (int s = 0; s < 2 && result == ST_OK; ++s) result = add_distances(j, begin, s, sum);
    for (int s = 0; s < 2 && result == ST_OK; ++s)
      for (int64_t i = 0; i < p->n[s]; ++i)
        p->store(j->out[s] + begin * p->out[s][0] + i * p->out[s][1], p->out[s][2], sum[s] + AXES * i, AXES);
  }
  if (result != ST_OK) __atomic_store_n(j->result, result, __ATOMIC_RELAXED);
}

static status run_chamfer(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const chamfer_plan *p = PLAN(e, chamfer_plan);
  status result = ST_OK;
  const chamfer_job job = {.plan = p,
                           .point = {view[CHAMFER_BACKWARD_XYZ1], view[CHAMFER_BACKWARD_XYZ2]},
                           .index = {view[CHAMFER_BACKWARD_IDX1], view[CHAMFER_BACKWARD_IDX2]},
                           .gradient = {view[CHAMFER_BACKWARD_GRAD_DIST1], view[CHAMFER_BACKWARD_GRAD_DIST2]},
                           .out = {view[CHAMFER_BACKWARD_GRAD_XYZ1], view[CHAMFER_BACKWARD_GRAD_XYZ2]},
                           .result = &result};
  rows_parallel(chamfer_range, &job, p->batches, 1, e->cost_ns);
  return result;
}

static void copy_strides(const tensor *t, int64_t *strides) {
  const view v = view_of(t);
  for (int d = 0; d < t->rank; ++d) strides[d] = v.strides[d];
}

status prepare_chamfer_backward(executor *e, const chamfer_backward_args *a) {
  const tensor *const point[] = {a->xyz1, a->xyz2}, *const index[] = {a->idx1, a->idx2};
  const tensor *const gradient[] = {a->grad_dist1, a->grad_dist2}, *const out[] = {a->grad_xyz1, a->grad_xyz2};
  static const char *const names[][2] = {
      {"xyz1", "xyz2"}, {"idx1", "idx2"}, {"gradDist1", "gradDist2"}, {"gradXyz1", "gradXyz2"}};
  chamfer_plan *p = PLAN(e, chamfer_plan);
  TRY(op_expect_dtype(a->xyz1, "xyz1", DTYPE_BIT(ACL_FLOAT) | DTYPE_BIT(ACL_FLOAT16)));
  TRY(op_expect_rank(a->xyz1, "xyz1", 3, 3));
  TRY(op_expect_rank(a->xyz2, "xyz2", 3, 3));
  p->batches = a->xyz1->dims[0];
  for (int s = 0; s < 2; ++s) {
    p->n[s] = point[s]->dims[1];
    TRY(op_expect_dtype(point[s], names[0][s], DTYPE_BIT(a->xyz1->dtype)));
    TRY(op_expect_shape(point[s], names[0][s], (const int64_t[]){p->batches, p->n[s], AXES}, 3));
    TRY(op_expect_dtype(index[s], names[1][s], DTYPE_BIT(ACL_INT32)));
    TRY(op_expect_shape(index[s], names[1][s], point[s]->dims, 2));
    TRY(op_expect_dtype(gradient[s], names[2][s], DTYPE_BIT(a->xyz1->dtype)));
    TRY(op_expect_shape(gradient[s], names[2][s], point[s]->dims, 2));
    TRY(op_expect_like(out[s], names[3][s], point[s]));
    copy_strides(point[s], p->point[s]);
    copy_strides(index[s], p->index[s]);
    copy_strides(gradient[s], p->gradient[s]);
    copy_strides(out[s], p->out[s]);
  }
  p->load = loops->load[a->xyz1->dtype][COMPUTE_F64];
  p->store = loops->store[a->xyz1->dtype][COMPUTE_F64];
  executor_cost(e, (uint64_t)(a->xyz1->n + a->xyz2->n) * 4 * dtype_bytes(a->xyz1->dtype),
                (uint64_t)(a->xyz1->n + a->xyz2->n) * 32);
  e->run = p->batches ? run_chamfer : move_run_nothing;
  return ST_OK;
}
