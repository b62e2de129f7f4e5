/* What operators that are products share: checks of their arguments, and tensors as stacks of matrices. */
#ifndef CANNON_KERNEL_PRODUCT_FACTORS_H
#define CANNON_KERNEL_PRODUCT_FACTORS_H

#include "kernel/product/product.h"

/* 0 keep the precision, 1 to 3 allow less, 4, which not all have, add in float32: ours is never less than asked. */
static inline status check_cube_math(int64_t type, int most) {
  EXPECT(type >= 0 && type <= most, "cubeMathType is %jd, expected 0 to %d", (intmax_t)type, most);
  return ST_OK;
}

static inline status check_rank(const tensor *t, const char *name, int rank) {
  char text[SHAPE_TEXT];
  EXPECT(t->rank == rank, "%s has shape %s, expected %d dimensions", name, shape_text(t->dims, t->rank, text), rank);
  return ST_OK;
}

/* Arguments a_at and a_at + 1 do not fit each other. */
status fail_factors(const executor *e, int a_at, const tensor *a, const tensor *b, const char *what);

/* The last two dimensions as matrices; a vector is one row (left) or one column (right). Leading dimensions line up at
 * the right with n_batch_dims of the product; those of 1 are broadcast. */
void matrices_init(matrices *x, const tensor *t, bool left, int n_batch_dims);

/* Sets the product's batch: broadcast of both factors'. False where they don't. */
bool broadcast_batch(const tensor *a, const tensor *b, product_plan *p);

/* Sets p->out, whose batch, a and b are set. The result has no row (column) dimension where the left (right) factor is a
 * vector. */
void out_matrices(const tensor *out, bool has_rows, bool has_cols, product_plan *p);

#endif
