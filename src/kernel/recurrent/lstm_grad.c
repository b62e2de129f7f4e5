/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient of a layer of long short-term memory cells: DynamicRNNGrad and DynamicRNNV2Grad. First, from the step that
 * ran last to the one that ran first: the gradients of the gates, which are kept in workspace, and from them the
 * gradient of the state. Then, over all steps at once: the gradients of x, the weights and the bias. */
#include <string.h>

#include "kernel/families.h"
#include "kernel/recurrent/recurrent.h"

/* Operands after the weights (and the bias of the joined form), relative to lstm_grad_plan.rest. */
enum {
  IN_Y,
  INIT_H,
  INIT_C,
  IN_H,
  IN_C,
  D_Y,
  D_H,
  D_C,
  IN_I,
  IN_J,
  IN_F,
  IN_O,
  IN_TANH,
  LENGTHS,
  N_READ = LENGTHS + 5
};

typedef struct {
  recurrent r;
  bool joined;
  int8_t rest;                                 /* operand number of IN_Y */
  int8_t dw_x, dw_h, db, dx, dh_prev, dc_prev; /* operand numbers */
  uint64_t d_gates, dh, dc, rows, weight;      /* offsets in the workspace */
} lstm_grad_plan;

enum { ROW_I, ROW_J, ROW_F, ROW_O, ROW_TANH, ROW_C, ROW_DH, ROW_MASK, ROW_KEPT_H, ROW_KEPT_C, N_ROWS };

/* ---- phase one --------------------------------------------------------------------------------------------------- */

static status lstm_grad_check_weights(const lstm_grad_plan *p, const lstm_grad_args *a) {
  const recurrent *r = &p->r;
  const int64_t joined[] = {r->inputs + r->hidden, 4 * r->hidden}, of_x[] = {r->inputs, 4 * r->hidden},
                of_h[] = {r->hidden, 4 * r->hidden};
  const int64_t *const first = p->joined ? joined : of_x;
  TRY(recurrent_expect(p->joined ? a->w : a->w_x, p->joined ? "w" : "w_x", first, 2));
  TRY(p->joined ? recurrent_expect(a->b, "b", of_x + 1, 1) : recurrent_expect(a->w_h, "w_h", of_h, 2));
  TRY(recurrent_expect(p->joined ? a->dw : a->dw_x, p->joined ? "dw" : "dw_x", first, 2));
  if (!p->joined) TRY(recurrent_expect(a->dw_h, "dw_h", of_h, 2));
  return recurrent_expect(a->db, "db", of_x + 1, 1);
}

static status lstm_grad_check_operands(lstm_grad_plan *p, const executor *e, const lstm_grad_args *a) {
  recurrent *r = &p->r;
  for (int i = p->rest; i < p->rest + LENGTHS; ++i) {
    const int k = i - p->rest;
    const bool state = k == INIT_H || k == INIT_C || k == D_H || k == D_C;
    const tensor *t = a->all[i].tensor;
    TRY(state ? recurrent_expect_state(r, t, e->operands[i].name) : recurrent_expect_steps(r, t, e->operands[i].name));
  }
  TRY(recurrent_mask(r, a->seq_length, "seq_length", LSTM_GRAD_SEQ_LENGTH));
  for (int i = p->rest + LENGTHS + 1; i < p->rest + N_READ; ++i)
    TRY(recurrent_expect_none(a->all[i].tensor, e->operands[i].name));
  TRY(recurrent_expect(a->dx, "dx", a->x->dims, a->x->rank));
  TRY(recurrent_expect_state(r, a->dh_prev, "dh_prev"));
  return recurrent_expect_state(r, a->dc_prev, "dc_prev");
}

static status run_lstm_grad(const executor *e, void *const *view, void *scratch);

static void lstm_grad_plan_work(executor *e, lstm_grad_plan *p) {
  const recurrent *r = &p->r;
  const uint64_t state = (uint64_t)(r->batch * r->hidden) * sizeof(float);
  p->d_gates = workspace_intermediate(e, (uint64_t)r->steps * LSTM_GATES * state);
  p->dh = workspace_intermediate(e, state);
  p->dc = workspace_intermediate(e, state);
  p->rows = workspace_intermediate(e, N_ROWS * state);
  const int dtype = r->dtype[p->joined ? LSTM_GRAD_W_X : LSTM_GRAD_W_H];
  const matrix weight = recurrent_matrix(NULL, dtype, r->hidden, LSTM_GATES * r->hidden);
  p->weight = workspace_intermediate(e, step_weight_bytes(r, recurrent_matrix_transposed(weight)));
  const double products = 2 * (double)(r->steps * r->batch) * (double)(r->inputs + r->hidden) * (double)(4 * r->hidden);
  executor_products(e, products);
  executor_cost(e, (uint64_t)(r->steps * r->batch * (2 * r->inputs + 9 * r->hidden)) * 4,
                (uint64_t)(products / 2.5) + (uint64_t)(r->steps * r->batch) * r->row_cost_ns * 32);
  e->run = run_lstm_grad;
}

status prepare_lstm_grad(executor *e, const lstm_grad_args *a) {
  lstm_grad_plan *p = PLAN(e, lstm_grad_plan);
  *p = (lstm_grad_plan){.joined = e->op->variant == LSTM_GRAD_JOINED, .rest = LSTM_GRAD_Y};
  p->dw_x = p->joined ? LSTM_GRAD_DW : LSTM_GRAD_DW_X;
  p->dw_h = p->joined ? LSTM_GRAD_DW : LSTM_GRAD_DW_H;
  p->db = (int8_t)a->view.db;
  p->dx = (int8_t)a->view.dx;
  p->dh_prev = (int8_t)a->view.dh_prev;
  p->dc_prev = (int8_t)a->view.dc_prev;
  TRY(recurrent_attributes(&p->r, a->direction, a->time_major, a->num_proj, a->keep_prob, a->cell_clip));
  EXPECT(!a->use_peephole, "use_peephole is true, expected false");
  TRY(recurrent_gates(&p->r, a->gate_order, "ijfo"));
  if (!p->joined) EXPECT(!strcmp(a->activation, "tanh"), "activation is \"%.32s\", expected tanh", a->activation);
  TRY(recurrent_sizes(&p->r, e, a->all, a->x, p->joined ? a->w : a->w_x, LSTM_GATES));
  TRY(lstm_grad_check_weights(p, a));
  TRY(lstm_grad_check_operands(p, e, a));
  lstm_grad_plan_work(e, p);
  return ST_OK;
}

/* ---- backward through the steps ---------------------------------------------------------------------------------- */

typedef struct {
  const lstm_grad_plan *p;
  void *const *view;
  char *scratch;
  int64_t step, before; /* before: the preceding step, -1 for the initial state */
} grad_job;

static float *lstm_grad_floats(const grad_job *j, uint64_t offset, int64_t at) {
  return (float *)(void *)(j->scratch + offset) + at;
}

/* Runs one row of the backward step. dh and dc are the gradients of the state after this step; for masked
 * elements they bypass the cell. */
static void lstm_grad_step_row(const grad_job *j, int64_t row) {
  const lstm_grad_plan *p = j->p;
  const recurrent *r = &p->r;
  const int64_t n = r->hidden, at = (j->step * r->batch + row) * n, rest = p->rest;
  float *const dh = lstm_grad_floats(j, p->dh, row * n), *const dc = lstm_grad_floats(j, p->dc, row * n);
  float *buffer[N_ROWS], *d_gate[LSTM_GATES];
  for (int k = 0; k < N_ROWS; ++k) buffer[k] = lstm_grad_floats(j, p->rows, (row * N_ROWS + k) * n);
  for (int g = 0; g < LSTM_GATES; ++g) {
    recurrent_load(r, j->view, (int)rest + IN_I + g, at, buffer[ROW_I + g], n);
    d_gate[g] = lstm_grad_floats(j, p->d_gates, at * LSTM_GATES + r->order[g] * n);
  }
  recurrent_load(r, j->view, (int)rest + IN_TANH, at, buffer[ROW_TANH], n);
  if (j->before < 0)
    recurrent_load(r, j->view, (int)rest + INIT_C, row * n, buffer[ROW_C], n);
  else
    recurrent_load(r, j->view, (int)rest + IN_C, (j->before * r->batch + row) * n, buffer[ROW_C], n);
  recurrent_load(r, j->view, (int)rest + D_Y, at, buffer[ROW_DH], n);
  cells->add(buffer[ROW_DH], dh, n);
  memset(buffer[ROW_KEPT_H], 0, (size_t)n * sizeof(float));
  memset(buffer[ROW_KEPT_C], 0, (size_t)n * sizeof(float));
  if (r->mask) {
    float *const mask = buffer[ROW_MASK];
    recurrent_mask_row(r, j->view, j->step, row, mask);
    cells->multiply(buffer[ROW_DH], mask, n);
    for (int64_t k = 0; k < n; ++k) {
      buffer[ROW_KEPT_H][k] = (1 - mask[k]) * dh[k];
      buffer[ROW_KEPT_C][k] = (1 - mask[k]) * dc[k];
    }
    cells->multiply(dc, mask, n);
  }
  cells->lstm_grad((const float *const *)buffer, buffer[ROW_TANH], buffer[ROW_C], buffer[ROW_DH], dc, d_gate, n);
  if (r->mask) cells->add(dc, buffer[ROW_KEPT_C], n);
  memcpy(dh, buffer[ROW_KEPT_H], (size_t)n * sizeof(float));
}

static void lstm_grad_step_rows(const void *job, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) lstm_grad_step_row(job, row);
}

static status lstm_grad_run_steps(grad_job *j, matrix d_gates, matrix w_h) {
  const recurrent *r = &j->p->r;
  const matrix dh = recurrent_matrix(lstm_grad_floats(j, j->p->dh, 0), ACL_FLOAT, r->batch, r->hidden);
  const step_weight weight = step_weight_of(recurrent_matrix_transposed(w_h), r, j->scratch + j->p->weight);
  const int64_t n_state = r->batch * r->hidden;
  recurrent_load(r, j->view, j->p->rest + D_H, 0, lstm_grad_floats(j, j->p->dh, 0), n_state);
  recurrent_load(r, j->view, j->p->rest + D_C, 0, lstm_grad_floats(j, j->p->dc, 0), n_state);
  for (int64_t s = r->steps - 1; s >= 0; --s) {
    j->step = recurrent_step(r, s);
    j->before = s ? recurrent_step(r, s - 1) : -1;
    rows_parallel(lstm_grad_step_rows, j, r->batch, 1, (uint64_t)r->batch * r->row_cost_ns);
    TRY(step_weight_multiply(&weight, recurrent_matrix_rows(d_gates, j->step * r->batch, r->batch), dh, r->mask));
  }
  recurrent_store(r, j->view, j->p->dh_prev, 0, lstm_grad_floats(j, j->p->dh, 0), n_state);
  recurrent_store(r, j->view, j->p->dc_prev, 0, lstm_grad_floats(j, j->p->dc, 0), n_state);
  return ST_OK;
}

/* ---- all steps at once ------------------------------------------------------------------------------------------- */

static status run_lstm_grad(const executor *e, void *const *view, void *scratch) {
  const lstm_grad_plan *p = PLAN(e, lstm_grad_plan);
  const recurrent *r = &p->r;
  const int64_t columns = LSTM_GATES * r->hidden, rows = r->steps * r->batch;
  grad_job j = {.p = p, .view = view, .scratch = scratch};
  const matrix d_gates = recurrent_matrix(lstm_grad_floats(&j, p->d_gates, 0), ACL_FLOAT, rows, columns);
  /* A joined weight is the same operand as the weight of the input. */
  const matrix w = recurrent_matrix(view[LSTM_GRAD_W_X], r->dtype[LSTM_GRAD_W_X], r->inputs + r->hidden, columns);
  const matrix w_h = p->joined ? recurrent_matrix_rows(w, r->inputs, r->hidden)
                               : recurrent_matrix(view[LSTM_GRAD_W_H], r->dtype[LSTM_GRAD_W_H], r->hidden, columns);
  const matrix dw = recurrent_matrix(view[p->dw_x], r->dtype[p->dw_x], r->inputs + r->hidden, columns);
  const matrix dw_h = p->joined ? recurrent_matrix_rows(dw, r->inputs, r->hidden)
                                : recurrent_matrix(view[p->dw_h], r->dtype[p->dw_h], r->hidden, columns);
  const matrix x = recurrent_matrix(view[LSTM_GRAD_X], r->dtype[LSTM_GRAD_X], rows, r->inputs);
  TRY(lstm_grad_run_steps(&j, d_gates, w_h));
  TRY(recurrent_matrix_product(d_gates, recurrent_matrix_transposed(recurrent_matrix_rows(w, 0, r->inputs)),
                               recurrent_matrix(view[p->dx], r->dtype[p->dx], rows, r->inputs), NULL));
  TRY(recurrent_matrix_product(recurrent_matrix_transposed(x), d_gates, recurrent_matrix_rows(dw, 0, r->inputs), NULL));
  TRY(recurrent_state_weights(r, view, p->rest + INIT_H, p->rest + IN_H, d_gates, dw_h));
  return recurrent_matrix_column_sums(d_gates, recurrent_matrix(view[p->db], r->dtype[p->db], 1, columns));
}
