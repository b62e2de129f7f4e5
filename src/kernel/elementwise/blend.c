/* SPDX-License-Identifier: Apache-2.0 */
/* Images that are laid over each other by a mask of one channel: MrgbaCustom is rgb alpha / 255, BlendImagesCustom adds
 * frame (1 - alpha / 255), and BackgroundReplace is bkg (1 - mask) + src mask. Computed in double, so that images of
 * bytes have the exact value, which is truncated. */
#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/move/check.h"

enum { BLEND_OUT, BLEND_FRONT, BLEND_BACK, BLEND_ALPHA, BLEND_OPERANDS, BLEND_TILE = 256, BLEND_GRAIN = 4096 };

typedef struct {
  walk at;
  load_loop *load[BLEND_OPERANDS];
  store_loop *store;
  double whole; /* the mask's value where only the front counts */
  bool has_back;
  int8_t operand[BLEND_OPERANDS];
} blend_plan;

typedef struct {
  const blend_plan *plan;
  void *at[BLEND_OPERANDS];
} blend_job;

static void blend_range(const void *job, int64_t begin, int64_t end) {
  const blend_job *j = job;
  const blend_plan *p = j->plan;
  const int last = p->at.rank - 1;
  double tile[BLEND_OPERANDS][BLEND_TILE];
  cursor c;
  cursor_start(&c, &p->at, j->at, begin);
  for (int64_t i = begin, n; i < end; i += n, cursor_next(&c, n)) {
    n = cursor_row(&c, i64_min(BLEND_TILE, end - i));
    for (int k = BLEND_FRONT; k < BLEND_OPERANDS; ++k) p->load[k](tile[k], c.at[k], p->at.strides[k][last], n);
    for (int64_t k = 0; k < n; ++k) {
      const double front = tile[BLEND_FRONT][k], alpha = tile[BLEND_ALPHA][k];
      const double back = p->has_back ? tile[BLEND_BACK][k] * (p->whole - alpha) : 0;
      tile[BLEND_OUT][k] = (front * alpha + back) / p->whole;
    }
    p->store(c.at[BLEND_OUT], p->at.strides[BLEND_OUT][last], tile[BLEND_OUT], n);
  }
}

static status run_blend(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const blend_plan *p = PLAN(e, blend_plan);
  blend_job job = {.plan = p};
  for (int k = 0; k < BLEND_OPERANDS; ++k) job.at[k] = view[p->operand[k]];
  rows_parallel(blend_range, &job, p->at.n, BLEND_GRAIN, e->cost_ns);
  return ST_OK;
}

/* The members: bkg is rgb or the background, src the frame or the foreground, mask the opacity. */
status prepare_blend(executor *e, const blend_args *a) {
  const bool by_mask = e->op->variant == BLEND_MASK, has_back = e->op->variant != BLEND_OPACITY;
  const tensor *const back = by_mask ? a->bkg : has_back ? a->src : a->bkg, *const front = by_mask ? a->src : a->bkg;
  const tensor *const t[] = {a->out, front, back, a->mask};
  const int at_back = by_mask    ? BLEND_BKG
                      : has_back ? a->view.src
                                 : BLEND_BKG,
            at_front = by_mask ? a->view.src : BLEND_BKG;
  const int at[] = {a->view.out, at_front, at_back, a->view.mask};
  blend_plan *p = PLAN(e, blend_plan);
  view v[BLEND_OPERANDS];
  const view *views[BLEND_OPERANDS];
  TRY(op_expect_dtype(a->bkg, a->name.bkg, DTYPE_BIT(ACL_UINT8) | (by_mask ? DTYPE_BIT(ACL_FLOAT16) : 0)));
  TRY(op_expect_dtype(a->mask, a->name.mask, DTYPE_BIT(by_mask ? ACL_FLOAT16 : ACL_UINT8)));
  if (has_back) TRY(op_expect_like(a->src, a->name.src, a->bkg));
  TRY(op_expect_like(a->out, "out", a->bkg));
  EXPECT(move_broadcasts_to(a->mask, a->out), "%s has shape %s, expected one that broadcasts to %s", a->name.mask,
         SHAPE_OF(a->mask), SHAPE_OF(a->out));
  for (int k = 0; k < BLEND_OPERANDS; ++k) {
    const view whole = view_of(t[k]);
    v[k] = view_broadcast(&whole, a->out->dims, a->out->rank);
    views[k] = &v[k];
    p->load[k] = loops->load[t[k]->dtype][COMPUTE_F64];
    p->operand[k] = (int8_t)at[k];
  }
  walk_init(&p->at, views, BLEND_OPERANDS, a->out->rank);
  p->store = loops->store[a->out->dtype][COMPUTE_F64];
  p->whole = by_mask ? 1 : 255;
  p->has_back = has_back;
  executor_cost(e, (uint64_t)a->out->n * 4 * dtype_bytes(a->out->dtype), (uint64_t)a->out->n * 8);
  e->run = a->out->n ? run_blend : move_run_nothing;
  return ST_OK;
}
