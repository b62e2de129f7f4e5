/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/moe/slots.h"

#include "kernel/sort/sort_rows.h"

void slots_plan(executor *e, slot_sort *s, const tensor *experts) {
  const sort_loops *sort;
  s->experts = view_of(experts);
  s->n = experts->n;
  s->compute = (uint8_t)compute_type_of(experts->dtype);
  s->load = loops->load[experts->dtype][s->compute];
  sort = &sorts->of[s->compute];
  const uint64_t n = (uint64_t)s->n;
  s->keys = workspace_intermediate(e, n * (s->compute == COMPUTE_I64 ? 8 : 4));
  s->entries = workspace_intermediate(e, n * (uint64_t)sort->entry_bytes);
  s->spare = workspace_intermediate(e, n * (uint64_t)sort->entry_bytes);
  s->order = workspace_intermediate(e, n * sizeof(int32_t));
}

const int32_t *slots_sort(const slot_sort *s, const char *experts, char *scratch) {
  const sort_loops *sort = &sorts->of[s->compute];
  const int64_t size = s->compute == COMPUTE_I64 ? 8 : 4, choices = s->experts.rank > 1 ? s->experts.dims[1] : 1;
  char *const keys = scratch + s->keys;
  int32_t *const order = (int32_t *)(void *)(scratch + s->order);
  if (s->n == 0) return order;
  for (int64_t i = 0; i < s->experts.dims[0]; ++i)
    s->load(keys + i * choices * size, experts + i * s->experts.strides[0],
            s->experts.rank > 1 ? s->experts.strides[1] : 0, choices);
  sort->pack(scratch + s->entries, keys, 0, s->n, false);
  sort->unpack(keys, order, sort->sort(scratch + s->entries, scratch + s->spare, s->n), s->n, false);
  return order;
}
