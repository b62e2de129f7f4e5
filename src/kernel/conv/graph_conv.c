/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions that are called by name (ops/graph.aclop). Their axes are in the order of data_format and of the
 * operands' formats; strides and dilations have one value per dimension, pads one per end of each axis. */
#include <string.h>

#include "kernel/conv/convolution.h"
#include "kernel/families.h"
#include "tensor/format.h"

/* Room for an aclIntArray with one number per axis. */
typedef union {
  aclIntArray array;
  char room[sizeof(aclIntArray) + CONV_AXES * sizeof(int64_t)];
} axis_list;

enum { STRIDE, DILATION, OUTPUT_PADDING, N_LISTS };

typedef struct {
  axis_list of[N_LISTS];
  conv_arguments a;
} axis_lists;

static const char *canonical(int rank) { return rank == 4 ? "NCHW" : "NCDHW"; }

/* Permutes the tensor's dimensions to channels first, as the kernels expect them. axes: the letters of its
 * dimensions. */
static status conv_channels_first(tensor *t, const char *name, const char *axes) {
  const tensor from = *t;
  EXPECT((t->rank == 4 || t->rank == 5) && axes && strlen(axes) == (size_t)t->rank,
         "%s has shape %s, expected 4 or 5 dimensions", name, SHAPE_OF(t));
  const char *const to = canonical(t->rank);
  for (int d = 0; d < t->rank; ++d) {
    const char *at = strchr(axes, to[d]);
    EXPECT(at, "%s has axes %s, expected those of %s", name, axes, to);
    t->dims[d] = from.dims[at - axes];
    t->strides[d] = from.strides[at - axes];
  }
  t->contiguous = t->contiguous && !strcmp(axes, to);
  return ST_OK;
}

/* Data tensors are laid out as data_format says; their own format must be ND or the same. Weights are laid out as
 * their own format says. */
static status conv_data_of(const tensor *t, const char *name, const char *data_format, tensor *to) {
  *to = *t;
  const char *const own = format_axes(t->origin_format, t->rank);
  EXPECT(t->origin_format == ACL_FORMAT_ND || (own && !strcmp(own, data_format)),
         "%s has format %s, expected that of data_format, %.32s", name, format_name(t->origin_format), data_format);
  return conv_channels_first(to, name, data_format);
}

static status conv_weight_of(const tensor *t, const char *name, tensor *to) {
  *to = *t;
  return conv_channels_first(to, name, format_axes(t->origin_format, t->rank));
}

/* Takes the value of each axis from a list in the order of data_format; the values of N and C must be `rest`. */
static status per_axis(const aclIntArray *list, const char *name, const char *data_format, int64_t rest,
                       axis_list *to) {
  const size_t rank = strlen(data_format);
  int n = 0;
  EXPECT(list->size == rank, "%s has %ju elements, expected %zu", name, (uintmax_t)list->size, rank);
  to->array.size = rank - 2;
  for (const char *c = canonical((int)rank); *c; ++c) {
    const int64_t value = list->value[strchr(data_format, *c) - data_format];
    if (*c == 'N' || *c == 'C')
      EXPECT(value == rest, "%s has %jd for axis %c, expected %jd", name, (intmax_t)value, *c, (intmax_t)rest);
    else
      to->array.value[n++] = value;
  }
  return ST_OK;
}

/* The values along the axes of a family's arguments. */
#define LISTS_OF(a, rank, to) lists_of((a)->strides, (a)->pads, (a)->dilations, (a)->groups, (a)->data_format, rank, to)
static status lists_of(const aclIntArray *strides, const aclIntArray *pads, const aclIntArray *dilations,
                       int64_t groups, const char *data_format, int rank, axis_lists *l) {
  const char *known = canonical(rank);
  EXPECT(strlen(data_format) == strlen(known) && strspn(data_format, known) == strlen(known),
         "data_format is \"%.32s\", expected %s or %s", data_format, known, rank == 4 ? "NHWC" : "NDHWC");
  TRY(per_axis(strides, "strides", data_format, 1, &l->of[STRIDE]));
  EXPECT(pads->size == 2 * (uint64_t)(rank - 2), "pads has %ju elements, expected %d", (uintmax_t)pads->size,
         2 * (rank - 2));
  TRY(per_axis(dilations, "dilations", data_format, 1, &l->of[DILATION]));
  l->a = (conv_arguments){.stride = &l->of[STRIDE].array,
                          .padding = pads,
                          .by_end = true,
                          .dilation = &l->of[DILATION].array,
                          .groups = groups};
  return ST_OK;
}

static int rank_of(const executor *e) { return strncmp(e->op->name, "Conv3D", 6) ? 4 : 5; }

/* These two arguments belong to quantised convolutions, which are not supported. */
static status expect_no_offset(const tensor *offset_w, int64_t offset_x) {
  EXPECT(!offset_w, "offset_w is there, expected none");
  EXPECT(offset_x == 0, "offset_x is %jd, expected 0", (intmax_t)offset_x);
  return ST_OK;
}

static status graph_conv_forward(executor *e, const tensor *x, const tensor *filter, const tensor *bias,
                                 const tensor *y, const conv_arguments *a, const char *data_format) {
  tensor input, weight, output;
  TRY(conv_data_of(x, "x", data_format, &input));
  TRY(conv_weight_of(filter, "filter", &weight));
  TRY(conv_data_of(y, "y", data_format, &output));
  const conv_forward f = {.input = &input,
                          .weight = &weight,
                          .bias = bias,
                          .output = &output,
                          .input_name = "x",
                          .output_name = "y",
                          .operand = {GRAPH_CONV_X, GRAPH_CONV_FILTER, GRAPH_CONV_BIAS, GRAPH_CONV_Y}};
  return conv_prepare_forward(e, &f, a);
}

/* The number of groups if the call does not say it: as many as the channels of x have room for. */
static int64_t graph_conv_groups(const tensor *x, const tensor *filter, const char *data_format) {
  tensor input, weight;
  int64_t groups = 1;
  if (conv_data_of(x, "x", data_format, &input) != ST_OK || conv_weight_of(filter, "filter", &weight) != ST_OK)
    fail_take(); /* the forward pass tells it again */
  else if (weight.dims[1] > 0 && input.dims[1] % weight.dims[1] == 0)
    groups = input.dims[1] / weight.dims[1];
  return groups > 0 ? groups : 1;
}

status prepare_graph_conv(executor *e, const graph_conv_args *a) {
  const int rank = rank_of(e);
  const char *const own = format_axes(a->x->origin_format, a->x->rank);
  const char *const by_default = own && strlen(own) == (size_t)rank ? own : rank == 4 ? "NHWC" : "NDHWC";
  graph_conv_args given = *a;
  axis_lists l;
  if (!*given.data_format) given.data_format = by_default;
  TRY(expect_no_offset(a->offset_w, a->offset_x));
  TRY(LISTS_OF(&given, rank, &l));
  if (!l.a.groups) l.a.groups = graph_conv_groups(a->x, a->filter, given.data_format);
  return graph_conv_forward(e, a->x, a->filter, a->bias, a->y, &l.a, given.data_format);
}

static status expect_size(const aclIntArray *size, const char *name, const tensor *y) {
  bool same = size->size == y->rank;
  for (int d = 0; same && d < y->rank; ++d) same = size->value[d] == y->dims[d];
  EXPECT(same, "%s is %s, expected the shape of y, %s", name, DIMS_TEXT(size->value, (int)size->size), SHAPE_OF(y));
  return ST_OK;
}

status prepare_graph_conv_transpose(executor *e, const graph_conv_transpose_args *a) {
  axis_lists l;
  TRY(expect_no_offset(a->offset_w, a->offset_x));
  TRY(expect_size(a->input_size, "input_size", a->y));
  TRY(LISTS_OF(a, rank_of(e), &l));
  TRY(per_axis(a->output_padding, "output_padding", a->data_format, 0, &l.of[OUTPUT_PADDING]));
  l.a.transposed = true;
  l.a.output_padding = &l.of[OUTPUT_PADDING].array;
  return graph_conv_forward(e, a->x, a->filter, a->bias, a->y, &l.a, a->data_format);
}

status prepare_graph_conv_input(executor *e, const graph_conv_input_args *a) {
  axis_lists l;
  tensor weight, grad, y;
  TRY(expect_size(a->input_size, "input_size", a->y));
  TRY(LISTS_OF(a, rank_of(e), &l));
  TRY(conv_weight_of(a->filter, "filter", &weight));
  TRY(conv_data_of(a->out_backprop, "out_backprop", a->data_format, &grad));
  TRY(conv_data_of(a->y, "y", a->data_format, &y));
  const conv_backward b = {
      .t = {[CONV_GRAD] = &grad, [CONV_INPUT] = &y, [CONV_WEIGHT] = &weight, [CONV_GRAD_INPUT] = &y},
      .name = {[CONV_GRAD] = "out_backprop", [CONV_INPUT] = "y", [CONV_WEIGHT] = "filter", [CONV_GRAD_INPUT] = "y"},
      .operand = {[CONV_WEIGHT] = GRAPH_CONV_INPUT_FILTER,
                  [CONV_GRAD] = GRAPH_CONV_INPUT_OUT_BACKPROP,
                  [CONV_GRAD_INPUT] = GRAPH_CONV_INPUT_Y}};
  return conv_prepare_gradients(e, &b, &l.a);
}

status prepare_graph_conv_filter(executor *e, const graph_conv_filter_args *a) {
  axis_lists l;
  tensor x, grad, y;
  TRY(expect_size(a->filter_size, "filter_size", a->y));
  TRY(LISTS_OF(a, rank_of(e), &l));
  TRY(conv_data_of(a->x, "x", a->data_format, &x));
  TRY(conv_data_of(a->out_backprop, "out_backprop", a->data_format, &grad));
  TRY(conv_weight_of(a->y, "y", &y));
  const conv_backward b = {
      .t = {[CONV_GRAD] = &grad, [CONV_INPUT] = &x, [CONV_WEIGHT] = &y, [CONV_GRAD_WEIGHT] = &y},
      .name = {[CONV_GRAD] = "out_backprop", [CONV_INPUT] = "x", [CONV_WEIGHT] = "y", [CONV_GRAD_WEIGHT] = "y"},
      .operand = {[CONV_INPUT] = GRAPH_CONV_FILTER_X,
                  [CONV_GRAD] = GRAPH_CONV_FILTER_OUT_BACKPROP,
                  [CONV_GRAD_WEIGHT] = GRAPH_CONV_FILTER_Y}};
  return conv_prepare_gradients(e, &b, &l.a);
}
