/* SPDX-License-Identifier: Apache-2.0 */
/* aclnnMaskedSoftmaxWithRelPosBias (for the attention windows of the Swin transformer): softmax(scale * x + mask +
 * bias) along the last dimension of x [B, W, N, S1, S2] or [B W, N, S1, S2], with a mask for each of W windows and a
 * bias for each of N heads. */
#include <string.h>

#include "kernel/families.h"
#include "kernel/move/check.h"
#include "kernel/norm/norm.h"
#include "kernel/norm/softmax_loops.h"

enum { RANK = 5 };

typedef struct {
  panel_plan rows; /* operands: x, out, the bias, the mask */
  float scale;
  bool has_mask;
} rel_pos_plan;

static void rel_pos_panel(const void *op, const panel *p) {
  const rel_pos_plan *r = op;
  for (int i = 0; i < p->width; ++i) {
    float *y = panel_floats(p, 1, i);
    const float *mask = r->has_mask ? panel_floats(p, 3, i) : NULL;
    norm->add(y, panel_floats(p, 2, i), r->scale, panel_floats(p, 0, i), mask, p->n);
    softmax->f32.softmax(&(softmax_matrix){.y = (char *)y, .x = (char *)y, .n = p->n, .rows = 1, .dtype = ACL_FLOAT});
  }
}

static status run_rel_pos(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const rel_pos_plan *r = PLAN(e, rel_pos_plan);
  return panels_run(&(panel_job){.plan = &r->rows, .view = view, .body = rel_pos_panel, .op = r}, e->cost_ns);
}

/* Broadcasts a mask or bias to dims. Its last two dimensions are x's; of the first three it has dimension
 * `last_window`, the others are 1 or missing. */
static status rel_pos_spread(const tensor *t, const char *name, const int64_t *dims, int last_window, view *v) {
  int64_t wanted[RANK] = {1, 1, 1, dims[3], dims[4]};
  wanted[last_window] = dims[last_window];
  const view in = view_of(t);
  /* With rank 3, the first dimension is the window (or head). With rank 4, a mask is [W, 1, S1, S2] and a bias [1, N,
   * S1, S2]. */
  view whole = {.rank = RANK, .dtype = in.dtype, .dims = {1, 1, 1, 1, 1}};
  bool fits = in.rank >= 3 && in.rank <= RANK;
  for (int d = 0; fits && d < in.rank; ++d) {
    const int at = in.rank == 3 && d == 0 ? last_window : RANK - in.rank + d;
    whole.dims[at] = in.dims[d];
    whole.strides[at] = in.strides[d];
  }
  fits = fits && !memcmp(whole.dims, wanted, sizeof wanted);
  EXPECT(fits, "%s has shape %s, expected %s, or without the first ones", name, SHAPE_OF(t), DIMS_TEXT(wanted, RANK));
  *v = view_broadcast(&whole, dims, RANK);
  return ST_OK;
}

/* Views x or out with five dimensions, by splitting the first of four into windows. */
static view in_windows(const tensor *t, int64_t windows) {
  view v = view_of(t);
  if (v.rank == RANK) return v;
  for (int d = RANK - 1; d > 0; --d) {
    v.dims[d] = v.dims[d - 1];
    v.strides[d] = v.strides[d - 1];
  }
  v.rank = RANK;
  v.dims[0] /= windows;
  v.dims[1] = windows;
  v.strides[0] = windows * v.strides[1];
  return v;
}

/* (x, attenMaskOptional, relativePosBias, scaleValue, innerPrecisionMode, out); all modes are computed in float. */
status prepare_rel_pos_softmax(executor *e, const rel_pos_softmax_args *a) {
  const tensor *x = a->x, *mask = a->atten_mask, *bias = a->relative_pos_bias, *out = a->out;
  rel_pos_plan *r = PLAN(e, rel_pos_plan);
  TRY(op_expect_dtype(x, "x", DTYPES_FLOAT_TO_32));
  EXPECT(x->rank == RANK || x->rank == RANK - 1, "x has shape %s, expected 4 or 5 dimensions", SHAPE_OF(x));
  TRY(op_expect_dtype(bias, "relativePosBias", DTYPES_FLOAT_TO_32));
  TRY(op_expect_like(out, "out", x));
  int64_t windows = 1;
  if (mask) {
    TRY(op_expect_dtype(mask, "attenMaskOptional", DTYPES_FLOAT_TO_32));
    EXPECT(mask->rank >= 3, "attenMaskOptional has shape %s, expected 3 to 5 dimensions", SHAPE_OF(mask));
    windows = mask->dims[mask->rank == RANK ? 1 : 0];
    EXPECT(windows > 0 && (x->rank == RANK || x->dims[0] % windows == 0),
           "attenMaskOptional has %jd windows, expected a divisor of x's first dimension, %jd", (intmax_t)windows,
           (intmax_t)x->dims[0]);
  }
  const view from = in_windows(x, windows), to = in_windows(out, windows);
  view of_bias, of_mask;
  TRY(rel_pos_spread(bias, "relativePosBias", from.dims, 2, &of_bias));
  *r = (rel_pos_plan){.scale = (float)a->scale_value, .has_mask = mask != NULL};
  panel_plan_init(&r->rows, COMPUTE_F32, RANK - 1, 1, from.dims);
  panel_add(&r->rows, PANEL_READ, 0, &from);
  panel_add(&r->rows, PANEL_WRITTEN, 3, &to);
  panel_add(&r->rows, PANEL_READ, 2, &of_bias);
  if (mask) {
    TRY(rel_pos_spread(mask, "attenMaskOptional", from.dims, 1, &of_mask));
    panel_add(&r->rows, PANEL_READ, 1, &of_mask);
  }
  panel_plan_end(&r->rows, false);
  executor_cost(e, 4 * norm_tensor_bytes(x), (uint64_t)x->n * 24);
  e->run = x->n ? run_rel_pos : move_run_nothing;
  return ST_OK;
}
