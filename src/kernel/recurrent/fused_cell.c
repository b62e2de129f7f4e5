/* SPDX-License-Identifier: Apache-2.0 */
/* What is left of a cell of long short-term memory after its matrix products, and its gradient: ThnnFusedLstmCell and
 * ThnnFusedLstmCellBackward. Gates lie in PyTorch's order, i f g o: PyTorch hands over products of its own weights.
 * Rows are computed in float and rounded once. */
#include "kernel/engine/rows.h"
#include "kernel/engine/scratch.h"
#include "kernel/families.h"
#include "kernel/recurrent/cells.h"

enum { ABSENT = -1 };

/* Where an operand's rows are; strides in bytes. */
typedef struct {
  int8_t operand; /* ABSENT: not given */
  int8_t dtype;
  int64_t row, column;
} cell_rows;

/* Reads a tensor of `rows` rows, or with rows 0 one of one dimension; NULL: ABSENT. */
static status cell_operand(const tensor *t, const char *name, int operand, int dtype, int64_t rows, int64_t columns,
                           cell_rows *r) {
  const int64_t dims[] = {rows, columns};
  *r = (cell_rows){.operand = ABSENT};
  if (!t) return ST_OK;
  TRY(op_expect_dtype(t, name, DTYPE_BIT(dtype)));
  TRY(rows ? op_expect_shape(t, name, dims, 2) : op_expect_shape(t, name, &columns, 1));
  const view v = view_of(t);
  *r = (cell_rows){.operand = (int8_t)operand,
                   .dtype = (int8_t)t->dtype,
                   .row = rows ? v.strides[0] : 0,
                   .column = v.strides[rows ? 1 : 0]};
  return ST_OK;
}

/* The batch and the hidden size, from a tensor of states; its rows are at least 1. */
static status cell_expect_state(const tensor *t, const char *name) {
  TRY(op_expect_dtype(t, name, DTYPE_BIT(ACL_FLOAT) | DTYPE_BIT(ACL_FLOAT16)));
  TRY(op_expect_rank(t, name, 2, 2));
  EXPECT(t->n > 0, "%s has shape %s, expected elements", name, SHAPE_OF(t));
  return ST_OK;
}

static void cell_load(const cell_rows *r, void *const *view, int64_t row, float *to, int64_t n) {
  if (r->operand == ABSENT)
    for (int64_t i = 0; i < n; ++i) to[i] = 0;
  else
    loops->load[r->dtype][COMPUTE_F32](to, (const char *)view[r->operand] + row * r->row, r->column, n);
}

static void cell_store(const cell_rows *r, void *const *view, int64_t row, const float *from, int64_t n) {
  if (r->operand != ABSENT)
    loops->store[r->dtype][COMPUTE_F32]((char *)view[r->operand] + row * r->row, r->column, from, n);
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

enum { FROM_INPUT, FROM_HIDDEN, INPUT_BIAS, HIDDEN_BIAS, GATE_PARTS };

typedef struct {
  int64_t batch, hidden;
  cell_rows part[GATE_PARTS], cx, hy, cy, storage;
} fused_cell_plan;

typedef struct {
  const void *plan;
  void *const *view;
  float *d_gates; /* of the gradient: [batch, 4 hidden]; or NULL */
  status *result;
} fused_cell_job;

static void fused_cell_rows(const void *arg, int64_t begin, int64_t end) {
  const fused_cell_job *j = arg;
  const fused_cell_plan *p = j->plan;
  const int64_t n = p->hidden, all = LSTM_GATES * n;
  float *const gates = (float *)(void *)scratch_take((size_t)(2 * all + 3 * n) * sizeof *gates);
  if (!gates) {
    __atomic_store_n(j->result, ST_NO_MEMORY, __ATOMIC_RELAXED);
    return;
  }
  float *const more = gates + all, *const c = more + all, *const tanh_c = c + n, *const h = tanh_c + n;
  float *gate[LSTM_GATES];
  for (int g = 0; g < LSTM_GATES; ++g) gate[g] = gates + lstm_gate_place[g] * n;
  for (; begin < end; ++begin) {
    cell_load(&p->part[FROM_INPUT], j->view, begin, gates, all);
    for (int i = FROM_HIDDEN; i < GATE_PARTS; ++i) {
      if (p->part[i].operand == ABSENT) continue;
      cell_load(&p->part[i], j->view, begin, more, all);
      cells->add(gates, more, all);
    }
    cell_load(&p->cx, j->view, begin, c, n);
    cells->lstm(gate, 0, c, tanh_c, h, n);
    cell_store(&p->hy, j->view, begin, h, n);
    cell_store(&p->cy, j->view, begin, c, n);
    cell_store(&p->storage, j->view, begin, gates, all);
  }
}

static status run_fused_cell(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const fused_cell_plan *p = PLAN(e, fused_cell_plan);
  status result = ST_OK;
  const fused_cell_job job = {p, view, NULL, &result};
  rows_parallel(fused_cell_rows, &job, p->batch, 1, e->cost_ns);
  return result;
}

/* (inputGates, hiddenGates, cx, inputBias, hiddenBias, hy, cy, storage) */
status prepare_fused_cell(executor *e, const fused_cell_args *a) {
  fused_cell_plan *p = PLAN(e, fused_cell_plan);
  TRY(cell_expect_state(a->cx, "cx"));
  const int64_t batch = a->cx->dims[0], n = a->cx->dims[1], all = LSTM_GATES * n;
  const int d = a->cx->dtype;
  *p = (fused_cell_plan){.batch = batch, .hidden = n};
  EXPECT(!a->input_bias == !a->hidden_bias, "%s is NULL, expected a tensor beside the other bias",
         a->input_bias ? "hiddenBiasOptional" : "inputBiasOptional");
  TRY(cell_operand(a->input_gates, "inputGates", FUSED_CELL_INPUT_GATES, d, batch, all, &p->part[FROM_INPUT]));
  TRY(cell_operand(a->hidden_gates, "hiddenGates", FUSED_CELL_HIDDEN_GATES, d, batch, all, &p->part[FROM_HIDDEN]));
  TRY(cell_operand(a->input_bias, "inputBiasOptional", FUSED_CELL_INPUT_BIAS, d, 0, all, &p->part[INPUT_BIAS]));
  TRY(cell_operand(a->hidden_bias, "hiddenBiasOptional", FUSED_CELL_HIDDEN_BIAS, d, 0, all, &p->part[HIDDEN_BIAS]));
  TRY(cell_operand(a->cx, "cx", FUSED_CELL_CX, d, batch, n, &p->cx));
  TRY(cell_operand(a->hy_out, "hyOut", FUSED_CELL_HY_OUT, d, batch, n, &p->hy));
  TRY(cell_operand(a->cy_out, "cyOut", FUSED_CELL_CY_OUT, d, batch, n, &p->cy));
  TRY(cell_operand(a->storage_out, "storageOut", FUSED_CELL_STORAGE_OUT, d, batch, all, &p->storage));
  executor_cost(e, (uint64_t)(batch * n) * 15 * dtype_bytes(d), (uint64_t)(batch * n) * 160);
  e->run = run_fused_cell;
  return ST_OK;
}

/* ---- gradient ---------------------------------------------------------------------------------------------------- */

typedef struct {
  int64_t batch, hidden;
  cell_rows d_hy, d_cy, cx, cy, storage, d_gates, d_cx, d_bias;
  uint64_t gates; /* in scratch: the gates' gradients as floats, if their sums are needed */
} fused_cell_grad_plan;

static void fused_cell_grad_rows(const void *arg, int64_t begin, int64_t end) {
  const fused_cell_job *j = arg;
  const fused_cell_grad_plan *p = j->plan;
  const int64_t n = p->hidden, all = LSTM_GATES * n;
  float *const gates = (float *)(void *)scratch_take((size_t)(2 * all + 4 * n) * sizeof *gates);
  if (!gates) {
    __atomic_store_n(j->result, ST_NO_MEMORY, __ATOMIC_RELAXED);
    return;
  }
  float *const own = gates + all, *const tanh_c = own + all, *const c = tanh_c + n, *const dh = c + n,
               *const dc = dh + n;
  for (; begin < end; ++begin) {
    float *const d_gates = j->d_gates ? j->d_gates + begin * all : own;
    const float *gate[LSTM_GATES];
    float *d_gate[LSTM_GATES];
    for (int g = 0; g < LSTM_GATES; ++g) {
      gate[g] = gates + lstm_gate_place[g] * n;
      d_gate[g] = d_gates + lstm_gate_place[g] * n;
    }
    cell_load(&p->storage, j->view, begin, gates, all);
    cell_load(&p->cy, j->view, begin, tanh_c, n);
    loops->elementwise[EW_tanh][COMPUTE_F32](tanh_c, &(const void *){tanh_c}, NULL, n);
    cell_load(&p->cx, j->view, begin, c, n);
    cell_load(&p->d_hy, j->view, begin, dh, n);
    cell_load(&p->d_cy, j->view, begin, dc, n);
    cells->lstm_grad(gate, tanh_c, c, dh, dc, d_gate, n);
    cell_store(&p->d_gates, j->view, begin, d_gates, all);
    cell_store(&p->d_cx, j->view, begin, dc, n);
  }
}

/* Sums of columns of the gates' gradients, over the batch in its order. */
static void fused_cell_bias(const void *arg, int64_t begin, int64_t end) {
  enum { TILE = 64 };
  const fused_cell_job *j = arg;
  const fused_cell_grad_plan *p = j->plan;
  for (int64_t n; begin < end; begin += n) {
    n = i64_min(TILE, end - begin);
    double sum[TILE] = {0};
    float rounded[TILE];
    for (int64_t row = 0; row < p->batch; ++row)
      for (int64_t i = 0; i < n; ++i) sum[i] += j->d_gates[row * LSTM_GATES * p->hidden + begin + i];
    for (int64_t i = 0; i < n; ++i) rounded[i] = (float)sum[i];
    loops->store[p->d_bias.dtype][COMPUTE_F32]((char *)j->view[p->d_bias.operand] + begin * p->d_bias.column,
                                               p->d_bias.column, rounded, n);
  }
}

static status run_fused_cell_grad(const executor *e, void *const *view, void *scratch) {
  const fused_cell_grad_plan *p = PLAN(e, fused_cell_grad_plan);
  const bool sums = p->d_bias.operand != ABSENT;
  status result = ST_OK;
  const fused_cell_job job = {p, view, sums ? (float *)(void *)((char *)scratch + p->gates) : NULL, &result};
  rows_parallel(fused_cell_grad_rows, &job, p->batch, 1, e->cost_ns);
  TRY(result);
  if (sums)
    rows_parallel(fused_cell_bias, &job, LSTM_GATES * p->hidden, 64, (uint64_t)(p->batch * p->hidden * LSTM_GATES) / 4);
  return ST_OK;
}

/* (gradHy, gradC, cx, cy, storage, hasBias, gradGates, gradCx, gradBias); gradients that are NULL are 0. */
status prepare_fused_cell_grad(executor *e, const fused_cell_grad_args *a) {
  fused_cell_grad_plan *p = PLAN(e, fused_cell_grad_plan);
  TRY(cell_expect_state(a->cx, "cx"));
  const int64_t batch = a->cx->dims[0], n = a->cx->dims[1], all = LSTM_GATES * n;
  const int d = a->cx->dtype;
  *p = (fused_cell_grad_plan){.batch = batch, .hidden = n};
  TRY(cell_operand(a->grad_hy, "gradHyOptional", FUSED_CELL_GRAD_GRAD_HY, d, batch, n, &p->d_hy));
  TRY(cell_operand(a->grad_c, "gradCOptional", FUSED_CELL_GRAD_GRAD_C, d, batch, n, &p->d_cy));
  TRY(cell_operand(a->cx, "cx", FUSED_CELL_GRAD_CX, d, batch, n, &p->cx));
  TRY(cell_operand(a->cy, "cy", FUSED_CELL_GRAD_CY, d, batch, n, &p->cy));
  TRY(cell_operand(a->storage, "storage", FUSED_CELL_GRAD_STORAGE, d, batch, all, &p->storage));
  TRY(cell_operand(a->grad_gates_out, "gradGatesOut", FUSED_CELL_GRAD_GRAD_GATES_OUT, d, batch, all, &p->d_gates));
  TRY(cell_operand(a->grad_cx_out, "gradCxOut", FUSED_CELL_GRAD_GRAD_CX_OUT, d, batch, n, &p->d_cx));
  EXPECT(!a->has_bias || a->grad_bias_out, "gradBiasOut is NULL, expected a tensor where hasBias is true");
  TRY(cell_operand(a->has_bias ? a->grad_bias_out : NULL, "gradBiasOut", FUSED_CELL_GRAD_GRAD_BIAS_OUT, d, 0, all,
                   &p->d_bias));
  if (a->has_bias) p->gates = workspace_intermediate(e, (uint64_t)(batch * all) * sizeof(float));
  executor_cost(e, (uint64_t)(batch * n) * 13 * dtype_bytes(d), (uint64_t)(batch * n) * 100);
  e->run = run_fused_cell_grad;
  return ST_OK;
}
