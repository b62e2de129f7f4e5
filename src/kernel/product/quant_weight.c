/* SPDX-License-Identifier: Apache-2.0 */
/* Quantised weights as factors of a GEMM. If x has few rows and the weight is contiguous along K, the weight is read in
 * place and the sum of each group is scaled; otherwise integers are multiplied, where quant_weight_dots.c takes the
 * plan, or blocks of the weight are dequantised to floats for the blocked GEMM. */
#include "kernel/product/quant_weight.h"

#include "kernel/engine/scratch.h"

/* Loads n values of a parameter for one column, from group g on. */
static void load_parameters(const weight_parameters *x, const char *base, int64_t g, int64_t n, int64_t col,
                            float *to) {
  loops->load[x->dtype][COMPUTE_F32](to, base + g * x->group_stride + col * x->col_stride, x->group_stride, n);
}

/* ---- blocked GEMM ------------------------------------------------------------------------------------------------ */

static float weight_at(const weight_quant *q, const char *weight, int64_t row, int64_t col) {
  const int64_t at = row * q->row_stride + col * q->col_stride;
  if (!q->is_int4) return (float)(int8_t)weight[at];
  const int byte = (int8_t)weight[(at + q->first_half) >> 1];
  const int half = (at + q->first_half) & 1 ? byte >> 4 : (byte & 15) - (byte & 8) * 2;
  return (float)half;
}

/* Whether a column's weights from `row` on are contiguous and begin with a whole byte. */
static bool is_dense_from(const weight_quant *q, int64_t row, int64_t col) {
  const int64_t at = row * q->row_stride + col * q->col_stride + q->first_half;
  return q->row_stride == 1 && (!q->is_int4 || at % 2 == 0);
}

static void weight_quant_fetch(const product_part *p, float *to, int64_t pitch, int64_t row, int64_t rows, int64_t col,
                               int64_t cols) {
  const quant_weight *w = p->call->context;
  const weight_quant *q = &w->form;
  const int64_t end = row + rows;
  for (int64_t j = col; j < col + cols; ++j, to += pitch)
    for (int64_t g = row / q->group, l = row, n; l < end; l += n, ++g) {
      float scale, offset = 0;
      n = i64_min(end, (g + 1) * q->group) - l;
      load_parameters(&q->scale, w->scale, g, 1, j, &scale);
      if (q->has_offset) load_parameters(&q->offset, w->offset, g, 1, j, &offset);
      if (is_dense_from(q, l, j)) {
        const int64_t at = l + j * q->col_stride + q->first_half;
        few_rows->dequantise[q->is_int4](to + l - row, p->b + (q->is_int4 ? at / 2 : at), n, scale, offset);
      } else {
        for (int64_t i = l; i < l + n; ++i) to[i - row] = (weight_at(q, p->b, i, j) + offset) * scale;
      }
    }
}

/* ---- small-m GEMM ------------------------------------------------------------------------------------------------ */

/* Scratch of one call; all are arrays of floats. */
typedef struct {
  float *x, *x_sums, *scale, *offset, *sums;
  int64_t x_pitch;
} few_rows_scratch;

enum { CHUNK = 256 };

static status make_scratch(const product_part *p, const weight_quant *q, few_rows_scratch *s) {
  const int64_t k = p->plan->a.cols, rows = p->rows;
  s->x_pitch = (k + GROUP_GRAIN - 1) / GROUP_GRAIN * GROUP_GRAIN;
  const int64_t total = 2 * rows * s->x_pitch + (rows + 2) * q->n_groups + rows * CHUNK;
  s->x = (float *)(void *)scratch_take((size_t)total * sizeof(float));
  if (!s->x) return ST_NO_MEMORY;
  float *const plain = s->x + rows * s->x_pitch; /* x before even and odd elements are separated */
  s->x_sums = plain + rows * s->x_pitch;
  s->scale = s->x_sums + rows * q->n_groups;
  s->offset = s->scale + q->n_groups;
  s->sums = s->offset + q->n_groups;
  const matrices *a = &p->plan->a;
  for (int64_t i = 0; i < rows; ++i) {
    float *const to = (q->is_int4 ? plain : s->x) + i * s->x_pitch;
    loops->load[a->dtype][COMPUTE_F32](to, p->a + i * a->row_stride, a->col_stride, k);
    memset(to + k, 0, (size_t)(s->x_pitch - k) * sizeof *to);
    for (int64_t g = 0; q->has_offset && g < q->n_groups; ++g) {
      float sum = 0;
      for (int64_t l = g * q->group; l < k && l < (g + 1) * q->group; l += REDUCE_BLOCK)
        sum += loops->sum_f32(to + l, i64_min(REDUCE_BLOCK, i64_min(k, (g + 1) * q->group) - l));
      s->x_sums[i * q->n_groups + g] = sum;
    }
    if (q->is_int4) few_rows->split_pairs(s->x + i * s->x_pitch, to, s->x_pitch);
  }
  return ST_OK;
}

static status run_few_rows(const product_part *p) {
  const quant_weight *w = p->call->context;
  const weight_quant *q = &w->form;
  few_rows_scratch s;
  TRY(make_scratch(p, q, &s));
  const int64_t end = p->col + p->cols;
  for (int64_t col = p->col, n; col < end; col += n) {
    n = i64_min(CHUNK, end - col);
    for (int64_t j = col; j < col + n; ++j) {
      load_parameters(&q->scale, w->scale, 0, q->n_groups, j, s.scale);
      if (q->has_offset) load_parameters(&q->offset, w->offset, 0, q->n_groups, j, s.offset);
      const int64_t at = j * q->col_stride;
      few_rows->quantised[q->is_int4]((int)p->rows, p->plan->a.cols, q->group, s.x, s.x_pitch,
                                      p->b + (q->is_int4 ? at / 2 : at), s.scale, q->has_offset ? s.offset : NULL,
                                      s.x_sums, q->n_groups, s.sums + (j - col), CHUNK);
    }
    product_finish(p, 0, p->rows, col, n, (char *)s.sums, CHUNK);
  }
  return ST_OK;
}

const made_factor *weight_quant_factor(const weight_quant *q, const product_plan *p) {
  static const made_factor by_blocks = {.fetch = weight_quant_fetch},
                           by_either = {.fetch = weight_quant_fetch, .few_rows = run_few_rows};
  const bool dense = q->row_stride == 1 && (q->n_groups == 1 || q->group % GROUP_GRAIN == 0) &&
                     (!q->is_int4 || (!q->first_half && q->col_stride % 2 == 0));
  static const made_factor by_all = {
      .fetch = weight_quant_fetch, .few_rows = run_few_rows, .groups = quant_weight_dots};
  if (dense && quant_weight_dots_take(p, q)) return &by_all;
  return dense ? &by_either : &by_blocks;
}
