/* SPDX-License-Identifier: Apache-2.0 */
/* The operators GridSampler2D, GridSampler3D and their gradients; see grid.h for the computation. Threads share the
 * planes (of a channel and batch item); for the grid's gradient, they share the rows of the grid. */
#include "kernel/resample/grid.h"

#include <stdlib.h>
#include <string.h>

#include "kernel/engine/level_choice.h"
#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/move/check.h"

LEVEL_CHOICE(points_loops, points, points_loops)

/* Strides of a tensor [batch, channel, (depth,) height, width] in bytes. */
typedef struct {
  int64_t batch, channel; /* bytes */
  int64_t stride[GRID_AXES];
} planes;

typedef struct {
  grid_sampler sampler;
  int64_t n_batches, n_channels;
  planes in, out; /* as in the forward pass: the input (or its gradient) and the result (or its gradient) */
  planes sums;    /* where the input's gradient is summed up: that gradient itself, or workspace */
  int dtype;
  bool in_scratch; /* sums are in scratch, at `scratch` */
  uint64_t scratch;
  bool input_gradient, grid_gradient;
  view in_view, grid_view; /* of the two gradients */
  store_loop *store;
  load_loop *load; /* loads the gradient of the result as double */
} grid_plan;

typedef struct {
  const grid_plan *plan;
  char *in, *grid, *out; /* out: the result, or its gradient */
  char *sums, *grid_gradient;
} grid_job;

static planes planes_of(const view *v) {
  planes p = {.batch = v->strides[0], .channel = v->strides[1]};
  for (int a = 0; a < v->rank - 2; ++a) p.stride[GRID_AXES - 1 - a] = v->strides[v->rank - 1 - a];
  return p;
}

/* At most POINTS_BLOCK elements on one line of the grid of a batch item. grid_next_block goes through them in order. */
typedef struct {
  int64_t at[GRID_AXES], n;
} block;

static bool grid_next_block(const grid_sampler *g, block *b) {
  b->at[2] += b->n;
  for (int a = GRID_AXES - 1; a > 0 && b->at[a] == g->out[a]; --a) {
    b->at[a] = 0;
    ++b->at[a - 1];
  }
  b->n = i64_min(POINTS_BLOCK, g->out[2] - b->at[2]);
  return b->at[0] < g->out[0];
}

static int64_t grid_offset(const block *b, const int64_t *stride) {
  return b->at[0] * stride[0] + b->at[1] * stride[1] + b->at[2] * stride[2];
}

/* Channels [first, end) of a batch item: computes the results, or adds the contributions of the results' gradients
 * to the input's gradient. */
static void sample_channels(const grid_job *j, int64_t batch, int64_t first, int64_t end) {
  const grid_plan *p = j->plan;
  const grid_sampler *g = &p->sampler;
  const bool backward = p->input_gradient;
  double value[POINTS_BLOCK];
  grid_table table;
  for (block b = {0}; grid_next_block(g, &b);) {
    const char *grid = j->grid + batch * g->grid_row[0] + grid_offset(&b, g->grid_row + 1);
    grid_table_fill(g, &table, grid, b.n, backward ? p->sums.stride : p->in.stride, false);
    char *out = j->out + batch * p->out.batch + grid_offset(&b, p->out.stride);
    for (int64_t c = first; c < end; ++c) {
      if (backward) {
        p->load(value, out + c * p->out.channel, p->out.stride[2], b.n);
        points->spread[p->dtype == ACL_DOUBLE](j->sums + batch * p->sums.batch + c * p->sums.channel, table.offset,
                                               table.weight, table.taps, value, b.n);
      } else {
        points->blend[p->dtype](value, j->in + batch * p->in.batch + c * p->in.channel, table.offset, table.weight,
                                table.taps, b.n);
        p->store(out + c * p->out.channel, p->out.stride[2], value, b.n);
      }
    }
  }
}

static void sample_planes(const void *arg, int64_t begin, int64_t end) {
  const grid_job *j = arg;
  const int64_t channels = j->plan->n_channels;
  for (int64_t n; begin < end; begin += n) {
    n = i64_min(channels - begin % channels, end - begin);
    sample_channels(j, begin / channels, begin % channels, begin % channels + n);
  }
}

static status grid_run_forward(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const grid_plan *p = e->heap;
  const grid_job job = {
      .plan = p, .in = view[GRID_SAMPLER_INPUT], .grid = view[GRID_SAMPLER_GRID], .out = view[GRID_SAMPLER_OUT]};
  rows_parallel(sample_planes, &job, p->n_batches * p->n_channels, 1, e->cost_ns);
  return ST_OK;
}

/* ---- the gradient of the grid ------------------------------------------------------------------------------------ */

/* Computes rows of the grid's gradient along the last axis, counted over all batch items. */
static void grid_rows(const void *arg, int64_t begin, int64_t end) {
  const grid_job *j = arg;
  const grid_plan *p = j->plan;
  const grid_sampler *g = &p->sampler;
  const int64_t rows = g->out[0] * g->out[1], *strides = p->grid_view.strides;
  const int rank = p->grid_view.rank;
  double gradient[POINTS_BLOCK], value[POINTS_BLOCK], sum[GRID_AXES][POINTS_BLOCK];
  grid_table table;
  for (; begin < end; ++begin) {
    const int64_t batch = begin / rows;
    block b = {.at = {begin % rows / g->out[1], begin % g->out[1]}};
    for (; b.at[2] < g->out[2]; b.at[2] += b.n) {
      b.n = i64_min(POINTS_BLOCK, g->out[2] - b.at[2]);
      grid_table_fill(g, &table, j->grid + batch * g->grid_row[0] + grid_offset(&b, g->grid_row + 1), b.n, p->in.stride,
                      true);
      memset(sum, 0, sizeof sum);
      for (int64_t c = 0; c < p->n_channels; ++c) {
        p->load(gradient, j->out + batch * p->out.batch + c * p->out.channel + grid_offset(&b, p->out.stride),
                p->out.stride[2], b.n);
        for (int a = GRID_AXES - g->n_axes; a < GRID_AXES; ++a) {
          points->blend[p->dtype](value, j->in + batch * p->in.batch + c * p->in.channel, table.offset, table.slope[a],
                                  table.taps, b.n);
          for (int64_t i = 0; i < b.n; ++i) sum[a][i] += value[i] * gradient[i];
        }
      }
      char *to = j->grid_gradient + batch * strides[0] + b.at[1] * strides[rank - 3] + b.at[2] * strides[rank - 2];
      if (g->n_axes == 3) to += b.at[0] * strides[1];
      for (int k = 0; k < g->n_axes; ++k)
        p->store(to + k * strides[rank - 1], strides[rank - 2], sum[GRID_AXES - 1 - k], b.n);
    }
  }
}

static status grid_run_gradients(const executor *e, void *const *at, void *scratch) {
  const grid_plan *p = e->heap;
  const int64_t rows = p->n_batches * p->sampler.out[0] * p->sampler.out[1];
  grid_job job = {.plan = p, .out = at[0], .in = at[1], .grid = at[2], .grid_gradient = at[4]};
  if (p->input_gradient) {
    static const double zero;
    const view none = {.dtype = ACL_DOUBLE};
    job.sums = p->in_scratch ? (char *)scratch + p->scratch : at[3];
    if (p->in_scratch)
      memset(job.sums, 0, (size_t)view_elements(&p->in_view) * sizeof(float));
    else
      elementwise_copy(at[3], &p->in_view, &zero, &none, 0);
    rows_parallel(sample_planes, &job, p->n_batches * p->n_channels, 1, e->cost_ns / 2);
    const view sums = view_contiguous(ACL_FLOAT, p->in_view.rank, p->in_view.dims);
    if (p->in_scratch) elementwise_copy(at[3], &p->in_view, job.sums, &sums, 0);
  }
  if (p->grid_gradient) rows_parallel(grid_rows, &job, rows, 1, e->cost_ns / 2);
  return ST_OK;
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

/* Shapes: input [N, C, (D,) H, W], grid [N, (D,) H, W, 2 or 3], out [N, C, (D,) H, W]. */
static status expect_shapes(const tensor *in, const tensor *grid, const tensor *out, const char *out_name, int n_axes) {
  int64_t dims[MAX_RANK];
  const int rank = n_axes + 2;
  TRY(op_expect_dtype(in, "input", DTYPES_FLOAT));
  TRY(op_expect_dtype(grid, "grid", DTYPE_BIT(in->dtype)));
  TRY(op_expect_dtype(out, out_name, DTYPE_BIT(in->dtype)));
  TRY(op_expect_rank(in, "input", rank, rank));
  for (int d = 2; d < rank; ++d) EXPECT(in->dims[d] > 0, "input has shape %s, expected no empty plane", SHAPE_OF(in));
  EXPECT(grid->rank == rank && grid->dims[0] == in->dims[0] && grid->dims[rank - 1] == n_axes,
         "grid has shape %s, expected %d dimensions, %jd in the first and %d in the last", SHAPE_OF(grid), rank,
         (intmax_t)in->dims[0], n_axes);
  for (int d = 0; d < 2; ++d) dims[d] = in->dims[d];
  for (int d = 2; d < rank; ++d) dims[d] = grid->dims[d - 1];
  return op_expect_shape(out, out_name, dims, rank);
}

/* mode, padding, align: the arguments interpolationMode, paddingMode, alignCorners. */
static status plan_sampler(grid_plan *p, const tensor *in, const tensor *grid, const tensor *out, int64_t mode,
                           int64_t padding, bool align) {
  const int n_axes = in->rank - 2, first = GRID_AXES - n_axes;
  const view g = view_of(grid), from = view_of(in), to = view_of(out);
  const int64_t last_mode = n_axes == 2 ? 2 : 1;
  EXPECT(mode >= 0 && mode <= last_mode, "interpolationMode is %jd, expected 0 to %jd", (intmax_t)mode,
         (intmax_t)last_mode);
  EXPECT(padding >= 0 && padding <= 2, "paddingMode is %jd, expected 0, 1 or 2", (intmax_t)padding);
  *p = (grid_plan){.n_batches = in->dims[0],
                   .n_channels = in->dims[1],
                   .in = planes_of(&from),
                   .out = planes_of(&to),
                   .dtype = in->dtype,
                   .load = loops->load[in->dtype][COMPUTE_F64],
                   .store = loops->store[in->dtype][COMPUTE_F64]};
  p->sampler = (grid_sampler){.n_axes = n_axes,
                              .mode = (grid_mode)mode,
                              .padding = (grid_padding)padding,
                              .align_corners = align,
                              .in_double = in->dtype == ACL_DOUBLE,
                              .in = {1},
                              .out = {1},
                              .grid_component = g.strides[g.rank - 1],
                              .load_grid = loops->load[grid->dtype][COMPUTE_F64]};
  p->sampler.grid_row[0] = g.strides[0];
  for (int a = first; a < GRID_AXES; ++a) {
    p->sampler.in[a] = in->dims[2 + a - first];
    p->sampler.out[a] = out->dims[2 + a - first];
    p->sampler.grid_row[1 + a] = g.strides[1 + a - first];
  }
  return ST_OK;
}

status prepare_grid_sampler(executor *e, const grid_sampler_args *a) {
  const tensor *in = a->input, *out = a->out;
  EXPECT(in->dtype != ACL_DOUBLE || a->interpolation_mode != GRID_CUBIC,
         "input has dtype DOUBLE, expected FLOAT, FLOAT16 or BF16 where interpolationMode is %d", GRID_CUBIC);
  TRY(expect_shapes(in, a->grid, out, "out", e->op->variant == GRID_SAMPLER_3D ? 3 : 2));
  HEAP_PLAN(grid_plan, p, e, sizeof *p);
  TRY(plan_sampler(p, in, a->grid, out, a->interpolation_mode, a->padding_mode, a->align_corners));
  executor_cost(e, (uint64_t)(in->n + out->n) * dtype_bytes(in->dtype), (uint64_t)out->n * 256);
  e->run = out->n ? grid_run_forward : move_run_nothing;
  return ST_OK;
}

/* Plans the gradients that outputMask asks for. */
static status plan_gradients(executor *e, grid_plan *p, const grid_sampler_backward_args *a) {
  const tensor *in = a->input, *grid = a->grid, *in_gradient = a->input_grad, *grid_gradient = a->grid_grad;
  const aclBoolArray *mask = a->output_mask;
  TRY(op_expect_size(mask->size, "outputMask", 2));
  p->input_gradient = mask->value[0];
  p->grid_gradient = mask->value[1];
  if (p->input_gradient) {
    TRY(op_expect_like(in_gradient, "inputGrad", in));
    p->in_view = view_of(in_gradient);
    p->in_scratch = dtype_bytes(in->dtype) == 2;
    const view sums = p->in_scratch ? view_contiguous(ACL_FLOAT, in->rank, in->dims) : p->in_view;
    if (p->in_scratch) p->scratch = workspace_intermediate(e, (uint64_t)in->n * sizeof(float));
    p->sums = planes_of(&sums);
  }
  if (p->grid_gradient) {
    TRY(op_expect_dtype(grid_gradient, "gridGrad", DTYPE_BIT(in->dtype)));
    TRY(op_expect_same_shape(grid_gradient, "gridGrad", grid));
    p->grid_view = view_of(grid_gradient);
  }
  return ST_OK;
}

status prepare_grid_sampler_backward(executor *e, const grid_sampler_backward_args *a) {
  const tensor *gradient = a->grad_output, *in = a->input, *grid = a->grid;
  TRY(expect_shapes(in, grid, gradient, "gradOutput", e->op->variant == GRID_SAMPLER_3D_BACKWARD ? 3 : 2));
  HEAP_PLAN(grid_plan, p, e, sizeof *p);
  TRY(plan_sampler(p, in, grid, gradient, a->interpolation_mode, a->padding_mode, a->align_corners));
  TRY(plan_gradients(e, p, a));
  executor_cost(e, (uint64_t)(in->n * 2 + gradient->n) * dtype_bytes(in->dtype), (uint64_t)gradient->n * 512);
  e->run = in->n + grid->n ? grid_run_gradients : move_run_nothing;
  return ST_OK;
}
