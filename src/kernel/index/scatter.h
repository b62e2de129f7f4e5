/* Scattering: out is a copy of self (or is self) in which places are replaced, added to or multiplied. Sums and products
 * of halves are made in float, in workspace, and rounded once. */
#ifndef CANNON_KERNEL_INDEX_SCATTER_H
#define CANNON_KERNEL_INDEX_SCATTER_H

#include "kernel/index/places.h"

typedef struct {
  view self;           /* where out is another tensor */
  linear_index linear; /* where is_needed is set */
  index_source source[];
} scatter_extra;

typedef struct {
  places p;
  index_source one;
  view out;
  places_kind kind;
  int dtype;
  compute_value alpha;
  int self_operand, out_operand, side_operand; /* side: IN_SCRATCH for `value` */
  bool in_float, is_linear;
  uint64_t sums; /* in scratch */
  _Alignas(16) char value[16];
} scatter_plan;

/* The tensors that are read and written (the same for in-place operators), by their operands. */
typedef struct {
  const tensor *self, *out;
  const char *self_name;
  int self_operand, out_operand;
} scatter_target;

/* Starts the plan in e; *target is how the places must see what is written. */
status scatter_begin(executor *e, const scatter_target *t, places_kind kind, int n_sources, view *target);

/* The places are complete. */
void scatter_finish(executor *e, int side_operand);

/* The extra part, of which `linear` and the sources may be used; made by scatter_begin where there is more than one
 * source or another out. */
static inline scatter_extra *scatter_extra_of(executor *e) { return e->heap; }

status scatter_run(const executor *e, void *const *at, void *scratch);

#endif
