/* SPDX-License-Identifier: Apache-2.0 */
/* GroupedMatMulAllReduce: a product for each group, and the sums over the ranks of each result. splitItem says which of
 * x and y are one tensor with the rows of all groups, and groupList how many rows each group has. */
#include <string.h>

#include "kernel/families.h"
#include "op/fused_steps.h"

enum { MOST_GROUPS = 64, MOST_DIMS = 6, SPLITS_X = 1, SPLITS_Y = 2 };

/* A call while its steps are added. */
typedef struct {
  executor *e;
  const grouped_all_reduce_args *a;
  int64_t n_groups;
  int64_t ends[MOST_GROUPS]; /* of the groups' rows, where x is one tensor */
  int dtype;
} grouped_call;

static status grouped_check_list(const aclTensorList *list, const char *name, int64_t n) {
  EXPECT(list->size == (uint64_t)n, "%s has %ju tensors, expected %jd", name, (uintmax_t)list->size, (intmax_t)n);
  for (uint64_t i = 0; i < list->size; ++i)
    if (!list->value[i]) return fail(ST_OP_NULL, "%s[%ju] is NULL, expected a tensor", name, (uintmax_t)i);
  return ST_OK;
}

/* The page calls groupList a distribution of sizes, as which its numbers add up to the rows; those of GroupedMatmul's
 * list are ends. A list that is both is the same as either. */
static status grouped_set_ends(grouped_call *c, int64_t rows) {
  const aclIntArray *list = c->a->group_list;
  EXPECT(list && list->size == (uint64_t)c->n_groups,
         "groupListOptional has %ju numbers, expected %jd for splitItem %jd", (uintmax_t)(list ? list->size : 0),
         (intmax_t)c->n_groups, (intmax_t)c->a->split_item);
  bool grows = true;
  int64_t sum = 0;
  for (int64_t i = 0; i < c->n_groups; ++i) {
    const int64_t value = list->value[i];
    EXPECT(value >= 0 && value <= rows, "groupListOptional[%jd] is %jd, expected 0 to %jd", (intmax_t)i,
           (intmax_t)value, (intmax_t)rows);
    grows &= !i || value >= list->value[i - 1];
    sum += value;
  }
  const bool are_ends = grows && c->n_groups && list->value[c->n_groups - 1] == rows;
  EXPECT(are_ends || sum == rows, "groupListOptional ends at %jd and adds up to %jd, expected one of both to be %jd",
         (intmax_t)(c->n_groups ? list->value[c->n_groups - 1] : 0), (intmax_t)sum, (intmax_t)rows);
  sum = 0;
  for (int64_t i = 0; i < c->n_groups; ++i) {
    sum += list->value[i];
    c->ends[i] = are_ends ? list->value[i] : sum;
  }
  return ST_OK;
}

/* Some rows of a matrix. */
static tensor grouped_part(tensor t, int64_t first, int64_t n) {
  t.offset += first * t.strides[0];
  t.dims[0] = n;
  t.n = n * t.dims[1];
  return t;
}

/* A tensor of up to six dimensions as a matrix whose columns are the last dimension. */
static status grouped_matrix(const grouped_call *c, const tensor *t, const char *name, int operand, bool is_stack,
                             tensor *out) {
  TRY(op_expect_dtype(t, name, DTYPE_BIT(c->dtype)));
  TRY(op_expect_rank(t, name, 2, is_stack ? MOST_DIMS : 2));
  *out = fused_operand(t, operand);
  if (t->rank == 2) return ST_OK;
  EXPECT(t->contiguous, "%s has gaps or exchanged dimensions, expected a contiguous tensor", name);
  const int64_t cols = t->dims[t->rank - 1], dims[] = {cols ? t->n / cols : 0, cols};
  *out = fused_reshaped(out, dims, 2);
  return ST_OK;
}

/* Adds the product of group i; `first` is the group's first row in y, where that is one tensor. */
static status grouped_add_product(const grouped_call *c, int64_t i, int64_t *first) {
  const grouped_all_reduce_args *a = c->a;
  const bool splits_x = a->split_item & SPLITS_X, splits_y = a->split_item & SPLITS_Y;
  const int64_t ix = splits_x ? 0 : i, iy = splits_y ? 0 : i, begin = i ? c->ends[i - 1] : 0;
  tensor x, weight, bias, y;
  TRY(grouped_matrix(c, a->x->value[ix], "x", GROUPED_ALL_REDUCE_X + (int)ix, !a->split_item, &x));
  TRY(grouped_matrix(c, a->weight->value[i], "weight", a->view.weight + (int)i, false, &weight));
  TRY(grouped_matrix(c, a->y->value[iy], "y", a->view.y + (int)iy, !a->split_item, &y));
  EXPECT(a->y->value[iy]->contiguous, "y has gaps or exchanged dimensions, expected a contiguous tensor");
  if (splits_x) x = grouped_part(x, begin, c->ends[i] - begin);
  EXPECT(weight.dims[0] == x.dims[1], "weight[%jd] has shape %s, expected %jd rows, as many as x has columns",
         (intmax_t)i, SHAPE_OF(a->weight->value[i]), (intmax_t)x.dims[1]);
  const int64_t rows = x.dims[0], cols = weight.dims[1], left = y.dims[0] - *first;
  EXPECT(y.dims[1] == cols && (splits_y ? left >= rows : left == rows),
         "y[%jd] has shape %s, expected %jd columns and %jd rows%s", (intmax_t)iy, SHAPE_OF(a->y->value[iy]),
         (intmax_t)cols, (intmax_t)(*first + rows), splits_y ? " or more" : "");
  if (splits_y) {
    y = grouped_part(y, *first, rows);
    *first += rows;
  }
  const bool has_bias = a->bias && a->bias->size;
  if (has_bias) {
    const tensor *given = a->bias->value[i];
    TRY(op_expect_dtype(given, "bias", DTYPE_BIT(c->dtype == ACL_BF16 ? ACL_FLOAT : ACL_FLOAT16)));
    TRY(op_expect_shape(given, "bias", &cols, 1));
    bias = fused_operand(given, a->view.bias + (int)i);
  }
  return y.n ? fused_add_Matmul(c->e, &x, &weight, has_bias ? &bias : NULL, &y, false, false) : ST_OK;
}

status prepare_grouped_all_reduce(executor *e, const grouped_all_reduce_args *a) {
  grouped_call c = {.e = e, .a = a, .n_groups = (int64_t)a->weight->size};
  comm *group;
  TRY(fused_begin(e));
  EXPECT(c.n_groups >= 1 && c.n_groups <= MOST_GROUPS, "weight has %jd tensors, expected 1 to %d", (intmax_t)c.n_groups,
         MOST_GROUPS);
  EXPECT(a->split_item >= 0 && a->split_item <= (SPLITS_X | SPLITS_Y), "splitItem is %jd, expected 0 to 3",
         (intmax_t)a->split_item);
  TRY(grouped_check_list(a->x, "x", a->split_item & SPLITS_X ? 1 : c.n_groups));
  TRY(grouped_check_list(a->weight, "weight", c.n_groups));
  TRY(grouped_check_list(a->y, "y", a->split_item & SPLITS_Y ? 1 : c.n_groups));
  if (a->bias && a->bias->size) TRY(grouped_check_list(a->bias, "bias", c.n_groups));
  if (!a->reduce_op) return fail(ST_OP_NULL, "reduceOp is NULL, expected \"sum\"");
  EXPECT(!strcmp(a->reduce_op, "sum"), "reduceOp is \"%.64s\", expected \"sum\"", a->reduce_op);
  TRY(fused_group(e, a->group, "group", &group));
  TRY(op_expect_dtype(a->x->value[0], "x", DTYPES_HALF));
  c.dtype = a->x->value[0]->dtype;
  if (a->split_item & SPLITS_X) TRY(grouped_set_ends(&c, a->x->value[0]->dims[0]));
  int64_t first = 0;
  for (int64_t i = 0; i < c.n_groups; ++i) TRY(grouped_add_product(&c, i, &first));
  EXPECT(!(a->split_item & SPLITS_Y) || first == a->y->value[0]->dims[0], "y has %jd rows, expected %jd",
         (intmax_t)a->y->value[0]->dims[0], (intmax_t)first);
  for (uint64_t i = 0; i < a->y->size; ++i) {
    const tensor y = fused_operand(a->y->value[i], a->view.y + (int)i);
    TRY(fused_add_collective(e, group, COMM_ALL_REDUCE, &y, &y, y.n));
  }
  return ST_OK;
}
