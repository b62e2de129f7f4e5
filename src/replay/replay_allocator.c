/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/replay_allocator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const allocator *const allocators[] = {
    &pool_allocator,    &first_fit_allocator, &best_fit_allocator,
    &buddy_allocator,   &binning_allocator,   &tlsf_allocator,
    &pytorch_allocator, &torch_npu_allocator, NULL,
};

const allocator *allocator_find(const char *name) {
  const allocator *const *a = allocators;
  while (*a && strcmp((*a)->name, name) != 0) ++a;
  return *a;
}

void *replay_must_alloc(size_t bytes) {
  void *p = calloc(1, bytes);
  if (p) return p;
  fprintf(stderr, "no memory for %zu bytes\n", bytes);
  exit(1);
}

void committed_init(committed *c, uint64_t cap_bytes) {
  *c = (committed){.cap_bytes = cap_bytes, .granule = replay_must_alloc(cap_bytes / GRANULE_BYTES + 1)};
}

void committed_touch(committed *c, uint64_t address, uint64_t bytes) {
  const uint64_t last = (address + bytes - 1) / GRANULE_BYTES;
  uint64_t fresh = 0;
  for (uint64_t g = address / GRANULE_BYTES; g <= last; ++g) {
    const uint64_t left = c->cap_bytes - g * GRANULE_BYTES;
    if (!c->granule[g]) fresh += left < GRANULE_BYTES ? left : GRANULE_BYTES;
    c->granule[g] = true;
  }
  c->sum.committed_bytes += fresh;
  c->sum.n_calls += fresh != 0;
}
