/* SPDX-License-Identifier: Apache-2.0 */
/* EmbeddingLookup, which is called by name: rows of a table whose first row has the number `offset`, a part of a larger
 * one. Rows that are not in it are 0. Operands are contiguous. */
#include <string.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/move/check.h"

typedef struct {
  int64_t n, n_rows, row_bytes;
  int dtype, offset_dtype; /* of the indices and of the offset */
} lookup_plan;

typedef struct {
  const lookup_plan *plan;
  const char *param, *indices;
  char *output;
  int64_t offset;
} lookup_job;

static int64_t lookup_number(int dtype, const char *at) {
  int64_t x;
  loops->load[dtype][COMPUTE_I64](&x, at, 0, 1);
  return x;
}

static void lookup_range(const void *arg, int64_t begin, int64_t end) {
  const lookup_job *j = arg;
  const lookup_plan *p = j->plan;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t index = lookup_number(p->dtype, j->indices + i * (int64_t)dtype_bytes(p->dtype));
    char *const to = j->output + i * p->row_bytes;
    int64_t row;
    if (!__builtin_sub_overflow(index, j->offset, &row) && row >= 0 && row < p->n_rows)
      memcpy(to, j->param + row * p->row_bytes, (size_t)p->row_bytes);
    else
      memset(to, 0, (size_t)p->row_bytes);
  }
}

static status lookup_run(const executor *e, void *const *view, void *scratch) {
  enum { GRAIN_BYTES = 1 << 14 };
  const lookup_plan *p = PLAN(e, lookup_plan);
  const lookup_job job = {.plan = p,
                          .param = view[GRAPH_LOOKUP_PARAM],
                          .indices = view[GRAPH_LOOKUP_INDICES],
                          .output = view[GRAPH_LOOKUP_OUTPUT],
                          .offset = lookup_number(p->offset_dtype, view[GRAPH_LOOKUP_OFFSET])};
  (void)scratch;
  if (p->row_bytes) rows_parallel(lookup_range, &job, p->n, GRAIN_BYTES / p->row_bytes + 1, e->cost_ns);
  return ST_OK;
}

status prepare_graph_lookup(executor *e, const graph_lookup_args *a) {
  const uint64_t integers = DTYPES_INDEX | DTYPE_BIT(ACL_INT8) | DTYPE_BIT(ACL_INT16);
  const tensor *param = a->param, *indices = a->indices;
  lookup_plan *p = PLAN(e, lookup_plan);
  int64_t dims[2 * MAX_RANK];
  TRY(move_expect_same_dtype(param, "param", a->output, "output"));
  TRY(op_expect_dtype(indices, "indices", integers));
  TRY(op_expect_one(a->offset, "offset", integers));
  TRY(op_expect_rank(param, "param", 1, MAX_RANK));
  const int rank = indices->rank + param->rank - 1;
  EXPECT(rank <= MAX_RANK, "indices has shape %s, expected up to %d dimensions", SHAPE_OF(indices),
         MAX_RANK - param->rank + 1);
  memcpy(dims, indices->dims, sizeof indices->dims);
  memcpy(dims + indices->rank, param->dims + 1, (size_t)(param->rank - 1) * sizeof *dims);
  TRY(op_expect_shape(a->output, "output", dims, rank));
  *p = (lookup_plan){.n = indices->n,
                     .n_rows = param->dims[0],
                     .row_bytes = (int64_t)dtype_bytes(param->dtype),
                     .dtype = indices->dtype,
                     .offset_dtype = a->offset->dtype};
  for (int d = 1; d < param->rank; ++d) p->row_bytes *= param->dims[d];
  e->run = lookup_run;
  executor_cost(e, 2 * (uint64_t)(p->n * p->row_bytes), (uint64_t)p->n * 32);
  return ST_OK;
}
