/* SPDX-License-Identifier: Apache-2.0 */
/* See softmax_columns.h. */
#include "kernel/norm/softmax_columns.h"

#include <stdatomic.h>

#include "kernel/engine/level_choice.h"
#include "kernel/engine/scratch.h"
#include "kernel/norm/softmax_loops.h"

LEVEL_CHOICE(softmax_columns_loops, softmax_by_columns, softmax_columns_loops)

/* The tile leaves most of an L2 cache to the data that is read and written, but a strip has at least STRIP_WIDE columns
 * so that cache lines are used completely. A tile of 1 MiB takes 1.5 times as long for 1024 x 512 floats (bench/ops,
 * Softmax). */
enum { TILE_BYTES = 256 << 10, STRIP_WIDE = 64 };

typedef struct {
  const panel_plan *plan;
  softmax_columns *body;
  void *const *view;
  int64_t width, n_strips; /* columns of a strip; strips of a matrix */
  _Atomic bool *failed;
} columns_job;

bool softmax_takes_columns(const panel_plan *p) {
  const int column = p->n_outer - 1;
  if (p->compute != COMPUTE_F32 || p->n_inner != 1 || p->n < 2 || p->n > SOFTMAX_CHUNK || p->dims[column] < STRIP_LEAST)
    return false;
  for (int k = 0; k < 2; ++k)
    if (p->strides[k][column] != (int64_t)dtype_bytes(p->operand[k].dtype)) return false;
  return true;
}

static char *strip_at(const columns_job *j, int k, int64_t unit) {
  const panel_plan *p = j->plan;
  const int column = p->n_outer - 1;
  int64_t matrix = unit / j->n_strips;
  char *at = (char *)j->view[p->operand[k].view] + unit % j->n_strips * j->width * p->strides[k][column];
  for (int d = column - 1; d >= 0; --d) {
    at += matrix % p->dims[d] * p->strides[k][d];
    matrix /= p->dims[d];
  }
  return at;
}

static void run_strips(const void *job, int64_t begin, int64_t end) {
  const columns_job *j = job;
  const panel_plan *p = j->plan;
  const int column = p->n_outer - 1;
  softmax_strip s = {.n = p->n,
                     .x_along = p->strides[0][p->n_outer],
                     .y_along = p->strides[1][p->n_outer],
                     .x_dtype = p->operand[0].dtype,
                     .y_dtype = p->operand[1].dtype,
                     .tile = (float *)(void *)scratch_take((size_t)(p->n * j->width) * sizeof(float))};
  if (!s.tile) {
    atomic_store(j->failed, true);
    return;
  }
  for (int64_t u = begin; u < end; ++u) {
    s.width = i64_min(j->width, p->dims[column] - u % j->n_strips * j->width);
    s.x = strip_at(j, 0, u);
    s.y = strip_at(j, 1, u);
    j->body(&s);
  }
}

status softmax_columns_run(const panel_plan *p, softmax_columns *body, void *const *view, uint64_t cost_ns) {
  _Atomic bool failed = false;
  const int64_t columns = p->dims[p->n_outer - 1];
  const int64_t fit = TILE_BYTES / (int64_t)sizeof(float) / p->n / STRIP_LEAST * STRIP_LEAST;
  columns_job j = {.plan = p,
                   .body = body,
                   .view = view,
                   .width = i64_min(fit < STRIP_WIDE ? STRIP_WIDE : fit, STRIP_MOST),
                   .failed = &failed};
  j.n_strips = (columns + j.width - 1) / j.width;
  rows_parallel(run_strips, &j, p->n_rows / columns * j.n_strips, 1, cost_ns);
  return atomic_load(&failed) ? fail(ST_NO_HOST_MEMORY, "no host memory for columns of %jd elements", (intmax_t)p->n)
                              : ST_OK;
}
