/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/pooling/pooling_window.h"

/* Value i of an array of n values; a single value applies to all axes. */
static int64_t window_value(const aclIntArray *a, int i, int64_t missing) {
  if (!a || a->size == 0) return missing;
  return a->value[a->size == 1 ? 0 : i];
}

static status expect_values(const aclIntArray *a, const char *name, int n, bool may_be_empty, bool may_be_pairs,
                            int64_t least) {
  if (!a) return ST_OK;
  const uint64_t size = a->size;
  const bool fits =
      size == 1 || size == (uint64_t)n || (may_be_empty && size == 0) || (may_be_pairs && size == 2 * (uint64_t)n);
  EXPECT(fits, "%s has %ju elements, expected 1 or %d", name, (uintmax_t)size, n);
  for (uint64_t i = 0; i < size; ++i)
    EXPECT(a->value[i] >= least && a->value[i] <= INT32_MAX, "%s[%ju] is %jd, expected %jd or more", name, (uintmax_t)i,
           (intmax_t)a->value[i], (intmax_t)least);
  return ST_OK;
}

static status expect_rank(const tensor *t, const char *name, int n) {
  TRY(op_expect_rank(t, name, n + 1, n + 2));
  for (int i = t->rank - n; i < t->rank; ++i)
    EXPECT(t->dims[i] > 0 && t->dims[i] <= INT32_MAX, "%s has shape %s, expected some elements along dimension %d",
           name, SHAPE_OF(t), i);
  return ST_OK;
}

/* As in PyTorch: with ceil, a last window that would start in the padding behind the input is dropped. */
static int64_t window_count(const window_axis *a, bool ceil) {
  const int64_t room = a->in + a->pad + a->pad_end - a->dilation * (a->kernel - 1) - 1;
  if (room < 0 && !(ceil && room > -a->stride)) return 0;
  int64_t n = (room + (ceil ? a->stride - 1 : 0)) / a->stride + 1;
  if (ceil && (n - 1) * a->stride >= a->in + a->pad) --n;
  return n;
}

status windows_init(window_axis *axis, int n, const tensor *self, const window_arrays *arrays) {
  TRY(expect_rank(self, "self", n));
  TRY(expect_values(arrays->kernel, arrays->kernel_name, n, false, false, 1));
  TRY(expect_values(arrays->stride, arrays->stride_name, n, true, false, 1));
  TRY(expect_values(arrays->pad, arrays->pad_name, n, true, true, 0));
  TRY(expect_values(arrays->dilation, arrays->dilation_name, n, true, true, 1));
  const bool pairs = arrays->pad && n > 1 && arrays->pad->size == 2 * (uint64_t)n;
  for (int i = 0; i < n; ++i) {
    window_axis *a = &axis[i];
    a->in = self->dims[self->rank - n + i];
    a->kernel = window_value(arrays->kernel, i, 1);
    a->stride = window_value(arrays->stride, i, arrays->stride_is_1 ? 1 : a->kernel);
    a->dilation = window_value(arrays->dilation, i, 1);
    a->pad = window_value(arrays->pad, i, 0);
    a->pad_end = pairs ? arrays->pad->value[n + i] : a->pad;
    a->adaptive = false;
    a->out = window_count(a, arrays->ceil);
    EXPECT(a->out > 0, "self has %jd elements along dimension %d, expected room for a window of %jd", (intmax_t)a->in,
           self->rank - n + i, (intmax_t)((a->kernel - 1) * a->dilation + 1));
  }
  return ST_OK;
}

status windows_init_adaptive(window_axis *axis, int n, const tensor *self, const int64_t *output_size) {
  TRY(expect_rank(self, "self", n));
  for (int i = 0; i < n; ++i) {
    const int64_t out = output_size[i];
    EXPECT(out > 0 && out <= INT32_MAX, "outputSize[%d] is %jd, expected 1 or more", i, (intmax_t)out);
    axis[i] = (window_axis){.in = self->dims[self->rank - n + i], .out = out, .dilation = 1, .adaptive = true};
  }
  return ST_OK;
}

status windows_expect_list(const aclIntArray *a, const char *name, int n) {
  EXPECT(a->size == 1 || a->size == (uint64_t)n, "%s has %ju elements, expected 1 or %d", name, (uintmax_t)a->size, n);
  return ST_OK;
}

status windows_expect_half(const window_axis *axis, int n, const char *pad_name) {
  for (int i = 0; i < n; ++i)
    EXPECT(axis[i].pad * 2 <= axis[i].kernel, "%s[%d] is %jd, expected at most half of the kernel, %jd", pad_name, i,
           (intmax_t)axis[i].pad, (intmax_t)axis[i].kernel / 2);
  return ST_OK;
}

status windows_expect_out(const window_axis *axis, int n, const tensor *self, const tensor *out, const char *name) {
  int64_t dims[MAX_RANK];
  for (int d = 0; d < self->rank; ++d) dims[d] = d < self->rank - n ? self->dims[d] : axis[d - self->rank + n].out;
  return op_expect_shape(out, name, dims, self->rank);
}

void window_planes_init(window_planes *p, const tensor *t, int n) {
  const int keep = t->rank - n;
  view *const v = &p->planes;
  view_init(v, t);
  for (int i = 0; i < WINDOW_AXES; ++i) {
    const int d = keep + i - (WINDOW_AXES - n);
    p->dims[i] = d >= keep ? v->dims[d] : 1;
    p->stride[i] = d >= keep ? v->strides[d] : 0;
  }
  v->rank = keep;
}
