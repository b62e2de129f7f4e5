/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled once per instruction set level; see by_channel.h. */
#include "kernel/conv/by_channel.h"

#include "kernel/engine/level.h"

#ifdef __AVX512BW__

#  include <string.h>

#  include "kernel/engine/halves.h"
#  include "kernel/engine/lanes.h"

enum { LANES = 16, ROWS = 8, COLUMNS = 4, TAPS = 4, MOST_TAPS = CHANNEL_MOST_TAPS };

/* ---- loads and stores -------------------------------------------------------------------------------------------- */

/* The mask of those of the elements i to i + 15 that are in [0, n). */
INLINE __mmask16 channel_inside(int64_t i, int64_t n) { return (__mmask16)(lanes_first(n - i) & ~lanes_first(-i)); }
/* The same for every second element from i on. */
INLINE __mmask16 channel_evens_inside(int64_t i, int64_t n) {
  return (__mmask16)(lanes_first((n - i + 1) >> 1) & ~lanes_first((1 - i) >> 1));
}

INLINE int64_t size_of(int dtype) { return dtype == ACL_FLOAT ? 4 : 2; }

INLINE __m512 channel_load(const char *row, int64_t i, __mmask16 lanes, int dtype) {
  const void *const at = row + i * size_of(dtype);
  if (dtype == ACL_FLOAT) return _mm512_maskz_loadu_ps(lanes, at);
  return dtype == ACL_FLOAT16 ? f16_load_16(at, lanes) : bf16_load_16(at, lanes);
}

/* Every second of 32 floats from i on, for the lanes. */
INLINE __m512 channel_load_evens(const char *row, int64_t i, __mmask16 lanes) {
  const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  const float *const at = (const float *)(const void *)row + i;
  const uint32_t read = _pdep_u32(lanes, 0x55555555);
  return _mm512_permutex2var_ps(_mm512_maskz_loadu_ps((__mmask16)read, at), even,
                                _mm512_maskz_loadu_ps((__mmask16)(read >> LANES), at + LANES));
}

INLINE void channel_store(char *at, __m512 x, __mmask16 lanes, int dtype) {
  if (dtype == ACL_FLOAT)
    _mm512_mask_storeu_ps(at, lanes, x);
  else if (dtype == ACL_FLOAT16)
    f16_store_16((void *)at, lanes, x);
  else
    bf16_store_16((void *)at, lanes, x);
}

/* ---- outputs ----------------------------------------------------------------------------------------------------- */

/* For each tap along the last axis, the mask of those of the 16 outputs from o on whose input is inside of the
 * tensor. Returns NULL if all are. */
INLINE const __mmask16 *lanes_inside(__mmask16 *lanes, const channel_window *c, int64_t o) {
  const int64_t first = o * c->stride[2] + c->shift[2];
  const int64_t reach = (c->taps[2] - 1) * c->dilation[2] + LANES * c->stride[2];
  if (first >= 0 && first + reach <= c->in[2]) return NULL;
  for (int64_t t = 0; t < c->taps[2]; ++t) {
    const int64_t i = first + t * c->dilation[2];
    lanes[t] = c->stride[2] == 1 ? channel_inside(i, c->in[2]) : channel_evens_inside(i, c->in[2]);
  }
  return lanes;
}

/* Adds the taps of one kernel line to the sums of `rows` consecutive lines by `columns` vectors of outputs. from:
 * the first output's input for the first tap. lines: for each row, all ones if its input line exists, else 0; NULL
 * if all exist. */
INLINE void channel_add_line(__m512 *sum, const channel_window *c, const char *from, const float *w,
                             const __mmask16 *lanes, const __mmask16 *lines, int rows, int columns, int dtype,
                             int stride) {
  const int64_t step = c->dilation[2] * size_of(dtype), w_step = c->w_axis[2], line = c->from_axis[1] * c->stride[1];
  for (int64_t t = 0; t < c->taps[2]; ++t, from += step, w += w_step) {
    const __m512 weight = _mm512_set1_ps(*w);
    const __mmask16 used = lanes ? lanes[t] : 0xffff;
    UNROLL for (int r = 0; r < rows; ++r) UNROLL for (int v = 0; v < columns; ++v) {
      const __mmask16 inside = lines ? used & lines[r] : used;
      const __m512 in = stride == 2 ? channel_load_evens(from + r * line, v * 2 * LANES, inside)
                                    : channel_load(from + r * line, v * LANES, inside, dtype);
      sum[r * columns + v] = _mm512_fmadd_ps(weight, in, sum[r * columns + v]);
    }
  }
}

/* Adds the taps of all kernel lines, for outputs from o on. */
INLINE void channel_add_taps(__m512 *sum, const channel_window *c, const char *from, const float *w, const int64_t *o,
                             const __mmask16 *lanes, int rows, int columns, int dtype, int stride) {
  const int64_t z = o[0] * c->stride[0] + c->shift[0], y = o[1] * c->stride[1] + c->shift[1];
  from += z * c->from_axis[0] + y * c->from_axis[1] + (o[2] * stride + c->shift[2]) * size_of(dtype);
  for (int64_t k = 0; k < c->taps[0]; ++k) {
    if (z + k * c->dilation[0] < 0 || z + k * c->dilation[0] >= c->in[0]) continue;
    const char *row = from + k * c->dilation[0] * c->from_axis[0];
    const float *taps = w + k * c->w_axis[0];
    for (int64_t l = 0, line = y; l < c->taps[1]; ++l) {
      if (line >= 0 && line + (rows - 1) * c->stride[1] < c->in[1]) {
        if (lanes)
          channel_add_line(sum, c, row, taps, lanes, NULL, rows, columns, dtype, stride);
        else
          channel_add_line(sum, c, row, taps, NULL, NULL, rows, columns, dtype, stride);
      } else if (rows > 1) {
        __mmask16 lines[ROWS], all[MOST_TAPS];
        UNROLL for (int r = 0; r < rows; ++r) {
          const int64_t at = line + r * c->stride[1];
          lines[r] = at >= 0 && at < c->in[1] ? 0xffff : 0;
        }
        if (!lanes) memset(all, 0xff, sizeof all);
        channel_add_line(sum, c, row, taps, lanes ? lanes : all, lines, rows, columns, dtype, stride);
      }
      line += c->dilation[1], row += c->dilation[1] * c->from_axis[1], taps += c->w_axis[1];
    }
  }
}

/* Computes `rows` lines by `columns` vectors of one channel's outputs, from o on. */
INLINE void channel_block(const channel_window *c, char *to, const char *from, const float *w, float bias,
                          const int64_t *o, const __mmask16 *lanes, int rows, int columns, int dtype, int stride) {
  __m512 sum[ROWS];
  UNROLL for (int k = 0; k < rows * columns; ++k) sum[k] = _mm512_set1_ps(bias);
  channel_add_taps(sum, c, from, w, o, lanes, rows, columns, dtype, stride);
  to += o[0] * c->to_axis[0] + o[1] * c->to_axis[1] + o[2] * size_of(dtype);
  UNROLL for (int r = 0; r < rows; ++r) UNROLL for (int v = 0; v < columns; ++v)
      channel_store(to + r * c->to_axis[1] + v * LANES * size_of(dtype), sum[r * columns + v],
                    lanes_first(c->out[2] - o[2] - v * LANES), dtype);
}

/* Computes a plane that is a single line, by several vectors at a time. */
INLINE void channel_line(const channel_window *c, char *to, const char *from, const float *w, float bias, int64_t plane,
                         int dtype, int stride) {
  const int64_t reach = c->shift[2] + (c->taps[2] - 1) * c->dilation[2];
  __mmask16 lanes[MOST_TAPS];
  for (int64_t o[] = {plane, 0, 0}; o[2] < c->out[2];) {
    const int64_t end = o[2] + COLUMNS * LANES;
    if (o[2] * stride + c->shift[2] >= 0 && end * stride + reach <= c->in[2] && end <= c->out[2]) {
      channel_block(c, to, from, w, bias, o, NULL, 1, COLUMNS, dtype, stride);
      o[2] = end;
    } else {
      channel_block(c, to, from, w, bias, o, lanes_inside(lanes, c, o[2]), 1, 1, dtype, stride);
      o[2] += LANES;
    }
  }
}

INLINE void channel_rows_of(const channel_window *c, char *to, const char *from, const float *w, float bias, int dtype,
                            int stride) {
  int64_t o[CONV_AXES];
  for (o[0] = 0; o[0] < c->out[0]; ++o[0]) {
    if (c->out[1] == 1) {
      channel_line(c, to, from, w, bias, o[0], dtype, stride);
      continue;
    }
    for (o[2] = 0; o[2] < c->out[2]; o[2] += LANES) {
      __mmask16 room[MOST_TAPS];
      const __mmask16 *const lanes = lanes_inside(room, c, o[2]);
      for (o[1] = 0; o[1] + ROWS <= c->out[1]; o[1] += ROWS)
        channel_block(c, to, from, w, bias, o, lanes, ROWS, 1, dtype, stride);
      for (; o[1] + 3 <= c->out[1]; o[1] += 3) channel_block(c, to, from, w, bias, o, lanes, 3, 1, dtype, stride);
      for (; o[1] < c->out[1]; ++o[1]) channel_block(c, to, from, w, bias, o, lanes, 1, 1, dtype, stride);
    }
  }
}

static void channel_rows(const channel_window *c, char *to, const char *from, const float *w, float bias) {
  if (c->stride[2] == 2)
    channel_rows_of(c, to, from, w, bias, ACL_FLOAT, 2);
  else if (c->dtype == ACL_FLOAT)
    channel_rows_of(c, to, from, w, bias, ACL_FLOAT, 1);
  else if (c->dtype == ACL_FLOAT16)
    channel_rows_of(c, to, from, w, bias, ACL_FLOAT16, 1);
  else
    channel_rows_of(c, to, from, w, bias, ACL_BF16, 1);
}

/* ---- gradients of the weights ------------------------------------------------------------------------------------ */

/* Adds to the gradients of n taps along the last axis, from t on, the sum over all outputs. */
INLINE void channel_add_products(const channel_window *c, const char *to, const char *from, const int64_t *t, int n,
                                 float *to_sum, int dtype) {
  __m512 sum[TAPS];
  UNROLL for (int k = 0; k < n; ++k) sum[k] = _mm512_setzero_ps();
  for (int64_t z = 0; z < c->out[0]; ++z) {
    const int64_t plane = z + c->shift[0] + t[0] * c->dilation[0];
    if (plane < 0 || plane >= c->in[0]) continue;
    for (int64_t x = 0; x < c->out[2]; x += LANES) {
      const int64_t shift = c->shift[1] + t[1] * c->dilation[1], i = x + c->shift[2] + t[2] * c->dilation[2];
      const int64_t begin = shift < 0 ? -shift : 0, rest = c->in[1] - shift, end = rest < c->out[1] ? rest : c->out[1];
      __mmask16 lanes[TAPS];
      UNROLL for (int k = 0; k < n; ++k) lanes[k] = channel_inside(i + k * c->dilation[2], c->in[2]);
      const __mmask16 used = lanes_first(c->out[2] - x);
      for (int64_t y = begin; y < end; ++y) {
        const __m512 g = channel_load(to + z * c->to_axis[0] + y * c->to_axis[1], x, used, dtype);
        const char *const row = from + plane * c->from_axis[0] + (y + shift) * c->from_axis[1];
        UNROLL for (int k = 0; k < n; ++k) sum[k] =
            _mm512_fmadd_ps(g, channel_load(row, i + k * c->dilation[2], lanes[k] & used, dtype), sum[k]);
      }
    }
  }
  UNROLL for (int k = 0; k < n; ++k) to_sum[k] += _mm512_reduce_add_ps(sum[k]);
}

INLINE void channel_gradient_of(const channel_window *c, const char *to, const char *from, float *sum, int dtype) {
  int64_t t[CONV_AXES];
  for (t[0] = 0; t[0] < c->taps[0]; ++t[0])
    for (t[1] = 0; t[1] < c->taps[1]; ++t[1], sum += c->taps[2])
      for (t[2] = 0; t[2] < c->taps[2];) {
        const int64_t left = c->taps[2] - t[2], n = left < TAPS ? left : TAPS;
        if (n == TAPS)
          channel_add_products(c, to, from, t, TAPS, sum + t[2], dtype);
        else if (n == 3)
          channel_add_products(c, to, from, t, 3, sum + t[2], dtype);
        else if (n == 2)
          channel_add_products(c, to, from, t, 2, sum + t[2], dtype);
        else
          channel_add_products(c, to, from, t, 1, sum + t[2], dtype);
        t[2] += n;
      }
}

static void channel_gradient(const channel_window *c, const char *to, const char *from, float *sum) {
  if (c->dtype == ACL_FLOAT)
    channel_gradient_of(c, to, from, sum, ACL_FLOAT);
  else if (c->dtype == ACL_FLOAT16)
    channel_gradient_of(c, to, from, sum, ACL_FLOAT16);
  else
    channel_gradient_of(c, to, from, sum, ACL_BF16);
}

const channel_loops_table LEVELED(channel_loops_table) = {.rows = channel_rows, .gradient = channel_gradient};

#else

const channel_loops_table LEVELED(channel_loops_table) = {0};

#endif
