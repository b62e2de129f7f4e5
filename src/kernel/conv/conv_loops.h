/* The inner loops of convolutions and their like, by instruction set level (engine/level.h). */
#ifndef CANNON_KERNEL_CONV_CONV_LOOPS_H
#define CANNON_KERNEL_CONV_CONV_LOOPS_H

#include <stdint.h>

typedef struct {
  /* out[i] = x[i * step]; elements of 1, 2, 4, 8 or 16 bytes */
  void (*take)(void *out, const void *x, int64_t step, int element_bytes, int64_t n);
  /* The same for some lines, whose starts are so many bytes apart. */
  void (*lines)(void *out, int64_t out_line, const void *x, int64_t x_line, int64_t n_lines, int64_t step,
                int element_bytes, int64_t n);
  void (*fill)(float *to, float value, int64_t n);
  /* sum[i * step] += x[i] */
  void (*spread_f32)(float *sum, int64_t step, const float *x, int64_t n);
  void (*spread_f64)(double *sum, int64_t step, const double *x, int64_t n);
  /* out[i] = low[i * step] | high[i * step] << 16, high NULL: 0; steps in elements */
  void (*pair)(uint32_t *out, const uint16_t *low, const uint16_t *high, int64_t step, int64_t n);
  /* Element i * taps + t of `from` to element i of the 64 bytes at to + t * to_step (bytes), for t < taps; of 2 or 4
   * bytes. */
  void (*split)(void *to, int64_t to_step, const void *from, int64_t taps, int element_bytes);
  /* Runs of `taps` elements of 16 bits, for 2 * pairs channels, of 16 rows: word [i][row] of `two` has elements 2 i and
   * 2 i + 1. For each tap, to + t * to_step (words), and pair, the word that has both channels' elements, low first. */
  void (*join)(uint32_t *to, int64_t to_step, const uint32_t *two, int64_t taps, int64_t pairs);
} conv_loops_table;

extern const conv_loops_table *conv_loops; /* set before main */

#endif
