/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/conv/direct/image.h"

#include <string.h>

#include "kernel/conv/conv_loops.h"
#include "kernel/engine/loops.h"
#include "kernel/engine/rows.h"

static int64_t divisor(int64_t a, int64_t b) { return b ? divisor(b, a % b) : a; }

void image_init(conv_image *i, const int64_t *low, const int64_t *out, const int64_t *taps, const int64_t *stride,
                const int64_t *dilation) {
  i->rows = 1;
  for (int a = 0; a < CONV_AXES; ++a) {
    i->low[a] = low[a];
    i->stride[a] = stride[a];
    i->dilation[a] = dilation[a];
    /* remainders repeat after that many taps */
    i->parts[a] = stride[a] == 1 ? 1 : i64_min(taps[a], stride[a] / divisor(stride[a], dilation[a]));
    i->size[a] = out[a] + conv_quotient((taps[a] - 1) * dilation[a], stride[a]);
    i->rows *= a < 2 ? i->parts[a] * i->size[a] : i->parts[a];
  }
  i->channel = (i->rows * i->size[2] + 15) / 16 * 16;
  int64_t part = conv_volume(i->size), element = 1;
  for (int a = CONV_AXES - 1; a >= 0; part *= i->parts[a], element *= i->size[a], --a)
    i->part_step[a] = part, i->step[a] = element;
}

/* The source of a line: its first element, the bytes between elements, and their dtype. */
typedef struct {
  const char *x;
  int64_t step;
  int dtype;
} row_source;

/* Clears n floats; n is usually 0. */
static inline void image_clear(float *to, int64_t n) {
  if (n > 0) memset(to, 0, (size_t)n * sizeof *to);
}

/* Sets [*low, *high) to those j < n for which element first + j * stride is in [0, in). */
static void span_inside(int64_t first, int64_t stride, int64_t n, int64_t in, int64_t *low, int64_t *high) {
  int64_t begin = first < 0 ? -first : 0, end = first < in ? in - first : 0;
  if (stride > 1) {
    begin = (begin + stride - 1) / stride;
    end = (end + stride - 1) / stride;
  }
  *low = i64_min(begin, n);
  *high = i64_min(end, n);
  if (*low >= *high) *low = *high = n;
}

/* Fills the lines of one group of remainders. Returns the address of the next group. */
static float *fill_part(const conv_image *i, float *to, const row_source *s, const conv_operand *o, const int64_t *in,
                        const int64_t *remainder) {
  const int64_t first = i->low[2] + remainder[2], y = i->low[1] + remainder[1], pitch = i->size[2];
  const bool copies = s->dtype == ACL_FLOAT && s->step % (int64_t)sizeof *to == 0;
  /* floats from element to element */
  const int64_t element = copies ? s->step / (int64_t)sizeof *to * i->stride[2] : 0;
  int64_t low, high, top, bottom;
  span_inside(first, i->stride[2], pitch, in[2], &low, &high);
  span_inside(y, i->stride[1], i->size[1], in[1], &top, &bottom);
  for (int64_t a = 0, z = i->low[0] + remainder[0]; a < i->size[0]; ++a, z += i->stride[0], to += i->size[1] * pitch) {
    const bool inside = z >= 0 && z < in[0] && low < high && top < bottom;
    if (!inside || low > 0 || high < pitch || top > 0 || bottom < i->size[1]) image_clear(to, i->size[1] * pitch);
    if (!inside) continue;
    float *line = to + top * pitch + low;
    const char *from =
        s->x + z * o->axis[0] + (y + top * i->stride[1]) * o->axis[1] + (first + low * i->stride[2]) * s->step;
    const int64_t step = o->axis[1] * i->stride[1];
    if (copies) {
      conv_loops->lines(line, pitch * (int64_t)sizeof *line, from, step, bottom - top, element, sizeof *line,
                        high - low);
      continue;
    }
    for (int64_t b = top; b < bottom; ++b, line += pitch, from += step)
      loops->load[s->dtype][COMPUTE_F32](line, from, s->step * i->stride[2], high - low);
  }
  return to;
}

/* s: the channel's first element. */
static void fill_channel(const conv_image *i, float *to, const row_source *s, const conv_operand *o,
                         const int64_t *in) {
  int64_t part[CONV_AXES], remainder[CONV_AXES];
  for (part[0] = 0; part[0] < i->parts[0]; ++part[0])
    for (part[1] = 0; part[1] < i->parts[1]; ++part[1])
      for (part[2] = 0; part[2] < i->parts[2]; ++part[2]) {
        for (int a = 0; a < CONV_AXES; ++a) remainder[a] = conv_remainder(part[a] * i->dilation[a], i->stride[a]);
        to = fill_part(i, to, s, o, in, remainder);
      }
  image_clear(to, i->channel - i->rows * i->size[2]);
}

void image_fill(const conv_image *i, float *to, const char *x, const conv_operand *o, const int64_t *in, int64_t begin,
                int64_t end) {
  for (int64_t c = begin; c < end; ++c) {
    const row_source s = {.x = x + c * o->inner, .step = o->axis[2], .dtype = o->dtype};
    fill_channel(i, to + (c - begin) * i->channel, &s, o, in);
  }
}

/* The remainders along the axes of group number `part`. */
static void part_remainders(const conv_image *i, int64_t part, int64_t *remainder) {
  for (int a = CONV_AXES - 1; a >= 0; part = conv_quotient(part, i->parts[a--]))
    remainder[a] = conv_remainder(conv_remainder(part, i->parts[a]) * i->dilation[a], i->stride[a]);
}

void image_fill_step(const conv_image *i, char *to, int64_t part, const char *x, const conv_operand *o,
                     const int64_t *in, int channels, int64_t begin, int64_t end, float_exponents *range) {
  const int parts = o->dtype == ACL_FLOAT ? PAIR_PARTS : 1;
  to += begin * i->size[2] * PAIR_BYTES;
  for (int64_t row = begin; row < end; ++row, to += i->size[2] * PAIR_BYTES) {
    const int64_t plane = row / i->size[1];
    const int64_t place[CONV_AXES] = {plane % i->size[0], row % i->size[1], 0};
    int64_t at[CONV_AXES], low, high;
    part_remainders(i, plane / i->size[0], at);
    for (int a = 0; a < CONV_AXES; ++a) at[a] += i->low[a] + place[a] * i->stride[a];
    const bool inside = at[0] >= 0 && at[0] < in[0] && at[1] >= 0 && at[1] < in[1];
    span_inside(at[2], i->stride[2], i->size[2], inside ? in[2] : 0, &low, &high);
    for (int p = 0; p < parts; ++p) {
      memset(to + p * part, 0, (size_t)(low * PAIR_BYTES));
      memset(to + p * part + high * PAIR_BYTES, 0, (size_t)((i->size[2] - high) * PAIR_BYTES));
    }
    const int64_t first = at[2] + low * i->stride[2];
    const pair_line line = {.from = x + at[0] * o->axis[0] + at[1] * o->axis[1] + first * o->axis[2],
                            .channel = o->inner,
                            .step = o->axis[2] * i->stride[2],
                            .channels = channels,
                            .dtype = o->dtype};
    if (low < high) pair_fill_line(to + low * PAIR_BYTES, part, &line, high - low, range);
  }
}

/* Fills the planes of one group of remainders of a channel. Returns the address of the next group. */
static uint16_t *fill_planes(const conv_image *i, uint16_t *to, int64_t part, const char *x, const conv_operand *o,
                             const int64_t *in, const int64_t *remainder, float_exponents *range) {
  const int64_t first = i->low[2] + remainder[2], y = i->low[1] + remainder[1];
  int64_t top, bottom;
  pair_lines l = {.part = part,
                  .pitch = i->size[2],
                  .line = o->axis[1] * i->stride[1],
                  .step = o->axis[2] * i->stride[2],
                  .dtype = o->dtype};
  span_inside(y, i->stride[1], i->size[1], in[1], &top, &bottom);
  span_inside(first, i->stride[2], i->size[2], in[2], &l.low, &l.high);
  for (int64_t a = 0, z = i->low[0] + remainder[0]; a < i->size[0]; ++a, z += i->stride[0]) {
    const bool inside = z >= 0 && z < in[0] && l.low < l.high;
    const int64_t begin = inside ? top : i->size[1], end = inside ? bottom : i->size[1];
    const int64_t before = begin * l.pitch, behind = (i->size[1] - end) * l.pitch;
    for (int p = 0; p < (o->dtype == ACL_FLOAT ? PAIR_PARTS : 1); ++p) {
      uint16_t *const plane = to + p * part / (int64_t)sizeof *to;
      memset(plane, 0, (size_t)before * sizeof *to);
      memset(plane + end * l.pitch, 0, (size_t)behind * sizeof *to);
    }
    l.to = to + before;
    l.n = end - begin;
    l.from = x + z * o->axis[0] + (y + begin * i->stride[1]) * o->axis[1] + (first + l.low * i->stride[2]) * o->axis[2];
    if (l.n > 0) pair_copy_lines(&l, range);
    to += i->size[1] * l.pitch;
  }
  return to;
}

void image_fill_lines(const conv_image *i, uint16_t *to, int64_t part, const char *x, const conv_operand *o,
                      const int64_t *in, float_exponents *range) {
  for (int64_t k = 0; k < conv_volume(i->parts); ++k) {
    int64_t remainder[CONV_AXES];
    part_remainders(i, k, remainder);
    to = fill_planes(i, to, part, x, o, in, remainder, range);
  }
}
