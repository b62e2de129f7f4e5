#ifndef CANNON_KERNEL_PRODUCT_INTEGER_PRODUCT_H
#define CANNON_KERNEL_PRODUCT_INTEGER_PRODUCT_H

#include "kernel/product/product.h"

/* What A @ b wraps in, and what alpha times that and beta times self are computed, added and wrapped in: an integer type, a
 * float type, or BOOL, where a sum is whether some term is true. */
typedef struct {
  int product, sum;
} integer_steps;

/* Plans a product of integers or truth values whose matrices, views and has_self are in *of, which may be the executor's
 * own plan: b is a vector, out and self are columns. alpha and beta, which counts where has_self: NULL is 1. */
void integer_product_plan(executor *e, const product_plan *of, integer_steps steps, const scalar *alpha,
                          const scalar *beta);

#endif
