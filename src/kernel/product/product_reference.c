/* SPDX-License-Identifier: Apache-2.0 */
/* The reference implementation of GEMM in plain C: every element is a sum in double, in the order of K, which is
 * rounded once to the type of the sums. It fits every plan; tests compare the others with it. */
#include "kernel/product/product.h"

enum { REFERENCE_CHUNK = 128 };

/* Loads n elements of a column of B from row l on, as doubles. */
static void load_column(const product_part *part, const char *b, double *to, int64_t l, int64_t n, int64_t col) {
  const product_plan *p = part->plan;
  if (p->made_b) {
    float made[REFERENCE_CHUNK];
    p->made_b->fetch(part, made, n, l, n, col, 1);
    loops->load[ACL_FLOAT][COMPUTE_F64](to, made, sizeof *made, n);
  } else {
    loops->load[p->b.dtype][COMPUTE_F64](to, b + l * p->b.row_stride + col * p->b.col_stride, p->b.row_stride, n);
  }
}

static double reference_sum(const product_part *part, int64_t row, int64_t col) {
  const product_plan *p = part->plan;
  const int64_t k = p->a.cols, n_terms = p->n_terms ? p->n_terms : 1;
  double sum = 0, x[REFERENCE_CHUNK], y[REFERENCE_CHUNK];
  for (int64_t term = 0; term < n_terms; ++term)
    for (int64_t l = 0, n; l < k; l += n) {
      n = i64_min(REFERENCE_CHUNK, k - l);
      loops->load[p->a.dtype][COMPUTE_F64](
          x, part->a + term * p->a_term_stride + row * p->a.row_stride + l * p->a.col_stride, p->a.col_stride, n);
      load_column(part, part->b ? part->b + term * p->b_term_stride : NULL, y, l, n, col);
      for (int64_t i = 0; i < n; ++i) sum += x[i] * y[i];
    }
  return sum;
}

status product_reference(const void *plan, const void *operands, char *scratch) {
  const product_part *part = operands;
  const product_plan *p = plan;
  const int64_t row_end = part->row + part->rows, col_end = part->col + part->cols;
  (void)scratch;
  for (int64_t row = part->row; row < row_end; ++row)
    for (int64_t col = part->col, n; col < col_end; col += n) {
      _Alignas(64) char sums[REFERENCE_CHUNK * sizeof(double)];
      n = i64_min(REFERENCE_CHUNK, col_end - col);
      for (int64_t j = 0; j < n; ++j) {
        const double sum = reference_sum(part, row, col + j);
        if (p->type == TILE_F64)
          ((double *)(void *)sums)[j] = sum;
        else if (p->type == TILE_I8)
          ((int32_t *)(void *)sums)[j] = (int32_t)sum;
        else
          ((float *)(void *)sums)[j] = (float)sum;
      }
      product_finish(part, row, 1, col, n, sums, n);
    }
  return ST_OK;
}
