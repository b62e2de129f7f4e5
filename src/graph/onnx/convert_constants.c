/* SPDX-License-Identifier: Apache-2.0 */
/* Operators whose result is known while the model is converted. */
#include <math.h>
#include <string.h>

#include "graph/nodes.h"
#include "graph/onnx/convert.h"

static status convert_constant(converter *c) {
  static const char *const names[] = {"value", "value_float", "value_int", "value_floats", "value_ints"};
  const onnx_attribute *a = NULL;
  ir_value *y;
  for (size_t i = 0; !a && i < sizeof names / sizeof *names; ++i) a = converter_attribute(c, names[i]);
  if (!a) return OP_FAIL("the value is neither a tensor nor numbers; strings and sparse tensors are not supported");
  const int64_t n = a->type == ONNX_ATTR_FLOATS ? a->n_floats : a->n_ints;
  switch (a->type) {
  case ONNX_ATTR_TENSOR: TRY(converter_tensor(c, a->t, &y)); break;
  case ONNX_ATTR_FLOAT: TRY(ir_constant(c->g, ACL_FLOAT, NULL, 0, &a->f, &y)); break;
  case ONNX_ATTR_INT: TRY(ir_constant(c->g, ACL_INT64, NULL, 0, &a->i, &y)); break;
  case ONNX_ATTR_FLOATS: TRY(ir_constant(c->g, ACL_FLOAT, &n, 1, n ? (const void *)a->floats : "", &y)); break;
  default: TRY(ir_constant(c->g, ACL_INT64, &n, 1, n ? (const void *)a->ints : "", &y)); break;
  }
  return converter_output(c, 0, y);
}

/* A constant with one number everywhere. value: one element in host memory. */
static status filled(converter *c, int dtype, const int64_t *dims, int rank, const void *value, ir_value **out) {
  TRY(ir_constant(c->g, dtype, dims, rank, NULL, out));
  const size_t bytes = dtype_bytes(dtype);
  char *to = ir_fill(*out);
  for (size_t b = 0; b < bytes; ++b)
    if (((const char *)value)[b]) {
      for (int64_t i = 0; i < (*out)->tensor.n; ++i) memcpy(to + (size_t)i * bytes, value, bytes);
      break;
    }
  return ST_OK;
}

static status convert_constant_of_shape(converter *c) {
  const onnx_attribute *a = converter_attribute(c, "value");
  const int64_t *dims;
  int n, dtype = ACL_FLOAT;
  const float zero = 0;
  ir_value *y;
  TRY(converter_constant_ints(c, 0, &dims, &n));
  if (n > MAX_RANK) return OP_FAIL("the shape has %d dimensions, at most %d are supported", n, MAX_RANK);
  if (a) TRY(converter_dtype(a->t->dtype, &dtype));
  if (a && a->t->bytes != dtype_bytes(dtype))
    return OP_FAIL("the value has %ju bytes, expected one element", (uintmax_t)a->t->bytes);
  TRY(filled(c, dtype, dims, n, a ? a->t->contents : &zero, &y));
  return converter_output(c, 0, y);
}

static status convert_shape(converter *c) {
  const tensor *t = &converter_input(c, 0)->tensor;
  int64_t start = attribute_int(c, "start", 0), end = attribute_int(c, "end", t->rank);
  ir_value *y;
  if (start < 0) start = start + t->rank < 0 ? 0 : start + t->rank;
  if (end < 0) end += t->rank;
  if (end > t->rank) end = t->rank;
  TRY(ir_integers(c->g, t->dims + (start < t->rank ? start : 0), end > start ? (int)(end - start) : 0, &y));
  return converter_output(c, 0, y);
}

static status convert_size(converter *c) {
  ir_value *y;
  TRY(ir_constant(c->g, ACL_INT64, NULL, 0, NULL, &y));
  *(int64_t *)ir_fill(y) = converter_input(c, 0)->tensor.n;
  return converter_output(c, 0, y);
}

static status convert_range(converter *c) {
  const double *start, *end, *step;
  int n;
  ir_value *y;
  TRY(converter_constant_reals(c, 0, &start, &n));
  TRY(converter_constant_reals(c, 1, &end, &n));
  TRY(converter_constant_reals(c, 2, &step, &n));
  if (*step == 0) return OP_FAIL("delta is 0");
  const double length = ceil((*end - *start) / *step);
  if (length > (double)(INT64_MAX / 16)) return OP_FAIL("the range has %g elements", length);
  const int64_t count = length > 0 ? (int64_t)length : 0;
  TRY(ir_constant(c->g, ACL_DOUBLE, &count, 1, NULL, &y));
  for (int64_t i = 0; i < count; ++i) ((double *)ir_fill(y))[i] = *start + (double)i * *step;
  TRY(ir_cast(c->g, y, converter_input(c, 0)->tensor.dtype, &y));
  return converter_output(c, 0, y);
}

static status convert_eye_like(converter *c) {
  const tensor *t = &converter_input(c, 0)->tensor;
  const int64_t k = attribute_int(c, "k", 0);
  int dtype = t->dtype;
  ir_value *y;
  if (converter_attribute(c, "dtype")) TRY(converter_dtype((int)attribute_int(c, "dtype", 0), &dtype));
  if (t->rank != 2) return OP_FAIL("the input has %d dimensions, expected 2", t->rank);
  TRY(ir_constant(c->g, ACL_BOOL, t->dims, 2, NULL, &y));
  for (int64_t i = 0; i < t->dims[0]; ++i)
    if (i + k >= 0 && i + k < t->dims[1]) ((bool *)ir_fill(y))[i * t->dims[1] + i + k] = true;
  TRY(ir_cast(c->g, y, dtype, &y));
  return converter_output(c, 0, y);
}

/* Windows a0 - a1 cos(2 pi i / N) + a2 cos(4 pi i / N), where N is the size, or less one if it is symmetric. */
enum { HANN, HAMMING, BLACKMAN };

static status convert_window(converter *c) {
  static const double factors[][3] = {
      [HANN] = {0.5, 0.5, 0}, [HAMMING] = {25.0 / 46, 21.0 / 46, 0}, [BLACKMAN] = {0.42, 0.5, 0.08}};
  const double *a = factors[c->entry->number];
  const int64_t *size;
  int n, dtype;
  ir_value *y;
  TRY(converter_constant_ints(c, 0, &size, &n));
  TRY(converter_dtype((int)attribute_int(c, "output_datatype", ONNX_FLOAT), &dtype));
  if (*size < 0) return OP_FAIL("size is %jd, expected 0 or more", (intmax_t)*size);
  const double period = (double)(attribute_int(c, "periodic", 1) ? *size : *size - 1);
  TRY(ir_constant(c->g, ACL_DOUBLE, size, 1, NULL, &y));
  for (int64_t i = 0; i < *size; ++i) {
    const double at = 2 * M_PI * (double)i / period;
    ((double *)ir_fill(y))[i] = a[0] - a[1] * cos(at) + a[2] * cos(2 * at);
  }
  TRY(ir_cast(c->g, y, dtype, &y));
  return converter_output(c, 0, y);
}

static double mel_of(double hertz) { return 2595 * log10(1 + hertz / 700); }

/* Triangles over the bins of a spectrum whose corners are equally far apart on the mel scale. */
static void fill_mel(double *to, int64_t n_mels, int64_t n_bins, int64_t dft, double rate, double low, double high) {
  const double first = mel_of(low), step = (mel_of(high) - first) / (double)(n_mels + 2);
  for (int64_t m = 0; m < n_mels; ++m) {
    int64_t corner[3];
    for (int k = 0; k < 3; ++k) {
      const double hertz = 700 * (pow(10, (first + (double)(m + k) * step) / 2595) - 1);
      corner[k] = (int64_t)floor((double)(dft + 1) * hertz / rate);
    }
    if (corner[1] == corner[0]) {
      if (corner[1] < n_bins) to[corner[1] * n_mels + m] = 1;
    } else {
      for (int64_t j = corner[0]; j <= corner[1] && j < n_bins; ++j)
        to[j * n_mels + m] = (double)(j - corner[0]) / (double)(corner[1] - corner[0]);
    }
    for (int64_t j = corner[1]; corner[2] > corner[1] && j < corner[2] && j < n_bins; ++j)
      to[j * n_mels + m] = (double)(corner[2] - j) / (double)(corner[2] - corner[1]);
  }
}

static status convert_mel_weights(converter *c) {
  const int64_t *n_mels, *dft;
  const double *rate, *low, *high;
  int n, dtype;
  ir_value *y;
  TRY(converter_constant_ints(c, 0, &n_mels, &n));
  TRY(converter_constant_ints(c, 1, &dft, &n));
  TRY(converter_constant_reals(c, 2, &rate, &n));
  TRY(converter_constant_reals(c, 3, &low, &n));
  TRY(converter_constant_reals(c, 4, &high, &n));
  TRY(converter_dtype((int)attribute_int(c, "output_datatype", ONNX_FLOAT), &dtype));
  if (*n_mels < 1 || *dft < 1) return OP_FAIL("num_mel_bins or dft_length is below 1");
  const int64_t dims[] = {*dft / 2 + 1, *n_mels};
  TRY(ir_constant(c->g, ACL_DOUBLE, dims, 2, NULL, &y));
  fill_mel(ir_fill(y), *n_mels, dims[0], *dft, *rate, *low, *high);
  TRY(ir_cast(c->g, y, dtype, &y));
  return converter_output(c, 0, y);
}

const onnx_operator onnx_constants[] = {
    {"Constant", convert_constant, 0, NULL, 0},
    {"ConstantOfShape", convert_constant_of_shape, 1, NULL, 0},
    {"Shape", convert_shape, 1, NULL, 0},
    {"Size", convert_size, 1, NULL, 0},
    {"Range", convert_range, 3, NULL, 0},
    {"EyeLike", convert_eye_like, 1, NULL, 0},
    {"HannWindow", convert_window, 1, NULL, HANN},
    {"HammingWindow", convert_window, 1, NULL, HAMMING},
    {"BlackmanWindow", convert_window, 1, NULL, BLACKMAN},
    {"MelWeightMatrix", convert_mel_weights, 5, NULL, 0},
    {0},
};
