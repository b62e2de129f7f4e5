/* SPDX-License-Identifier: Apache-2.0 */
/* One step of AdamW (Loshchilov and Hutter, "Decoupled weight decay regularization"), with t = step + 1: the
 * step tensor counts the steps done before this one.
 *
 *   m   = beta1 m + (1 - beta1) g               g = -grad if maximize, else grad
 *   v   = beta2 v + (1 - beta2) g^2
 *   top = max(top, v) if amsgrad, else v        top: maxGradNorm
 *   var = (1 - lr weightDecay) var - lr / (1 - beta1^t) * m / (sqrt(top) / sqrt(1 - beta2^t) + eps)
 *
 * ApplyAdamW has beta1^(t - 1) and beta2^(t - 1) in tensors, as it has all numbers, and keeps maxGradNorm: v becomes
 * top. Computed in float; what depends on t, in double. Tensors may differ in layout and float type. */
#include "kernel/optim/adamw_loop.h"

#include <math.h>

#include "kernel/engine/level_choice.h"
#include "kernel/engine/rows.h"
#include "kernel/engine/walk.h"
#include "kernel/families.h"
#include "kernel/optim/optim.h"

LEVEL_CHOICE(optim_loops, optim, optim_loops)

enum { VAR, M, V, TOP, GRAD, N_TENSORS };
/* The numbers that ApplyAdamW has in tensors, which are operands behind one another. */
enum { BETA1_POWER, BETA2_POWER, LR, WEIGHT_DECAY, BETA1, BETA2, EPS, N_NUMBERS };
enum {
  TILE = 512,  /* elements that are converted at a time */
  BLOCK = 2048 /* elements per call without conversion: they stay in L1 between the loop's passes */
};

typedef struct {
  walk walk; /* operands VAR to GRAD; without amsgrad, TOP is the view of V and is not accessed */
  int dtype[N_TENSORS];
  bool amsgrad, maximize, contiguous; /* contiguous: all float in one run */
  bool keeps_top;                     /* of ApplyAdamW with amsgrad */
  int step_dtype, number_dtype[N_NUMBERS];
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
    if (k != TOP || (p->amsgrad && !p->keeps_top))
      loops->store[p->dtype[k]][COMPUTE_F32](at[k], p->walk.strides[k][last], tile[k == V && p->keeps_top ? TOP : k],
                                             n);
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

static status run_adamw_step(const executor *e, void *const *of, const float *parameters) {
  const adamw_plan *p = PLAN(e, adamw_plan);
  adamw_job job = {.plan = p, .parameters = parameters};
  for (int k = 0; k < N_TENSORS; ++k) job.view[k] = of[k];
  rows_parallel(adamw_run_range, &job, p->walk.n, TILE, e->cost_ns);
  return ST_OK;
}

static status run_adamw(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const adamw_plan *p = PLAN(e, adamw_plan);
  if (p->walk.n == 0) return ST_OK;
  float parameters[ADAMW_PARAMETERS];
  TRY(adamw_set_parameters(p, view[ADAMW_STEP], parameters));
  void *const of[N_TENSORS] = {view[ADAMW_VAR], view[ADAMW_M], view[ADAMW_V],
                               p->amsgrad ? view[ADAMW_MAX_GRAD_NORM] : view[ADAMW_V], view[ADAMW_GRAD]};
  return run_adamw_step(e, of, parameters);
}

static status run_apply_adamw(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const adamw_plan *p = PLAN(e, adamw_plan);
  if (p->walk.n == 0) return ST_OK;
  float number[N_NUMBERS];
  for (int k = 0; k < N_NUMBERS; ++k)
    loops->load[p->number_dtype[k]][COMPUTE_F32](number + k, view[APPLY_ADAMW_BETA1_POWER + k], 0, 1);
  const double lr = (double)number[LR], beta1 = (double)number[BETA1], beta2 = (double)number[BETA2];
  const float parameters[ADAMW_PARAMETERS] = {[ADAMW_KEEP] = (float)(1 - lr * (double)number[WEIGHT_DECAY]),
                                              [ADAMW_BETA1] = number[BETA1],
                                              [ADAMW_NEW1] = (float)(1 - beta1),
                                              [ADAMW_BETA2] = number[BETA2],
                                              [ADAMW_NEW2] = (float)(1 - beta2),
                                              [ADAMW_ROOT] = (float)(1 / sqrt(1 - (double)number[BETA2_POWER] * beta2)),
                                              [ADAMW_EPS] = number[EPS],
                                              [ADAMW_RATE] = (float)(lr / (1 - (double)number[BETA1_POWER] * beta1)),
                                              [ADAMW_SIGN] = p->maximize ? -1 : 1};
  void *const of[N_TENSORS] = {view[APPLY_ADAMW_VAR], view[APPLY_ADAMW_M], view[APPLY_ADAMW_V],
                               p->amsgrad ? view[APPLY_ADAMW_MAX_GRAD_NORM] : view[APPLY_ADAMW_V],
                               view[APPLY_ADAMW_GRAD]};
  return run_adamw_step(e, of, parameters);
}

/* ---- phase one --------------------------------------------------------------------------------------------------- */

static status adamw_check_tensors(const tensor *const *x, bool amsgrad, const char *top_name) {
  const char *const names[N_TENSORS] = {"varRef", "mRef", "vRef", top_name, "grad"};
  const uint64_t floats = DTYPES_FLOAT_TO_32;
  if (amsgrad && !x[TOP]) return fail(ST_OP_NULL, "%s is NULL, expected a tensor, since amsgrad is true", top_name);
  for (int k = 0; k < N_TENSORS; ++k) {
    if (!x[k]) continue;
    TRY(op_expect_dtype(x[k], names[k], floats));
    TRY(op_expect_same_shape(x[k], names[k], x[VAR]));
  }
  return ST_OK;
}

/* Plans the walk over the tensors, and the cost. */
static void adamw_plan_walk(executor *e, const tensor *const *x) {
  adamw_plan *p = PLAN(e, adamw_plan);
  view v[N_TENSORS];
  const view *views[N_TENSORS];
  for (int k = 0; k < N_TENSORS; ++k) {
    v[k] = view_of(x[k == TOP && !p->amsgrad ? V : k]);
    views[k] = &v[k];
    p->dtype[k] = v[k].dtype;
  }
  walk_init(&p->walk, views, N_TENSORS, v[VAR].rank);
  p->contiguous = !p->keeps_top;
  for (int k = 0; k < N_TENSORS; ++k)
    p->contiguous &= p->dtype[k] == ACL_FLOAT && walk_is_contiguous(&p->walk, k, sizeof(float));
  uint64_t bytes = 0;
  for (int k = 0; k < N_TENSORS; ++k)
    if (k != TOP || p->amsgrad) bytes += (uint64_t)p->walk.n * dtype_bytes(p->dtype[k]) * (k == GRAD ? 1 : 2);
  executor_cost(e, bytes, (uint64_t)p->walk.n * 16);
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
  TRY(adamw_check_tensors(x, a->amsgrad, "maxGradNormOptionalRef"));
  TRY(op_expect_one(a->step, "step", DTYPE_BIT(ACL_FLOAT) | DTYPE_BIT(ACL_INT64)));
  adamw_plan_walk(e, x);
  e->run = run_adamw;
  return ST_OK;
}

status prepare_apply_adamw(executor *e, const apply_adamw_args *a) {
  static const char *const names[N_NUMBERS] = {"beta1Power", "beta2Power", "lr", "weightDecay",
                                               "beta1",      "beta2",      "eps"};
  const tensor *const numbers[N_NUMBERS] = {a->beta1_power, a->beta2_power, a->lr, a->weight_decay,
                                            a->beta1,       a->beta2,       a->eps};
  const tensor *const x[N_TENSORS] = {a->var, a->m, a->v, a->max_grad_norm, a->grad};
  adamw_plan *p = PLAN(e, adamw_plan);
  *p = (adamw_plan){.amsgrad = a->amsgrad, .maximize = a->maximize, .keeps_top = a->amsgrad};
  TRY(adamw_check_tensors(x, a->amsgrad, "maxGradNormOptional"));
  for (int k = 0; k < N_NUMBERS; ++k) {
    TRY(op_expect_one(numbers[k], names[k], DTYPES_FLOAT_TO_32));
    p->number_dtype[k] = numbers[k]->dtype;
  }
  adamw_plan_walk(e, x);
  e->run = run_apply_adamw;
  return ST_OK;
}
