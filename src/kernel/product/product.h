/* SPDX-License-Identifier: Apache-2.0 */
/* GEMM and batched GEMM: out = alpha * (A @ B) + beta * self for stacks of matrices with any strides and real dtypes.
 * Operators fill in the first half of a product_plan while they are prepared; product_plan_finish() then chooses one of
 * two implementations:
 *
 *   small m   A (or B, if the whole equation is transposed) has at most FEW_ROWS rows. B is read once, in place, and
 *             converted in registers (product_few_rows.c). Not for bfloat16 on AMX if contiguous along k and m > 1.
 *   blocks    cache-blocked GEMM on the micro-kernels of tile_gemm.h. A and B are packed, or read in place
 *             (product_blocks.c).
 *
 * Either one computes a block of one matrix product on the calling thread, with that thread's own scratch memory;
 * product.c distributes the blocks over threads. No workspace is requested. Sums are kept in float (in double where A
 * or B is double) and rounded to out's dtype once. */
#ifndef CANNON_KERNEL_PRODUCT_PRODUCT_H
#define CANNON_KERNEL_PRODUCT_PRODUCT_H

#include "kernel/engine/rows.h"
#include "kernel/product/few_rows.h"
#include "kernel/product/tile_gemm.h"
#include "op/executor.h"

/* A stack of matrices. Strides are in bytes, and 0 where the stack is broadcast. */
typedef struct {
  int dtype;
  int64_t rows, cols;
  int64_t row_stride, col_stride;
  int64_t batch_strides[MAX_RANK];
} matrices;

typedef struct product_part product_part;

/* A factor B that is computed on the fly instead of being read from a tensor of numbers, as with quantised weights. The
 * B strides in the plan are then interpreted by these functions only. */
typedef struct {
  /* to[l * cols + j] = B[row + l, col + j] for l < rows, j < cols. */
  void (*fetch)(const product_part *p, float *to, int64_t row, int64_t rows, int64_t col, int64_t cols);
  status (*few_rows)(const product_part *p); /* small-m implementation, or NULL: blocks are used for few rows, too */
} made_factor;

/* Converts a block of sums, whose rows are ld elements apart, to the same rows and columns of out. */
typedef void product_finisher(const product_part *p, int64_t row, int64_t rows, int64_t col, int64_t cols,
                              const char *sums, int64_t ld);

typedef struct {
  matrices a, b, out, self; /* self: valid where has_self */
  int n_batch_dims;
  int64_t batch_dims[MAX_RANK];
  double alpha, beta;
  bool has_self;
  uint8_t view_a, view_b, view_out, view_self; /* indices of the matrices among the executor's operands */
  /* If n_terms > 0, A @ B stands for the sum of that many products, whose factors are this many bytes apart. */
  int64_t n_terms, a_term_stride, b_term_stride;
  const made_factor *made_b; /* NULL if B is a tensor */
  /* Replaces alpha and self if not NULL. The factors are then int8, and the sums int32. */
  product_finisher *finish;

  /* Set by product_choose: */
  bool few_rows;
  tile_type type; /* operand type of the micro-kernel; out is converted from its accumulator type */
  int64_t n_batches;
  uint64_t cost_ns; /* estimated time of the whole batch on one core */
} product_plan;

/* Chooses the implementation for the executor's plan, a product_plan whose first half is filled in, and sets the
 * executor's run function and cost. */
void product_plan_finish(executor *e);

/* GEMMs inside other operators: product_choose selects the implementation, product_run computes the result. view:
 * operand addresses, indexed by the plan's view_a, view_b, view_out and view_self. */
void product_choose(product_plan *p);
status product_run(const executor *e, const product_plan *p, void *const *view);

/* ---- used by the implementations --------------------------------------------------------------------------------- */

/* A block of one matrix product of the batch: the addresses of that product's matrices, and which rows and columns of
 * out are to be computed. Lives on the stack of the thread that computes it. */
struct product_part {
  const executor *executor;
  void *const *view; /* operand addresses */
  const product_plan *plan;
  const char *a, *b, *self;
  char *out;
  int64_t batch; /* index in the batch; 0 where the batch was merged into rows */
  int64_t row, rows, col, cols;
};

/* The two implementations. They fail only if there is no memory for scratch buffers. */
status product_blocks(const product_part *p);
status product_few_rows(const product_part *p);

/* Estimated time of an m x n x k GEMM of the type on one core. */
uint64_t product_cost_ns(tile_type type, int64_t m, int64_t n, int64_t k);

/* Writes out[row.., col..] = alpha * sums + beta * self, or calls the plan's finish. sums: rows x cols accumulators
 * (float, double or int32, by the plan's tile type) whose rows are ld elements apart; they may be overwritten. */
void product_finish(const product_part *p, int64_t row, int64_t rows, int64_t col, int64_t cols, char *sums,
                    int64_t ld);

#endif
