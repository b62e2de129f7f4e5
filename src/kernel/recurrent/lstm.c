/* SPDX-License-Identifier: Apache-2.0 */
/* Forward pass of a layer of long short-term memory cells: DynamicRNN and DynamicRNNV2. */
#include <string.h>

#include "kernel/families.h"
#include "kernel/recurrent/recurrent.h"

/* Operands after the weights, relative to lstm_plan.rest. There is one weight ([inputs +
 * hidden, 4 hidden]) or there are two. */
enum {
  BIAS,
  LENGTHS,
  INIT_H,
  INIT_C,
  WCI,
  WCF,
  WCO,
  MASK,
  Y,
  OUT_H,
  OUT_C,
  OUT_I,
  OUT_J,
  OUT_F,
  OUT_O,
  OUT_TANH,
  N_REST
};

typedef struct {
  recurrent r;
  float forget_bias;
  int8_t rest; /* number of the first operand after the weights */
  /* one weight for inputs and state */
  bool joined;
  uint64_t gates, h, c, tanh_c, old, weight; /* offsets in the workspace */
} lstm_plan;

/* ---- phase one --------------------------------------------------------------------------------------------------- */

static status lstm_check_weights(const lstm_plan *p, const lstm_args *a) {
  const recurrent *r = &p->r;
  const int64_t joined[] = {r->inputs + r->hidden, 4 * r->hidden}, of_x[] = {r->inputs, 4 * r->hidden},
                of_h[] = {r->hidden, 4 * r->hidden};
  TRY(recurrent_expect(a->b, "b", of_x + 1, 1));
  if (p->joined) return recurrent_expect(a->w, "w", joined, 2);
  TRY(recurrent_expect(a->weight_input, "weight_input", of_x, 2));
  return recurrent_expect(a->weight_hidden, "weight_hidden", of_h, 2);
}

static status lstm_check_operands(lstm_plan *p, const executor *e, const lstm_args *a) {
  TRY(recurrent_mask(&p->r, a->seq_length, "seq_length", a->view.seq_length));
  TRY(recurrent_expect_state(&p->r, a->init_h, "init_h"));
  TRY(recurrent_expect_state(&p->r, a->init_c, "init_c"));
  TRY(recurrent_expect_none(a->wci, "wci"));
  TRY(recurrent_expect_none(a->wcf, "wcf"));
  TRY(recurrent_expect_none(a->wco, "wco"));
  TRY(recurrent_expect_none(a->mask, "mask"));
  for (int i = a->view.y; i <= a->view.tanhc; ++i)
    TRY(recurrent_expect_steps(&p->r, a->all[i].tensor, e->operands[i].name));
  return ST_OK;
}

static status run_lstm(const executor *e, void *const *view, void *scratch);

static void lstm_plan_work(executor *e, lstm_plan *p) {
  const recurrent *r = &p->r;
  const uint64_t state = (uint64_t)(r->batch * r->hidden) * sizeof(float);
  p->gates = workspace_intermediate(e, (uint64_t)r->steps * LSTM_GATES * state);
  p->h = workspace_intermediate(e, state);
  p->c = workspace_intermediate(e, state);
  p->tanh_c = workspace_intermediate(e, state);
  p->old = workspace_intermediate(e, r->mask ? 3 * state : 0);
  const int dtype = r->dtype[p->joined ? LSTM_WEIGHT_INPUT : LSTM_WEIGHT_HIDDEN];
  const matrix weight = recurrent_matrix(NULL, dtype, r->hidden, LSTM_GATES * r->hidden);
  p->weight = workspace_intermediate(e, step_weight_bytes(r, weight));
  const double products = (double)(r->steps * r->batch) * (double)(r->inputs + r->hidden) * (double)(4 * r->hidden);
  executor_products(e, products);
  executor_cost(e, (uint64_t)(r->steps * r->batch * (r->inputs + 8 * r->hidden)) * 4,
                (uint64_t)(products / 2.5) + (uint64_t)(r->steps * r->batch) * r->row_cost_ns * 32);
  e->run = run_lstm;
}

status prepare_lstm(executor *e, const lstm_args *a) {
  lstm_plan *p = PLAN(e, lstm_plan);
  *p = (lstm_plan){.joined = e->op->variant == LSTM_JOINED};
  p->rest = (int8_t)a->view.b;
  TRY(recurrent_attributes(&p->r, a->direction, a->time_major, a->num_proj, a->keep_prob, a->cell_clip));
  EXPECT(!a->use_peephole, "use_peephole is true, expected false");
  TRY(recurrent_gates(&p->r, a->gate_order, "ijfo"));
  EXPECT(!strcmp(a->activation, "tanh"), "activation is \"%.32s\", expected tanh", a->activation);
  p->forget_bias = (float)a->forget_bias;
  TRY(recurrent_sizes(&p->r, e, a->all, a->x, p->joined ? a->w : a->weight_hidden, LSTM_GATES));
  TRY(lstm_check_weights(p, a));
  TRY(lstm_check_operands(p, e, a));
  lstm_plan_work(e, p);
  return ST_OK;
}

/* ---- the task ---------------------------------------------------------------------------------------------------- */

typedef struct {
  const lstm_plan *p;
  void *const *view;
  char *scratch;
  int64_t step;
} lstm_job;

static float *lstm_floats(const lstm_job *j, uint64_t offset, int64_t at) {
  return (float *)(void *)(j->scratch + offset) + at;
}

static void lstm_gates(const lstm_job *j, int64_t row, float *gate[LSTM_GATES]) {
  const recurrent *r = &j->p->r;
  float *const all = lstm_floats(j, j->p->gates, (j->step * r->batch + row) * LSTM_GATES * r->hidden);
  for (int g = 0; g < LSTM_GATES; ++g) gate[g] = all + r->order[g] * r->hidden;
}

/* Runs the cell of one row. Masked elements keep their state, and y is 0. */
static void lstm_step_row(const lstm_job *j, int64_t row, float *const gate[LSTM_GATES]) {
  const lstm_plan *p = j->p;
  const recurrent *r = &p->r;
  const int64_t n = r->hidden, at = (j->step * r->batch + row) * n, state = r->batch * n;
  float *const h = lstm_floats(j, p->h, row * n), *const c = lstm_floats(j, p->c, row * n),
               *const tanh_c = lstm_floats(j, p->tanh_c, row * n);
  const int rest = p->rest;
  if (!r->mask) {
    cells->lstm(gate, p->forget_bias, c, tanh_c, h, n);
    recurrent_store(r, j->view, rest + Y, at, h, n);
  } else {
    float *const old_h = lstm_floats(j, p->old, row * n), *const old_c = old_h + state, *const mask = old_c + state;
    recurrent_mask_row(r, j->view, j->step, row, mask);
    memcpy(old_h, h, (size_t)n * sizeof *h);
    memcpy(old_c, c, (size_t)n * sizeof *c);
    cells->lstm(gate, p->forget_bias, c, tanh_c, h, n);
    cells->blend(c, old_c, mask, n);
    memcpy(old_c, h, (size_t)n * sizeof *h);
    cells->blend(h, old_h, mask, n);
    cells->multiply(old_c, mask, n);
    recurrent_store(r, j->view, rest + Y, at, old_c, n);
  }
  recurrent_store(r, j->view, rest + OUT_H, at, h, n);
  recurrent_store(r, j->view, rest + OUT_C, at, c, n);
  recurrent_store(r, j->view, rest + OUT_TANH, at, tanh_c, n);
  for (int g = 0; g < LSTM_GATES; ++g) recurrent_store(r, j->view, rest + OUT_I + g, at, gate[g], n);
}

static void lstm_step_rows(const void *job, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    float *gate[LSTM_GATES];
    lstm_gates(job, row, gate);
    lstm_step_row(job, row, gate);
  }
}

/* The gates' weighted sums over the inputs, of all steps. */
static status lstm_sum_inputs(const lstm_job *j, matrix w_x, matrix gates) {
  const recurrent *r = &j->p->r;
  const int bias = j->p->rest + BIAS;
  const matrix x = recurrent_matrix(j->view[LSTM_X], r->dtype[LSTM_X], r->steps * r->batch, r->inputs);
  matrix b = recurrent_matrix(j->view[bias], r->dtype[bias], x.rows, gates.cols);
  b.row_stride = 0;
  return recurrent_matrix_product(x, w_x, gates, b.at ? &b : NULL);
}

static status run_lstm(const executor *e, void *const *view, void *scratch) {
  const lstm_plan *p = PLAN(e, lstm_plan);
  const recurrent *r = &p->r;
  const int64_t n_state = r->batch * r->hidden, columns = LSTM_GATES * r->hidden;
  lstm_job j = {.p = p, .view = view, .scratch = scratch};
  /* A joined weight is the same operand as the weight of the input. */
  const matrix w =
      recurrent_matrix(view[LSTM_WEIGHT_INPUT], r->dtype[LSTM_WEIGHT_INPUT], r->inputs + r->hidden, columns);
  const matrix w_h = p->joined
                         ? recurrent_matrix_rows(w, r->inputs, r->hidden)
                         : recurrent_matrix(view[LSTM_WEIGHT_HIDDEN], r->dtype[LSTM_WEIGHT_HIDDEN], r->hidden, columns);
  const matrix gates = recurrent_matrix(lstm_floats(&j, p->gates, 0), ACL_FLOAT, r->steps * r->batch, columns);
  const matrix h = recurrent_matrix(lstm_floats(&j, p->h, 0), ACL_FLOAT, r->batch, r->hidden);
  TRY(lstm_sum_inputs(&j, recurrent_matrix_rows(w, 0, r->inputs), gates));
  recurrent_load(r, view, p->rest + INIT_H, 0, lstm_floats(&j, p->h, 0), n_state);
  recurrent_load(r, view, p->rest + INIT_C, 0, lstm_floats(&j, p->c, 0), n_state);
  const step_weight weight = step_weight_of(w_h, r, j.scratch + p->weight);
  for (int64_t s = 0; s < r->steps; ++s) {
    j.step = recurrent_step(r, s);
    TRY(step_weight_multiply(&weight, h, recurrent_matrix_rows(gates, j.step * r->batch, r->batch), true));
    rows_parallel(lstm_step_rows, &j, r->batch, 1, (uint64_t)r->batch * r->row_cost_ns);
  }
  return ST_OK;
}
