/* SPDX-License-Identifier: Apache-2.0 */
/* Inner loops of max pooling and its gradients, with one table for each instruction set level (engine/level.h). All
 * functions are pure loops over the caller's memory. */
#ifndef CANNON_KERNEL_POOLING_POOLING_LOOPS_H
#define CANNON_KERNEL_POOLING_POOLING_LOOPS_H

#include <stdbool.h>
#include <stdint.h>

#include "kernel/engine/elementwise.h"

typedef struct {
  /* For each i < n: if x[i * step] is larger than best[i] or a NaN, or if at[i] is negative, sets best[i] to it and
   * at[i] to position + i * position_step. `at` may be NULL; best[] must then start as the least value. */
  void (*step)(void *best, int32_t *at, const void *x, int64_t step, int32_t position, int32_t position_step,
               int64_t n);
  /* The same for the n elements of one window, with a single best and at. */
  void (*scan)(void *best, int32_t *at, const void *x, int32_t position, int32_t position_step, int64_t n);
  void (*fill)(void *best, const void *value, int64_t n);
  /* sum[position[i]] += x[i], in order. */
  void (*add)(void *sum, const void *x, const int64_t *position, int64_t n);
} max_type_loops;

/* The outputs [low, high) of a row for which a certain tap is inside of the input. */
typedef struct {
  int64_t low, high;
} tap_outputs;

/* Computes the maxima of a row of n windows and, unless `at` is NULL, their positions, with -1 for windows without
 * elements. */
typedef struct {
  float *best;
  int32_t *at;
  int64_t n;
  const float *x; /* the input of output 0 for tap 0, line 0, at `position`; both may be outside */
  int32_t position, position_line;
  int64_t line, lines; /* floats from line to line of a window; number of lines */
  int64_t stride, dilation, n_taps;
  const tap_outputs *taps;
} max_row;

/* A row of windows of floats whose maxima are found along one axis after the other: of the columns of the windows'
 * lines first. */
typedef struct {
  float *best, *line; /* line: room for `width` + 16 * `stride` floats, a line of all windows with padding */
  int64_t n, stride, dilation, n_taps, width;
  const float *x;    /* the first input of the first line inside */
  int64_t in, first; /* inputs of a line, and the place of the first one in `line`; those beyond `width` do not count */
  int64_t pitch, lines; /* floats from line to line of a window; number of lines */
} max_columns;

typedef struct {
  max_type_loops of[N_COMPUTE];
  /* For a stride of 1 or 2. NULL if the level has no such kernel. */
  void (*row_f32)(const max_row *r);
  /* Returns false, with nothing but `line` and `best` changed, if an input is NaN, for which the order matters. */
  bool (*columns_f32)(const max_columns *c);
  /* Returns the index of the first position that is not in [0, end), or n. */
  int64_t (*first_outside)(const int64_t *position, int64_t end, int64_t n);
} max_loops_table;

extern const max_loops_table *max_loops; /* chosen before main for this processor (engine/level.h) */

#endif
