/* SPDX-License-Identifier: Apache-2.0 */
/* DynamicBlockQuant: quantises blocks of matrices to int8, each with a scale from its largest magnitude. */
#include <math.h>
#include <string.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/move/check.h"
#include "kernel/quant/row.h"

enum { MOST = 127, WIDEST = 256 };

typedef struct {
  int64_t matrices, rows, cols, row_block, col_block; /* sizes of a matrix, and of a block */
  int64_t down, across;                               /* numbers of blocks in a matrix */
  int64_t x[3], y[3], scale[3];                       /* strides in bytes, by matrix, row and column */
  float most_scale;
  load_loop *load;
  store_loop *store;
} block_quant_plan;

typedef struct {
  const block_quant_plan *plan;
  const char *x;
  char *y, *scale;
} block_quant_job;

static void block_quantise(const block_quant_job *j, int64_t block) {
  const block_quant_plan *p = j->plan;
  const int64_t matrix = block / (p->down * p->across), at = block % (p->down * p->across);
  const int64_t down = at / p->across, across = at % p->across, row = down * p->row_block, col = across * p->col_block;
  const int64_t rows = i64_min(p->row_block, p->rows - row), cols = i64_min(p->col_block, p->cols - col);
  const char *const x = j->x + matrix * p->x[0] + row * p->x[1] + col * p->x[2];
  char *const y = j->y + matrix * p->y[0] + row * p->y[1] + col * p->y[2];
  float tile[WIDEST];
  quant_extremes of_block = {.high = 0};
  for (int64_t i = 0; i < rows; ++i) {
    p->load(tile, x + i * p->x[1], p->x[2], cols);
    const float high = quant_row_extremes(tile, true, cols).high;
    if (high > of_block.high || high != high) of_block.high = high;
  }
  float scale = quant_scale_symmetric(of_block, MOST);
  if (scale > p->most_scale) scale = p->most_scale;
  memcpy(j->scale + matrix * p->scale[0] + down * p->scale[1] + across * p->scale[2], &scale, sizeof scale);
  for (int64_t i = 0; i < rows; ++i) {
    p->load(tile, x + i * p->x[1], p->x[2], cols);
    quant_row_uniform(tile, tile, scale, NULL, cols);
    p->store(y + i * p->y[1], p->y[2], tile, cols);
  }
}

static void block_quant_range(const void *arg, int64_t begin, int64_t end) {
  for (; begin < end; ++begin) block_quantise(arg, begin);
}

static status run_block_quant(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const block_quant_plan *p = PLAN(e, block_quant_plan);
  const block_quant_job job = {.plan = p,
                               .x = view[DYNAMIC_BLOCK_QUANT_X],
                               .y = view[DYNAMIC_BLOCK_QUANT_Y_OUT],
                               .scale = view[DYNAMIC_BLOCK_QUANT_SCALE_OUT]};
  rows_parallel(block_quant_range, &job, p->matrices * p->down * p->across, 1, e->cost_ns);
  return ST_OK;
}

/* The strides of a matrix, or of a stack of matrices. */
static void block_quant_strides(const tensor *t, int64_t *strides) {
  const view v = view_of(t);
  strides[0] = v.rank == 3 ? v.strides[0] : 0;
  strides[1] = v.strides[v.rank - 2];
  strides[2] = v.strides[v.rank - 1];
}

static bool block_size_fits(int64_t value, const int16_t *values) {
  while (*values && *values != value) ++values;
  return *values != 0;
}

static status block_quant_attributes(const dynamic_block_quant_args *a) {
  static const int16_t down[] = {1, 64, 128, 256, 512, 0}, across[] = {64, 128, 192, 256, 0};
  EXPECT(a->min_scale >= 0, "minScale is %g, expected 0 or more", a->min_scale);
  EXPECT(!a->round_mode || strcmp(a->round_mode, "rint") == 0, "roundModeOptional is %s, expected rint", a->round_mode);
  EXPECT(a->dst_type == ACL_INT8, "dstType is %jd, expected 2 (INT8)", (intmax_t)a->dst_type);
  EXPECT(block_size_fits(a->row_block_size, down), "rowBlockSize is %jd, expected 1, 64, 128, 256 or 512",
         (intmax_t)a->row_block_size);
  EXPECT(block_size_fits(a->col_block_size, across), "colBlockSize is %jd, expected 64, 128, 192 or 256",
         (intmax_t)a->col_block_size);
  return ST_OK;
}

status prepare_dynamic_block_quant(executor *e, const dynamic_block_quant_args *a) {
  const tensor *x = a->x, *y = a->y_out, *scale = a->scale_out;
  const int r = x->rank;
  int64_t dims[MAX_RANK];
  block_quant_plan *p = PLAN(e, block_quant_plan);
  TRY(op_expect_dtype(x, "x", DTYPES_FLOAT_TO_32));
  TRY(op_expect_rank(x, "x", 2, 3));
  TRY(block_quant_attributes(a));
  *p = (block_quant_plan){.matrices = r == 3 ? x->dims[0] : 1,
                          .rows = x->dims[r - 2],
                          .cols = x->dims[r - 1],
                          .row_block = a->row_block_size,
                          .col_block = a->col_block_size,
                          .most_scale = a->min_scale > 0 ? (float)(1 / a->min_scale) : INFINITY,
                          .load = loops->load[x->dtype][COMPUTE_F32],
                          .store = loops->store[ACL_INT8][COMPUTE_F32]};
  p->down = (p->rows + p->row_block - 1) / p->row_block;
  p->across = (p->cols + p->col_block - 1) / p->col_block;
  TRY(op_expect_dtype(y, "yOut", DTYPE_BIT(ACL_INT8)));
  TRY(op_expect_same_shape(y, "yOut", x));
  memcpy(dims, x->dims, sizeof dims);
  dims[r - 2] = p->down;
  dims[r - 1] = p->across;
  TRY(op_expect_dtype(scale, "scaleOut", DTYPE_BIT(ACL_FLOAT)));
  TRY(op_expect_shape(scale, "scaleOut", dims, r));
  block_quant_strides(x, p->x);
  block_quant_strides(y, p->y);
  block_quant_strides(scale, p->scale);
  executor_cost(e, (uint64_t)x->n * (2 * dtype_bytes(x->dtype) + 1), (uint64_t)x->n * 8);
  e->run = x->n ? run_block_quant : move_run_nothing;
  return ST_OK;
}
