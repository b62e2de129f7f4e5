/* SPDX-License-Identifier: Apache-2.0 */
/* Cannon's own heap, as a device has it, at addresses of its own, with blocks rounded by the rule of aclrtMalloc. A
 * heap cannot be destroyed, so an unused one returns its memory and waits for the next instance with the same cap. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "memory/heap/heap.h"
#include "memory/rules.h"
#include "replay/replay_allocator.h"

typedef struct pool pool;
struct pool {
  heap *heap;
  heap_config config;
  heap_usage before; /* usage by earlier instances */
  pool *next_unused;
};

static pool *unused;

static pool *take_unused(uint64_t cap_bytes) {
  pool **link = &unused;
  while (*link && (*link)->config.size_bytes != cap_bytes) link = &(*link)->next_unused;
  pool *p = *link;
  if (p) *link = p->next_unused;
  return p;
}

static heap_usage usage_of(const pool *p) {
  heap_usage u;
  heap_measure(p->heap, &u);
  return u;
}

/* Reserves addresses for the users' view of the memory and, above it, the kernels' view. */
static void *heap_model_create(uint64_t cap_bytes) {
  pool *p = take_unused(cap_bytes);
  if (p) return p;
  const uint64_t window_bytes = heap_window_bytes(cap_bytes);
  const uint64_t reserved_bytes = 2 * window_bytes + GRANULE_BYTES; /* one granule more for alignment */
  void *const at = mmap(NULL, reserved_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) {
    perror("pool: no addresses");
    return NULL;
  }
  p = replay_must_alloc(sizeof *p);
  p->config = (heap_config){.name = "the pool",
                            .window = replay_round_up((uintptr_t)at, GRANULE_BYTES),
                            .window_bytes = window_bytes,
                            .view_distance = window_bytes,
                            .unit_shift = RULE_DEVICE_UNIT_SHIFT,
                            .size_bytes = cap_bytes,
                            .time_calls = true};
  if (heap_create(&p->config, &p->heap) == ST_OK) return p;
  fprintf(stderr, "pool: %s\n", fail_take());
  munmap(at, reserved_bytes);
  free(p);
  return NULL;
}

static void heap_model_destroy(void *self) {
  pool *p = self;
  heap_trim(p->heap, 0);
  p->before = usage_of(p);
  p->next_unused = unused;
  unused = p;
}

static uintptr_t heap_model_alloc(void *self, uint64_t bytes) {
  const uint64_t rounded = rule_bytes(&alloc_rules[RULE_MALLOC], bytes, RULE_DEFAULT_SLACK_BYTES, POLICY_HUGE_FIRST);
  void *block;
  if (!rounded ||
      heap_alloc(((pool *)self)->heap, rounded, bytes, origin_of(RULE_OTHER, PAGES_SMALL), NULL, &block) != ST_OK)
    return 0;
  return (uintptr_t)block;
}

static void heap_model_free(void *self, uintptr_t handle) { heap_free(((pool *)self)->heap, handle, "block", NULL); }

static uint64_t heap_model_address(void *self, uintptr_t handle) { return handle - ((pool *)self)->config.window; }

static allocator_footprint heap_model_footprint(void *self) {
  const heap_usage u = usage_of(self), before = ((pool *)self)->before;
  return (allocator_footprint){u.committed_bytes, u.n_calls - before.n_calls, u.call_ns - before.call_ns};
}

const allocator pool_allocator = {
    "pool",          "Cannon's own device heap", heap_model_create,    heap_model_alloc,
    heap_model_free, heap_model_address,         heap_model_footprint, heap_model_destroy};
