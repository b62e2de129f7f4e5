/* SPDX-License-Identifier: Apache-2.0 */
/* Scatter on top of places.h: out is a copy of self (or is self), in which the elements at index positions are
 * replaced, added to or multiplied. Sums and products of 16-bit floats are computed in a float copy in
 * workspace and rounded once. Used by the operators of scatter.c: call scatter_begin, add sources and
 * dimensions to the plan, call scatter_finish. */
#ifndef CANNON_KERNEL_INDEX_SCATTER_H
#define CANNON_KERNEL_INDEX_SCATTER_H

#include "kernel/index/places.h"

typedef struct {
  view self;           /* valid where out is another tensor than self */
  linear_index linear; /* valid where the plan's is_linear is set */
  index_source source[];
} scatter_extra;

typedef struct {
  places p;
  index_source one;
  view out;
  places_kind kind;
  int dtype;
  compute_value alpha;
  int self_operand, out_operand, side_operand; /* side_operand is IN_SCRATCH where `value` is scattered */
  bool in_float, is_linear;
  uint64_t sums; /* in scratch: the float copy of out, where in_float is set */
  _Alignas(16) char value[16];
} scatter_plan;

/* The tensors that are read and written, with their operand numbers. Both are the same for in-place operators. */
typedef struct {
  const tensor *self, *out;
  const char *self_name;
  int self_operand, out_operand;
} scatter_target;

/* Checks dtypes and shapes and starts the scatter_plan in e. *target is set to the view of the memory that is written:
 * out or its float copy. Where more than one source is needed, or out is not self, e->heap becomes a scatter_extra. */
status scatter_begin(executor *e, const scatter_target *t, places_kind kind, int n_sources, view *target);

/* Completes the plan and sets e's run function and cost; to be called when all dimensions have been added. */
void scatter_finish(executor *e, int side_operand);

/* The part of the plan that is in e->heap: made by scatter_begin where there is more than one source or out is not
 * self. The caller may fill `linear` and `source`. */
static inline scatter_extra *scatter_extra_of(executor *e) { return e->heap; }

/* The run function of a scatter_plan, for operators that wrap it. */
status scatter_run(const executor *e, void *const *at, void *scratch);

#endif
