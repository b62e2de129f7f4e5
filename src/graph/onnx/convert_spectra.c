/* SPDX-License-Identifier: Apache-2.0 */
/* Fourier transforms, as products with matrices of cosines and sines, which are constants: transforms in models have
 * some hundred points, and products run at the processor's peak. */
#include <math.h>
#include <string.h>

#include "base/store/hash.h"
#include "graph/nodes.h"
#include "graph/onnx/convert.h"

enum { MOST_POINTS = 8192 };

/* Numbers that say what a matrix of waves has. */
static uint64_t waves_identity(int64_t n, int64_t bins, const double *window, double scale, int part, int dtype) {
  const int64_t numbers[] = {n, bins, part, dtype, window != NULL};
  const uint64_t hash = hash_bytes(hash_bytes(HASH_START, "waves", 5), numbers, sizeof numbers);
  return hash_bytes(hash_bytes(hash, &scale, sizeof scale), window, window ? (size_t)n * sizeof *window : 0);
}

/* Matrices [n, bins] of w[i] cos(2 pi i k / n) and w[i] sin(2 pi i k / n). window: or NULL. */
static status waves(converter *c, int64_t n, int64_t bins, const double *window, double scale, int dtype,
                    ir_value *out[2]) {
  const int64_t dims[] = {n, bins};
  if (n > MOST_POINTS)
    return OP_FAIL("the transform has %jd points, at most %d are supported", (intmax_t)n, MOST_POINTS);
  double *wave = REGION_NEW(&c->g->memory, double, n);
  if (!wave) return fail(ST_NO_HOST_MEMORY, "no host memory for a transform of %jd points", (intmax_t)n);
  for (int part = 0; part < 2; ++part) {
    for (int64_t i = 0; i < n; ++i) {
      const double angle = 2 * M_PI * (double)i / (double)n;
      wave[i] = part ? sin(angle) : cos(angle);
    }
    const int stored = dtype == ACL_FLOAT ? ACL_FLOAT : ACL_DOUBLE;
    TRY(ir_constant(c->g, stored, dims, 2, NULL, &out[part]));
    out[part]->storage->identity = waves_identity(n, bins, window, scale, part, stored);
    double *doubles = ir_fill(out[part]);
    float *floats = ir_fill(out[part]);
    for (int64_t i = 0; i < n; ++i) {
      const double factor = scale * (window ? window[i] : 1);
      for (int64_t k = 0, at = 0; k < bins; ++k, at = at + i < n ? at + i : at + i - n)
        if (stored == ACL_FLOAT)
          floats[i * bins + k] = (float)(factor * wave[at]);
        else
          doubles[i * bins + k] = factor * wave[at];
    }
    TRY(ir_cast(c->g, out[part], dtype, &out[part]));
  }
  return ST_OK;
}

/* Real and imaginary parts of sum x[i] (cos -+ i sin), x being [..., n]. x[1]: NULL for real numbers. */
static status transform(converter *c, ir_value *const x[2], ir_value *const wave[2], bool inverse, ir_value *out[2]) {
  const int dtype = x[0]->tensor.dtype;
  ir_value *cross;
  TRY(converter_product(c, x[0], wave[0], &out[0]));
  TRY(converter_product(c, x[0], wave[1], &out[1]));
  if (!inverse) TRY(converter_unary(c, &op_Neg, out[1], dtype, &out[1]));
  if (!x[1]) return ST_OK;
  TRY(converter_product(c, x[1], wave[1], &cross));
  TRY(converter_binary(c, inverse ? &op_Sub : &op_Add, out[0], cross, dtype, &out[0]));
  TRY(converter_product(c, x[1], wave[0], &cross));
  return converter_binary(c, &op_Add, out[1], cross, dtype, &out[1]);
}

/* The two parts as a last dimension. */
static status interleaved(converter *c, ir_value *const parts[2], ir_value **out) {
  int64_t dims[MAX_RANK];
  const tensor *t = &parts[0]->tensor;
  if (t->rank == MAX_RANK) return OP_FAIL("the result has more than %d dimensions", MAX_RANK);
  memcpy(dims, t->dims, sizeof dims);
  dims[t->rank] = 2;
  const aclTensorList *list = ir_list(c->g, parts, 2);
  if (!list) return ST_NO_HOST_MEMORY;
  TRY(ir_temporary(c->g, t->dtype, dims, t->rank + 1, out));
  return node_Stack(c->g, list, t->rank, *out);
}

/* The real and the imaginary part, which are the last dimension of x; NULL if there is only a real one. */
static status complex_parts_of(converter *c, ir_value *x, ir_value *parts[2]) {
  const tensor *t = &x->tensor;
  const int64_t n = t->rank ? t->dims[t->rank - 1] : 0;
  if (n != 1 && n != 2) return OP_FAIL("the last dimension is %jd, expected 1 (real) or 2 (complex)", (intmax_t)n);
  parts[1] = NULL;
  for (int i = 0; i < n; ++i)
    TRY(ir_view(c->g, x, t->dims, t->strides, t->rank - 1, i * t->strides[t->rank - 1], &parts[i]));
  return ST_OK;
}

static status with_axis_last(converter *c, ir_value *x, int axis, ir_value **out) {
  int order[MAX_RANK];
  for (int d = 0; d < x->tensor.rank; ++d) order[d] = d;
  order[axis] = x->tensor.rank - 1;
  order[x->tensor.rank - 1] = axis;
  return ir_permuted(c->g, x, order, out);
}

/* Cuts the last dimension to n elements, or pads it with zeros. */
static status with_length(converter *c, ir_value *x, int64_t n, ir_value **out) {
  tensor t = x->tensor;
  int64_t before[MAX_RANK] = {0}, after[MAX_RANK] = {0};
  const int64_t more = n - t.dims[t.rank - 1];
  if (more > 0) {
    after[t.rank - 1] = more;
    return converter_padded(c, x, before, after, 0, out);
  }
  t.dims[t.rank - 1] = n;
  return ir_view(c->g, x, t.dims, t.strides, t.rank, 0, out);
}

static status convert_dft(converter *c) {
  ir_value *x = converter_input(c, 0), *parts[2], *wave[2], *result[2], *y;
  const bool inverse = attribute_int(c, "inverse", 0), onesided = attribute_int(c, "onesided", 0);
  int64_t given = c->version >= 20 ? -2 : attribute_int(c, "axis", 1);
  const int64_t *list;
  int axis, n_list;
  if (c->version >= 20 && converter_input(c, 2)) {
    TRY(converter_constant_ints(c, 2, &list, &n_list));
    given = list[0];
  }
  TRY(converter_axis(given, x->tensor.rank, &axis));
  if (axis == x->tensor.rank - 1) return OP_FAIL("axis is that of the real and imaginary parts");
  int64_t n = x->tensor.dims[axis];
  if (converter_input(c, 1)) {
    TRY(converter_constant_ints(c, 1, &list, &n_list));
    n = list[0];
  }
  TRY(complex_parts_of(c, x, parts));
  for (int i = 0; i < 2 && parts[i]; ++i) {
    TRY(with_axis_last(c, parts[i], axis, &parts[i]));
    TRY(with_length(c, parts[i], n, &parts[i]));
  }
  TRY(waves(c, n, onesided && !inverse ? n / 2 + 1 : n, NULL, inverse ? 1 / (double)n : 1, x->tensor.dtype, wave));
  TRY(transform(c, parts, wave, inverse, result));
  for (int i = 0; i < 2; ++i) TRY(with_axis_last(c, result[i], axis, &result[i]));
  TRY(interleaved(c, result, &y));
  return converter_output(c, 0, y);
}

/* Frames of a signal are a view of it, whose rows overlap; the window is part of the matrices. */
static status convert_stft(converter *c) {
  ir_value *x = converter_input(c, 0), *parts[2], *wave[2], *result[2], *y;
  const int64_t *list;
  const double *window = NULL;
  int n_list, n_window = 0;
  TRY(converter_constant_ints(c, 1, &list, &n_list));
  const int64_t step = list[0];
  if (converter_input(c, 2)) TRY(converter_constant_reals(c, 2, &window, &n_window));
  int64_t n = n_window;
  if (converter_input(c, 3)) {
    TRY(converter_constant_ints(c, 3, &list, &n_list));
    n = list[0];
  }
  if (x->tensor.rank == 2) /* real, without a dimension for the parts */
    TRY(ir_reshaped(c->g, x, (const int64_t[]){x->tensor.dims[0], x->tensor.dims[1], 1}, 3, &x));
  if (x->tensor.rank != 3 || step < 1 || n < 1 || (window && n_window != n) || n > x->tensor.dims[1])
    return OP_FAIL("frame_step is %jd and frame_length %jd, which do not fit the signal or the window", (intmax_t)step,
                   (intmax_t)n);
  const int64_t frames = (x->tensor.dims[1] - n) / step + 1;
  TRY(complex_parts_of(c, x, parts));
  for (int i = 0; i < 2 && parts[i]; ++i) {
    const int64_t *s = parts[i]->tensor.strides, dims[] = {x->tensor.dims[0], frames, n};
    TRY(ir_view(c->g, parts[i], dims, (const int64_t[]){s[0], s[1] * step, s[1]}, 3, 0, &parts[i]));
  }
  const bool onesided = attribute_int(c, "onesided", 1);
  TRY(waves(c, n, onesided ? n / 2 + 1 : n, window, 1, x->tensor.dtype, wave));
  TRY(transform(c, parts, wave, false, result));
  TRY(interleaved(c, result, &y));
  return converter_output(c, 0, y);
}

const onnx_operator onnx_spectra[] = {
    {"DFT", convert_dft, 1, NULL, 0},
    {"STFT", convert_stft, 2, NULL, 0},
    {0},
};
