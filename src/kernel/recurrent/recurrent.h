/* What recurrent networks of one layer have in common: x is [steps, batch, inputs], states are [batch, hidden] (where there
 * is one step, tensors may have the dimension of steps or lack it: cells are layers of one step); weights have
 * a row for each input or element of the state, and columns by gates, `hidden` for each. Tensors are contiguous.
 *
 * Everything is computed in float, in memory of the workspace: products (product/product.h) over all steps at once where
 * steps do not depend on each other, else one for each step; and cells (cells.h), row by row. */
#ifndef CANNON_KERNEL_RECURRENT_RECURRENT_H
#define CANNON_KERNEL_RECURRENT_RECURRENT_H

#include "kernel/engine/rows.h"
#include "kernel/recurrent/cells.h"
#include "op/executor.h"

enum { RECURRENT_OPERANDS = 28 };

/* Which steps count: all, as many as lengths[row] says, or those elements whose mask is 1. Elsewhere a state stays as it is,
 * and the output is 0. */
typedef enum { MASK_NONE, MASK_LENGTHS, MASK_ELEMENTS } mask_kind;

typedef struct {
  int64_t steps, batch, inputs, hidden;
  bool reversed;   /* from the last step to the first */
  int8_t order[4]; /* of each gate, among the columns */
  int8_t dtype[RECURRENT_OPERANDS];
  mask_kind mask;
  int8_t mask_operand;
  uint64_t row_cost_ns; /* of a cell */
} recurrent;

/* The attributes, which come in this order: direction, time_major, num_proj, keep_prob, cell_clip. */
status recurrent_attributes(recurrent *r, const op_arg *a);

/* letters: of the gates, such as "rzn"; of those of the order, 'c' is 'j' and 'h' is 'n'. */
status recurrent_gates(recurrent *r, const char *order, const char *letters);

/* Sizes, of x and a weight with a row for each element of the state; and the dtypes of all operands. */
status recurrent_sizes(recurrent *r, const op_arg *a, int n_tensors, const tensor *x, int64_t columns, int n_gates);

status recurrent_expect(const tensor *t, const char *name, const int64_t *dims, int rank); /* t may be NULL */
status recurrent_expect_state(const recurrent *r, const tensor *t, const char *name);
status recurrent_expect_steps(const recurrent *r, const tensor *t, const char *name);
/* Lengths or a mask; NULL or a scalar: all steps count. */
status recurrent_mask(recurrent *r, const tensor *t, const char *name, int operand);
/* An operand that must not be there; clients give a scalar instead. */
status recurrent_expect_none(const tensor *t, const char *name);

/* The step that is s-th, and whether it has one before it. */
static inline int64_t recurrent_step(const recurrent *r, int64_t s) { return r->reversed ? r->steps - 1 - s : s; }

/* n floats from or to an operand, from its element `at` on. An operand without an address: zeros, nothing. */
void recurrent_load(const recurrent *r, void *const *view, int operand, int64_t at, float *to, int64_t n);
void recurrent_store(const recurrent *r, void *const *view, int operand, int64_t at, const float *from, int64_t n);

/* The mask of a row of a step, `hidden` floats. */
void recurrent_mask_row(const recurrent *r, void *const *view, int64_t step, int64_t row, float *to);

/* ---- products ---------------------------------------------------------------------------------------------------- */

/* Strides in bytes. */
typedef struct {
  const void *at;
  int dtype;
  int64_t rows, cols, row_stride, col_stride;
} matrix;

matrix matrix_of(const void *at, int dtype, int64_t rows, int64_t cols); /* row-major */
matrix matrix_transposed(matrix m);
matrix matrix_rows(matrix m, int64_t begin, int64_t rows);

/* out = a b + add; add: NULL, or of out's shape (row_stride may be 0), out itself too. */
status matrix_product(matrix a, matrix b, matrix out, const matrix *add);
/* dw_h: the states before all steps, transposed, times the gradients of the gates; both are operands. */
status recurrent_state_weights(const recurrent *r, void *const *view, int init_h, int h, matrix d_gates, matrix dw_h);
/* out, a row: the sums of a's columns. */
status matrix_column_sums(matrix a, matrix out);

/* ---- the weight of the state ------------------------------------------------------------------------------------- */

typedef struct {
  matrix as_it_lies;
  char *packed; /* or NULL */
} step_weight;

/* Of memory for a weight of so many rows and columns; 0: it is better used as it lies. */
uint64_t step_weight_bytes(const recurrent *r, int64_t depth, int64_t cols);
step_weight step_weight_of(matrix m, const recurrent *r, void *room);
/* out = a w, or out + a w; both of floats side by side. */
status step_weight_multiply(const step_weight *w, matrix a, matrix out, bool add);

#endif
