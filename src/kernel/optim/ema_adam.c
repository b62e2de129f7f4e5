/* SPDX-License-Identifier: Apache-2.0 */
/* ApplyFusedEmaAdam: a step of Adam (mode 0: the weight decay is part of the gradient; 1: AdamW) and the moving average
 * of the parameters. All is computed in double, and each result is rounded once. */
#include <math.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/move/check.h"

enum { VAR, M, V, S, GRAD, N_TENSORS, TILE = 256 };

typedef struct {
  walk walk;
  load_loop *load;
  store_loop *store;
  double lr, ema_decay, beta1, beta2, eps, weight_decay;
  bool decoupled, corrects;
} ema_adam_plan;

typedef struct {
  const ema_adam_plan *plan;
  void *at[N_TENSORS];
  double correction1, correction2;
} ema_adam_job;

static void ema_adam_tile(const ema_adam_job *j, double (*x)[TILE], int64_t n) {
  const ema_adam_plan *p = j->plan;
  for (int64_t i = 0; i < n; ++i) {
    const double var = x[VAR][i], grad = x[GRAD][i] + (p->decoupled ? 0 : p->weight_decay * var);
    const double m = p->beta1 * x[M][i] + (1 - p->beta1) * grad, v = p->beta2 * x[V][i] + (1 - p->beta2) * grad * grad;
    const double step = m / j->correction1 / (sqrt(v / j->correction2) + p->eps);
    x[VAR][i] = var - p->lr * (step + (p->decoupled ? p->weight_decay * var : 0));
    x[M][i] = m;
    x[V][i] = v;
    x[S][i] = p->ema_decay * x[S][i] + (1 - p->ema_decay) * x[VAR][i];
  }
}

static void ema_adam_range(const void *arg, int64_t begin, int64_t end) {
  const ema_adam_job *j = arg;
  const ema_adam_plan *p = j->plan;
  const int last = p->walk.rank - 1;
  double x[N_TENSORS][TILE];
  cursor c;
  cursor_start(&c, &p->walk, j->at, begin);
  for (int64_t i = begin, n; i < end; i += n, cursor_next(&c, n)) {
    n = cursor_row(&c, i64_min(TILE, end - i));
    for (int k = 0; k < N_TENSORS; ++k) p->load(x[k], c.at[k], p->walk.strides[k][last], n);
    ema_adam_tile(j, x, n);
    for (int k = 0; k < GRAD; ++k) p->store(c.at[k], p->walk.strides[k][last], x[k], n);
  }
}

static status run_ema_adam(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const ema_adam_plan *p = PLAN(e, ema_adam_plan);
  const double step = (double)*(const int64_t *)view[EMA_ADAM_STEP];
  const ema_adam_job job = {
      .plan = p,
      .at = {view[EMA_ADAM_VAR], view[EMA_ADAM_M], view[EMA_ADAM_V], view[EMA_ADAM_S], view[EMA_ADAM_GRAD]},
      .correction1 = p->corrects ? 1 - pow(p->beta1, step) : 1,
      .correction2 = p->corrects ? 1 - pow(p->beta2, step) : 1};
  rows_parallel(ema_adam_range, &job, p->walk.n, TILE, e->cost_ns);
  return ST_OK;
}

status prepare_ema_adam(executor *e, const ema_adam_args *a) {
  static const char *const names[N_TENSORS] = {"varRef", "mRef", "vRef", "sRef", "grad"};
  const tensor *const x[N_TENSORS] = {a->var, a->m, a->v, a->s, a->grad};
  ema_adam_plan *p = PLAN(e, ema_adam_plan);
  view v[N_TENSORS];
  const view *views[N_TENSORS];
  TRY(op_expect_dtype(a->grad, "grad", DTYPES_FLOAT_TO_32));
  for (int k = 0; k < N_TENSORS; ++k) {
    TRY(op_expect_like(x[k], names[k], a->grad));
    v[k] = view_of(x[k]);
    views[k] = &v[k];
  }
  TRY(op_expect_one(a->step, "step", DTYPE_BIT(ACL_INT64)));
  EXPECT(a->mode == 0 || a->mode == 1, "mode is %jd, expected 0 or 1", (intmax_t)a->mode);
  *p = (ema_adam_plan){.load = loops->load[a->grad->dtype][COMPUTE_F64],
                       .store = loops->store[a->grad->dtype][COMPUTE_F64],
                       .lr = a->lr,
                       .ema_decay = a->ema_decay,
                       .beta1 = a->beta1,
                       .beta2 = a->beta2,
                       .eps = a->eps,
                       .weight_decay = a->weight_decay,
                       .decoupled = a->mode == 1,
                       .corrects = a->bias_correction};
  walk_init_sorted(&p->walk, views, N_TENSORS, a->grad->rank);
  executor_cost(e, (uint64_t)a->grad->n * 9 * dtype_bytes(a->grad->dtype), (uint64_t)a->grad->n * 64);
  e->run = a->grad->n ? run_ema_adam : move_run_nothing;
  return ST_OK;
}
