/* SPDX-License-Identifier: Apache-2.0 */
/* Index tensors with several coordinates per position (GatherNd), and with row-major element numbers (Take). */
#include "kernel/engine/walk.h"
#include "kernel/index/places.h"

void places_of_coordinates(places *p, const tensor *indices, const char *name, int operand, const view *target,
                           bool wraps) {
  const view at = view_of(indices);
  const int last = at.rank - 1;
  for (int k = 0; k < p->n_sources; ++k) {
    index_source *s = &p->source[k];
    *s = (index_source){.name = name,
                        .operand = operand,
                        .dtype = indices->dtype,
                        .wraps = wraps,
                        .offset = k * at.strides[last],
                        .extent = target->dims[k],
                        .stride = target->strides[k]};
    for (int d = 0; d < last; ++d) s->step[d] = at.strides[d];
  }
}

void linear_index_plan(executor *e, linear_index *l, index_source *s, const view *target, const tensor *index,
                       const char *name, int operand) {
  const view at = view_of(index);
  walk flat;
  walk_init(&flat, &target, 1, target->rank);
  l->is_needed = flat.rank > 1;
  *s = (index_source){.name = name,
                      .operand = operand,
                      .dtype = index->dtype,
                      .wraps = true,
                      .extent = flat.n,
                      .stride = flat.strides[0][0]};
  for (int d = 0; d < at.rank; ++d) s->step[d] = at.strides[d];
  if (!l->is_needed) return;
  l->offsets = workspace_intermediate(e, (uint64_t)index->n * sizeof(int64_t));
  l->name = name;
  l->operand = operand;
  l->index = at;
  l->target = *target;
  /* linear_index_run has checked the indices; the positions add its byte offsets (stride 1) without a bound. */
  const view made = view_contiguous(ACL_INT64, at.rank, at.dims);
  *s = (index_source){
      .name = name, .operand = IN_SCRATCH, .dtype = ACL_INT64, .scratch = l->offsets, .extent = INT64_MAX, .stride = 1};
  for (int d = 0; d < at.rank; ++d) s->step[d] = made.strides[d];
}

status linear_index_run(const linear_index *l, void *const *at, void *scratch) {
  int64_t *offset = (int64_t *)(void *)((char *)scratch + l->offsets);
  const int64_t n = view_elements(&l->target);
  const view *const walked[] = {&l->index};
  walk w;
  cursor c;
  walk_init(&w, walked, 1, l->index.rank);
  if (w.n == 0) return ST_OK;
  cursor_start(&c, &w, &at[l->operand], 0);
  for (int64_t i = 0; i < w.n; ++i, cursor_next(&c, 1)) {
    int64_t v = l->index.dtype == ACL_INT32 ? *(const int32_t *)(void *)c.at[0] : *(const int64_t *)(void *)c.at[0];
    if (v < -n || v >= n) return places_fail(l->name, i, v, -n, n - 1);
    if (v < 0) v += n;
    offset[i] = 0;
    for (int d = l->target.rank - 1; d >= 0; --d) {
      offset[i] += v % l->target.dims[d] * l->target.strides[d];
      v /= l->target.dims[d];
    }
  }
  return ST_OK;
}
