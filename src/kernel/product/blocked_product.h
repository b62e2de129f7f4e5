/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that are one GEMM of floats, and whose second factor may lie in FRACTAL_NZ (blocked_weight.h): their names
 * end in WeightNz. Called by prepare functions; thread-safe. */
#ifndef CANNON_KERNEL_PRODUCT_BLOCKED_PRODUCT_H
#define CANNON_KERNEL_PRODUCT_BLOCKED_PRODUCT_H

#include "op/executor.h"

/* In place of product_plan_finish, for an executor whose plan is a product_operator. weight: the tensor that is the
 * operand b. */
status blocked_product_finish(executor *e, const tensor *weight, const char *name);

#endif
