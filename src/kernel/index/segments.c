/* SPDX-License-Identifier: Apache-2.0 */
/* UnsortedSegmentSum, Prod, Max and Min, and SegmentSum, called by name: y[segment_ids[i]] is the sum (product, ...)
 * of the slices x[i], in their order. A thread folds a range of positions within the slices for all of them, in
 * float for 16-bit types, so the number of threads changes nothing. The maximum of no slice is the type's least
 * finite number. */
#include <string.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "op/executor.h"

typedef struct {
  int64_t n_slices, slice, n_segments; /* slice: elements */
  compute_type compute;
  int dtype, index_dtype, variant;
  compute_value empty; /* what a segment without slices has */
  uint64_t sums;       /* offset in the workspace, of n_segments * slice values of the compute type */
} segment_plan;

typedef struct {
  const segment_plan *plan;
  const char *x;
  const int64_t *ids;
  char *y, *sums;
} segment_job;

enum { TILE = 512 };

/* Folds the n values of x into `to`, each NaN of which stays. */
#define SEGMENT_FOLD(type, to, x, n, variant)                                                                          \
  for (int64_t i = 0; i < (n); ++i) {                                                                                  \
    type *t = (type *)(void *)(to) + i;                                                                                \
    const type v = ((const type *)(const void *)(x))[i];                                                               \
    switch (variant) {                                                                                                 \
    case GRAPH_SEGMENT_PROD: *t *= v; break;                                                                           \
    case GRAPH_SEGMENT_MAX: *t = v > *t || v != v ? v : *t; break;                                                     \
    case GRAPH_SEGMENT_MIN: *t = v < *t || v != v ? v : *t; break;                                                     \
    default: *t += v;                                                                                                  \
    }                                                                                                                  \
  }

static void segment_fold(const segment_plan *p, char *to, const char *x, int64_t n) {
  switch (p->compute) {
  case COMPUTE_F32: SEGMENT_FOLD(float, to, x, n, p->variant); break;
  case COMPUTE_F64: SEGMENT_FOLD(double, to, x, n, p->variant); break;
  default:
    if (p->variant == GRAPH_SEGMENT_MAX || p->variant == GRAPH_SEGMENT_MIN) {
      SEGMENT_FOLD(int64_t, to, x, n, p->variant); /* compares with signs */
    } else {
      SEGMENT_FOLD(uint64_t, to, x, n, p->variant); /* wraps */
    }
  }
}

/* Positions [begin, end) of all slices. Slices with an id out of range are dropped. */
static void segment_range(const void *argument, int64_t begin, int64_t end) {
  const segment_job *j = argument;
  const segment_plan *p = j->plan;
  const int64_t size = (int64_t)dtype_bytes(p->dtype), wide = p->compute == COMPUTE_F32 ? 4 : 8;
  _Alignas(64) char tile[TILE * sizeof(double)];
  for (int64_t at = begin, n; at < end; at += n) {
    n = i64_min(TILE, end - at);
    for (int64_t k = 0; k < p->n_segments; ++k)
      for (int64_t i = 0; i < n; ++i) memcpy(j->sums + (k * p->slice + at + i) * wide, &p->empty, (size_t)wide);
    for (int64_t i = 0; i < p->n_slices; ++i) {
      const int64_t id = j->ids[i];
      if (id < 0 || id >= p->n_segments) continue;
      loops->load[p->dtype][p->compute](tile, j->x + (i * p->slice + at) * size, size, n);
      segment_fold(p, j->sums + (id * p->slice + at) * wide, tile, n);
    }
    for (int64_t k = 0; k < p->n_segments; ++k)
      loops->store[p->dtype][p->compute](j->y + (k * p->slice + at) * size, size, j->sums + (k * p->slice + at) * wide,
                                         n);
  }
}

static status segment_run(const executor *e, void *const *view, void *scratch) {
  const segment_plan *p = PLAN(e, segment_plan);
  const int64_t index_size = (int64_t)dtype_bytes(p->index_dtype);
  int64_t *ids = scratch; /* the first piece of the workspace */
  if (!p->slice || !p->n_segments) return ST_OK;
  loops->load[p->index_dtype][COMPUTE_I64](ids, view[GRAPH_SEGMENT_SEGMENT_IDS], index_size, p->n_slices);
  const segment_job job = {p, view[GRAPH_SEGMENT_X], ids, view[GRAPH_SEGMENT_Y], (char *)scratch + p->sums};
  rows_parallel(segment_range, &job, p->slice, TILE, e->cost_ns);
  return ST_OK;
}

static compute_value segment_empty(int variant, int dtype, compute_type compute) {
  const bool is_max = variant == GRAPH_SEGMENT_MAX;
  if (variant != GRAPH_SEGMENT_MAX && variant != GRAPH_SEGMENT_MIN) {
    const int64_t unit = variant == GRAPH_SEGMENT_PROD;
    return compute == COMPUTE_I64   ? (compute_value){.i64 = unit}
           : compute == COMPUTE_F64 ? (compute_value){.f64 = (double)unit}
                                    : (compute_value){.f32 = (float)unit};
  }
  if (compute == COMPUTE_I64) {
    const int bits = 8 * (int)dtype_bytes(dtype);
    const int64_t low = dtype == ACL_UINT8 ? 0 : INT64_MIN >> (64 - bits);
    const int64_t high = dtype == ACL_UINT8 ? UINT8_MAX : INT64_MAX >> (64 - bits);
    return (compute_value){.i64 = is_max ? low : high};
  }
  const double x = is_max ? -dtype_largest(dtype) : dtype_largest(dtype);
  return compute == COMPUTE_F64 ? (compute_value){.f64 = x} : (compute_value){.f32 = (float)x};
}

status prepare_graph_segment(executor *e, const graph_segment_args *a) {
  const tensor *x = a->x, *ids = a->segment_ids, *y = a->y;
  const aclIntArray *number = a->num_segments;
  segment_plan *p = PLAN(e, segment_plan);
  int64_t dims[MAX_RANK];
  int rank = 1;
  TRY(op_expect_dtype(x, "x", DTYPES_FLOAT | DTYPES_INTEGER));
  TRY(op_expect_dtype(y, "y", DTYPE_BIT(x->dtype)));
  TRY(op_expect_dtype(ids, "segment_ids", DTYPES_INDEX));
  EXPECT(!number || (number->size == 1 && number->value[0] >= 0),
         "num_segments has %ju elements, expected one that is 0 or more", (uintmax_t)(number ? number->size : 0));
  TRY(op_expect_rank(y, "y", 1, MAX_RANK));
  EXPECT(ids->rank <= x->rank && !memcmp(ids->dims, x->dims, (size_t)ids->rank * sizeof *dims),
         "segment_ids has shape %s, expected the first dimensions of x, %s", SHAPE_OF(ids), SHAPE_OF(x));
  dims[0] = number ? number->value[0] : y->dims[0];
  int64_t slice = 1;
  for (int d = ids->rank; d < x->rank; ++d) slice *= dims[rank++] = x->dims[d];
  TRY(op_expect_shape(y, "y", dims, rank));
  *p = (segment_plan){.n_slices = ids->n,
                      .slice = slice,
                      .n_segments = dims[0],
                      .compute = DTYPE_BIT(x->dtype) & DTYPES_INTEGER ? COMPUTE_I64
                                 : x->dtype == ACL_DOUBLE             ? COMPUTE_F64
                                                                      : COMPUTE_F32,
                      .dtype = x->dtype,
                      .index_dtype = ids->dtype,
                      .variant = e->op->variant};
  p->empty = segment_empty(p->variant, x->dtype, p->compute);
  workspace_intermediate(e, (uint64_t)ids->n * sizeof(int64_t));
  p->sums = workspace_intermediate(e, (uint64_t)y->n * (p->compute == COMPUTE_F32 ? sizeof(float) : sizeof(double)));
  executor_cost(e, (uint64_t)(x->n + 2 * y->n) * dtype_bytes(x->dtype), (uint64_t)x->n);
  e->run = segment_run;
  return ST_OK;
}
