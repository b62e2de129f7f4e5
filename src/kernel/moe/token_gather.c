/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/moe/token_gather.h"

status token_gather_run(const token_gather *g, const executor *e, void *const *view, int out, void *scratch) {
  if (!g->n) return ST_OK;
  const places_job job = {.p = &g->rows,
                          .kind = PLACES_GATHER,
                          .target = view[0],
                          .side = view[out],
                          .view = view,
                          .scratch = scratch,
                          .cost_ns = e->cost_ns};
  return places_run(&job);
}

void token_gather_plan(executor *e, token_gather *g, const tensor *tokens, const tensor *out, const char *name,
                       int64_t n_slots) {
  const view from = view_of(tokens), to = view_of(out);
  g->numbers = workspace_intermediate(e, (uint64_t)n_slots * sizeof(int64_t));
  g->source = (index_source){.name = name,
                             .operand = IN_SCRATCH,
                             .dtype = ACL_INT64,
                             .scratch = g->numbers,
                             .extent = from.dims[0],
                             .stride = from.strides[0],
                             .step = {sizeof(int64_t)}};
  places_init(&g->rows, (int64_t)dtype_bytes(from.dtype), (int64_t)dtype_bytes(from.dtype), &g->source, 1);
  places_add(&g->rows, to.dims[0], 0, to.strides[0]);
  for (int d = 1; d < from.rank; ++d) places_add_slice(&g->rows, from.dims[d], from.strides[d], to.strides[d]);
  g->n = out->n;
  if (out->n) places_finish(&g->rows, true);
  executor_cost(e, (uint64_t)out->n * 2 * dtype_bytes(out->dtype) + (uint64_t)n_slots * 64, (uint64_t)n_slots * 256);
}
