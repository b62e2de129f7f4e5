/* SPDX-License-Identifier: Apache-2.0 */
/* Loss scaling in mixed precision: gradients are unscaled and checked for infinities and NaN; the scale is then
 * lowered, or raised after a number of steps without any. */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "kernel/engine/walk.h"
#include "kernel/families.h"
#include "kernel/optim/optim.h"
#include "runtime/parallel.h"

enum { TILE = 1024 };

/* ---- ForeachNonFiniteCheckAndUnscale: grads *= invScale; foundInf = 1 if any element was not finite -------------- */

typedef struct {
  walk walk;
  load_loop *load;
  store_loop *store;
  bool direct; /* contiguous floats */
} grad_plan;

/* Unscales elements begin to end of one gradient. Returns whether any was not finite. */
static bool unscale_share(const grad_plan *p, void *at, float scale, int64_t begin, int64_t end) {
  if (begin >= end) return false;
  if (p->direct) return optim->unscale((float *)at + begin, scale, end - begin);
  float tile[TILE];
  bool bad = false;
  const int64_t stride = p->walk.strides[0][p->walk.rank - 1];
  cursor c;
  cursor_start(&c, &p->walk, &at, begin);
  for (int64_t i = begin, n; i < end; i += n, cursor_next(&c, n)) {
    n = cursor_row(&c, end - i < TILE ? end - i : TILE);
    p->load(tile, c.at[0], stride, n);
    bad |= optim->unscale(tile, scale, n);
    p->store(c.at[0], stride, tile, n);
  }
  return bad;
}

typedef struct {
  const grad_plan *plans;
  void *const *view;
  int n, n_parts;
  float scale;
  atomic_bool *bad;
} unscale_job;

/* Unscales one chunk of each gradient. */
static void unscale_part(const void *job, int64_t part, int thread) {
  (void)thread;
  const unscale_job *j = job;
  for (int i = 0; i < j->n; ++i) {
    int64_t begin, end;
    parallel_share(j->plans[i].walk.n, TILE, part, j->n_parts, &begin, &end);
    if (unscale_share(&j->plans[i], j->view[i], j->scale, begin, end))
      atomic_store_explicit(j->bad, true, memory_order_relaxed);
  }
}

static status run_unscale(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const grad_plan *p = e->heap;
  const int n = e->n_operands - 2;
  float *found = view[n];
  atomic_bool bad = false;
  const parallel_team team = parallel_begin(e->cost_ns);
  const unscale_job job = {
      .plans = p, .view = view, .n = n, .n_parts = team.n_threads, .scale = *(const float *)view[n + 1], .bad = &bad};
  parallel_run(&team, unscale_part, &job, job.n_parts);
  parallel_end(&team);
  if (bad) *found = 1;
  return ST_OK;
}

status prepare_unscale(executor *e, const unscale_args *a) {
  const aclTensorList *grads = a->scaled_grads;
  TRY(op_expect_one(a->found_inf, "foundInf", DTYPE_BIT(ACL_FLOAT)));
  TRY(op_expect_one(a->inv_scale, "invScale", DTYPE_BIT(ACL_FLOAT)));
  HEAP_PLAN(grad_plan, p, e, grads->size * sizeof *p);
  uint64_t bytes = 0;
  for (uint64_t i = 0; i < grads->size; ++i) {
    const tensor *t = grads->value[i];
    TRY(op_expect_dtype(t, "scaledGrads", DTYPES_FLOAT_TO_32));
    const view v = view_of(t);
    walk_init(&p[i].walk, (const view *const[]){&v}, 1, v.rank);
    p[i].load = loops->load[t->dtype][COMPUTE_F32];
    p[i].store = loops->store[t->dtype][COMPUTE_F32];
    p[i].direct = t->dtype == ACL_FLOAT && walk_is_contiguous(&p[i].walk, 0, sizeof(float));
    bytes += (uint64_t)t->n * dtype_bytes(t->dtype) * 2;
  }
  e->run = run_unscale;
  executor_cost(e, bytes, 0);
  return ST_OK;
}

/* ---- AmpUpdateScale ---------------------------------------------------------------------------------------------- */

typedef struct {
  float growth, backoff;
  int64_t interval;
  load_loop *load; /* load and store: for the scales and foundInf */
  store_loop *store;
} scale_plan;

/* Operates in place where results are the arguments, as PyTorch calls it. A scale that
 * would overflow stays unchanged. */
static status run_update_scale(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const scale_plan *p = PLAN(e, scale_plan);
  const int32_t tracker = *(const int32_t *)view[AMP_UPDATE_SCALE_GROWTH_TRACKER];
  float scale, found, next, stored;
  p->load(&scale, view[AMP_UPDATE_SCALE_CURRENT_SCALE], 0, 1);
  p->load(&found, view[AMP_UPDATE_SCALE_FOUND_INF], 0, 1);
  const bool grows = found == 0 && tracker + 1 == p->interval;
  next = found != 0 ? scale * p->backoff : grows ? scale * p->growth : scale;
  p->store(view[AMP_UPDATE_SCALE_UPDATED_SCALE], 0, &next, 1);
  p->load(&stored, view[AMP_UPDATE_SCALE_UPDATED_SCALE], 0, 1);
  if (grows && !isfinite(stored)) p->store(view[AMP_UPDATE_SCALE_UPDATED_SCALE], 0, &scale, 1);
  *(int32_t *)view[AMP_UPDATE_SCALE_UPDATED_GROWTH_TRACKER] = found != 0 || grows ? 0 : tracker + 1;
  return ST_OK;
}

status prepare_amp_update_scale(executor *e, const amp_update_scale_args *a) {
  scale_plan *p = PLAN(e, scale_plan);
  const int dtype = a->current_scale->dtype;
  TRY(op_expect_one(a->current_scale, "currentScale", DTYPES_FLOAT_TO_32));
  TRY(op_expect_one(a->growth_tracker, "growthTracker", DTYPE_BIT(ACL_INT32)));
  TRY(op_expect_one(a->found_inf, "foundInf", DTYPE_BIT(dtype)));
  TRY(op_expect_one(a->updated_scale, "updatedScale", DTYPE_BIT(dtype)));
  TRY(op_expect_one(a->updated_growth_tracker, "updatedGrowthTracker", DTYPE_BIT(ACL_INT32)));
  EXPECT(a->growth_interval > 0, "growthInterval is %jd, expected 1 or more", (intmax_t)a->growth_interval);
  *p = (scale_plan){(float)a->growth_factor, (float)a->backoff_factor, a->growth_interval,
                    loops->load[dtype][COMPUTE_F32], loops->store[dtype][COMPUTE_F32]};
  e->run = run_update_scale;
  executor_cost(e, 20, 0);
  return ST_OK;
}
