/* SPDX-License-Identifier: Apache-2.0 */
/* UnfoldGrad: Unfold takes windows of `size` elements, `step` apart, along a dimension. An element's gradient is the
 * sum in double over the windows that contain it, in their order. */
#include <string.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/move/check.h"

enum { TILE = 512 };

typedef struct {
  walk rows;                        /* over the other dimensions; operands: 0 gradIn, 1 gradOut without windows */
  int64_t n, n_windows, size, step; /* sizes of the unfolded dimension */
  int64_t to, window, inside;       /* strides in bytes: in gradIn, from window to window, and inside a window */
  load_loop *load;
  store_loop *store;
} unfold_plan;

typedef struct {
  const unfold_plan *plan;
  void *at[2];
} unfold_job;

/* Computes elements [first, first + n) of a row of gradIn. */
static void unfold_sum_tile(const unfold_plan *p, char *to, const char *from, int64_t first, int64_t n) {
  double sum[TILE], tile[TILE];
  static const compute_value one[ELEMENTWISE_PARAMETERS] = {{.f64 = 1}};
  memset(sum, 0, (size_t)n * sizeof *sum);
  const int64_t reach = first - p->size + 1, earliest = reach > 0 ? (reach + p->step - 1) / p->step : 0;
  for (int64_t w = earliest; w < p->n_windows && w * p->step < first + n; ++w) {
    const int64_t begin = w * p->step > first ? w * p->step : first, end = i64_min(w * p->step + p->size, first + n);
    double *at = sum + (begin - first);
    p->load(tile, from + w * p->window + (begin - w * p->step) * p->inside, p->inside, end - begin);
    loops->elementwise[EW_add][COMPUTE_F64](at, (const void *const[]){at, tile, NULL, NULL}, one, end - begin);
  }
  p->store(to + first * p->to, p->to, sum, n);
}

static void unfold_rows(const void *arg, int64_t begin, int64_t end) {
  const unfold_job *job = arg;
  const unfold_plan *p = job->plan;
  cursor c;
  cursor_start(&c, &p->rows, job->at, begin);
  for (; begin < end; ++begin, cursor_next(&c, 1))
    for (int64_t first = 0; first < p->n; first += TILE)
      unfold_sum_tile(p, c.at[0], c.at[1], first, i64_min(TILE, p->n - first));
}

static status run_unfold(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const unfold_plan *p = PLAN(e, unfold_plan);
  const unfold_job job = {p, {view[UNFOLD_GRAD_GRAD_IN], view[UNFOLD_GRAD_GRAD_OUT]}};
  rows_parallel(unfold_rows, &job, p->rows.n, 1, e->cost_ns);
  return ST_OK;
}

status prepare_unfold_grad(executor *e, const unfold_grad_args *a) {
  const tensor *grad = a->grad_out, *out = a->grad_in;
  const aclIntArray *sizes = a->input_sizes;
  const int64_t size = a->size, step = a->step;
  unfold_plan *p = PLAN(e, unfold_plan);
  int dim;
  TRY(op_expect_dtype(grad, "gradOut", DTYPES_FLOAT));
  TRY(move_expect_same_dtype(grad, "gradOut", out, "gradIn"));
  EXPECT(sizes->size > 0 && sizes->size < MAX_RANK, "inputSizes has %ju elements, expected 1 to %d",
         (uintmax_t)sizes->size, MAX_RANK - 1);
  const int rank = (int)sizes->size;
  TRY(op_expect_shape(out, "gradIn", sizes->value, rank));
  TRY(op_expect_dim(a->dim, "dim", rank, &dim));
  const int64_t n = out->dims[dim];
  EXPECT(size > 0 && size <= n, "size is %jd, expected 1 to %jd", (intmax_t)size, (intmax_t)n);
  EXPECT(step > 0, "step is %jd, expected 1 or more", (intmax_t)step);
  int64_t dims[MAX_RANK];
  for (int d = 0; d < rank; ++d) dims[d] = d == dim ? (n - size) / step + 1 : out->dims[d];
  dims[rank] = size;
  TRY(op_expect_shape(grad, "gradOut", dims, rank + 1));
  view to = view_of(out), from = view_of(grad);
  *p = (unfold_plan){.n = n,
                     .n_windows = dims[dim],
                     .size = size,
                     .step = step,
                     .to = to.strides[dim],
                     .window = from.strides[dim],
                     .inside = from.strides[rank],
                     .load = loops->load[grad->dtype][COMPUTE_F64],
                     .store = loops->store[grad->dtype][COMPUTE_F64]};
  to.dims[dim] = from.dims[dim] = 1;
  walk_init(&p->rows, (const view *const[]){&to, &from}, 2, rank);
  executor_cost(e, (uint64_t)(grad->n + out->n) * dtype_bytes(out->dtype), (uint64_t)grad->n * 8);
  e->run = out->n ? run_unfold : move_run_nothing;
  return ST_OK;
}
