/* Tensors of int4: two elements to a byte, the low half first, without gaps. As ACL_INT4 a tensor counts elements, as
 * ACL_INT32 words of eight. */
#ifndef CANNON_KERNEL_QUANT_NIBBLES_H
#define CANNON_KERNEL_QUANT_NIBBLES_H

#include "op/executor.h"

#define DTYPES_NIBBLES (DTYPE_BIT(ACL_INT4) | DTYPE_BIT(ACL_INT32))

/* t, an operand of such a type, holds a tensor of these dims; its place in the executor becomes one of bytes. */
status nibbles_operand(executor *e, int operand, const tensor *t, const char *name, const int64_t *dims, int rank);

/* n elements, an even number; packing saturates. */
void nibbles_pack(void *to, const int8_t *from, int64_t n);
void nibbles_unpack(int8_t *to, const void *from, int64_t n);

#endif
