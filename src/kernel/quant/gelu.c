/* SPDX-License-Identifier: Apache-2.0 */
/* GeluQuant: gelu, by erf or by tanh, and its quantisation to int8: with given scales and offsets (static), or with a
 * scale from each row's largest magnitude (dynamic), before which the row may be multiplied by given scales. */
#include <string.h>

#include "kernel/families.h"
#include "kernel/move/check.h"
#include "kernel/norm/panels.h"
#include "kernel/quant/row.h"

enum { MOST = 127 };

typedef struct {
  panel_plan rows;
  int function;                       /* EW_gelu or EW_gelu_tanh */
  int8_t y, scale, offset, scale_out; /* in the plan; -1: absent */
} gelu_quant_plan;

static void gelu_panel(const void *op, const panel *panel) {
  static const compute_value parameter[ELEMENTWISE_PARAMETERS];
  const gelu_quant_plan *p = op;
  for (int i = 0; i < panel->width; ++i) {
    float *const y = panel_floats(panel, p->y, i);
    loops->elementwise[p->function][COMPUTE_F32](
        y, (const void *const[]){panel_row(panel, 0, i), NULL, NULL, NULL, NULL}, parameter, panel->n);
    const float *const scale = p->scale < 0 ? NULL : panel_floats(panel, p->scale, i);
    if (p->scale_out < 0) {
      quant_row(y, y, scale, p->offset < 0 ? NULL : panel_floats(panel, p->offset, i), false, panel->n);
      continue;
    }
    if (scale) quant_row_smooth(y, y, scale, panel->n);
    *panel_floats(panel, p->scale_out, i) = quant_row_dynamic(y, y, MOST, panel->n);
  }
}

static status run_gelu_quant(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const gelu_quant_plan *p = PLAN(e, gelu_quant_plan);
  return panels_run(&(panel_job){.plan = &p->rows, .view = view, .body = gelu_panel, .op = p}, e->cost_ns);
}

/* Adds numbers for each column, or one for all. */
static status add_columns(gelu_quant_plan *p, const tensor *self, const tensor *t, const char *name, int view_index,
                          int8_t *index) {
  *index = -1;
  if (!t) return ST_OK;
  const int64_t n = self->dims[self->rank - 1];
  TRY(op_expect_dtype(t, name, DTYPE_BIT(self->dtype) | DTYPE_BIT(ACL_FLOAT)));
  EXPECT(t->rank == 1 && (t->n == 1 || t->n == n), "%s has shape %s, expected [1] or [%jd]", name, SHAPE_OF(t),
         (intmax_t)n);
  view v = view_of(t);
  if (t->n == 1) v.strides[0] = 0;
  v.dims[0] = n;
  *index = (int8_t)panel_add(&p->rows, PANEL_COLUMN, view_index, &v);
  return ST_OK;
}

static status gelu_modes(gelu_quant_plan *p, const gelu_quant_args *a, bool *dynamic) {
  const bool by_tanh = strcmp(a->approximate, "tanh") == 0;
  EXPECT(by_tanh || strcmp(a->approximate, "none") == 0, "approximate is %s, expected none or tanh", a->approximate);
  *dynamic = strcmp(a->quant_mode, "dynamic") == 0;
  EXPECT(*dynamic || strcmp(a->quant_mode, "static") == 0, "quantMode is %s, expected static or dynamic",
         a->quant_mode);
  EXPECT(strcmp(a->round_mode, "rint") == 0, "roundMode is %s, expected rint", a->round_mode);
  EXPECT(a->dst_type == ACL_INT8, "dstType is %jd, expected 2 (INT8)", (intmax_t)a->dst_type);
  EXPECT(*dynamic || a->input_scale, "inputScaleOptional is NULL, expected a tensor with quantMode static");
  EXPECT(!a->input_offset || a->input_scale,
         "inputOffsetOptional is a tensor, expected none without inputScaleOptional");
  EXPECT(*dynamic == (a->out_scale != NULL), "outScaleOptional is %s, expected %s with quantMode %s",
         a->out_scale ? "a tensor" : "NULL", *dynamic ? "a tensor" : "NULL", a->quant_mode);
  p->function = by_tanh ? EW_gelu_tanh : EW_gelu;
  return ST_OK;
}

/* The offset has no place in the formula of the dynamic mode, which ignores it. */
status prepare_gelu_quant(executor *e, const gelu_quant_args *a) {
  const tensor *self = a->self, *y = a->y, *out_scale = a->out_scale;
  bool dynamic;
  gelu_quant_plan *p = PLAN(e, gelu_quant_plan);
  *p = (gelu_quant_plan){.scale_out = -1};
  TRY(gelu_modes(p, a, &dynamic));
  TRY(op_expect_dtype(self, "self", DTYPES_FLOAT_TO_32));
  TRY(op_expect_rank(self, "self", dynamic ? 2 : 1, MAX_RANK));
  TRY(op_expect_dtype(y, "y", DTYPE_BIT(ACL_INT8)));
  TRY(op_expect_same_shape(y, "y", self));
  panel_plan_init(&p->rows, COMPUTE_F32, self->rank - 1, 1, self->dims);
  panel_add_tensor(&p->rows, PANEL_READ, GELU_QUANT_SELF, self, NULL);
  p->y = (int8_t)panel_add_tensor(&p->rows, PANEL_WRITTEN_APART, GELU_QUANT_Y, y, NULL);
  TRY(add_columns(p, self, a->input_scale, "inputScaleOptional", GELU_QUANT_INPUT_SCALE, &p->scale));
  if (a->input_offset) {
    TRY(op_expect_like(a->input_offset, "inputOffsetOptional", a->input_scale));
    TRY(add_columns(p, self, a->input_offset, "inputOffsetOptional", GELU_QUANT_INPUT_OFFSET, &p->offset));
  } else {
    p->offset = -1;
  }
  if (dynamic) {
    TRY(op_expect_dtype(out_scale, "outScaleOptional", DTYPE_BIT(ACL_FLOAT)));
    TRY(op_expect_shape(out_scale, "outScaleOptional", self->dims, self->rank - 1));
    p->scale_out = (int8_t)panel_add_tensor(&p->rows, PANEL_ROW_WRITTEN, GELU_QUANT_OUT_SCALE, out_scale, NULL);
  }
  panel_plan_end(&p->rows, false);
  executor_cost(e, (uint64_t)self->n * (dtype_bytes(self->dtype) + 1), (uint64_t)self->n * 48);
  e->run = self->n ? run_gelu_quant : move_run_nothing;
  return ST_OK;
}
