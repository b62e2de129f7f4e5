/* SPDX-License-Identifier: Apache-2.0 */
/* MaxPool, AvgPool and their gradients, called by name with TensorFlow's arguments (ops/graph.aclop): windows over the
 * last two of four dimensions, padding VALID or SAME. Averages leave the padding out. */
#include <string.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/pooling/max.h"
#include "kernel/resample/separable.h"
#include "tensor/format.h"

enum { AXES = 2 };

typedef struct {
  const aclIntArray *ksize, *strides;
  const char *padding, *data_format;
} window_call;
#define WINDOW_CALL(a)                                                                                                 \
  (window_call) { (a)->ksize, (a)->strides, (a)->padding, (a)->data_format }

static status along_plane(const aclIntArray *list, const char *name, int64_t *to) {
  EXPECT(list->size == 4 && list->value[0] == 1 && list->value[1] == 1 && list->value[2] > 0 && list->value[3] > 0,
         "%s has %ju elements, expected 4, of which the first two are 1 and the others 1 or more", name,
         (uintmax_t)list->size);
  memcpy(to, list->value + 2, AXES * sizeof *to);
  return ST_OK;
}

/* The windows over planes of dims; an odd rest of the padding SAME is at the end. */
static status plane_windows(const window_call *c, const int64_t *dims, window_axis *axis) {
  int64_t kernel[AXES], stride[AXES];
  const bool same = !strcmp(c->padding, "SAME");
  EXPECT(same || !strcmp(c->padding, "VALID"), "padding is \"%.32s\", expected SAME or VALID", c->padding);
  EXPECT(!strcmp(c->data_format, "NCHW"), "data_format is \"%.32s\", expected NCHW", c->data_format);
  TRY(along_plane(c->ksize, "ksize", kernel));
  TRY(along_plane(c->strides, "strides", stride));
  for (int i = 0; i < AXES; ++i) {
    const int64_t in = dims[2 + i], out = same ? (in + stride[i] - 1) / stride[i] : (in - kernel[i]) / stride[i] + 1;
    const int64_t pad = i64_max(0, (out - 1) * stride[i] + kernel[i] - in);
    EXPECT(same || in >= kernel[i], "ksize is %jd along an axis of %jd, expected no more", (intmax_t)kernel[i],
           (intmax_t)in);
    axis[i] = (window_axis){.in = in,
                            .out = out,
                            .kernel = kernel[i],
                            .stride = stride[i],
                            .pad = same ? pad / 2 : 0,
                            .pad_end = same ? pad - pad / 2 : 0,
                            .dilation = 1};
  }
  return ST_OK;
}

static status expect_planes(const tensor *x, const char *name) {
  TRY(op_expect_dtype(x, name, DTYPES_FLOAT));
  TRY(op_expect_rank(x, name, 4, 4));
  EXPECT(x->origin_format != ACL_FORMAT_NHWC, "%s has format %s, expected NCHW", name, format_name(x->origin_format));
  return ST_OK;
}

static void band_specs(const window_axis *axis, band_spec *spec) {
  for (int i = 0; i < AXES; ++i)
    spec[i] = (band_spec){.kind = BAND_WINDOW,
                          .in = axis[i].in,
                          .out = axis[i].out,
                          .kernel = axis[i].kernel,
                          .stride = axis[i].stride,
                          .pad = axis[i].pad};
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

static status prepare_max(executor *e, const graph_window_pool_args *a, const window_axis *axis) {
  typedef union {
    aclIntArray array;
    char room[sizeof(aclIntArray) + 2 * AXES * sizeof(int64_t)];
  } list;
  list kernel = {.array.size = AXES}, stride = kernel, pad = {.array.size = 2 * AXES}, dilation = kernel;
  for (int i = 0; i < AXES; ++i) {
    kernel.array.value[i] = axis[i].kernel;
    stride.array.value[i] = axis[i].stride;
    dilation.array.value[i] = 1;
    pad.array.value[i] = axis[i].pad;
    pad.array.value[AXES + i] = axis[i].pad_end;
  }
  return prepare_max_pool(e, &(max_pool_args){.self = a->x,
                                              .kernel_shape = &kernel.array,
                                              .strides = &stride.array,
                                              .pads = &pad.array,
                                              .dilations = &dilation.array,
                                              .out = a->y});
}

status prepare_graph_window_pool(executor *e, const graph_window_pool_args *a) {
  window_axis axis[WINDOW_AXES];
  TRY(expect_planes(a->x, "x"));
  TRY(op_expect_dtype(a->y, "y", DTYPE_BIT(a->x->dtype)));
  TRY(plane_windows(&WINDOW_CALL(a), a->x->dims, axis));
  TRY(windows_expect_out(axis, AXES, a->x, a->y, "y"));
  if (e->op->variant == GRAPH_WINDOW_MAX) return prepare_max(e, a, axis);
  band_spec spec[WINDOW_AXES];
  band_specs(axis, spec);
  return separable_prepare(e, a->x, a->y, spec, AXES, false);
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

status prepare_graph_window_average_grad(executor *e, const graph_window_average_grad_args *a) {
  const tensor *grad = a->input_grad, *out = a->out_grad;
  window_axis axis[WINDOW_AXES];
  band_spec spec[WINDOW_AXES];
  TRY(expect_planes(grad, "input_grad"));
  TRY(op_expect_dtype(out, "out_grad", DTYPE_BIT(grad->dtype)));
  EXPECT(a->orig_input_shape->size == 4, "orig_input_shape has %ju elements, expected 4",
         (uintmax_t)a->orig_input_shape->size);
  TRY(op_expect_shape(out, "out_grad", a->orig_input_shape->value, 4));
  TRY(plane_windows(&WINDOW_CALL(a), out->dims, axis));
  TRY(windows_expect_out(axis, AXES, out, grad, "input_grad"));
  band_specs(axis, spec);
  return separable_prepare(e, grad, out, spec, AXES, true);
}

typedef struct {
  window_axis axis[WINDOW_AXES]; /* of planes, the first one is trivial */
  int64_t n_planes, n_in, n_out; /* elements of a plane */
  int dtype, x, grad, y;         /* operands */
} max_grad_plan;

typedef struct {
  const max_grad_plan *plan;
  const char *x, *grad;
  char *y;
  float *sums; /* of all planes */
} max_grad_job;

/* The place in its plane of the first maximum of window o, where NaN is larger than any number. */
static int64_t first_maximum(const max_grad_plan *p, const char *plane, int64_t o) {
  const window_axis *const axis = p->axis;
  const int64_t size = (int64_t)dtype_bytes(p->dtype);
  const int64_t at[] = {o / axis[2].out / axis[1].out, o / axis[2].out % axis[1].out, o % axis[2].out};
  int64_t first[WINDOW_AXES], n[WINDOW_AXES], best = -1;
  float most = 0;
  for (int i = 0; i < WINDOW_AXES; ++i) window_inputs(&axis[i], at[i], &first[i], &n[i]);
  for (int64_t row = 0; row < n[0] * n[1]; ++row)
    for (int64_t k = first[2]; k < first[2] + n[2]; ++k) {
      const int64_t place = ((first[0] + row / n[1]) * axis[1].in + first[1] + row % n[1]) * axis[2].in + k;
      float x;
      loops->load[p->dtype][COMPUTE_F32](&x, plane + place * size, size, 1);
      if (best < 0 || x > most || (x != x && most == most)) best = place, most = x;
    }
  return best;
}

static void max_grad_range(const void *argument, int64_t begin, int64_t end) {
  const max_grad_job *j = argument;
  const max_grad_plan *p = j->plan;
  const int64_t size = (int64_t)dtype_bytes(p->dtype), n_in = p->n_in, n_out = p->n_out;
  for (int64_t plane = begin; plane < end; ++plane) {
    float *sum = j->sums + plane * n_in;
    memset(sum, 0, (size_t)n_in * sizeof *sum);
    for (int64_t o = 0; o < n_out; ++o) {
      const int64_t at = first_maximum(p, j->x + plane * n_in * size, o);
      float grad;
      loops->load[p->dtype][COMPUTE_F32](&grad, j->grad + (plane * n_out + o) * size, size, 1);
      if (at >= 0) sum[at] += grad;
    }
    loops->store[p->dtype][COMPUTE_F32](j->y + plane * n_in * size, size, sum, n_in);
  }
}

static status max_grad_run(const executor *e, void *const *view, void *scratch) {
  const max_grad_plan *p = PLAN(e, max_grad_plan);
  const max_grad_job job = {p, view[p->x], view[p->grad], view[p->y], scratch};
  rows_parallel(max_grad_range, &job, p->n_planes, 1, e->cost_ns);
  return ST_OK;
}

status max_prepare_searched(executor *e, const window_axis *axis, int n, const tensor *x, const tensor *grad,
                            const tensor *y, const int *operands) {
  max_grad_plan *p = PLAN(e, max_grad_plan);
  *p = (max_grad_plan){.n_planes = y->n ? x->dims[0] * x->dims[1] : 0,
                       .n_in = 1,
                       .n_out = 1,
                       .dtype = x->dtype,
                       .x = operands[0],
                       .grad = operands[1],
                       .y = operands[2]};
  uint64_t window = 1;
  for (int i = 0; i < WINDOW_AXES; ++i) {
    const int k = i - (WINDOW_AXES - n);
    p->axis[i] = k < 0 ? (window_axis){.in = 1, .out = 1, .kernel = 1, .stride = 1, .dilation = 1} : axis[k];
    p->n_in *= p->axis[i].in;
    p->n_out *= p->axis[i].out;
    window *= (uint64_t)p->axis[i].kernel;
  }
  workspace_intermediate(e, (uint64_t)y->n * sizeof(float));
  executor_cost(e, (uint64_t)(2 * x->n + grad->n) * dtype_bytes(x->dtype), (uint64_t)grad->n * window * 32);
  e->run = max_grad_run;
  return ST_OK;
}

/* x1 is the pool's input, x2 its output, which is not needed. */
status prepare_graph_window_max_grad(executor *e, const graph_window_max_grad_args *a) {
  const tensor *x = a->x1, *grad = a->grad, *y = a->y;
  window_axis axis[WINDOW_AXES];
  TRY(expect_planes(x, "x1"));
  EXPECT(x->dtype != ACL_DOUBLE, "x1 has dtype %s, expected FLOAT, FLOAT16 or BFLOAT16", dtype_name(x->dtype));
  TRY(op_expect_dtype(grad, "grad", DTYPE_BIT(x->dtype)));
  TRY(op_expect_dtype(y, "y", DTYPE_BIT(x->dtype)));
  TRY(plane_windows(&WINDOW_CALL(a), x->dims, axis));
  TRY(windows_expect_out(axis, AXES, x, a->x2, "x2"));
  TRY(windows_expect_out(axis, AXES, x, grad, "grad"));
  TRY(op_expect_same_shape(y, "y", x));
  return max_prepare_searched(
      e, axis, AXES, x, grad, y,
      (const int[]){GRAPH_WINDOW_MAX_GRAD_X1, GRAPH_WINDOW_MAX_GRAD_GRAD, GRAPH_WINDOW_MAX_GRAD_Y});
}
