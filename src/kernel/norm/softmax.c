/* LogSoftmax and its gradient, along any dimension: rows (panels of them where that reads memory better) go through
 * tiles, once for each thing that must be known of the whole row before the next can be done. Rows of one block stay
 * in their tile. Sums go by blocks, then in double: no bit depends on strides or threads. */
#include <math.h>

#include "kernel/families.h"
#include "kernel/engine/rows.h"

enum { BLOCK = 512, TILE = TILE_BYTES(BLOCK), TENSORS = 3 };

typedef struct {
  walk rows; /* operands in the order of the call, the output last */
  row_access access[TENSORS];
  int64_t n; /* elements of a row */
  int width; /* rows of a panel */
  bool is_double;
} softmax_plan;

typedef struct {
  const softmax_plan *plan;
  void *const *view;
} softmax_job;

/* ---- what is done to the blocks of one row ----------------------------------------------------------------------- */

/* The larger; NaN is larger than all. */
static double larger(double a, double b) { return a != a || a > b ? a : b; }

static double block_max(bool is_double, const void *x, int64_t n) {
  return is_double ? loops->max_f64(x, n) : (double)loops->max_f32(x, n);
}

static double block_sum(bool is_double, const void *x, int64_t n) {
  return is_double ? loops->sum_f64(x, n) : loops->sum_f32(x, n);
}

/* y = exp(x - shift), which may be x; returns their sum. */
static double block_exp(bool is_double, void *y, const void *x, double shift, int64_t n) {
  if (!is_double) return loops->exp_sum_f32(y, x, (float)shift, n);
  for (int64_t i = 0; i < n; ++i) ((double *)y)[i] = exp(((const double *)x)[i] - shift);
  return loops->sum_f64(y, n);
}

/* y = x - top - log_sum: in this order, since top may be much larger than what is left. */
static void block_log_softmax(bool is_double, void *y, const void *x, double top, double log_sum, int64_t n) {
  if (is_double) {
    for (int64_t i = 0; i < n; ++i) ((double *)y)[i] = ((const double *)x)[i] - top - log_sum;
  } else {
    const float t = (float)top, l = (float)log_sum;
    for (int64_t i = 0; i < n; ++i) ((float *)y)[i] = ((const float *)x)[i] - t - l;
  }
}

/* y = g - p * sum. */
static void block_gradient(bool is_double, void *y, const void *g, const void *p, double sum, int64_t n) {
  if (is_double) {
    for (int64_t i = 0; i < n; ++i) ((double *)y)[i] = ((const double *)g)[i] - ((const double *)p)[i] * sum;
  } else {
    const float s = (float)sum;
    for (int64_t i = 0; i < n; ++i) ((float *)y)[i] = ((const float *)g)[i] - ((const float *)p)[i] * s;
  }
}

/* ---- panels ------------------------------------------------------------------------------------------------------ */

/* Elements k to k + n of a panel's rows, in operand o. */
static const char *fetch(const softmax_plan *p, const cursor *c, int o, char *tile, int width, int64_t k, int64_t n) {
  return row_fetch(&p->access[o], tile, c->at[o] + k * p->access[o].along, width, n);
}

/* Where results for elements k and on of the output go: to their place, or to a tile that keep() brings there. */
static char *target(const softmax_plan *p, const cursor *c, int o, char *tile, int width, int64_t k) {
  const row_access *a = &p->access[o];
  return a->direct && width == 1 ? c->at[o] + k * a->along : tile;
}

static void keep(const softmax_plan *p, const cursor *c, int o, const char *y, const char *tile, int width, int64_t k,
                 int64_t n) {
  const row_access *a = &p->access[o];
  if (y == tile) row_store(a, c->at[o] + k * a->along, tile, width, n);
}

static void forward_panel(const softmax_plan *p, const cursor *c, int width, char *tile, char *exps) {
  const bool d = p->is_double;
  const int64_t pitch = p->access[0].pitch;
  double top[PANEL_ROWS], sum[PANEL_ROWS] = {0};
  const char *x = NULL;
  for (int j = 0; j < width; ++j) top[j] = -INFINITY;
  for (int64_t k = 0, n; k < p->n; k += n) {
    n = smaller(BLOCK, p->n - k);
    x = fetch(p, c, 0, tile, width, k, n);
    for (int j = 0; j < width; ++j) top[j] = larger(top[j], block_max(d, x + j * pitch, n));
  }
  for (int64_t k = 0, n; k < p->n; k += n) {
    n = smaller(BLOCK, p->n - k);
    if (p->n > BLOCK) x = fetch(p, c, 0, tile, width, k, n);
    for (int j = 0; j < width; ++j) sum[j] += block_exp(d, exps, x + j * pitch, top[j], n);
  }
  for (int j = 0; j < width; ++j) sum[j] = log(sum[j]);
  for (int64_t k = 0, n; k < p->n; k += n) {
    n = smaller(BLOCK, p->n - k);
    if (p->n > BLOCK) x = fetch(p, c, 0, tile, width, k, n);
    char *y = target(p, c, 1, tile, width, k);
    for (int j = 0; j < width; ++j) block_log_softmax(d, y + j * pitch, x + j * pitch, top[j], sum[j], n);
    keep(p, c, 1, y, tile, width, k, n);
  }
}

/* Operands: the gradient, what the forward pass gave, the result. */
static void backward_panel(const softmax_plan *p, const cursor *c, int width, char *tile, char *exps) {
  const bool d = p->is_double;
  const int64_t pitch = p->access[0].pitch;
  double sum[PANEL_ROWS] = {0};
  const char *g = NULL;
  for (int64_t k = 0, n; k < p->n; k += n) {
    n = smaller(BLOCK, p->n - k);
    g = fetch(p, c, 0, tile, width, k, n);
    for (int j = 0; j < width; ++j) sum[j] += block_sum(d, g + j * pitch, n);
  }
  for (int64_t k = 0, n; k < p->n; k += n) {
    n = smaller(BLOCK, p->n - k);
    if (p->n > BLOCK) g = fetch(p, c, 0, tile, width, k, n);
    const char *o = fetch(p, c, 1, exps, width, k, n);
    char *y = target(p, c, 2, tile, width, k);
    for (int j = 0; j < width; ++j) {
      block_exp(d, exps + j * pitch, o + j * pitch, 0, n);
      block_gradient(d, y + j * pitch, g + j * pitch, exps + j * pitch, sum[j], n);
    }
    keep(p, c, 2, y, tile, width, k, n);
  }
}

typedef void panel_function(const softmax_plan *p, const cursor *c, int width, char *tile, char *exps);

static inline void run_range(panel_function *panel, const softmax_job *j, int64_t begin, int64_t end) {
  _Alignas(64) char tile[TILE], exps[TILE];
  const softmax_plan *p = j->plan;
  cursor c;
  cursor_start(&c, &p->rows, j->view, begin);
  for (int64_t i = begin, width; i < end; i += width, cursor_next(&c, width)) {
    width = cursor_row(&c, smaller(p->width, end - i));
    panel(p, &c, (int)width, tile, exps);
  }
}

static void forward_range(const void *job, int64_t begin, int64_t end) { run_range(forward_panel, job, begin, end); }
static void backward_range(const void *job, int64_t begin, int64_t end) { run_range(backward_panel, job, begin, end); }

static status run(const executor *e, void *const *view, range_body *range) {
  const softmax_plan *p = PLAN(e, softmax_plan);
  const softmax_job job = {.plan = p, .view = view};
  if (p->n) rows_parallel(range, &job, p->rows.n, p->width, e->cost_ns);
  return ST_OK;
}

static status log_softmax_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  return run(e, view, forward_range);
}

static status log_softmax_backward_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  return run(e, view, backward_range);
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

/* Plans rows along dim of n tensors of one shape. */
static void softmax_plan_init(executor *e, const tensor *const *t, int n, int dim) {
  softmax_plan *p = PLAN(e, softmax_plan);
  view v[TENSORS];
  view *views[TENSORS];
  const view *rows[TENSORS];
  int64_t along[TENSORS];
  uint64_t bytes = 0;
  p->is_double = false;
  p->n = t[0]->rank ? t[0]->dims[dim] : 1;
  for (int k = 0; k < n; ++k) {
    v[k] = view_of(t[k]);
    rows[k] = views[k] = &v[k];
    along[k] = v[k].rank ? v[k].strides[dim] : 0;
    for (int d = dim; d < v[k].rank - 1; ++d) {
      v[k].dims[d] = v[k].dims[d + 1];
      v[k].strides[d] = v[k].strides[d + 1];
    }
    if (v[k].rank) --v[k].rank;
    p->is_double |= t[k]->dtype == ACL_DOUBLE;
    bytes += (uint64_t)t[k]->n * dtype_bytes(t[k]->dtype);
  }
  rows_sort(views, n);
  walk_init(&p->rows, rows, n, v[0].rank);

  const compute_type compute = p->is_double ? COMPUTE_F64 : COMPUTE_F32;
  const int last = p->rows.rank - 1;
  for (int k = 0; k < n; ++k)
    p->access[k] = row_access_of(t[k]->dtype, compute, along[k], p->rows.strides[k][last], BLOCK);
  p->width = row_panel(&p->access[0], p->rows.dims[last]);
  executor_cost(e, bytes, (uint64_t)t[0]->n * 32);
}

status prepare_log_softmax(executor *e, const op_arg *a) {
  const tensor *self = a[0].tensor, *out = a[2].tensor;
  int dim;
  TRY(op_expect_dtype(self, "self", DTYPES_FLOAT));
  TRY(op_expect_dtype(out, "out", DTYPES_FLOAT));
  TRY(op_expect_dim(a[1].integer, "dim", self->rank, &dim));
  TRY(op_expect_shape(out, "out", self->dims, self->rank));
  softmax_plan_init(e, (const tensor *const[]){self, out}, 2, dim);
  e->run = log_softmax_run;
  return ST_OK;
}

status prepare_log_softmax_backward(executor *e, const op_arg *a) {
  const tensor *grad = a[0].tensor, *output = a[1].tensor, *out = a[3].tensor;
  int dim;
  TRY(op_expect_dtype(grad, "gradOutput", DTYPES_FLOAT));
  TRY(op_expect_dtype(output, "output", DTYPES_FLOAT));
  TRY(op_expect_dtype(out, "out", DTYPES_FLOAT));
  TRY(op_expect_dim(a[2].integer, "dim", grad->rank, &dim));
  TRY(op_expect_shape(output, "output", grad->dims, grad->rank));
  TRY(op_expect_shape(out, "out", grad->dims, grad->rank));
  softmax_plan_init(e, (const tensor *const[]){grad, output, out}, 3, dim);
  e->run = log_softmax_backward_run;
  return ST_OK;
}
