/* The elementwise engine: walks strided, broadcast, typed operands by tiles that stay in L1 (load and convert, compute,
 * convert and store). Used by elementwise operators, and by others for their copies and conversions. */
#ifndef CANNON_KERNEL_ENGINE_ELEMENTWISE_H
#define CANNON_KERNEL_ENGINE_ELEMENTWISE_H

#include "base/status.h"
#include "tensor/view.h"

/* The types that elementwise functions compute in. Loading converts to it (integers and bool into float round once),
 * storing converts from it: floats to integers truncate and saturate, NaN gives 0; integers wrap; anything to bool is
 * "is not 0". */
typedef enum { COMPUTE_F32, COMPUTE_F64, COMPUTE_I32, COMPUTE_I64, N_COMPUTE } compute_type;

/* What the type of an operand (or the promotion of several) is computed in. */
compute_type compute_type_of(int dtype);

typedef union {
  float f32;
  double f64;
  int32_t i32;
  int64_t i64;
} compute_value;

enum { ELEMENTWISE_INPUTS = 5, ELEMENTWISE_PARAMETERS = 4 };

/* Everything about one elementwise loop but addresses. dims are common to all operands; operand 0 is the output, the
 * others the inputs; strides in bytes. */
typedef struct {
  int16_t function; /* of elementwise.def */
  uint8_t compute;  /* compute_type */
  uint8_t n_inputs, rank;
  bool linear;   /* one dimension, all operands contiguous (or constant) in it: no tiles needed where types agree */
  int8_t narrow; /* an integer or a 16-bit float: results become it before they go to a wider output; else -1 */
  int8_t rounds; /* a 16-bit float: integers it may not hold are rounded to it before they are used; else -1 */
  int8_t dtype[1 + ELEMENTWISE_INPUTS];
  int64_t n;
  int64_t dims[VIEW_RANK];
  int64_t strides[1 + ELEMENTWISE_INPUTS][VIEW_RANK];
  compute_value parameter[ELEMENTWISE_PARAMETERS];
} elementwise_plan;

/* Plans out = function(inputs...). The inputs broadcast to out's shape (the caller has checked that they can);
 * dimensions are dropped, merged and sorted. Parameters are the caller's to set. */
void elementwise_plan_init(elementwise_plan *p, int function, compute_type compute, const view *out,
                           const view *const *in, int n_inputs);

/* Runs it on the calling thread, or on a team where cost_ns is worth one (0: never). at[0] is the output's address. */
void elementwise_run(const elementwise_plan *p, void *const *at, uint64_t cost_ns);

/* out = in, converted: plan and run at once, for kernels that have parts to copy. Same dtype: bits are kept. */
void elementwise_copy(void *out, const view *out_view, const void *in, const view *in_view, uint64_t cost_ns);
void elementwise_copy_plan(elementwise_plan *p, const view *out, const view *in);

#endif
