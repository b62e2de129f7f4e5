/* SPDX-License-Identifier: Apache-2.0 */
/* RepeatInterleaveGrad: along an axis, runs of neighbouring elements, whose lengths are in `repeats`, are
 * summed in double and in order. */
#include <string.h>

#include "kernel/engine/axis.h"
#include "kernel/families.h"
#include "kernel/index/places.h"
#include "kernel/move/check.h"

enum { TILE = 256 };

typedef struct {
  walk others;           /* all dimensions except the axis; operands: 0 out, 1 yGrad */
  int64_t along[2];      /* strides of the axis in bytes: 0 out, 1 yGrad */
  int64_t extent, n_out; /* size of the axis in yGrad and in out */
  load_loop *load_repeats;
  int64_t repeats_step; /* bytes; 0: one count for all */
  uint64_t begins;      /* in scratch, int64: begin of each of the n_out sums, and the end of the last */
  load_loop *load;
  store_loop *store;
} interleave_grad_plan;

typedef struct {
  const interleave_grad_plan *plan;
  const int64_t *begin;
  void *at[2];
} interleave_grad_job;

static status find_interleave_begins(const interleave_grad_plan *p, const char *repeats, int64_t *begin) {
  begin[0] = 0;
  for (int64_t i = 0; i < p->n_out; ++i) {
    int64_t times;
    p->load_repeats(&times, repeats + i * p->repeats_step, p->repeats_step, 1);
    if (times < 0 || times > p->extent - begin[i])
      return fail(ST_DEVICE_EXCEPTION, "repeats[%jd] is %jd, expected 0 or more, with a sum of %jd, yGrad's size",
                  (intmax_t)(p->repeats_step ? i : 0), (intmax_t)times, (intmax_t)p->extent);
    begin[i + 1] = begin[i] + times;
  }
  if (begin[p->n_out] != p->extent)
    return fail(ST_DEVICE_EXCEPTION, "repeats has a sum of %jd, expected %jd, yGrad's size", (intmax_t)begin[p->n_out],
                (intmax_t)p->extent);
  return ST_OK;
}

/* Sums n_terms rows of n elements; the rows run over the other dimensions. */
static void interleave_sum_tile(const interleave_grad_plan *p, char *to, const char *from, int64_t n_terms, int64_t n) {
  static const compute_value one[ELEMENTWISE_PARAMETERS] = {{.f64 = 1}};
  const int last = p->others.rank - 1;
  double sum[TILE], tile[TILE];
  memset(sum, 0, (size_t)n * sizeof *sum);
  for (int64_t i = 0; i < n_terms; ++i) {
    p->load(tile, from + i * p->along[1], p->others.strides[1][last], n);
    loops->elementwise[EW_add][COMPUTE_F64](sum, (const void *const[]){sum, tile, NULL, NULL, NULL}, one, n);
  }
  p->store(to, p->others.strides[0][last], sum, n);
}

static void interleave_sum_range(const void *arg, int64_t begin, int64_t end) {
  const interleave_grad_job *job = arg;
  const interleave_grad_plan *p = job->plan;
  cursor c;
  cursor_start(&c, &p->others, job->at, begin);
  for (int64_t n; begin < end; begin += n, cursor_next(&c, n)) {
    n = cursor_row(&c, i64_min(TILE, end - begin));
    for (int64_t k = 0; k < p->n_out; ++k)
      interleave_sum_tile(p, c.at[0] + k * p->along[0], c.at[1] + job->begin[k] * p->along[1],
                          job->begin[k + 1] - job->begin[k], n);
  }
}

static status run_interleave_grad(const executor *e, void *const *view, void *scratch) {
  const interleave_grad_plan *p = PLAN(e, interleave_grad_plan);
  int64_t *begin = (int64_t *)(void *)((char *)scratch + p->begins);
  TRY(find_interleave_begins(p, view[REPEAT_INTERLEAVE_GRAD_REPEATS], begin));
  if (!p->others.n || !p->n_out) return ST_OK;
  const interleave_grad_job job = {
      .plan = p, .begin = begin, .at = {view[REPEAT_INTERLEAVE_GRAD_OUT], view[REPEAT_INTERLEAVE_GRAD_Y_GRAD]}};
  rows_parallel(interleave_sum_range, &job, p->others.n, TILE, e->cost_ns);
  return ST_OK;
}

/* Sets *v to out in the shape of yGrad with n_out along the axis. out has this shape, or is contiguous and has another
 * shape with as many elements. */
static status view_of_out(const tensor *out, const view *grad, int axis, int64_t n_out, view *v) {
  view same = *grad;
  same.dims[axis] = n_out;
  *v = view_of(out);
  if (out->rank == same.rank && !memcmp(v->dims, same.dims, (size_t)same.rank * sizeof *same.dims)) return ST_OK;
  EXPECT(out->n == view_elements(&same) && (out->contiguous || !out->n),
         "out has shape %s, expected %s, or as many elements without gaps", SHAPE_OF(out), SHAPE_OF(&same));
  *v = view_contiguous(out->dtype, same.rank, same.dims);
  return ST_OK;
}

status prepare_repeat_interleave_grad(executor *e, const repeat_interleave_grad_args *a) {
  const tensor *repeats = a->repeats, *out = a->out;
  interleave_grad_plan *p = PLAN(e, interleave_grad_plan);
  int axis;
  TRY(op_expect_dtype(a->y_grad, "yGrad", DTYPES_FLOAT));
  TRY(move_expect_same_dtype(a->y_grad, "yGrad", out, "out"));
  TRY(op_expect_dtype(repeats, "repeats", DTYPES_INDEX));
  EXPECT(repeats->rank <= 1 && repeats->n, "repeats has shape %s, expected one number, or a dimension of 1 or more",
         SHAPE_OF(repeats));
  TRY(op_expect_dim(a->axis, "axis", a->y_grad->rank, &axis));
  tensor room;
  view from = view_of(index_vector(a->y_grad, &room)), to;
  int64_t others = 1;
  for (int d = 0; d < from.rank; ++d) others *= d == axis ? 1 : from.dims[d];
  const int64_t n_out = repeats->n > 1 ? repeats->n : others ? out->n / others : 0;
  TRY(view_of_out(out, &from, axis, n_out, &to));
  *p = (interleave_grad_plan){.extent = from.dims[axis],
                              .n_out = n_out,
                              .load_repeats = loops->load[repeats->dtype][COMPUTE_I64],
                              .load = loops->load[from.dtype][COMPUTE_F64],
                              .store = loops->store[from.dtype][COMPUTE_F64]};
  if (repeats->n > 1) p->repeats_step = repeats->strides[0] * (int64_t)dtype_bytes(repeats->dtype);
  p->begins = workspace_intermediate(e, (uint64_t)(n_out + 1) * sizeof(int64_t));
  axis_init(&p->others, p->along, (view *const[]){&to, &from}, 2, axis);
  executor_cost(e, (uint64_t)(a->y_grad->n + out->n) * dtype_bytes(out->dtype), (uint64_t)a->y_grad->n * 8);
  e->run = others ? run_interleave_grad : move_run_nothing;
  return ST_OK;
}
