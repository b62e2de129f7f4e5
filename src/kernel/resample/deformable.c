/* SPDX-License-Identifier: Apache-2.0 */
/* Multi-scale deformable attention and its gradients, as Deformable DETR and mmcv have them: an output is the weighted
 * sum of values that are interpolated at points of several images (levels) of a pyramid. Coordinates are from 0 to 1,
 * x first; elements outside of an image are 0. Computed in double; the gradients of values add in the order of
 * queries, levels and points. */
#include <math.h>
#include <string.h>

#include "kernel/engine/rows.h"
#include "kernel/engine/scratch.h"
#include "kernel/families.h"
#include "kernel/move/check.h"

enum { CORNERS = 4, MOST_LEVELS = 64 };

/* Strides in bytes: value [batch, key, head, channel], location [batch, query, head, level, point, 2], weight likewise,
 * output [batch, query, head and channel]. */
typedef struct {
  int64_t batches, keys, heads, channels, queries, levels, points;
  int64_t value[4], location[6], weight[5], output[3];
  int64_t d_value[4], d_location[6], d_weight[5];
  int64_t shape_strides[2], start_stride;
  int shape_dtype, start_dtype;
  load_loop *load;
  store_loop *store;
} deformable_plan;

typedef struct {
  int64_t height, width, start;
} pyramid_level;

typedef struct {
  const deformable_plan *plan;
  const char *value, *location, *weight;
  char *output; /* or its gradient */
  char *d_value, *d_location, *d_weight;
  pyramid_level level[MOST_LEVELS];
  status *result;
} deformable_job;

/* A point's four neighbours: their keys (-1: outside), weights, and the weights' derivatives by x and y. */
typedef struct {
  int64_t key[CORNERS];
  double weight[CORNERS], by_x[CORNERS], by_y[CORNERS];
} deformable_taps;

static int64_t deformable_number(const char *at, int dtype) {
  return dtype == ACL_INT32 ? *(const int32_t *)(const void *)at : *(const int64_t *)(const void *)at;
}

static status read_levels(deformable_job *j, const char *shapes, const char *starts) {
  const deformable_plan *p = j->plan;
  for (int64_t l = 0; l < p->levels; ++l) {
    pyramid_level *const level = &j->level[l];
    level->height = deformable_number(shapes + l * p->shape_strides[0], p->shape_dtype);
    level->width = deformable_number(shapes + l * p->shape_strides[0] + p->shape_strides[1], p->shape_dtype);
    level->start = deformable_number(starts + l * p->start_stride, p->start_dtype);
    EXPECT(level->height >= 0 && level->width >= 0 && level->start >= 0 && level->start <= p->keys &&
               (level->width == 0 || level->height <= (p->keys - level->start) / level->width),
           "level %jd has %jd x %jd elements from %jd on, expected them to lie within value's %jd", (intmax_t)l,
           (intmax_t)level->height, (intmax_t)level->width, (intmax_t)level->start, (intmax_t)p->keys);
  }
  return ST_OK;
}

/* Returns whether the point is near enough to the image to have neighbours in it. */
static bool find_taps(const pyramid_level *level, const double *point, deformable_taps *t) {
  const double x = point[0] * (double)level->width - 0.5, y = point[1] * (double)level->height - 0.5;
  if (!(x > -1 && y > -1 && x < (double)level->width && y < (double)level->height)) return false;
  const double left = floor(x), top = floor(y), dx = x - left, dy = y - top;
  for (int k = 0; k < CORNERS; ++k) {
    const int64_t column = (int64_t)left + (k & 1), row = (int64_t)top + (k >> 1);
    const bool inside = column >= 0 && row >= 0 && column < level->width && row < level->height;
    const double wx = k & 1 ? dx : 1 - dx, wy = k >> 1 ? dy : 1 - dy;
    t->key[k] = inside ? level->start + row * level->width + column : -1;
    t->weight[k] = wx * wy;
    t->by_x[k] = (k & 1 ? wy : -wy) * (double)level->width;
    t->by_y[k] = (k >> 1 ? wx : -wx) * (double)level->height;
  }
  return true;
}

static int64_t deformable_place(const int64_t *strides, const int64_t *index, int rank) {
  int64_t place = 0;
  for (int d = 0; d < rank; ++d) place += strides[d] * index[d];
  return place;
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* Adds the levels and points of one query and head. row: room for the channels. */
static void add_points(const deformable_job *j, int64_t batch, int64_t query, int64_t head, double *sum, double *row) {
  const deformable_plan *p = j->plan;
  for (int64_t l = 0; l < p->levels; ++l)
    for (int64_t i = 0; i < p->points; ++i) {
      const int64_t at[] = {batch, query, head, l, i};
      deformable_taps t;
      double point[2], weight;
      p->load(point, j->location + deformable_place(p->location, at, 5), p->location[5], 2);
      p->load(&weight, j->weight + deformable_place(p->weight, at, 5), 0, 1);
      if (!find_taps(&j->level[l], point, &t)) continue;
      for (int k = 0; k < CORNERS; ++k) {
        if (t.key[k] < 0) continue;
        p->load(row, j->value + deformable_place(p->value, (const int64_t[]){batch, t.key[k], head}, 3), p->value[3],
                p->channels);
        for (int64_t c = 0; c < p->channels; ++c) sum[c] += weight * t.weight[k] * row[c];
      }
    }
}

static void forward_range(const void *arg, int64_t begin, int64_t end) {
  const deformable_job *j = arg;
  const deformable_plan *p = j->plan;
  double *const sum = (double *)(void *)scratch_take((size_t)(2 * p->channels + 1) * sizeof *sum);
  if (!sum) {
    __atomic_store_n(j->result, ST_NO_MEMORY, __ATOMIC_RELAXED);
    return;
  }
  for (; begin < end; ++begin) {
    const int64_t head = begin % p->heads, query = begin / p->heads % p->queries, batch = begin / p->heads / p->queries;
    memset(sum, 0, (size_t)p->channels * sizeof *sum);
    add_points(j, batch, query, head, sum, sum + p->channels);
    p->store(j->output + deformable_place(p->output, (const int64_t[]){batch, query, head * p->channels}, 3),
             p->output[2], sum, p->channels);
  }
}

static status run_deformable(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const deformable_plan *p = PLAN(e, deformable_plan);
  status result = ST_OK;
  deformable_job job = {.plan = p,
                        .value = view[DEFORMABLE_VALUE],
                        .location = view[DEFORMABLE_LOCATION],
                        .weight = view[DEFORMABLE_ATTN_WEIGHT],
                        .output = view[DEFORMABLE_OUTPUT],
                        .result = &result};
  TRY(read_levels(&job, view[DEFORMABLE_SPATIAL_SHAPE], view[DEFORMABLE_LEVEL_START_INDEX]));
  rows_parallel(forward_range, &job, p->batches * p->queries * p->heads, 1, e->cost_ns);
  return result;
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* One point. gradient: of the output's channels; sums: of the gradients of the values of this batch and head,
 * [keys, channels]; row: room for the channels. */
static void point_backward(const deformable_job *j, const int64_t *at, const double *gradient, double *sums,
                           double *row) {
  const deformable_plan *p = j->plan;
  deformable_taps t;
  double point[2], weight, of_weight = 0, of_point[2] = {0, 0};
  p->load(point, j->location + deformable_place(p->location, at, 5), p->location[5], 2);
  p->load(&weight, j->weight + deformable_place(p->weight, at, 5), 0, 1);
  const bool near = find_taps(&j->level[at[3]], point, &t);
  for (int k = 0; near && k < CORNERS; ++k) {
    if (t.key[k] < 0) continue;
    double product = 0;
    double *const sum = sums + t.key[k] * p->channels;
    p->load(row, j->value + deformable_place(p->value, (const int64_t[]){at[0], t.key[k], at[2]}, 3), p->value[3],
            p->channels);
    for (int64_t c = 0; c < p->channels; ++c) {
      product += gradient[c] * row[c];
      sum[c] += weight * t.weight[k] * gradient[c];
    }
    of_weight += t.weight[k] * product;
    of_point[0] += weight * t.by_x[k] * product;
    of_point[1] += weight * t.by_y[k] * product;
  }
  p->store(j->d_location + deformable_place(p->d_location, at, 5), p->d_location[5], of_point, 2);
  p->store(j->d_weight + deformable_place(p->d_weight, at, 5), 0, &of_weight, 1);
}

static void backward_range(const void *arg, int64_t begin, int64_t end) {
  const deformable_job *j = arg;
  const deformable_plan *p = j->plan;
  double *const sums = (double *)(void *)scratch_take((size_t)((p->keys + 2) * p->channels + 1) * sizeof *sums);
  if (!sums) {
    __atomic_store_n(j->result, ST_NO_MEMORY, __ATOMIC_RELAXED);
    return;
  }
  double *const gradient = sums + p->keys * p->channels, *const row = gradient + p->channels;
  for (; begin < end; ++begin) {
    const int64_t head = begin % p->heads, batch = begin / p->heads;
    memset(sums, 0, (size_t)(p->keys * p->channels) * sizeof *sums);
    for (int64_t q = 0; q < p->queries; ++q) {
      p->load(gradient, j->output + deformable_place(p->output, (const int64_t[]){batch, q, head * p->channels}, 3),
              p->output[2], p->channels);
      for (int64_t l = 0; l < p->levels; ++l)
        for (int64_t i = 0; i < p->points; ++i)
          point_backward(j, (const int64_t[]){batch, q, head, l, i}, gradient, sums, row);
    }
    for (int64_t key = 0; key < p->keys; ++key)
      p->store(j->d_value + deformable_place(p->d_value, (const int64_t[]){batch, key, head}, 3), p->d_value[3],
               sums + key * p->channels, p->channels);
  }
}

static status run_deformable_grad(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const deformable_plan *p = PLAN(e, deformable_plan);
  status result = ST_OK;
  deformable_job job = {.plan = p,
                        .value = view[DEFORMABLE_GRAD_VALUE],
                        .location = view[DEFORMABLE_GRAD_LOCATION],
                        .weight = view[DEFORMABLE_GRAD_ATTN_WEIGHT],
                        .output = view[DEFORMABLE_GRAD_GRAD_OUTPUT],
                        .d_value = view[DEFORMABLE_GRAD_GRAD_VALUE],
                        .d_location = view[DEFORMABLE_GRAD_GRAD_LOCATION],
                        .d_weight = view[DEFORMABLE_GRAD_GRAD_ATTN_WEIGHT],
                        .result = &result};
  TRY(read_levels(&job, view[DEFORMABLE_GRAD_SPATIAL_SHAPE], view[DEFORMABLE_GRAD_LEVEL_START_INDEX]));
  rows_parallel(backward_range, &job, p->batches * p->heads, 1, e->cost_ns);
  return result;
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

/* The arguments that both operators have; output: or its gradient. */
typedef struct {
  const tensor *value, *shapes, *starts, *location, *weight, *output;
  const char *output_name;
} deformable_call;

static void deformable_strides(const tensor *t, int64_t *strides) {
  const view v = view_of(t);
  for (int d = 0; d < t->rank; ++d) strides[d] = v.strides[d];
}

static status deformable_plan_init(executor *e, const deformable_call *c) {
  deformable_plan *p = PLAN(e, deformable_plan);
  TRY(op_expect_dtype(c->value, "value", DTYPES_FLOAT_TO_32));
  TRY(op_expect_dtype(c->location, "location", DTYPE_BIT(c->value->dtype)));
  TRY(op_expect_dtype(c->weight, "attnWeight", DTYPE_BIT(c->value->dtype)));
  TRY(op_expect_dtype(c->output, c->output_name, DTYPE_BIT(c->value->dtype)));
  TRY(op_expect_dtype(c->shapes, "spatialShape", DTYPES_INDEX));
  TRY(op_expect_dtype(c->starts, "levelStartIndex", DTYPES_INDEX));
  TRY(op_expect_rank(c->value, "value", 4, 4));
  TRY(op_expect_rank(c->location, "location", 6, 6));
  const int64_t *const v = c->value->dims, *const l = c->location->dims;
  *p = (deformable_plan){.batches = v[0],
                         .keys = v[1],
                         .heads = v[2],
                         .channels = v[3],
                         .queries = l[1],
                         .levels = l[3],
                         .points = l[4],
                         .shape_dtype = c->shapes->dtype,
                         .start_dtype = c->starts->dtype,
                         .load = loops->load[c->value->dtype][COMPUTE_F64],
                         .store = loops->store[c->value->dtype][COMPUTE_F64]};
  EXPECT(p->levels <= MOST_LEVELS, "location has %jd levels, expected at most %d", (intmax_t)p->levels, MOST_LEVELS);
  TRY(op_expect_shape(c->location, "location", (const int64_t[]){v[0], l[1], v[2], l[3], l[4], 2}, 6));
  TRY(op_expect_shape(c->weight, "attnWeight", l, 5));
  TRY(op_expect_shape(c->shapes, "spatialShape", (const int64_t[]){l[3], 2}, 2));
  TRY(op_expect_shape(c->starts, "levelStartIndex", (const int64_t[]){l[3]}, 1));
  TRY(op_expect_shape(c->output, c->output_name, (const int64_t[]){v[0], l[1], v[2] * v[3]}, 3));
  deformable_strides(c->value, p->value);
  deformable_strides(c->location, p->location);
  deformable_strides(c->weight, p->weight);
  deformable_strides(c->output, p->output);
  deformable_strides(c->shapes, p->shape_strides);
  deformable_strides(c->starts, &p->start_stride);
  executor_cost(e, (uint64_t)(c->value->n + c->location->n + c->output->n) * dtype_bytes(c->value->dtype),
                (uint64_t)(c->weight->n * p->channels) * 32);
  return ST_OK;
}

status prepare_deformable(executor *e, const deformable_args *a) {
  TRY(deformable_plan_init(e, &(deformable_call){a->value, a->spatial_shape, a->level_start_index, a->location,
                                                 a->attn_weight, a->output, "output"}));
  e->run = a->output->n ? run_deformable : move_run_nothing;
  return ST_OK;
}

status prepare_deformable_grad(executor *e, const deformable_grad_args *a) {
  deformable_plan *p = PLAN(e, deformable_plan);
  TRY(deformable_plan_init(e, &(deformable_call){a->value, a->spatial_shape, a->level_start_index, a->location,
                                                 a->attn_weight, a->grad_output, "gradOutput"}));
  TRY(op_expect_like(a->grad_value, "gradValue", a->value));
  TRY(op_expect_like(a->grad_location, "gradLocation", a->location));
  TRY(op_expect_like(a->grad_attn_weight, "gradAttnWeight", a->attn_weight));
  deformable_strides(a->grad_value, p->d_value);
  deformable_strides(a->grad_location, p->d_location);
  deformable_strides(a->grad_attn_weight, p->d_weight);
  e->run = a->grad_value->n || a->grad_attn_weight->n ? run_deformable_grad : move_run_nothing;
  return ST_OK;
}
