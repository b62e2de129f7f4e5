/* SPDX-License-Identifier: Apache-2.0 */
/* DynamicQuant and DynamicQuantV2: quantise rows with a scale (and an offset) from each row's extremes. Before that, a
 * row may be multiplied by smooth scales, common to all rows or to the group of the row. GroupQuant: quantises rows
 * with given scales of their groups. */
#include "kernel/families.h"
#include "kernel/move/check.h"
#include "kernel/norm/panels.h"
#include "kernel/quant/nibbles.h"
#include "kernel/quant/row.h"

enum { TILE = 1024 };

typedef struct {
  panel_plan rows; /* tensors: x, y, the scales, the offsets */
  float most;      /* largest integer of y's type */
  bool asymmetric;
  load_loop *load_smooth; /* NULL: no smooth scales */
  int64_t smooth_row, smooth_column;
  load_loop *load_group; /* NULL: a single group */
  int64_t group_step, n_groups;
  int y_view;
  int64_t n_packed; /* number of int4 elements in y; 0: y is int8 */
  uint64_t bytes;   /* in scratch: int8 copy of y */
} dynamic_plan;

typedef struct {
  const dynamic_plan *plan;
  const char *smooth, *group;
} dynamic_job;

/* Returns the group of a row: the first one whose end, given by the group index, is greater than `row`. */
static int64_t group_of(const dynamic_job *j, int64_t row) {
  const dynamic_plan *p = j->plan;
  if (!p->load_group) return 0;
  int64_t g = 0, end = 0;
  for (; g < p->n_groups; ++g) {
    p->load_group(&end, j->group + g * p->group_step, p->group_step, 1);
    if (row < end) break;
  }
  return g;
}

static void quantise_panel(const void *op, const panel *panel) {
  const dynamic_job *j = op;
  const dynamic_plan *p = j->plan;
  float smooth[TILE];
  for (int i = 0; i < panel->width; ++i) {
    const float *x = panel_floats(panel, 0, i);
    float *y = panel_floats(panel, 1, i);
    const int64_t group = group_of(j, panel->row + i);
    for (int64_t k = 0, n; p->load_smooth && group < p->n_groups && k < panel->n; k += n) {
      n = i64_min(TILE, panel->n - k);
      p->load_smooth(smooth, j->smooth + group * p->smooth_row + k * p->smooth_column, p->smooth_column, n);
      quant_row_smooth(y + k, x + k, smooth, n);
    }
    if (p->load_smooth && group < p->n_groups) x = y;
    float *const scale = panel_floats(panel, 2, i);
    if (p->asymmetric)
      *scale = quant_row_asymmetric(y, x, p->most, panel_floats(panel, 3, i), panel->n);
    else
      *scale = quant_row_dynamic(y, x, p->most, panel->n);
  }
}

static status run_dynamic(const executor *e, void *const *view, void *scratch) {
  enum { VIEWS = 6 };
  const dynamic_plan *p = PLAN(e, dynamic_plan);
  int8_t *const bytes = (int8_t *)scratch + p->bytes;
  void *views[VIEWS];
  for (int i = 0; i < e->n_operands; ++i) views[i] = i == p->y_view && p->n_packed ? bytes : view[i];
  const dynamic_job job = {
      .plan = p, .smooth = view[DYNAMIC_QUANT_SMOOTH_SCALES], .group = view[DYNAMIC_QUANT_GROUP_INDEX]};
  TRY(panels_run(&(panel_job){.plan = &p->rows, .view = views, .body = quantise_panel, .op = &job}, e->cost_ns));
  if (p->n_packed) nibbles_pack(view[p->y_view], bytes, p->n_packed);
  return ST_OK;
}

/* Checks and plans smooth: [n], or [groups, n] with a group index [groups]. */
static status plan_smooth(dynamic_plan *p, const tensor *x, const tensor *smooth, const tensor *group) {
  const int64_t n = x->dims[x->rank - 1];
  p->n_groups = 1;
  if (!smooth) {
    EXPECT(!group, "groupIndexOptional is a tensor, expected none without smoothScalesOptional");
    return ST_OK;
  }
  TRY(op_expect_dtype(smooth, "smoothScalesOptional", DTYPE_BIT(x->dtype)));
  const view v = view_of(smooth);
  EXPECT(smooth->rank == (group ? 2 : 1) && v.dims[v.rank - 1] == n,
         "smoothScalesOptional has shape %s, expected %s%jd]", SHAPE_OF(smooth), group ? "[groups, " : "[",
         (intmax_t)n);
  p->load_smooth = loops->load[smooth->dtype][COMPUTE_F32];
  p->smooth_column = v.strides[v.rank - 1];
  if (!group) return ST_OK;
  TRY(op_expect_dtype(group, "groupIndexOptional", DTYPES_INDEX));
  TRY(op_expect_shape(group, "groupIndexOptional", smooth->dims, 1));
  p->smooth_row = v.strides[0];
  p->n_groups = group->n;
  p->load_group = loops->load[group->dtype][COMPUTE_I64];
  p->group_step = view_of(group).strides[0];
  return ST_OK;
}

status prepare_dynamic_quant(executor *e, const dynamic_quant_args *a) {
  const bool v2 = e->op->variant == DYNAMIC_QUANT_V2;
  const tensor *x = a->x, *y = a->y_out, *scale = a->scale_out, *group = a->group_index, *offset = a->offset_out;
  const int y_view = a->view.y_out;
  dynamic_plan *p = PLAN(e, dynamic_plan);
  *p = (dynamic_plan){.asymmetric = offset != NULL, .y_view = y_view, .most = y->dtype == ACL_INT8 ? 127 : 7};
  TRY(op_expect_dtype(x, "x", DTYPES_FLOAT_TO_32));
  TRY(op_expect_rank(x, "x", 2, MAX_RANK));
  TRY(plan_smooth(p, x, a->smooth_scales, group));
  TRY(op_expect_dtype(y, "yOut", DTYPE_BIT(ACL_INT8) | DTYPES_NIBBLES));
  EXPECT(!v2 || a->dst_type == y->dtype, "dstType is %jd, expected that of yOut, %d", (intmax_t)a->dst_type, y->dtype);
  TRY(op_expect_dtype(scale, "scaleOut", DTYPE_BIT(ACL_FLOAT)));
  TRY(op_expect_shape(scale, "scaleOut", x->dims, x->rank - 1));
  if (offset) {
    TRY(op_expect_dtype(offset, "offsetOut", DTYPE_BIT(ACL_FLOAT)));
    TRY(op_expect_shape(offset, "offsetOut", x->dims, x->rank - 1));
  }
  view to = view_contiguous(ACL_INT8, x->rank, x->dims);
  if (y->dtype == ACL_INT8) {
    TRY(op_expect_same_shape(y, "yOut", x));
    to = view_of(y);
  } else {
    TRY(nibbles_operand(e, y_view, y, "yOut", x->dims, x->rank));
    p->n_packed = x->n;
    p->bytes = workspace_intermediate(e, (uint64_t)x->n);
  }
  panel_plan_init(&p->rows, COMPUTE_F32, x->rank - 1, 1, x->dims);
  panel_add_tensor(&p->rows, PANEL_READ, DYNAMIC_QUANT_X, x, NULL);
  panel_add(&p->rows, PANEL_WRITTEN, y_view, &to);
  panel_add_tensor(&p->rows, PANEL_ROW_WRITTEN, a->view.scale_out, scale, NULL);
  if (offset) panel_add_tensor(&p->rows, PANEL_ROW_WRITTEN, DYNAMIC_QUANT_OFFSET_OUT, offset, NULL);
  panel_plan_end(&p->rows, true);
  executor_cost(e, (uint64_t)x->n * (dtype_bytes(x->dtype) + 1), (uint64_t)x->n * 8);
  e->run = x->n ? run_dynamic : move_run_nothing;
  return ST_OK;
}

/* ---- GroupQuant -------------------------------------------------------------------------------------------------- */

typedef struct {
  view x, y, scale; /* x, y: [rows, n], where y may be the int8 copy in scratch; scale: [groups, n] */
  int offset_dtype; /* -1: no offset */
  load_loop *load_group;
  int64_t group_step;
  int64_t n_packed;
  uint64_t bytes;
} group_plan;

static status run_groups(const executor *e, void *const *at, void *scratch) {
  static const float zero;
  const group_plan *p = PLAN(e, group_plan);
  char *const to = p->n_packed ? (char *)scratch + p->bytes : at[GROUP_QUANT_Y];
  void *const offset = p->offset_dtype < 0 ? (void *)(uintptr_t)&zero : at[GROUP_QUANT_OFFSET];
  const view offset_view = {.dtype = p->offset_dtype < 0 ? ACL_FLOAT : p->offset_dtype};
  int64_t begin = 0, end = 0;
  for (int64_t g = 0; g < p->scale.dims[0]; ++g, begin = end) {
    p->load_group(&end, (char *)at[GROUP_QUANT_GROUP_INDEX] + g * p->group_step, p->group_step, 1);
    if (end < begin || end > p->x.dims[0] || (g == p->scale.dims[0] - 1 && end != p->x.dims[0]))
      return fail(ST_DEVICE_EXCEPTION, "groupIndex[%jd] is %jd, expected %jd to %jd, the last of them at the end",
                  (intmax_t)g, (intmax_t)end, (intmax_t)begin, (intmax_t)p->x.dims[0]);
    if (begin == end) continue;
    view x = p->x, y = p->y, scale = p->scale;
    x.dims[0] = y.dims[0] = end - begin;
    scale.dims[0] = 1;
    elementwise_plan plan;
    elementwise_plan_init(&plan, EW_scale_round, COMPUTE_F32, &y, (const view *const[]){&x, &scale, &offset_view}, 3);
    plan.parameter[0].f32 = plan.parameter[1].f32 = 0;
    elementwise_run(&plan,
                    (void *const[]){to + begin * y.strides[0], (char *)at[GROUP_QUANT_X] + begin * x.strides[0],
                                    (char *)at[GROUP_QUANT_SCALE] + g * scale.strides[0], offset},
                    e->cost_ns);
  }
  if (p->n_packed) nibbles_pack(at[GROUP_QUANT_Y], (const int8_t *)to, p->n_packed);
  return ST_OK;
}

/* x is [rows, n], scale [groups, n], groupIndex [groups]. */
status prepare_group_quant(executor *e, const group_quant_args *a) {
  const tensor *x = a->x, *scale = a->scale, *index = a->group_index, *offset = a->offset, *y = a->y;
  group_plan *p = PLAN(e, group_plan);
  TRY(op_expect_dtype(x, "x", DTYPES_FLOAT_TO_32));
  TRY(op_expect_rank(x, "x", 2, 2));
  TRY(op_expect_dtype(scale, "scale", DTYPES_FLOAT_TO_32));
  EXPECT(scale->rank == 2 && scale->dims[0] > 0 && scale->dims[1] == x->dims[1],
         "scale has shape %s, expected [1 or more, %jd]", SHAPE_OF(scale), (intmax_t)x->dims[1]);
  TRY(op_expect_dtype(index, "groupIndex", DTYPES_INDEX));
  TRY(op_expect_shape(index, "groupIndex", scale->dims, 1));
  if (offset) TRY(op_expect_one(offset, "offsetOptional", DTYPE_BIT(scale->dtype)));
  const int64_t to = a->dst_type;
  EXPECT(to == ACL_INT8 || to == ACL_INT32 || to == ACL_INT4,
         "dstType is %jd, expected 2 (INT8), 3 (INT32, eight int4 each) or 29 (INT4)", (intmax_t)to);
  TRY(op_expect_dtype(y, "y", DTYPE_BIT(to)));
  *p = (group_plan){.x = view_of(x),
                    .y = view_contiguous(ACL_INT8, 2, x->dims),
                    .scale = view_of(scale),
                    .offset_dtype = offset ? offset->dtype : -1,
                    .load_group = loops->load[index->dtype][COMPUTE_I64],
                    .group_step = view_of(index).strides[0]};
  if (to == ACL_INT8) {
    TRY(op_expect_shape(y, "y", x->dims, 2));
    p->y = view_of(y);
  } else {
    TRY(nibbles_operand(e, GROUP_QUANT_Y, y, "y", x->dims, 2));
    p->n_packed = x->n;
    p->bytes = workspace_intermediate(e, (uint64_t)x->n);
  }
  executor_cost(e, (uint64_t)x->n * (dtype_bytes(x->dtype) + 1), (uint64_t)x->n * 8);
  e->run = x->n ? run_groups : move_run_nothing;
  return ST_OK;
}
