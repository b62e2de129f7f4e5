/* SPDX-License-Identifier: Apache-2.0 */
/* Operators of average pooling and their gradients, as separable weighted sums (resample/separable.h). */
#include <string.h>

#include "kernel/families.h"
#include "kernel/pooling/pooling_window.h"
#include "kernel/reduce/reduction.h"
#include "kernel/resample/separable.h"

typedef struct {
  bool count_pad;
  int64_t divisor; /* 0: divide by the number of elements in the window */
} average_options;

static void average_bands(const window_axis *axis, int n, average_options o, band_spec *spec) {
  for (int i = 0; i < n; ++i) {
    const window_axis *a = &axis[i];
    spec[i] = (band_spec){.kind = a->adaptive ? BAND_ADAPTIVE : BAND_WINDOW,
                          .in = a->in,
                          .out = a->out,
                          .kernel = a->kernel,
                          .stride = a->stride,
                          .pad = a->pad,
                          .count_pad = o.count_pad};
    /* The divisor of the whole window is applied along the last axis; the other axes divide by 1. */
    if (o.divisor) spec[i].divisor = i == n - 1 ? o.divisor : 1;
  }
}

static status average_prepare(executor *e, const window_axis *axis, int n, average_options o, const tensor *in,
                              const tensor *out, bool backward) {
  band_spec spec[WINDOW_AXES];
  average_bands(axis, n, o, spec);
  return separable_prepare(e, in, out, spec, n, backward);
}

status average_prepare_windows(executor *e, const window_axis *axis, int n, bool count_pad, const tensor *in,
                               const tensor *out, bool backward) {
  return average_prepare(e, axis, n, (average_options){.count_pad = count_pad}, in, out, backward);
}

/* ---- AvgPool2d, AvgPool3d ---------------------------------------------------------------------------------------- */

static status window_arguments(const average_pool_args *a, int n, window_axis *axis, average_options *o) {
  const window_arrays arrays = {.kernel = a->kernel_size,
                                .stride = a->stride,
                                .pad = a->padding,
                                .kernel_name = "kernelSize",
                                .stride_name = a->name.stride,
                                .pad_name = a->name.padding,
                                .ceil = a->ceil_mode};
  TRY(windows_expect_list(a->padding, a->name.padding, n));
  TRY(windows_init(axis, n, a->self, &arrays));
  *o = (average_options){.count_pad = a->count_include_pad, .divisor = a->divisor_override};
  /* Two-dimensional pools may pad by more than half of the kernel if the padding counts, which is well defined; ggml
   * pads windows of 1 by 1. */
  if (n == 3 || !o->count_pad) TRY(windows_expect_half(axis, n, a->name.padding));
  return ST_OK;
}

static status expect_no_wider(const window_axis *axis, int n) {
  for (int i = 0; i < n; ++i)
    EXPECT(axis[i].kernel <= axis[i].in, "kernelSize[%d] is %jd, expected at most self's dimension, %jd", i,
           (intmax_t)axis[i].kernel, (intmax_t)axis[i].in);
  return ST_OK;
}

static status expect_cube_math(int64_t type) {
  EXPECT(type >= 0 && type <= 3, "cubeMathType is %jd, expected 0 to 3", (intmax_t)type);
  return ST_OK;
}

static status prepare_window(executor *e, const average_pool_args *a, int n) {
  const tensor *self = a->self, *out = a->out;
  window_axis axis[WINDOW_AXES];
  average_options o;
  TRY(op_expect_dtype(self, "self", DTYPES_FLOAT));
  TRY(op_expect_dtype(out, "out", DTYPE_BIT(self->dtype)));
  TRY(window_arguments(a, n, axis, &o));
  if (n == 3) TRY(expect_no_wider(axis, n));
  if (n == 2) TRY(expect_cube_math(a->cube_math_type));
  TRY(windows_expect_out(axis, n, self, out, "out"));
  return average_prepare(e, axis, n, o, self, out, false);
}

static status prepare_window_backward(executor *e, const average_pool_args *a, int n) {
  const tensor *grad = a->grad_output, *self = a->self, *out = a->grad_input;
  const char *grad_name = a->name.grad_output, *out_name = a->name.grad_input;
  window_axis axis[WINDOW_AXES];
  average_options o;
  TRY(op_expect_dtype(grad, grad_name, DTYPES_FLOAT));
  TRY(op_expect_dtype(out, out_name, DTYPE_BIT(grad->dtype)));
  TRY(window_arguments(a, n, axis, &o));
  if (n == 2) {
    TRY(expect_cube_math(a->cube_math_type));
    EXPECT(o.divisor >= -255 && o.divisor <= 255, "divisorOverride is %jd, expected -255 to 255", (intmax_t)o.divisor);
  }
  TRY(windows_expect_out(axis, n, self, grad, grad_name));
  TRY(op_expect_same_shape(out, out_name, self));
  return average_prepare(e, axis, n, o, grad, out, true);
}

/* ---- AdaptiveAvgPool2d, AdaptiveAvgPool3d, GlobalAveragePool, GlobalMaxPool -------------------------------------- */

/* Returns whether each window covers the whole of its axis. */
static bool is_mean(const window_axis *axis, int n) {
  for (int i = 0; i < n; ++i)
    if (axis[i].out != 1) return false;
  return true;
}

static status average_plan_reduction(executor *e, reduction_kind kind, const tensor *self, const tensor *out, int n) {
  const view from = view_of(self), to = view_of(out);
  bool is_reduced[MAX_RANK];
  for (int d = 0; d < MAX_RANK; ++d) is_reduced[d] = d >= self->rank - n;
  reduction_plan(
      e, &(reduction_request){
             .kind = kind, .in = &from, .is_reduced = is_reduced, .keep = true, .out = {&to}, .operand = {0, 1}});
  return ST_OK;
}

static status prepare_adaptive(executor *e, const average_pool_args *a, int n) {
  const tensor *self = a->self, *out = a->out;
  window_axis axis[WINDOW_AXES];
  TRY(op_expect_dtype(self, "self", DTYPES_FLOAT));
  TRY(op_expect_dtype(out, "out", DTYPE_BIT(self->dtype)));
  TRY(op_expect_size(a->output_size->size, "outputSize", (uint64_t)n));
  TRY(windows_init_adaptive(axis, n, self, a->output_size->value));
  TRY(windows_expect_out(axis, n, self, out, "out"));
  if (is_mean(axis, n)) return average_plan_reduction(e, REDUCTION_MEAN, self, out, n);
  return average_prepare(e, axis, n, (average_options){0}, self, out, false);
}

static status prepare_adaptive_backward(executor *e, const average_pool_args *a, int n) {
  const tensor *grad = a->grad_output, *out = a->out, *self = a->self ? a->self : out; /* none by name */
  window_axis axis[WINDOW_AXES];
  TRY(op_expect_dtype(grad, "gradOutput", DTYPES_FLOAT));
  TRY(op_expect_dtype(out, "out", DTYPE_BIT(grad->dtype)));
  EXPECT(grad->rank == self->rank && grad->rank > n, "gradOutput has shape %s, expected as many dimensions as self",
         SHAPE_OF(grad));
  TRY(windows_init_adaptive(axis, n, self, grad->dims + grad->rank - n));
  TRY(windows_expect_out(axis, n, self, grad, "gradOutput"));
  TRY(op_expect_same_shape(out, "out", self));
  return average_prepare(e, axis, n, (average_options){0}, grad, out, true);
}

status prepare_average_pool(executor *e, const average_pool_args *a) {
  switch (e->op->variant) {
  case AVERAGE_2D: return prepare_window(e, a, 2);
  case AVERAGE_3D: return prepare_window(e, a, 3);
  case AVERAGE_2D_BACKWARD: return prepare_window_backward(e, a, 2);
  case AVERAGE_3D_BACKWARD: return prepare_window_backward(e, a, 3);
  case AVERAGE_ADAPTIVE_2D: return prepare_adaptive(e, a, 2);
  case AVERAGE_ADAPTIVE_3D: return prepare_adaptive(e, a, 3);
  case AVERAGE_ADAPTIVE_2D_BACKWARD: return prepare_adaptive_backward(e, a, 2);
  default: return prepare_adaptive_backward(e, a, 3);
  }
}

/* The window covers all dimensions behind the first two. */
status prepare_global_pool(executor *e, const global_pool_args *a) {
  const tensor *self = a->self, *out = a->out;
  const bool average = e->op->variant == GLOBAL_AVERAGE;
  int64_t dims[MAX_RANK];
  TRY(op_expect_dtype(self, "self", average ? DTYPES_FLOAT : DTYPES_MAX_POOL));
  TRY(op_expect_dtype(out, "out", DTYPE_BIT(self->dtype)));
  TRY(op_expect_rank(self, "self", 4, MAX_RANK));
  for (int d = 0; d < self->rank; ++d) {
    dims[d] = d < 2 ? self->dims[d] : 1;
    EXPECT(d < 2 || self->dims[d] > 0, "self has shape %s, expected some elements along dimension %d", SHAPE_OF(self),
           d);
  }
  TRY(op_expect_shape(out, "out", dims, self->rank));
  return average_plan_reduction(e, average ? REDUCTION_MEAN : REDUCTION_MAX, self, out, self->rank - 2);
}

/* ---- AvgPool3D, AvgPool3DGrad by name ---------------------------------------------------------------------------- */

/* The windows along the last three of five dimensions. The lists have an element for each dimension, the pads one for
 * each end of an axis. */
static status average_windows_by_name(const graph_average_3d_args *a, const tensor *x, window_axis *axis) {
  enum { N = 3 };
  typedef union {
    aclIntArray array;
    char room[sizeof(aclIntArray) + N * sizeof(int64_t)];
  } list;
  list kernel = {.array.size = N}, stride = {.array.size = N}, pad = {.array.size = N};
  EXPECT(!strcmp(a->data_format, "NCDHW"), "data_format is %.16s, expected NCDHW", a->data_format);
  TRY(op_expect_rank(x, "x", N + 2, N + 2));
  TRY(op_expect_size(a->ksize->size, "ksize", N + 2));
  TRY(op_expect_size(a->strides->size, "strides", N + 2));
  TRY(op_expect_size(a->pads->size, "pads", 2 * N));
  for (int i = 0; i < N; ++i) {
    const int64_t before = a->pads->value[2 * i], after = a->pads->value[2 * i + 1];
    EXPECT(before == after, "pads are %jd and %jd at the ends of an axis, expected equal ones", (intmax_t)before,
           (intmax_t)after);
    kernel.array.value[i] = a->ksize->value[2 + i];
    stride.array.value[i] = a->strides->value[2 + i];
    pad.array.value[i] = before;
  }
  const window_arrays arrays = {.kernel = &kernel.array,
                                .stride = &stride.array,
                                .pad = &pad.array,
                                .kernel_name = "ksize",
                                .stride_name = "strides",
                                .pad_name = "pads",
                                .ceil = a->ceil_mode};
  TRY(windows_init(axis, N, x, &arrays));
  return windows_expect_half(axis, N, "pads");
}

status prepare_graph_average_3d(executor *e, const graph_average_3d_args *a) {
  const bool backward = a->grads;
  const tensor *in = backward ? a->grads : a->x, *out = backward ? a->output : a->y, *x = backward ? out : in;
  const average_options o = {.count_pad = a->count_include_pad, .divisor = a->divisor_override};
  window_axis axis[WINDOW_AXES];
  TRY(op_expect_dtype(in, backward ? "grads" : "x", DTYPES_FLOAT));
  TRY(op_expect_dtype(out, backward ? "output" : "y", DTYPE_BIT(in->dtype)));
  TRY(average_windows_by_name(a, x, axis));
  TRY(windows_expect_out(axis, 3, x, backward ? in : out, backward ? "grads" : "y"));
  return average_prepare(e, axis, 3, o, in, out, backward);
}
