/* SPDX-License-Identifier: Apache-2.0 */
/* The four parts of a step of CAME (Luo et al. 2023) for a matrix of weights, which are called by name
 * (ops/graph.aclop):
 *
 *   part 1   sums of the squares of the gradient, by row, by column and of all
 *   part 2   averages of these, and the direction: the gradient over the root of their product
 *   part 3   the first moment, and sums of the squared differences of direction and moment
 *   part 4   averages of these, and the step of the weights
 *
 * Each part is one pass over the matrix, in double. Rows are cut into bands, which depend on the shape only and are
 * added in order, so results do not depend on threads. Operands are contiguous; inputs of one element are read when the
 * task runs. */
#include <math.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "op/executor.h"

enum { TILE = 512, MAX_SCALARS = 4, MAX_BANDS = 16, ABSENT = -1 };

/* What the operand's number is, and its dtype. */
typedef struct {
  int number, dtype;
} came_operand;

/* One side of the factored second moment: an average of sums, of rows or of columns. */
typedef struct {
  came_operand old, sums, out; /* old.number ABSENT: the part has none */
} came_side;

typedef struct came_job came_job;

/* Computes n elements of row `row` from column `column` on, and stores them. x: room for them; becomes what is to be
 * summed. */
typedef void came_piece(const came_job *j, int64_t row, int64_t column, int64_t n, double *x);

typedef struct {
  came_piece *piece;
  int64_t n_rows, n_columns, band; /* band: rows of a band */
  came_operand in, moment, out;    /* matrices */
  came_operand row_sums, column_sums, sum;
  came_operand scalar[MAX_SCALARS];
  came_operand total, old_total, shape; /* of a side's sums and of its old averages; all rows and columns */
  came_side side[2];                    /* of rows and of columns */
  bool updates_moment;
  uint64_t in_rows, in_bands, in_sides[2]; /* in the workspace */
} came_plan;

struct came_job {
  const came_plan *plan;
  void *const *view;
  double *rows, *bands;  /* sums of rows; sums of columns within bands */
  const double *side[2]; /* new averages, as they were rounded */
  double k[MAX_SCALARS]; /* the inputs of one element, in the order of the part's enumeration */
  double divisor, scale; /* of the products of averages; of the direction */
};

/* ---- the pass over the matrix ------------------------------------------------------------------------------------ */

static void came_load(const came_job *j, came_operand o, int64_t first, int64_t n, double *x) {
  const int64_t size = (int64_t)dtype_bytes(o.dtype);
  loops->load[o.dtype][COMPUTE_F64](x, (const char *)j->view[o.number] + first * size, size, n);
}

static void came_store(const came_job *j, came_operand o, int64_t first, int64_t n, const double *x) {
  const int64_t size = (int64_t)dtype_bytes(o.dtype);
  loops->store[o.dtype][COMPUTE_F64]((char *)j->view[o.number] + first * size, size, x, n);
}

enum { SUMS_EPSILON };

static void piece_squares(const came_job *j, int64_t row, int64_t column, int64_t n, double *x) {
  came_load(j, j->plan->in, row * j->plan->n_columns + column, n, x);
  for (int64_t i = 0; i < n; ++i) x[i] = x[i] * x[i] + j->k[SUMS_EPSILON];
}

static void piece_direction(const came_job *j, int64_t row, int64_t column, int64_t n, double *x) {
  const int64_t first = row * j->plan->n_columns + column;
  const double *const c = j->side[1] + column, r = j->side[0][row];
  came_load(j, j->plan->in, first, n, x);
  for (int64_t i = 0; i < n; ++i) x[i] /= sqrt(r * c[i] / j->divisor);
  came_store(j, j->plan->out, first, n, x);
  for (int64_t i = 0; i < n; ++i) x[i] *= x[i];
}

enum { MOMENT_BETA, MOMENT_EPSILON, MOMENT_THRESHOLD, MOMENT_SQUARES };

static void piece_moment(const came_job *j, int64_t row, int64_t column, int64_t n, double *x) {
  const int64_t first = row * j->plan->n_columns + column;
  const double beta = j->k[MOMENT_BETA];
  double m[TILE];
  came_load(j, j->plan->in, first, n, x);
  came_load(j, j->plan->moment, first, n, m);
  if (!j->plan->updates_moment) came_store(j, j->plan->out, first, n, m);
  for (int64_t i = 0; i < n; ++i) {
    const double u = x[i] / j->scale;
    m[i] = (1 - beta) * u + beta * m[i];
    x[i] = (u - m[i]) * (u - m[i]) + j->k[MOMENT_EPSILON];
  }
  if (j->plan->updates_moment) came_store(j, j->plan->out, first, n, m);
}

enum { STEP_BETA, STEP_RATE, STEP_DECAY };

static void piece_step(const came_job *j, int64_t row, int64_t column, int64_t n, double *x) {
  const int64_t first = row * j->plan->n_columns + column;
  const double *const c = j->side[1] + column, r = j->side[0][row];
  const double rate = j->k[STEP_RATE], keep = 1 - rate * j->k[STEP_DECAY];
  double m[TILE];
  came_load(j, j->plan->in, first, n, x);
  came_load(j, j->plan->moment, first, n, m);
  for (int64_t i = 0; i < n; ++i) x[i] = keep * x[i] - rate * m[i] / sqrt(r * c[i] / j->divisor);
  came_store(j, j->plan->out, first, n, x);
}

static void came_bands(const void *arg, int64_t begin, int64_t end) {
  const came_job *j = arg;
  const came_plan *p = j->plan;
  double x[TILE];
  for (int64_t b = begin; b < end; ++b) {
    double *const columns = j->bands + b * p->n_columns;
    for (int64_t k = 0; k < p->n_columns; ++k) columns[k] = 0;
    for (int64_t row = b * p->band; row < i64_min((b + 1) * p->band, p->n_rows); ++row) {
      double sum = 0;
      for (int64_t at = 0, n; at < p->n_columns; at += n) {
        n = i64_min(TILE, p->n_columns - at);
        p->piece(j, row, at, n, x);
        sum += loops->sum_f64(x, n);
        for (int64_t k = 0; k < n; ++k) columns[at + k] += x[k];
      }
      j->rows[row] = sum;
    }
  }
}

/* ---- before and behind it ---------------------------------------------------------------------------------------- */

/* Replaces a side's averages by new ones, of n numbers. of: how many elements each sum has. */
static void average_side(const came_job *j, int side, int64_t n, double of, double *values) {
  const came_side *s = &j->plan->side[side];
  const double beta = j->k[0];
  double sums[TILE];
  for (int64_t at = 0, k; at < n; at += k) {
    k = i64_min(TILE, n - at);
    came_load(j, s->old, at, k, values + at);
    came_load(j, s->sums, at, k, sums);
    for (int64_t i = 0; i < k; ++i) values[at + i] = beta * values[at + i] + (1 - beta) * sums[i] / of;
    came_store(j, s->out, at, k, values + at);
    came_load(j, s->out, at, k, values + at);
  }
}

/* The sum of the old averages of rows: an input, or computed. */
static double old_total(const came_job *j) {
  const came_plan *p = j->plan;
  double x[TILE], sum = 0;
  if (p->old_total.number != ABSENT) {
    came_load(j, p->old_total, 0, 1, &sum);
    return sum;
  }
  for (int64_t at = 0, n; at < p->n_rows; at += n) {
    n = i64_min(TILE, p->n_rows - at);
    came_load(j, p->side[0].old, at, n, x);
    sum += loops->sum_f64(x, n);
  }
  return sum;
}

static void came_begin(came_job *j, char *scratch) {
  const came_plan *p = j->plan;
  double rows = (double)p->n_rows, columns = (double)p->n_columns, total;
  for (int k = 0; k < MAX_SCALARS; ++k)
    if (p->scalar[k].number != ABSENT) came_load(j, p->scalar[k], 0, 1, &j->k[k]);
  if (p->shape.number != ABSENT) {
    const int64_t *const shape = j->view[p->shape.number];
    rows = (double)shape[0];
    columns = (double)shape[1];
  }
  if (p->piece == piece_moment) {
    const double scale = j->k[MOMENT_SQUARES] / (rows * columns * j->k[MOMENT_THRESHOLD]);
    j->scale = scale > 1 ? scale : 1;
  }
  if (p->side[0].old.number == ABSENT) return;
  came_load(j, p->total, 0, 1, &total);
  j->divisor = j->k[0] * old_total(j) / rows + (1 - j->k[0]) * total / (rows * columns);
  for (int side = 0; side < 2; ++side) {
    double *const values = (double *)(void *)(scratch + p->in_sides[side]);
    average_side(j, side, side ? p->n_columns : p->n_rows, side ? rows : columns, values);
    j->side[side] = values;
  }
}

static void came_end(const came_job *j, int64_t n_bands) {
  const came_plan *p = j->plan;
  if (p->row_sums.number != ABSENT) came_store(j, p->row_sums, 0, p->n_rows, j->rows);
  if (p->column_sums.number != ABSENT) {
    for (int64_t b = 1; b < n_bands; ++b)
      for (int64_t k = 0; k < p->n_columns; ++k) j->bands[k] += j->bands[b * p->n_columns + k];
    came_store(j, p->column_sums, 0, p->n_columns, j->bands);
  }
  if (p->sum.number == ABSENT) return;
  const double sum = loops->sum_f64(j->rows, p->n_rows);
  came_store(j, p->sum, 0, 1, &sum);
}

static status came_run(const executor *e, void *const *view, void *scratch) {
  const came_plan *p = PLAN(e, came_plan);
  const int64_t n_bands = (p->n_rows + p->band - 1) / p->band;
  came_job j = {.plan = p,
                .view = view,
                .rows = (double *)(void *)((char *)scratch + p->in_rows),
                .bands = (double *)(void *)((char *)scratch + p->in_bands)};
  came_begin(&j, scratch);
  rows_parallel(came_bands, &j, n_bands, 1, e->cost_ns);
  came_end(&j, n_bands);
  return ST_OK;
}

/* ---- phase one --------------------------------------------------------------------------------------------------- */

/* An operand, which must have this dtype (a set of bits) and shape; and one with a single element. */
static status came_take(const tensor *t, const char *name, int number, uint64_t dtypes, const int64_t *dims, int rank,
                        came_operand *o) {
  TRY(op_expect_dtype(t, name, dtypes));
  TRY(op_expect_shape(t, name, dims, rank));
  *o = (came_operand){number, t->dtype};
  return ST_OK;
}

static status came_take_one(const tensor *t, const char *name, int number, came_operand *o) {
  TRY(op_expect_one(t, name, DTYPE_BIT(ACL_FLOAT)));
  *o = (came_operand){number, t->dtype};
  return ST_OK;
}

static status came_take_shape(came_plan *p, const tensor *t, int number) {
  if (!t) return ST_OK;
  return came_take(t, "global_shape", number, DTYPE_BIT(ACL_INT64), (const int64_t[]){2}, 1, &p->shape);
}

/* Begins a plan for the matrix. */
static status came_plan_of(executor *e, came_piece *piece, const tensor *in, const char *name, int number) {
  came_plan *p = PLAN(e, came_plan);
  const came_operand none = {ABSENT, 0};
  TRY(op_expect_rank(in, name, 2, 2));
  *p = (came_plan){.piece = piece, .n_rows = in->dims[0], .n_columns = in->dims[1]};
  for (int k = 0; k < MAX_SCALARS; ++k) p->scalar[k] = none;
  p->moment = p->out = p->row_sums = p->column_sums = p->sum = p->total = p->old_total = p->shape = none;
  p->side[0].old = none;
  TRY(came_take(in, name, number, DTYPES_FLOAT_TO_32, in->dims, 2, &p->in));
  p->band = i64_max((p->n_rows + MAX_BANDS - 1) / MAX_BANDS, 1);
  p->in_rows = workspace_partial(e, (uint64_t)p->n_rows * sizeof(double));
  p->in_bands = workspace_partial(e, (uint64_t)(MAX_BANDS * p->n_columns) * sizeof(double));
  e->run = came_run;
  executor_cost(e, 3 * (uint64_t)in->n * dtype_bytes(in->dtype), (uint64_t)in->n * 64);
  return ST_OK;
}

static status came_take_sums(came_plan *p, const tensor *rows, const char *rows_name, const tensor *columns,
                             const char *columns_name, int first) {
  const uint64_t floats = DTYPE_BIT(ACL_FLOAT);
  TRY(came_take(rows, rows_name, first, floats, &p->n_rows, 1, &p->row_sums));
  return came_take(columns, columns_name, first + 1, floats, &p->n_columns, 1, &p->column_sums);
}

/* A side's averages and sums, and where the new averages go. */
static status came_take_side(executor *e, int side, const tensor *const t[3], const char *const name[3],
                             const int number[3]) {
  came_plan *p = PLAN(e, came_plan);
  came_side *s = &p->side[side];
  const int64_t n = side ? p->n_columns : p->n_rows;
  TRY(came_take(t[0], name[0], number[0], DTYPES_FLOAT_TO_32, &n, 1, &s->old));
  TRY(came_take(t[1], name[1], number[1], DTYPES_FLOAT_TO_32, &n, 1, &s->sums));
  TRY(came_take(t[2], name[2], number[2], DTYPE_BIT(t[0]->dtype), &n, 1, &s->out));
  p->in_sides[side] = workspace_intermediate(e, (uint64_t)n * sizeof(double));
  return ST_OK;
}

status prepare_graph_came_sums(executor *e, const graph_came_sums_args *a) {
  came_plan *p = PLAN(e, came_plan);
  TRY(came_plan_of(e, piece_squares, a->grad, "grad", GRAPH_CAME_SUMS_GRAD));
  TRY(came_take_one(a->eps, "eps", GRAPH_CAME_SUMS_EPS, &p->scalar[SUMS_EPSILON]));
  TRY(came_take_sums(p, a->sum_grad_r, "sum_grad_r", a->sum_grad_c, "sum_grad_c", GRAPH_CAME_SUMS_SUM_GRAD_R));
  return came_take_one(a->sum_grad_rc, "sum_grad_rc", GRAPH_CAME_SUMS_SUM_GRAD_RC, &p->sum);
}

status prepare_graph_came_direction(executor *e, const graph_came_direction_args *a) {
  came_plan *p = PLAN(e, came_plan);
  TRY(came_plan_of(e, piece_direction, a->grad, "grad", GRAPH_CAME_DIRECTION_GRAD));
  TRY(came_take_side(
      e, 0, (const tensor *const[]){a->r, a->sum_grad_r, a->r_out}, (const char *const[]){"r", "sum_grad_r", "r_out"},
      (const int[]){GRAPH_CAME_DIRECTION_R, GRAPH_CAME_DIRECTION_SUM_GRAD_R, GRAPH_CAME_DIRECTION_R_OUT}));
  TRY(came_take_side(
      e, 1, (const tensor *const[]){a->c, a->sum_grad_c, a->c_out}, (const char *const[]){"c", "sum_grad_c", "c_out"},
      (const int[]){GRAPH_CAME_DIRECTION_C, GRAPH_CAME_DIRECTION_SUM_GRAD_C, GRAPH_CAME_DIRECTION_C_OUT}));
  TRY(came_take_one(a->sum_grad_rc, "sum_grad_rc", GRAPH_CAME_DIRECTION_SUM_GRAD_RC, &p->total));
  TRY(came_take_one(a->beta2, "beta2", GRAPH_CAME_DIRECTION_BETA2, &p->scalar[0]));
  if (a->sum_r) TRY(came_take_one(a->sum_r, "sum_r", GRAPH_CAME_DIRECTION_SUM_R, &p->old_total));
  TRY(came_take_shape(p, a->global_shape, GRAPH_CAME_DIRECTION_GLOBAL_SHAPE));
  TRY(came_take(a->u, "u", GRAPH_CAME_DIRECTION_U, DTYPE_BIT(ACL_FLOAT), a->grad->dims, 2, &p->out));
  return came_take_one(a->sum_square_u, "sum_square_u", GRAPH_CAME_DIRECTION_SUM_SQUARE_U, &p->sum);
}

status prepare_graph_came_moment(executor *e, const graph_came_moment_args *a) {
  const tensor *const one[] = {a->beta1, a->eps, a->clip_threshold, a->sum_square_u};
  static const char *const names[] = {"beta1", "eps", "clip_threshold", "sum_square_u"};
  static const int numbers[] = {GRAPH_CAME_MOMENT_BETA1, GRAPH_CAME_MOMENT_EPS, GRAPH_CAME_MOMENT_CLIP_THRESHOLD,
                                GRAPH_CAME_MOMENT_SUM_SQUARE_U};
  came_plan *p = PLAN(e, came_plan);
  const int64_t *const dims = a->u->dims;
  TRY(came_plan_of(e, piece_moment, a->u, "u", GRAPH_CAME_MOMENT_U));
  TRY(came_take(a->m, "m", GRAPH_CAME_MOMENT_M, DTYPES_FLOAT_TO_32, dims, 2, &p->moment));
  for (int k = 0; k < 4; ++k) TRY(came_take_one(one[k], names[k], numbers[k], &p->scalar[k]));
  TRY(came_take_shape(p, a->global_shape, GRAPH_CAME_MOMENT_GLOBAL_SHAPE));
  TRY(came_take(a->m_out, "m_out", GRAPH_CAME_MOMENT_M_OUT, DTYPE_BIT(a->m->dtype), dims, 2, &p->out));
  p->updates_moment = a->use_first_moment;
  TRY(came_take_sums(p, a->sum_u_r, "sum_u_r", a->sum_u_c, "sum_u_c", GRAPH_CAME_MOMENT_SUM_U_R));
  return came_take_one(a->sum_u_rc, "sum_u_rc", GRAPH_CAME_MOMENT_SUM_U_RC, &p->sum);
}

status prepare_graph_came_step(executor *e, const graph_came_step_args *a) {
  came_plan *p = PLAN(e, came_plan);
  const int64_t *const dims = a->param->dims;
  TRY(came_plan_of(e, piece_step, a->param, "param", GRAPH_CAME_STEP_PARAM));
  TRY(came_take(a->m, "m", GRAPH_CAME_STEP_M, DTYPES_FLOAT_TO_32, dims, 2, &p->moment));
  TRY(came_take_side(e, 0, (const tensor *const[]){a->r, a->sum_u_r, a->r_out},
                     (const char *const[]){"r", "sum_u_r", "r_out"},
                     (const int[]){GRAPH_CAME_STEP_R, GRAPH_CAME_STEP_SUM_U_R, GRAPH_CAME_STEP_R_OUT}));
  TRY(came_take_side(e, 1, (const tensor *const[]){a->c, a->sum_u_c, a->c_out},
                     (const char *const[]){"c", "sum_u_c", "c_out"},
                     (const int[]){GRAPH_CAME_STEP_C, GRAPH_CAME_STEP_SUM_U_C, GRAPH_CAME_STEP_C_OUT}));
  TRY(came_take_one(a->beta3, "beta3", GRAPH_CAME_STEP_BETA3, &p->scalar[STEP_BETA]));
  TRY(came_take_one(a->lr, "lr", GRAPH_CAME_STEP_LR, &p->scalar[STEP_RATE]));
  TRY(came_take_one(a->weight_decay, "weight_decay", GRAPH_CAME_STEP_WEIGHT_DECAY, &p->scalar[STEP_DECAY]));
  TRY(came_take_one(a->sum_u_rc, "sum_u_rc", GRAPH_CAME_STEP_SUM_U_RC, &p->total));
  if (a->sum_r) TRY(came_take_one(a->sum_r, "sum_r", GRAPH_CAME_STEP_SUM_R, &p->old_total));
  TRY(came_take_shape(p, a->global_shape, GRAPH_CAME_STEP_GLOBAL_SHAPE));
  return came_take(a->param_out, "param_out", GRAPH_CAME_STEP_PARAM_OUT, DTYPE_BIT(a->param->dtype), dims, 2, &p->out);
}
