#include "kernel/conv/image.h"

#include <string.h>

#include "kernel/conv/loops.h"
#include "kernel/engine/loops.h"

static int64_t divisor(int64_t a, int64_t b) { return b ? divisor(b, a % b) : a; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

void image_init(conv_image *i, const int64_t *low, const int64_t *out, const int64_t *taps, const int64_t *stride,
                const int64_t *dilation) {
  i->rows = 1;
  for (int a = 0; a < CONV_AXES; ++a) {
    i->low[a] = low[a];
    i->stride[a] = stride[a];
    i->dilation[a] = dilation[a];
    /* remainders repeat */
    i->parts[a] = stride[a] == 1 ? 1 : least(taps[a], stride[a] / divisor(stride[a], dilation[a]));
    i->size[a] = out[a] + conv_quotient((taps[a] - 1) * dilation[a], stride[a]);
    i->rows *= a < 2 ? i->parts[a] * i->size[a] : i->parts[a];
  }
  i->channel = (i->rows * i->size[2] + 15) / 16 * 16;
  int64_t part = conv_volume(i->size), element = 1;
  for (int a = CONV_AXES - 1; a >= 0; part *= i->parts[a], element *= i->size[a], --a)
    i->part_step[a] = part, i->step[a] = element;
}

/* Where a row comes from: one channel, or two of bfloat16. */
typedef struct {
  const char *x, *high; /* high: NULL where there is one; its addresses are x's at the distance between channels */
  int64_t step;
  int dtype;
  bool pairs;
} row_source;

static void load_row(uint32_t *to, const row_source *s, int64_t first, int64_t stride, int64_t n) {
  const char *from = s->x + first * s->step;
  if (s->pairs)
    conv_loops->pair(to, (const uint16_t *)(const void *)from,
                     s->high ? (const uint16_t *)(const void *)(s->high + first * s->step) : NULL,
                     s->step * stride / (int64_t)sizeof(uint16_t), n);
  else if (s->dtype == ACL_FLOAT && s->step * stride == (int64_t)sizeof *to)
    memcpy(to, from, (size_t)n * sizeof *to);
  else
    loops->load[s->dtype][COMPUTE_F32](to, from, s->step * stride, n);
}

/* Mostly nothing. */
static inline void clear(uint32_t *to, int64_t n) {
  if (n > 0) memset(to, 0, (size_t)n * sizeof *to);
}

/* One row: elements x[first + j * stride] for j < n; those of x are [0, in). */
static void fill_row(uint32_t *to, const row_source *s, int64_t first, int64_t stride, int64_t n, int64_t in) {
  int64_t low = first < 0 ? -first : 0, high = first < in ? in - first : 0;
  if (stride > 1) {
    low = (low + stride - 1) / stride;
    high = (high + stride - 1) / stride;
  }
  low = least(low, n);
  high = least(high, n);
  if (low >= high) low = high = n;
  clear(to, low);
  if (low < high) load_row(to + low, s, first + low * stride, stride, high - low);
  clear(to + high, n - high);
}

/* The rows of one part: remainder[] from low on. Returns where the next part goes. */
static uint32_t *fill_part(const conv_image *i, uint32_t *to, const row_source *s, const conv_operand *o,
                           const int64_t *in, const int64_t *remainder) {
  const int64_t first = i->low[2] + remainder[2];
  for (int64_t a = 0, z = i->low[0] + remainder[0]; a < i->size[0]; ++a, z += i->stride[0])
    for (int64_t b = 0, y = i->low[1] + remainder[1]; b < i->size[1]; ++b, y += i->stride[1], to += i->size[2]) {
      const bool inside = z >= 0 && z < in[0] && y >= 0 && y < in[1];
      const int64_t offset = z * o->axis[0] + y * o->axis[1];
      row_source r = *s;
      r.x += offset;
      if (r.high) r.high += offset;
      fill_row(to, &r, first, i->stride[2], i->size[2], inside ? in[2] : 0);
    }
  return to;
}

/* s: of the channel's first element. */
static void fill_channel(const conv_image *i, uint32_t *to, const row_source *s, const conv_operand *o,
                         const int64_t *in) {
  int64_t part[CONV_AXES], remainder[CONV_AXES];
  for (part[0] = 0; part[0] < i->parts[0]; ++part[0])
    for (part[1] = 0; part[1] < i->parts[1]; ++part[1])
      for (part[2] = 0; part[2] < i->parts[2]; ++part[2]) {
        for (int a = 0; a < CONV_AXES; ++a) remainder[a] = conv_remainder(part[a] * i->dilation[a], i->stride[a]);
        to = fill_part(i, to, s, o, in, remainder);
      }
  clear(to, i->channel - i->rows * i->size[2]);
}

void image_fill(const conv_image *i, float *to, const char *x, const conv_operand *o, const int64_t *in, int64_t begin,
                int64_t end) {
  for (int64_t c = begin; c < end; ++c) {
    const row_source s = {.x = x + c * o->inner, .step = o->axis[2], .dtype = o->dtype};
    fill_channel(i, (uint32_t *)(void *)(to + (c - begin) * i->channel), &s, o, in);
  }
}

void image_fill_pairs(const conv_image *i, uint32_t *to, const char *x, const conv_operand *o, const int64_t *in,
                      int64_t channels, int64_t begin, int64_t end) {
  for (int64_t p = begin; p < end; ++p, to += i->channel) {
    if (2 * p >= channels) {
      memset(to, 0, (size_t)i->channel * sizeof *to);
      continue;
    }
    row_source s = {.x = x + 2 * p * o->inner, .step = o->axis[2], .dtype = o->dtype, .pairs = true};
    if (2 * p + 1 < channels) s.high = s.x + o->inner;
    fill_channel(i, to, &s, o, in);
  }
}
