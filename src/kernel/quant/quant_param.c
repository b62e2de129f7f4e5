/* SPDX-License-Identifier: Apache-2.0 */
/* TransQuantParamV2 and TransQuantParamV3: pack scales and offsets into 64-bit words. */
#include "kernel/quant/quant_param.h"

#include <math.h>

#include "kernel/engine/loops.h"
#include "kernel/families.h"
#include "kernel/move/check.h"

enum { SCALE_CUT = 0x1fff, OFFSET_BIT = 37, OFFSET_MASK = 0x1ff, OFFSET_MOST = 255, SIGN_BIT = 256, SET_BIT = 46 };

uint64_t quant_param_pack(float scale, float offset) {
  const float whole = rintf(offset);
  const int bounded = whole > OFFSET_MOST ? OFFSET_MOST : whole < -OFFSET_MOST - 1 ? -OFFSET_MOST - 1 : (int)whole;
  return (bits_of_float(scale) & ~(uint32_t)SCALE_CUT) | UINT64_C(1) << SET_BIT |
         (uint64_t)(bounded & OFFSET_MASK) << OFFSET_BIT;
}

float quant_param_scale(uint64_t word) { return float_of_bits((uint32_t)word & ~(uint32_t)SCALE_CUT); }

int quant_param_offset(uint64_t word) {
  const int bits = (int)(word >> OFFSET_BIT & OFFSET_MASK);
  return bits - 2 * (bits & SIGN_BIT);
}

typedef struct {
  int64_t n;
  int64_t scale, offset, out; /* strides in bytes; 0: one value for all */
  bool has_offset, rounds;
} quant_param_plan;

/* Rounds to the 19 bits that are used, ties to even. */
static float round_to_19_bits(float scale) {
  const uint32_t bits = bits_of_float(scale), half = (SCALE_CUT >> 1) + (bits >> 13 & 1);
  return float_of_bits(bits + half);
}

static status run_quant_param(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const quant_param_plan *p = PLAN(e, quant_param_plan);
  for (int64_t i = 0; i < p->n; ++i) {
    const float scale = *(const float *)(const void *)((char *)view[TRANS_QUANT_PARAM_SCALE] + i * p->scale);
    const float offset =
        p->has_offset ? *(const float *)(const void *)((char *)view[TRANS_QUANT_PARAM_OFFSET] + i * p->offset) : 0;
    *(uint64_t *)(void *)((char *)view[TRANS_QUANT_PARAM_OUT] + i * p->out) =
        quant_param_pack(p->rounds ? round_to_19_bits(scale) : scale, offset);
  }
  return ST_OK;
}

/* (scale, offset, [roundMode,] out). Shapes are [n], [1] or [1, n]; without an offset, any
 * shape of one or two dimensions. */
status prepare_trans_quant_param(executor *e, const trans_quant_param_args *a) {
  const tensor *scale = a->scale, *offset = a->offset, *out = a->out;
  const int64_t mode = a->round_mode;
  quant_param_plan *p = PLAN(e, quant_param_plan);
  TRY(op_expect_dtype(scale, "scale", DTYPE_BIT(ACL_FLOAT)));
  if (offset) TRY(op_expect_dtype(offset, "offset", DTYPE_BIT(ACL_FLOAT)));
  TRY(op_expect_dtype(out, "out", DTYPE_BIT(ACL_INT64) | DTYPE_BIT(ACL_UINT64)));
  EXPECT(mode == 0 || mode == 1, "roundMode is %jd, expected 0 or 1", (intmax_t)mode);
  EXPECT(scale->rank >= 1 && scale->rank <= 2 && scale->n, "scale has shape %s, expected 1 or 2 dimensions, not empty",
         SHAPE_OF(scale));
  int64_t dims[2] = {scale->dims[0], scale->rank == 2 ? scale->dims[1] : 0};
  int64_t *const last = &dims[scale->rank - 1];
  if (offset) {
    const bool row = scale->rank == 1 || scale->dims[0] == 1;
    const int64_t n = offset->n;
    EXPECT(row && (offset->rank == 1 || (offset->rank == 2 && offset->dims[0] == 1)) &&
               (n == *last || n == 1 || *last == 1) && n == offset->dims[offset->rank - 1],
           "offset has shape %s, expected 1 or %jd elements in a row, as scale, %s", SHAPE_OF(offset), (intmax_t)*last,
           SHAPE_OF(scale));
    if (scale->rank == 1 && n > *last) *last = n;
    EXPECT(n <= *last, "offset has %jd elements, expected those of scale, %jd", (intmax_t)n, (intmax_t)*last);
  }
  TRY(op_expect_shape(out, "out", dims, scale->rank));
  /* Both dimensions are treated as one; gaps between rows are refused. */
  const tensor *const all[] = {scale, offset, out};
  int64_t step[3] = {0};
  for (int i = 0; i < 3; ++i) {
    if (!all[i] || all[i]->n == 1) continue;
    const view v = view_of(all[i]);
    const int d = v.rank - 1;
    EXPECT(v.rank == 1 || v.dims[0] == 1 || v.strides[0] == v.dims[1] * v.strides[1],
           "%s has gaps between its rows, expected none",
           i == 2 ? "out"
           : i    ? "offset"
                  : "scale");
    step[i] = v.dims[d] == 1 ? v.strides[0] : v.strides[d];
  }
  *p = (quant_param_plan){out->n, step[0], step[1], step[2], offset != NULL, mode == 1};
  executor_cost(e, (uint64_t)out->n * 16, 0);
  e->run = run_quant_param;
  return ST_OK;
}
