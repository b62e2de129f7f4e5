/* SPDX-License-Identifier: Apache-2.0 */
/* AffineGrid: the grid of a GridSampler from an affine map per batch item, theta times (x, y, [z,] 1), where x, y
 * and z go from -1 to 1 over the image. Computed in double and rounded once. */
#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/move/check.h"

enum { TILE = 256, AXES = 3 };

typedef struct {
  int n_axes; /* 2 or 3 */
  bool align_corners;
  int64_t dims[1 + AXES]; /* batch, depth (1 for images), height, width */
  int64_t to[1 + AXES], to_component;
  int64_t theta_batch, theta_row, theta_column;
  load_loop *load;
  store_loop *store;
} affine_grid_plan;

typedef struct {
  const affine_grid_plan *plan;
  const char *theta;
  char *out;
} affine_grid_job;

/* The coordinate of element i of n. A single element is at 0. */
static double affine_coordinate(int64_t i, int64_t n, bool align_corners) {
  if (n == 1) return 0;
  return (double)(2 * i + 1 - n) / (double)(align_corners ? n - 1 : n);
}

/* Computes rows along the width, counted over all batch items. */
static void affine_rows(const void *arg, int64_t begin, int64_t end) {
  const affine_grid_job *j = arg;
  const affine_grid_plan *p = j->plan;
  const int64_t depth = p->dims[1], height = p->dims[2], width = p->dims[3];
  double x[TILE], tile[TILE], theta[AXES + 1];
  for (; begin < end; ++begin) {
    const int64_t batch = begin / (depth * height), d = begin / height % depth, h = begin % height;
    const double y = affine_coordinate(h, height, p->align_corners), z = affine_coordinate(d, depth, p->align_corners);
    char *row = j->out + batch * p->to[0] + d * p->to[1] + h * p->to[2];
    for (int64_t w = 0, n; w < width; w += n) {
      n = i64_min(TILE, width - w);
      for (int64_t i = 0; i < n; ++i) x[i] = affine_coordinate(w + i, width, p->align_corners);
      for (int k = 0; k < p->n_axes; ++k) {
        p->load(theta, j->theta + batch * p->theta_batch + k * p->theta_row, p->theta_column, p->n_axes + 1);
        const double rest = theta[1] * y + (p->n_axes == 3 ? theta[2] * z : 0) + theta[p->n_axes];
        const compute_value parameter[ELEMENTWISE_PARAMETERS] = {{.f64 = rest}, {.f64 = theta[0]}};
        loops->elementwise[EW_add_to][COMPUTE_F64](tile, (const void *const[]){x, NULL, NULL, NULL, NULL}, parameter,
                                                   n);
        p->store(row + w * p->to[3] + k * p->to_component, p->to[3], tile, n);
      }
    }
  }
}

static status run_affine_grid(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const affine_grid_plan *p = PLAN(e, affine_grid_plan);
  const affine_grid_job job = {p, view[AFFINE_GRID_THETA], view[AFFINE_GRID_OUT]};
  rows_parallel(affine_rows, &job, p->dims[0] * p->dims[1] * p->dims[2], 1, e->cost_ns);
  return ST_OK;
}

/* Shapes: theta [N, 2, 3], size (N, C, H, W), out [N, H, W, 2]; or with a third axis theta [N, 3, 4], size (N, C, D,
 * H, W), out [N, D, H, W, 3]. names: of these arguments. */
static status affine_plan(executor *e, affine_grid_plan *p, const affine_grid_args *a, const char *const *names) {
  const tensor *theta = a->theta, *out = a->out;
  const aclIntArray *size = a->size;
  int64_t dims[2 + AXES];
  TRY(op_expect_dtype(theta, names[0], DTYPES_FLOAT));
  TRY(op_expect_dtype(out, names[2], DTYPE_BIT(theta->dtype)));
  EXPECT(size->size == 4 || size->size == 5, "%s has %ju elements, expected 4 or 5", names[1], (uintmax_t)size->size);
  const int n_axes = (int)size->size - 2, first = AXES - n_axes;
  for (uint64_t i = 0; i < size->size; ++i)
    EXPECT(size->value[i] > 0, "%s[%ju] is %jd, expected more than 0", names[1], (uintmax_t)i,
           (intmax_t)size->value[i]);
  TRY(op_expect_shape(theta, names[0], (const int64_t[]){size->value[0], n_axes, n_axes + 1}, 3));
  dims[0] = size->value[0];
  for (int d = 0; d < n_axes; ++d) dims[1 + d] = size->value[2 + d];
  dims[1 + n_axes] = n_axes;
  TRY(op_expect_shape(out, names[2], dims, n_axes + 2));
  const view from = view_of(theta), to = view_of(out);
  *p = (affine_grid_plan){.n_axes = n_axes,
                          .align_corners = a->align_corners,
                          .dims = {dims[0], 1},
                          .to = {to.strides[0]},
                          .to_component = to.strides[n_axes + 1],
                          .theta_batch = from.strides[0],
                          .theta_row = from.strides[1],
                          .theta_column = from.strides[2],
                          .load = loops->load[theta->dtype][COMPUTE_F64],
                          .store = loops->store[theta->dtype][COMPUTE_F64]};
  for (int d = 0; d < n_axes; ++d) {
    p->dims[1 + first + d] = dims[1 + d];
    p->to[1 + first + d] = to.strides[1 + d];
  }
  executor_cost(e, (uint64_t)out->n * dtype_bytes(out->dtype), (uint64_t)out->n * 32);
  return ST_OK;
}

status prepare_affine_grid(executor *e, const affine_grid_args *a) {
  TRY(affine_plan(e, PLAN(e, affine_grid_plan), a, (const char *const[]){"theta", "size", "out"}));
  e->run = run_affine_grid;
  return ST_OK;
}

/* ---- the gradient: sums of y_grad times (x, y, [z,] 1) over the grid --------------------------------------------- */

static void affine_grad_range(const void *arg, int64_t begin, int64_t end) {
  const affine_grid_job *j = arg;
  const affine_grid_plan *p = j->plan;
  const int64_t depth = p->dims[1], height = p->dims[2], width = p->dims[3];
  double tile[TILE];
  for (; begin < end; ++begin) { /* over the rows of all matrices */
    const int64_t batch = begin / p->n_axes, k = begin % p->n_axes;
    double sum[AXES + 1] = {0}; /* times x, y, z and 1 */
    for (int64_t row = 0; row < depth * height; ++row) {
      const int64_t d = row / height, h = row % height;
      const char *grad = j->theta + batch * p->to[0] + d * p->to[1] + h * p->to[2] + k * p->to_component;
      double plain = 0;
      for (int64_t w = 0, n; w < width; w += n) {
        n = i64_min(TILE, width - w);
        p->load(tile, grad + w * p->to[3], p->to[3], n);
        for (int64_t i = 0; i < n; ++i) {
          plain += tile[i];
          sum[0] += tile[i] * affine_coordinate(w + i, width, p->align_corners);
        }
      }
      sum[1] += plain * affine_coordinate(h, height, p->align_corners);
      sum[2] += plain * affine_coordinate(d, depth, p->align_corners);
      sum[3] += plain;
    }
    if (p->n_axes == 2) sum[2] = sum[3];
    p->store(j->out + batch * p->theta_batch + k * p->theta_row, p->theta_column, sum, p->n_axes + 1);
  }
}

static status run_affine_grad(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const affine_grid_plan *p = PLAN(e, affine_grid_plan);
  const affine_grid_job job = {p, view[GRAPH_AFFINE_GRAD_Y_GRAD], view[GRAPH_AFFINE_GRAD_X_GRAD]};
  rows_parallel(affine_grad_range, &job, p->dims[0] * p->n_axes, 1, e->cost_ns);
  return ST_OK;
}

status prepare_graph_affine_grad(executor *e, const graph_affine_grad_args *a) {
  const affine_grid_args forward = {
      .theta = a->x_grad, .size = a->x_size, .align_corners = a->align_corners, .out = a->y_grad};
  affine_grid_plan *p = PLAN(e, affine_grid_plan);
  TRY(affine_plan(e, p, &forward, (const char *const[]){"x_grad", "x_size", "y_grad"}));
  e->run = run_affine_grad;
  return ST_OK;
}
