/* SPDX-License-Identifier: Apache-2.0 */
/* GEMV and small-m GEMM, with at most FEW_ROWS rows. The time is bound by reading B. */
#include "kernel/engine/level_choice.h"
#include "kernel/engine/scratch.h"
#include "kernel/product/few_rows.h"
#include "kernel/product/product.h"

LEVEL_CHOICE(few_rows_loops, few_rows, few_rows_loops)

enum {
  DOT_CHUNK = 256,    /* columns whose dot products are buffered before they are stored */
  AXPY_FLOATS = 8192, /* sums that stay in L1 */
  STAGE_FLOATS = 8 * 512,
};

static int few_rows_weight_of(int dtype) {
  switch (dtype) {
  case ACL_FLOAT: return WEIGHT_F32;
  case ACL_FLOAT16: return WEIGHT_F16;
  case ACL_BF16: return WEIGHT_BF16;
  case ACL_INT8: return WEIGHT_I8;
  default: return -1;
  }
}

/* A as floats. pitch: in elements. */
typedef struct {
  const float *at;
  int64_t pitch;
} rows_of_a;

static bool fetch_a(const product_part *part, rows_of_a *x) {
  const matrices *a = &part->plan->a;
  if (a->dtype == ACL_FLOAT && (a->col_stride == 4 || a->cols <= 1) && a->row_stride % 4 == 0) {
    *x = (rows_of_a){(const float *)(const void *)part->a, a->row_stride / 4};
    return true;
  }
  float *const to = (float *)(void *)scratch_take((size_t)(a->rows * a->cols) * sizeof *to);
  if (!to) return false;
  for (int64_t i = 0; i < a->rows && a->cols > 0; ++i)
    loops->load[a->dtype][COMPUTE_F32](to + i * a->cols, part->a + i * a->row_stride, a->col_stride, a->cols);
  *x = (rows_of_a){to, a->cols};
  return true;
}

/* Columns of B are contiguous along K. */
static void by_dots(const product_part *part, const rows_of_a *a, int weight) {
  float sums[FEW_ROWS * DOT_CHUNK];
  const product_plan *p = part->plan;
  const int64_t end = part->col + part->cols;
  for (int64_t col = part->col, n; col < end; col += n) {
    n = i64_min(DOT_CHUNK, end - col);
    few_rows->dots[weight]((int)part->rows, (int)n, p->a.cols, a->at, a->pitch, part->b + col * p->b.col_stride,
                           p->b.col_stride, sums, DOT_CHUNK);
    product_finish(part, 0, part->rows, col, n, (char *)sums, DOT_CHUNK);
  }
}

/* Rows of B are contiguous along N. */
static void by_axpys(const product_part *part, const rows_of_a *a, int weight) {
  float sums[AXPY_FLOATS];
  const product_plan *p = part->plan;
  const int64_t end = part->col + part->cols, k = p->a.cols, most = AXPY_FLOATS / part->rows / 64 * 64;
  for (int64_t col = part->col, n; col < end; col += n) {
    n = i64_min(most, end - col);
    memset(sums, 0, (size_t)(part->rows * n) * sizeof *sums);
    for (int64_t l = 0; l < k; l += AXPY_DEPTH)
      few_rows->axpys[weight]((int)part->rows, (int)i64_min(AXPY_DEPTH, k - l), n, a->at + l, a->pitch,
                              part->b + l * p->b.row_stride + col * p->b.col_stride, p->b.row_stride, sums, n);
    product_finish(part, 0, part->rows, col, n, (char *)sums, n);
  }
}

/* B has another dtype, or is contiguous in neither direction: AXPY_DEPTH rows at a time are converted to floats in
 * L1. */
static void by_stage(const product_part *part, const rows_of_a *a) {
  float sums[FEW_ROWS * STAGE_FLOATS / AXPY_DEPTH], stage[STAGE_FLOATS];
  const matrices *b = &part->plan->b;
  const int64_t end = part->col + part->cols, k = b->rows, most = STAGE_FLOATS / AXPY_DEPTH;
  for (int64_t col = part->col, n; col < end; col += n) {
    n = i64_min(most, end - col);
    memset(sums, 0, sizeof sums);
    for (int64_t l = 0; l < k; l += AXPY_DEPTH) {
      const int depth = (int)i64_min(AXPY_DEPTH, k - l);
      for (int d = 0; d < depth; ++d)
        loops->load[b->dtype][COMPUTE_F32](stage + d * most, part->b + (l + d) * b->row_stride + col * b->col_stride,
                                           b->col_stride, n);
      few_rows->axpys[WEIGHT_F32]((int)part->rows, depth, n, a->at + l, a->pitch, (const char *)stage,
                                  most * (int64_t)sizeof *stage, sums, most);
    }
    product_finish(part, 0, part->rows, col, n, (char *)sums, most);
  }
}

status product_few_rows(const product_part *part) {
  const matrices *b = &part->plan->b;
  const int64_t size = (int64_t)dtype_bytes(b->dtype);
  const int weight = few_rows_weight_of(b->dtype);
  rows_of_a a;
  if (!fetch_a(part, &a)) return ST_NO_MEMORY;
  if (weight >= 0 && (b->row_stride == size || b->rows <= 1))
    by_dots(part, &a, weight);
  else if (weight >= 0 && (b->col_stride == size || b->cols == 1))
    by_axpys(part, &a, weight);
  else
    by_stage(part, &a);
  return ST_OK;
}
