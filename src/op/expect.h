/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of an operator's arguments, for prepare functions. They fail with ST_OP_INVALID and a message that reads
 * "<argument> is <value>, expected <what>". `name` is the argument's name in CANN's interface. Thread-safe. */
#ifndef CANNON_OP_EXPECT_H
#define CANNON_OP_EXPECT_H

#include "base/status.h"
#include "tensor/tensor.h"

#define OP_FAIL(format, ...) fail(ST_OP_INVALID, format, ##__VA_ARGS__)

/* Checks that a pointer other than NULL is that of a live tensor, and that it has at most MAX_RANK dimensions. */
status op_expect_tensor(const tensor *t, const char *name);

/* Checks that an argument `dtype`, an aclDataType, is the result's. */
status op_expect_dtype_argument(int64_t dtype, const tensor *out);

/* Fails unless the condition holds. */
#define EXPECT(condition, format, ...)                                                                                 \
  do {                                                                                                                 \
    if (unlikely(!(condition))) return OP_FAIL(format, ##__VA_ARGS__);                                                 \
  } while (0)

/* Checks that the dtype is one of `allowed`, a set of bits (DTYPE_BIT(ACL_FLOAT) | ...). */
#define DTYPE_BIT(dtype) (UINT64_C(1) << (dtype))
status op_expect_dtype(const tensor *t, const char *name, uint64_t allowed);

/* Checks likewise, and that the tensor has one element. */
status op_expect_one(const tensor *t, const char *name, uint64_t allowed);
#define DTYPES_HALF        (DTYPE_BIT(ACL_FLOAT16) | DTYPE_BIT(ACL_BF16))
#define DTYPES_FLOAT_TO_32 (DTYPES_HALF | DTYPE_BIT(ACL_FLOAT))
#define DTYPES_FLOAT       (DTYPES_FLOAT_TO_32 | DTYPE_BIT(ACL_DOUBLE))
#define DTYPES_INTEGER                                                                                                 \
  (DTYPE_BIT(ACL_INT8) | DTYPE_BIT(ACL_INT16) | DTYPE_BIT(ACL_INT32) | DTYPE_BIT(ACL_INT64) | DTYPE_BIT(ACL_UINT8))
#define DTYPES_REAL (DTYPES_FLOAT | DTYPES_INTEGER | DTYPE_BIT(ACL_BOOL))
/* The complex types that CANN computes with; all complex types. */
#define DTYPES_COMPLEX     (DTYPE_BIT(ACL_COMPLEX64) | DTYPE_BIT(ACL_COMPLEX128))
#define DTYPES_COMPLEX_ANY (DTYPE_BIT(ACL_COMPLEX32) | DTYPES_COMPLEX)
/* All types whose elements are whole bytes, for operators that only copy them. */
#define DTYPES_NUMBER                                                                                                  \
  (DTYPES_REAL | DTYPE_BIT(ACL_UINT16) | DTYPE_BIT(ACL_UINT32) | DTYPE_BIT(ACL_UINT64) | DTYPES_COMPLEX_ANY)
#define DTYPES_INDEX (DTYPE_BIT(ACL_INT32) | DTYPE_BIT(ACL_INT64))

/* Checks that the tensor has exactly these dimensions; those of another tensor (or view); and that the dtype is that of
 * the other tensor, too. */
status op_expect_shape(const tensor *t, const char *name, const int64_t *dims, int rank);
#define op_expect_same_shape(t, name, other) op_expect_shape(t, name, (other)->dims, (other)->rank)
status op_expect_like(const tensor *t, const char *name, const tensor *other);

/* Checks the number of dimensions. most: MAX_RANK for "or more". */
status op_expect_rank(const tensor *t, const char *name, int least, int most);

/* Checks the number of elements of an array, or of members of a list. */
status op_expect_size(uint64_t size, const char *name, uint64_t expected);

/* A result of one element may have any shape with one element: if t and dims have one element each and different ranks,
 * *room becomes a copy of t with the shape dims, and is returned; else t is returned. */
const tensor *op_one_as(const tensor *t, const int64_t *dims, int rank, tensor *room);

/* Checks the number of a dimension of a tensor of this rank; a negative one counts from the end, and rank 0 counts as
 * 1. *dim: the number, 0 or more. */
status op_expect_dim(int64_t value, const char *name, int rank, int *dim);

#endif
