/* SPDX-License-Identifier: Apache-2.0 */
/* ApplyTopKTopP: in each row of logits, values smaller than the k-th largest become -infinity. Of the
 * probabilities of the others, the smallest ones, whose sum is at most 1 - p, become -infinity as well; the
 * largest always stays. Sums are in double. */
#include <math.h>

#include "kernel/engine/rows.h"
#include "kernel/engine/scratch.h"
#include "kernel/families.h"
#include "kernel/move/check.h"
#include "kernel/sort/sort.h"

typedef struct {
  int64_t n_rows, n;
  int64_t row, column, to, to_column; /* strides in bytes */
  int64_t p_step, k_step;
  bool has_p, has_k;
  load_loop *load;
  store_loop *store;
} top_k_top_p_plan;

typedef struct {
  const top_k_top_p_plan *plan;
  const char *logits, *p, *k;
  char *out;
  status *result;
} top_k_top_p_job;

/* Returns how many of the ascending values are smaller than the k-th largest. */
static int64_t below_top_k(const float *sorted, int64_t n, int64_t k) {
  if (k <= 0 || k >= n) return 0;
  int64_t cut = n - k;
  while (cut > 0 && !(sorted[cut - 1] < sorted[n - k])) --cut;
  return cut;
}

/* Returns how many of the ascending values are outside of the top p, including the first
 * `cut`, which are excluded already. */
static int64_t below_top_p(const float *sorted, int64_t n, int64_t cut, double p) {
  const double most = sorted[n - 1];
  double total = 0, sum = 0;
  for (int64_t i = cut; i < n; ++i) total += exp(sorted[i] - most);
  for (; cut < n - 1; ++cut) {
    sum += exp(sorted[cut] - most);
    if (!(sum / total <= 1 - p)) break;
  }
  return cut;
}

static void top_k_top_p_row(const top_k_top_p_job *j, int64_t row, char *scratch) {
  const top_k_top_p_plan *q = j->plan;
  const sort_loops *sort = &sorts->of[COMPUTE_F32];
  const int64_t n = q->n;
  float *const x = (float *)(void *)scratch, *const sorted = x + n;
  int32_t *const numbers = (int32_t *)(void *)(sorted + n);
  char *const entries = scratch + (3 * n + 1) / 2 * 2 * (int64_t)sizeof(float), *const spare =
                                                                                    entries + n * sort->entry_bytes;
  q->load(x, j->logits + row * q->row, q->column, n);
  sort->pack(entries, x, 0, n, false);
  sort->unpack(sorted, numbers, sort->sort(entries, spare, n), n, false);
  int64_t cut = 0;
  if (q->has_k) cut = below_top_k(sorted, n, *(const int32_t *)(const void *)(j->k + row * q->k_step));
  if (q->has_p) {
    float p;
    q->load(&p, j->p + row * q->p_step, 0, 1);
    cut = below_top_p(sorted, n, cut, p);
  }
  for (int64_t i = 0; i < cut; ++i) x[numbers[i]] = -INFINITY;
  q->store(j->out + row * q->to, q->to_column, x, n);
}

static void top_k_top_p_range(const void *arg, int64_t begin, int64_t end) {
  const top_k_top_p_job *j = arg;
  const size_t per_element = 3 * sizeof(float) + 2 * (size_t)sorts->of[COMPUTE_F32].entry_bytes;
  char *const scratch = scratch_take((size_t)j->plan->n * per_element + 64);
  if (!scratch) {
    __atomic_store_n(j->result, ST_NO_MEMORY, __ATOMIC_RELAXED);
    return;
  }
  for (; begin < end; ++begin) top_k_top_p_row(j, begin, scratch);
}

static status run_top_k_top_p(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const top_k_top_p_plan *q = PLAN(e, top_k_top_p_plan);
  status result = ST_OK;
  const top_k_top_p_job job = {
      q, view[TOP_K_TOP_P_LOGITS], view[TOP_K_TOP_P_P], view[TOP_K_TOP_P_K], view[TOP_K_TOP_P_OUT], &result};
  rows_parallel(top_k_top_p_range, &job, q->n_rows, 1, e->cost_ns);
  return result;
}

/* (logits [rows, n], p [rows], k [rows], out); p or k may be absent. */
status prepare_top_k_top_p(executor *e, const top_k_top_p_args *a) {
  const tensor *logits = a->logits, *p = a->p, *k = a->k, *out = a->out;
  TRY(op_expect_dtype(logits, "logits", DTYPES_FLOAT_TO_32));
  TRY(op_expect_rank(logits, "logits", 2, 2));
  if (!p && !k) return fail(ST_OP_NULL, "p and k are NULL, expected one of them");
  if (p) {
    TRY(op_expect_dtype(p, "p", DTYPE_BIT(logits->dtype)));
    TRY(op_expect_shape(p, "p", logits->dims, 1));
  }
  if (k) {
    TRY(op_expect_dtype(k, "k", DTYPE_BIT(ACL_INT32)));
    TRY(op_expect_shape(k, "k", logits->dims, 1));
  }
  TRY(op_expect_dtype(out, "out", DTYPE_BIT(logits->dtype)));
  TRY(op_expect_shape(out, "out", logits->dims, 2));
  const view from = view_of(logits), to = view_of(out);
  *PLAN(e, top_k_top_p_plan) = (top_k_top_p_plan){.n_rows = from.dims[0],
                                                  .n = from.dims[1],
                                                  .row = from.strides[0],
                                                  .column = from.strides[1],
                                                  .to = to.strides[0],
                                                  .to_column = to.strides[1],
                                                  .p_step = p ? view_of(p).strides[0] : 0,
                                                  .k_step = k ? view_of(k).strides[0] : 0,
                                                  .has_p = p != NULL,
                                                  .has_k = k != NULL,
                                                  .load = loops->load[from.dtype][COMPUTE_F32],
                                                  .store = loops->store[from.dtype][COMPUTE_F32]};
  executor_cost(e, (uint64_t)logits->n * 2 * dtype_bytes(from.dtype), (uint64_t)logits->n * 512);
  e->run = logits->n ? run_top_k_top_p : move_run_nothing;
  return ST_OK;
}
