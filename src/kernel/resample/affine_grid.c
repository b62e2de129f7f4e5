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
 * H, W), out [N, D, H, W, 3]. */
status prepare_affine_grid(executor *e, const affine_grid_args *a) {
  const tensor *theta = a->theta, *out = a->out;
  const aclIntArray *size = a->size;
  affine_grid_plan *p = PLAN(e, affine_grid_plan);
  int64_t dims[2 + AXES];
  TRY(op_expect_dtype(theta, "theta", DTYPES_FLOAT));
  TRY(op_expect_dtype(out, "out", DTYPE_BIT(theta->dtype)));
  EXPECT(size->size == 4 || size->size == 5, "size has %ju elements, expected 4 or 5", (uintmax_t)size->size);
  const int n_axes = (int)size->size - 2, first = AXES - n_axes;
  for (uint64_t i = 0; i < size->size; ++i)
    EXPECT(size->value[i] > 0, "size[%ju] is %jd, expected more than 0", (uintmax_t)i, (intmax_t)size->value[i]);
  TRY(op_expect_shape(theta, "theta", (const int64_t[]){size->value[0], n_axes, n_axes + 1}, 3));
  dims[0] = size->value[0];
  for (int d = 0; d < n_axes; ++d) dims[1 + d] = size->value[2 + d];
  dims[1 + n_axes] = n_axes;
  TRY(op_expect_shape(out, "out", dims, n_axes + 2));
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
  e->run = run_affine_grid;
  return ST_OK;
}
