/* out = alpha * (A @ B) + beta * self for stacks of matrices with any strides and dtypes. Operators fill in the first
 * part of a plan in their prepare function, and product_plan_finish() chooses the way:
 *
 *   few rows   A (or B, transposed) has at most FEW_ROWS: B is read once, where it lies, converted in registers
 *              (product_few_rows.c); bfloat16 that is dense along k goes by blocks on AMX, from two rows on
 *   blocks     A and B by blocks as tile_gemm.h's kernels read them: packed, or where they lie (product_blocks.c)
 *
 * Either works on a part of one matrix product, on the calling thread, with the thread's own scratch memory; product.c
 * hands out the parts. Products ask for no workspace. Sums are kept in float (double where A or B is double), and rounded
 * to out's dtype once. */
#ifndef CANNON_KERNEL_PRODUCT_PRODUCT_H
#define CANNON_KERNEL_PRODUCT_PRODUCT_H

#include "kernel/engine/rows.h"
#include "kernel/product/few_rows.h"
#include "kernel/product/tile_gemm.h"
#include "op/executor.h"

/* A stack of matrices; strides in bytes, 0 where broadcast. */
typedef struct {
  int dtype;
  int64_t rows, cols;
  int64_t row_stride, col_stride;
  int64_t batch_strides[MAX_RANK];
} matrices;

typedef struct product_part product_part;

/* A B that is not a tensor of numbers as it lies, but makes them. Its strides in the plan are its own matter. */
typedef struct {
  /* to[l * cols + j] = element [row + l, col + j] of B. */
  void (*fetch)(const product_part *p, float *to, int64_t row, int64_t rows, int64_t col, int64_t cols);
  status (*few_rows)(const product_part *p); /* or NULL: by blocks, too */
} made_factor;

/* Makes rows and columns of out from their sums, ld elements apart. */
typedef void product_finisher(const product_part *p, int64_t row, int64_t rows, int64_t col, int64_t cols,
                              const char *sums, int64_t ld);

typedef struct {
  matrices a, b, out, self; /* self: where has_self */
  int n_batch_dims;
  int64_t batch_dims[MAX_RANK];
  double alpha, beta;
  bool has_self;
  uint8_t view_a, view_b, view_out, view_self; /* which operands of the executor they are */
  /* Where n_terms > 0: A @ B stands for the sum of so many products, whose factors are so many bytes apart. */
  int64_t n_terms, a_term_stride, b_term_stride;
  const made_factor *made_b; /* or NULL */
  /* Instead of alpha and self, or NULL. Factors are int8 then, and sums int32. */
  product_finisher *finish;

  /* product_choose sets these. */
  bool few_rows;
  tile_type type; /* what is multiplied; its sums are what out is converted from */
  int64_t n_batches;
  uint64_t cost_ns; /* of all, on one core */
} product_plan;

/* Chooses the way for the executor's plan, a product_plan whose upper part is filled in; sets the executor's run and
 * cost. */
void product_plan_finish(executor *e);

/* The same for products inside of other operators: chooses the way, and takes it. view: what the plan's view_... number. */
void product_choose(product_plan *p);
status product_run(const executor *e, const product_plan *p, void *const *view);

/* ---- the parts --------------------------------------------------------------------------------------------------- */

/* One product of a batch: addresses of its matrices, of which rows and columns of out are wanted. */
struct product_part {
  const executor *executor;
  void *const *view; /* the operands' */
  const product_plan *plan;
  const char *a, *b, *self;
  char *out;
  int64_t batch; /* which product, 0 where the batch became rows */
  int64_t row, rows, col, cols;
};

status product_blocks(const product_part *p);
status product_few_rows(const product_part *p);

/* Estimate for an m x n x k product of the type on one core. */
uint64_t product_cost_ns(tile_type type, int64_t m, int64_t n, int64_t k);

/* out[row.., col..] = alpha * sums + beta * self, or what the plan's finish makes. sums: rows x cols in the type's float, double or int32,
 * ld elements apart; may be overwritten. */
void product_finish(const product_part *p, int64_t row, int64_t rows, int64_t col, int64_t cols, char *sums,
                    int64_t ld);

#endif
