/* SPDX-License-Identifier: Apache-2.0 */
/* What one-layer recurrent networks (LSTM and GRU, forward and gradient) have in common. x is [steps, batch, inputs],
 * states are [batch, hidden]. With a single step, tensors may have the dimension of steps or lack it: a cell is a layer
 * of one step. Weights have a row for each input or element of the state, and `hidden` columns for each gate. Tensors
 * are contiguous.
 *
 * Everything is computed in float in workspace: GEMMs (product/product.h) over all steps at once where steps do not
 * depend on each other, otherwise one per step; and the cells (cells.h), row by row. */
#ifndef CANNON_KERNEL_RECURRENT_RECURRENT_H
#define CANNON_KERNEL_RECURRENT_RECURRENT_H

#include "kernel/engine/rows.h"
#include "kernel/recurrent/cells.h"
#include "op/executor.h"

enum { RECURRENT_OPERANDS = 28 };

/* Which steps are processed: all, the first lengths[row], or those elements whose mask is 1. Otherwise the state is
 * kept, and the output is 0. */
typedef enum { MASK_NONE, MASK_LENGTHS, MASK_ELEMENTS } mask_kind;

typedef struct {
  int64_t steps, batch, inputs, hidden;
  bool reversed;   /* processes the steps from the last to the first */
  int8_t order[4]; /* position of each gate among the columns of the weights */
  int8_t dtype[RECURRENT_OPERANDS];
  mask_kind mask;
  int8_t mask_operand;
  uint64_t row_cost_ns; /* estimate for one row of a cell */
} recurrent;

/* Reads and checks attributes. */
status recurrent_attributes(recurrent *r, const char *direction, bool time_major, int64_t num_proj, double keep_prob,
                            double cell_clip);

/* Sets r->order from a string such as "rzh". letters: the gates' letters in the order of cells.h, such as "rzn"; in
 * `order`, 'c' may stand for 'j' and 'h' for 'n'. */
status recurrent_gates(recurrent *r, const char *order, const char *letters);

/* Sets the sizes from x and from the weight of the state, and the dtypes of all operands, which are the first
 * arguments. */
status recurrent_sizes(recurrent *r, const executor *e, const op_arg *all, const tensor *x, const tensor *weight,
                       int n_gates);

/* Check functions. The tensor may be NULL; otherwise it must be float, float16 or bfloat16 and have the given shape: */
status recurrent_expect(const tensor *t, const char *name, const int64_t *dims, int rank);
/* [batch, hidden], or [1, batch, hidden]. */
status recurrent_expect_state(const recurrent *r, const tensor *t, const char *name);
/* [steps, batch, hidden], or [batch, hidden] with a single step. */
status recurrent_expect_steps(const recurrent *r, const tensor *t, const char *name);
/* Sets the mask from lengths or a mask tensor; NULL or a scalar: all steps are processed. */
status recurrent_mask(recurrent *r, const tensor *t, const char *name, int operand);
/* An operand that must be absent; clients may pass a scalar instead of NULL. */
status recurrent_expect_none(const tensor *t, const char *name);

/* The index of the step that is processed s-th. */
static inline int64_t recurrent_step(const recurrent *r, int64_t s) { return r->reversed ? r->steps - 1 - s : s; }

/* Converts n floats from or to an operand, starting at its element `at`. If the operand is absent, loads
 * give zeros and stores do nothing. */
void recurrent_load(const recurrent *r, void *const *view, int operand, int64_t at, float *to, int64_t n);
void recurrent_store(const recurrent *r, void *const *view, int operand, int64_t at, const float *from, int64_t n);

/* The mask of one row at one step, as `hidden` floats. */
void recurrent_mask_row(const recurrent *r, void *const *view, int64_t step, int64_t row, float *to);

/* ---- GEMM -------------------------------------------------------------------------------------------------------- */

/* A matrix view; strides in bytes. It owns nothing. */
typedef struct {
  const void *at;
  int dtype;
  int64_t rows, cols, row_stride, col_stride;
} matrix;

matrix recurrent_matrix(const void *at, int dtype, int64_t rows, int64_t cols); /* a contiguous row-major matrix */
/* Views of the transpose, and of `rows` rows from `begin` on. */
matrix recurrent_matrix_transposed(matrix m);
matrix recurrent_matrix_rows(matrix m, int64_t begin, int64_t rows);

/* out = a b + add, on the calling thread's team. add may be NULL or has out's shape (row_stride may be 0 to repeat a
 * row); it may be out itself. */
status recurrent_matrix_product(matrix a, matrix b, matrix out, const matrix *add);
/* Gradient of the state's weight: dw_h = (states before all steps)^T d_gates. init_h and h are operand numbers. */
status recurrent_state_weights(const recurrent *r, void *const *view, int init_h, int h, matrix d_gates, matrix dw_h);
/* out, a single row: the sums of a's columns. */
status recurrent_matrix_column_sums(matrix a, matrix out);

/* ---- the weight of the state, which each step multiplies by ------------------------------------------------------ */

typedef struct {
  matrix as_it_lies;
  const void *packed; /* packed copy in the caller's workspace, or NULL */
} step_weight;

/* Bytes of workspace for the packed copy (product_pack) of a weight, whose address is not used; 0: it is not worth
 * packing. */
uint64_t step_weight_bytes(const recurrent *r, matrix weight);
/* Packs m into `room` (of step_weight_bytes) if that is worthwhile. */
step_weight step_weight_of(matrix m, const recurrent *r, void *room);
/* out = a w, or out + a w if `add`; a and out are row-major floats. */
status step_weight_multiply(const step_weight *w, matrix a, matrix out, bool add);

#endif
