/* SPDX-License-Identifier: Apache-2.0 */
/* MaxPoolV3, AvgPoolV2 and their gradients, which are called by name: windows over the last two of four dimensions. */
#include <string.h>

#include "kernel/families.h"
#include "kernel/pooling/max.h"
#include "tensor/format.h"

enum { AXES = 2 };

/* The values of a list along H and W; those along N and C must be 1. */
static status plane_of(const aclIntArray *list, const char *name, const char *data_format, int64_t *to) {
  EXPECT(list->size == 4, "%s has %ju elements, expected 4", name, (uintmax_t)list->size);
  for (int i = 0; i < 4; ++i) {
    const int64_t value = list->value[i];
    if (data_format[i] == 'H' || data_format[i] == 'W')
      to[data_format[i] == 'W'] = value;
    else
      EXPECT(value == 1, "%s has %jd for axis %c, expected 1", name, (intmax_t)value, data_format[i]);
  }
  EXPECT(to[0] > 0 && to[1] > 0, "%s is %jd and %jd along H and W, expected 1 or more", name, (intmax_t)to[0],
         (intmax_t)to[1]);
  return ST_OK;
}

/* The padding in front of and behind each axis, in the order top, left, bottom, right. */
static status pads_of(const graph_pool_args *a, const int64_t *kernel, const int64_t *stride, int64_t *pad) {
  memset(pad, 0, 4 * sizeof *pad);
  if (!strcmp(a->padding_mode, "VALID") || a->global_pooling) return ST_OK;
  if (!strcmp(a->padding_mode, "CALCULATED")) {
    EXPECT(a->pads->size == 4, "pads has %ju elements, expected 4", (uintmax_t)a->pads->size);
    for (int i = 0; i < 4; ++i) {
      pad[i % 2 * AXES + i / 2] = a->pads->value[i]; /* pads are top, bottom, left, right */
      EXPECT(a->pads->value[i] >= 0 && a->pads->value[i] < kernel[i / 2], "pads[%d] is %jd, expected 0 to %jd", i,
             (intmax_t)a->pads->value[i], (intmax_t)kernel[i / 2] - 1);
    }
    return ST_OK;
  }
  EXPECT(!strcmp(a->padding_mode, "SAME"), "padding_mode is \"%.32s\", expected CALCULATED, VALID or SAME",
         a->padding_mode);
  for (int i = 0; i < AXES; ++i) {
    const int64_t in = a->x->dims[2 + i], out = (in + stride[i] - 1) / stride[i];
    const int64_t total = (out - 1) * stride[i] + kernel[i] - in;
    pad[i] = total > 0 ? total / 2 : 0;
    pad[AXES + i] = total > 0 ? total - total / 2 : 0;
  }
  return ST_OK;
}

/* The windows of a call, for planes of x. */
static status graph_pool_windows(const graph_pool_args *a, window_axis *axis) {
  typedef union {
    aclIntArray array;
    char room[sizeof(aclIntArray) + 4 * sizeof(int64_t)];
  } list;
  list kernel = {.array.size = AXES}, stride = {.array.size = AXES}, pad = {.array.size = 2 * AXES};
  TRY(plane_of(a->ksize, "ksize", a->data_format, kernel.array.value));
  TRY(plane_of(a->strides, "strides", a->data_format, stride.array.value));
  for (int i = 0; a->global_pooling && i < AXES; ++i)
    kernel.array.value[i] = a->x->dims[2 + i], stride.array.value[i] = 1;
  TRY(pads_of(a, kernel.array.value, stride.array.value, pad.array.value));
  const window_arrays arrays = {.kernel = &kernel.array,
                                .stride = &stride.array,
                                .pad = &pad.array,
                                .kernel_name = "ksize",
                                .stride_name = "strides",
                                .pad_name = "pads",
                                .ceil = a->ceil_mode};
  return windows_init(axis, AXES, a->x, &arrays);
}

/* The checks of pools and gradients; x is what is pooled, y the result, of which `other` is the name. */
static status graph_pool_check(const graph_pool_args *a, bool average, const char *name, const char *other,
                               window_axis *axis) {
  const tensor *x = a->x, *y = a->y;
  TRY(op_expect_dtype(x, name, average ? DTYPES_FLOAT : DTYPES_MAX_POOL));
  TRY(op_expect_dtype(y, other, DTYPE_BIT(x->dtype)));
  TRY(op_expect_rank(x, name, 4, 4));
  EXPECT(!strcmp(a->data_format, "NCHW") && x->origin_format != ACL_FORMAT_NHWC,
         "data_format is %.16s and %s has format %s, expected NCHW", a->data_format, name,
         format_name(x->origin_format));
  TRY(graph_pool_windows(a, axis));
  TRY(windows_expect_out(axis, AXES, x, y, other));
  for (int i = 0; average && !a->exclusive && i < AXES; ++i)
    EXPECT(axis[i].pad == axis[i].pad_end,
           "pads are %jd and %jd along an axis, expected equal ones, as exclusive is %s", (intmax_t)axis[i].pad,
           (intmax_t)axis[i].pad_end, "false");
  return ST_OK;
}

status prepare_graph_pool(executor *e, const graph_pool_args *a) {
  const bool average = e->op->variant == GRAPH_POOL_AVERAGE;
  window_axis axis[WINDOW_AXES];
  TRY(graph_pool_check(a, average, "x", "y", axis));
  return average ? average_prepare_windows(e, axis, AXES, !a->exclusive, a->x, a->y, false)
                 : max_prepare_values(e, axis, AXES, a->x, a->y);
}

/* The arguments of the pool whose gradient is computed. */
#define POOL_OF(a, in, result)                                                                                         \
  {                                                                                                                    \
    .x = (in), .y = (result), .ksize = (a)->ksize, .strides = (a)->strides, .pads = (a)->pads,                         \
    .padding_mode = (a)->padding_mode, .data_format = (a)->data_format, .global_pooling = (a)->global_pooling,         \
    .ceil_mode = (a)->ceil_mode                                                                                        \
  }

status prepare_graph_pool_max_grad(executor *e, const graph_pool_max_grad_args *a) {
  const tensor *x = a->orig_input;
  const graph_pool_args pool = POOL_OF(a, x, a->grad);
  window_axis axis[WINDOW_AXES];
  TRY(op_expect_dtype(x, "orig_input", DTYPES_FLOAT_TO_32));
  TRY(graph_pool_check(&pool, false, "orig_input", "grad", axis));
  TRY(op_expect_same_shape(a->orig_output, "orig_output", a->grad));
  TRY(op_expect_dtype(a->out_grad, "out_grad", DTYPE_BIT(x->dtype)));
  TRY(op_expect_same_shape(a->out_grad, "out_grad", x));
  return max_prepare_searched(
      e, axis, AXES, x, a->grad, a->out_grad,
      (const int[]){GRAPH_POOL_MAX_GRAD_ORIG_INPUT, GRAPH_POOL_MAX_GRAD_GRAD, GRAPH_POOL_MAX_GRAD_OUT_GRAD});
}

status prepare_graph_pool_average_grad(executor *e, const graph_pool_average_grad_args *a) {
  graph_pool_args pool = POOL_OF(a, a->out_grad, a->input_grad);
  window_axis axis[WINDOW_AXES];
  pool.exclusive = a->exclusive;
  TRY(op_expect_size(a->orig_input_shape->size, "orig_input_shape", 4));
  TRY(op_expect_shape(a->out_grad, "out_grad", a->orig_input_shape->value, 4));
  TRY(graph_pool_check(&pool, true, "out_grad", "input_grad", axis));
  return average_prepare_windows(e, axis, AXES, !a->exclusive, a->input_grad, a->out_grad, true);
}
