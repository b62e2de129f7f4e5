/* SPDX-License-Identifier: Apache-2.0 */
/* Operators: entries of the operator table, and the two phases of a call.
 *
 *   phase one   op_prepare(): checks for null pointers by the schema, then calls the operator's prepare function, which
 *               checks dtypes and shapes, chooses a kernel and says how much workspace that needs. The result is an
 *               executor
 *   phase two   op_launch(): checks and translates the addresses of operands and workspace, and queues a task. The
 *               executor owns all that the task needs, so the caller may destroy its tensors
 *
 * The schemas are in ops/(name).ops. From each line scripts/gen_ops.py generates a table entry, CANN's header and the
 * two entry points, which call these functions. Kernels implement the prepare functions, and use expect.h's checks.
 * Thread-safe; the two phases may be called by different threads. */
#ifndef CANNON_OP_OP_H
#define CANNON_OP_OP_H

#include "op/expect.h"
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
  ARG_ANY, /* an attribute of any type, which is ignored (aclop.h) */
} arg_kind;

enum {
  ARG_READ = 1,
  ARG_WRITTEN = 2,
  ARG_OPTIONAL = 4,
  ARG_ATTRIBUTE = 8,
  ARG_STORED = 16,
  /* 32 is executor.h's. What is read of an operand, if not all of its elements (ops/README.md). */
  ARG_READ_IN_PART = 64,
  ARG_READ_PERHAPS = 128,
  ARG_MOVED = 256,
  ARG_IN_ORDER = 512,
  ARG_FIXED = 1024, /* an attribute that may only have its default value; like the other attributes, for aclop.h */
};

typedef struct {
  const char *name;
  uint8_t kind;
  uint16_t flags;
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
  const char *function; /* for messages: the function of phase two, or the name of an operator of aclop.h */
  const arg_schema *schema;
  uint8_t n_args;
  int variant; /* a number in the schema line, for a prepare function that several operators share */
  status (*prepare)(executor *e, const op_arg *a); /* calls prepare_FAMILY, which gets arguments by name (families.h) */
  stats_op *_Atomic row;                           /* in the statistics; set at the first launch that is counted */
  struct account_choice *_Atomic choices;          /* of account.c: its rows by implementation */
} op;

/* Phase one. *out: an executor, which belongs to the caller until it is launched. ST_OP_NULL, ST_OP_INVALID. */
status op_prepare(op *o, const op_arg *a, uint64_t *workspace_bytes, executor **out);

/* The same for a call of the program, whose tensors are objects of tensor_new(). If the program never launches the
 * executor, it is freed some time after its tensors were destroyed (unlaunched.h). */
status op_prepare_call(op *o, const op_arg *a, uint64_t *workspace_bytes, executor **out);

/* As op_prepare_call(), with the workspace that suffices whatever the lengths of sequences are in these tensors. For
 * operators that heed executor->asks_most. */
status op_most_workspace(op *o, const op_arg *a, uint64_t *workspace_bytes, executor **out);

/* The same for a caller that can pack constant operands (executor_packing). constants: bit i is set if argument i is a
 * tensor whose contents will not change. */
status op_prepare_constant(op *o, const op_arg *a, uint64_t constants, uint64_t *workspace_bytes, executor **out);

/* Phase two. stream: a handle; NULL: the default stream of the current context. Consumes the executor on
 * success, unless it is repeatable. */
status op_launch(op *o, void *workspace, uint64_t workspace_bytes, executor *e, void *stream);

/* The same for operators that consist of several tasks (fused.h). site: the caller's return address. */
status op_launch_sequence(op *o, void *workspace, uint64_t workspace_bytes, executor *e, void *stream, void *site);

#endif
