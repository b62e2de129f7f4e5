/* SPDX-License-Identifier: Apache-2.0 */
/* The weight that each step multiplies by. It is packed once (tile_gemm.h) if there are enough steps
 * and rows to be worth it: in blocks of WEIGHT_COLS columns, which threads divide among themselves,
 * each in slices of WEIGHT_DEPTH rows. */
#include "kernel/product/product.h"
#include "kernel/recurrent/recurrent.h"

enum {
  WEIGHT_COLS = 128,  /* times WEIGHT_DEPTH: some 256 KB, which stay in L2 */
  WEIGHT_DEPTH = 512, /* as in GEMM (product_blocks.c) */
  WEIGHT_ROWS = 126,
};

static int64_t weight_pieces(int64_t n, int64_t of) { return (n + of - 1) / of; }

static uint64_t weight_block_bytes(int64_t depth) {
  return tile_b_bytes(TILE_F32, i64_min(depth, WEIGHT_DEPTH), WEIGHT_COLS);
}

uint64_t step_weight_bytes(const recurrent *r, int64_t depth, int64_t cols) {
  if (r->steps == 1 || r->batch <= FEW_ROWS) return 0;
  return (uint64_t)(weight_pieces(depth, WEIGHT_DEPTH) * weight_pieces(cols, WEIGHT_COLS)) * weight_block_bytes(depth);
}

static char *weight_block(const step_weight *w, int64_t block, int64_t slice) {
  return w->packed + (uint64_t)(block * weight_pieces(w->as_it_lies.rows, WEIGHT_DEPTH) + slice) *
                         weight_block_bytes(w->as_it_lies.rows);
}

static void weight_pack_blocks(const void *job, int64_t begin, int64_t end) {
  const step_weight *w = job;
  const matrix *m = &w->as_it_lies;
  for (int64_t block = begin; block < end; ++block)
    for (int64_t row = 0; row < m->rows; row += WEIGHT_DEPTH) {
      const int64_t col = block * WEIGHT_COLS;
      const char *from = (const char *)m->at + row * m->row_stride + col * m->col_stride;
      tile_pack_b(TILE_F32, weight_block(w, block, row / WEIGHT_DEPTH), m->dtype, from, m->row_stride, m->col_stride,
                  i64_min(WEIGHT_DEPTH, m->rows - row), i64_min(WEIGHT_COLS, m->cols - col));
    }
}

step_weight step_weight_of(matrix m, const recurrent *r, void *room) {
  const step_weight w = {.as_it_lies = m, .packed = step_weight_bytes(r, m.rows, m.cols) ? room : NULL};
  if (w.packed)
    rows_parallel(weight_pack_blocks, &w, weight_pieces(m.cols, WEIGHT_COLS), 1, (uint64_t)(m.rows * m.cols) / 4);
  return w;
}

typedef struct {
  const step_weight *w;
  const matrix *a, *out;
  bool add;
} weight_job;

static void weight_multiply_blocks(const void *job, int64_t begin, int64_t end) {
  const weight_job *j = job;
  const matrix *a = j->a, *out = j->out;
  const int64_t depth = a->cols;
  for (int64_t block = begin; block < end; ++block)
    for (int64_t row = 0; row < a->rows; row += WEIGHT_ROWS)
      for (int64_t k = 0; k < depth; k += WEIGHT_DEPTH) {
        const int64_t col = block * WEIGHT_COLS;
        const tile_operand x = {(const char *)a->at + row * a->row_stride + k * a->col_stride, a->row_stride};
        char *c = (char *)out->at + row * out->row_stride + col * out->col_stride;
        tile_multiply(TILE_F32, i64_min(WEIGHT_ROWS, a->rows - row), i64_min(WEIGHT_COLS, out->cols - col),
                      i64_min(WEIGHT_DEPTH, depth - k), x,
                      (tile_operand){weight_block(j->w, block, k / WEIGHT_DEPTH), 0}, c,
                      out->row_stride / (int64_t)sizeof(float), j->add || k > 0);
      }
}

status step_weight_multiply(const step_weight *w, matrix a, matrix out, bool add) {
  if (!w->packed) return recurrent_matrix_product(a, w->as_it_lies, out, add ? &out : NULL);
  const weight_job job = {.w = w, .a = &a, .out = &out, .add = add};
  rows_parallel(weight_multiply_blocks, &job, weight_pieces(out.cols, WEIGHT_COLS), 1,
                product_cost_ns(TILE_F32, out.rows, out.cols, a.cols));
  return ST_OK;
}
