/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a training's memory grows from step to step, and which lines of the program make it grow. Called by `cannon
 * memory`; uses fit/curve.h and fit/account.h. */
#ifndef CANNON_FIT_GROWTH_H
#define CANNON_FIT_GROWTH_H

#include "fit/account.h"

typedef struct {
  curve_point peak; /* within the step */
  uint64_t used;    /* at the step's end */
} growth_step;

/* What lived at the ends of steps, from step `first` to the last one. The first step of four or more is left out, since
 * optimisers make their state in it. */
typedef struct {
  uint32_t line; /* an index into account_lines, or their number: no line is known */
  uint64_t before, after;
  uint32_t blocks_before, blocks_after;
} growth_line;

typedef struct {
  size_t n_steps;
  growth_step *steps;
  bool is_known; /* there are at least three steps */
  bool grows;    /* what is used at the ends of steps never shrank and grew at least twice */
  size_t first;
  uint64_t bytes; /* by which it grew between step `first` and the last one */
  size_t n_lines;
  growth_line *lines; /* those that grew so, the most first */
} growth;

/* Free it by growth_free. */
void growth_make(const curve *c, const account_lines *lines, growth *out);
void growth_free(growth *g);

#endif
