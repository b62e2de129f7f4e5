/* SPDX-License-Identifier: Apache-2.0 */
/* Products of groups: GEMMs of the same kind, whose sizes along one axis are known when the operator runs. The groups
 * are ranges of rows of x, or of columns of x and rows of the weight, or matrices of their own. All are computed as one
 * parallel loop (product_run). Called by grouped_matmul.c and ffn.c; a grouped_product is not changed by runs. */
#ifndef CANNON_KERNEL_MOE_GROUPED_H
#define CANNON_KERNEL_MOE_GROUPED_H

#include "kernel/product/quant_weight.h"
#include "kernel/quant/scaled_sums.h"

/* Where the groups' parts of an argument are: `step` bytes apart in one operand, or in one operand each. */
typedef struct {
  int operand; /* the first one of a list; GROUPED_ABSENT: not given */
  bool listed;
  int64_t step;
} group_place;

enum { GROUPED_ABSENT = -1 };

typedef enum {
  GROUPED_PLAIN,   /* floats; the bias is the plan's self */
  GROUPED_WEIGHTS, /* floats and quantised weights; likewise */
  GROUPED_SUMS,    /* int8, whose int32 sums are scaled */
} grouped_kind;

/* How the product of a group is computed. The number of its rows, or its depth, is replaced by the group's. */
typedef struct {
  product_plan product;
  weight_quant weight;               /* GROUPED_WEIGHTS */
  column_values scale, offset, bias; /* GROUPED_SUMS */
} group_form;

typedef struct {
  grouped_kind kind;
  bool along_depth; /* groups are ranges of the depth, not of the rows */
  int64_t n_groups;
  int64_t n_forms; /* 1: all groups have one form */
  group_place x, weight, out, bias, scale, offset;
  int row_scale; /* GROUPED_SUMS: the operand of a float per row, or GROUPED_ABSENT */
  int64_t row_scale_step;
  elementwise_loop *activation; /* GROUPED_SUMS; NULL: none */
  compute_value activation_parameter;
  int64_t most_cols;                        /* of any group */
  uint64_t calls, plans, contexts, columns; /* in scratch */
} grouped_product;

typedef struct {
  int64_t begin, count; /* along the axis that is divided */
} group_range;

/* Completes the plan: asks for workspace and adds to the executor's cost. The products of the forms are those of all
 * rows, or of the whole depth, where there is one form. */
void grouped_plan(executor *e, grouped_product *p, const group_form *forms);

/* Computes the groups. view: the operands that the places name. range: of each group; begin counts only for arguments
 * that are not listed. */
status grouped_run(const grouped_product *p, const group_form *forms, void *const *view, const group_range *range,
                   void *scratch);

/* ---- group lists ------------------------------------------------------------------------------------------------- */

typedef enum { GROUPS_BY_END, GROUPS_BY_SIZE, GROUPS_BY_PAIR /* number of a group, and its size */ } group_list_form;

/* Sets the ranges of n groups from a list of n numbers or pairs; strides are in bytes. Fails with the code given unless
 * they lie in order within `total`. */
status grouped_ranges(group_list_form form, const char *list, int64_t stride, int64_t pair_stride, int64_t n,
                      int64_t total, const char *name, status code, group_range *range);

/* ---- preparation ------------------------------------------------------------------------------------------------- */

/* Describes a tensor of 2 or more dimensions as one matrix, whose rows are at equal distances. */
status grouped_rows(const tensor *t, const char *name, matrices *m);

/* A weight of any type, [K, N] or [groups, K, N]. */
typedef struct {
  int dtype; /* ACL_INT4 for words, too */
  int64_t n_groups, k, n;
  int64_t step;                   /* in bytes */
  int64_t row_stride, col_stride; /* in bytes; of int4 in elements */
  int first_half;                 /* of int4: whether the first one is the high half of its byte */
} group_weight;

/* Reads a weight; k: its expected depth, by which words of int4 tell how they are packed. Corrects the executor's
 * operand for int4. */
status grouped_weight(executor *e, int operand, const tensor *t, const char *name, int64_t k, group_weight *w);

/* Sets the form's B, and for quantised weights, which have these scales and offsets, the factor. */
void grouped_set_weight(const group_weight *w, group_form *f);

/* Reads values along columns: n, or where `one` is allowed 1; behind a dimension of n_groups if that is not 0. *step:
 * bytes from group to group. */
status grouped_columns(const tensor *t, const char *name, uint64_t dtypes, int64_t n_groups, int64_t n, bool one,
                       column_values *c, int64_t *step);

/* Reads the scales or offsets of a quantised weight, [n] or [parts, n], likewise behind n_groups. *parts: how many
 * ranges of the depth have values of their own. */
status grouped_parameters(const tensor *t, const char *name, uint64_t dtypes, int64_t n_groups, int64_t n,
                          weight_parameters *x, int64_t *parts, int64_t *step);

/* The loop of an activation by its number in GroupedMatmul; NULL: there is none of that number. */
elementwise_loop *grouped_activation(int64_t number, compute_value *parameter);

#endif
