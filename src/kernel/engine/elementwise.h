/* SPDX-License-Identifier: Apache-2.0 */
/* The elementwise engine: out[i] = function(in[0][i], in[1][i], ...) over strided, broadcast operands of any dtypes. It
 * works tile by tile within L1: load and convert, compute, convert and store. The functions are those of
 * elementwise.def. Called by the elementwise operators, and by other kernels for copies and conversions. */
#ifndef CANNON_KERNEL_ENGINE_ELEMENTWISE_H
#define CANNON_KERNEL_ENGINE_ELEMENTWISE_H

#include "base/status.h"
#include "tensor/view.h"

/* The types that elementwise functions compute in. Loading converts to the compute type (integers and bool are rounded
 * once to float). Storing converts from it: floats to integers are truncated and saturated, NaN becomes 0; integers
 * wrap; a bool is "not 0". */
typedef enum { COMPUTE_F32, COMPUTE_F64, COMPUTE_I32, COMPUTE_I64, N_COMPUTE } compute_type;

/* The compute type for operands of this dtype, or of this promoted dtype. */
compute_type compute_type_of(int dtype);

typedef union {
  float f32;
  double f64;
  int32_t i32;
  int64_t i64;
} compute_value;

enum { ELEMENTWISE_INPUTS = 5, ELEMENTWISE_PARAMETERS = 4 };

/* One elementwise loop over all operands, without their addresses. Operand 0 is the output, the others are the inputs;
 * dims are common to all; strides are in bytes. Plain data: elementwise_run does not change it, so threads may share
 * it. */
typedef struct {
  int16_t function; /* EW_..., of elementwise.def */
  uint8_t compute;  /* compute_type */
  uint8_t n_inputs, rank;
  /* one dimension, in which all operands are contiguous or constant: no tiles are needed if the dtypes agree */
  bool linear;
  int8_t narrow; /* integer or 16-bit float dtype that results are converted to before a wider output; -1: none */
  int8_t rounds; /* 16-bit float dtype that integer inputs are rounded to before they are used; -1: none */
  /* bit k: operand k is of the compute type and contiguous as a whole, in the order of the dimensions */
  uint8_t dense;
  int8_t dtype[1 + ELEMENTWISE_INPUTS];
  int64_t n;
  int64_t dims[VIEW_RANK];
  int64_t strides[1 + ELEMENTWISE_INPUTS][VIEW_RANK];
  compute_value parameter[ELEMENTWISE_PARAMETERS];
} elementwise_plan;

/* Plans out = function(inputs...). The inputs broadcast to out's shape; the caller has checked that they can.
 * Dimensions of size 1 are dropped, the others sorted by stride and merged where possible. The caller sets
 * p->parameter, narrow and rounds. */
void elementwise_plan_init(elementwise_plan *p, int function, compute_type compute, const view *out,
                           const view *const *in, int n_inputs);

/* Runs the plan in the calling thread, or in a team if cost_ns, an estimate of its time, is worth one (0: never). at[0]
 * is the output's address, at[k] that of input k - 1. */
void elementwise_run(const elementwise_plan *p, void *const *at, uint64_t cost_ns);

/* Copies in to out with conversion; operands of the same dtype keep their bits. elementwise_copy plans and runs at
 * once, elementwise_copy_plan only plans. */
void elementwise_copy(void *out, const view *out_view, const void *in, const view *in_view, uint64_t cost_ns);
void elementwise_copy_plan(elementwise_plan *p, const view *out, const view *in);

#endif
