/* SPDX-License-Identifier: Apache-2.0 */
/* Forward pass of a layer of gated recurrent units (DynamicGRUV2). The reset gate is applied
 * after the GEMM with the state. */
#include <string.h>

#include "kernel/families.h"
#include "kernel/recurrent/recurrent.h"

typedef struct {
  recurrent r;
  uint64_t gates, from_h, h, rows, weight; /* offsets in the workspace */
} gru_plan;

enum { ROW_MASK, ROW_OLD, ROW_Y, N_ROWS };

/* ---- phase one --------------------------------------------------------------------------------------------------- */

static status gru_check_operands(gru_plan *p, const executor *e, const gru_args *a) {
  recurrent *r = &p->r;
  const int64_t of_x[] = {r->inputs, 3 * r->hidden}, of_h[] = {r->hidden, 3 * r->hidden};
  TRY(recurrent_expect(a->weight_input, "weight_input", of_x, 2));
  TRY(recurrent_expect(a->weight_hidden, "weight_hidden", of_h, 2));
  TRY(recurrent_expect(a->bias_input, "bias_input", of_x + 1, 1));
  TRY(recurrent_expect(a->bias_hidden, "bias_hidden", of_x + 1, 1));
  TRY(recurrent_mask(r, a->seq_length, "seq_length", GRU_SEQ_LENGTH));
  TRY(recurrent_expect_state(r, a->init_h, "init_h"));
  for (int i = GRU_Y; i <= GRU_HIDDEN_NEW; ++i) TRY(recurrent_expect_steps(r, a->all[i].tensor, e->operands[i].name));
  return ST_OK;
}

static status run_gru(const executor *e, void *const *view, void *scratch);

status prepare_gru(executor *e, const gru_args *a) {
  gru_plan *p = PLAN(e, gru_plan);
  *p = (gru_plan){0};
  recurrent *r = &p->r;
  TRY(recurrent_attributes(r, a->direction, a->time_major, a->num_proj, a->keep_prob, a->cell_clip));
  EXPECT(a->reset_after, "reset_after is false, expected true");
  TRY(recurrent_gates(r, a->gate_order, "rzn"));
  EXPECT(!strcmp(a->activation, "tanh"), "activation is \"%.32s\", expected tanh", a->activation);
  TRY(recurrent_sizes(r, e, a->all, a->x, a->weight_hidden, GRU_GATES));
  TRY(gru_check_operands(p, e, a));
  const uint64_t state = (uint64_t)(r->batch * r->hidden) * sizeof(float);
  p->gates = workspace_intermediate(e, (uint64_t)r->steps * GRU_GATES * state);
  p->from_h = workspace_intermediate(e, GRU_GATES * state);
  p->h = workspace_intermediate(e, state);
  p->rows = workspace_intermediate(e, r->mask ? N_ROWS * state : 0);
  const matrix weight = recurrent_matrix(NULL, r->dtype[GRU_WEIGHT_HIDDEN], r->hidden, GRU_GATES * r->hidden);
  p->weight = workspace_intermediate(e, step_weight_bytes(r, weight));
  const double products = (double)(r->steps * r->batch) * (double)(r->inputs + r->hidden) * (double)(3 * r->hidden);
  executor_products(e, products);
  executor_cost(e, (uint64_t)(r->steps * r->batch * (r->inputs + 6 * r->hidden)) * 4,
                (uint64_t)(products / 2.5) + (uint64_t)(r->steps * r->batch) * r->row_cost_ns * 32);
  e->run = run_gru;
  return ST_OK;
}

/* ---- the task ---------------------------------------------------------------------------------------------------- */

typedef struct {
  const gru_plan *p;
  void *const *view;
  char *scratch;
  int64_t step;
} gru_job;

static float *gru_floats(const gru_job *j, uint64_t offset, int64_t at) {
  return (float *)(void *)(j->scratch + offset) + at;
}

/* Runs the cell of one row. Masked elements keep their state, and y is 0. */
static void gru_step_row(const gru_job *j, int64_t row) {
  const gru_plan *p = j->p;
  const recurrent *r = &p->r;
  const int64_t n = r->hidden, at = (j->step * r->batch + row) * n;
  float *const h = gru_floats(j, p->h, row * n), *gate[GRU_GATES], *from_h[GRU_GATES], *y = h;
  for (int g = 0; g < GRU_GATES; ++g) {
    gate[g] = gru_floats(j, p->gates, at * GRU_GATES + r->order[g] * n);
    from_h[g] = gru_floats(j, p->from_h, row * n * GRU_GATES + r->order[g] * n);
  }
  if (!r->mask) {
    cells->gru(gate, (const float *const *)from_h, h, n);
  } else {
    float *const rows = gru_floats(j, p->rows, row * n * N_ROWS), *const mask = rows + ROW_MASK * n,
                 *const old = rows + ROW_OLD * n;
    y = rows + ROW_Y * n;
    recurrent_mask_row(r, j->view, j->step, row, mask);
    memcpy(old, h, (size_t)n * sizeof *h);
    cells->gru(gate, (const float *const *)from_h, h, n);
    memcpy(y, h, (size_t)n * sizeof *h);
    cells->multiply(y, mask, n);
    cells->blend(h, old, mask, n);
  }
  recurrent_store(r, j->view, GRU_Y, at, y, n);
  recurrent_store(r, j->view, GRU_OUTPUT_H, at, h, n);
  recurrent_store(r, j->view, GRU_UPDATE, at, gate[GRU_Z], n);
  recurrent_store(r, j->view, GRU_RESET, at, gate[GRU_R], n);
  recurrent_store(r, j->view, GRU_NEW, at, gate[GRU_N], n);
  recurrent_store(r, j->view, GRU_HIDDEN_NEW, at, from_h[GRU_N], n);
}

static void gru_step_rows(const void *job, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) gru_step_row(job, row);
}

static status run_gru(const executor *e, void *const *view, void *scratch) {
  const gru_plan *p = PLAN(e, gru_plan);
  const recurrent *r = &p->r;
  const int64_t columns = GRU_GATES * r->hidden, rows = r->steps * r->batch;
  gru_job j = {.p = p, .view = view, .scratch = scratch};
  const matrix w_x = recurrent_matrix(view[GRU_WEIGHT_INPUT], r->dtype[GRU_WEIGHT_INPUT], r->inputs, columns);
  const matrix w_h = recurrent_matrix(view[GRU_WEIGHT_HIDDEN], r->dtype[GRU_WEIGHT_HIDDEN], r->hidden, columns);
  const matrix from_h = recurrent_matrix(gru_floats(&j, p->from_h, 0), ACL_FLOAT, r->batch, columns);
  const matrix h = recurrent_matrix(gru_floats(&j, p->h, 0), ACL_FLOAT, r->batch, r->hidden);
  const step_weight weight = step_weight_of(w_h, r, j.scratch + p->weight);
  matrix b_x = recurrent_matrix(view[GRU_BIAS_INPUT], r->dtype[GRU_BIAS_INPUT], rows, columns);
  b_x.row_stride = 0;
  TRY(recurrent_matrix_product(recurrent_matrix(view[GRU_X], r->dtype[GRU_X], rows, r->inputs), w_x,
                               recurrent_matrix(gru_floats(&j, p->gates, 0), ACL_FLOAT, rows, columns),
                               b_x.at ? &b_x : NULL));
  recurrent_load(r, view, GRU_INIT_H, 0, gru_floats(&j, p->h, 0), r->batch * r->hidden);
  for (int64_t s = 0; s < r->steps; ++s) {
    j.step = recurrent_step(r, s);
    for (int64_t row = 0; row < r->batch; ++row)
      recurrent_load(r, view, GRU_BIAS_HIDDEN, 0, gru_floats(&j, p->from_h, row * columns), columns);
    TRY(step_weight_multiply(&weight, h, from_h, true));
    rows_parallel(gru_step_rows, &j, r->batch, 1, (uint64_t)r->batch * r->row_cost_ns);
  }
  return ST_OK;
}
