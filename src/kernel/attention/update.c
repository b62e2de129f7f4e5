/* SPDX-License-Identifier: Apache-2.0 */
/* aclnnAttentionUpdate: combines results of attention over different keys, each with the logarithm of the sum of its
 * softmax. Rows are processed one by one, in float. */
#include <math.h>
#include <stdio.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"

enum { SOURCES = 16 /* the most of the operator's page */, TILE = 512 };

typedef struct {
  int64_t sources, rows, width;
  int64_t lse_step[SOURCES], from_row[SOURCES], from_column[SOURCES]; /* strides in bytes */
  int64_t to_row, to_column, lse_to;
  int local_out, out, lse_out; /* operands; lse_out -1: not wanted */
  load_loop *load;
  store_loop *store;
} attention_update_plan;

typedef struct {
  const attention_update_plan *plan;
  void *const *view;
} attention_update_job;

static void attention_update_rows(const void *arg, int64_t begin, int64_t end) {
  const attention_update_job *j = arg;
  const attention_update_plan *p = j->plan;
  float share[SOURCES], x[TILE], sum_of[TILE];
  for (int64_t row = begin; row < end; ++row) {
    float top = -INFINITY, sum = 0;
    for (int64_t s = 0; s < p->sources; ++s) {
      share[s] = *(const float *)(const void *)((const char *)j->view[s] + row * p->lse_step[s]);
      top = fmaxf(top, share[s]);
    }
    for (int64_t s = 0; s < p->sources; ++s) {
      share[s] = share[s] == top ? 1 : expf(share[s] - top);
      sum += share[s];
    }
    for (int64_t s = 0; s < p->sources; ++s) share[s] = top == -INFINITY ? 0 : share[s] / sum;
    if (p->lse_out >= 0) *(float *)(void *)((char *)j->view[p->lse_out] + row * p->lse_to) = top + logf(sum);
    for (int64_t i = 0, n; i < p->width; i += n) {
      n = i64_min(TILE, p->width - i);
      for (int64_t k = 0; k < n; ++k) sum_of[k] = 0;
      for (int64_t s = 0; s < p->sources; ++s) {
        const char *const from = (const char *)j->view[p->local_out + s] + row * p->from_row[s];
        p->load(x, from + i * p->from_column[s], p->from_column[s], n);
        for (int64_t k = 0; k < n; ++k) sum_of[k] += share[s] * x[k];
      }
      p->store((char *)j->view[p->out] + row * p->to_row + i * p->to_column, p->to_column, sum_of, n);
    }
  }
}

static status attention_update_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const attention_update_plan *p = e->heap;
  const attention_update_job job = {p, view};
  rows_parallel(attention_update_rows, &job, p->rows, 1, e->cost_ns);
  return ST_OK;
}

static status attention_update_sources(attention_update_plan *p, const attention_update_args *a) {
  const tensor *first = a->local_out->value[0];
  TRY(op_expect_dtype(first, "localOut[0]", DTYPES_FLOAT_TO_32));
  TRY(op_expect_rank(first, "localOut[0]", 2, 2));
  p->rows = first->dims[0], p->width = first->dims[1];
  for (int64_t s = 0; s < p->sources; ++s) {
    char lse_name[32], name[32];
    snprintf(lse_name, sizeof lse_name, "lse[%d]", (int)s);
    snprintf(name, sizeof name, "localOut[%d]", (int)s);
    const tensor *lse = a->lse->value[s], *from = a->local_out->value[s];
    TRY(op_expect_dtype(lse, lse_name, DTYPE_BIT(ACL_FLOAT)));
    TRY(op_expect_shape(lse, lse_name, &p->rows, 1));
    TRY(op_expect_like(from, name, first));
    const view v = view_of(from);
    p->lse_step[s] = view_of(lse).strides[0];
    p->from_row[s] = v.strides[0], p->from_column[s] = v.strides[1];
  }
  return ST_OK;
}

status prepare_attention_update(executor *e, const attention_update_args *a) {
  HEAP_PLAN(attention_update_plan, p, e, sizeof *p);
  *p = (attention_update_plan){.sources = (int64_t)a->lse->size};
  EXPECT(p->sources >= 1 && p->sources <= SOURCES, "lse has %jd tensors, expected 1 to %d", (intmax_t)p->sources,
         SOURCES);
  EXPECT(a->local_out->size == a->lse->size, "localOut has %jd tensors, expected %jd", (intmax_t)a->local_out->size,
         (intmax_t)p->sources);
  EXPECT(a->update_type == 0 || a->update_type == 1, "updateType is %jd, expected 0 or 1", (intmax_t)a->update_type);
  EXPECT(a->update_type == 0 || a->lse_out, "lseOut is NULL, expected a tensor where updateType is 1");
  TRY(attention_update_sources(p, a));
  TRY(op_expect_like(a->out, "out", a->local_out->value[0]));
  const view to = view_of(a->out);
  p->to_row = to.strides[0], p->to_column = to.strides[1];
  p->local_out = a->view.local_out, p->out = a->view.out, p->lse_out = -1;
  if (a->update_type == 1) {
    TRY(op_expect_like(a->lse_out, "lseOut", a->lse->value[0]));
    p->lse_out = a->view.lse_out;
    p->lse_to = view_of(a->lse_out).strides[0];
  }
  p->load = loops->load[a->out->dtype][COMPUTE_F32];
  p->store = loops->store[a->out->dtype][COMPUTE_F32];
  executor_cost(e, (uint64_t)(a->out->n * (p->sources + 1)) * dtype_bytes(a->out->dtype),
                (uint64_t)(a->out->n + 32 * p->rows) * (uint64_t)p->sources * 2);
  e->run = attention_update_run;
  return ST_OK;
}
