/* SPDX-License-Identifier: Apache-2.0 */
/* LstmBackward: the gradient of the networks of lstm_network.c, from the values that they have saved. From the last
 * layer to the first, each direction by itself: from the step that ran last to the one that ran first, the gradients of
 * the gates' sums, which are kept in workspace, and from them that of the state; then, over all steps at once, the
 * gradients of the layer's input, weights and biases. The gradient of the input is the output's of the layer below. */
#include <string.h>

#include "kernel/families.h"
#include "kernel/recurrent/network.h"

/* The operands of a layer and direction. */
enum {
  W_X,
  W_H,
  B_X, /* whose values are not needed */
  B_H,
  SAVED_GATES, /* i j f o, as in cells.h */
  SAVED_H = SAVED_GATES + LSTM_GATES,
  SAVED_C,
  SAVED_TANH,
  D_W_X,
  D_W_H,
  D_B_X,
  D_B_H,
  LAYER_OPERANDS
};

typedef struct {
  network n;
  network_operand x, h0, c0, dy, dh, dc, dx, dh0, dc0;
  uint64_t steps, d[2], in, before, d_gates, dh_room, dc_room, rows, weight; /* offsets in the workspace */
  network_operand of[]; /* LAYER_OPERANDS of each layer and direction */
} lstm_network_grad_plan;

enum { ROW_GATES, ROW_TANH = ROW_GATES + LSTM_GATES, ROW_C, ROW_DY, N_ROWS };

/* ---- phase one --------------------------------------------------------------------------------------------------- */

static status check_grad_saved(lstm_network_grad_plan *p, const lstm_network_grad_args *a) {
  const network *n = &p->n;
  const int64_t dims[] = {n->steps, n->batch, n->hidden};
  const struct {
    const aclTensorList *list;
    const char *name;
    int operand, place;
  } saved[] = {{a->i, "i", a->view.i, SAVED_GATES + LSTM_I},
               {a->g, "g", a->view.g, SAVED_GATES + LSTM_J},
               {a->f, "f", a->view.f, SAVED_GATES + LSTM_F},
               {a->o, "o", a->view.o, SAVED_GATES + LSTM_O},
               {a->h, "h", a->view.h, SAVED_H},
               {a->c, "c", a->view.c, SAVED_C},
               {a->tanhc, "tanhc", a->view.tanhc, SAVED_TANH}};
  for (size_t k = 0; k < sizeof saved / sizeof *saved; ++k)
    TRY(network_expect_list(n, saved[k].list, saved[k].name, saved[k].operand, dims, 3, p->of + saved[k].place,
                            LAYER_OPERANDS));
  return ST_OK;
}

static status check_gradients(lstm_network_grad_plan *p, const lstm_network_grad_args *a) {
  const network *n = &p->n;
  TRY(network_expect_sequence(n, a->dy, "dy", a->view.dy, n->directions * n->hidden, &p->dy));
  TRY(network_expect_states(n, a->dh, "dh", a->view.dh, &p->dh));
  TRY(network_expect_states(n, a->dc, "dc", a->view.dc, &p->dc));
  TRY(network_expect_sequence(n, a->dx_out, "dxOut", a->view.dx_out, n->inputs, &p->dx));
  TRY(network_expect_states(n, a->dh_prev_out, "dhPrevOut", a->view.dh_prev_out, &p->dh0));
  TRY(network_expect_states(n, a->dc_prev_out, "dcPrevOut", a->view.dc_prev_out, &p->dc0));
  return network_expect_parameters(n, a->dparams_out, "dparamsOut", a->view.dparams_out, LSTM_GATES, a->has_bias,
                                   p->of + D_W_X, LAYER_OPERANDS, D_B_X - D_W_X);
}

static status run_lstm_network_grad(const executor *e, void *const *view, void *scratch);

static void plan_grad_work(executor *e, lstm_network_grad_plan *p) {
  const network *n = &p->n;
  const uint64_t state = (uint64_t)(n->batch * n->hidden) * sizeof(float), column = (uint64_t)n->rows * sizeof(float);
  const int64_t columns = LSTM_GATES * n->hidden, outputs = n->directions * n->hidden;
  const uint64_t widest = (uint64_t)i64_max(n->inputs, outputs);
  p->steps = workspace_intermediate(e, (uint64_t)n->steps * sizeof(network_step));
  for (int i = 0; i < 2; ++i) p->d[i] = workspace_intermediate(e, column * widest);
  p->in = workspace_intermediate(e, column * widest);
  p->before = workspace_intermediate(e, column * (uint64_t)n->hidden);
  p->d_gates = workspace_intermediate(e, column * (uint64_t)columns);
  p->dh_room = workspace_intermediate(e, state);
  p->dc_room = workspace_intermediate(e, state);
  p->rows = workspace_intermediate(e, N_ROWS * state);
  const recurrent sizes = network_step_sizes(n);
  uint64_t most = 0;
  for (int64_t i = 0; i < n->layers * n->directions; ++i) {
    const network_operand w = p->of[i * LAYER_OPERANDS + W_H];
    const matrix weight = {NULL, w.dtype, columns, n->hidden, w.stride[1], w.stride[2]};
    const uint64_t bytes = step_weight_bytes(&sizes, weight);
    most = bytes > most ? bytes : most;
  }
  p->weight = workspace_intermediate(e, most);
  double products = 0;
  for (int64_t l = 0; l < n->layers; ++l)
    products += 2 * (double)(n->directions * n->rows * columns) * (double)(network_inputs(n, l) + n->hidden);
  const uint64_t cells_run = (uint64_t)(n->layers * n->directions * n->rows * n->hidden);
  executor_products(e, products);
  executor_cost(e, column * (uint64_t)(2 * n->inputs + outputs) + cells_run * 32,
                (uint64_t)(products / 2.5) + cells_run * 64);
  e->run = run_lstm_network_grad;
}

status prepare_lstm_network_grad(executor *e, const lstm_network_grad_args *a) {
  network n = {.batch_first = a->batch_first, .layers = a->num_layers, .directions = a->bidirectional ? 2 : 1};
  const tensor *sizes = a->batch_sizes && a->batch_sizes->n ? a->batch_sizes : NULL;
  const int64_t each = a->has_bias ? 4 : 2;
  EXPECT(n.layers >= 1 && n.layers <= INT32_MAX, "numLayers is %jd, expected 1 or more", (intmax_t)n.layers);
  TRY(op_expect_size(a->params->size, "params", (uint64_t)(n.layers * n.directions * each)));
  TRY(network_sizes(&n, a->input, "input", sizes, "batchSizesOptional", a->view.batch_sizes, false));
  const tensor *weight = a->params->value[0];
  TRY(op_expect_rank(weight, "params[0]", 2, 2));
  EXPECT(weight->dims[0] > 0 && weight->dims[0] % LSTM_GATES == 0,
         "params[0] has shape %s, expected [4 * hidden size, %jd]", SHAPE_OF(weight), (intmax_t)n.inputs);
  n.hidden = weight->dims[0] / LSTM_GATES;
  HEAP_PLAN(lstm_network_grad_plan, p, e,
            sizeof *p + (size_t)(n.layers * n.directions) * LAYER_OPERANDS * sizeof(network_operand));
  p->n = n;
  TRY(network_expect_parameters(&n, a->params, "params", a->view.params, LSTM_GATES, a->has_bias, p->of, LAYER_OPERANDS,
                                B_X));
  TRY(network_expect_sequence(&n, a->input, "input", LSTM_NETWORK_GRAD_INPUT, n.inputs, &p->x));
  TRY(op_expect_size(a->hx->size, "hx", 2));
  TRY(network_expect_states(&n, a->hx->value[0], "hx[0]", LSTM_NETWORK_GRAD_HX, &p->h0));
  TRY(network_expect_states(&n, a->hx->value[1], "hx[1]", LSTM_NETWORK_GRAD_HX + 1, &p->c0));
  TRY(check_grad_saved(p, a));
  TRY(check_gradients(p, a));
  plan_grad_work(e, p);
  return ST_OK;
}

/* ---- backward through the steps ---------------------------------------------------------------------------------- */

typedef struct {
  const lstm_network_grad_plan *p;
  void *const *view;
  char *scratch;
  const network_step *steps;
  const network_operand *of; /* of the layer and direction */
  const float *dy;           /* of the layer: [rows, directions * hidden] */
  int64_t index, direction;
  int64_t step, before; /* before: the step that ran before this one; -1: none */
} network_grad_job;

static float *grad_floats(const network_grad_job *j, uint64_t offset) { return (float *)(void *)(j->scratch + offset); }

/* Loads the state of a row before the step: what the step before has saved, if the row counted there. */
static void load_before(const network_grad_job *j, const network_operand *saved, const network_operand *initial,
                        int64_t row, float *to) {
  if (j->before >= 0 && row < j->steps[j->before].count)
    network_load(saved, j->view, j->before, row, to, j->p->n.hidden);
  else
    network_load(initial, j->view, j->index, row, to, j->p->n.hidden);
}

static void grad_rows_of_step(const void *job, int64_t begin, int64_t end) {
  const network_grad_job *j = job;
  const lstm_network_grad_plan *p = j->p;
  const int64_t n = p->n.hidden, first = j->steps[j->step].first;
  for (int64_t row = begin; row < end; ++row) {
    float *const dh = grad_floats(j, p->dh_room) + row * n, *const dc = grad_floats(j, p->dc_room) + row * n;
    float *buffer[N_ROWS], *d_gate[LSTM_GATES];
    for (int k = 0; k < N_ROWS; ++k) buffer[k] = grad_floats(j, p->rows) + (row * N_ROWS + k) * n;
    for (int g = 0; g < LSTM_GATES; ++g) {
      network_load(j->of + SAVED_GATES + g, j->view, j->step, row, buffer[ROW_GATES + g], n);
      d_gate[g] = grad_floats(j, p->d_gates) + ((first + row) * LSTM_GATES + lstm_gate_place[g]) * n;
    }
    network_load(j->of + SAVED_TANH, j->view, j->step, row, buffer[ROW_TANH], n);
    load_before(j, j->of + SAVED_C, &p->c0, row, buffer[ROW_C]);
    load_before(j, j->of + SAVED_H, &p->h0, row, grad_floats(j, p->before) + (first + row) * n);
    memcpy(buffer[ROW_DY], j->dy + ((first + row) * p->n.directions + j->direction) * n, (size_t)n * sizeof(float));
    cells->add(buffer[ROW_DY], dh, n);
    cells->lstm_grad((const float *const *)buffer, buffer[ROW_TANH], buffer[ROW_C], buffer[ROW_DY], dc, d_gate, n);
  }
}

static status grad_steps(network_grad_job *j, matrix d_gates) {
  const lstm_network_grad_plan *p = j->p;
  const network *n = &p->n;
  const matrix dh = network_floats(grad_floats(j, p->dh_room), n->batch, n->hidden);
  const recurrent sizes = network_step_sizes(n);
  const matrix w = network_matrix(j->of + W_H, j->view, d_gates.cols, n->hidden);
  const step_weight weight = step_weight_of(w, &sizes, j->scratch + p->weight);
  network_load_states(n, &p->dh, j->view, j->index, grad_floats(j, p->dh_room));
  network_load_states(n, &p->dc, j->view, j->index, grad_floats(j, p->dc_room));
  for (int64_t s = n->steps - 1; s >= 0; --s) {
    j->step = network_step_at(n, j->direction, s);
    j->before = s ? network_step_at(n, j->direction, s - 1) : -1;
    const network_step step = j->steps[j->step];
    if (step.count == 0) continue;
    rows_parallel(grad_rows_of_step, j, step.count, 1, (uint64_t)(step.count * n->hidden) * 3);
    TRY(step_weight_multiply(&weight, recurrent_matrix_rows(d_gates, step.first, step.count),
                             recurrent_matrix_rows(dh, 0, step.count), false));
  }
  network_store_states(n, &p->dh0, j->view, j->index, grad_floats(j, p->dh_room));
  network_store_states(n, &p->dc0, j->view, j->index, grad_floats(j, p->dc_room));
  return ST_OK;
}

/* ---- all steps at once ------------------------------------------------------------------------------------------- */

/* Both biases have the same gradient. */
static status grad_biases(const network_grad_job *j, matrix d_gates) {
  for (int k = D_B_X; k <= D_B_H && j->of[k].operand >= 0; ++k)
    TRY(recurrent_matrix_column_sums(d_gates, network_matrix(j->of + k, j->view, 1, d_gates.cols)));
  return ST_OK;
}

static status grad_direction(network_grad_job *j, matrix x, matrix dx) {
  const lstm_network_grad_plan *p = j->p;
  const network *n = &p->n;
  const int64_t columns = LSTM_GATES * n->hidden;
  j->of = p->of + j->index * LAYER_OPERANDS;
  const matrix d_gates = network_floats(grad_floats(j, p->d_gates), n->rows, columns),
               before = network_floats(grad_floats(j, p->before), n->rows, n->hidden);
  if (n->form == SEQUENCES_PADDED) {
    memset(grad_floats(j, p->d_gates), 0, (size_t)(n->rows * columns) * sizeof(float));
    memset(grad_floats(j, p->before), 0, (size_t)(n->rows * n->hidden) * sizeof(float));
  }
  TRY(grad_steps(j, d_gates));
  if (n->rows > 0)
    TRY(recurrent_matrix_product(d_gates, network_matrix(j->of + W_X, j->view, columns, x.cols), dx,
                                 j->direction ? &dx : NULL));
  TRY(recurrent_matrix_product(recurrent_matrix_transposed(d_gates), x,
                               network_matrix(j->of + D_W_X, j->view, columns, x.cols), NULL));
  TRY(recurrent_matrix_product(recurrent_matrix_transposed(d_gates), before,
                               network_matrix(j->of + D_W_H, j->view, columns, n->hidden), NULL));
  return grad_biases(j, d_gates);
}

/* The input of a layer, which is the output of the one below. */
static void load_layer_input(const network_grad_job *j, int64_t layer, float *to) {
  const network *n = &j->p->n;
  if (layer == 0) {
    network_load_sequence(&(network_sequence){n, &j->p->x, j->view, j->steps, to, n->inputs, n->inputs});
    return;
  }
  for (int64_t d = 0; d < n->directions; ++d) {
    const network_operand *of = j->p->of + ((layer - 1) * n->directions + d) * LAYER_OPERANDS;
    network_load_sequence(&(network_sequence){n, of + SAVED_H, j->view, j->steps, to + d * n->hidden, n->hidden,
                                              n->directions * n->hidden});
  }
}

static status run_lstm_network_grad(const executor *e, void *const *view, void *scratch) {
  const lstm_network_grad_plan *p = e->heap;
  const network *n = &p->n;
  const int64_t outputs = n->directions * n->hidden;
  network_step *const steps = (network_step *)(void *)((char *)scratch + p->steps);
  network_grad_job j = {.p = p, .view = view, .scratch = scratch, .steps = steps};
  TRY(network_find_steps(n, view, steps));
  float *dy = grad_floats(&j, p->d[0]), *dx = grad_floats(&j, p->d[1]), *const x = grad_floats(&j, p->in);
  network_load_sequence(&(network_sequence){n, &p->dy, view, steps, dy, outputs, outputs});
  for (int64_t l = n->layers - 1; l >= 0; --l) {
    const int64_t inputs = network_inputs(n, l);
    load_layer_input(&j, l, x);
    j.dy = dy;
    for (j.direction = 0; j.direction < n->directions; ++j.direction) {
      j.index = l * n->directions + j.direction;
      TRY(grad_direction(&j, network_floats(x, n->rows, inputs), network_floats(dx, n->rows, inputs)));
    }
    float *const used = dy;
    dy = dx, dx = used;
  }
  network_store_sequence(&(network_sequence){n, &p->dx, view, steps, dy, n->inputs, n->inputs});
  return ST_OK;
}
