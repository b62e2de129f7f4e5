/* SPDX-License-Identifier: Apache-2.0 */
/* One step of AdamW (Loshchilov and Hutter, "Decoupled weight decay regularization"), with t = step + 1: the
 * step tensor counts the steps done before this one.
 *
 *   m   = beta1 m + (1 - beta1) g               g = -grad if maximize, else grad
 *   v   = beta2 v + (1 - beta2) g^2
 *   top = max(top, v) if amsgrad, else v        top: maxGradNorm
 *   var = (1 - lr weightDecay) var - lr / (1 - beta1^t) * m / (sqrt(top) / sqrt(1 - beta2^t) + eps)
 *
 * Computed in float; what depends on t, in double. Tensors may differ in layout and float type. */
#include "kernel/optim/adamw_loop.h"

#include <math.h>

#include "kernel/engine/level.h"
#include "kernel/engine/rows.h"
#include "kernel/engine/walk.h"
#include "kernel/families.h"
#include "kernel/optim/optim.h"

LEVEL_CHOICE(optim_loops, optim, optim_loops)

enum { VAR, M, V, TOP, GRAD, N_TENSORS };
enum {
  TILE = 512,  /* elements that are converted at a time */
  BLOCK = 2048 /* elements per call without conversion: they stay in L1 between the loop's passes */
};

typedef struct {
  walk walk; /* operands VAR to GRAD; without amsgrad, TOP is the view of V and is not accessed */
  int dtype[N_TENSORS];
  bool amsgrad, maximize, contiguous; /* contiguous: all float in one run */
  int step_dtype;
  float lr, beta1, beta2, weight_decay, eps;
} adamw_plan;

/* ---- the task ---------------------------------------------------------------------------------------------------- */

static status adamw_set_parameters(const adamw_plan *p, const void *step, float *out) {
  const double done = p->step_dtype == ACL_INT64 ? (double)*(const int64_t *)step : (double)*(const float *)step;
  if (!(done >= 0)) return fail(ST_DEVICE_EXCEPTION, "step is %g, expected 0 or more", done);
  const double t = done + 1, lr = (double)p->lr, beta1 = (double)p->beta1, beta2 = (double)p->beta2;
  out[ADAMW_KEEP] = (float)(1 - lr * (double)p->weight_decay);
  out[ADAMW_BETA1] = p->beta1;
  out[ADAMW_NEW1] = (float)(1 - beta1);
  out[ADAMW_BETA2] = p->beta2;
  out[ADAMW_NEW2] = (float)(1 - beta2);
  out[ADAMW_ROOT] = (float)(1 / sqrt(1 - pow(beta2, t)));
  out[ADAMW_EPS] = p->eps;
  out[ADAMW_RATE] = (float)(lr / (1 - pow(beta1, t)));
  out[ADAMW_SIGN] = p->maximize ? -1 : 1;
  return ST_OK;
}

/* Processes n elements of a row, converted to float and back. */
static void adamw_run_tile(const adamw_plan *p, char *const *at, const float *parameters, int64_t n) {
  float tile[N_TENSORS][TILE];
  const int last = p->walk.rank - 1;
  for (int k = 0; k < N_TENSORS; ++k)
    if (k != TOP || p->amsgrad) loops->load[p->dtype[k]][COMPUTE_F32](tile[k], at[k], p->walk.strides[k][last], n);
  optim->adamw(tile[VAR], tile[M], tile[V], p->amsgrad ? tile[TOP] : NULL, tile[GRAD], parameters, n);
  for (int k = 0; k < GRAD; ++k)
    if (k != TOP || p->amsgrad) loops->store[p->dtype[k]][COMPUTE_F32](at[k], p->walk.strides[k][last], tile[k], n);
}

typedef struct {
  const adamw_plan *plan;
  void *view[N_TENSORS];
  const float *parameters;
} adamw_job;

static void adamw_run_range(const void *argument, int64_t begin, int64_t end) {
  const adamw_job *job = argument;
  const adamw_plan *p = job->plan;
  const float *parameters = job->parameters;
  cursor c;
  cursor_start(&c, &p->walk, job->view, begin);
  if (p->contiguous) {
    for (int64_t i = begin, n; i < end; i += n, cursor_next(&c, n)) {
      float *x[N_TENSORS];
      for (int k = 0; k < N_TENSORS; ++k) x[k] = (float *)(void *)c.at[k];
      n = cursor_row(&c, end - i < BLOCK ? end - i : BLOCK);
      optim->adamw(x[VAR], x[M], x[V], p->amsgrad ? x[TOP] : NULL, x[GRAD], parameters, n);
    }
    return;
  }
  for (int64_t i = begin, n; i < end; i += n, cursor_next(&c, n)) {
    n = cursor_row(&c, end - i < TILE ? end - i : TILE);
    adamw_run_tile(p, c.at, parameters, n);
  }
}

static status run_adamw(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const adamw_plan *p = PLAN(e, adamw_plan);
  if (p->walk.n == 0) return ST_OK;
  float parameters[ADAMW_PARAMETERS];
  TRY(adamw_set_parameters(p, view[ADAMW_STEP], parameters));
  const adamw_job job = {p,
                         {view[ADAMW_VAR], view[ADAMW_M], view[ADAMW_V],
                          p->amsgrad ? view[ADAMW_MAX_GRAD_NORM] : view[ADAMW_V], view[ADAMW_GRAD]},
                         parameters};
  rows_parallel(adamw_run_range, &job, p->walk.n, TILE, e->cost_ns);
  return ST_OK;
}

/* ---- phase one --------------------------------------------------------------------------------------------------- */

static status adamw_check_tensors(const adamw_args *a, const tensor *const *x) {
  static const char *const names[N_TENSORS] = {"varRef", "mRef", "vRef", "maxGradNormOptionalRef", "grad"};
  const uint64_t floats = DTYPES_FLOAT_TO_32;
  if (a->amsgrad && !a->max_grad_norm)
    return fail(ST_OP_NULL, "maxGradNormOptionalRef is NULL, expected a tensor, since amsgrad is true");
  for (int k = 0; k < N_TENSORS; ++k) {
    if (!x[k]) continue;
    TRY(op_expect_dtype(x[k], names[k], floats));
    TRY(op_expect_same_shape(x[k], names[k], a->var));
  }
  return op_expect_one(a->step, "step", DTYPE_BIT(ACL_FLOAT) | DTYPE_BIT(ACL_INT64));
}

status prepare_adamw(executor *e, const adamw_args *a) {
  adamw_plan *p = PLAN(e, adamw_plan);
  const tensor *const x[N_TENSORS] = {a->var, a->m, a->v, a->max_grad_norm, a->grad};
  *p = (adamw_plan){.lr = (float)a->lr,
                    .beta1 = (float)a->beta1,
                    .beta2 = (float)a->beta2,
                    .weight_decay = (float)a->weight_decay,
                    .eps = (float)a->eps,
                    .amsgrad = a->amsgrad,
                    .maximize = a->maximize,
                    .step_dtype = a->step->dtype};
  TRY(adamw_check_tensors(a, x));
  view v[N_TENSORS];
  const view *views[N_TENSORS];
  for (int k = 0; k < N_TENSORS; ++k) {
    v[k] = view_of(x[k == TOP && !p->amsgrad ? V : k]);
    views[k] = &v[k];
    p->dtype[k] = v[k].dtype;
  }
  walk_init(&p->walk, views, N_TENSORS, v[VAR].rank);
  p->contiguous = true;
  for (int k = 0; k < N_TENSORS; ++k)
    p->contiguous &= p->dtype[k] == ACL_FLOAT && walk_is_contiguous(&p->walk, k, sizeof(float));
  uint64_t bytes = 0;
  for (int k = 0; k < N_TENSORS; ++k)
    if (k != TOP || p->amsgrad) bytes += (uint64_t)p->walk.n * dtype_bytes(p->dtype[k]) * (k == GRAD ? 1 : 2);
  e->run = run_adamw;
  executor_cost(e, bytes, (uint64_t)p->walk.n * 16);
  return ST_OK;
}
