/* SPDX-License-Identifier: Apache-2.0 */
/* Implementation of softmax_columns.h for one instruction set level (engine/level.h): elements are loaded into the tile
 * as floats, replaced by exponentials there, and stored. Sums use the same lanes as vec_sum_block does for a row, each
 * lane being a vector of columns here. */
#include "kernel/norm/softmax_columns.h"

#include "kernel/engine/level.h"
#include "kernel/norm/softmax_vec.h"
#include "kernel/norm/vec_stored.h"

enum {
  AHEAD = 8,       /* rows to prefetch: the hardware prefetcher does not recognise the stream */
  LANES = 4 * VEC, /* lanes of a row's sum */
  GROUP = 4,       /* vectors of columns whose lanes stay in L1 */
};

static int64_t pitch_of(const softmax_strip *s) { return (s->width + STRIP_LEAST - 1) / STRIP_LEAST * STRIP_LEAST; }

VEC_INLINE void strip_fetch_ahead(const char *row, int64_t along, int64_t bytes, bool to_write) {
  for (int64_t b = 0; b < bytes; b += 64)
    to_write ? __builtin_prefetch(row + AHEAD * along + b, 1) : __builtin_prefetch(row + AHEAD * along + b, 0);
}

VEC_INLINE void keep_larger(float *top, float *to, vec x) {
  vec_store(to, x);
  vec_store(top, vec_max(x, vec_load(top)));
}

/* Loads the strip into the tile and computes each column's maximum. */
VEC_INLINE void read_strip(const softmax_strip *s, int dtype, float *top) {
  const int64_t pitch = pitch_of(s);
  for (int64_t j = 0; j < pitch; ++j) top[j] = -INFINITY;
  for (int64_t i = 0; i < s->n; ++i) {
    const char *const row = s->x + i * s->x_along;
    float *const to = s->tile + i * pitch;
    int64_t j = 0;
    strip_fetch_ahead(row, s->x_along, s->width * (dtype == ACL_FLOAT ? 4 : 2), false);
    for (; j + 2 * VEC <= s->width; j += 2 * VEC) {
      vec x[2];
      vec_read_two(row, dtype, j, x);
      keep_larger(top + j, to + j, x[0]);
      keep_larger(top + j + VEC, to + j + VEC, x[1]);
    }
    for (; j < s->width; j += VEC)
      keep_larger(top + j, to + j, vec_read(row, dtype, j, s->width - j < VEC ? s->width - j : VEC));
  }
}

/* The lane to which element k of a block of n is added. */
static inline int64_t strip_lane_of(int64_t k, int64_t n) {
  const int64_t whole = n / LANES * LANES;
  if (k < whole) return k % LANES;
  const int64_t vector = (k - whole) / VEC;
  return whole + (vector + 1) * VEC <= n ? k % VEC : VEC + k % VEC;
}

/* Reduces lanes in the same order as vec_sum does for a row. */
VEC_INLINE vec strip_sum_lanes(float *lane, int64_t pitch) {
  vec sum[VEC];
  for (int l = 0; l < VEC; ++l) {
    const float *const of = lane + l * pitch;
    sum[l] =
        (vec_load(of) + vec_load(of + VEC * pitch)) + (vec_load(of + 2 * VEC * pitch) + vec_load(of + 3 * VEC * pitch));
  }
  for (int half = VEC / 2; half; half /= 2)
    for (int l = 0; l < half; ++l) sum[l] += sum[l + half];
  return sum[0];
}

/* Exponentials of x - shift for `vectors` vectors of columns, and their sums; keeps: the tile is overwritten with
 * them. */
VEC_INLINE void exp_group(float *tile, int64_t pitch, int64_t n, const float *shift, double *sum, int vectors,
                          bool keeps) {
  _Alignas(64) float lanes[LANES * GROUP * VEC];
  const int64_t width = vectors * VEC;
  for (int64_t begin = 0, m; begin < n; begin += m) {
    m = n - begin < SUM_BLOCK ? n - begin : SUM_BLOCK;
    memset(lanes, 0, sizeof(float) * (size_t)(LANES * width));
    for (int64_t k = 0; k < m; ++k) {
      float *const x = tile + (begin + k) * pitch, *const lane = lanes + strip_lane_of(k, m) * width;
      for (int v = 0; v < vectors; ++v) {
        const vec e = softmax_exp_rounded(vec_load(x + v * VEC) - vec_load(shift + v * VEC));
        if (keeps) vec_store(x + v * VEC, e);
        vec_store(lane + v * VEC, vec_load(lane + v * VEC) + e);
      }
    }
    for (int v = 0; v < vectors; ++v) {
      const vec of_block = strip_sum_lanes(lanes + v * VEC, width);
      for (int l = 0; l < VEC; ++l) sum[v * VEC + l] += of_block[l];
    }
  }
}

VEC_INLINE void exp_strip(const softmax_strip *s, const float *shift, double *sum, bool keeps) {
  const int64_t pitch = pitch_of(s);
  int64_t j = 0;
  for (; j < pitch; ++j) sum[j] = 0;
  for (j = 0; j + GROUP * VEC <= pitch; j += GROUP * VEC)
    exp_group(s->tile + j, pitch, s->n, shift + j, sum + j, GROUP, keeps);
  for (; j < pitch; j += VEC) exp_group(s->tile + j, pitch, s->n, shift + j, sum + j, 1, keeps);
}

/* Final value of an element of the tile: x * by, or x - top - by. */
VEC_INLINE vec result(const float *x, const float *top, const float *by, bool is_log) {
  return is_log ? vec_load(x) - vec_load(top) - vec_load(by) : vec_load(x) * vec_load(by);
}

VEC_INLINE void write_strip(const softmax_strip *s, int dtype, const float *top, const float *by, bool is_log) {
  const int64_t pitch = pitch_of(s);
  for (int64_t i = 0; i < s->n; ++i) {
    char *const row = s->y + i * s->y_along;
    const float *const from = s->tile + i * pitch;
    int64_t j = 0;
    strip_fetch_ahead(row, s->y_along, s->width * (dtype == ACL_FLOAT ? 4 : 2), true);
    for (; j + 2 * VEC <= s->width; j += 2 * VEC)
      vec_write_two(row, dtype, j, result(from + j, top + j, by + j, is_log),
                    result(from + j + VEC, top + j + VEC, by + j + VEC, is_log));
    for (; j < s->width; j += VEC)
      vec_write(row, dtype, j, result(from + j, top + j, by + j, is_log), s->width - j < VEC ? s->width - j : VEC);
  }
}

VEC_INLINE void by_columns(const softmax_strip *s, bool is_log) {
  _Alignas(64) float top[STRIP_MOST], shift[STRIP_MOST], by[STRIP_MOST];
  double sum[STRIP_MOST];
#define READ_STRIP(dtype)  read_strip(s, dtype, top)
#define WRITE_STRIP(dtype) write_strip(s, dtype, top, by, is_log)
  OF_DTYPE(READ_STRIP, s->x_dtype);
  for (int64_t j = 0; j < pitch_of(s); ++j) shift[j] = is_log && !(top[j] > -INFINITY) ? 0 : top[j];
  exp_strip(s, shift, sum, !is_log);
  for (int64_t j = 0; j < pitch_of(s); ++j) by[j] = is_log ? softmax_log_of_sum(sum[j]) : (float)(1 / sum[j]);
  OF_DTYPE(WRITE_STRIP, s->y_dtype);
}

static void softmax_strip_f32(const softmax_strip *s) { by_columns(s, false); }
static void log_softmax_strip_f32(const softmax_strip *s) { by_columns(s, true); }

const softmax_columns_loops LEVELED(softmax_columns_loops) = {.softmax = softmax_strip_f32,
                                                              .log_softmax = log_softmax_strip_f32};
