/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient of a layer of gated recurrent units (DynamicGRUV2Grad), structured like lstm_grad.c. The gradients of the
 * sums over the input and over the state differ for the candidate gate. */
#include <string.h>

#include "kernel/families.h"
#include "kernel/recurrent/recurrent.h"

typedef struct {
  recurrent r;
  uint64_t d_gates, d_from_h, dh, rows, weight; /* offsets in the workspace */
} gru_grad_plan;

enum { ROW_R, ROW_Z, ROW_N, ROW_N_FROM_H, ROW_H, ROW_DH, ROW_MASK, ROW_KEPT, N_ROWS };

/* ---- phase one --------------------------------------------------------------------------------------------------- */

static status gru_grad_expect(const executor *e, const gru_grad_args *a, int operand, const int64_t *dims, int rank) {
  return recurrent_expect(a->all[operand].tensor, e->operands[operand].name, dims, rank);
}

static status gru_grad_check_operands(gru_grad_plan *p, const executor *e, const gru_grad_args *a) {
  static const int8_t weights[][2] = {{GRU_GRAD_WEIGHT_INPUT, GRU_GRAD_DW_INPUT},
                                      {GRU_GRAD_WEIGHT_HIDDEN, GRU_GRAD_DW_HIDDEN}},
                      biases[] = {GRU_GRAD_DB_INPUT, GRU_GRAD_DB_HIDDEN};
  recurrent *r = &p->r;
  for (int k = 0; k < 2; ++k) {
    const int64_t dims[] = {k ? r->hidden : r->inputs, 3 * r->hidden};
    for (int i = 0; i < 2; ++i) TRY(gru_grad_expect(e, a, weights[k][i], dims, 2));
    TRY(gru_grad_expect(e, a, biases[k], dims + 1, 1));
  }
  for (int i = GRU_GRAD_Y; i <= GRU_GRAD_HIDDEN_NEW; ++i)
    TRY(i == GRU_GRAD_INIT_H || i == GRU_GRAD_DH ? recurrent_expect_state(r, a->all[i].tensor, e->operands[i].name)
                                                 : recurrent_expect_steps(r, a->all[i].tensor, e->operands[i].name));
  TRY(recurrent_mask(r, a->seq_length, "seq_length", GRU_GRAD_SEQ_LENGTH));
  TRY(recurrent_expect_none(a->mask, "mask"));
  TRY(recurrent_expect(a->dx, "dx", a->x->dims, a->x->rank));
  return recurrent_expect_state(r, a->dh_prev, "dh_prev");
}

static status run_gru_grad(const executor *e, void *const *view, void *scratch);

status prepare_gru_grad(executor *e, const gru_grad_args *a) {
  gru_grad_plan *p = PLAN(e, gru_grad_plan);
  *p = (gru_grad_plan){0};
  recurrent *r = &p->r;
  TRY(recurrent_attributes(r, a->direction, a->time_major, a->num_proj, a->keep_prob, a->cell_clip));
  EXPECT(a->reset_after, "reset_after is false, expected true");
  TRY(recurrent_gates(r, a->gate_order, "rzn"));
  TRY(recurrent_sizes(r, e, a->all, a->x, a->weight_hidden, GRU_GATES));
  TRY(gru_grad_check_operands(p, e, a));
  const uint64_t state = (uint64_t)(r->batch * r->hidden) * sizeof(float);
  p->d_gates = workspace_intermediate(e, (uint64_t)r->steps * GRU_GATES * state);
  p->d_from_h = workspace_intermediate(e, (uint64_t)r->steps * GRU_GATES * state);
  p->dh = workspace_intermediate(e, state);
  p->rows = workspace_intermediate(e, N_ROWS * state);
  const int dtype = r->dtype[GRU_GRAD_WEIGHT_HIDDEN];
  const matrix weight = recurrent_matrix(NULL, dtype, r->hidden, GRU_GATES * r->hidden);
  p->weight = workspace_intermediate(e, step_weight_bytes(r, recurrent_matrix_transposed(weight)));
  const double products = 2 * (double)(r->steps * r->batch) * (double)(r->inputs + r->hidden) * (double)(3 * r->hidden);
  executor_products(e, products);
  executor_cost(e, (uint64_t)(r->steps * r->batch * (2 * r->inputs + 8 * r->hidden)) * 4,
                (uint64_t)(products / 2.5) + (uint64_t)(r->steps * r->batch) * r->row_cost_ns * 32);
  e->run = run_gru_grad;
  return ST_OK;
}

/* ---- backward through the steps ---------------------------------------------------------------------------------- */

typedef struct {
  const gru_grad_plan *p;
  void *const *view;
  char *scratch;
  int64_t step, before; /* before: the preceding step, -1 for the initial state */
} grad_job;

static float *gru_grad_floats(const grad_job *j, uint64_t offset, int64_t at) {
  return (float *)(void *)(j->scratch + offset) + at;
}

static void gru_grad_load_row(const grad_job *j, int64_t row, float *const buffer[N_ROWS]) {
  const recurrent *r = &j->p->r;
  const int64_t n = r->hidden, at = (j->step * r->batch + row) * n;
  recurrent_load(r, j->view, GRU_GRAD_RESET, at, buffer[ROW_R], n);
  recurrent_load(r, j->view, GRU_GRAD_UPDATE, at, buffer[ROW_Z], n);
  recurrent_load(r, j->view, GRU_GRAD_NEW, at, buffer[ROW_N], n);
  recurrent_load(r, j->view, GRU_GRAD_HIDDEN_NEW, at, buffer[ROW_N_FROM_H], n);
  recurrent_load(r, j->view, GRU_GRAD_DY, at, buffer[ROW_DH], n);
  if (j->before < 0)
    recurrent_load(r, j->view, GRU_GRAD_INIT_H, row * n, buffer[ROW_H], n);
  else
    recurrent_load(r, j->view, GRU_GRAD_H, (j->before * r->batch + row) * n, buffer[ROW_H], n);
}

/* Runs one row of the backward step. dh is the gradient of the state after this step; for masked
 * elements it bypasses the cell. */
static void gru_grad_step_row(const grad_job *j, int64_t row) {
  const gru_grad_plan *p = j->p;
  const recurrent *r = &p->r;
  const int64_t n = r->hidden, at = (j->step * r->batch + row) * n * GRU_GATES;
  float *const dh = gru_grad_floats(j, p->dh, row * n), *const d_from_h = gru_grad_floats(j, p->d_from_h, at);
  float *buffer[N_ROWS], *d_gate[GRU_GATES];
  for (int k = 0; k < N_ROWS; ++k) buffer[k] = gru_grad_floats(j, p->rows, (row * N_ROWS + k) * n);
  for (int g = 0; g < GRU_GATES; ++g) d_gate[g] = gru_grad_floats(j, p->d_gates, at + r->order[g] * n);
  gru_grad_load_row(j, row, buffer);
  cells->add(buffer[ROW_DH], dh, n);
  if (r->mask) {
    recurrent_mask_row(r, j->view, j->step, row, buffer[ROW_MASK]);
    cells->multiply(buffer[ROW_DH], buffer[ROW_MASK], n);
    for (int64_t k = 0; k < n; ++k) buffer[ROW_KEPT][k] = (1 - buffer[ROW_MASK][k]) * dh[k];
  }
  cells->gru_grad((const float *const *)buffer, buffer[ROW_N_FROM_H], buffer[ROW_H], buffer[ROW_DH], d_gate,
                  d_from_h + r->order[GRU_N] * n, n);
  memcpy(d_from_h + r->order[GRU_R] * n, d_gate[GRU_R], (size_t)n * sizeof *dh);
  memcpy(d_from_h + r->order[GRU_Z] * n, d_gate[GRU_Z], (size_t)n * sizeof *dh);
  memcpy(dh, buffer[ROW_DH], (size_t)n * sizeof *dh);
  if (r->mask) cells->add(dh, buffer[ROW_KEPT], n);
}

static void gru_grad_step_rows(const void *job, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) gru_grad_step_row(job, row);
}

static status gru_grad_run_steps(grad_job *j, matrix d_from_h, matrix w_h) {
  const recurrent *r = &j->p->r;
  const matrix dh = recurrent_matrix(gru_grad_floats(j, j->p->dh, 0), ACL_FLOAT, r->batch, r->hidden);
  const step_weight weight = step_weight_of(recurrent_matrix_transposed(w_h), r, j->scratch + j->p->weight);
  recurrent_load(r, j->view, GRU_GRAD_DH, 0, gru_grad_floats(j, j->p->dh, 0), r->batch * r->hidden);
  for (int64_t s = r->steps - 1; s >= 0; --s) {
    j->step = recurrent_step(r, s);
    j->before = s ? recurrent_step(r, s - 1) : -1;
    rows_parallel(gru_grad_step_rows, j, r->batch, 1, (uint64_t)r->batch * r->row_cost_ns);
    TRY(step_weight_multiply(&weight, recurrent_matrix_rows(d_from_h, j->step * r->batch, r->batch), dh, true));
  }
  recurrent_store(r, j->view, GRU_GRAD_DH_PREV, 0, gru_grad_floats(j, j->p->dh, 0), r->batch * r->hidden);
  return ST_OK;
}

/* ---- all steps at once ------------------------------------------------------------------------------------------- */

static matrix operand_matrix(const grad_job *j, int operand, int64_t rows, int64_t cols) {
  return recurrent_matrix(j->view[operand], j->p->r.dtype[operand], rows, cols);
}

static status run_gru_grad(const executor *e, void *const *view, void *scratch) {
  const gru_grad_plan *p = PLAN(e, gru_grad_plan);
  const recurrent *r = &p->r;
  const int64_t columns = GRU_GATES * r->hidden, rows = r->steps * r->batch;
  grad_job j = {.p = p, .view = view, .scratch = scratch};
  const matrix d_gates = recurrent_matrix(gru_grad_floats(&j, p->d_gates, 0), ACL_FLOAT, rows, columns);
  const matrix d_from_h = recurrent_matrix(gru_grad_floats(&j, p->d_from_h, 0), ACL_FLOAT, rows, columns);
  const matrix x = operand_matrix(&j, GRU_GRAD_X, rows, r->inputs),
               w_x = operand_matrix(&j, GRU_GRAD_WEIGHT_INPUT, r->inputs, columns);
  TRY(gru_grad_run_steps(&j, d_from_h, operand_matrix(&j, GRU_GRAD_WEIGHT_HIDDEN, r->hidden, columns)));
  TRY(recurrent_matrix_product(d_gates, recurrent_matrix_transposed(w_x),
                               operand_matrix(&j, GRU_GRAD_DX, rows, r->inputs), NULL));
  TRY(recurrent_matrix_product(recurrent_matrix_transposed(x), d_gates,
                               operand_matrix(&j, GRU_GRAD_DW_INPUT, r->inputs, columns), NULL));
  TRY(recurrent_state_weights(r, view, GRU_GRAD_INIT_H, GRU_GRAD_H, d_from_h,
                              operand_matrix(&j, GRU_GRAD_DW_HIDDEN, r->hidden, columns)));
  TRY(recurrent_matrix_column_sums(d_gates, operand_matrix(&j, GRU_GRAD_DB_INPUT, 1, columns)));
  return recurrent_matrix_column_sums(d_from_h, operand_matrix(&j, GRU_GRAD_DB_HIDDEN, 1, columns));
}
