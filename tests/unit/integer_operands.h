/* SPDX-License-Identifier: Apache-2.0 */
/* Operands with random contents of ConvolutionInteger and MatmulInteger, which number them alike, and a run of one of
 * these on them. */
#ifndef CANNON_TESTS_UNIT_INTEGER_OPERANDS_H
#define CANNON_TESTS_UNIT_INTEGER_OPERANDS_H

#include "graph/nodes.h"
#include "op/executor.h"
#include "unit.h"

#define CHECK(expression) assert_int_equal(expression, ST_OK)

enum { INPUT, WEIGHT, INPUT_ZERO, WEIGHT_ZERO, SCALE, BIAS, OUT, N_TENSORS, MAX_INTS = 3 };

typedef struct {
  ir_graph *g;
  ir_value *t[N_TENSORS]; /* NULL: not given */
  char *at[N_TENSORS];    /* contents */
} operands;

static inline void operands_add(operands *o, random_source *r, int i, int dtype, const int64_t *dims, int rank) {
  CHECK(ir_temporary(o->g, dtype, dims, rank, &o->t[i]));
  const size_t bytes = o->t[i]->storage->bytes;
  o->at[i] = aligned_alloc(64, (bytes + 63) / 64 * 64);
  for (size_t b = 0; b < bytes; ++b) o->at[i][b] = (char)random_below(r, 256);
  for (size_t k = 0; dtype == ACL_FLOAT && k < bytes / 4; ++k)
    ((float *)(void *)o->at[i])[k] = (float)random_below(r, 1000) / 500 - 1;
}

/* Runs the operator, whose further arguments are these lists of integers. constant: the weight is packed ahead where
 * the operator wants that, and the run does without it. */
static inline void operands_run(operands *o, op *which, const aclIntArray *const *ints, int n_ints, bool constant) {
  op_arg args[N_TENSORS + MAX_INTS];
  void *view[N_TENSORS];
  for (int i = 0; i < N_TENSORS; ++i) {
    args[i] = (op_arg){.tensor = value_tensor(o->t[i])};
    view[i] = o->at[i];
  }
  for (int i = 0; i < n_ints; ++i) args[N_TENSORS + i].ints = ints[i];
  uint64_t workspace_bytes;
  executor *e;
  CHECK(op_prepare_constant(which, args, constant ? 1u << WEIGHT : 0, &workspace_bytes, &e));
  char *const scratch = aligned_alloc(64, workspace_bytes + 64), *packed = NULL;
  memset(scratch, 0x5a, workspace_bytes);
  assert_true(!e->packing.bytes || constant);
  if (e->packing.bytes) {
    e->packed = packed = aligned_alloc(64, (e->packing.bytes + 63) / 64 * 64);
    e->packing.pack(e, view[WEIGHT], packed);
    view[WEIGHT] = NULL;
  }
  CHECK(e->run(e, view, scratch));
  executor_unref(e);
  free(scratch);
  free(packed);
}

/* A number of a tensor; a scalar's for all, and 0 of a tensor that is not given. */
static inline int64_t operands_number(const operands *o, int i, int64_t at) {
  if (!o->t[i]) return 0;
  if (!o->t[i]->tensor.rank) at = 0;
  return o->t[i]->tensor.dtype == ACL_UINT8 ? (uint8_t)o->at[i][at] : (int8_t)o->at[i][at];
}

static inline void operands_free(operands *o) {
  for (int k = 0; k < N_TENSORS; ++k) free(o->at[k]);
  ir_free(o->g);
}

#endif
