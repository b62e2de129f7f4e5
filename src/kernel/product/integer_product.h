#ifndef CANNON_KERNEL_PRODUCT_INTEGER_PRODUCT_H
#define CANNON_KERNEL_PRODUCT_INTEGER_PRODUCT_H

#include "kernel/product/product.h"

/* Plans a product of integers or truth values whose matrices, views and has_self are in *of, which may be the executor's
 * own plan: b is a vector, out and self are columns. The result wraps in `dtype` before it goes to out. */
void integer_product_plan(executor *e, const product_plan *of, int dtype, int64_t alpha, int64_t beta);

#endif
