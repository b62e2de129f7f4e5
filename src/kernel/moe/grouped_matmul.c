/* SPDX-License-Identifier: Apache-2.0 */
/* GroupedMatmul: products of matrices in groups, which lists of tensors or a list of the groups' sizes define. The data
 * types and shapes of the versions are those that CANN's documents name; versions differ only in arguments, and in
 * weights that may lie in FRACTAL_NZ. */
#include <stdlib.h>
#include <string.h>

#include "kernel/families.h"
#include "kernel/moe/grouped.h"
#include "kernel/product/blocked_weight.h"
#include "kernel/quant/nibbles.h"

#define DTYPES_WORDS (DTYPE_BIT(ACL_INT64) | DTYPE_BIT(ACL_UINT64))

enum { NOT_DIVIDED = -1, ROWS = 0, DEPTH = 2 }; /* groupType */

/* Results of a run: a grouped_product, and behind it in e->heap its forms, the ranges that phase one knows, and the
 * blocked weights. */
typedef struct {
  grouped_product product;
  group_form *forms;
  group_range *ranges; /* NULL: given by a tensor */
  int list_operand;
  group_list_form list_form;
  int64_t list_stride, list_pair_stride, total;
  uint64_t run_ranges;     /* in scratch */
  blocked_weight *blocked; /* of each tensor of weight; NULL: none may be blocked */
  uint64_t views;          /* in scratch, where weights may be blocked: the operands' addresses */
  int n_weights;
} grouped_plan_of_call;

/* A call while it is prepared. */
typedef struct {
  executor *e;
  const grouped_matmul_args *a;
  grouped_plan_of_call *plan;
  grouped_product *p;
  int64_t n, axis;
  bool x_listed, weight_listed, out_listed;
} grouped_call;

/* An optional list; one without tensors, or with one that has no element, counts as none. */
static const aclTensorList *given(const aclTensorList *list) {
  return list && list->size && !(list->size == 1 && list->value[0]->n == 0) ? list : NULL;
}

/* The operands, with weights that are not blocked. */
static void *const *plain_views(const executor *e, const grouped_plan_of_call *c, void *const *view, void *scratch) {
  if (!c->blocked) return view;
  void **const plain = (void **)(void *)((char *)scratch + c->views);
  const int first = c->product.weight.operand;
  memcpy(plain, view, (size_t)e->n_operands * sizeof *plain);
  for (int i = 0; i < c->n_weights; ++i)
    plain[first + i] = blocked_weight_read(&c->blocked[i], view[first + i], scratch);
  return plain;
}

static status run_grouped(const executor *e, void *const *given_view, void *scratch) {
  const grouped_plan_of_call *c = PLAN(e, grouped_plan_of_call);
  const grouped_product *p = &c->product;
  void *const *const view = plain_views(e, c, given_view, scratch);
  group_range *ranges = c->ranges;
  if (!ranges) {
    ranges = (group_range *)(void *)((char *)scratch + c->run_ranges);
    TRY(grouped_ranges(c->list_form, view[c->list_operand], c->list_stride, c->list_pair_stride, p->n_groups, c->total,
                       "groupListOptional", ST_DEVICE_EXCEPTION, ranges));
  }
  return grouped_run(p, c->forms, view, ranges, scratch);
}

/* ---- which groups there are -------------------------------------------------------------------------------------- */

static status expect_absent(const aclTensorList *list, const char *name) {
  EXPECT(!given(list), "%s is given, expected NULL", name);
  return ST_OK;
}

/* Finds the axis, the number of groups, and which arguments have a tensor for each group. */
static status find_groups(grouped_call *c) {
  const grouped_matmul_args *a = c->a;
  const int64_t n_x = (int64_t)a->x->size, n_w = (int64_t)a->weight->size, n_y = (int64_t)a->out->size;
  EXPECT(n_x && n_w && n_y, "x, weight and %s have %jd, %jd and %jd tensors, expected 1 or more", a->name.out,
         (intmax_t)n_x, (intmax_t)n_w, (intmax_t)n_y);
  const tensor *w = a->weight->value[0], *y = a->out->value[0];
  const bool stacked = n_w == 1 && w->rank == 3;
  const bool has_list = a->group_list_ints || a->group_list_tensor;
  c->axis = c->e->op->variant != GROUPED_MATMUL_V1         ? a->group_type
            : n_x == 1 && (has_list || stacked || n_w > 1) ? ROWS
                                                           : NOT_DIVIDED;
  EXPECT(c->axis == NOT_DIVIDED || c->axis == ROWS || c->axis == DEPTH, "groupType is %jd, expected -1, 0 or 2",
         (intmax_t)c->axis);
  EXPECT(a->split_item >= 0 && a->split_item <= 3, "splitItem is %jd, expected 0 to 3", (intmax_t)a->split_item);
  c->weight_listed = !stacked && !(c->axis == DEPTH && n_w == 1 && n_y == 1);
  c->n = c->weight_listed ? n_w : stacked ? w->dims[0] : y->rank == 3 ? y->dims[0] : 1;
  c->x_listed = c->axis == NOT_DIVIDED || (c->axis == ROWS && n_x > 1);
  c->out_listed = a->split_item < 2;
  EXPECT(n_x == (c->x_listed ? c->n : 1), "x has %jd tensors, expected %jd for %jd groups", (intmax_t)n_x,
         (intmax_t)(c->x_listed ? c->n : 1), (intmax_t)c->n);
  EXPECT(n_y == (c->out_listed ? c->n : 1), "%s has %jd tensors, expected %jd for %jd groups with splitItem %jd",
         a->name.out, (intmax_t)n_y, (intmax_t)(c->out_listed ? c->n : 1), (intmax_t)c->n, (intmax_t)a->split_item);
  EXPECT(c->n > 0, "weight has %jd groups, expected 1 or more", (intmax_t)c->n);
  EXPECT(c->axis != NOT_DIVIDED || !has_list || c->e->op->variant == GROUPED_MATMUL_V1,
         "groupListOptional is given, expected NULL with groupType %d", NOT_DIVIDED);
  EXPECT(c->axis != NOT_DIVIDED || c->out_listed || c->e->op->variant == GROUPED_MATMUL_V1,
         "splitItem is %jd, expected 0 or 1 with groupType %d", (intmax_t)a->split_item, NOT_DIVIDED);
  EXPECT(c->axis != DEPTH || c->weight_listed == c->out_listed,
         "weight has %jd tensors and %s %jd, expected as many with groupType 2", (intmax_t)n_w, a->name.out,
         (intmax_t)n_y);
  return ST_OK;
}

static status find_kind(grouped_call *c) {
  const int x = c->a->x->value[0]->dtype, w = c->a->weight->value[0]->dtype;
  const uint64_t quantised = DTYPE_BIT(ACL_INT8) | DTYPE_BIT(ACL_INT4) | DTYPE_BIT(ACL_INT32);
  TRY(op_expect_dtype(c->a->x->value[0], "x",
                      DTYPE_BIT(ACL_FLOAT) | DTYPES_HALF | DTYPE_BIT(ACL_INT8) | DTYPES_NIBBLES));
  TRY(op_expect_dtype(c->a->weight->value[0], "weight",
                      x == ACL_INT8             ? quantised
                      : DTYPES_NIBBLES >> x & 1 ? DTYPES_NIBBLES
                                                : DTYPE_BIT(x) | (x == ACL_FLOAT ? 0 : quantised)));
  c->p->kind = x == ACL_INT8 && w == ACL_INT8             ? GROUPED_SUMS
               : x == ACL_INT8 || DTYPES_NIBBLES >> x & 1 ? GROUPED_NIBBLES
               : w == x                                   ? GROUPED_PLAIN
                                                          : GROUPED_WEIGHTS;
  EXPECT(c->p->kind != GROUPED_NIBBLES || (!c->x_listed && !c->weight_listed && !c->out_listed),
         "x has %ju tensors and weight %ju, expected one of three dimensions where weight is INT4",
         (uintmax_t)c->a->x->size, (uintmax_t)c->a->weight->size);
  EXPECT(c->axis != DEPTH || c->p->kind == GROUPED_PLAIN, "weight has dtype %s, expected x's with groupType 2",
         dtype_name(w));
  return ST_OK;
}

/* ---- ranges of the groups ---------------------------------------------------------------------------------------- */

static status list_by_values(grouped_call *c, const aclIntArray *list, group_range *ranges) {
  EXPECT((int64_t)list->size == c->n, "groupListOptional has %ju numbers, expected %jd, one for each group",
         (uintmax_t)list->size, (intmax_t)c->n);
  TRY(grouped_ranges(GROUPS_BY_END, (const char *)list->value, sizeof(int64_t), 0, c->n, c->plan->total,
                     "groupListOptional", ST_OP_INVALID, ranges));
  c->plan->ranges = ranges;
  return ST_OK;
}

static status list_by_tensor(grouped_call *c, const tensor *list) {
  static const group_list_form form_of[] = {GROUPS_BY_END, GROUPS_BY_SIZE, GROUPS_BY_PAIR};
  const int64_t type = c->a->group_list_type;
  const int64_t dims[] = {c->n, 2};
  EXPECT(type >= 0 && type <= 2, "groupListType is %jd, expected 0, 1 or 2", (intmax_t)type);
  TRY(op_expect_dtype(list, "groupListOptional", DTYPE_BIT(ACL_INT64)));
  TRY(op_expect_shape(list, "groupListOptional", dims, type == 2 ? 2 : 1));
  const view v = view_of(list);
  c->plan->list_form = form_of[type];
  c->plan->list_operand = c->a->view.group_list_tensor;
  c->plan->list_stride = v.strides[0];
  c->plan->list_pair_stride = type == 2 ? v.strides[1] : 0;
  c->plan->run_ranges = workspace_intermediate(c->e, (uint64_t)c->n * sizeof(group_range));
  return ST_OK;
}

/* Sets the ranges where shapes, or a list of values, tell them. */
static status find_ranges(grouped_call *c, group_range *ranges) {
  const grouped_matmul_args *a = c->a;
  const tensor *x = a->x->value[0];
  matrices m;
  TRY(grouped_rows(x, "x", &m));
  c->plan->total = c->axis == DEPTH ? m.cols : m.rows;
  const bool by_shape = c->x_listed || c->out_listed;
  if (!by_shape && a->group_list_ints) return list_by_values(c, a->group_list_ints, ranges);
  if (!by_shape && a->group_list_tensor) return list_by_tensor(c, a->group_list_tensor);
  EXPECT(by_shape || c->n == 1, "groupListOptional is NULL, expected the ends of %jd groups", (intmax_t)c->n);
  c->plan->ranges = ranges;
  int64_t begin = 0;
  for (int64_t g = 0; g < c->n; ++g) {
    int64_t count = c->plan->total;
    if (c->axis == DEPTH && c->weight_listed)
      count = a->weight->value[g]->rank == 2 ? a->weight->value[g]->dims[0] : 0;
    else if (by_shape) {
      TRY(grouped_rows(c->x_listed ? a->x->value[g] : a->out->value[g], c->x_listed ? "x" : a->name.out, &m));
      count = m.rows;
    }
    ranges[g] = (group_range){begin, count};
    begin += count;
    EXPECT(!a->group_list_ints || !by_shape ||
               (a->group_list_ints->size == (uint64_t)c->n && a->group_list_ints->value[g] == begin),
           "groupListOptional differs from the shapes of %s, expected %jd at index %jd",
           c->x_listed ? "x" : a->name.out, (intmax_t)begin, (intmax_t)g);
  }
  EXPECT(c->x_listed || begin <= c->plan->total, "the groups need %jd of %s, expected %jd, those of x, or less",
         (intmax_t)begin, c->axis == DEPTH ? "the depth" : "rows", (intmax_t)c->plan->total);
  if (c->x_listed) c->plan->total = begin;
  return ST_OK;
}

/* ---- values along columns ---------------------------------------------------------------------------------------- */

/* The tensor of an argument for a group, and the number of groups in its first dimension. */
static status argument_of(grouped_call *c, const aclTensorList *list, const char *name, int64_t g, const tensor **t,
                          int64_t *n_groups) {
  EXPECT(list->size == c->a->weight->size, "%s has %ju tensors, expected %ju, as weight", name, (uintmax_t)list->size,
         (uintmax_t)c->a->weight->size);
  *t = list->value[c->weight_listed ? g : 0];
  *n_groups = c->weight_listed ? 0 : c->n;
  return ST_OK;
}

static status read_columns(grouped_call *c, const aclTensorList *list, const char *name, int operand, uint64_t dtypes,
                           bool one, int64_t g, int64_t n, column_values *values, group_place *place) {
  const tensor *t;
  int64_t n_groups, step;
  values->dtype = COLUMN_VALUES_ABSENT;
  if (!given(list)) return ST_OK;
  TRY(argument_of(c, list, name, g, &t, &n_groups));
  TRY(grouped_columns(t, name, dtypes, n_groups, n, one, values, &step));
  *place = (group_place){operand, c->weight_listed, step};
  return ST_OK;
}

/* x of int8 or int4, whose weights are int4, with the scales of both. The bias of int8 makes up for the 8 that its
 * products lack. */
static status read_nibbles(grouped_call *c, int64_t n, int64_t k, group_form *f) {
  const grouped_matmul_args *a = c->a;
  const tensor *x = a->x->value[0], *t;
  const bool is_int8 = x->dtype == ACL_INT8;
  const int64_t dims[] = {x->dims[0], k};
  const uint64_t words = DTYPE_BIT(ACL_UINT64) | DTYPE_BIT(ACL_INT64);
  int64_t n_groups, step;
  TRY(expect_absent(a->offset, "offsetOptional"));
  EXPECT(given(a->scale), "scaleOptional is NULL, expected the scales of weight");
  TRY(argument_of(c, a->scale, "scaleOptional", 0, &t, &n_groups));
  TRY(grouped_parameters(t, "scaleOptional", words, n_groups, n, &c->p->words, &f->weight.n_groups, &step));
  c->p->scale = (group_place){a->view.scale, false, step};
  EXPECT(f->weight.n_groups > 0 && k % f->weight.n_groups == 0,
         "scaleOptional has %jd parts of the depth, expected a number that divides %jd", (intmax_t)f->weight.n_groups,
         (intmax_t)k);
  f->weight.group = k / f->weight.n_groups;
  const int64_t size = sizeof(float);
  f->weight.scale = (weight_parameters){.dtype = ACL_FLOAT, .group_stride = n * size, .col_stride = size};
  EXPECT(is_int8 == (given(a->bias) != NULL), "biasOptional is %s, expected %s where x is %s",
         given(a->bias) ? "given" : "NULL", is_int8 ? "8 * weight * scale, summed" : "NULL", dtype_name(x->dtype));
  TRY(read_columns(c, a->bias, "biasOptional", a->view.bias, DTYPE_BIT(ACL_FLOAT), false, 0, n, &f->bias, &c->p->bias));
  EXPECT(!is_int8 || given(a->per_token_scale), "perTokenScaleOptional is NULL, expected the scales of x");
  c->p->x_given = f->product.a;
  if (!is_int8) {
    TRY(nibbles_operand(c->e, GROUPED_MATMUL_X, x, "x", dims, 2));
    EXPECT(k % 2 == 0, "x has %jd columns, expected an even number of INT4", (intmax_t)k);
    c->p->x_given.dtype = ACL_INT4;
  }
  c->p->x_given.cols = k;
  f->product.a =
      (matrices){.dtype = ACL_FLOAT, .rows = c->p->x_given.rows, .cols = k, .row_stride = k * size, .col_stride = size};
  f->product.finish = grouped_finish_nibbles;
  return ST_OK;
}

/* The bias of floats, which is the plan's self. */
static status read_bias(grouped_call *c, int64_t g, group_form *f) {
  const grouped_matmul_args *a = c->a;
  product_plan *p = &f->product;
  column_values bias;
  EXPECT(c->axis != DEPTH || !given(a->bias), "biasOptional is given, expected NULL with groupType 2");
  TRY(read_columns(c, a->bias, "biasOptional", a->view.bias, DTYPES_HALF | DTYPE_BIT(ACL_FLOAT), false, g, p->b.cols,
                   &bias, &c->p->bias));
  if (bias.dtype == COLUMN_VALUES_ABSENT) return ST_OK;
  p->has_self = true;
  p->beta = 1;
  p->self = (matrices){.dtype = bias.dtype, .rows = p->a.rows, .cols = p->b.cols, .col_stride = bias.step};
  return ST_OK;
}

static status read_parameters(grouped_call *c, int64_t g, int64_t n, int64_t k, group_form *f) {
  const grouped_matmul_args *a = c->a;
  const uint64_t dtypes = DTYPE_BIT(a->x->value[0]->dtype);
  const tensor *t;
  int64_t n_groups, step, parts;
  weight_quant *q = &f->weight;
  EXPECT(given(a->antiquant_scale), "antiquantScaleOptional is NULL, expected the scales of weight");
  TRY(argument_of(c, a->antiquant_scale, "antiquantScaleOptional", g, &t, &n_groups));
  TRY(grouped_parameters(t, "antiquantScaleOptional", dtypes, n_groups, n, &q->scale, &q->n_groups, &step));
  c->p->scale = (group_place){a->view.antiquant_scale, c->weight_listed, step};
  EXPECT(q->n_groups > 0 && k % q->n_groups == 0,
         "antiquantScaleOptional has %jd parts of the depth, expected a number that divides %jd", (intmax_t)q->n_groups,
         (intmax_t)k);
  q->group = k / q->n_groups;
  q->has_offset = given(a->antiquant_offset) != NULL;
  if (!q->has_offset) return ST_OK;
  TRY(argument_of(c, a->antiquant_offset, "antiquantOffsetOptional", g, &t, &n_groups));
  TRY(grouped_parameters(t, "antiquantOffsetOptional", dtypes, n_groups, n, &q->offset, &parts, &step));
  c->p->offset = (group_place){a->view.antiquant_offset, c->weight_listed, step};
  EXPECT(parts == q->n_groups,
         "antiquantOffsetOptional has %jd parts of the depth, expected antiquantScaleOptional's %jd", (intmax_t)parts,
         (intmax_t)q->n_groups);
  return ST_OK;
}

static status read_row_scale(grouped_call *c) {
  const aclTensorList *list = given(c->a->per_token_scale);
  if (!list) return ST_OK;
  EXPECT(list->size == 1 && !c->x_listed, "perTokenScaleOptional has %ju tensors, expected 1 for 1 of x",
         (uintmax_t)list->size);
  const tensor *t = list->value[0];
  TRY(op_expect_dtype(t, "perTokenScaleOptional", DTYPE_BIT(ACL_FLOAT)));
  const view v = view_of(t);
  const bool fits = (v.rank == 1 || (v.rank == 2 && v.dims[1] == 1)) && v.dims[0] == c->plan->total;
  EXPECT(fits, "perTokenScaleOptional has shape %s, expected [%jd]", SHAPE_OF(t), (intmax_t)c->plan->total);
  c->p->row_scale = c->a->view.per_token_scale;
  c->p->row_scale_step = v.strides[0];
  return ST_OK;
}

/* The scales of sums of int8. */
static status read_scales(grouped_call *c, int64_t g, int64_t n, int out, group_form *f) {
  const grouped_matmul_args *a = c->a;
  const uint64_t numbers = DTYPE_BIT(ACL_FLOAT) | DTYPE_BIT(ACL_BF16);
  column_values offset;
  TRY(read_columns(c, a->scale, "scaleOptional", a->view.scale, DTYPES_WORDS | numbers, true, g, n, &f->scale,
                   &c->p->scale));
  const int scale = f->scale.dtype;
  const bool words = scale == ACL_INT64 || scale == ACL_UINT64;
  EXPECT(out == ACL_INT32 || scale != COLUMN_VALUES_ABSENT, "scaleOptional is NULL, expected the scales of weight");
  EXPECT(out != ACL_INT8 || words, "scaleOptional has dtype %s, expected UINT64 where %s is INT8", dtype_name(scale),
         a->name.out);
  TRY(read_columns(c, a->offset, "offsetOptional", a->view.offset, DTYPE_BIT(ACL_FLOAT), true, g, n, &offset,
                   &c->p->offset));
  EXPECT(offset.dtype == COLUMN_VALUES_ABSENT || out == ACL_INT8,
         "offsetOptional is given, expected NULL where %s is %s", a->name.out, dtype_name(out));
  f->offset = offset.dtype == COLUMN_VALUES_ABSENT && out == ACL_INT8 ? f->scale : offset;
  TRY(read_columns(c, a->bias, "biasOptional", a->view.bias, DTYPE_BIT(ACL_INT32) | DTYPES_HALF | DTYPE_BIT(ACL_FLOAT),
                   false, g, n, &f->bias, &c->p->bias));
  EXPECT(f->bias.dtype == COLUMN_VALUES_ABSENT || f->bias.dtype == ACL_INT32 || (!words && out != ACL_INT32),
         "biasOptional has dtype %s, expected INT32", dtype_name(f->bias.dtype));
  EXPECT(!given(a->per_token_scale) || (!words && (out == ACL_FLOAT16 || out == ACL_BF16)),
         "perTokenScaleOptional is given, expected NULL beside scales of words, or where %s is %s", a->name.out,
         dtype_name(out));
  return ST_OK;
}

/* ---- forms ------------------------------------------------------------------------------------------------------- */

/* The dtypes of results. */
static uint64_t out_types(const grouped_call *c) {
  const int x = c->a->x->value[0]->dtype;
  if (c->p->kind == GROUPED_NIBBLES) return DTYPES_HALF;
  return x == ACL_INT8 ? DTYPES_HALF | DTYPE_BIT(ACL_INT8) | DTYPE_BIT(ACL_INT32) : DTYPE_BIT(x);
}

/* Sets A and out. */
static status set_matrices(grouped_call *c, int64_t g, int64_t n, product_plan *p) {
  const grouped_matmul_args *a = c->a;
  const tensor *x = a->x->value[c->x_listed ? g : 0], *y = a->out->value[c->out_listed ? g : 0];
  TRY(op_expect_dtype(y, a->name.out, out_types(c)));
  const bool stack = c->axis == DEPTH && !c->out_listed;
  EXPECT(!stack || (y->rank == 3 && y->dims[0] == c->n), "%s has shape %s, expected [%jd, rows of x, %jd]", a->name.out,
         SHAPE_OF(y), (intmax_t)c->n, (intmax_t)n);
  tensor one = *y;
  if (stack) {
    one.rank = 2;
    for (int d = 0; d < 2; ++d) one.dims[d] = y->dims[d + 1], one.strides[d] = y->strides[d + 1];
    one.n = one.dims[0] * one.dims[1];
    c->p->out.step = view_of(y).strides[0];
  }
  TRY(grouped_rows(&one, a->name.out, &p->out));
  TRY(grouped_rows(x, "x", &p->a));
  int64_t dims[MAX_RANK];
  const int rank = c->x_listed && c->out_listed ? x->rank : 2;
  for (int d = 0; d < rank - 1; ++d) dims[d] = rank == x->rank ? x->dims[d] : p->a.rows;
  if (c->axis == ROWS && !c->x_listed && c->out_listed) dims[0] = one.dims[0]; /* the range is the shape's */
  if (c->axis != DEPTH && !c->out_listed) dims[0] = c->plan->total;
  dims[rank - 1] = n;
  return op_expect_shape(&one, a->name.out, dims, rank);
}

static status expect_unquantised(const grouped_call *c) {
  const grouped_matmul_args *a = c->a;
  const bool sums = c->p->kind == GROUPED_SUMS, weights = c->p->kind == GROUPED_WEIGHTS;
  EXPECT(sums || a->act_type == 0, "actType is %jd, expected 0 where x and weight are not INT8", (intmax_t)a->act_type);
  if (!sums && c->p->kind != GROUPED_NIBBLES) {
    TRY(expect_absent(a->scale, "scaleOptional"));
    TRY(expect_absent(a->offset, "offsetOptional"));
    TRY(expect_absent(a->per_token_scale, "perTokenScaleOptional"));
  }
  if (!weights) {
    TRY(expect_absent(a->antiquant_scale, "antiquantScaleOptional"));
    TRY(expect_absent(a->antiquant_offset, "antiquantOffsetOptional"));
  }
  TRY(expect_absent(a->activation_input, "activationInputOptional"));
  TRY(expect_absent(a->activation_quant_scale, "activationQuantScaleOptional"));
  TRY(expect_absent(a->activation_quant_offset, "activationQuantOffsetOptional"));
  TRY(expect_absent(a->activation_feature_out, "activationFeatureOutOptional"));
  return expect_absent(a->dyn_quant_scale_out, "dynQuantScaleOutOptional");
}

static status set_form(grouped_call *c, int64_t g, group_form *f) {
  const grouped_matmul_args *a = c->a;
  const tensor *x = a->x->value[c->x_listed ? g : 0], *w = a->weight->value[c->weight_listed ? g : 0];
  group_weight weight;
  *f = (group_form){.product = {.alpha = 1}};
  EXPECT(x->dtype == a->x->value[0]->dtype && w->dtype == a->weight->value[0]->dtype,
         "x[%jd] has dtype %s and weight[%jd] %s, expected those of the first tensors", (intmax_t)(c->x_listed ? g : 0),
         dtype_name(x->dtype), (intmax_t)(c->weight_listed ? g : 0), dtype_name(w->dtype));
  EXPECT(x->rank >= 2 && (x->rank == 2 || (c->x_listed && c->out_listed)), "x has %d dimensions, expected 2", x->rank);
  EXPECT(w->rank == 2 || !c->weight_listed, "weight has %d dimensions, expected 2", w->rank);
  const int64_t k =
      c->axis == DEPTH && c->weight_listed ? w->dims[0] : x->dims[x->rank - 1] * (x->dtype == ACL_INT32 ? 8 : 1);
  TRY(grouped_weight(c->e, a->view.weight + (int)(c->weight_listed ? g : 0), w, "weight", k, &weight));
  c->p->weight.step = weight.step;
  TRY(set_matrices(c, g, weight.n, &f->product));
  f->product.a.cols = k;
  if (c->axis == ROWS && !c->x_listed && c->out_listed) f->product.a.rows = f->product.out.rows;
  const int out = f->product.out.dtype;
  if (c->p->kind == GROUPED_SUMS) {
    f->product.finish = scaled_sums_finish;
    TRY(read_scales(c, g, weight.n, out, f));
    EXPECT(a->act_type == 0 || out == ACL_FLOAT16 || out == ACL_BF16, "actType is %jd, expected 0 where %s is %s",
           (intmax_t)a->act_type, a->name.out, dtype_name(out));
  }
  if (c->p->kind == GROUPED_WEIGHTS) TRY(read_parameters(c, g, weight.n, k, f));
  if (c->p->kind == GROUPED_NIBBLES) TRY(read_nibbles(c, weight.n, k, f));
  grouped_set_weight(&weight, f);
  if (c->p->kind == GROUPED_PLAIN || c->p->kind == GROUPED_WEIGHTS) TRY(read_bias(c, g, f));
  return ST_OK;
}

/* Plans plain copies of the weights that lie in FRACTAL_NZ. */
static status plan_blocked(grouped_call *c, blocked_weight *blocked) {
  const aclTensorList *list = c->a->weight;
  EXPECT(c->a->quant_group_size >= 0, "quantGroupSize is %jd, expected 0 or more", (intmax_t)c->a->quant_group_size);
  c->plan->blocked = blocked;
  c->plan->n_weights = (int)list->size;
  c->plan->views = workspace_intermediate(c->e, (uint64_t)c->e->n_operands * sizeof(void *));
  for (uint64_t i = 0; i < list->size; ++i)
    TRY(blocked_weight_plan(c->e, c->a->view.weight + (int)i, list->value[i], "weight", &blocked[i]));
  return ST_OK;
}

status prepare_grouped_matmul(executor *e, const grouped_matmul_args *a) {
  const bool may_be_blocked = e->op->variant == GROUPED_MATMUL_NZ;
  grouped_plan_of_call *plan = PLAN(e, grouped_plan_of_call);
  *plan = (grouped_plan_of_call){0};
  grouped_product *p = &plan->product;
  grouped_call c = {.e = e, .a = a, .plan = plan, .p = p};
  TRY(find_groups(&c));
  TRY(find_kind(&c));
  p->along_depth = c.axis == DEPTH;
  p->n_groups = c.n;
  p->n_forms = c.x_listed || c.weight_listed || c.out_listed ? c.n : 1;
  p->x = (group_place){GROUPED_MATMUL_X, c.x_listed, 0};
  p->weight = (group_place){a->view.weight, c.weight_listed, 0};
  p->out = (group_place){a->view.out, c.out_listed, 0};
  p->bias = p->scale = p->offset = (group_place){.operand = GROUPED_ABSENT};
  p->row_scale = GROUPED_ABSENT;
  TRY(expect_unquantised(&c));
  EXPECT(a->act_type == 0 || (p->activation = grouped_activation(a->act_type, &p->activation_parameter)),
         "actType is %jd, expected 0, 1, 2, 4 or 5", (intmax_t)a->act_type);
  const size_t n_blocked = may_be_blocked ? a->weight->size : 0;
  HEAP_PLAN(group_form, forms, e,
            (size_t)p->n_forms * sizeof *forms + (size_t)c.n * sizeof(group_range) +
                n_blocked * sizeof(blocked_weight));
  group_range *const ranges = (group_range *)(void *)(forms + p->n_forms);
  plan->forms = forms;
  TRY(find_ranges(&c, ranges));
  TRY(read_row_scale(&c));
  for (int64_t g = 0; g < p->n_forms; ++g) TRY(set_form(&c, g, &plan->forms[g]));
  if (may_be_blocked) TRY(plan_blocked(&c, (blocked_weight *)(void *)(ranges + c.n)));
  grouped_plan(e, p, plan->forms);
  e->run = run_grouped;
  return ST_OK;
}
