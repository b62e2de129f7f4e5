/* What the norms' legality functions share. */
#ifndef CANNON_KERNEL_NORM_NORM_H
#define CANNON_KERNEL_NORM_NORM_H

#include "kernel/norm/norm_loops.h"
#include "kernel/norm/panels.h"
#include "op/executor.h"

/* Norms are for these; they compute in float, and sum in double. */
#define DTYPES_NORM (DTYPE_BIT(ACL_FLOAT) | DTYPE_BIT(ACL_FLOAT16) | DTYPE_BIT(ACL_BF16))

/* A norm's dtype, and the shape. */
status norm_expect(const tensor *t, const char *name, const int64_t *dims, int rank);

/* Numbers for each row: the first n_outer dimensions of x, then any number of ones; or, if the tensor has no gaps, any
 * shape of so many elements. Fills its view of n_outer dimensions. */
status norm_rows_view(const tensor *t, const char *name, const int64_t *dims, int n_outer, view *v);

/* A tensor of a call, its name, and which of the task's views it is; NULL: absent. */
typedef struct {
  const tensor *t;
  const char *name;
  int view;
} norm_arg;

/* Adds an operand of x's shape, or, as a column, of its last dimensions, to a plan that has only been begun; its
 * index, -1 where it is absent. */
status norm_add_elements(panel_plan *p, const tensor *x, const norm_arg *arg, panel_role role, int8_t *index);

/* Adds numbers for each row of so many outer dimensions. */
status norm_add_numbers(panel_plan *p, const int64_t *dims, int n_outer, const norm_arg *arg, panel_role role,
                        int8_t *index);

/* Row i of an operand that may be absent (-1): then NULL. */
static inline float *norm_row_or_null(const panel *p, int k, int i) { return k < 0 ? NULL : panel_floats(p, k, i); }

/* normalizedShape, which must be the last dimensions of the input; those before it number the rows. */
status norm_expect_normalized_shape(const tensor *input, const aclIntArray *shape, int *n_outer);

/* gamma has the last dimensions of x, at least one; those before them number the rows. */
status norm_expect_gamma(const tensor *x, const tensor *gamma, int *n_outer);

/* The three optional outputs behind an outputMask, which is argument `mask`: NULL where it is false; one that it asks
 * for must be there. */
status norm_masked_outputs(const executor *e, const op_arg *a, int mask, const tensor **out);

static inline uint64_t tensor_bytes(const tensor *t) { return t ? (uint64_t)t->n * dtype_bytes(t->dtype) : 0; }

#endif
