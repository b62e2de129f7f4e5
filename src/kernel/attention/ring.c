/* SPDX-License-Identifier: Apache-2.0 */
/* aclnnRingAttentionUpdate, V2: combines the results of two attentions over different keys, using the maxima and sums
 * of their softmaxes. Rows are processed one by one; the softmax statistics [.., 8] hold eight copies of each value. In
 * the layout TND, each sequence's statistics lie as [heads, rows, 8], as FlashAttentionVarLenScore gives them, unless
 * V2's inputSoftmaxLayout is TND, too. */
#include <math.h>
#include <string.h>

#include "kernel/attention/layout.h"
#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/index/places.h"

enum { PREVIOUS, CURRENT, RESULT, SOURCES, TILE = 512, COPIES = 8 };

typedef struct {
  head_view out[SOURCES], top[SOURCES], sum[SOURCES];
  int64_t n_batches, n_heads, n_rows, d;
  bool is_packed; /* the statistics are those of sequences */
  int64_t n_sequences, length_step;
  uint64_t places; /* in scratch: for each row the first row and the length of its sequence */
} ring_plan;

typedef struct {
  const ring_plan *plan;
  void *const *view;
  int64_t (*places)[2];
} ring_job;

static char *row_at(const ring_job *j, const head_view *v, const int64_t *at) {
  return (char *)j->view[v->operand] + at[0] * v->batch + at[1] * v->head + at[2] * v->row;
}

static char *softmax_row(const ring_job *j, const head_view *v, const int64_t *at) {
  if (!j->plan->is_packed) return row_at(j, v, at);
  const int64_t first = j->places[at[2]][0], length = j->places[at[2]][1];
  const int64_t heads = j->plan->n_heads, row = first * heads + at[1] * length + at[2] - first;
  return row_at(j, v, (const int64_t[]){0, row % heads, row / heads});
}

static float softmax_at(const ring_job *j, const head_view *v, const int64_t *at) {
  return *(const float *)(const void *)softmax_row(j, v, at);
}

static void put_softmax(const ring_job *j, const head_view *v, const int64_t *at, float x) {
  char *to = softmax_row(j, v, at);
  for (int i = 0; i < COPIES; ++i) *(float *)(void *)(to + i * v->col) = x;
}

static void ring_join_row(const ring_job *j, const int64_t *at) {
  const ring_plan *p = j->plan;
  float top = -INFINITY, sum = 0, share[2], x[2][TILE];
  for (int s = 0; s < 2; ++s) top = fmaxf(top, softmax_at(j, &p->top[s], at));
  for (int s = 0; s < 2; ++s) {
    const float own = softmax_at(j, &p->top[s], at);
    share[s] = softmax_at(j, &p->sum[s], at) * (own == top ? 1 : expf(own - top));
    sum += share[s];
  }
  for (int s = 0; s < 2; ++s) share[s] = sum == 0 ? 0 : share[s] / sum;
  for (int64_t i = 0, n; i < p->d; i += n) {
    n = i64_min(TILE, p->d - i);
    for (int s = 0; s < 2; ++s)
      loops->load[p->out[s].dtype][COMPUTE_F32](x[s], row_at(j, &p->out[s], at) + i * p->out[s].col, p->out[s].col, n);
    attention_rows->axpby(x[0], share[0], x[1], share[1], n);
    const head_view *to = &p->out[RESULT];
    loops->store[to->dtype][COMPUTE_F32](row_at(j, to, at) + i * to->col, to->col, x[0], n);
  }
  put_softmax(j, &p->top[RESULT], at, top);
  put_softmax(j, &p->sum[RESULT], at, sum);
}

static void ring_range(const void *job, int64_t begin, int64_t end) {
  const ring_plan *p = ((const ring_job *)job)->plan;
  for (int64_t i = begin; i < end; ++i)
    ring_join_row(job, (const int64_t[]){i / p->n_rows / p->n_heads, i / p->n_rows % p->n_heads, i % p->n_rows});
}

/* Reads the sequences' ends, which begin with 0 and end with the number of rows. */
static status ring_read_sequences(const ring_job *j) {
  const ring_plan *p = j->plan;
  const char *const ends = j->view[RING_ATTENTION_ACTUAL_SEQ_QLEN];
  int64_t begin = 0;
  for (int64_t i = 0; i < p->n_sequences; ++i) {
    const int64_t end = *(const int64_t *)(const void *)(ends + i * p->length_step);
    const bool last = i + 1 == p->n_sequences;
    if (end < begin || end > p->n_rows || (!i && end) || (last && end != p->n_rows))
      return places_fail("actualSeqQlenOptional", i, end, last ? p->n_rows : begin, i ? p->n_rows : 0);
    for (int64_t row = begin; row < end; ++row) {
      j->places[row][0] = begin;
      j->places[row][1] = end - begin;
    }
    begin = end;
  }
  return ST_OK;
}

static status ring_run(const executor *e, void *const *view, void *scratch) {
  const ring_plan *p = PLAN(e, ring_plan);
  ring_job j = {.plan = p, .view = view};
  if (p->is_packed) {
    j.places = (void *)((char *)scratch + p->places);
    TRY(ring_read_sequences(&j));
  }
  rows_parallel(ring_range, &j, p->n_batches * p->n_heads * p->n_rows, 1, e->cost_ns);
  return ST_OK;
}

/* Whether the statistics are those of sequences, whose ends the call then has. */
static status ring_plan_sequences(executor *e, ring_plan *p, const ring_attention_args *a, bool flat) {
  const char *const layout = a->input_softmax_layout;
  const tensor *ends = a->actual_seq_qlen;
  const bool same = layout && !strcmp(layout, "TND");
  EXPECT(!layout || !*layout || same || !strcmp(layout, "SBH"),
         "inputSoftmaxLayoutOptional is \"%.32s\", expected \"\", \"SBH\" or \"TND\"", layout);
  p->is_packed = flat && !same;
  if (!p->is_packed) return ST_OK;
  EXPECT(ends, "actualSeqQlenOptional is NULL, expected the ends of the sequences in the layout TND");
  TRY(op_expect_dtype(ends, "actualSeqQlenOptional", DTYPE_BIT(ACL_INT64)));
  EXPECT(ends->rank == 1 && ends->n > 1, "actualSeqQlenOptional has shape %s, expected [sequences + 1]",
         SHAPE_OF(ends));
  p->n_sequences = ends->n;
  p->length_step = view_of(ends).strides[0];
  p->places = workspace_intermediate(e, 2 * (uint64_t)a->prev_softmax_max->dims[0] * sizeof(int64_t));
  return ST_OK;
}

status prepare_ring_attention(executor *e, const ring_attention_args *a) {
  /* Behind each result are the maxima and the sums of its softmax. */
  const struct {
    const tensor *out, *top, *sum;
    const char *out_name, *top_name, *sum_name;
    int operand;
  } from[SOURCES] = {{a->prev_attn_out, a->prev_softmax_max, a->prev_softmax_sum, "prevAttnOut", "prevSoftmaxMax",
                      "prevSoftmaxSum", RING_ATTENTION_PREV_ATTN_OUT},
                     {a->cur_attn_out, a->cur_softmax_max, a->cur_softmax_sum, "curAttnOut", "curSoftmaxMax",
                      "curSoftmaxSum", RING_ATTENTION_CUR_ATTN_OUT},
                     {a->attn_out_out, a->softmax_max_out, a->softmax_sum_out, "attnOutOut", "softmaxMaxOut",
                      "softmaxSumOut", RING_ATTENTION_ATTN_OUT_OUT}};
  ring_plan *p = PLAN(e, ring_plan);
  const head_layout *layout;
  const tensor *first = a->prev_attn_out, *top = a->prev_softmax_max;
  TRY(head_layout_find(a->input_layout, "inputLayoutOptional", "SBH", "SBH TND", &layout));
  const bool flat = layout->batch < 0;
  EXPECT(top->rank == (flat ? 3 : 4) && top->dims[top->rank - 1] == 8, "prevSoftmaxMax has shape %s, expected %s",
         SHAPE_OF(top), flat ? "[T, N, 8]" : "[B, N, S, 8]");
  TRY(op_expect_dtype(first, "prevAttnOut", DTYPES_FLOAT_TO_32));
  TRY(ring_plan_sequences(e, p, a, flat));
  head_dims dims;
  for (int s = 0; s < SOURCES; ++s) {
    dims = (head_dims){.heads = top->dims[1]};
    TRY(op_expect_like(from[s].out, from[s].out_name, first));
    TRY(head_view_of(from[s].out, from[s].out_name, from[s].operand, layout, &p->out[s], &dims));
    TRY(softmax_view_of(from[s].top, from[s].top_name, from[s].operand + 1, top->dims, top->rank, &p->top[s]));
    TRY(softmax_view_of(from[s].sum, from[s].sum_name, from[s].operand + 2, top->dims, top->rank, &p->sum[s]));
  }
  EXPECT(dims.heads == top->dims[1] && dims.rows == top->dims[flat ? 0 : 2] && (flat || dims.batches == top->dims[0]),
         "prevSoftmaxMax has shape %s, expected %jd sequences, %jd heads, %jd positions", SHAPE_OF(top),
         (intmax_t)dims.batches, (intmax_t)dims.heads, (intmax_t)dims.rows);
  p->n_batches = dims.batches;
  p->n_heads = dims.heads;
  p->n_rows = dims.rows;
  p->d = dims.d;
  executor_cost(e, 3 * ((uint64_t)first->n * dtype_bytes(first->dtype) + (uint64_t)top->n * 8), (uint64_t)first->n * 3);
  e->run = ring_run;
  return ST_OK;
}
