/* Our own: a heap as a device has it, in addresses of its own, blocks rounded by the rule of aclrtMalloc. A heap can't be
 * destroyed: an instance leaves the tables that it touched behind, some MiB. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "memory/heap.h"
#include "memory/rules.h"
#include "replay/allocator.h"

_Static_assert((int)GRANULE_BYTES == (int)HEAP_GRANULE_BYTES, "models commit what the heap does");

typedef struct pool pool;
struct pool {
  heap *heap;
  void *reserved;
  heap_config config;
  stats_heap stats;
  pool *next_left;
};

static pool *left_behind; /* so that a leak checker finds them */

/* Users' addresses and, behind them, the kernels' view; the granule more is for alignment. */
static uint64_t reserved_bytes(uint64_t window_bytes) { return 2 * window_bytes + GRANULE_BYTES; }

static void *create(uint64_t cap_bytes) {
  const uint64_t window_bytes = 4 * round_up(cap_bytes, GRANULE_BYTES); /* as memory.c has it */
  void *const at =
      mmap(NULL, reserved_bytes(window_bytes), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) {
    perror("pool: no addresses");
    return NULL;
  }
  pool *p = must_alloc(sizeof *p);
  p->reserved = at;
  p->config = (heap_config){.name = "the pool",
                            .window = round_up((uintptr_t)at, GRANULE_BYTES),
                            .window_bytes = window_bytes,
                            .view_distance = window_bytes,
                            .unit_shift = RULE_DEVICE_UNIT_SHIFT,
                            .size_bytes = cap_bytes,
                            .stats = &p->stats};
  if (heap_create(&p->config, &p->heap) == ST_OK) return p;
  fprintf(stderr, "pool: %s\n", fail_take());
  munmap(at, reserved_bytes(window_bytes));
  free(p);
  return NULL;
}

static uintptr_t take(void *self, uint64_t bytes) {
  const uint64_t rounded = rule_bytes(&alloc_rules[RULE_MALLOC], bytes);
  void *block;
  return rounded && heap_alloc(((pool *)self)->heap, rounded, bytes, "replay", NULL, &block) == ST_OK ? (uintptr_t)block
                                                                                                      : 0;
}

static void give(void *self, uintptr_t handle) { heap_free(((pool *)self)->heap, handle, "block", NULL); }

static uint64_t address(void *self, uintptr_t handle) { return handle - ((pool *)self)->config.window; }

/* The heap tells what is in use; what it caches beyond that, and its mapping calls, are not to be had from its header. */
static allocator_footprint footprint(void *self) {
  uint64_t free_bytes, total_bytes;
  heap_info(((pool *)self)->heap, &free_bytes, &total_bytes);
  return (allocator_footprint){.committed_bytes = total_bytes - free_bytes, .n_calls = UNKNOWN_CALLS};
}

static void destroy(void *self) {
  pool *p = self;
  munmap(p->reserved, reserved_bytes(p->config.window_bytes));
  p->next_left = left_behind;
  left_behind = p;
}

const allocator pool_allocator = {"pool", "Cannon's own, as a device has it", create, take, give, address, footprint,
                                  destroy};
