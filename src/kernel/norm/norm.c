/* SPDX-License-Identifier: Apache-2.0 */
/* See norm.h and channels.h. */
#include "kernel/norm/norm.h"

#include "kernel/engine/level_choice.h"
#include "kernel/norm/channels.h"

LEVEL_CHOICE(norm_loops, norm, norm_loops)

status norm_expect(const tensor *t, const char *name, const int64_t *dims, int rank) {
  TRY(op_expect_dtype(t, name, DTYPES_FLOAT_TO_32));
  return op_expect_shape(t, name, dims, rank);
}

status norm_rows_view(const tensor *t, const char *name, const int64_t *dims, int n_outer, view *v) {
  TRY(op_expect_dtype(t, name, DTYPES_FLOAT_TO_32));
  int64_t n = 1;
  bool same = t->rank >= n_outer;
  for (int d = 0; d < n_outer; ++d) {
    n *= dims[d];
    same = same && t->dims[d] == dims[d];
  }
  for (int d = n_outer; same && d < t->rank; ++d) same = t->dims[d] == 1;
  EXPECT(same || (t->contiguous && t->n == n), "%s has shape %s, expected %s (and ones)", name, SHAPE_OF(t),
         DIMS_TEXT(dims, n_outer));
  if (same)
    view_init(v, t);
  else
    *v = view_contiguous(t->dtype, n_outer, dims);
  return ST_OK;
}

status norm_add_elements(panel_plan *p, const tensor *x, const norm_arg *arg, panel_role role, int8_t *index) {
  *index = -1;
  if (!arg->t) return ST_OK;
  const int first = role == PANEL_COLUMN ? p->n_outer : 0;
  TRY(norm_expect(arg->t, arg->name, x->dims + first, x->rank - first));
  *index = (int8_t)panel_add_tensor(p, role, arg->view, arg->t, NULL);
  return ST_OK;
}

status norm_add_numbers(panel_plan *p, const int64_t *dims, int n_outer, const norm_arg *arg, panel_role role,
                        int8_t *index) {
  *index = -1;
  if (!arg->t) return ST_OK;
  view v;
  TRY(norm_rows_view(arg->t, arg->name, dims, n_outer, &v));
  *index = (int8_t)panel_add(p, role, arg->view, &v);
  return ST_OK;
}

status norm_expect_normalized_shape(const tensor *input, const aclIntArray *shape, int *n_outer) {
  const int rank = shape->size <= MAX_RANK ? (int)shape->size : 0;
  bool fits = rank >= 1 && rank <= input->rank;
  for (int d = 0; fits && d < rank; ++d) fits = shape->value[d] == input->dims[input->rank - rank + d];
  EXPECT(fits, "normalizedShape is %s, expected the last dimensions of input, whose shape is %s",
         DIMS_TEXT(shape->value, rank), SHAPE_OF(input));
  *n_outer = input->rank - rank;
  return ST_OK;
}

status norm_expect_gamma(const tensor *x, const tensor *gamma, int *n_outer) {
  EXPECT(gamma->rank >= 1 && gamma->rank <= x->rank, "gamma has shape %s, expected the last dimensions of %s",
         SHAPE_OF(gamma), SHAPE_OF(x));
  *n_outer = x->rank - gamma->rank;
  return ST_OK;
}

status norm_masked_outputs(const aclBoolArray *wanted, const tensor *const *given, const char *const *names,
                           const tensor **out) {
  TRY(op_expect_size(wanted->size, "outputMask", 3));
  for (int k = 0; k < 3; ++k) {
    out[k] = wanted->value[k] ? given[k] : NULL;
    if (wanted->value[k] && !out[k])
      return fail(ST_OP_NULL, "%s is NULL, expected a tensor as outputMask[%d] is true", names[k], k);
  }
  return ST_OK;
}

status channel_vector_of(const tensor *t, const char *name, int view_index, int64_t channels, double otherwise,
                         channel_vector *v) {
  *v = (channel_vector){.otherwise = otherwise, .view = -1};
  if (!t) return ST_OK;
  TRY(op_expect_dtype(t, name, DTYPES_FLOAT_TO_32));
  EXPECT(t->n == channels && (t->rank == 1 || t->contiguous),
         "%s has shape %s, expected one element for each of %jd channels", name, SHAPE_OF(t), (intmax_t)channels);
  v->load = loops->load[t->dtype][COMPUTE_F64];
  v->store = loops->store[t->dtype][COMPUTE_F64];
  v->stride = (t->rank == 1 ? t->strides[0] : 1) * (int64_t)dtype_bytes(t->dtype);
  v->view = (int8_t)view_index;
  return ST_OK;
}
