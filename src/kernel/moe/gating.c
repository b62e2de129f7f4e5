/* SPDX-License-Identifier: Apache-2.0 */
/* MoeGatingTopKSoftmax and MoeGatingTopKSoftmaxV2: the k largest softmax values over the experts for each token,
 * largest first, or with renorm 1 the softmax of the k largest values. Of equal values those of lower expert numbers
 * come first. */
#include "kernel/engine/rows.h"
#include "kernel/engine/scratch.h"
#include "kernel/families.h"
#include "kernel/move/check.h"
#include "kernel/norm/softmax_loops.h"
#include "kernel/sort/sort.h"

enum { OPERANDS = 5, X = 0, Y, EXPERT, ROW, ALL }; /* operands of the walk. Absent ones stand for Y. */

typedef struct {
  walk tokens;
  int64_t along[OPERANDS]; /* strides in bytes, from expert to expert or from choice to choice */
  int64_t n_experts, k;
  load_loop *load;
  store_loop *store;
  int64_t finished; /* step in bytes */
  bool has_finished, renorm, has_row, has_all;
} gating_plan;

typedef struct {
  const gating_plan *plan;
  void *at[OPERANDS];
  const char *finished;
  status *result;
} gating_job;

static void softmax_in_place(float *x, int64_t n) {
  softmax->f32.softmax(&(softmax_matrix){.y = (char *)x, .x = (char *)x, .n = n, .rows = 1, .dtype = ACL_FLOAT});
}

static void gate_softmax_token(const gating_job *j, const cursor *c, int64_t token, char *scratch) {
  const gating_plan *p = j->plan;
  const sort_loops *sort = &sorts->of[COMPUTE_F32];
  float *const x = (float *)(void *)scratch;
  int32_t *const numbers = (int32_t *)(void *)(x + p->n_experts);
  char *const entries = scratch + (2 * p->n_experts + 1) / 2 * 2 * (int64_t)sizeof(float);
  char *const spare = entries + p->n_experts * sort->entry_bytes;
  p->load(x, c->at[X], p->along[X], p->n_experts);
  if (!p->renorm) softmax_in_place(x, p->n_experts);
  if (p->has_all) loops->store[ACL_FLOAT][COMPUTE_F32](c->at[ALL], p->along[ALL], x, p->n_experts);
  sort->pack(entries, x, 0, p->n_experts, true);
  sort->smallest(entries, spare, p->n_experts, p->k);
  sort->unpack(x, numbers, entries, p->k, true);
  if (p->renorm) softmax_in_place(x, p->k);
  p->store(c->at[Y], p->along[Y], x, p->k);
  uint8_t finished = 0;
  if (p->has_finished) finished = *(const uint8_t *)(j->finished + token * p->finished);
  for (int64_t i = 0; i < p->k; ++i) {
    *(int32_t *)(void *)(c->at[EXPERT] + i * p->along[EXPERT]) = finished ? (int32_t)p->n_experts : numbers[i];
    if (p->has_row) *(int32_t *)(void *)(c->at[ROW] + i * p->along[ROW]) = (int32_t)(i * p->tokens.n + token);
  }
}

static void gate_softmax_range(const void *arg, int64_t begin, int64_t end) {
  const gating_job *j = arg;
  const gating_plan *p = j->plan;
  const size_t per_expert = 2 * sizeof(float) + 2 * (size_t)sorts->of[COMPUTE_F32].entry_bytes;
  char *const scratch = scratch_take((size_t)p->n_experts * per_expert + 64);
  if (!scratch) {
    __atomic_store_n(j->result, ST_NO_MEMORY, __ATOMIC_RELAXED);
    return;
  }
  cursor c;
  cursor_start(&c, &p->tokens, j->at, begin);
  for (; begin < end; ++begin, cursor_next(&c, 1)) gate_softmax_token(j, &c, begin, scratch);
}

static status run_gating_softmax(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const gating_plan *p = PLAN(e, gating_plan);
  enum { LAST = MOE_GATING_SOFTMAX_EXPERT_IDX_OUT + 1 }; /* rowIdxOut or softmaxResultOutOptional */
  void *const y = view[MOE_GATING_SOFTMAX_Y_OUT];
  status result = ST_OK;
  const gating_job job = {.plan = p,
                          .at = {view[MOE_GATING_SOFTMAX_X], y, view[MOE_GATING_SOFTMAX_EXPERT_IDX_OUT],
                                 p->has_row ? view[LAST] : y, p->has_all ? view[LAST] : y},
                          .finished = view[MOE_GATING_SOFTMAX_FINISHED],
                          .result = &result};
  rows_parallel(gate_softmax_range, &job, p->tokens.n, 1, e->cost_ns);
  return result;
}

/* (x [.., experts], finishedOptional [..], k, yOut, expertIdxOut, rowIdxOut [.., k]). A finished token
 * gets the number of experts as all of its expert indices. rowIdxOut numbers all choices: first choice 0
 * of all tokens, then choice 1, etc. */
status prepare_moe_gating_softmax(executor *e, const moe_gating_softmax_args *a) {
  const tensor *x = a->x, *finished = a->finished;
  const int64_t k = a->k;
  gating_plan *p = PLAN(e, gating_plan);
  TRY(op_expect_dtype(x, "x", DTYPES_FLOAT_TO_32));
  TRY(op_expect_rank(x, "x", 2, 3));
  const int last = x->rank - 1;
  EXPECT(k > 0 && k <= x->dims[last], "k is %jd, expected 1 to %jd", (intmax_t)k, (intmax_t)x->dims[last]);
  int64_t dims[3];
  for (int d = 0; d <= last; ++d) dims[d] = d == last ? k : x->dims[d];
  TRY(op_expect_dtype(a->y_out, "yOut", DTYPE_BIT(x->dtype)));
  TRY(op_expect_shape(a->y_out, "yOut", dims, x->rank));
  TRY(op_expect_dtype(a->expert_idx_out, "expertIdxOut", DTYPE_BIT(ACL_INT32)));
  TRY(op_expect_shape(a->expert_idx_out, "expertIdxOut", dims, x->rank));
  EXPECT(a->renorm == 0 || a->renorm == 1, "renorm is %jd, expected 0 or 1", (intmax_t)a->renorm);
  const tensor *row = a->row_idx_out, *all = a->output_softmax_result_flag && !a->renorm ? a->softmax_result_out : NULL;
  if (row) {
    TRY(op_expect_dtype(row, "rowIdxOut", DTYPE_BIT(ACL_INT32)));
    TRY(op_expect_shape(row, "rowIdxOut", dims, x->rank));
  }
  EXPECT(all || a->renorm || !a->output_softmax_result_flag,
         "softmaxResultOutOptional is NULL, expected a tensor as outputSoftmaxResultFlag is true");
  if (all) {
    TRY(op_expect_dtype(all, "softmaxResultOutOptional", DTYPE_BIT(ACL_FLOAT)));
    TRY(op_expect_same_shape(all, "softmaxResultOutOptional", x));
  }
  view v[OPERANDS] = {view_of(x), view_of(a->y_out), view_of(a->expert_idx_out), view_of(row ? row : a->y_out),
                      view_of(all ? all : a->y_out)};
  *p = (gating_plan){.n_experts = x->dims[last],
                     .k = k,
                     .load = loops->load[x->dtype][COMPUTE_F32],
                     .store = loops->store[x->dtype][COMPUTE_F32],
                     .has_finished = finished != NULL,
                     .renorm = a->renorm == 1,
                     .has_row = row != NULL,
                     .has_all = all != NULL};
  if (finished) {
    TRY(op_expect_dtype(finished, "finishedOptional", DTYPE_BIT(ACL_BOOL)));
    TRY(op_expect_shape(finished, "finishedOptional", x->dims, last));
    EXPECT(finished->contiguous || finished->rank == 1, "finishedOptional has gaps, expected none");
    p->finished = finished->rank == 1 ? finished->strides[0] : 1;
  }
  const view *views[OPERANDS];
  for (int i = 0; i < OPERANDS; ++i) {
    p->along[i] = v[i].strides[last];
    views[i] = &v[i];
  }
  walk_init(&p->tokens, views, OPERANDS, last);
  executor_cost(e, (uint64_t)x->n * dtype_bytes(x->dtype), (uint64_t)x->n * 96);
  e->run = x->n ? run_gating_softmax : move_run_nothing;
  return ST_OK;
}
