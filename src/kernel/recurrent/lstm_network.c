/* SPDX-License-Identifier: Apache-2.0 */
/* Networks of long short-term memory: LSTM (several layers, one or two directions, sequences of different lengths, and
 * the values that its gradient needs) and BidirectionLSTM (one layer). Weights are PyTorch's, [4 hidden, inputs], with
 * the gates in the order i f g o. States and results between layers are floats, and rounded once where they are
 * stored. */
#include <string.h>

#include "kernel/families.h"
#include "kernel/recurrent/network.h"

/* The operands of a layer and direction. */
enum {
  W_X,
  W_H,
  B_X,
  B_H,
  SAVED_GATES, /* i j f o, as in cells.h */
  SAVED_H = SAVED_GATES + LSTM_GATES,
  SAVED_C,
  SAVED_TANH,
  LAYER_OPERANDS
};

typedef struct {
  network n;
  bool saves; /* the values for the gradient */
  network_operand x, h0, c0, y, h, c;
  uint64_t steps, in, out[2], gates, bias, h_room, c_room, tanh_room, weight; /* offsets in the workspace */
  network_operand of[]; /* LAYER_OPERANDS of each layer and direction */
} lstm_network_plan;

/* ---- phase one --------------------------------------------------------------------------------------------------- */

static status run_lstm_network(const executor *e, void *const *view, void *scratch);

static lstm_network_plan *new_plan(executor *e, const network *n) {
  const size_t each = LAYER_OPERANDS * sizeof(network_operand);
  lstm_network_plan *p = executor_heap(e, sizeof *p + (size_t)(n->layers * n->directions) * each);
  if (!p) return NULL;
  p->n = *n;
  for (int64_t i = 0; i < n->layers * n->directions * LAYER_OPERANDS; ++i) p->of[i].operand = -1;
  return p;
}

/* Plans the workspace and the cost of a network whose operands are known. */
static void plan_work(executor *e, lstm_network_plan *p) {
  const network *n = &p->n;
  const uint64_t state = (uint64_t)(n->batch * n->hidden) * sizeof(float);
  const uint64_t column = (uint64_t)n->rows * sizeof(float);
  const int64_t columns = LSTM_GATES * n->hidden, outputs = n->directions * n->hidden;
  p->steps = workspace_intermediate(e, (uint64_t)n->steps * sizeof(network_step));
  p->in = workspace_intermediate(e, column * (uint64_t)n->inputs);
  p->out[0] = workspace_intermediate(e, column * (uint64_t)outputs);
  p->out[1] = n->layers > 1 ? workspace_intermediate(e, column * (uint64_t)outputs) : 0;
  p->gates = workspace_intermediate(e, column * (uint64_t)columns);
  p->bias = workspace_intermediate(e, 2 * (uint64_t)columns * sizeof(float));
  p->h_room = workspace_intermediate(e, state);
  p->c_room = workspace_intermediate(e, state);
  p->tanh_room = workspace_intermediate(e, state);
  const recurrent sizes = network_step_sizes(n);
  uint64_t most = 0;
  for (int64_t i = 0; i < n->layers * n->directions; ++i) {
    const network_operand w = p->of[i * LAYER_OPERANDS + W_H];
    const matrix weight = {NULL, w.dtype, n->hidden, columns, w.stride[2], w.stride[1]};
    const uint64_t bytes = step_weight_bytes(&sizes, weight);
    most = bytes > most ? bytes : most;
  }
  p->weight = workspace_intermediate(e, most);
  double products = 0;
  for (int64_t l = 0; l < n->layers; ++l)
    products += (double)(n->directions * n->rows * columns) * (double)(network_inputs(n, l) + n->hidden);
  const uint64_t cells_run = (uint64_t)(n->layers * n->directions * n->rows * n->hidden);
  executor_products(e, products);
  executor_cost(e, column * (uint64_t)(n->inputs + outputs) + cells_run * (p->saves ? 28 : 0),
                (uint64_t)(products / 2.5) + cells_run * 192);
  e->run = run_lstm_network;
}

/* Checks the sizes that attributes give. */
static status check_layers(network *n, int64_t layers, bool two) {
  enum { MOST_LAYERS = 1024 }; /* a plan has some KiB for each */
  EXPECT(layers >= 1 && layers <= MOST_LAYERS, "numLayers is %jd, expected 1 to %d", (intmax_t)layers, MOST_LAYERS);
  n->layers = layers;
  n->directions = two ? 2 : 1;
  return ST_OK;
}

/* Sets the hidden size from a weight, [4 hidden, inputs]. */
static status check_hidden(network *n, const tensor *weight, const char *name) {
  TRY(op_expect_rank(weight, name, 2, 2));
  EXPECT(weight->dims[0] > 0 && weight->dims[0] % LSTM_GATES == 0, "%s has shape %s, expected [4 * hidden size, %jd]",
         name, SHAPE_OF(weight), (intmax_t)n->inputs);
  n->hidden = weight->dims[0] / LSTM_GATES;
  return ST_OK;
}

static status check_saved(lstm_network_plan *p, const lstm_network_args *a) {
  const network *n = &p->n;
  const int64_t dims[] = {n->steps, n->batch, n->hidden};
  const struct {
    const aclTensorList *list;
    const char *name;
    int operand, place;
  } saved[] = {{a->i_out, "iOut", a->view.i_out, SAVED_GATES + LSTM_I},
               {a->j_out, "jOut", a->view.j_out, SAVED_GATES + LSTM_J},
               {a->f_out, "fOut", a->view.f_out, SAVED_GATES + LSTM_F},
               {a->o_out, "oOut", a->view.o_out, SAVED_GATES + LSTM_O},
               {a->h_out, "hOut", a->view.h_out, SAVED_H},
               {a->c_out, "cOut", a->view.c_out, SAVED_C},
               {a->tanh_c_out, "tanhCOut", a->view.tanh_c_out, SAVED_TANH}};
  for (size_t k = 0; k < sizeof saved / sizeof *saved; ++k) {
    if (!saved[k].list)
      return fail(ST_OP_NULL, "%s is NULL, expected a list of tensors, since train is true", saved[k].name);
    TRY(network_expect_list(n, saved[k].list, saved[k].name, saved[k].operand, dims, 3, p->of + saved[k].place,
                            LAYER_OPERANDS));
  }
  return ST_OK;
}

status prepare_lstm_network(executor *e, const lstm_network_args *a) {
  network n = {.batch_first = a->batch_first};
  const tensor *sizes = a->batch_sizes && a->batch_sizes->n ? a->batch_sizes : NULL;
  TRY(check_layers(&n, a->num_layers, a->bidirectional));
  TRY(network_sizes(&n, a->input, "input", sizes, "batchSizes", a->view.batch_sizes, false));
  EXPECT(a->params->size > 0, "params has no tensor, expected weights");
  TRY(check_hidden(&n, a->params->value[0], "params[0]"));
  lstm_network_plan *p = new_plan(e, &n);
  if (!p) return ST_NO_HOST_MEMORY;
  p->saves = a->train;
  TRY(network_expect_parameters(&n, a->params, "params", LSTM_NETWORK_PARAMS, LSTM_GATES, a->has_bias, p->of,
                                LAYER_OPERANDS, B_X));
  TRY(network_expect_sequence(&n, a->input, "input", LSTM_NETWORK_INPUT, n.inputs, &p->x));
  p->h0.operand = p->c0.operand = -1;
  if (a->hx && a->hx->size > 0) {
    TRY(op_expect_size(a->hx->size, "hx", 2));
    TRY(network_expect_states(&n, a->hx->value[0], "hx[0]", a->view.hx, &p->h0));
    TRY(network_expect_states(&n, a->hx->value[1], "hx[1]", a->view.hx + 1, &p->c0));
  }
  TRY(network_expect_sequence(&n, a->output, "output", a->view.output, n.directions * n.hidden, &p->y));
  TRY(network_expect_states(&n, a->hy, "hy", a->view.hy, &p->h));
  TRY(network_expect_states(&n, a->cy, "cy", a->view.cy, &p->c));
  if (p->saves) TRY(check_saved(p, a));
  plan_work(e, p);
  return ST_OK;
}

/* The optional operands of a direction of BidirectionLSTM. */
static status check_direction(const network *n, const bidirection_lstm_args *a, bool reverse, network_operand *of) {
  const struct {
    const tensor *t;
    const char *name;
    int operand;
    bool needed;
  } all[2][4] = {{{a->w_ih, "wIh", BIDIRECTION_LSTM_W_IH, true},
                  {a->w_hh, "wHh", BIDIRECTION_LSTM_W_HH, true},
                  {a->b_ih, "bIhOptional", BIDIRECTION_LSTM_B_IH, a->isbias},
                  {a->b_hh, "bHhOptional", BIDIRECTION_LSTM_B_HH, a->isbias}},
                 {{a->w_ih_reverse, "wIhReverseOptional", BIDIRECTION_LSTM_W_IH_REVERSE, true},
                  {a->w_hh_reverse, "wHhReverseOptional", BIDIRECTION_LSTM_W_HH_REVERSE, true},
                  {a->b_ih_reverse, "bIhReverseOptional", BIDIRECTION_LSTM_B_IH_REVERSE, a->isbias},
                  {a->b_hh_reverse, "bHhReverseOptional", BIDIRECTION_LSTM_B_HH_REVERSE, a->isbias}}};
  for (int k = W_X; k <= B_H; ++k) {
    const int64_t dims[] = {LSTM_GATES * n->hidden, k == W_X ? n->inputs : n->hidden};
    if (!all[reverse][k].needed) continue;
    if (!all[reverse][k].t)
      return fail(ST_OP_NULL, "%s is NULL, expected a tensor, since %s is true", all[reverse][k].name,
                  k >= B_X ? "isbias" : "bidirection");
    TRY(network_expect(n, all[reverse][k].t, all[reverse][k].name, all[reverse][k].operand, dims, k < B_X ? 2 : 1,
                       of + k));
  }
  return ST_OK;
}

status prepare_bidirection_lstm(executor *e, const bidirection_lstm_args *a) {
  network n = {.batch_first = false};
  const tensor *sizes = a->batch_size && a->batch_size->n ? a->batch_size : NULL;
  EXPECT(a->num_layers == 1, "numLayers is %jd, expected 1", (intmax_t)a->num_layers);
  EXPECT(!a->batch_first, "batchFirst is true, expected false");
  TRY(check_layers(&n, 1, a->bidirection));
  TRY(op_expect_rank(a->init_h, "initH", 3, 3));
  n.batch = a->init_h->dims[1];
  TRY(network_sizes(&n, a->x, "x", sizes, "batchSizeOptional", BIDIRECTION_LSTM_BATCH_SIZE, a->packed));
  TRY(check_hidden(&n, a->w_ih, "wIh"));
  lstm_network_plan *p = new_plan(e, &n);
  if (!p) return ST_NO_HOST_MEMORY;
  for (int64_t d = 0; d < n.directions; ++d) TRY(check_direction(&n, a, d > 0, p->of + d * LAYER_OPERANDS));
  TRY(network_expect_sequence(&n, a->x, "x", BIDIRECTION_LSTM_X, n.inputs, &p->x));
  TRY(network_expect_states(&n, a->init_h, "initH", BIDIRECTION_LSTM_INIT_H, &p->h0));
  TRY(network_expect_states(&n, a->init_c, "initC", BIDIRECTION_LSTM_INIT_C, &p->c0));
  TRY(network_expect_sequence(&n, a->y_out, "yOut", a->view.y_out, n.directions * n.hidden, &p->y));
  TRY(network_expect_states(&n, a->output_h_out, "outputHOut", a->view.output_h_out, &p->h));
  TRY(network_expect_states(&n, a->output_c_out, "outputCOut", a->view.output_c_out, &p->c));
  plan_work(e, p);
  return ST_OK;
}

/* ---- the task ---------------------------------------------------------------------------------------------------- */

typedef struct {
  const lstm_network_plan *p;
  void *const *view;
  char *scratch;
  const network_step *steps;
  const network_operand *of; /* of the layer and direction */
  float *out;                /* of the layer: [rows, directions * hidden] */
  int64_t direction, step;
} network_job;

static float *floats_at(const network_job *j, uint64_t offset) { return (float *)(void *)(j->scratch + offset); }

/* Stores what the gradient needs; zero: of a row that does not count. */
static void save_row(const network_job *j, int64_t row, float *const gate[LSTM_GATES], const float *h, const float *c,
                     const float *tanh_c) {
  const int64_t n = j->p->n.hidden;
  for (int g = 0; g < LSTM_GATES; ++g) network_store(j->of + SAVED_GATES + g, j->view, j->step, row, gate[g], n);
  network_store(j->of + SAVED_H, j->view, j->step, row, h, n);
  network_store(j->of + SAVED_C, j->view, j->step, row, c, n);
  network_store(j->of + SAVED_TANH, j->view, j->step, row, tanh_c, n);
}

/* Runs the cells of some rows of a step. The output of a row that does not count is 0 already, and what is saved for
 * it, too, is 0. */
static void cell_rows_of_step(const void *job, int64_t begin, int64_t end) {
  const network_job *j = job;
  const lstm_network_plan *p = j->p;
  const network_step *step = j->steps + j->step;
  const int64_t n = p->n.hidden, outputs = p->n.directions * n;
  for (int64_t row = begin; row < end; ++row) {
    float *gate[LSTM_GATES], *const out = j->out + (step->first + row) * outputs + j->direction * n;
    if (row >= step->count) {
      for (int g = 0; g < LSTM_GATES; ++g) gate[g] = out;
      save_row(j, row, gate, out, out, out);
      continue;
    }
    float *const c = floats_at(j, p->c_room) + row * n, *const h = floats_at(j, p->h_room) + row * n,
                 *const tanh_c = floats_at(j, p->tanh_room) + row * n;
    for (int g = 0; g < LSTM_GATES; ++g)
      gate[g] = floats_at(j, p->gates) + ((step->first + row) * LSTM_GATES + lstm_gate_place[g]) * n;
    cells->lstm(gate, 0, c, tanh_c, h, n);
    memcpy(out, h, (size_t)n * sizeof *out);
    if (p->saves) save_row(j, row, gate, h, c, tanh_c);
  }
}

/* The sums of the gates over the inputs and both biases, of all rows. */
static status sum_inputs(const network_job *j, matrix x, matrix gates) {
  const network *n = &j->p->n;
  const int64_t columns = LSTM_GATES * n->hidden;
  const matrix w = recurrent_matrix_transposed(network_matrix(j->of + W_X, j->view, columns, x.cols));
  if (j->of[B_X].operand < 0) return recurrent_matrix_product(x, w, gates, NULL);
  float *const bias = floats_at(j, j->p->bias);
  network_load(j->of + B_X, j->view, 0, 0, bias, columns);
  network_load(j->of + B_H, j->view, 0, 0, bias + columns, columns);
  cells->add(bias, bias + columns, columns);
  matrix add = network_floats(bias, gates.rows, columns);
  add.row_stride = 0;
  return recurrent_matrix_product(x, w, gates, &add);
}

static status run_direction(network_job *j, int64_t layer, matrix x) {
  const lstm_network_plan *p = j->p;
  const network *n = &p->n;
  const int64_t index = layer * n->directions + j->direction, columns = LSTM_GATES * n->hidden;
  j->of = p->of + index * LAYER_OPERANDS;
  const matrix gates = network_floats(floats_at(j, p->gates), n->rows, columns),
               h = network_floats(floats_at(j, p->h_room), n->batch, n->hidden);
  if (n->rows > 0) TRY(sum_inputs(j, x, gates));
  network_load_states(n, &p->h0, j->view, index, floats_at(j, p->h_room));
  network_load_states(n, &p->c0, j->view, index, floats_at(j, p->c_room));
  const recurrent sizes = network_step_sizes(n);
  const matrix w = recurrent_matrix_transposed(network_matrix(j->of + W_H, j->view, columns, n->hidden));
  const step_weight weight = step_weight_of(w, &sizes, j->scratch + p->weight);
  for (int64_t s = 0; s < n->steps; ++s) {
    j->step = network_step_at(n, j->direction, s);
    const network_step step = j->steps[j->step];
    if (step.count > 0)
      TRY(step_weight_multiply(&weight, recurrent_matrix_rows(h, 0, step.count),
                               recurrent_matrix_rows(gates, step.first, step.count), true));
    const int64_t rows = p->saves && n->form == SEQUENCES_PADDED ? n->batch : step.count;
    if (rows > 0) rows_parallel(cell_rows_of_step, j, rows, 1, (uint64_t)(rows * n->hidden) * 6);
  }
  network_store_states(n, &p->h, j->view, index, floats_at(j, p->h_room));
  network_store_states(n, &p->c, j->view, index, floats_at(j, p->c_room));
  return ST_OK;
}

static status run_lstm_network(const executor *e, void *const *view, void *scratch) {
  const lstm_network_plan *p = e->heap;
  const network *n = &p->n;
  const int64_t outputs = n->directions * n->hidden;
  network_step *const steps = (network_step *)(void *)((char *)scratch + p->steps);
  network_job j = {.p = p, .view = view, .scratch = scratch, .steps = steps};
  TRY(network_find_steps(n, view, steps));
  float *x = floats_at(&j, p->in);
  network_load_sequence(&(network_sequence){n, &p->x, view, steps, x, n->inputs, n->inputs});
  for (int64_t l = 0; l < n->layers; ++l) {
    j.out = floats_at(&j, p->out[l % 2]);
    if (n->form == SEQUENCES_PADDED) memset(j.out, 0, (size_t)(n->rows * outputs) * sizeof *j.out);
    for (j.direction = 0; j.direction < n->directions; ++j.direction)
      TRY(run_direction(&j, l, network_floats(x, n->rows, network_inputs(n, l))));
    x = j.out;
  }
  network_store_sequence(&(network_sequence){n, &p->y, view, steps, x, outputs, outputs});
  return ST_OK;
}
