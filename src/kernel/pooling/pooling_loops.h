/* The inner loops of max pools and their gradients, by instruction set level (engine/level.h). */
#ifndef CANNON_KERNEL_POOLING_POOLING_LOOPS_H
#define CANNON_KERNEL_POOLING_POOLING_LOOPS_H

#include <stdint.h>

#include "kernel/engine/elementwise.h"

typedef struct {
  /* For i < n: where x[i * step] is larger than best[i], or a NaN, or at[i] is negative, it becomes best[i] and
   * place + i * place_step becomes at[i]. Without at, best[] starts as the least value. */
  void (*step)(void *best, int32_t *at, const void *x, int64_t step, int32_t place, int32_t place_step, int64_t n);
  /* The same for the n elements of one window and one best. */
  void (*scan)(void *best, int32_t *at, const void *x, int32_t place, int32_t place_step, int64_t n);
  void (*fill)(void *best, const void *value, int64_t n);
  /* sum[place[i]] += x[i], in order. */
  void (*add)(void *sum, const void *x, const int64_t *place, int64_t n);
} max_type_loops;

/* Outputs of a row that have a tap inside. */
typedef struct {
  int64_t low, high;
} tap_outputs;

/* A row of windows' maxima, and their places unless `at` is NULL; -1 where a window has nothing. */
typedef struct {
  float *best;
  int32_t *at;
  int64_t n;
  const float *x; /* what tap 0 of the first line is for output 0; may be outside, as its place */
  int32_t place, place_line;
  int64_t line, lines; /* floats from line to line of a window */
  int64_t stride, dilation, n_taps;
  const tap_outputs *taps;
} max_row;

typedef struct {
  max_type_loops of[N_COMPUTE];
  /* Of a stride of 1 or 2. NULL: not at this level. */
  void (*row_f32)(const max_row *r);
  /* The number of the first place that is not in [0, end), or n. */
  int64_t (*first_outside)(const int64_t *place, int64_t end, int64_t n);
} max_loops_table;

extern const max_loops_table *max_loops; /* set before main */

#endif
