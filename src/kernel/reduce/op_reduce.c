/* SPDX-License-Identifier: Apache-2.0 */
/* The reduction operators: checks of their arguments and requests to the reduction engine (reduction.h). */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "kernel/elementwise/elementwise_call.h"
#include "kernel/families.h"
#include "kernel/reduce/reduction.h"

/* ---- checks ------------------------------------------------------------------------------------------------------ */

/* Sets is_reduced for the dimensions in the list. An empty or absent list means all dimensions, with `noop` none. */
static status expect_dims(const aclIntArray *list, const char *name, int rank, bool noop, bool *is_reduced) {
  const bool all = (!list || list->size == 0) && !noop;
  for (int d = 0; d < MAX_RANK; ++d) is_reduced[d] = all;
  for (uint64_t i = 0; list && i < list->size; ++i) {
    int d;
    TRY(op_expect_dim(list->value[i], name, rank, &d));
    EXPECT(!is_reduced[d], "%s has %jd twice (as dimension %d), expected different dimensions", name,
           (intmax_t)list->value[i], d);
    is_reduced[d] = true;
  }
  return ST_OK;
}

static status expect_one_dim(int64_t value, const char *name, int rank, bool *is_reduced) {
  int dim;
  TRY(op_expect_dim(value, name, rank, &dim));
  for (int d = 0; d < MAX_RANK; ++d) is_reduced[d] = d == dim;
  return ST_OK;
}

static status expect_reduced_shape(const tensor *self, const tensor *out, const char *name, const bool *is_reduced,
                                   bool keep) {
  int64_t dims[MAX_RANK];
  int rank = 0;
  for (int d = 0; d < self->rank; ++d)
    if (keep || !is_reduced[d]) dims[rank++] = is_reduced[d] ? 1 : self->dims[d];
  if (rank == 0 && out->rank == 1 && out->n == 1) return ST_OK; /* ggml gives a scalar a dimension */
  return op_expect_shape(out, name, dims, rank);
}

/* An empty row has no maximum or minimum, so it is an error. If the output is empty as well, an index is not missed. */
static status expect_elements(const tensor *self, const tensor *out, const bool *is_reduced, bool is_place) {
  for (int d = 0; d < self->rank && (out->n || !is_place); ++d)
    EXPECT(!is_reduced[d] || self->dims[d],
           "self has shape %s, nothing along dimension %d, expected one element or more", SHAPE_OF(self), d);
  return ST_OK;
}

static status reduce_expect_same_dtype(const tensor *t, const char *name, const tensor *self) {
  EXPECT(t->dtype == self->dtype, "%s has dtype %s, expected that of self, %s", name, dtype_name(t->dtype),
         dtype_name(self->dtype));
  return ST_OK;
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

typedef struct {
  reduction_kind kind;
  double parameter;
  const tensor *self, *out[REDUCTION_OUTPUTS]; /* out NULL: not wanted */
  uint8_t operand[1 + REDUCTION_OUTPUTS];
  const char *name[REDUCTION_OUTPUTS];
  const bool *is_reduced;
  bool keep, of_integers; /* of_integers: as in reduction_request */
} reduce_call;

static void reduce_plan_views(executor *e, const reduction_request *r) {
  if (r->kind == REDUCTION_PRODUCT && dtype_is_complex(r->in->dtype))
    complex_product_plan(e, r);
  else
    reduction_plan(e, r);
}

/* Checks the shapes and plans the request on views of the tensors. */
static status reduce_plan_reduction(executor *e, const reduce_call *c) {
  view in, out[REDUCTION_OUTPUTS];
  view_init(&in, c->self);
  reduction_request r = {.kind = c->kind,
                         .parameter = c->parameter,
                         .in = &in,
                         .is_reduced = c->is_reduced,
                         .keep = c->keep,
                         .of_integers = c->of_integers};
  const bool is_place = c->kind == REDUCTION_ARG_MAX || c->kind == REDUCTION_ARG_MIN;
  r.operand[0] = c->operand[0];
  for (int k = 0; k < REDUCTION_OUTPUTS; ++k) {
    if (!c->out[k]) continue;
    TRY(expect_reduced_shape(c->self, c->out[k], c->name[k], c->is_reduced, c->keep));
    if (!reduction_takes_nothing(c->kind)) TRY(expect_elements(c->self, c->out[k], c->is_reduced, is_place));
    view_init(&out[k], c->out[k]);
    r.out[k] = &out[k];
    r.operand[1 + k] = c->operand[1 + k];
  }
  reduce_plan_views(e, &r);
  return ST_OK;
}

/* Plans a reduction with one output, the call's second tensor. */
static status plan_one(executor *e, reduction_kind kind, double parameter, const tensor *self, const tensor *out,
                       const bool *is_reduced, bool keep) {
  return reduce_plan_reduction(e, &(reduce_call){.kind = kind,
                                                 .parameter = parameter,
                                                 .self = self,
                                                 .out = {out},
                                                 .operand = {0, 1},
                                                 .name = {"out"},
                                                 .is_reduced = is_reduced,
                                                 .keep = keep});
}

/* ---- sums, means, products --------------------------------------------------------------------------------------- */

/* Checks that a sum of self can be stored in out; `more`: dtypes besides the real ones. */
static status expect_sum_dtypes(const tensor *self, const tensor *out, uint64_t more) {
  TRY(op_expect_dtype(self, "self", DTYPES_REAL | more));
  TRY(op_expect_dtype(out, "out", DTYPES_REAL | more));
  EXPECT(out->dtype != ACL_BOOL || self->dtype == ACL_BOOL, "out has dtype BOOL, expected a number as self is %s",
         dtype_name(self->dtype));
  EXPECT(!dtype_is_complex(self->dtype) || dtype_is_complex(out->dtype),
         "out has dtype %s, expected a complex one as self is %s", dtype_name(out->dtype), dtype_name(self->dtype));
  return ST_OK;
}

/* Checks that a complex self is not empty: CANN fills the result of empty inputs, but not for complex numbers. */
static status expect_some_of_complex(const tensor *self, const tensor *out) {
  EXPECT(self->n || !dtype_is_complex(out->dtype), "self has no element, expected one or more as out is %s",
         dtype_name(out->dtype));
  return ST_OK;
}

static status expect_number_cast(const tensor *self, const tensor *out) {
  EXPECT(out->dtype != ACL_BOOL && dtype_can_cast(self->dtype, out->dtype),
         "out has dtype %s, expected a number that self's %s can be cast to", dtype_name(out->dtype),
         dtype_name(self->dtype));
  return ST_OK;
}

static status expect_mean_dtypes(const tensor *self, const tensor *out) {
  TRY(expect_sum_dtypes(self, out, DTYPES_COMPLEX));
  TRY(expect_number_cast(self, out));
  return expect_some_of_complex(self, out);
}

/* For BOOL, a sum is whether any element is true. */
status prepare_sum(executor *e, const sum_args *a) {
  const tensor *self = a->self, *out = a->out;
  const bool is_any = out->dtype == ACL_BOOL;
  bool is_reduced[MAX_RANK];
  TRY(is_any ? op_expect_dtype(self, "self", DTYPES_REAL) : expect_sum_dtypes(self, out, DTYPES_COMPLEX));
  TRY(expect_some_of_complex(self, out));
  TRY(op_expect_dtype_argument(a->dtype, out));
  TRY(expect_dims(a->dims, "dims", self->rank, false, is_reduced));
  return plan_one(e, is_any ? REDUCTION_ANY : REDUCTION_SUM, 0, self, out, is_reduced, a->keep_dims);
}

status prepare_nansum(executor *e, const nansum_args *a) {
  const tensor *self = a->self, *out = a->out;
  const reduction_kind kind = dtype_is_float(self->dtype) ? REDUCTION_SUM_NOT_NAN : REDUCTION_SUM;
  bool is_reduced[MAX_RANK];
  TRY(expect_sum_dtypes(self, out, 0));
  if (out->dtype != ACL_BOOL) TRY(expect_number_cast(self, out));
  TRY(op_expect_dtype_argument(a->dtype, out));
  TRY(expect_dims(a->dim, "dim", self->rank, false, is_reduced));
  return plan_one(e, kind, 0, self, out, is_reduced, a->keep_dim);
}

/* A mean in dtype, stored as out. */
status prepare_mean(executor *e, const mean_args *a) {
  const tensor *self = a->self, *out = a->out;
  const int dtype = (int)a->dtype;
  bool is_reduced[MAX_RANK];
  TRY(expect_mean_dtypes(self, out));
  EXPECT(dtype != ACL_BOOL && dtype_can_cast(self->dtype, dtype) && dtype_can_cast(dtype, out->dtype),
         "dtype is %s, expected a number that self's %s can be cast to, and that can be cast to out's %s",
         dtype_name(dtype), dtype_name(self->dtype), dtype_name(out->dtype));
  TRY(expect_dims(a->dim, "dim", self->rank, false, is_reduced));
  return reduce_plan_reduction(e, &(reduce_call){.kind = REDUCTION_MEAN,
                                                 .self = self,
                                                 .out = {out},
                                                 .operand = {0, 1},
                                                 .name = {"out"},
                                                 .is_reduced = is_reduced,
                                                 .keep = a->keep_dim,
                                                 .of_integers = dtype_is_integer(dtype)});
}

/* Called by operator name. No axes mean all, unless
 * noop_with_empty_axes. */
status prepare_graph_reduce(executor *e, const graph_reduce_args *a) {
  static const reduction_kind kinds[] = {
      [GRAPH_SUM] = REDUCTION_SUM, [GRAPH_MEAN] = REDUCTION_MEAN, [GRAPH_PRODUCT] = REDUCTION_PRODUCT,
      [GRAPH_MAX] = REDUCTION_MAX, [GRAPH_MIN] = REDUCTION_MIN,   [GRAPH_ALL] = REDUCTION_ALL,
      [GRAPH_ANY] = REDUCTION_ANY};
  const tensor *x = a->x, *y = a->y;
  const reduction_kind kind = kinds[e->op->variant];
  bool is_reduced[MAX_RANK];
  if (kind == REDUCTION_SUM || kind == REDUCTION_MEAN || kind == REDUCTION_PRODUCT) {
    TRY(kind == REDUCTION_MEAN ? expect_mean_dtypes(x, y) : expect_sum_dtypes(x, y, DTYPES_COMPLEX));
  } else {
    const bool truth = kind == REDUCTION_ALL || kind == REDUCTION_ANY;
    TRY(op_expect_dtype(x, "x", truth ? DTYPE_BIT(ACL_BOOL) : DTYPES_REAL));
    TRY(op_expect_dtype(y, "y", DTYPE_BIT(x->dtype)));
  }
  TRY(expect_dims(a->axes, "axes", x->rank, a->noop_with_empty_axes, is_reduced));
  return plan_one(e, kind, 0, x, y, is_reduced, a->keep_dims);
}

/* BiasAddGrad by name: the sum over all dimensions but that of the channels, the second (NCHW) or the last. */
status prepare_graph_bias_grad(executor *e, const graph_bias_grad_args *a) {
  const tensor *x = a->x, *y = a->y;
  bool is_reduced[MAX_RANK];
  TRY(op_expect_rank(x, "x", 2, MAX_RANK));
  TRY(op_expect_dtype(x, "x", DTYPES_FLOAT));
  TRY(op_expect_dtype(y, "y", DTYPE_BIT(x->dtype)));
  const int axis = strcmp(a->data_format, "NHWC") != 0 && strcmp(a->data_format, "NDHWC") != 0 ? 1 : x->rank - 1;
  for (int d = 0; d < x->rank; ++d) is_reduced[d] = d != axis;
  return plan_one(e, REDUCTION_SUM, 0, x, y, is_reduced, false);
}

/* If nothing is reduced, ReduceLogSum is a copy, and a maximum is one
 * of single elements. */
status prepare_reduce_noop(executor *e, const reduce_noop_args *a) {
  static const reduction_kind kinds[] = {[REDUCE_NOOP_MEAN] = REDUCTION_MEAN,
                                         [REDUCE_NOOP_MAX] = REDUCTION_MAX,
                                         [REDUCE_NOOP_LOG_SUM] = REDUCTION_LOG_SUM};
  const tensor *self = a->self, *out = a->out;
  const char *out_name = a->name.out;
  reduction_kind kind = kinds[e->op->variant];
  bool is_reduced[MAX_RANK];
  if (kind == REDUCTION_MEAN) {
    TRY(expect_mean_dtypes(self, out));
  } else {
    TRY(op_expect_dtype(self, a->name.self, DTYPES_REAL));
    TRY(op_expect_dtype(out, out_name, kind == REDUCTION_MAX ? DTYPES_REAL : DTYPES_FLOAT));
    if (kind == REDUCTION_MAX) TRY(reduce_expect_same_dtype(out, out_name, self));
  }
  TRY(expect_dims(a->dim, a->name.dim, self->rank, a->noop_with_empty_axes, is_reduced));
  if (kind == REDUCTION_LOG_SUM && a->noop_with_empty_axes && a->dim->size == 0) kind = REDUCTION_MAX;
  return plan_one(e, kind, 0, self, out, is_reduced, a->keep_dim);
}

status prepare_product(executor *e, const product_args *a) {
  const tensor *self = a->self, *out = a->out;
  bool is_reduced[MAX_RANK];
  TRY(expect_sum_dtypes(self, out, DTYPES_COMPLEX));
  TRY(expect_some_of_complex(self, out));
  TRY(op_expect_dtype_argument(a->dtype, out));
  TRY(expect_dims(NULL, NULL, self->rank, false, is_reduced));
  return plan_one(e, REDUCTION_PRODUCT, 0, self, out, is_reduced, false);
}

status prepare_product_dim(executor *e, const product_dim_args *a) {
  const tensor *self = a->self, *out = a->out;
  bool is_reduced[MAX_RANK];
  TRY(expect_sum_dtypes(self, out, DTYPES_COMPLEX));
  TRY(expect_some_of_complex(self, out));
  TRY(op_expect_dtype_argument(a->dtype, out));
  TRY(expect_one_dim(a->dim, "dim", self->rank, is_reduced));
  return plan_one(e, REDUCTION_PRODUCT, 0, self, out, is_reduced, a->keep_dim);
}

/* The sum of a matrix's diagonal, treated as a row whose stride is the sum of both dimensions' strides. */
status prepare_trace(executor *e, const trace_args *a) {
  const tensor *self = a->self, *out = a->out;
  TRY(op_expect_dtype(self, "self", DTYPES_REAL | DTYPES_COMPLEX));
  const bool sums_to_int64 = dtype_class_of(self->dtype) < CLASS_FLOAT && !a->keeps_dtype;
  TRY(op_expect_dtype(out, "out", DTYPE_BIT(sums_to_int64 ? ACL_INT64 : self->dtype)));
  TRY(op_expect_rank(self, "self", 2, 2));
  TRY(op_expect_shape(out, "out", NULL, 0));
  const view matrix = view_of(self), result = view_of(out);
  const bool rows_are_fewer = self->dims[0] < self->dims[1];
  const view diagonal = {.rank = 1,
                         .dtype = self->dtype,
                         .dims = {self->dims[rows_are_fewer ? 0 : 1]},
                         .strides = {matrix.strides[0] + matrix.strides[1]}};
  reduce_plan_views(e, &(reduction_request){.kind = REDUCTION_SUM,
                                            .in = &diagonal,
                                            .is_reduced = (const bool[]){true},
                                            .out = {&result},
                                            .operand = {0, 1}});
  return ST_OK;
}

/* ---- order ------------------------------------------------------------------------------------------------------- */

status prepare_reduce_order(executor *e, const reduce_order_args *a) {
  static const reduction_kind kinds[] = {[REDUCE_ORDER_MAX] = REDUCTION_MAX,
                                         [REDUCE_ORDER_MIN] = REDUCTION_MIN,
                                         [REDUCE_ORDER_ANY] = REDUCTION_ANY,
                                         [REDUCE_ORDER_ALL] = REDUCTION_ALL,
                                         [REDUCE_ORDER_LOG_SUM_EXP] = REDUCTION_LOG_SUM_EXP};
  const tensor *self = a->self, *out = a->out;
  const reduction_kind kind = kinds[e->op->variant];
  bool is_reduced[MAX_RANK];
  TRY(op_expect_dtype(self, "self", DTYPES_REAL));
  if (kind == REDUCTION_ANY || kind == REDUCTION_ALL)
    TRY(op_expect_dtype(out, "out", DTYPE_BIT(ACL_BOOL) | DTYPE_BIT(ACL_UINT8)));
  else if (kind == REDUCTION_LOG_SUM_EXP)
    TRY(op_expect_dtype(out, "out", DTYPES_FLOAT));
  else
    TRY(reduce_expect_same_dtype(out, "out", self));
  TRY(expect_dims(a->dim, "dim", self->rank, false, is_reduced));
  return plan_one(e, kind, 0, self, out, is_reduced, a->keep_dim);
}

/* The maximum of all elements. */
status prepare_max_all(executor *e, const max_all_args *a) {
  const tensor *self = a->self, *out = a->out;
  bool is_reduced[MAX_RANK];
  TRY(op_expect_dtype(self, "self", DTYPES_REAL));
  TRY(op_expect_dtype(out, "out", DTYPES_REAL));
  TRY(expect_dims(NULL, NULL, self->rank, false, is_reduced));
  return plan_one(e, e->op->variant == MAX_ALL_MIN ? REDUCTION_MIN : REDUCTION_MAX, 0, self, out, is_reduced, false);
}

/* The index of the maximum. */
static status plan_arg_max(executor *e, const arg_max_args *a, bool is_min) {
  bool is_reduced[MAX_RANK];
  TRY(op_expect_dtype(a->self, "self", DTYPES_REAL));
  TRY(op_expect_dtype(a->out, "out", DTYPES_INDEX));
  TRY(expect_one_dim(a->dim, "dim", a->self->rank, is_reduced));
  return reduce_plan_reduction(e, &(reduce_call){.kind = is_min ? REDUCTION_ARG_MIN : REDUCTION_ARG_MAX,
                                                 .self = a->self,
                                                 .out = {NULL, a->out},
                                                 .operand = {0, 0, 1},
                                                 .name = {"", "out"},
                                                 .is_reduced = is_reduced,
                                                 .keep = a->keepdim});
}

status prepare_arg_max(executor *e, const arg_max_args *a) { return plan_arg_max(e, a, e->op->variant == ARG_MAX_MIN); }

/* ArgMaxV2 and ArgMin, called by operator name. */
status prepare_graph_arg_max(executor *e, const graph_arg_max_args *a) {
  EXPECT(a->dimension->size == 1, "dimension has %ju elements, expected 1", (uintmax_t)a->dimension->size);
  const arg_max_args args = {.self = a->x, .dim = a->dimension->value[0], .out = a->y};
  return plan_arg_max(e, &args, e->op->variant == GRAPH_ARG_MAX_MIN);
}

status prepare_max_dim(executor *e, const max_dim_args *a) {
  const tensor *self = a->self, *out = a->out, *indices = a->indices;
  bool is_reduced[MAX_RANK];
  TRY(op_expect_dtype(self, "self", DTYPES_REAL));
  TRY(reduce_expect_same_dtype(out, "out", self));
  TRY(op_expect_dtype(indices, "indices", DTYPES_INDEX));
  TRY(expect_one_dim(a->dim, "dim", self->rank, is_reduced));
  return reduce_plan_reduction(
      e, &(reduce_call){.kind = e->op->variant == MAX_DIM_MIN ? REDUCTION_ARG_MIN : REDUCTION_ARG_MAX,
                        .self = self,
                        .out = {out, indices},
                        .operand = {0, 1, 2},
                        .name = {"out", "indices"},
                        .is_reduced = is_reduced,
                        .keep = a->keepdim});
}

static status plan_min_max(executor *e, const tensor *self, const tensor *min, const tensor *max,
                           const bool *is_reduced, bool keep) {
  TRY(op_expect_dtype(self, "self", DTYPES_REAL));
  TRY(reduce_expect_same_dtype(min, "minOut", self));
  TRY(reduce_expect_same_dtype(max, "maxOut", self));
  return reduce_plan_reduction(e, &(reduce_call){.kind = REDUCTION_MIN_MAX,
                                                 .self = self,
                                                 .out = {min, max},
                                                 .operand = {0, 1, 2},
                                                 .name = {"minOut", "maxOut"},
                                                 .is_reduced = is_reduced,
                                                 .keep = keep});
}

status prepare_min_max(executor *e, const min_max_args *a) {
  bool is_reduced[MAX_RANK];
  TRY(expect_dims(a->dim, "dim", a->self->rank, false, is_reduced));
  return plan_min_max(e, a->self, a->min_out, a->max_out, is_reduced, a->keep_dim);
}

status prepare_min_max_dim(executor *e, const min_max_dim_args *a) {
  bool is_reduced[MAX_RANK];
  TRY(expect_one_dim(a->dim, "dim", a->self->rank, is_reduced));
  return plan_min_max(e, a->self, a->min_out, a->max_out, is_reduced, a->keep_dim);
}

status prepare_min_max_all(executor *e, const min_max_all_args *a) {
  bool is_reduced[MAX_RANK];
  TRY(expect_dims(NULL, NULL, a->self->rank, false, is_reduced));
  return plan_min_max(e, a->self, a->min_out, a->max_out, is_reduced, false);
}

/* ---- norms ------------------------------------------------------------------------------------------------------- */

/* The largest and smallest int32_t stand for the infinities, which are accepted as well. */
static double named_exponent(double p) { return p >= INT_MAX ? INFINITY : p <= INT_MIN ? -INFINITY : p; }

static reduction_kind norm_kind(double p) {
  return p == 0           ? REDUCTION_NORM_0
         : p == 1         ? REDUCTION_NORM_1
         : p == 2         ? REDUCTION_NORM_2
         : p == INFINITY  ? REDUCTION_MAX_ABS
         : p == -INFINITY ? REDUCTION_MIN_ABS
                          : REDUCTION_NORM_P;
}

static bool reduces_nothing(const tensor *self, const bool *is_reduced) {
  for (int d = 0; d < self->rank; ++d)
    if (is_reduced[d] && self->dims[d] == 0) return true;
  return false;
}

/* Plans a norm. Every norm of an empty row is 0. */
static status reduce_plan_norm(executor *e, const tensor *self, const scalar *p, const aclIntArray *dims, bool keep,
                               const tensor *out, const char *exponent_name, const char *dims_name) {
  bool is_reduced[MAX_RANK];
  const double exponent = named_exponent(scalar_real(p));
  TRY(op_expect_dtype(self, "self", DTYPES_FLOAT));
  TRY(op_expect_dtype(out, "out", DTYPES_FLOAT));
  EXPECT(exponent == exponent, "%s is NaN, expected a number", exponent_name);
  TRY(expect_dims(dims, dims_name, self->rank, false, is_reduced));
  const reduction_kind kind = reduces_nothing(self, is_reduced) ? REDUCTION_NORM_0 : norm_kind(exponent);
  return plan_one(e, kind, exponent, self, out, is_reduced, keep);
}

status prepare_norm(executor *e, const norm_args *a) {
  return reduce_plan_norm(e, a->self, a->p_scalar, a->dim, a->keepdim, a->out, "pScalar", "dim");
}

status prepare_vector_norm(executor *e, const vector_norm_args *a) {
  TRY(op_expect_dtype_argument(a->dtype, a->out));
  return reduce_plan_norm(e, a->self, a->ord, a->dims, a->keep_dims, a->out, "ord", "dims");
}

/* The value of which a norm is the root. */
status prepare_graph_power_sum(executor *e, const graph_power_sum_args *a) {
  const tensor *x = a->x, *y = a->y;
  const double p = named_exponent(a->p);
  const reduction_kind norm = norm_kind(p), kind = norm == REDUCTION_NORM_2   ? REDUCTION_SUM_SQUARE
                                                   : norm == REDUCTION_NORM_P ? REDUCTION_SUM_POWER
                                                                              : norm;
  bool is_reduced[MAX_RANK];
  TRY(op_expect_dtype(x, "x", DTYPES_FLOAT));
  TRY(op_expect_dtype(y, "y", DTYPES_FLOAT));
  EXPECT(p == p, "p is NaN, expected %s", "a number");
  TRY(expect_dims(a->axes, "axes", x->rank, false, is_reduced));
  return plan_one(e, kind, p, x, y, is_reduced, a->keepdim);
}

/* The root of that value, at least epsilon. */
status prepare_graph_power_root(executor *e, const graph_power_root_args *a) {
  const double p = named_exponent(a->p);
  elementwise_call c;
  EXPECT(p == p, "p is NaN, expected %s", "a number");
  TRY(op_expect_dtype(a->x, "x", DTYPES_FLOAT));
  elementwise_call_of(e->op, a->all, &c);
  c.parameter[0].number = p == 0 || isinf(p) ? 1 : 1 / p;
  return elementwise_prepare(e, EW_norm_root, &c);
}

/* ---- moments ----------------------------------------------------------------------------------------------------- */

static status plan_moments(executor *e, reduction_kind kind, const tensor *self, const aclIntArray *dim, bool keep,
                           int64_t correction, const tensor *out, const tensor *mean) {
  bool is_reduced[MAX_RANK];
  TRY(op_expect_dtype(self, "self", DTYPES_FLOAT));
  TRY(op_expect_dtype(out, "out", DTYPES_FLOAT));
  if (mean) TRY(op_expect_dtype(mean, "meanOut", DTYPES_FLOAT));
  TRY(expect_dims(dim, "dim", self->rank, false, is_reduced));
  return reduce_plan_reduction(e, &(reduce_call){.kind = kind,
                                                 .parameter = (double)correction,
                                                 .self = self,
                                                 .out = {out, mean},
                                                 .operand = {0, 1, 2},
                                                 .name = {"out", "meanOut"},
                                                 .is_reduced = is_reduced,
                                                 .keep = keep});
}

status prepare_variance_unbiased(executor *e, const variance_unbiased_args *a) {
  return plan_moments(e, REDUCTION_VARIANCE, a->self, a->dim, a->keepdim, a->unbiased, a->out, NULL);
}

status prepare_variance(executor *e, const variance_args *a) {
  return plan_moments(e, e->op->variant == VARIANCE_ROOT ? REDUCTION_STANDARD : REDUCTION_VARIANCE, a->self, a->dim,
                      a->keepdim, a->correction, a->out, NULL);
}

status prepare_variance_mean(executor *e, const variance_mean_args *a) {
  return plan_moments(e, e->op->variant == VARIANCE_MEAN_ROOT ? REDUCTION_STANDARD : REDUCTION_VARIANCE, a->self,
                      a->dim, a->keepdim, a->correction, a->var_out, a->mean_out);
}

/* ReduceStd called by operator name; without dim it is over all dimensions. */
status prepare_graph_std(executor *e, const graph_std_args *a) {
  return plan_moments(e, REDUCTION_STANDARD, a->x, a->dim->size ? a->dim : NULL, a->keepdim, a->unbiased, a->y1, a->y2);
}
