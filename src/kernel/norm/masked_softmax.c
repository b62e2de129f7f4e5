/* SPDX-License-Identifier: Apache-2.0 */
/* aclnnScaledMaskedSoftmax, along the last of four dimensions: y = softmax(mask ? -10000 : scale * x), as in Megatron;
 * so a row that is masked completely is uniform. With fixedTriuMask, the mask is the part above the diagonal of the
 * last two dimensions. The gradient is 0 where the mask is set. */
#include "kernel/families.h"
#include "kernel/norm/panels.h"
#include "kernel/norm/softmax_loops.h"

enum { RANK = 4, MASKED = -10000 };

typedef struct {
  panel_plan rows; /* the mask's bytes are the last operand, unless the mask is the triangle */
  float scale;
  bool triangle;
  int64_t n_rows; /* rows of one matrix, for the triangle */
} masked_plan;

enum { PIECE = 1024 };

/* The mask's bytes for n elements of row i. */
static void mask_piece(const masked_plan *m, const panel *p, int operand, int i, int64_t begin, int64_t n,
                       uint8_t *mask) {
  if (m->triangle) {
    const int64_t row = (p->row + i) % m->n_rows;
    for (int64_t k = 0; k < n; ++k) mask[k] = begin + k > row;
  } else {
    const float *from = panel_floats(p, operand, i) + begin;
    for (int64_t k = 0; k < n; ++k) mask[k] = from[k] != 0;
  }
}

static void mask_row(const masked_plan *m, const panel *p, int operand, int i, float *y, const float *x, float fill) {
  uint8_t mask[PIECE];
  for (int64_t begin = 0, n; begin < p->n; begin += n) {
    n = i64_min(PIECE, p->n - begin);
    mask_piece(m, p, operand, i, begin, n, mask);
    softmax->masked_scale(y + begin, x + begin, mask, m->scale, fill, n);
  }
}

/* Operands: x, y, mask. */
static void masked_panel(const void *op, const panel *p) {
  for (int i = 0; i < p->width; ++i) {
    float *y = panel_floats(p, 1, i);
    mask_row(op, p, 2, i, y, panel_floats(p, 0, i), MASKED);
    softmax->f32.softmax(&(softmax_matrix){.y = (char *)y, .x = (char *)y, .n = p->n, .rows = 1, .dtype = ACL_FLOAT});
  }
}

/* Operands: the gradient, y, the gradient of the input, mask. */
static void masked_back_panel(const void *op, const panel *p) {
  for (int i = 0; i < p->width; ++i) {
    float *dx = panel_floats(p, 2, i);
    softmax->f32.softmax_back(&(softmax_back_rows){.dx = panel_row(p, 2, i),
                                                   .dy = panel_row(p, 0, i),
                                                   .y = panel_row(p, 1, i),
                                                   .n = p->n,
                                                   .rows = 1,
                                                   .dtype = ACL_FLOAT});
    mask_row(op, p, 3, i, dx, dx, 0);
  }
}

static status masked_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const masked_plan *m = PLAN(e, masked_plan);
  return panels_run(&(panel_job){.plan = &m->rows, .view = view, .body = masked_panel, .op = m}, e->cost_ns);
}

static status masked_back_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const masked_plan *m = PLAN(e, masked_plan);
  return panels_run(&(panel_job){.plan = &m->rows, .view = view, .body = masked_back_panel, .op = m}, e->cost_ns);
}

static const uint64_t DTYPES_OF_X = DTYPES_FLOAT_TO_32;

static status expect_tensor(const tensor *t, const char *name, const tensor *x) {
  TRY(op_expect_dtype(t, name, DTYPES_OF_X));
  EXPECT(t->rank == RANK, "%s has %d dimensions, expected %d", name, t->rank, RANK);
  return op_expect_shape(t, name, x->dims, RANK);
}

static status masked_expect_mask(const tensor *mask, const tensor *x) {
  TRY(op_expect_dtype(mask, "mask", DTYPE_BIT(ACL_BOOL)));
  bool fits = mask->rank == RANK;
  for (int d = 0; fits && d < RANK; ++d) fits = mask->dims[d] == x->dims[d] || mask->dims[d] == 1;
  EXPECT(fits, "mask has shape %s, expected one that broadcasts to %s", SHAPE_OF(mask), DIMS_TEXT(x->dims, RANK));
  return ST_OK;
}

/* Plans the rows of n tensors, the last of which is written, and of the mask. */
static status plan_masked(executor *e, const tensor *const *t, const int *view_index, int n, const tensor *mask,
                          int mask_view, double scale, bool triangle) {
  masked_plan *m = PLAN(e, masked_plan);
  m->scale = (float)scale;
  m->triangle = triangle;
  m->n_rows = t[0]->dims[RANK - 2];
  panel_plan_init(&m->rows, COMPUTE_F32, RANK - 1, 1, t[0]->dims);
  uint64_t bytes = 0;
  for (int k = 0; k < n; ++k) {
    const view v = view_of(t[k]);
    panel_add(&m->rows, k < n - 1 ? PANEL_READ : PANEL_WRITTEN, view_index[k], &v);
    bytes += (uint64_t)t[k]->n * dtype_bytes(t[k]->dtype);
  }
  if (!triangle) {
    if (!mask) return fail(ST_OP_NULL, "mask is NULL, expected a tensor where the mask is not the fixed triangle");
    TRY(masked_expect_mask(mask, t[0]));
    view v = view_of(mask);
    for (int d = 0; d < RANK; ++d)
      if (v.dims[d] == 1) v.strides[d] = 0;
    panel_add(&m->rows, PANEL_READ, mask_view, &v);
    bytes += (uint64_t)mask->n;
  }
  panel_plan_end(&m->rows, triangle);
  executor_cost(e, bytes, (uint64_t)t[0]->n * 24);
  return ST_OK;
}

status prepare_masked_softmax(executor *e, const masked_softmax_args *a) {
  const tensor *x = a->x, *y = a->y;
  TRY(expect_tensor(x, "x", x));
  TRY(expect_tensor(y, "y", x));
  e->run = masked_run;
  return plan_masked(e, (const tensor *const[]){x, y}, (const int[]){0, 2}, 2, a->mask, 1, a->scale,
                     a->fixed_triu_mask);
}

status prepare_masked_softmax_backward(executor *e, const masked_softmax_backward_args *a) {
  const tensor *grad = a->grad_output, *y = a->y, *out = a->out;
  TRY(expect_tensor(grad, "gradOutput", grad));
  TRY(expect_tensor(y, "y", grad));
  TRY(expect_tensor(out, "out", grad));
  e->run = masked_back_run;
  return plan_masked(e, (const tensor *const[]){grad, y, out}, (const int[]){0, 1, 3}, 3, a->mask, 2, a->scale,
                     a->fix_triu_mask);
}
