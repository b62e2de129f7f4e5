/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers for preparing layer, RMS, batch and group norms: argument checks and operands of row plans (panels.h). */
#ifndef CANNON_KERNEL_NORM_NORM_H
#define CANNON_KERNEL_NORM_NORM_H

#include "kernel/norm/norm_loops.h"
#include "kernel/norm/panels.h"
#include "op/executor.h"

/* dtypes of the norms; they compute in float and sum in double. */

/* Checks for a norm's dtype and the shape. */
status norm_expect(const tensor *t, const char *name, const int64_t *dims, int rank);

/* Views a tensor that has a number for each row. Its shape is the first n_outer dimensions of x followed by any number
 * of ones; a contiguous tensor may have any shape with that many elements. The first n_outer dimensions of the view
 * number the rows. */
status norm_rows_view(const tensor *t, const char *name, const int64_t *dims, int n_outer, view *v);

/* A tensor argument of a call: its name, and its operand index; t is NULL if it is absent. */
typedef struct {
  const tensor *t;
  const char *name;
  int view;
} norm_arg;

/* Adds an operand to a plan that has been started: one of x's shape, or for PANEL_COLUMN one of x's last dimensions.
 * *index is its index in the plan, -1 if it is absent. */
status norm_add_elements(panel_plan *p, const tensor *x, const norm_arg *arg, panel_role role, int8_t *index);

/* Adds an operand that has a number for each row; see norm_rows_view. */
status norm_add_numbers(panel_plan *p, const int64_t *dims, int n_outer, const norm_arg *arg, panel_role role,
                        int8_t *index);

/* Row i of an operand, or NULL if it is absent (k is -1). */
static inline float *norm_row_or_null(const panel *p, int k, int i) { return k < 0 ? NULL : panel_floats(p, k, i); }

/* Checks normalizedShape, which must be the last dimensions of the input; *n_outer is the number of dimensions before
 * those. */
status norm_expect_normalized_shape(const tensor *input, const aclIntArray *shape, int *n_outer);

/* gamma has the last dimensions of x, at least one; *n_outer is the number of dimensions before those. */
status norm_expect_gamma(const tensor *x, const tensor *gamma, int *n_outer);

/* Selects those of three optional outputs that an outputMask asks for. An output is NULL where the mask is false; where
 * it is true, the given tensor must be present. */
status norm_masked_outputs(const aclBoolArray *wanted, const tensor *const *given, const char *const *names,
                           const tensor **out);

static inline uint64_t norm_tensor_bytes(const tensor *t) { return t ? (uint64_t)t->n * dtype_bytes(t->dtype) : 0; }

#endif
