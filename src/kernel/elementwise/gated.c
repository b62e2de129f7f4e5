/* SPDX-License-Identifier: Apache-2.0 */
/* Gated linear units: one half of a dimension times the activation of the other half. Both halves are views of one
 * operand, so the result is one loop of the elementwise engine, and so is each half of a gradient. */
#include <stdlib.h>
#include <string.h>

#include "kernel/elementwise/elementwise_call.h"
#include "kernel/families.h"
#include "runtime/parallel.h"

/* forward(x, y) is x times the activation of y; slope(x, y, z) is x y times the activation's derivative at z. */
typedef struct {
  int16_t forward, activation, slope;
  int8_t activated_half; /* unless the call has an argument for it */
} gated_unit;

static const gated_unit GLU = {EW_glu, EW_sigmoid, EW_glu_slope, 1};
static const gated_unit SWIGLU = {EW_swiglu, EW_silu, EW_swiglu_slope, 0};
static const gated_unit GEGLU = {EW_geglu, EW_gelu, EW_geglu_slope, 1};
static const gated_unit GEGLU_TANH = {EW_geglu_tanh, EW_gelu_tanh, EW_geglu_tanh_slope, 1};

static bool is_geglu(const executor *e) {
  return e->op->variant == GATED_GEGLU || e->op->variant == GATED_GEGLU_BACKWARD;
}

/* The arguments of a call. */
typedef struct {
  gated_unit unit;
  int dim;
} gated_call;

/* A view of a part of one of the executor's operands. */
typedef struct {
  view v;
  int operand;
  int64_t offset_bytes;
} part;

enum { PASSES = 2, PASS_OPERANDS = 4 };

typedef struct {
  elementwise_plan plan;
  int64_t offset_bytes[PASS_OPERANDS];
  int8_t operand[PASS_OPERANDS];
} gated_pass;

typedef struct {
  int n_passes;
  gated_pass pass[PASSES];
} gated_plan;

static part gated_whole(const tensor *t, int operand) { return (part){view_of(t), operand, 0}; }

static part half(const tensor *t, int operand, int dim, int which) {
  part p = gated_whole(t, operand);
  p.v.dims[dim] /= 2;
  p.offset_bytes = which * p.v.dims[dim] * p.v.strides[dim];
  return p;
}

static void gated_add_pass(gated_plan *p, int function, const part *out, const part *const *in, int n_inputs) {
  gated_pass *pass = &p->pass[p->n_passes++];
  const view *views[PASS_OPERANDS];
  for (int k = 0; k <= n_inputs; ++k) {
    const part *of = k ? in[k - 1] : out;
    pass->operand[k] = (int8_t)of->operand;
    pass->offset_bytes[k] = of->offset_bytes;
    if (k) views[k - 1] = &of->v;
  }
  elementwise_plan_init(&pass->plan, function, compute_type_of(in[0]->v.dtype), &out->v, views, n_inputs);
}

static status gated_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const gated_plan *p = e->heap;
  for (int i = 0; i < p->n_passes; ++i) {
    const gated_pass *pass = &p->pass[i];
    void *at[PASS_OPERANDS];
    for (int k = 0; k <= pass->plan.n_inputs; ++k) at[k] = (char *)view[pass->operand[k]] + pass->offset_bytes[k];
    elementwise_run(&pass->plan, at, e->cost_ns / (unsigned)p->n_passes);
  }
  return ST_OK;
}

static status gated_finish(executor *e, int64_t n) {
  const gated_plan *p = e->heap;
  uint64_t bytes = 0;
  for (int k = 0; k < e->n_operands; ++k) bytes += e->operands[k].extent_bytes;
  executor_cost(e, bytes, (uint64_t)(n * p->n_passes * 64));
  e->run = gated_run;
  return ST_OK;
}

/* Checks that self is a float tensor and dim one of its dimensions, of even size. */
static status check_call(const executor *e, const gated_args *a, gated_call *c) {
  const tensor *self = a->self;
  const char *name = a->name.self;
  TRY(op_expect_dtype(self, name, DTYPES_FLOAT));
  EXPECT(self->rank > 0, "%s has 0 dimensions, expected at least 1", name);
  TRY(op_expect_dim(a->dim, "dim", self->rank, &c->dim));
  EXPECT(self->dims[c->dim] % 2 == 0, "%s has %jd elements in dimension %d, expected an even number", name,
         (intmax_t)self->dims[c->dim], c->dim);
  const bool is_swiglu = e->op->variant == GATED_SWIGLU || e->op->variant == GATED_SWIGLU_BACKWARD;
  c->unit = is_swiglu ? SWIGLU : GLU;
  if (!is_geglu(e)) return ST_OK;
  const int64_t approximate = a->approximate;
  EXPECT(approximate == 0 || approximate == 1, "approximate is %jd, expected 0 (erf) or 1 (tanh)",
         (intmax_t)approximate);
  c->unit = approximate ? GEGLU_TANH : GEGLU;
  if (a->activate_left) c->unit.activated_half = 0;
  return ST_OK;
}

/* Checks that t is a float tensor of self's shape with dim halved. */
static status check_half(const tensor *t, const char *name, const tensor *self, int dim) {
  int64_t dims[MAX_RANK];
  for (int d = 0; d < self->rank; ++d) dims[d] = d == dim ? self->dims[d] / 2 : self->dims[d];
  TRY(op_expect_dtype(t, name, DTYPES_FLOAT));
  return op_expect_shape(t, name, dims, self->rank);
}

/* GeGlu has a second output, for the activated half. */
static status gated_prepare_forward(executor *e, const gated_args *a) {
  const tensor *self = a->self;
  const bool keeps_activated = is_geglu(e);
  gated_call c;
  TRY(check_call(e, a, &c));
  TRY(check_half(a->out, a->name.out, self, c.dim));
  if (keeps_activated) TRY(check_half(a->out_gelu, "outGelu", self, c.dim));
  HEAP_PLAN(gated_plan, p, e, sizeof *p);
  const part activated = half(self, a->view.self, c.dim, c.unit.activated_half),
             other = half(self, a->view.self, c.dim, 1 - c.unit.activated_half);
  const part result = gated_whole(a->out, a->view.out);
  gated_add_pass(p, c.unit.forward, &result, (const part *const[]){&other, &activated}, 2);
  if (keeps_activated) {
    const part kept = gated_whole(a->out_gelu, GATED_OUT_GELU);
    gated_add_pass(p, c.unit.activation, &kept, (const part *const[]){&activated}, 1);
  }
  return gated_finish(e, self->n / 2);
}

/* Along the last dimension, with the first half activated. */
status prepare_gelu_mul(executor *e, const gelu_mul_args *a) {
  const tensor *input = a->input;
  const char *approximate = a->approximate ? a->approximate : "none";
  const bool tanh = !strcmp(approximate, "tanh");
  TRY(op_expect_dtype(input, "input", DTYPES_FLOAT));
  EXPECT(input->rank > 0 && input->dims[input->rank - 1] % 2 == 0,
         "input has shape %s, expected an even number of elements in the last dimension", SHAPE_OF(input));
  EXPECT(tanh || !strcmp(approximate, "none"), "approximateOptional is \"%s\", expected \"none\" or \"tanh\"",
         approximate);
  const int dim = input->rank - 1;
  TRY(check_half(a->out, "out", input, dim));
  HEAP_PLAN(gated_plan, p, e, sizeof *p);
  const part activated = half(input, GELU_MUL_INPUT, dim, 0), other = half(input, GELU_MUL_INPUT, dim, 1),
             result = gated_whole(a->out, GELU_MUL_OUT);
  gated_add_pass(p, tanh ? GEGLU_TANH.forward : GEGLU.forward, &result, (const part *const[]){&other, &activated}, 2);
  return gated_finish(e, input->n / 2);
}

/* The first half where it is at least the threshold, else 0, times the second half. */
status prepare_fatrelu_mul(executor *e, const fatrelu_mul_args *a) {
  const tensor *input = a->input;
  TRY(op_expect_dtype(input, "input", DTYPES_FLOAT));
  EXPECT(input->rank > 0 && input->dims[input->rank - 1] % 2 == 0,
         "input has shape %s, expected an even number of elements in the last dimension", SHAPE_OF(input));
  TRY(op_expect_one(a->threshold, "threshold", DTYPES_FLOAT));
  const int dim = input->rank - 1;
  TRY(check_half(a->out, "out", input, dim));
  HEAP_PLAN(gated_plan, p, e, sizeof *p);
  const part kept = half(input, FATRELU_MUL_INPUT, dim, 0), other = half(input, FATRELU_MUL_INPUT, dim, 1),
             result = gated_whole(a->out, FATRELU_MUL_OUT);
  part threshold = {{.dtype = a->threshold->dtype}, FATRELU_MUL_THRESHOLD, 0};
  threshold.v = view_broadcast(&threshold.v, kept.v.dims, kept.v.rank);
  gated_add_pass(p, EW_fatrelu_mul, &result, (const part *const[]){&kept, &other, &threshold}, 3);
  return gated_finish(e, input->n / 2);
}

/* GeGlu's gradient gets the activated half, an output of the forward operator, as `gelu`. */
static status gated_prepare_backward(executor *e, const gated_args *a) {
  const tensor *self = a->self, *out = a->out;
  gated_call c;
  TRY(check_call(e, a, &c));
  TRY(check_half(a->grad_output, a->name.grad_output, self, c.dim));
  if (a->gelu) TRY(check_half(a->gelu, "gelu", self, c.dim));
  TRY(op_expect_dtype(out, a->name.out, DTYPES_FLOAT));
  TRY(op_expect_same_shape(out, a->name.out, self));
  HEAP_PLAN(gated_plan, p, e, sizeof *p);
  const part g = gated_whole(a->grad_output, GATED_GRAD_OUTPUT);
  const part activated = half(self, a->view.self, c.dim, c.unit.activated_half),
             other = half(self, a->view.self, c.dim, 1 - c.unit.activated_half);
  const part to_activated = half(out, a->view.out, c.dim, c.unit.activated_half);
  const part to_other = half(out, a->view.out, c.dim, 1 - c.unit.activated_half);
  gated_add_pass(p, c.unit.slope, &to_activated, (const part *const[]){&g, &other, &activated}, 3);
  if (a->gelu) {
    const part value = gated_whole(a->gelu, GATED_GELU);
    gated_add_pass(p, EW_mul, &to_other, (const part *const[]){&g, &value}, 2);
  } else {
    gated_add_pass(p, c.unit.forward, &to_other, (const part *const[]){&g, &activated}, 2);
  }
  return gated_finish(e, self->n / 2);
}

status prepare_gated(executor *e, const gated_args *a) {
  switch (e->op->variant) {
  case GATED_GLU:
  case GATED_SWIGLU:
  case GATED_GEGLU: return gated_prepare_forward(e, a);
  default: return gated_prepare_backward(e, a);
  }
}
