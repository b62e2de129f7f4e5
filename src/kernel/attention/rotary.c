/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary position embedding: RotaryPositionEmbedding, V2, its gradient, InterleaveRope, and ApplyRotaryPosEmb. Pairs of
 * components are rotated by angles whose cosines and sines are given as tables that broadcast to the rows; or a matrix
 * says what is multiplied by the sines. */
#include <stdlib.h>
#include <string.h>

#include "kernel/attention/attention_level.h"
#include "kernel/attention/rotary_level.h"
#include "kernel/engine/level_choice.h"
#include "kernel/engine/rows.h"
#include "kernel/families.h"

LEVEL_CHOICE(rotary_loops, rotary, rotary_loops)

enum {
  MAX_D = 896, /* CANN's limit; rows go through tiles on the stack */
  TILE = 2048, /* floats in a tile: several short rows, or one long row */
  OUT = 0,
  IN,
  COS,
  SIN,
  OPERANDS,
};

/* The rotation of one tensor. */
typedef struct {
  walk rows; /* operands OUT, IN, COS, SIN */
  int64_t d, along[OPERANDS];
  int8_t dtype[OPERANDS];
  uint8_t operand[OPERANDS];
  uint8_t mode;
  bool backward;
  int8_t matrix_operand; /* 0: there is none */
  int8_t matrix_dtype;
  int64_t matrix_row, matrix_column; /* strides in bytes */
  uint64_t matrix;                   /* in scratch: as floats */
} rotation;

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static operand_type rotary_operand_type(int dtype) {
  return dtype == ACL_BF16 ? OPERAND_BF16 : dtype == ACL_FLOAT16 ? OPERAND_F16 : OPERAND_F32;
}

/* Returns rows as floats, in place or converted in the tile. *ld: floats from one row to the next. */
static const float *rotary_fetch(const rotation *p, int o, const char *from, int64_t row_bytes, int64_t rows,
                                 bool in_place, float *tile, int64_t *ld) {
  const bool dense = p->along[o] == (int64_t)dtype_bytes(p->dtype[o]);
  if (in_place && dense && p->dtype[o] == ACL_FLOAT) {
    *ld = row_bytes / (int64_t)sizeof(float);
    return (const float *)(const void *)from;
  }
  if (!row_bytes) rows = 1;
  *ld = row_bytes ? p->d : 0;
  if (dense)
    attention_rows->widen[rotary_operand_type(p->dtype[o])](tile, p->d, from, row_bytes, rows, p->d);
  else
    for (int64_t i = 0; i < rows; ++i)
      loops->load[p->dtype[o]][COMPUTE_F32](tile + i * p->d, from + i * row_bytes, p->along[o], p->d);
  return tile;
}

static void rotary_store(const rotation *p, char *to, int64_t row_bytes, int64_t rows, const float *tile) {
  const int64_t size = dtype_bytes(p->dtype[OUT]);
  if (p->along[OUT] == size && row_bytes == p->d * size) {
    attention_rows->narrow[rotary_operand_type(p->dtype[OUT])](to, tile, rows * p->d);
    return;
  }
  for (int64_t i = 0; i < rows; ++i)
    loops->store[p->dtype[OUT]][COMPUTE_F32](to + i * row_bytes, p->along[OUT], tile + i * p->d, p->d);
}

typedef struct {
  const rotation *plan;
  void *base[OPERANDS];
  const float *matrix; /* or NULL */
} rotation_job;

/* A mode that moves components cannot work in place. */
static bool moves(const rotation *p) { return p->mode == ROTARY_INTERLEAVE_HALF; }

/* out = in * cos + (in @ matrix) * sin; out may be in. */
static void rotate_by_matrix(float *out, const float *in, const float *cos, const float *sin, const rotary_rows *r,
                             const float *matrix) {
  float turned[MAX_D];
  for (int64_t k = 0; k < r->rows; ++k, out += r->ld_out, in += r->ld_in, cos += r->ld_cos, sin += r->ld_sin) {
    memset(turned, 0, (size_t)r->d * sizeof *turned);
    attention_rows->sums(turned, r->d, in, r->d, 1, r->d, matrix, r->d, r->d);
    for (int64_t i = 0; i < r->d; ++i) out[i] = in[i] * cos[i] + turned[i] * sin[i];
  }
}

static void rotate_range(const void *job, int64_t begin, int64_t end) {
  _Alignas(64) float tile[OPERANDS][TILE];
  const rotation_job *j = job;
  const rotation *p = j->plan;
  rotate_loop *rotate = (p->backward ? rotary->backward : rotary->forward)[p->mode];
  const int64_t *strides[OPERANDS];
  for (int o = 0; o < OPERANDS; ++o) strides[o] = &p->rows.strides[o][p->rows.rank - 1];
  const bool direct = p->dtype[OUT] == ACL_FLOAT && p->along[OUT] == (int64_t)sizeof(float);
  cursor c;
  cursor_start(&c, &p->rows, j->base, begin);
  for (int64_t i = begin, n; i < end; i += n, cursor_next(&c, n)) {
    n = cursor_row(&c, i64_min(end - i, TILE / p->d));
    rotary_rows r = {.d = p->d, .rows = n, .ld_out = p->d};
    const float *in = rotary_fetch(p, IN, c.at[IN], *strides[IN], n, !moves(p), tile[IN], &r.ld_in);
    const float *cos = rotary_fetch(p, COS, c.at[COS], *strides[COS], n, true, tile[COS], &r.ld_cos);
    const float *sin = rotary_fetch(p, SIN, c.at[SIN], *strides[SIN], n, true, tile[SIN], &r.ld_sin);
    if (direct) r.ld_out = *strides[OUT] / (int64_t)sizeof(float);
    float *const out = direct ? (float *)(void *)c.at[OUT] : tile[OUT];
    if (j->matrix)
      rotate_by_matrix(out, in, cos, sin, &r, j->matrix);
    else
      rotate(out, in, cos, sin, &r);
    if (!direct) rotary_store(p, c.at[OUT], *strides[OUT], n, tile[OUT]);
  }
}

static void rotate_all(const rotation *p, void *const *view, const float *matrix, uint64_t cost_ns) {
  rotation_job j = {.plan = p, .matrix = matrix};
  for (int o = 0; o < OPERANDS; ++o) j.base[o] = view[p->operand[o]];
  rows_parallel(rotate_range, &j, p->d ? p->rows.n : 0, 1, cost_ns);
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

typedef struct {
  const tensor *tensor;
  const char *name;
  int operand;
} rotary_operand;

/* A tensor's rows, broadcast to `dims`. The last dimension is removed from the view; its stride goes to *along. */
static void view_rows(const tensor *t, const int64_t *dims, int rank, view *v, int64_t *along) {
  *v = view_of(t);
  *along = v->strides[rank - 1];
  v->rank = rank - 1;
  for (int d = 0; d < rank - 1; ++d) {
    if (v->dims[d] != dims[d]) v->strides[d] = 0;
    v->dims[d] = dims[d];
  }
}

static status check_table(const rotary_operand *table, const tensor *x) {
  const tensor *t = table->tensor;
  TRY(op_expect_dtype(t, table->name, DTYPES_FLOAT_TO_32));
  bool fits = t->rank == x->rank && t->dims[x->rank - 1] == x->dims[x->rank - 1];
  for (int d = 0; fits && d < x->rank - 1; ++d) fits = t->dims[d] == x->dims[d] || t->dims[d] == 1;
  EXPECT(fits, "%s has shape %s, expected one that broadcasts to %s, with its last dimension", table->name, SHAPE_OF(t),
         SHAPE_OF(x));
  return ST_OK;
}

/* operands: OUT, IN, COS, SIN. */
static status plan_rotation(rotation *p, int64_t mode, bool backward, const rotary_operand *operands) {
  const tensor *x = operands[IN].tensor;
  TRY(op_expect_dtype(x, operands[IN].name, DTYPES_FLOAT_TO_32));
  TRY(op_expect_dtype(operands[OUT].tensor, operands[OUT].name, DTYPES_FLOAT_TO_32));
  EXPECT(mode >= 0 && mode < N_ROTARY, "mode is %jd, expected 0 to 3", (intmax_t)mode);
  EXPECT(x->rank >= 1, "%s has no dimension, expected 1 to %d", operands[IN].name, MAX_RANK);
  const int64_t d = x->dims[x->rank - 1], divisor = mode == ROTARY_QUARTER ? 4 : 2;
  EXPECT(d % divisor == 0 && d <= MAX_D, "%s has %jd components, expected a multiple of %jd, up to %d",
         operands[IN].name, (intmax_t)d, (intmax_t)divisor, MAX_D);
  TRY(op_expect_same_shape(operands[OUT].tensor, operands[OUT].name, x));
  TRY(check_table(&operands[COS], x));
  TRY(check_table(&operands[SIN], x));
  view v[OPERANDS];
  const view *rows[OPERANDS];
  for (int o = 0; o < OPERANDS; ++o) {
    view_rows(operands[o].tensor, x->dims, x->rank, &v[o], &p->along[o]);
    p->dtype[o] = (int8_t)operands[o].tensor->dtype;
    p->operand[o] = (uint8_t)operands[o].operand;
    rows[o] = &v[o];
  }
  walk_init(&p->rows, rows, OPERANDS, x->rank - 1);
  p->d = d;
  p->mode = (uint8_t)mode;
  p->backward = backward;
  p->matrix_operand = 0;
  return ST_OK;
}

static uint64_t rotary_bytes(const tensor *t) { return (uint64_t)t->n * dtype_bytes(t->dtype); }

static status rotary_run(const executor *e, void *const *view, void *scratch) {
  const rotation *p = PLAN(e, rotation);
  float *const matrix = p->matrix_operand ? (float *)(void *)((char *)scratch + p->matrix) : NULL;
  for (int64_t i = 0; matrix && i < p->d; ++i)
    loops->load[p->matrix_dtype][COMPUTE_F32](
        matrix + i * p->d, (const char *)view[p->matrix_operand] + i * p->matrix_row, p->matrix_column, p->d);
  rotate_all(p, view, matrix, e->cost_ns);
  return ST_OK;
}

/* Tables of RotaryPositionEmbedding: four dimensions (V2: or three), equal shapes, and not broadcast in the first
 * dimension alone. */
static status check_tables_by_mode(const tensor *x, const char *name, const tensor *cos, const tensor *sin, bool flat) {
  EXPECT(x->rank == 4 || (flat && x->rank == 3), "%s has %d dimensions, expected %s4", name, x->rank,
         flat ? "3 or " : "");
  TRY(check_table(&(rotary_operand){.tensor = cos, .name = "cos"}, x));
  TRY(op_expect_same_shape(sin, "sin", cos));
  EXPECT(x->rank == 3 || cos->dims[0] == x->dims[0] || cos->dims[1] == 1 || cos->dims[2] == 1,
         "cos has shape %s, expected one that is not repeated in the first of %s's dimensions %s only", SHAPE_OF(cos),
         name, SHAPE_OF(x));
  return ST_OK;
}

/* V2's matrix: what it gives replaces the part that a mode moves. */
static status rotary_set_matrix(executor *e, rotation *p, const tensor *matrix, const tensor *x) {
  const int64_t d = x->dims[x->rank - 1];
  TRY(op_expect_dtype(matrix, "rotate", DTYPE_BIT(x->dtype)));
  TRY(op_expect_shape(matrix, "rotate", (const int64_t[]){d, d}, 2));
  const view v = view_of(matrix);
  p->matrix_operand = ROTARY_ROTATE;
  p->matrix_dtype = (int8_t)matrix->dtype;
  p->matrix_row = v.strides[0], p->matrix_column = v.strides[1];
  p->matrix = workspace_intermediate(e, (uint64_t)(d * d) * sizeof(float));
  return ST_OK;
}

/* (x, cos, sin, [mode, [rotate,]] out) */
status prepare_rotary(executor *e, const rotary_args *a) {
  const bool with_matrix = e->op->variant == ROTARY_BY_MATRIX;
  const bool by_mode = e->op->variant == ROTARY_BY_MODE || with_matrix;
  const tensor *x = a->x, *out = a->out;
  if (by_mode && !x->n) { /* the tables are not checked */
    *PLAN(e, rotation) = (rotation){0};
    e->run = rotary_run;
    return op_expect_same_shape(out, "out", x);
  }
  if (by_mode) TRY(check_tables_by_mode(x, "x", a->cos, a->sin, with_matrix));
  const rotary_operand operands[OPERANDS] = {
      {out, "out", a->view.out}, {x, "x", ROTARY_X}, {a->cos, "cos", ROTARY_COS}, {a->sin, "sin", ROTARY_SIN}};
  const int64_t mode = by_mode ? a->mode : ROTARY_INTERLEAVE_HALF;
  rotation *const p = PLAN(e, rotation);
  TRY(plan_rotation(p, mode, false, operands));
  if (a->rotate) TRY(rotary_set_matrix(e, p, a->rotate, x));
  const uint64_t terms = a->rotate ? (uint64_t)p->d * 2 : 4;
  executor_cost(e, 2 * rotary_bytes(x) + 2 * rotary_bytes(a->cos), (uint64_t)x->n * terms);
  e->run = rotary_run;
  return ST_OK;
}

/* ---- ApplyRotaryPosEmb: query and key in place ------------------------------------------------------------------- */

static status apply_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  rotate_all(PLAN(e, rotation), view, NULL, e->cost_ns / 2);
  rotate_all(e->heap, view, NULL, e->cost_ns / 2);
  return ST_OK;
}

static status mode_named(const char *name, int64_t *mode) {
  static const char *const names[] = {
      [ROTARY_HALF] = "half", [ROTARY_INTERLEAVE] = "interleave", [ROTARY_QUARTER] = "quarter"};
  for (int i = 0; i < (int)(sizeof names / sizeof *names); ++i)
    if (name && !strcmp(name, names[i])) {
      *mode = i;
      return ST_OK;
    }
  return OP_FAIL("rotaryMode is \"%.32s\", expected \"half\", \"interleave\" or \"quarter\"", name ? name : "");
}

/* ApplyRotaryPosEmb: 128 components; the tables have one head and are not broadcast in any other dimension. */
static status check_halves(const tensor *query, const tensor *key, const tensor *cos, const tensor *sin) {
  EXPECT(query->rank == 4 && query->dims[3] == 128, "queryRef has %d dimensions and %jd components, expected 4 and 128",
         query->rank, (intmax_t)(query->rank ? query->dims[query->rank - 1] : 0));
  int64_t dims[4] = {query->dims[0], query->dims[1], 1, 128};
  TRY(op_expect_shape(cos, "cos", dims, 4));
  TRY(op_expect_shape(sin, "sin", dims, 4));
  dims[2] = key->rank == 4 ? key->dims[2] : 1;
  return op_expect_shape(key, "keyRef", dims, 4);
}

/* (queryRef, keyRef, cos, sin, layout [, rotaryMode]). The tables have 1 head, in the layout's dimension of heads. */
status prepare_apply_rotary(executor *e, const apply_rotary_args *a) {
  const bool named = e->op->variant == ROTARY_NAMED;
  const tensor *query = a->query, *key = a->key;
  const rotary_operand cos = {a->cos, "cos", APPLY_ROTARY_COS}, sin = {a->sin, "sin", APPLY_ROTARY_SIN};
  const rotary_operand q = {query, "queryRef", APPLY_ROTARY_QUERY}, k = {key, "keyRef", APPLY_ROTARY_KEY};
  const int64_t layout = a->layout;
  int64_t mode = ROTARY_HALF;
  EXPECT(layout == 1 || (named && layout >= 1 && layout <= 3), "layout is %jd, expected 1 (BSND)%s", (intmax_t)layout,
         named ? ", 2 (SBND) or 3 (BNSD)" : "");
  if (named)
    TRY(mode_named(a->rotary_mode, &mode));
  else
    TRY(check_halves(query, key, a->cos, a->sin));
  EXPECT(query->rank == 4 && key->rank == 4, "queryRef and keyRef have %d and %d dimensions, expected 4", query->rank,
         key->rank);
  TRY(plan_rotation(PLAN(e, rotation), mode, false, (const rotary_operand[]){q, q, cos, sin}));
  HEAP_PLAN(rotation, of_key, e, sizeof *of_key);
  TRY(plan_rotation(of_key, mode, false, (const rotary_operand[]){k, k, cos, sin}));
  executor_cost(e, 2 * (rotary_bytes(query) + rotary_bytes(key)), (uint64_t)(query->n + key->n) * 4);
  e->run = apply_run;
  return ST_OK;
}

/* ---- the gradient ------------------------------------------------------------------------------------------------ */

/* Gradients of cos and sin: for each of their rows, a sum over the rows that it was broadcast to. */
typedef struct {
  walk kept, summed; /* kept: rows of dcos, dsin, dy, x; summed: rows of dy, x */
  row_access dcos, dsin, dy, x;
  int64_t d;
  uint8_t mode, n_summed; /* number of the mode; operand indices of dcos, dsin, dy, x */
  uint8_t operand[4];
} table_gradient;

enum { BLOCK = 64 }; /* rows that are summed in float before the sum is added in double */

static void add_block(double *sum, const float *block, int64_t d) {
  for (int64_t i = 0; i < d; ++i) sum[i] += (double)block[i];
}

static void store_sum(const row_access *a, char *to, const double *sum, float *tile, int64_t d) {
  for (int64_t i = 0; i < d; ++i) tile[i] = (float)sum[i];
  row_store(a, to, (const char *)tile, 1, d);
}

typedef struct {
  const table_gradient *plan;
  void *base[4];
} table_job;

static void rotary_sum_row(const table_gradient *p, void *const *at) {
  double sums[2][MAX_D];
  _Alignas(64) float blocks[2][MAX_D], tile[2][MAX_D];
  memset(sums[0], 0, (size_t)p->d * sizeof **sums);
  memset(sums[1], 0, (size_t)p->d * sizeof **sums);
  cursor c;
  cursor_start(&c, &p->summed, at + 2, 0);
  for (int64_t i = 0; i < p->summed.n;) {
    memset(blocks[0], 0, (size_t)p->d * sizeof **blocks);
    memset(blocks[1], 0, (size_t)p->d * sizeof **blocks);
    for (int64_t end = i64_min(i + BLOCK, p->summed.n); i < end; ++i, cursor_next(&c, 1)) {
      const char *dy = row_fetch(&p->dy, (char *)tile[0], c.at[0], 1, p->d);
      const char *x = row_fetch(&p->x, (char *)tile[1], c.at[1], 1, p->d);
      rotary->tables[p->mode](blocks[0], blocks[1], (const float *)(const void *)dy, (const float *)(const void *)x,
                              p->d);
    }
    add_block(sums[0], blocks[0], p->d);
    add_block(sums[1], blocks[1], p->d);
  }
  store_sum(&p->dcos, at[0], sums[0], tile[0], p->d);
  store_sum(&p->dsin, at[1], sums[1], tile[0], p->d);
}

static void rotary_sum_range(const void *job, int64_t begin, int64_t end) {
  const table_job *j = job;
  cursor c;
  cursor_start(&c, &j->plan->kept, j->base, begin);
  for (int64_t i = begin; i < end; ++i, cursor_next(&c, 1)) rotary_sum_row(j->plan, (void *const *)c.at);
}

static status rotary_grad_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  rotate_all(PLAN(e, rotation), view, NULL, e->cost_ns / 2);
  const table_gradient *p = e->heap;
  if (!p) return ST_OK;
  table_job j = {.plan = p};
  for (int o = 0; o < 4; ++o) j.base[o] = view[p->operand[o]];
  rows_parallel(rotary_sum_range, &j, p->d ? p->kept.n : 0, 1, e->cost_ns / 2);
  return ST_OK;
}

/* Separates the dimensions of dy into those that cos has and those that cos is broadcast over. */
static void plan_tables(table_gradient *p, const tensor *const *t, int64_t mode) {
  const tensor *dy = t[2], *dcos = t[0];
  view kept[4], summed[2];
  const view *kept_views[4], *summed_views[2];
  int64_t along[4];
  for (int o = 0; o < 4; ++o) {
    view_rows(t[o], t[o]->dims, dy->rank, &kept[o], &along[o]);
    kept_views[o] = &kept[o];
  }
  for (int o = 0; o < 2; ++o) {
    summed[o] = kept[2 + o];
    summed_views[o] = &summed[o];
  }
  for (int d = 0; d < dy->rank - 1; ++d) {
    const bool is_summed = dcos->dims[d] != dy->dims[d];
    for (int o = 0; o < 4; ++o)
      if (is_summed) kept[o].dims[d] = 1;
    for (int o = 0; o < 2; ++o)
      if (!is_summed) summed[o].dims[d] = 1;
  }
  walk_init(&p->kept, kept_views, 4, dy->rank - 1);
  walk_init(&p->summed, summed_views, 2, dy->rank - 1);
  row_access *const access[4] = {&p->dcos, &p->dsin, &p->dy, &p->x};
  for (int o = 0; o < 4; ++o) *access[o] = row_access_of(t[o]->dtype, COMPUTE_F32, along[o], 0, MAX_D);
  p->d = dy->dims[dy->rank - 1];
  p->mode = (uint8_t)mode;
  memcpy(p->operand, (const uint8_t[]){ROTARY_GRAD_DCOS_OUT, ROTARY_GRAD_DSIN_OUT, ROTARY_GRAD_DY, ROTARY_GRAD_X},
         sizeof p->operand);
}

status prepare_rotary_grad(executor *e, const rotary_grad_args *a) {
  const tensor *dy = a->dy, *cos = a->cos, *x = a->x, *dcos = a->dcos_out, *dsin = a->dsin_out;
  const rotary_operand operands[OPERANDS] = {{a->dx_out, "dxOut", ROTARY_GRAD_DX_OUT},
                                             {dy, "dy", ROTARY_GRAD_DY},
                                             {cos, "cos", ROTARY_GRAD_COS},
                                             {a->sin, "sin", ROTARY_GRAD_SIN}};
  if (dy->n) TRY(check_tables_by_mode(dy, "dy", cos, a->sin, false));
  TRY(plan_rotation(PLAN(e, rotation), a->mode, true, operands));
  executor_cost(e, 2 * rotary_bytes(dy) + (x ? 2 * rotary_bytes(dy) : 0), (uint64_t)dy->n * (x ? 10 : 4));
  e->run = rotary_grad_run;
  if (!x) return ST_OK;
  TRY(op_expect_dtype(x, "xOptional", DTYPES_FLOAT_TO_32));
  TRY(op_expect_same_shape(x, "xOptional", dy));
  EXPECT(dcos && dsin, "%s is NULL, expected a tensor where xOptional is given", dcos ? "dsinOut" : "dcosOut");
  TRY(op_expect_dtype(dcos, "dcosOut", DTYPES_FLOAT_TO_32));
  TRY(op_expect_dtype(dsin, "dsinOut", DTYPES_FLOAT_TO_32));
  TRY(op_expect_same_shape(dcos, "dcosOut", cos));
  TRY(op_expect_same_shape(dsin, "dsinOut", cos));
  HEAP_PLAN(table_gradient, p, e, sizeof *p);
  plan_tables(p, (const tensor *const[]){dcos, dsin, dy, x}, a->mode);
  return ST_OK;
}
