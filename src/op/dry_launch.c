/* SPDX-License-Identifier: Apache-2.0 */
#include "op/dry_launch.h"

#include <string.h>

#include "memory/memory.h"
#include "runtime/dry/dry.h"
#include "tensor/objects.h"
#include "trace/stats_write.h"

static bool reads_real(const executor *e, void *const *view) {
  for (int i = 0; i < e->n_operands; ++i) {
    const operand *p = &e->operands[i];
    if (p->extent_bytes && p->flags & ARG_READ && !dry_is_real(view[i], p->extent_bytes)) return false;
  }
  return true;
}

/* The bytes that computing would touch. */
static uint64_t launch_reach(const executor *e) {
  uint64_t bytes = e->workspace_bytes;
  for (int i = 0; i < e->n_operands; ++i) bytes += e->operands[i].extent_bytes;
  return bytes;
}

static void zero_inputs(const executor *e, void *const *view) {
  for (int i = 0; i < e->n_operands; ++i) {
    const operand *p = &e->operands[i];
    if (p->extent_bytes && p->flags & ARG_READ) dry_zero_unreal(view[i], p->extent_bytes);
  }
}

/* Is called after the run. Between the elements of a view with gaps there are bytes that nobody has written: such an
 * output is real only if its extent was so before. */
static void outputs_are_real(const executor *e, void *const *view) {
  for (int i = 0; i < e->n_operands; ++i) {
    const operand *p = &e->operands[i];
    if (!p->extent_bytes || !(p->flags & ARG_WRITTEN)) continue;
    if (p->flags & OPERAND_WHOLE || !dry_is_real(view[i], p->extent_bytes))
      dry_set_real(view[i], p->extent_bytes, p->flags & OPERAND_WHOLE);
  }
}

/* What an operator leaves as it is if all values are finite, as zeros are: so the scale of a GradScaler stays real, and
 * the program never divides by a scale of 0. */
static bool keeps(const executor *e, const operand *p) {
  static const struct { const char *op, *argument; } kept[] = {{"ForeachNonFiniteCheckAndUnscale", "foundInf"}};
  for (size_t i = 0; i < sizeof kept / sizeof *kept; ++i)
    if (strcmp(e->op->name, kept[i].op) == 0 && strcmp(p->name, kept[i].argument) == 0) return true;
  return false;
}

/* The program reads outputs in host memory without a copy, so they are zeroed there. */
static void outputs_are_unreal(const executor *e, void *const *view) {
  for (int i = 0; i < e->n_operands; ++i) {
    const operand *p = &e->operands[i];
    if (!p->extent_bytes || !(p->flags & ARG_WRITTEN) || keeps(e, p)) continue;
    dry_set_real(view[i], p->extent_bytes, false);
    if (p->flags & OPERAND_WHOLE && memory_device_of_view(view[i]) < 0) memset(view[i], 0, p->extent_bytes);
  }
}

static bool reads_true(const executor *e, void *const *view) {
  for (int i = 0; i < e->n_operands; ++i) {
    const operand *p = &e->operands[i];
    if (p->extent_bytes && p->flags & ARG_READ && !dry_is_true(view[i], p->extent_bytes)) return false;
  }
  return true;
}

/* Whether the result is true, since all data is finite. So programs that look whether a loss or a gradient is finite
 * go on. */
static bool is_true_of_finite(const executor *e, void *const *view) {
  return strcmp(e->op->name, "IsFinite") == 0 || (strcmp(e->op->name, "All") == 0 && reads_true(e, view));
}

static void outputs_are_true(const executor *e, void *const *view) {
  for (int i = 0; i < e->n_operands; ++i) {
    const operand *p = &e->operands[i];
    if (p->extent_bytes && p->flags & ARG_WRITTEN && p->flags & OPERAND_WHOLE) dry_set_true(view[i], p->extent_bytes);
  }
}

static int64_t stated(const dry_options *o, int64_t most) {
  switch (o->unknown) {
  case DRY_UNKNOWN_HALF: return (most + 1) / 2;
  case DRY_UNKNOWN_N: return o->unknown_n < most ? o->unknown_n : most;
  default: return most;
  }
}

static void state_shapes(const executor *e) {
  for (int i = 0; i < e->n_results; ++i) {
    const tensor *const most = e->result_most[i];
    const int rank = most->rank, d = e->result_dims[i];
    int64_t dims[MAX_RANK];
    memcpy(dims, most->dims, sizeof dims);
    if (d >= 0) dims[d] = stated(dry_chosen(), dims[d]);
    tensor_set_shape(e->results[i], dims, rank);
  }
}

status dry_launch(const executor *e, void *const *view, void *scratch, stats_op *row) {
  const bool real = reads_real(e, view), forced = dry_options_is_real(dry_chosen(), e->op->name);
  if (forced || (real && launch_reach(e) <= DRY_SMALL_BYTES)) {
    if (!real) zero_inputs(e, view);
    const status st = e->run(e, view, scratch);
    outputs_are_real(e, view);
    trace_add(&row->computed, 1);
    return st;
  }
  outputs_are_unreal(e, view);
  if (is_true_of_finite(e, view)) outputs_are_true(e, view);
  if (e->n_results) {
    state_shapes(e);
    trace_add(&row->unknown, 1);
  }
  return ST_OK;
}
