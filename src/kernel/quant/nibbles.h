/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of int4: two elements per byte, the first one in the low half, without gaps. A tensor of dtype
 * ACL_INT4 counts elements in its shape; one of ACL_INT32 counts words of eight elements, one of ACL_INT8 bytes of two.
 * Used by the quantisation operators and quantised GEMM. */
#ifndef CANNON_KERNEL_QUANT_NIBBLES_H
#define CANNON_KERNEL_QUANT_NIBBLES_H

#include "op/executor.h"

#define DTYPES_NIBBLES (DTYPE_BIT(ACL_INT4) | DTYPE_BIT(ACL_INT32))

/* Checks (phase one) that t, an operand with a dtype of DTYPES_NIBBLES or INT8, holds an int4 tensor of these dims
 * without gaps, and sets the operand's extent and offset in the executor in bytes. */
status nibbles_operand(executor *e, int operand, const tensor *t, const char *name, const int64_t *dims, int rank);

/* Conversion of n elements, an even number, to and from int8. Packing saturates. */
void nibbles_pack(void *to, const int8_t *from, int64_t n);
void nibbles_unpack(int8_t *to, const void *from, int64_t n);

#endif
