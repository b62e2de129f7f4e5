/* SPDX-License-Identifier: Apache-2.0 */
/* Moves of rows and blocks that are called by name: InplaceUpdateD, InplaceAddD, InplaceSubD, SpaceToBatchND,
 * BatchToSpaceND. Operands are contiguous. */
#include <string.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/move/check.h"

/* ---- rows -------------------------------------------------------------------------------------------------------- */

enum { TILE = 512, MAX_ROWS = 64 };

typedef struct {
  int64_t n, row; /* rows of v, elements of a row */
  uint64_t bytes; /* of x */
  int dtype, compute, variant;
  int64_t at[MAX_ROWS];
} rows_plan;

static const int16_t row_functions[] = {[GRAPH_ROWS_ADD] = EW_add, [GRAPH_ROWS_SUB] = EW_sub};

/* Changes elements [first, first + n) of a row. */
static void rows_tile(const rows_plan *p, char *y, const char *v, int64_t n) {
  static const compute_value ones[2][ELEMENTWISE_PARAMETERS] = {{{.f64 = 1}}, {{.i64 = 1}}};
  const int64_t size = (int64_t)dtype_bytes(p->dtype);
  union {
    double f64[TILE];
    int64_t i64[TILE];
  } a, b;
  if (p->variant == GRAPH_ROWS_UPDATE) {
    memcpy(y, v, (size_t)(n * size));
    return;
  }
  loops->load[p->dtype][p->compute](&a, y, size, n);
  loops->load[p->dtype][p->compute](&b, v, size, n);
  loops->elementwise[row_functions[p->variant]][p->compute](&a, (const void *const[]){&a, &b, NULL, NULL},
                                                            ones[p->compute == COMPUTE_I64], n);
  loops->store[p->dtype][p->compute](y, size, &a, n);
}

static status rows_run(const executor *e, void *const *view, void *scratch) {
  const rows_plan *p = PLAN(e, rows_plan);
  const int64_t size = (int64_t)dtype_bytes(p->dtype);
  char *const y = view[GRAPH_ROWS_Y];
  (void)scratch;
  if (y != view[GRAPH_ROWS_X]) memcpy(y, view[GRAPH_ROWS_X], p->bytes);
  for (int64_t i = 0; i < p->n; ++i) /* in order: an index may occur twice */
    for (int64_t k = 0; k < p->row; k += TILE)
      rows_tile(p, y + (p->at[i] * p->row + k) * size, (const char *)view[GRAPH_ROWS_V] + (i * p->row + k) * size,
                i64_min(TILE, p->row - k));
  return ST_OK;
}

status prepare_graph_rows(executor *e, const graph_rows_args *a) {
  const tensor *x = a->x, *v = a->v;
  const aclIntArray *indices = a->indices;
  rows_plan *p = PLAN(e, rows_plan);
  int64_t dims[MAX_RANK];
  TRY(op_expect_dtype(x, "x", DTYPES_FLOAT | DTYPE_BIT(ACL_INT32)));
  TRY(op_expect_dtype(v, "v", DTYPE_BIT(x->dtype)));
  TRY(op_expect_dtype(a->y, "y", DTYPE_BIT(x->dtype)));
  TRY(op_expect_rank(x, "x", 1, MAX_RANK));
  TRY(op_expect_same_shape(a->y, "y", x));
  EXPECT(indices->size <= MAX_ROWS, "indices has %ju elements, expected up to %d", (uintmax_t)indices->size, MAX_ROWS);
  *p = (rows_plan){.n = (int64_t)indices->size,
                   .row = 1,
                   .bytes = (uint64_t)x->n * dtype_bytes(x->dtype),
                   .dtype = x->dtype,
                   .compute = x->dtype == ACL_INT32 ? COMPUTE_I64 : COMPUTE_F64,
                   .variant = e->op->variant};
  for (int d = 1; d < x->rank; ++d) p->row *= dims[d] = x->dims[d];
  dims[0] = p->n;
  TRY(op_expect_shape(v, "v", dims, x->rank));
  for (int64_t i = 0; i < p->n; ++i) {
    p->at[i] = indices->value[i];
    EXPECT(p->at[i] >= 0 && p->at[i] < x->dims[0], "indices has a %jd, expected 0 to %jd", (intmax_t)p->at[i],
           (intmax_t)x->dims[0] - 1);
  }
  executor_cost(e, 2 * p->bytes, (uint64_t)v->n * 4);
  e->run = x->n ? rows_run : move_run_nothing;
  return ST_OK;
}

/* ---- SpaceToBatchND, BatchToSpaceND ------------------------------------------------------------------------------ */

/* Space is [n, size..., inner], batches are [blocks, n, ceil(size / block)..., inner]. */
typedef struct {
  int rank;         /* of the dimensions with blocks */
  int64_t n, inner; /* inner: bytes */
  int64_t space[MAX_RANK], block[MAX_RANK], before[MAX_RANK], depth[MAX_RANK];
  int64_t rows; /* of batches */
  bool to_space;
} batches_plan;

typedef struct {
  const batches_plan *plan;
  char *space, *batches;
} batches_job;

/* Rows [begin, end) of the batches. */
static void batches_range(const void *argument, int64_t begin, int64_t end) {
  const batches_job *j = argument;
  const batches_plan *p = j->plan;
  for (int64_t row = begin; row < end; ++row) {
    int64_t within[MAX_RANK], left = row, at;
    bool inside = true;
    char *batches = j->batches + row * p->inner;
    for (int d = p->rank; d--; left /= p->depth[d]) within[d] = left % p->depth[d] * p->block[d];
    at = left % p->n;
    left /= p->n;
    for (int d = p->rank; d--; left /= p->block[d]) within[d] += left % p->block[d] - p->before[d];
    for (int d = 0; d < p->rank; ++d) {
      inside &= within[d] >= 0 && within[d] < p->space[d];
      at = at * p->space[d] + within[d];
    }
    if (inside)
      memcpy(p->to_space ? j->space + at * p->inner : batches, p->to_space ? batches : j->space + at * p->inner,
             (size_t)p->inner);
    else if (!p->to_space)
      memset(batches, 0, (size_t)p->inner);
  }
}

static status batches_run(const executor *e, void *const *view, void *scratch) {
  const batches_plan *p = PLAN(e, batches_plan);
  void *const x = view[GRAPH_BATCHES_X], *const y = view[GRAPH_BATCHES_Y];
  const batches_job job = {p, p->to_space ? y : x, p->to_space ? x : y};
  (void)scratch;
  rows_parallel(batches_range, &job, p->rows, 64, e->cost_ns);
  return ST_OK;
}

status prepare_graph_batches(executor *e, const graph_batches_args *a) {
  const tensor *x = a->x;
  const aclIntArray *block = a->block_shape, *margins = a->margins;
  const bool to_space = e->op->variant == GRAPH_BATCHES_TO_SPACE;
  batches_plan *p = PLAN(e, batches_plan);
  int64_t blocks = 1, dims[MAX_RANK];
  TRY(move_expect_same_dtype(x, "x", a->y, "y"));
  EXPECT(block->size >= 1 && block->size < (uint64_t)x->rank, "block_shape has %ju elements, expected 1 to %d",
         (uintmax_t)block->size, x->rank - 1);
  TRY(op_expect_size(margins->size, a->name.margins, 2 * block->size));
  *p = (batches_plan){.rank = (int)block->size, .inner = (int64_t)dtype_bytes(x->dtype), .to_space = to_space};
  for (int d = 0; d < p->rank; ++d) {
    const int64_t b = block->value[d], before = margins->value[2 * d], after = margins->value[2 * d + 1];
    EXPECT(b >= 1 && before >= 0 && after >= 0, "block_shape has a %jd, %s %jd and %jd; expected 1, 0 and 0 or more",
           (intmax_t)b, a->name.margins, (intmax_t)before, (intmax_t)after);
    const int64_t size = x->dims[d + 1], whole = to_space ? size * b : size + before + after;
    EXPECT(whole % b == 0, "x has %jd elements with paddings in dimension %d, expected a multiple of %jd",
           (intmax_t)whole, d + 1, (intmax_t)b);
    p->block[d] = b;
    p->before[d] = before;
    p->depth[d] = whole / b;
    p->space[d] = to_space ? whole - before - after : size;
    EXPECT(p->space[d] >= 0, "crops leave %jd elements of dimension %d, expected 0 or more", (intmax_t)p->space[d],
           d + 1);
    dims[d + 1] = to_space ? p->space[d] : p->depth[d];
    blocks *= b;
  }
  EXPECT(!to_space || x->dims[0] % blocks == 0, "x has %jd batches, expected a multiple of %jd", (intmax_t)x->dims[0],
         (intmax_t)blocks);
  p->n = to_space ? x->dims[0] / blocks : x->dims[0];
  dims[0] = to_space ? p->n : p->n * blocks;
  p->rows = p->n * blocks;
  for (int d = 0; d < p->rank; ++d) p->rows *= p->depth[d];
  for (int d = p->rank + 1; d < x->rank; ++d) p->inner *= dims[d] = x->dims[d];
  TRY(op_expect_shape(a->y, "y", dims, x->rank));
  executor_cost(e, (uint64_t)(x->n + a->y->n) * dtype_bytes(x->dtype), (uint64_t)p->rows * 20);
  e->run = a->y->n ? batches_run : move_run_nothing;
  return ST_OK;
}
