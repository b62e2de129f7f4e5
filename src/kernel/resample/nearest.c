/* SPDX-License-Identifier: Apache-2.0 */
/* UpsampleNearest*: elements are copied unchanged, row by row. A row that has the same source as the one before is
 * copied from it. */
#include <stdlib.h>

#include "kernel/engine/rows.h"
#include "kernel/resample/resample_loops.h"
#include "kernel/resample/upsample.h"

typedef struct {
  walk planes;
  band_spec axis[BAND_AXES];
  int64_t stride[2][BAND_AXES]; /* bytes, of the input and the output */
  const int32_t *index;         /* source indices along the width */
  int size;                     /* bytes of an element */
  bool contiguous_in, contiguous_out;
} nearest_plan;

typedef struct {
  const nearest_plan *plan;
  void *const *view;
} nearest_job;

static void nearest_copy_row(const nearest_plan *p, char *to, const char *from) {
  const int64_t n = p->axis[2].out;
  if (p->contiguous_in && p->contiguous_out && p->size <= 8) {
    resample_loops->pick(to, from, p->index, p->size, n);
    return;
  }
  const int64_t in = p->stride[0][2], out = p->stride[1][2];
  for (int64_t i = 0; i < n; ++i) memcpy(to + i * out, from + p->index[i] * in, (size_t)p->size);
}

static void nearest_copy_rows(const void *job, int64_t begin, int64_t end) {
  const nearest_job *j = job;
  const nearest_plan *p = j->plan;
  const int64_t height = p->axis[1].out, rows = p->axis[0].out * height;
  cursor c;
  cursor_start(&c, &p->planes, j->view, begin / rows);
  const char *from_before = NULL, *to_before = NULL;
  for (int64_t r = begin; r < end; ++r) {
    const int64_t at[2] = {r % rows / height, r % height};
    const char *from = c.at[0];
    char *to = c.at[1];
    for (int a = 0; a < 2; ++a) {
      from += (p->axis[a].kind == BAND_IDENTITY ? at[a] : band_nearest(&p->axis[a], at[a])) * p->stride[0][a];
      to += at[a] * p->stride[1][a];
    }
    if (from_before && from == from_before && p->contiguous_out)
      memcpy(to, to_before, (size_t)(p->axis[2].out * p->size));
    else
      nearest_copy_row(p, to, from);
    from_before = from;
    to_before = to;
    if ((r + 1) % rows == 0) {
      cursor_next(&c, 1);
      from_before = NULL;
    }
  }
}

static status nearest_run(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const nearest_plan *p = PLAN(e, nearest_plan);
  const nearest_job job = {.plan = p, .view = view};
  rows_parallel(nearest_copy_rows, &job, p->planes.n * p->axis[0].out * p->axis[1].out, 1, e->cost_ns);
  return ST_OK;
}

static status nearest_run_empty(const executor *e, void *const *view, void *scratch) {
  (void)e, (void)view, (void)scratch;
  return ST_OK;
}

status nearest_prepare(executor *e, const upsample_call *u) {
  e->run = nearest_run_empty;
  if (u->out->n == 0) return ST_OK;
  nearest_plan *p = PLAN(e, nearest_plan);
  const view v[2] = {view_of(u->in), view_of(u->out)};
  const view *const walked[] = {&v[0], &v[1]};
  walk_init(&p->planes, walked, 2, 2);
  const int more = BAND_AXES - u->n_axes;
  for (int i = 0; i < BAND_AXES; ++i) {
    const bool given = i >= more;
    p->axis[i] = given ? u->axis[i - more] : (band_spec){.kind = BAND_IDENTITY, .in = 1, .out = 1};
    for (int k = 0; k < 2; ++k) p->stride[k][i] = given ? v[k].strides[2 + i - more] : 0;
  }
  const band_spec *w = &p->axis[2];
  HEAP_PLAN(int32_t, index, e, (size_t)w->out * sizeof *index);
  for (int64_t o = 0; o < w->out; ++o) index[o] = (int32_t)band_nearest(w, o);
  p->index = index;
  p->size = (int)dtype_bytes(u->in->dtype);
  p->contiguous_in = p->stride[0][2] == p->size || w->in == 1;
  p->contiguous_out = p->stride[1][2] == p->size || w->out == 1;
  e->run = nearest_run;
  executor_cost(e, (uint64_t)(u->in->n + u->out->n) * (uint64_t)p->size, (uint64_t)u->out->n * 16);
  return ST_OK;
}
