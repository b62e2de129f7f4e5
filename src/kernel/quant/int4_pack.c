/* SPDX-License-Identifier: Apache-2.0 */
/* ConvertWeightToINT4Pack: numbers of int32 from -8 to 7 become int4, two per byte. */
#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/move/check.h"
#include "kernel/quant/nibbles.h"

typedef struct {
  walk walk;      /* operand 0: the weight */
  uint64_t bytes; /* in scratch: its numbers as int8 */
} int4_pack_plan;

static status run_int4_pack(const executor *e, void *const *view, void *scratch) {
  const int4_pack_plan *p = PLAN(e, int4_pack_plan);
  int8_t *const bytes = (int8_t *)scratch + p->bytes;
  const int64_t step = p->walk.strides[0][p->walk.rank - 1];
  cursor c;
  cursor_start(&c, &p->walk, &view[INT4_PACK_WEIGHT], 0);
  for (int64_t i = 0, n; i < p->walk.n; i += n, cursor_next(&c, n)) {
    n = cursor_row(&c, p->walk.n - i);
    for (int64_t k = 0; k < n; ++k) {
      const int32_t x = *(const int32_t *)(const void *)(c.at[0] + k * step);
      bytes[i + k] = (int8_t)(x < -8 ? -8 : x > 7 ? 7 : x);
    }
  }
  nibbles_pack(view[INT4_PACK_WEIGHT_INT4_PACK], bytes, p->walk.n);
  return ST_OK;
}

status prepare_int4_pack(executor *e, const int4_pack_args *a) {
  const tensor *weight = a->weight, *out = a->weight_int4_pack;
  int4_pack_plan *p = PLAN(e, int4_pack_plan);
  TRY(op_expect_dtype(weight, "weight", DTYPE_BIT(ACL_INT32)));
  TRY(op_expect_rank(weight, "weight", 2, 3));
  TRY(op_expect_dtype(out, "weightInt4Pack", DTYPES_NIBBLES));
  EXPECT(weight->dims[weight->rank - 1] % 2 == 0, "weight has shape %s, expected an even last dimension",
         SHAPE_OF(weight));
  TRY(nibbles_operand(e, INT4_PACK_WEIGHT_INT4_PACK, out, "weightInt4Pack", weight->dims, weight->rank));
  const view from = view_of(weight);
  walk_init(&p->walk, (const view *const[]){&from}, 1, from.rank);
  p->bytes = workspace_intermediate(e, (uint64_t)weight->n);
  executor_cost(e, (uint64_t)weight->n * 5, (uint64_t)weight->n * 32);
  e->run = weight->n ? run_int4_pack : move_run_nothing;
  return ST_OK;
}
