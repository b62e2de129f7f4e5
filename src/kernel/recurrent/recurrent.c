/* SPDX-License-Identifier: Apache-2.0 */
/* Checks, operand access and GEMM calls that the recurrent operators share; see recurrent.h. */
#include "kernel/recurrent/recurrent.h"

#include <string.h>

#include "kernel/engine/level_choice.h"
#include "kernel/product/product.h"

LEVEL_CHOICE(cell_loops, cells, cell_loops)

/* ---- phase one --------------------------------------------------------------------------------------------------- */

status recurrent_attributes(recurrent *r, const char *direction, bool time_major, int64_t num_proj, double keep_prob,
                            double cell_clip) {
  r->reversed = !strcmp(direction, "REDIRECTIONAL");
  EXPECT(r->reversed || !strcmp(direction, "UNIDIRECTIONAL"),
         "direction is \"%.32s\", expected UNIDIRECTIONAL or REDIRECTIONAL", direction);
  EXPECT(time_major, "time_major is false, expected true");
  EXPECT(num_proj == 0, "num_proj is %jd, expected 0", (intmax_t)num_proj);
  EXPECT(keep_prob == 1 || keep_prob < 0, "keep_prob is %g, expected 1 or -1 (no dropout)", keep_prob);
  EXPECT(cell_clip <= 0, "cell_clip is %g, expected -1 or 0 (no clipping)", cell_clip);
  return ST_OK;
}

status recurrent_gates(recurrent *r, const char *order, const char *letters) {
  const size_t n = strlen(letters);
  for (size_t gate = 0; gate < n; ++gate) {
    const char other = letters[gate] == 'j' ? 'c' : letters[gate] == 'n' ? 'h' : letters[gate];
    const char pair[] = {letters[gate], other, '\0'};
    const size_t at = strcspn(order, pair);
    EXPECT(strlen(order) == n && at < n, "gate_order is \"%.32s\", expected the letters %s in some order", order,
           letters);
    r->order[gate] = (int8_t)at;
  }
  return ST_OK;
}

status recurrent_expect(const tensor *t, const char *name, const int64_t *dims, int rank) {
  if (!t) return ST_OK;
  TRY(op_expect_dtype(t, name, DTYPES_FLOAT_TO_32));
  return op_expect_shape(t, name, dims, rank);
}

status recurrent_sizes(recurrent *r, const executor *e, const op_arg *all, const tensor *x, const tensor *weight,
                       int n_gates) {
  const int64_t columns = weight->rank ? weight->dims[weight->rank - 1] : 0;
  TRY(op_expect_dtype(x, "x", DTYPES_FLOAT_TO_32));
  EXPECT(x->rank == 3 || x->rank == 2, "x has shape %s, expected [steps, batch, inputs]", SHAPE_OF(x));
  EXPECT(columns > 0 && columns % n_gates == 0, "the weights have %jd columns, expected a multiple of %d",
         (intmax_t)columns, n_gates);
  EXPECT(x->n > 0, "x has shape %s, expected some elements", SHAPE_OF(x));
  r->steps = x->rank == 3 ? x->dims[0] : 1;
  r->batch = x->dims[x->rank - 2];
  r->inputs = x->dims[x->rank - 1];
  r->hidden = columns / n_gates;
  r->row_cost_ns = (uint64_t)r->hidden * 6; /* ns per element: four exponentials, and some loads and stores */
  for (int i = 0; i < e->n_operands; ++i) r->dtype[i] = (int8_t)(all[i].tensor ? all[i].tensor->dtype : ACL_FLOAT);
  return ST_OK;
}

status recurrent_expect_steps(const recurrent *r, const tensor *t, const char *name) {
  const int64_t dims[] = {r->steps, r->batch, r->hidden};
  const int missing = r->steps == 1 && t && t->rank == 2;
  return recurrent_expect(t, name, dims + missing, 3 - missing);
}

status recurrent_expect_state(const recurrent *r, const tensor *t, const char *name) {
  recurrent one = *r;
  one.steps = 1;
  return recurrent_expect_steps(&one, t, name);
}

status recurrent_mask(recurrent *r, const tensor *t, const char *name, int operand) {
  r->mask = MASK_NONE;
  r->mask_operand = (int8_t)operand;
  if (!t || t->rank == 0) return ST_OK;
  if (t->dtype == ACL_INT32) {
    r->mask = MASK_LENGTHS;
    return op_expect_shape(t, name, &r->batch, 1);
  }
  r->mask = MASK_ELEMENTS;
  return recurrent_expect_steps(r, t, name);
}

status recurrent_expect_none(const tensor *t, const char *name) {
  EXPECT(!t || t->rank == 0, "%s is a tensor, expected NULL", name);
  return ST_OK;
}

/* ---- operands ---------------------------------------------------------------------------------------------------- */

void recurrent_load(const recurrent *r, void *const *view, int operand, int64_t at, float *to, int64_t n) {
  const int dtype = r->dtype[operand];
  const int64_t size = (int64_t)dtype_bytes(dtype);
  if (view[operand])
    loops->load[dtype][COMPUTE_F32](to, (const char *)view[operand] + at * size, size, n);
  else
    memset(to, 0, (size_t)n * sizeof *to);
}

void recurrent_store(const recurrent *r, void *const *view, int operand, int64_t at, const float *from, int64_t n) {
  const int dtype = r->dtype[operand];
  const int64_t size = (int64_t)dtype_bytes(dtype);
  if (view[operand]) loops->store[dtype][COMPUTE_F32]((char *)view[operand] + at * size, size, from, n);
}

void recurrent_mask_row(const recurrent *r, void *const *view, int64_t step, int64_t row, float *to) {
  if (r->mask == MASK_ELEMENTS) {
    recurrent_load(r, view, r->mask_operand, (step * r->batch + row) * r->hidden, to, r->hidden);
    return;
  }
  const float counts = step < ((const int32_t *)view[r->mask_operand])[row];
  for (int64_t k = 0; k < r->hidden; ++k) to[k] = counts;
}

/* ---- GEMM -------------------------------------------------------------------------------------------------------- */

matrix recurrent_matrix(const void *at, int dtype, int64_t rows, int64_t cols) {
  const int64_t size = (int64_t)dtype_bytes(dtype);
  return (matrix){at, dtype, rows, cols, cols * size, size};
}

matrix recurrent_matrix_transposed(matrix m) {
  return (matrix){m.at, m.dtype, m.cols, m.rows, m.col_stride, m.row_stride};
}

matrix recurrent_matrix_rows(matrix m, int64_t begin, int64_t rows) {
  m.at = (const char *)m.at + begin * m.row_stride;
  m.rows = rows;
  return m;
}

static matrices recurrent_factor(const matrix *m) {
  return (matrices){
      .dtype = m->dtype, .rows = m->rows, .cols = m->cols, .row_stride = m->row_stride, .col_stride = m->col_stride};
}

static product_plan recurrent_plan(const matrix *a, const matrix *b, const matrix *out, const matrix *add,
                                   bool constant_b) {
  product_plan p = {.a = recurrent_factor(a),
                    .b = recurrent_factor(b),
                    .out = recurrent_factor(out),
                    .constant_b = constant_b,
                    .alpha = 1,
                    .beta = add != NULL,
                    .has_self = add != NULL};
  if (add) p.self = recurrent_factor(add);
  product_choose(&p, NULL);
  return p;
}

static status recurrent_multiply(const matrix *a, const matrix *b, const matrix *out, const matrix *add,
                                 const void *packed_b) {
  const product_plan p = recurrent_plan(a, b, out, add, packed_b != NULL);
  product_call call = {.plan = &p, .a = a->at, .b = b->at, .out = (void *)out->at, .packed_b = packed_b};
  if (add) call.self = add->at;
  return product_run(&call, 1);
}

status recurrent_matrix_product(matrix a, matrix b, matrix out, const matrix *add) {
  return recurrent_multiply(&a, &b, &out, add, NULL);
}

/* ---- the weight of the state, which each step multiplies by ------------------------------------------------------ */

static product_plan step_plan(const recurrent *r, const matrix *weight) {
  const matrix a = recurrent_matrix(NULL, ACL_FLOAT, r->batch, weight->rows),
               out = recurrent_matrix(NULL, ACL_FLOAT, r->batch, weight->cols);
  return recurrent_plan(&a, weight, &out, NULL, true);
}

uint64_t step_weight_bytes(const recurrent *r, matrix weight) {
  enum { LEAST_STEPS = 4 }; /* packing takes about as long as a step of few rows */
  if (r->steps < LEAST_STEPS) return 0;
  const product_plan p = step_plan(r, &weight);
  return product_packed_bytes(&p);
}

step_weight step_weight_of(matrix m, const recurrent *r, void *room) {
  step_weight w = {.as_it_lies = m};
  if (step_weight_bytes(r, m) > 0) {
    const product_plan p = step_plan(r, &m);
    w.packed = room;
    product_pack(&p, m.at, room, NULL);
  }
  return w;
}

status step_weight_multiply(const step_weight *w, matrix a, matrix out, bool add) {
  return recurrent_multiply(&a, &w->as_it_lies, &out, add ? &out : NULL, w->packed);
}

status recurrent_matrix_column_sums(matrix a, matrix out) {
  static const float one = 1;
  const matrix ones = {&one, ACL_FLOAT, 1, a.rows, 0, 0};
  return recurrent_matrix_product(ones, a, out, NULL);
}

/* The states before the steps are the initial state, and the states after all steps but the last. Both partial sums are
 * rounded to dw_h's dtype, so the one of the initial state, which covers a single step, is computed first. */
status recurrent_state_weights(const recurrent *r, void *const *view, int init_h, int h, matrix d_gates, matrix dw_h) {
  const int64_t first = recurrent_step(r, 0), rest = (r->steps - 1) * r->batch;
  const matrix states = recurrent_matrix(view[h], r->dtype[h], r->steps * r->batch, r->hidden);
  const matrix initial = recurrent_matrix(view[init_h], r->dtype[init_h], r->batch, r->hidden);
  const matrix before = recurrent_matrix_rows(states, r->reversed ? r->batch : 0, rest);
  const matrix behind = recurrent_matrix_rows(d_gates, r->reversed ? 0 : r->batch, rest);
  TRY(recurrent_matrix_product(recurrent_matrix_transposed(initial),
                               recurrent_matrix_rows(d_gates, first * r->batch, r->batch), dw_h, NULL));
  return r->steps > 1 ? recurrent_matrix_product(recurrent_matrix_transposed(before), behind, dw_h, &dw_h) : ST_OK;
}
