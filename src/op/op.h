/* Operators: the table's entries, and the two phases.
 *
 *   phase one   op_prepare: null checks by the schema, then the operator's own prepare function, which checks dtypes
 *               and shapes, chooses a kernel and says how much workspace that needs. The result is an executor.
 *   phase two   op_launch: takes addresses and scratch, translates them, queues a task. The executor owns all that the
 *               task needs; the caller may destroy its tensors.
 *
 * Schemas are in ops/(name).ops; scripts/gen_ops.py makes of each line an entry here, CANN's header and the two entry
 * points. Any thread; the two phases may run on different ones. */
#ifndef CANNON_OP_OP_H
#define CANNON_OP_OP_H

#include "base/status.h"
#include "tensor/tensor.h"
#include "trace/stats.h"

typedef struct aclOpExecutor executor;

typedef enum {
  ARG_TENSOR,
  ARG_TENSOR_LIST,
  ARG_SCALAR,
  ARG_SCALAR_LIST,
  ARG_INT_ARRAY,
  ARG_BOOL_ARRAY,
  ARG_FLOAT_ARRAY,
  ARG_INT,   /* any integer type, and aclDataType */
  ARG_FLOAT, /* float, double */
  ARG_BOOL,
  ARG_STRING,
  ARG_ANY, /* an attribute that does not matter (aclop.h) */
} arg_kind;

enum {
  ARG_READ = 1,
  ARG_WRITTEN = 2,
  ARG_OPTIONAL = 4,
  ARG_ATTRIBUTE = 8,
  ARG_STORED = 16 /* the last two: aclop.h's */
};

typedef struct {
  const char *name;
  uint8_t kind, flags;
} arg_schema;

typedef union {
  const tensor *tensor;
  const aclTensorList *tensors;
  const scalar *scalar;
  const aclScalarList *scalars;
  const aclIntArray *ints;
  const aclBoolArray *bools;
  const aclFloatArray *floats;
  int64_t integer;
  double real;
  bool boolean;
  const char *string;
  const void *pointer;
} op_arg;

typedef struct op {
  const char *name;     /* without "aclnn" */
  const char *function; /* what it is called by: phase two's function, or its name (aclop.h) */
  const arg_schema *schema;
  uint8_t n_args;
  int variant; /* what the schema line gives the prepare function: op_variant below */
  status (*prepare)(executor *e, const op_arg *a);
  stats_op *_Atomic row; /* in the statistics; made at the first launch */
} op;

status op_prepare(op *o, const op_arg *a, uint64_t *workspace_bytes, executor **out);
status op_launch(op *o, void *workspace, uint64_t workspace_bytes, executor *e, void *stream);

/* ---- for prepare functions: checks that fail with ST_OP_INVALID, naming the argument ----------------------------- */

#define OP_FAIL(format, ...) fail(ST_OP_INVALID, format, ##__VA_ARGS__)

/* condition, or: "<name> <is ...>, expected <...>". */
#define EXPECT(condition, format, ...)                                                                                 \
  do {                                                                                                                 \
    if (unlikely(!(condition))) return OP_FAIL(format, ##__VA_ARGS__);                                                 \
  } while (0)

/* The dtype is one of the bits (DTYPE_BIT(ACL_FLOAT) | ...), else a message that lists them. */
#define DTYPE_BIT(dtype) (UINT64_C(1) << (dtype))
status op_expect_dtype(const tensor *t, const char *name, uint64_t allowed);

/* The same, and one element. */
status op_expect_one(const tensor *t, const char *name, uint64_t allowed);
#define DTYPES_FLOAT (DTYPE_BIT(ACL_FLOAT) | DTYPE_BIT(ACL_FLOAT16) | DTYPE_BIT(ACL_BF16) | DTYPE_BIT(ACL_DOUBLE))
#define DTYPES_INTEGER                                                                                                 \
  (DTYPE_BIT(ACL_INT8) | DTYPE_BIT(ACL_INT16) | DTYPE_BIT(ACL_INT32) | DTYPE_BIT(ACL_INT64) | DTYPE_BIT(ACL_UINT8))
#define DTYPES_REAL (DTYPES_FLOAT | DTYPES_INTEGER | DTYPE_BIT(ACL_BOOL))
/* Those that CANN computes with; those there are. */
#define DTYPES_COMPLEX     (DTYPE_BIT(ACL_COMPLEX64) | DTYPE_BIT(ACL_COMPLEX128))
#define DTYPES_COMPLEX_ANY (DTYPE_BIT(ACL_COMPLEX32) | DTYPES_COMPLEX)
/* Every type whose elements are whole bytes: for operators that only move them. */
#define DTYPES_NUMBER                                                                                                  \
  (DTYPES_REAL | DTYPE_BIT(ACL_UINT16) | DTYPE_BIT(ACL_UINT32) | DTYPE_BIT(ACL_UINT64) | DTYPES_COMPLEX_ANY)
#define DTYPES_INDEX (DTYPE_BIT(ACL_INT32) | DTYPE_BIT(ACL_INT64))

/* The tensor has exactly these dims. */
status op_expect_shape(const tensor *t, const char *name, const int64_t *dims, int rank);

/* A result of one element may have any shape of one: where t and these dims are of one element, `room` becomes t with
 * these dims, and is returned; else t. */
const tensor *op_one_as(const tensor *t, const int64_t *dims, int rank, tensor *room);

/* A dimension of a tensor of this rank, negative counting from the end (rank 0 counts as 1); the result in *dim. */
status op_expect_dim(int64_t value, const char *name, int rank, int *dim);

#endif
