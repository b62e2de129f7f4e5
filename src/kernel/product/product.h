/* SPDX-License-Identifier: Apache-2.0 */
/* GEMM and batched GEMM: out = alpha * (A @ B) + beta * self for stacks of matrices with any strides and real dtypes.
 * Operators fill in the first half of a product_plan while they are prepared; product_choose() then takes one of these
 * implementations (product_choose.c; kernel/engine/implementation.h), in this order:
 *
 *   small_m     A (or B, if the whole equation is transposed) has at most FEW_ROWS rows. B is read once, in place, and
 *               converted in registers (product_few_rows.c). Not for bfloat16 on AMX if contiguous along k and m > 1.
 *   groups      cache-blocked GEMM on AMX or dot-product instructions (product_blocks.c, tile_groups.c; some quantised
 *               weights: quant_weight_dots.c)
 *   vector      the same on vector instructions. A and B are packed, or read in place.
 *   reference   plain C (product_reference.c)
 *
 * Each one computes a block of one matrix product on the calling thread, with that thread's own scratch memory;
 * product.c distributes the blocks over threads. No workspace is requested. Sums are kept in float (in double where a
 * matrix or the result is double) and rounded to out's dtype once.
 *
 * A plan knows the shapes and how to compute; a product_call adds the addresses of the matrices. Any operator can run
 * calls, several at once: independent products, as those of a mixture of experts, are one parallel loop. A plan that
 * depends on data is made while the operator runs. */
#ifndef CANNON_KERNEL_PRODUCT_PRODUCT_H
#define CANNON_KERNEL_PRODUCT_PRODUCT_H

#include "kernel/engine/activation.h"
#include "kernel/engine/implementation.h"
#include "kernel/engine/rows.h"
#include "kernel/product/few_rows.h"
#include "kernel/product/tile/tile_gemm.h"
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
  /* to[j * pitch + l] = B[row + l, col + j] for l < rows, j < cols. */
  void (*fetch)(const product_part *p, float *to, int64_t pitch, int64_t row, int64_t rows, int64_t col, int64_t cols);
  status (*few_rows)(const product_part *p); /* small-m implementation, or NULL: blocks are used for few rows, too */
  status (*groups)(const product_part *p);   /* on dot-product instructions; or NULL */
} made_factor;

/* Converts a block of sums, whose rows are ld elements apart, to the same rows and columns of out. */
typedef void product_finisher(const product_part *p, int64_t row, int64_t rows, int64_t col, int64_t cols,
                              const char *sums, int64_t ld);

typedef struct {
  matrices a, b, out, self; /* self: valid where has_self. A bias for each column is a self whose row_stride is 0. */
  int n_batch_dims;
  int64_t batch_dims[MAX_RANK];
  double alpha, beta;
  bool has_self;
  /* The epilogue: out = activation(alpha * (A @ B) + beta * self) + residual, or with residual_first
   * activation(alpha * (A @ B) + beta * self + residual), computed while a block of sums is in cache. Not with
   * finish. */
  activation activation;
  bool has_residual, residual_first;
  matrices residual;
  /* If n_terms > 0, A @ B stands for the sum of that many products, whose factors are this many bytes apart. */
  int64_t n_terms, a_term_stride, b_term_stride;
  const made_factor *made_b; /* NULL if B is a tensor */
  bool constant_b;           /* the caller packs B if product_packed_bytes says so */
  /* Replaces alpha and self if not NULL. Without made_b the factors are then int8, and the sums int32. */
  product_finisher *finish;

  /* Set by product_choose: */
  const implementation *chosen;
  bool whole_rows; /* threads divide columns only */
  bool swapped;    /* a and b are the call's b and a: the equation was transposed */
  tile_type type;  /* operand type of the micro-kernel; out is converted from its accumulator type */
  int64_t n_batches;
  uint64_t cost_ns; /* estimated time of the whole batch on one core */
} product_plan;

/* One GEMM to be computed. The addresses are those of the first element of each stack: a and b are not used if K is 0,
 * nor is self without has_self. */
typedef struct {
  const product_plan *plan;
  const void *a, *b, *self, *residual;
  void *out;
  const void *packed_b; /* by product_pack; NULL: b is packed where that is needed */
  const void *context;  /* for the functions of made_b, and for finish: what they need besides the part */

  /* Set by product_run: */
  int64_t first_part;
  int row_parts, col_parts;
} product_call;

/* Chooses the implementation for a plan whose first half is filled in. e: the executor of an operator that is this GEMM
 * and is told about the choice, for reports; NULL: a GEMM of many inside another operator. */
void product_choose(product_plan *p, executor *e);

/* A constant B that several calls multiply by is packed once, by a caller that knows that its contents do not change
 * between them: an operator that multiplies by one weight in many steps, or a graph whose weights are constants (those
 * of an executor that is launched repeatedly may change). The caller sets constant_b, and after product_choose:
 *
 *   product_packed_bytes   the size of B packed for the plan, a multiple of 64; 0 if its implementation gains nothing
 *                          from that, or B is a batch. Calls then run without packed_b.
 *   product_packed_layout  a hash: plans with equal ones pack the same B to the same bytes
 *   product_reads_b        whether calls with packed_b may still read b
 *   product_pack           packs b to memory of that size at a multiple of 64 bytes, on the calling thread's team. The
 *                          memory may be shared by plans that differ in addresses, self and epilogue only. listener:
 *                          the packing of an executor, whose was_read() is told; or NULL */
uint64_t product_packed_bytes(const product_plan *p);
uint64_t product_packed_layout(const product_plan *p);
bool product_reads_b(const product_plan *p);
void product_pack(const product_plan *p, const void *b, void *packed, const executor_packing *listener);

/* Computes n GEMMs that do not depend on each other, as one parallel loop. */
status product_run(product_call *calls, int64_t n);

/* The plan of an operator that is one GEMM of its operands, whose indices these are. */
typedef struct {
  product_plan product;
  uint16_t a, b, out, self, residual;
} product_operator;

/* Chooses the implementation for the executor's plan, a product_operator whose product is filled in, and sets the
 * executor's run function and cost. */
void product_plan_finish(executor *e);

/* Sets the executor's cost, and its number of multiply-adds, for a product that it runs. */
void product_costs(executor *e, product_plan *p);

/* ---- used by the implementations --------------------------------------------------------------------------------- */

/* A block of one matrix product of the batch: the addresses of that product's matrices, and which rows and columns of
 * out are to be computed. Lives on the stack of the thread that computes it. */
struct product_part {
  const product_call *call;
  const product_plan *plan;
  const char *a, *b, *self, *residual;
  char *out;
  int64_t batch; /* index in the batch; 0 where the batch was merged into rows */
  int64_t row, rows, col, cols;
};

/* They fail only if there is no memory for scratch buffers. operands: a product_part. */
status product_blocks(const product_part *p);
status product_few_rows(const product_part *p);
status product_reference(const void *plan, const void *operands, char *scratch);

/* Estimated time of an m x n x k GEMM of the type on one core. */
uint64_t product_cost_ns(tile_type type, int64_t m, int64_t n, int64_t k);

/* Whether the matrix of sums is the result itself, but for the rounding to out. */
static inline bool product_is_plain(const product_plan *p) {
  return p->alpha == 1 && !p->has_self && !p->activation.function && !p->has_residual;
}

/* Whether the plan is computed by blocks, whose packed B may be kept. */
bool product_keeps_b(const product_plan *p);

/* Writes out[row.., col..] = alpha * sums + beta * self with the epilogue, or calls the plan's finish. sums: rows x
 * cols accumulators (float, double or int32, by the plan's tile type) whose rows are ld elements apart; they may be
 * overwritten. */
void product_finish(const product_part *p, int64_t row, int64_t rows, int64_t col, int64_t cols, char *sums,
                    int64_t ld);

#endif
