#include "kernel/conv/image.h"

#include <string.h>

#include "kernel/engine/loops.h"

static int64_t divisor(int64_t a, int64_t b) { return b ? divisor(b, a % b) : a; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

void image_align(conv_image *i) { i->channel = (i->rows * i->size[2] + 15) / 16 * 16; }

void image_init(conv_image *i, const int64_t *low, const int64_t *out, const int64_t *taps, const int64_t *stride,
                const int64_t *dilation) {
  i->rows = 1;
  for (int a = 0; a < CONV_AXES; ++a) {
    i->low[a] = low[a];
    i->stride[a] = stride[a];
    i->dilation[a] = dilation[a];
    i->parts[a] = least(taps[a], stride[a] / divisor(stride[a], dilation[a])); /* remainders repeat */
    i->size[a] = out[a] + (taps[a] - 1) * dilation[a] / stride[a];
    i->rows *= a < 2 ? i->parts[a] * i->size[a] : i->parts[a];
  }
  image_align(i);
}

int64_t image_tap(const conv_image *i, const int64_t *t) {
  int64_t part = 0, element = 0;
  for (int a = 0; a < CONV_AXES; ++a) {
    part = part * i->parts[a] + t[a] % i->parts[a];
    element = element * i->size[a] + t[a] * i->dilation[a] / i->stride[a];
  }
  return part * conv_volume(i->size) + element;
}

/* One row: elements x[first + j * stride] for j < n; those of x are [0, in). */
static void fill_row(float *to, const char *x, int64_t step, int dtype, int64_t first, int64_t stride, int64_t n,
                     int64_t in) {
  const int64_t low = least(first < 0 ? (-first + stride - 1) / stride : 0, n);
  const int64_t high = first < in ? least((in - 1 - first) / stride + 1, n) : 0;
  if (low >= high) {
    memset(to, 0, (size_t)n * sizeof *to);
    return;
  }
  memset(to, 0, (size_t)low * sizeof *to);
  const char *from = x + (first + low * stride) * step;
  if (dtype == ACL_FLOAT && step * stride == (int64_t)sizeof *to)
    memcpy(to + low, from, (size_t)(high - low) * sizeof *to);
  else
    loops->load[dtype][COMPUTE_F32](to + low, from, step * stride, high - low);
  memset(to + high, 0, (size_t)(n - high) * sizeof *to);
}

/* Row number `row` of a channel: parts and rows of parts count as one number. */
static void fill_channel(const conv_image *i, float *to, const char *x, const conv_operand *o, const int64_t *in) {
  for (int64_t row = 0; row < i->rows; ++row, to += i->size[2]) {
    int64_t at = row, index[CONV_AXES], part[CONV_AXES];
    index[1] = at % i->size[1], at /= i->size[1];
    index[0] = at % i->size[0], at /= i->size[0];
    for (int a = CONV_AXES - 1; a >= 0; --a) part[a] = at % i->parts[a], at /= i->parts[a];
    const char *from = x;
    bool inside = true;
    for (int a = 0; a < 2; ++a) {
      const int64_t k = i->low[a] + index[a] * i->stride[a] + part[a] * i->dilation[a] % i->stride[a];
      inside &= k >= 0 && k < in[a];
      from += k * o->axis[a];
    }
    const int64_t first = i->low[2] + part[2] * i->dilation[2] % i->stride[2];
    fill_row(to, from, o->axis[2], o->dtype, first, i->stride[2], i->size[2], inside ? in[2] : 0);
  }
  memset(to, 0, (size_t)(i->channel - i->rows * i->size[2]) * sizeof *to);
}

void image_fill(const conv_image *i, float *to, const char *x, const conv_operand *o, const int64_t *in, int64_t begin,
                int64_t end) {
  for (int64_t c = begin; c < end; ++c) fill_channel(i, to + (c - begin) * i->channel, x + c * o->inner, o, in);
}
