/* SPDX-License-Identifier: Apache-2.0 */
/* MaxPool3D and its gradient by name: windows over the last three of five dimensions. */
#include <string.h>

#include "kernel/families.h"
#include "kernel/pooling/max.h"

enum { AXES = 3 };

typedef struct {
  const aclIntArray *ksize, *strides, *pads;
  const char *padding, *data_format;
  bool ceil;
} volume_call;

typedef union {
  aclIntArray array;
  char room[sizeof(aclIntArray) + 2 * AXES * sizeof(int64_t)];
} volume_list;

static status along_volume(const aclIntArray *list, const char *name, volume_list *to) {
  EXPECT(list->size == AXES + 2, "%s has %ju elements, expected 5", name, (uintmax_t)list->size);
  to->array.size = AXES;
  for (int i = 0; i < AXES + 2; ++i) {
    EXPECT(list->value[i] > 0 && (i > 1 || list->value[i] == 1), "%s[%d] is %jd, expected %s", name, i,
           (intmax_t)list->value[i], i > 1 ? "1 or more" : "1");
    if (i > 1) to->array.value[i - 2] = list->value[i];
  }
  return ST_OK;
}

/* Pads in front of all axes, and then those behind. An odd rest of the padding SAME is behind. */
static status volume_pads(const volume_call *c, const tensor *x, const int64_t *kernel, const int64_t *stride,
                          int64_t *pad) {
  memset(pad, 0, 2 * AXES * sizeof *pad);
  if (!strcmp(c->padding, "VALID")) return ST_OK;
  if (!strcmp(c->padding, "CALCULATED")) {
    TRY(op_expect_size(c->pads->size, "pads", 2 * AXES));
    for (int i = 0; i < 2 * AXES; ++i) {
      EXPECT(c->pads->value[i] >= 0 && c->pads->value[i] < kernel[i / 2], "pads[%d] is %jd, expected 0 to %jd", i,
             (intmax_t)c->pads->value[i], (intmax_t)kernel[i / 2] - 1);
      pad[i % 2 * AXES + i / 2] = c->pads->value[i];
    }
    return ST_OK;
  }
  EXPECT(!strcmp(c->padding, "SAME"), "padding is \"%.32s\", expected CALCULATED, VALID or SAME", c->padding);
  for (int i = 0; i < AXES; ++i) {
    const int64_t in = x->dims[2 + i], out = (in + stride[i] - 1) / stride[i];
    const int64_t total = (out - 1) * stride[i] + kernel[i] - in;
    pad[i] = total > 0 ? total / 2 : 0;
    pad[AXES + i] = total > 0 ? total - total / 2 : 0;
  }
  return ST_OK;
}

static status volume_windows(const volume_call *c, const tensor *x, const char *name, window_axis *axis) {
  volume_list kernel, stride, pad = {.array.size = 2 * AXES};
  TRY(op_expect_rank(x, name, AXES + 2, AXES + 2));
  EXPECT(!strcmp(c->data_format, "NCDHW"), "data_format is %.32s, expected NCDHW", c->data_format);
  TRY(along_volume(c->ksize, "ksize", &kernel));
  TRY(along_volume(c->strides, "strides", &stride));
  TRY(volume_pads(c, x, kernel.array.value, stride.array.value, pad.array.value));
  const window_arrays arrays = {.kernel = &kernel.array,
                                .stride = &stride.array,
                                .pad = &pad.array,
                                .kernel_name = "ksize",
                                .stride_name = "strides",
                                .pad_name = "pads",
                                .ceil = c->ceil};
  return windows_init(axis, AXES, x, &arrays);
}

status prepare_graph_volume_max(executor *e, const graph_volume_max_args *a) {
  const volume_call c = {a->ksize, a->strides, a->pads, a->padding, a->data_format, a->ceil_mode != 0};
  window_axis axis[WINDOW_AXES];
  TRY(op_expect_dtype(a->x, "x", DTYPES_MAX_POOL));
  TRY(op_expect_dtype(a->y, "y", DTYPE_BIT(a->x->dtype)));
  TRY(volume_windows(&c, a->x, "x", axis));
  TRY(windows_expect_out(axis, AXES, a->x, a->y, "y"));
  return max_prepare_values(e, axis, AXES, a->x, a->y);
}

/* The windows are those that grads has values for. */
status prepare_graph_volume_max_grad(executor *e, const graph_volume_max_grad_args *a) {
  volume_call c = {a->ksize, a->strides, a->pads, a->padding, a->data_format, false};
  const tensor *x = a->orig_x, *grads = a->grads;
  window_axis axis[WINDOW_AXES];
  TRY(op_expect_dtype(x, "orig_x", DTYPES_FLOAT_TO_32));
  TRY(op_expect_dtype(grads, "grads", DTYPE_BIT(x->dtype)));
  TRY(op_expect_like(a->y, "y", x));
  TRY(op_expect_rank(grads, "grads", AXES + 2, AXES + 2));
  TRY(volume_windows(&c, x, "orig_x", axis));
  bool fits = true;
  for (int i = 0; i < AXES; ++i) fits &= axis[i].out == grads->dims[2 + i];
  c.ceil = !fits;
  if (!fits) TRY(volume_windows(&c, x, "orig_x", axis));
  TRY(windows_expect_out(axis, AXES, x, grads, "grads"));
  TRY(op_expect_same_shape(a->orig_y, "orig_y", grads));
  return max_prepare_searched(
      e, axis, AXES, x, grads, a->y,
      (const int[]){GRAPH_VOLUME_MAX_GRAD_ORIG_X, GRAPH_VOLUME_MAX_GRAD_GRADS, GRAPH_VOLUME_MAX_GRAD_Y});
}
