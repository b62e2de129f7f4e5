/* SPDX-License-Identifier: Apache-2.0 */
/* Products of integers and booleans, with wrap-around. Called while operators are prepared. */
#ifndef CANNON_KERNEL_PRODUCT_INTEGER_PRODUCT_H
#define CANNON_KERNEL_PRODUCT_INTEGER_PRODUCT_H

#include "kernel/product/product.h"

/* dtypes of the two steps of an integer matrix-vector product. `product` is the type that A @ b wraps in. `sum` is the
 * type in which alpha times that and beta times self are computed, added and wrapped: an integer type, a float type, or
 * BOOL, where a sum is the logical OR of its terms. */
typedef struct {
  int product, sum;
} integer_steps;

/* Plans out = alpha * (A @ b) + beta * self for integers or booleans. The matrices, operands and has_self are taken
 * from the executor's plan, a product_operator, which is overwritten: b is a vector, and out and self are columns. A
 * NULL alpha or beta counts as 1; beta is ignored without has_self. */
void integer_product_plan(executor *e, integer_steps steps, const scalar *alpha, const scalar *beta);

/* Plans out = A @ B for stacks of int32 matrices (graph_products.c), from the executor's plan, a product_operator,
 * which is kept. */
void integer_matrices_plan(executor *e);

#endif
