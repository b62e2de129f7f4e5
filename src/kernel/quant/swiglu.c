/* SPDX-License-Identifier: Apache-2.0 */
/* SwiGluQuant and DequantSwigluQuant, and their second versions: silu of one half of a row times the other half,
 * quantised to int8 or int4. Rows belong to groups, whose ends or sizes a tensor has, with vectors of their own; rows
 * behind the last group are not written.
 *
 *   x of int32 is dequantised first: (x + bias) * weight scale * activation scale, in double, rounded to float
 *   clipped (swigluMode 1 and 2): a = min(a, limit), b = clamp(b, limit); a * sigmoid(alpha * a) * (b + bias)
 *   dynamic: v = swiglu * smooth scale; y = round(v * most / max|v|), and the row's scale is given out
 *   static: y = round(swiglu * smooth scale + offset) */
#include <math.h>
#include <string.h>

#include "kernel/engine/rows.h"
#include "kernel/engine/scratch.h"
#include "kernel/families.h"
#include "kernel/move/check.h"
#include "kernel/quant/nibbles.h"
#include "kernel/quant/row.h"

enum { ABSENT = -1, X = 0, Y, SCALE, ACTIVATION, OPERANDS };

/* A vector along columns for each group. */
typedef struct {
  int operand; /* ABSENT: not given */
  load_loop *load;
  int64_t group, column; /* strides in bytes; 0: one for all */
} group_vector;

typedef struct {
  walk rows; /* the operands of the enum; an absent one stands for Y */
  int64_t n, along_x, along_y;
  group_vector smooth, offset, weight, bias;
  int64_t n_groups, group_step;
  load_loop *load_x, *load_group; /* x: to double. load_group: NULL: one group */
  store_loop *store;
  int y_view, scale_view, activation_view, group_view;
  bool left, dynamic, inverse, by_size; /* inverse: the scale given out is most / max */
  bool clipped, interleaved;            /* interleaved: the halves are the even and the odd elements */
  float most;                           /* largest integer of y's type */
  float limit, alpha, linear_bias;      /* where clipped */
  bool packs;                           /* y is int4 */
  uint64_t bytes;                       /* in scratch, where y is int4: int8 copy of y */
  uint64_t ends;                        /* in scratch, int64: of the groups */
} swiglu_plan;

typedef struct {
  const swiglu_plan *plan;
  void *const *view;
  void *at[OPERANDS];
  const int64_t *ends;
  status *result;
} swiglu_job;

static const float *vector_of(const swiglu_job *j, const group_vector *v, int64_t group, int64_t n, float *to) {
  v->load(to, (const char *)j->view[v->operand] + group * v->group, v->column, n);
  return to;
}

/* x = the row as floats. wide: room for 2n doubles; part: for 2n floats. */
static void swiglu_load(const swiglu_job *j, const cursor *c, int64_t group, double *wide, float *part, float *x) {
  const swiglu_plan *p = j->plan;
  const int64_t n = 2 * p->n;
  float by_row = 1;
  p->load_x(wide, c->at[X], p->along_x, n);
  if (p->bias.operand != ABSENT) {
    const char *const bias = (const char *)j->view[p->bias.operand] + group * p->bias.group;
    for (int64_t i = 0; i < n; ++i) wide[i] += *(const int32_t *)(const void *)(bias + i * p->bias.column);
  }
  if (p->weight.operand != ABSENT) {
    vector_of(j, &p->weight, group, n, part);
    for (int64_t i = 0; i < n; ++i) wide[i] *= part[i];
  }
  if (p->activation_view != ABSENT) memcpy(&by_row, c->at[ACTIVATION], sizeof by_row);
  for (int64_t i = 0; i < n; ++i) x[i] = (float)(wide[i] * by_row);
}

/* y = the activation of x, a row of 2n floats. part: room for as many. */
static void swiglu_activate(const swiglu_plan *p, const float *x, float *part, float *y) {
  const int64_t n = p->n;
  if (!p->clipped) {
    quant_row_swiglu(y, x, p->left, n);
    return;
  }
  const int64_t step = p->interleaved ? 2 : 1, other = p->interleaved ? 1 : n;
  for (int64_t i = 0; i < n; ++i) {
    part[i] = x[i * step];
    part[n + i] = x[i * step + other];
  }
  quant_row_clipped_swiglu(y, part, p->limit, p->alpha, p->linear_bias, n);
}

static void swiglu_quantise(const swiglu_job *j, const cursor *c, int64_t group, double *room) {
  const swiglu_plan *p = j->plan;
  const int64_t n = p->n;
  float *const part = (float *)(void *)(room + 2 * n), *const x = part + 2 * n, *const y = x + 2 * n;
  swiglu_load(j, c, group, room, part, x);
  swiglu_activate(p, x, part, y);
  if (p->smooth.operand != ABSENT) quant_row_smooth(y, y, vector_of(j, &p->smooth, group, n, part), n);
  if (p->dynamic) {
    const float scale = quant_row_dynamic(x, y, p->most, n), given = p->inverse ? 1 / scale : scale;
    memcpy(c->at[SCALE], &given, sizeof given);
    p->store(c->at[Y], p->along_y, x, n);
    return;
  }
  if (p->offset.operand != ABSENT) {
    vector_of(j, &p->offset, group, n, part);
    for (int64_t i = 0; i < n; ++i) y[i] += part[i];
  }
  for (int64_t i = 0; i < n; ++i) y[i] = rintf(y[i]);
  p->store(c->at[Y], p->along_y, y, n);
}

static void swiglu_rows(const void *arg, int64_t begin, int64_t end) {
  const swiglu_job *j = arg;
  const swiglu_plan *p = j->plan;
  double *const room = (double *)(void *)scratch_take((size_t)p->n * (2 * sizeof(double) + 5 * sizeof(float)));
  if (!room) {
    __atomic_store_n(j->result, ST_NO_MEMORY, __ATOMIC_RELAXED);
    return;
  }
  int64_t group = 0;
  cursor c;
  cursor_start(&c, &p->rows, j->at, begin);
  for (; begin < end; ++begin, cursor_next(&c, 1)) {
    while (group < p->n_groups && begin >= j->ends[group]) ++group;
    if (group < p->n_groups) swiglu_quantise(j, &c, group, room);
  }
}

static status swiglu_ends(const swiglu_plan *p, const char *from, int64_t *ends) {
  ends[0] = p->rows.n;
  if (!p->load_group) return ST_OK;
  int64_t last = 0;
  for (int64_t g = 0; g < p->n_groups; ++g, last = ends[g - 1]) {
    int64_t value;
    p->load_group(&value, from + g * p->group_step, 0, 1);
    const int64_t end = p->by_size ? last + value : value;
    if (value < 0 || end < last || end > p->rows.n)
      return fail(ST_DEVICE_EXCEPTION, "groupIndexOptional[%jd] is %jd, expected %jd to %jd: x has %jd rows",
                  (intmax_t)g, (intmax_t)value, (intmax_t)(p->by_size ? 0 : last),
                  (intmax_t)(p->rows.n - (p->by_size ? last : 0)), (intmax_t)p->rows.n);
    ends[g] = end;
  }
  return ST_OK;
}

static status run_swiglu_quant(const executor *e, void *const *view, void *scratch) {
  const swiglu_plan *p = PLAN(e, swiglu_plan);
  int64_t *const ends = (int64_t *)(void *)((char *)scratch + p->ends);
  void *const y = p->packs ? (char *)scratch + p->bytes : view[p->y_view];
  TRY(swiglu_ends(p, p->load_group ? view[p->group_view] : NULL, ends));
  status result = ST_OK;
  const swiglu_job job = {.plan = p,
                          .view = view,
                          .at = {view[SWIGLU_QUANT_X], y, p->dynamic ? view[p->scale_view] : y,
                                 p->activation_view == ABSENT ? y : view[p->activation_view]},
                          .ends = ends,
                          .result = &result};
  rows_parallel(swiglu_rows, &job, p->rows.n, 1, e->cost_ns);
  if (p->packs) nibbles_pack(view[p->y_view], y, ends[p->n_groups - 1] * p->n);
  return result;
}

/* ---- preparation ------------------------------------------------------------------------------------------------- */

/* Plans a vector of n columns: [groups, n], or [n] where there is one group; where `numbers`, [groups] or [1], too. */
static status plan_vector(const swiglu_plan *p, const tensor *t, const char *name, int operand, uint64_t dtypes,
                          int64_t n, bool numbers, group_vector *v) {
  *v = (group_vector){.operand = ABSENT};
  if (!t) return ST_OK;
  TRY(op_expect_dtype(t, name, dtypes));
  const view w = view_of(t);
  const bool by_group = numbers && w.rank == 1 && w.dims[0] == p->n_groups;
  const bool fits = by_group || (w.rank == 2 && w.dims[0] == p->n_groups && w.dims[1] == n) ||
                    (w.rank == 1 && p->n_groups == 1 && w.dims[0] == n);
  EXPECT(fits, "%s has shape %s, expected [%jd, %jd]%s", name, SHAPE_OF(t), (intmax_t)p->n_groups, (intmax_t)n,
         numbers ? " or [groups]" : "");
  *v = (group_vector){.operand = operand, .load = loops->load[t->dtype][COMPUTE_F32]};
  if (by_group || w.rank == 2) v->group = w.strides[0];
  if (!by_group) v->column = w.strides[w.rank - 1];
  return ST_OK;
}

static status plan_groups(executor *e, swiglu_plan *p, const tensor *group, uint64_t dtypes) {
  p->n_groups = 1;
  if (group) {
    TRY(op_expect_dtype(group, "groupIndexOptional", dtypes));
    TRY(op_expect_rank(group, "groupIndexOptional", 1, 1));
    EXPECT(group->n > 0, "groupIndexOptional has shape [0], expected 1 group or more");
    p->n_groups = group->n;
    p->load_group = loops->load[group->dtype][COMPUTE_I64];
    p->group_step = view_of(group).strides[0];
  }
  p->ends = workspace_intermediate(e, (uint64_t)p->n_groups * sizeof(int64_t));
  return ST_OK;
}

/* The arguments of DequantSwigluQuant before the activation. */
static status plan_dequant(swiglu_plan *p, const swiglu_quant_args *a) {
  const tensor *x = a->x, *activation = a->activation_scale, *bias = a->bias;
  TRY(plan_vector(p, a->weight_scale, "weightScaleOptional", SWIGLU_QUANT_WEIGHT_SCALE, DTYPE_BIT(ACL_FLOAT), 2 * p->n,
                  false, &p->weight));
  EXPECT(!bias || x->dtype == ACL_INT32, "biasOptional is a tensor, expected none where x is %s", dtype_name(x->dtype));
  TRY(plan_vector(p, bias, "biasOptional", SWIGLU_QUANT_BIAS, DTYPE_BIT(ACL_INT32), 2 * p->n, false, &p->bias));
  if (!activation) return ST_OK;
  TRY(op_expect_dtype(activation, "activationScaleOptional", DTYPE_BIT(ACL_FLOAT)));
  const int r = x->rank - 1;
  bool fits = activation->rank == r || (activation->rank == r + 1 && activation->dims[r] == 1);
  for (int d = 0; d < r; ++d) fits = fits && activation->dims[d] == x->dims[d];
  EXPECT(fits, "activationScaleOptional has shape %s, expected that of x, %s, with 1 as its last dimension",
         SHAPE_OF(activation), SHAPE_OF(x));
  p->activation_view = SWIGLU_QUANT_ACTIVATION_SCALE;
  return ST_OK;
}

/* The quantisation by given scales is SwiGluQuant's only: no page says what DequantSwigluQuant does with them. */
static status plan_mode(swiglu_plan *p, const swiglu_quant_args *a, bool dequant, bool is_second) {
  const char *const mode = a->quant_mode;
  p->dynamic = dequant ? mode && strcmp(mode, "dynamic") == 0 : !mode || strcmp(mode, "dynamic") == 0;
  EXPECT(p->dynamic || (!dequant && strcmp(mode, "static") == 0), "quantModeOptional is %s, expected dynamic%s",
         mode ? mode : "NULL", dequant ? "" : " or static");
  const uint64_t floats = dequant ? DTYPE_BIT(ACL_FLOAT) | DTYPE_BIT(ACL_FLOAT16) : DTYPE_BIT(ACL_FLOAT);
  const bool numbers = !dequant || is_second;
  TRY(plan_vector(p, a->quant_scale, a->name.quant_scale, a->view.quant_scale, floats, p->n, numbers, &p->smooth));
  EXPECT(!dequant || !a->quant_offset, "quantOffsetOptional is a tensor, expected none with quantMode dynamic");
  EXPECT(p->dynamic || a->quant_scale, "%s is NULL, expected a tensor with quantMode static", a->name.quant_scale);
  return plan_vector(p, p->dynamic ? NULL : a->quant_offset, a->name.quant_offset, a->view.quant_offset,
                     DTYPE_BIT(ACL_FLOAT), p->n, true, &p->offset);
}

/* The arguments that DequantSwigluQuantV2 adds. Those that select what only newer processors have are refused. */
static status plan_dequant_v2(swiglu_plan *p, const swiglu_quant_args *a) {
  const int64_t mode = a->swiglu_mode, r = a->x->rank;
  const bool is_integer = a->x->dtype == ACL_INT32;
  EXPECT(is_integer == (a->weight_scale != NULL), "weightScaleOptional is %s, expected %s where x is %s",
         a->weight_scale ? "a tensor" : "NULL", is_integer ? "a tensor" : "NULL", dtype_name(a->x->dtype));
  EXPECT(is_integer || !a->activation_scale, "activationScaleOptional is a tensor, expected NULL where x is %s",
         dtype_name(a->x->dtype));
  EXPECT(a->dst_type == ACL_INT8, "dstType is %jd, expected 2 (INT8)", (intmax_t)a->dst_type);
  EXPECT(!a->round_mode || strcmp(a->round_mode, "rint") == 0, "roundModeOptional is %s, expected rint", a->round_mode);
  EXPECT(a->activate_dim == -1 || a->activate_dim == r - 1, "activateDim is %jd, expected -1, the last dimension",
         (intmax_t)a->activate_dim);
  EXPECT(mode >= 0 && mode <= 2, "swigluMode is %jd, expected 0 to 2", (intmax_t)mode);
  if (!mode) return ST_OK;
  EXPECT(a->activate_left, "activateLeft is false, expected true with swigluMode %jd", (intmax_t)mode);
  EXPECT(a->clamp_limit > 0 && isfinite(a->clamp_limit), "clampLimit is %g, expected more than 0, and finite",
         a->clamp_limit);
  p->clipped = true;
  p->interleaved = mode == 1;
  p->limit = (float)a->clamp_limit;
  p->alpha = (float)a->glu_alpha;
  p->linear_bias = (float)a->glu_bias;
  return ST_OK;
}

/* Checks y, whose dims are given, and plans an int8 copy if it is int4. */
static status swiglu_plan_y(executor *e, swiglu_plan *p, const swiglu_quant_args *a, const int64_t *dims, bool may_pack,
                            view *to) {
  const tensor *y = a->y_out;
  const int rank = a->x->rank;
  p->most = 127;
  p->packs = may_pack && a->dst_type == ACL_INT4;
  EXPECT(!may_pack || p->packs || a->dst_type == ACL_INT8, "dstType is %jd, expected 2 (INT8) or 29 (INT4)",
         (intmax_t)a->dst_type);
  if (!p->packs) {
    TRY(op_expect_dtype(y, "yOut", DTYPE_BIT(ACL_INT8)));
    TRY(op_expect_shape(y, "yOut", dims, rank));
    *to = view_of(y);
    return ST_OK;
  }
  p->most = 7;
  TRY(op_expect_dtype(y, "yOut", DTYPE_BIT(ACL_INT8) | DTYPE_BIT(ACL_INT4)));
  TRY(nibbles_operand(e, a->view.y_out, y, "yOut", dims, rank));
  p->bytes = workspace_intermediate(e, (uint64_t)(a->x->n / 2));
  *to = view_contiguous(ACL_INT8, rank, dims);
  return ST_OK;
}

status prepare_swiglu_quant(executor *e, const swiglu_quant_args *a) {
  const int variant = e->op->variant;
  const bool dequant = variant == DEQUANT_SWIGLU_QUANT || variant == DEQUANT_SWIGLU_QUANT_V2;
  const bool is_second = variant == SWIGLU_QUANT_V2 || variant == DEQUANT_SWIGLU_QUANT_V2;
  const tensor *x = a->x, *scale = a->scale_out;
  const int r = x->rank - 1;
  int64_t dims[MAX_RANK];
  view y;
  swiglu_plan *p = PLAN(e, swiglu_plan);
  *p = (swiglu_plan){.left = a->activate_left, .inverse = !dequant, .by_size = dequant, .activation_view = ABSENT};
  p->weight.operand = p->bias.operand = ABSENT;
  TRY(op_expect_dtype(x, "x", DTYPES_HALF | DTYPE_BIT(dequant ? ACL_INT32 : ACL_FLOAT)));
  TRY(op_expect_rank(x, "x", 2, MAX_RANK));
  EXPECT(x->dims[r] % 2 == 0, "x has shape %s, expected an even last dimension", SHAPE_OF(x));
  p->n = x->dims[r] / 2;
  memcpy(dims, x->dims, sizeof dims);
  dims[r] = p->n;
  TRY(swiglu_plan_y(e, p, a, dims, variant == SWIGLU_QUANT_V2, &y));
  if (variant == SWIGLU_QUANT_V2) {
    const int64_t type = a->group_list_type;
    EXPECT(type == 0 || type == 1, "groupListType is %jd, expected 0 (ends) or 1 (sizes)", (intmax_t)type);
    p->by_size = type == 1;
  }
  TRY(plan_groups(e, p, a->group_index, dequant ? DTYPES_INDEX : DTYPE_BIT(ACL_INT32)));
  TRY(plan_mode(p, a, dequant, is_second));
  if (dequant) TRY(plan_dequant(p, a));
  if (variant == DEQUANT_SWIGLU_QUANT_V2) TRY(plan_dequant_v2(p, a));
  TRY(op_expect_dtype(scale, "scaleOut", DTYPE_BIT(ACL_FLOAT)));
  TRY(op_expect_shape(scale, "scaleOut", x->dims, r));
  const view v[OPERANDS] = {view_of(x), y, p->dynamic ? view_of(scale) : y,
                            p->activation_view == ABSENT ? y : view_of(a->activation_scale)};
  walk_init(&p->rows, (const view *const[]){&v[X], &v[Y], &v[SCALE], &v[ACTIVATION]}, OPERANDS, r);
  p->along_x = v[X].strides[r];
  p->along_y = v[Y].strides[r];
  p->load_x = loops->load[x->dtype][COMPUTE_F64];
  p->store = loops->store[ACL_INT8][COMPUTE_F32];
  p->y_view = a->view.y_out;
  p->scale_view = a->view.scale_out;
  p->group_view = a->view.group_index;
  executor_cost(e, (uint64_t)x->n * (dtype_bytes(x->dtype) + 1), (uint64_t)x->n * 32);
  e->run = x->n ? run_swiglu_quant : move_run_nothing;
  return ST_OK;
}
