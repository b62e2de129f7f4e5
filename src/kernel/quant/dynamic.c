/* SPDX-License-Identifier: Apache-2.0 */
/* DynamicQuant, V2, V3 and V4: quantise rows with a scale (and an offset) from each row's extremes. Before that, a row
 * may be multiplied by smooth scales, common to all rows or to the group of the row. A row is a token; for V3 and V4 it
 * may be a channel, with the last two dimensions exchanged, or all rows may have the scale of the whole tensor.
 * GroupQuant: quantises rows with given scales of their groups. */
#include <math.h>
#include <string.h>

#include "kernel/families.h"
#include "kernel/move/check.h"
#include "kernel/norm/panels.h"
#include "kernel/quant/nibbles.h"
#include "kernel/quant/row.h"

enum { TILE = 1024 };

/* Operands behind those of the schema, for the extremes of rows where the tensor has one scale. */
enum { LOWS = DYNAMIC_QUANT_OFFSET_OUT + 1, HIGHS, VIEWS };

typedef struct {
  panel_plan rows; /* tensors: x, y, the scales, the offsets; or x, y, the extremes */
  float most;      /* largest integer of y's type */
  bool asymmetric, per_tensor;
  load_loop *load_smooth; /* NULL: no smooth scales */
  int64_t smooth_row, smooth_column;
  load_loop *load_group; /* NULL: a single group */
  int64_t group_step, n_groups;
  int y_view, scale_view;
  int64_t n_packed; /* number of int4 elements in y; 0: y is int8 */
  uint64_t bytes;   /* in scratch: int8 copy of y */
  uint64_t lows;    /* in scratch, floats [2, rows]: the extremes */
} dynamic_plan;

typedef struct {
  const dynamic_plan *plan;
  const char *smooth, *group;
  float scale, offset; /* of the tensor */
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

/* Returns row i of x, times the smooth scales of its group, in y's tile where there are any. */
static const float *smooth_row(const dynamic_job *j, const panel *panel, int i) {
  const dynamic_plan *p = j->plan;
  const float *const x = panel_floats(panel, 0, i);
  float smooth[TILE];
  if (!p->load_smooth) return x;
  float *const y = panel_floats(panel, 1, i);
  const int64_t group = group_of(j, panel->row + i);
  if (group >= p->n_groups) return x;
  for (int64_t k = 0, n; k < panel->n; k += n) {
    n = i64_min(TILE, panel->n - k);
    p->load_smooth(smooth, j->smooth + group * p->smooth_row + k * p->smooth_column, p->smooth_column, n);
    quant_row_smooth(y + k, x + k, smooth, n);
  }
  return y;
}

static void quantise_panel(const void *op, const panel *panel) {
  const dynamic_job *j = op;
  const dynamic_plan *p = j->plan;
  for (int i = 0; i < panel->width; ++i) {
    const float *const x = smooth_row(j, panel, i);
    float *const y = panel_floats(panel, 1, i);
    if (p->per_tensor)
      quant_row_uniform(y, x, j->scale, p->asymmetric ? &j->offset : NULL, panel->n);
    else if (p->asymmetric)
      *panel_floats(panel, 2, i) = quant_row_asymmetric(y, x, p->most, panel_floats(panel, 3, i), panel->n);
    else
      *panel_floats(panel, 2, i) = quant_row_dynamic(y, x, p->most, panel->n);
  }
}

static void extremes_panel(const void *op, const panel *panel) {
  const dynamic_job *j = op;
  for (int i = 0; i < panel->width; ++i) {
    const quant_extremes x = quant_row_extremes(smooth_row(j, panel, i), !j->plan->asymmetric, panel->n);
    *panel_floats(panel, 2, i) = x.low;
    *panel_floats(panel, 3, i) = x.high;
  }
}

/* The scale and the offset of the whole tensor, from the extremes of all rows. */
static status find_tensor_scale(const executor *e, dynamic_job *j, void *const *views) {
  const dynamic_plan *p = j->plan;
  const float *const lows = views[LOWS], *const highs = views[HIGHS];
  /* y's tiles are room for the smooth scales' products */
  TRY(panels_run(
      &(panel_job){
          .plan = &p->rows, .view = views, .body = extremes_panel, .op = j, .unused = p->load_smooth ? 0 : 1u << 1},
      e->cost_ns));
  quant_extremes x = {.low = lows[0], .high = highs[0]};
  for (int64_t i = 1; i < p->rows.n_rows; ++i) {
    if (lows[i] < x.low || isnan(lows[i])) x.low = lows[i];
    if (highs[i] > x.high || isnan(highs[i])) x.high = highs[i];
  }
  j->scale = p->asymmetric ? quant_scale_asymmetric(x, p->most, &j->offset) : quant_scale_symmetric(x, p->most);
  memcpy(views[p->scale_view], &j->scale, sizeof j->scale);
  if (p->asymmetric) memcpy(views[DYNAMIC_QUANT_OFFSET_OUT], &j->offset, sizeof j->offset);
  return ST_OK;
}

static status run_dynamic(const executor *e, void *const *view, void *scratch) {
  const dynamic_plan *p = PLAN(e, dynamic_plan);
  int8_t *const bytes = (int8_t *)scratch + p->bytes;
  void *views[VIEWS] = {NULL};
  for (int i = 0; i < e->n_operands; ++i) views[i] = i == p->y_view && p->n_packed ? bytes : view[i];
  dynamic_job job = {.plan = p, .smooth = view[DYNAMIC_QUANT_SMOOTH_SCALES], .group = view[DYNAMIC_QUANT_GROUP_INDEX]};
  if (p->per_tensor) {
    views[LOWS] = (char *)scratch + p->lows;
    views[HIGHS] = (float *)views[LOWS] + p->rows.n_rows;
    TRY(find_tensor_scale(e, &job, views));
  }
  TRY(panels_run(&(panel_job){.plan = &p->rows,
                              .view = views,
                              .body = quantise_panel,
                              .op = &job,
                              .unused = p->per_tensor ? 1u << 2 | 1u << 3 : 0},
                 e->cost_ns));
  if (p->n_packed) nibbles_pack(view[p->y_view], bytes, p->n_packed);
  return ST_OK;
}

/* Checks and plans smooth, for rows of n elements: [n], or [groups, n] with a group index [groups]. */
static status plan_smooth(dynamic_plan *p, const tensor *x, int64_t n, const tensor *smooth, const tensor *group) {
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

typedef enum { PER_TOKEN, PER_TENSOR, PER_CHANNEL } scale_mode;

/* Checks the arguments that V3 and V4 add. */
static status dynamic_plan_mode(const dynamic_quant_args *a, bool v4, scale_mode *mode) {
  static const char *const names[] = {"pertoken", "pertensor", "perchannel"};
  int found = PER_TOKEN;
  while (found <= PER_CHANNEL && strcmp(a->quant_mode, names[found]) != 0) ++found;
  EXPECT(found <= PER_CHANNEL, "quantMode is %s, expected pertoken, pertensor or perchannel", a->quant_mode);
  *mode = (scale_mode)found;
  EXPECT(*mode == PER_TOKEN || !a->group_index, "groupIndexOptional is a tensor, expected none with quantMode %s",
         a->quant_mode);
  EXPECT(a->is_symmetrical == !a->offset_out, "offsetOut is %s, expected %s where isSymmetrical is %s",
         a->offset_out ? "a tensor" : "NULL", a->is_symmetrical ? "NULL" : "a tensor",
         a->is_symmetrical ? "true" : "false");
  EXPECT(!v4 || (a->dst_type_max >= 0 && a->dst_type_max <= 32768), "dstTypeMax is %g, expected 0 to 32768",
         a->dst_type_max);
  return ST_OK;
}

/* The dimensions of a view of x or y, the last two of them exchanged where rows are channels. */
static view rows_view(view v, scale_mode mode) {
  const int r = v.rank;
  if (mode != PER_CHANNEL) return v;
  const int64_t dim = v.dims[r - 1], stride = v.strides[r - 1];
  v.dims[r - 1] = v.dims[r - 2];
  v.strides[r - 1] = v.strides[r - 2];
  v.dims[r - 2] = dim;
  v.strides[r - 2] = stride;
  return v;
}

/* Checks y, and plans an int8 copy if it is int4. */
static status dynamic_plan_y(executor *e, dynamic_plan *p, const tensor *x, const tensor *y, view *to) {
  p->most = 127;
  if (y->dtype == ACL_INT8) {
    TRY(op_expect_same_shape(y, "yOut", x));
    *to = view_of(y);
    return ST_OK;
  }
  TRY(nibbles_operand(e, p->y_view, y, "yOut", x->dims, x->rank));
  p->most = 7;
  p->n_packed = x->n;
  p->bytes = workspace_intermediate(e, (uint64_t)x->n);
  *to = view_contiguous(ACL_INT8, x->rank, x->dims);
  return ST_OK;
}

/* Checks a result with a number for each row, or for the tensor. */
static status expect_row_numbers(const tensor *t, const char *name, scale_mode mode, const view *rows) {
  TRY(op_expect_dtype(t, name, DTYPE_BIT(ACL_FLOAT)));
  return mode == PER_TENSOR ? op_expect_shape(t, name, (const int64_t[]){1}, 1)
                            : op_expect_shape(t, name, rows->dims, rows->rank - 1);
}

static void plan_panels(executor *e, dynamic_plan *p, const dynamic_quant_args *a, const view *from, const view *to) {
  const tensor *scale = a->scale_out, *offset = a->offset_out;
  const int r = from->rank - 1;
  panel_plan_init(&p->rows, COMPUTE_F32, r, 1, from->dims);
  panel_add(&p->rows, PANEL_READ, DYNAMIC_QUANT_X, from);
  panel_add(&p->rows, PANEL_WRITTEN, p->y_view, to);
  if (p->per_tensor) {
    const view numbers = view_contiguous(ACL_FLOAT, r, from->dims);
    panel_add(&p->rows, PANEL_ROW_WRITTEN, LOWS, &numbers);
    panel_add(&p->rows, PANEL_ROW_WRITTEN, HIGHS, &numbers);
  } else {
    panel_add_tensor(&p->rows, PANEL_ROW_WRITTEN, p->scale_view, scale, NULL);
    if (offset) panel_add_tensor(&p->rows, PANEL_ROW_WRITTEN, DYNAMIC_QUANT_OFFSET_OUT, offset, NULL);
  }
  panel_plan_end(&p->rows, true);
  if (p->per_tensor) p->lows = workspace_intermediate(e, 2 * (uint64_t)p->rows.n_rows * sizeof(float));
}

status prepare_dynamic_quant(executor *e, const dynamic_quant_args *a) {
  const int variant = e->op->variant;
  const tensor *x = a->x, *y = a->y_out, *group = a->group_index, *offset = a->offset_out;
  scale_mode mode = PER_TOKEN;
  view to;
  dynamic_plan *p = PLAN(e, dynamic_plan);
  *p = (dynamic_plan){.asymmetric = offset != NULL, .y_view = a->view.y_out, .scale_view = a->view.scale_out};
  TRY(op_expect_dtype(x, "x", DTYPES_FLOAT_TO_32));
  TRY(op_expect_rank(x, "x", 2, MAX_RANK));
  if (variant == DYNAMIC_QUANT_V3 || variant == DYNAMIC_QUANT_V4)
    TRY(dynamic_plan_mode(a, variant == DYNAMIC_QUANT_V4, &mode));
  p->per_tensor = mode == PER_TENSOR;
  const view from = rows_view(view_of(x), mode);
  TRY(plan_smooth(p, x, from.dims[from.rank - 1], a->smooth_scales, group));
  TRY(op_expect_dtype(y, "yOut", DTYPE_BIT(ACL_INT8) | DTYPES_NIBBLES));
  EXPECT(variant == DYNAMIC_QUANT || a->dst_type == y->dtype, "dstType is %jd, expected that of yOut, %d",
         (intmax_t)a->dst_type, y->dtype);
  TRY(expect_row_numbers(a->scale_out, "scaleOut", mode, &from));
  if (offset) TRY(expect_row_numbers(offset, "offsetOut", mode, &from));
  TRY(dynamic_plan_y(e, p, x, y, &to));
  to = rows_view(to, mode);
  plan_panels(e, p, a, &from, &to);
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
