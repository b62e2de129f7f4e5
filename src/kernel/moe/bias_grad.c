/* SPDX-License-Identifier: Apache-2.0 */
/* GroupedBiasAddGrad and GroupedBiasAddGradV2: sums of the rows of groups, in double. The groups are the matrices of a
 * stack, or ranges of rows whose ends (groupIdxType 0) or sizes (1) a tensor has. */
#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/move/check.h"

enum { TILE = 256 };

typedef struct {
  int64_t n_groups, n_rows, width;     /* n_rows: of a matrix of the stack, or of all groups */
  int64_t grad_group, grad[2], out[2]; /* strides in bytes, by group, row and column */
  int64_t index_step;
  load_loop *load, *load_index; /* load_index: NULL: a stack */
  store_loop *store;
  bool by_size;
  uint64_t ends; /* in scratch, int64 */
} bias_grad_plan;

typedef struct {
  const bias_grad_plan *plan;
  const char *grad;
  char *out;
  const int64_t *ends; /* NULL: a stack */
} bias_grad_job;

/* begin and end number pairs of a group and a tile of columns. */
static void bias_grad_tiles(const void *arg, int64_t begin, int64_t end) {
  const bias_grad_job *j = arg;
  const bias_grad_plan *p = j->plan;
  const int64_t tiles = (p->width + TILE - 1) / TILE;
  for (; begin < end; ++begin) {
    const int64_t g = begin / tiles, column = begin % tiles * TILE, n = i64_min(TILE, p->width - column);
    const int64_t first = j->ends && g ? j->ends[g - 1] : 0, last = j->ends ? j->ends[g] : p->n_rows;
    double sum[TILE] = {0}, row[TILE];
    for (int64_t i = first; i < last; ++i) {
      p->load(row, j->grad + g * p->grad_group + i * p->grad[0] + column * p->grad[1], p->grad[1], n);
      for (int64_t k = 0; k < n; ++k) sum[k] += row[k];
    }
    p->store(j->out + g * p->out[0] + column * p->out[1], p->out[1], sum, n);
  }
}

static status run_bias_grad(const executor *e, void *const *view, void *scratch) {
  const bias_grad_plan *p = PLAN(e, bias_grad_plan);
  int64_t *const ends = p->load_index ? (int64_t *)(void *)((char *)scratch + p->ends) : NULL;
  for (int64_t g = 0, last = 0; ends && g < p->n_groups; ++g, last = ends[g - 1]) {
    int64_t value;
    p->load_index(&value, (const char *)view[BIAS_GRAD_GROUP_IDX] + g * p->index_step, 0, 1);
    ends[g] = p->by_size ? last + value : value;
    if (ends[g] < last || ends[g] > p->n_rows)
      return fail(ST_DEVICE_EXCEPTION, "groupIdxOptional[%jd] is %jd, expected %jd to %jd: gradY has %jd rows",
                  (intmax_t)g, (intmax_t)value, (intmax_t)(p->by_size ? 0 : last),
                  (intmax_t)(p->n_rows - (p->by_size ? last : 0)), (intmax_t)p->n_rows);
  }
  const bias_grad_job job = {p, view[BIAS_GRAD_GRAD_Y], view[e->n_operands - 1], ends};
  rows_parallel(bias_grad_tiles, &job, p->n_groups * ((p->width + TILE - 1) / TILE), 1, e->cost_ns);
  return ST_OK;
}

status prepare_bias_grad(executor *e, const bias_grad_args *a) {
  const tensor *grad = a->grad_y, *index = a->group_idx, *out = a->out;
  bias_grad_plan *p = PLAN(e, bias_grad_plan);
  TRY(op_expect_dtype(grad, "gradY", DTYPES_FLOAT_TO_32));
  TRY(op_expect_rank(grad, "gradY", index ? 2 : 3, index ? 2 : 3));
  EXPECT(a->group_idx_type == 0 || a->group_idx_type == 1, "groupIdxType is %jd, expected 0 or 1",
         (intmax_t)a->group_idx_type);
  const view from = view_of(grad), to = view_of(out);
  const int last = from.rank - 1;
  *p = (bias_grad_plan){.n_groups = index ? index->n : grad->dims[0],
                        .n_rows = grad->dims[last - 1],
                        .width = grad->dims[last],
                        .grad_group = index ? 0 : from.strides[0],
                        .grad = {from.strides[last - 1], from.strides[last]},
                        .load = loops->load[grad->dtype][COMPUTE_F64],
                        .store = loops->store[grad->dtype][COMPUTE_F64],
                        .by_size = a->group_idx_type == 1};
  TRY(op_expect_dtype(out, "out", DTYPE_BIT(grad->dtype)));
  TRY(op_expect_shape(out, "out", (const int64_t[]){p->n_groups, p->width}, 2));
  p->out[0] = to.strides[0], p->out[1] = to.strides[1];
  if (index) {
    TRY(op_expect_dtype(index, "groupIdxOptional", DTYPES_INDEX));
    TRY(op_expect_rank(index, "groupIdxOptional", 1, 1));
    p->load_index = loops->load[index->dtype][COMPUTE_I64];
    p->index_step = view_of(index).strides[0];
    p->ends = workspace_intermediate(e, (uint64_t)index->n * sizeof(int64_t));
  }
  executor_cost(e, (uint64_t)grad->n * dtype_bytes(grad->dtype), (uint64_t)grad->n * 4);
  e->run = out->n ? run_bias_grad : move_run_nothing;
  return ST_OK;
}
