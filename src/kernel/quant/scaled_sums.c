/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/quant/scaled_sums.h"

#include <string.h>

#include "kernel/engine/level_choice.h"
#include "kernel/quant/quant_param.h"

LEVEL_CHOICE(quant_sums_table, quant_sums, quant_sums_table)

const double *column_values_load(const column_values *c, const char *from, bool offsets, double *to, int64_t n) {
  if (c->dtype == COLUMN_VALUES_ABSENT) return NULL;
  if (c->dtype != ACL_INT64 && c->dtype != ACL_UINT64) {
    loops->load[c->dtype][COMPUTE_F64](to, from, c->step, n);
    return to;
  }
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t word = *(const uint64_t *)(const void *)(from + i * c->step);
    to[i] = offsets ? quant_param_offset(word) : (double)quant_param_scale(word);
  }
  return to;
}

/* Returns the bias for this row: one for all matrices, or one per matrix of the batch. */
static const double *scaled_sums_bias(const double *bias, const product_part *part, int64_t row) {
  const scaled_sums *s = part->call->context;
  return bias && s->biases > 1 ? bias + (part->batch + row / s->rows) * part->plan->b.cols : bias;
}

static void store_sums(const product_part *part, int64_t row, int64_t rows, int64_t col, int64_t cols, const char *sums,
                       int64_t ld) {
  const double *const biases = ((const scaled_sums *)part->call->context)->columns.before;
  const matrices *out = &part->plan->out;
  for (int64_t i = row; i < row + rows; ++i, sums += ld * (int64_t)sizeof(int32_t)) {
    const int32_t *const from = (const int32_t *)(const void *)sums;
    const double *const bias = scaled_sums_bias(biases, part, i);
    char *const to = part->out + i * out->row_stride;
    for (int64_t j = 0; j < cols; ++j) {
      const uint32_t added = bias ? (uint32_t)(int32_t)bias[col + j] : 0;
      *(int32_t *)(void *)(to + (col + j) * out->col_stride) = (int32_t)((uint32_t)from[j] + added);
    }
  }
}

void scaled_sums_finish(const product_part *part, int64_t row, int64_t rows, int64_t col, int64_t cols,
                        const char *sums, int64_t ld) {
  enum { CHUNK = 512 };
  _Alignas(64) float x[CHUNK];
  const scaled_sums *s = part->call->context;
  const column_scales *const all = &s->columns;
  const matrices *out = &part->plan->out;
  if (out->dtype == ACL_INT32) {
    store_sums(part, row, rows, col, cols, sums, ld);
    return;
  }
  store_loop *const store = loops->store[out->dtype][COMPUTE_F32];
  for (int64_t i = row; i < row + rows; ++i, sums += ld * (int64_t)sizeof(int32_t)) {
    float by_row = 1;
    const double *const before = scaled_sums_bias(all->before, part, i);
    const double *const after = out->dtype == ACL_INT8 ? all->after : scaled_sums_bias(all->after, part, i);
    if (s->row_scale) memcpy(&by_row, s->row_scale + i % s->rows * s->row_scale_step, sizeof by_row);
    for (int64_t j = 0, n; j < cols; j += n) {
      n = i64_min(CHUNK, cols - j);
      const int64_t at = col + j;
      const column_scales c = {
          .before = before ? before + at : NULL, .scale = all->scale + at, .after = after ? after + at : NULL};
      quant_sums->scale(x, (const int32_t *)(const void *)sums + j, &c, by_row, out->dtype == ACL_INT8, n);
      if (s->activation) s->activation(x, (const void *const[]){x, x, x}, &s->activation_parameter, n);
      store(part->out + i * out->row_stride + at * out->col_stride, out->col_stride, x, n);
    }
  }
}
