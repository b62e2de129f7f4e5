/* SPDX-License-Identifier: Apache-2.0 */
/* Weights of int8 or int4, [K, N], that a GEMM dequantises while it reads them: (weight + offset) * scale. scale and
 * offset are per tensor, per column, or per column and group of rows. */
#ifndef CANNON_KERNEL_PRODUCT_QUANT_WEIGHT_H
#define CANNON_KERNEL_PRODUCT_QUANT_WEIGHT_H

#include "kernel/product/product.h"

/* Layout of scale or offset: strides in bytes from group to group and from column to column. */
typedef struct {
  int dtype;
  int64_t group_stride, col_stride;
} weight_parameters;

typedef struct {
  int64_t group, n_groups; /* rows of the weight in a group, and number of groups */
  weight_parameters scale, offset;
  bool has_offset, is_int4;
  int64_t row_stride, col_stride; /* strides of the weight in elements */
  int first_half;                 /* int4: whether the first element is the high half of its byte */
} weight_quant;

/* The context of a product_call whose plan has such a weight as its made_b, and whose b is the weight. */
typedef struct {
  weight_quant form;
  const char *scale, *offset; /* offset: NULL without has_offset */
} quant_weight;

/* The made_b of such a weight for a plan whose matrices are known. */
const made_factor *weight_quant_factor(const weight_quant *q, const product_plan *p);

/* The implementation on dot-product instructions (quant_weight_dots.c), and whether it takes the plan. */
bool quant_weight_dots_take(const product_plan *p, const weight_quant *q);
status quant_weight_dots(const product_part *part);

#endif
