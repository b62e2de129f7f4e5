/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/conv/geometry.h"

static status conv_expect_array(const aclIntArray *a, const char *name, int n, int64_t least) {
  EXPECT(a->size == (uint64_t)n, "%s has %ju elements, expected %d", name, (uintmax_t)a->size, n);
  for (uint64_t i = 0; i < a->size; ++i)
    EXPECT(a->value[i] >= least && a->value[i] <= INT32_MAX, "%s[%ju] is %jd, expected %jd or more", name, (uintmax_t)i,
           (intmax_t)a->value[i], (intmax_t)least);
  return ST_OK;
}

/* Returns whether padding has two values for each axis, for its low and its high end. */
static bool pads_by_end(const conv_arguments *a, int n) {
  return a->padding->size == 2 * (uint64_t)n && (a->by_end || n == 2 || (n == 1 && !a->transposed));
}

static status expect_arguments(const conv_arguments *a, int n) {
  TRY(conv_expect_array(a->stride, "stride", n, 1));
  TRY(conv_expect_array(a->padding, "padding", pads_by_end(a, n) ? 2 * n : n, 0));
  TRY(conv_expect_array(a->dilation, "dilation", n, 1));
  if (a->output_padding && a->transposed) TRY(conv_expect_array(a->output_padding, "outputPadding", n, 0));
  EXPECT(a->groups >= 1 && a->groups <= INT32_MAX, "groups is %jd, expected 1 or more", (intmax_t)a->groups);
  return ST_OK;
}

/* Sets the padding of axis i and the sizes of x and y along it. size: of the call's input. */
static status size_axis(conv_geometry *g, const conv_arguments *a, int axis, int i, int n, int64_t size) {
  const bool by_end = pads_by_end(a, n);
  g->pad[axis] = a->padding->value[by_end ? 2 * i : i];
  const int64_t pads = g->pad[axis] + a->padding->value[by_end ? 2 * i + 1 : i];
  const int64_t reach = (g->kernel[axis] - 1) * g->dilation[axis] + 1;
  if (a->transposed) {
    const int64_t more = a->output_padding ? a->output_padding->value[i] : 0;
    EXPECT(more < g->stride[axis] || more < g->dilation[axis],
           "outputPadding[%d] is %jd, expected less than the stride, %jd, or the dilation, %jd", i, (intmax_t)more,
           (intmax_t)g->stride[axis], (intmax_t)g->dilation[axis]);
    g->out[axis] = size;
    g->in[axis] = (size - 1) * g->stride[axis] - pads + reach + more;
    EXPECT(g->in[axis] > 0, "padding along axis %d adds up to %jd, expected less, such that the output has an element",
           i, (intmax_t)pads);
    return ST_OK;
  }
  g->in[axis] = size;
  EXPECT(size + pads >= reach, "input has %jd elements along axis %d, expected room for a kernel of %jd",
         (intmax_t)size, i, (intmax_t)reach);
  g->out[axis] = conv_quotient(size + pads - reach, g->stride[axis]) + 1;
  return ST_OK;
}

status conv_geometry_init(conv_geometry *g, const tensor *input, const tensor *weight, const conv_arguments *a,
                          int *n) {
  TRY(op_expect_rank(weight, "weight", 3, 5));
  *n = weight->rank - 2;
  EXPECT(input->rank == weight->rank, "input has shape %s, expected %d dimensions, as weight", SHAPE_OF(input),
         weight->rank);
  TRY(expect_arguments(a, *n));
  g->groups = a->groups;
  g->channels = weight->dims[1];
  g->batch = input->dims[0];
  EXPECT(conv_remainder(weight->dims[0], a->groups) == 0 && weight->dims[0] > 0 && weight->dims[1] > 0,
         "weight has shape %s, expected a multiple of %jd groups", SHAPE_OF(weight), (intmax_t)a->groups);
  g->rows = conv_quotient(weight->dims[0], a->groups);
  const int64_t expected = a->transposed ? weight->dims[0] : g->channels * g->groups;
  EXPECT(input->dims[1] == expected, "input has %jd channels, expected %jd, as weight and groups have",
         (intmax_t)input->dims[1], (intmax_t)expected);
  for (int axis = 0; axis < CONV_AXES; ++axis) {
    const int i = axis - (CONV_AXES - *n);
    g->in[axis] = g->out[axis] = g->kernel[axis] = g->stride[axis] = g->dilation[axis] = 1;
    g->pad[axis] = 0;
    if (i < 0) continue;
    g->kernel[axis] = weight->dims[2 + i];
    g->stride[axis] = a->stride->value[i];
    g->dilation[axis] = a->dilation->value[i];
    EXPECT(g->kernel[axis] > 0 && g->kernel[axis] <= INT32_MAX,
           "weight has shape %s, expected 1 or more elements along each kernel axis", SHAPE_OF(weight));
    EXPECT(input->dims[2 + i] > 0 && input->dims[2 + i] <= INT32_MAX,
           "input has %jd elements along axis %d, expected 1 or more", (intmax_t)input->dims[2 + i], i);
    TRY(size_axis(g, a, axis, i, *n, input->dims[2 + i]));
  }
  return ST_OK;
}

void conv_output_dims(const conv_geometry *g, bool transposed, int n, int64_t *dims) {
  dims[0] = g->batch;
  dims[1] = g->groups * (transposed ? g->channels : g->rows);
  const int64_t *const to = (transposed ? g->in : g->out) + CONV_AXES - n;
  for (int i = 0; i < n; ++i) dims[2 + i] = to[i];
}

void conv_operand_init(conv_operand *o, const tensor *t, int n) {
  const int missing = CONV_AXES - n;
  const int64_t size = (int64_t)dtype_bytes(t->dtype);
  o->outer = t->strides[0] * size;
  o->inner = t->strides[1] * size;
  o->axis[0] = o->axis[1] = 0;
  for (int i = 0; i < n; ++i) o->axis[missing + i] = t->strides[2 + i] * size;
  o->dtype = t->dtype;
}

void conv_join_axes(conv_geometry *g, const conv_operand *x, const conv_operand *y) {
  for (int a = 0; a + 1 < CONV_AXES; ++a) {
    bool plain = g->in[a] == g->out[a] && g->in[a + 1] == g->out[a + 1] &&
                 x->axis[a] == g->in[a + 1] * x->axis[a + 1] && y->axis[a] == g->in[a + 1] * y->axis[a + 1];
    for (int i = a; i <= a + 1; ++i) plain &= g->kernel[i] == 1 && g->stride[i] == 1 && g->pad[i] == 0;
    if (!plain) continue;
    g->in[a + 1] *= g->in[a];
    g->out[a + 1] = g->in[a + 1];
    g->in[a] = g->out[a] = 1;
  }
}
