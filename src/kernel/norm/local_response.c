/* SPDX-License-Identifier: Apache-2.0 */
/* LRN and LRNGrad, called by name: normalisation by the squares of neighbouring channels, as TensorFlow has it,
 *
 *     y[c] = x[c] * norm[c]^-beta    norm[c] = bias + alpha * the sum of x[k]^2 for k from c - radius to c + radius
 *     dx[c] = dy[c] * norm[c]^-beta - 2 * alpha * beta * x[c] * the sum of dy[k] * y[k] / norm[k] for the same k
 *
 * Operands are contiguous, with channels second or last. Computed in double, a pixel's channels at a time. */
#include <math.h>
#include <string.h>

#include "kernel/engine/rows.h"
#include "kernel/engine/scratch.h"
#include "kernel/families.h"
#include "kernel/move/check.h"

typedef struct {
  int64_t channels, inner, pixels, radius; /* inner: pixels between which channels are; 1: channels are last */
  int64_t size;
  double alpha, beta, bias;
  bool is_grad;
  int x, out; /* operands; those of the gradient's dy and y are 0 and 2 */
  load_loop *load;
  store_loop *store;
} lrn_plan;

typedef struct {
  const lrn_plan *plan;
  const char *x, *dy, *y;
  char *out;
  status *result;
} lrn_job;

/* to[c] = the sum of from[k] for the channels k near c. */
static void lrn_sum_near(const lrn_plan *p, double *to, const double *from) {
  for (int64_t c = 0; c < p->channels; ++c) {
    const int64_t end = i64_min(c + p->radius + 1, p->channels);
    to[c] = 0;
    for (int64_t k = i64_max(c - p->radius, 0); k < end; ++k) to[c] += from[k];
  }
}

static void lrn_pixel(const lrn_job *j, int64_t at, int64_t step, double *room) {
  const lrn_plan *p = j->plan;
  const int64_t n = p->channels;
  double *x = room, *norm = room + n, *terms = room + 2 * n, *dy = room + 3 * n;
  p->load(x, j->x + at, step, n);
  for (int64_t c = 0; c < n; ++c) terms[c] = x[c] * x[c];
  lrn_sum_near(p, norm, terms);
  for (int64_t c = 0; c < n; ++c) norm[c] = p->bias + p->alpha * norm[c];
  if (!p->is_grad) {
    for (int64_t c = 0; c < n; ++c) x[c] *= pow(norm[c], -p->beta);
    p->store(j->out + at, step, x, n);
    return;
  }
  double *const near = room + 4 * n;
  p->load(dy, j->dy + at, step, n);
  p->load(terms, j->y + at, step, n);
  for (int64_t c = 0; c < n; ++c) terms[c] *= dy[c] / norm[c];
  lrn_sum_near(p, near, terms);
  for (int64_t c = 0; c < n; ++c) x[c] = dy[c] * pow(norm[c], -p->beta) - 2 * p->alpha * p->beta * x[c] * near[c];
  p->store(j->out + at, step, x, n);
}

static void lrn_range(const void *argument, int64_t begin, int64_t end) {
  const lrn_job *j = argument;
  const lrn_plan *p = j->plan;
  double *const room = (double *)(void *)scratch_take((size_t)(5 * p->channels) * sizeof(double));
  if (!room) {
    __atomic_store_n(j->result, ST_NO_MEMORY, __ATOMIC_RELAXED);
    return;
  }
  for (; begin < end; ++begin)
    lrn_pixel(j, (begin / p->inner * p->channels * p->inner + begin % p->inner) * p->size, p->inner * p->size, room);
}

static status lrn_run(const executor *e, void *const *view, void *scratch) {
  const lrn_plan *p = PLAN(e, lrn_plan);
  status result = ST_OK;
  const lrn_job job = {p, view[p->x], p->is_grad ? view[0] : NULL, p->is_grad ? view[2] : NULL, view[p->out], &result};
  (void)scratch;
  rows_parallel(lrn_range, &job, p->pixels, 16, e->cost_ns);
  return result;
}

status prepare_graph_local_response(executor *e, const graph_local_response_args *a) {
  const tensor *x = a->x;
  const bool is_grad = a->grads;
  const bool last = x->origin_format == ACL_FORMAT_NHWC ||
                    (x->origin_format != ACL_FORMAT_NCHW && strcmp(a->data_format, "NHWC") == 0);
  TRY(op_expect_dtype(x, "x", DTYPES_FLOAT));
  TRY(op_expect_rank(x, "x", 4, 4));
  for (int k = 0; k < e->n_operands; ++k) TRY(op_expect_like(a->all[k].tensor, e->operands[k].name, x));
  EXPECT(!a->norm_region || strcmp(a->norm_region, "ACROSS_CHANNELS") == 0,
         "norm_region is \"%.32s\", expected \"ACROSS_CHANNELS\"", a->norm_region);
  EXPECT(a->depth_radius >= 0 && a->depth_radius <= INT32_MAX, "depth_radius is %jd, expected 0 or more",
         (intmax_t)a->depth_radius);
  lrn_plan *p = PLAN(e, lrn_plan);
  *p = (lrn_plan){.channels = x->dims[last ? 3 : 1],
                  .inner = last ? 1 : x->dims[2] * x->dims[3],
                  .radius = a->depth_radius,
                  .size = (int64_t)dtype_bytes(x->dtype),
                  .alpha = a->alpha,
                  .beta = a->beta,
                  .bias = a->bias,
                  .is_grad = is_grad,
                  .x = a->view.x,
                  .out = e->n_operands - 1,
                  .load = loops->load[x->dtype][COMPUTE_F64],
                  .store = loops->store[x->dtype][COMPUTE_F64]};
  if (x->n) p->pixels = x->n / p->channels;
  executor_cost(e, (uint64_t)(x->n * e->n_operands) * dtype_bytes(x->dtype),
                (uint64_t)x->n * (uint64_t)(640 + 2 * i64_min(p->radius, p->channels)));
  e->run = x->n ? lrn_run : move_run_nothing;
  return ST_OK;
}
