/* Batched matrix products of strided, typed, broadcast operands: what Mm, Matmul, BatchMatMul and Addmm have
 * in common once their arguments are checked.
 *
 *   out[b] = alpha * A[b] B[b] + beta * self[b]
 *
 * Operands go to gemm() as they are where their layout and dtype allow. Otherwise they are packed into
 * workspace: B one matrix at a time, A by chunks of rows; and where the result can't be made in place, a
 * chunk of it is made in workspace and converted. Sums are kept in float (double where A or B is double), and
 * rounded to out's dtype once. */
#ifndef CANNON_KERNEL_PRODUCT_H
#define CANNON_KERNEL_PRODUCT_H

#include "kernel/product/gemm.h"
#include "op/executor.h"

/* A stack of matrices; strides in bytes, 0 where broadcast. */
typedef struct {
  int dtype;
  int64_t rows, cols;
  int64_t row_stride, col_stride;
  int64_t batch_strides[MAX_RANK];
} matrices;

typedef struct {
  matrices a, b, out, self; /* self: where has_self */
  int n_batch_dims;
  int64_t batch_dims[MAX_RANK];
  double alpha, beta;
  bool has_self;
  uint8_t view_a, view_b, view_out, view_self; /* which operands of the executor they are */

  /* product_plan_finish sets these. */
  bool pack_a, pack_b;
  bool direct; /* gemm writes out itself */
  gemm_type type;
  gemm_call call;     /* m: of a chunk */
  int64_t chunk_rows; /* of A and out, taken at a time */
  uint64_t scratch_a, scratch_b, scratch_c;
} product_plan;

/* Chooses the way for the executor's plan, a product_plan whose upper part is filled in; sets the executor's
 * run, workspace and cost. */
void product_plan_finish(executor *e);

#endif
