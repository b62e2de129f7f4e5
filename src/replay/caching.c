/* SPDX-License-Identifier: Apache-2.0 */
/* The policy of PyTorch's CUDA caching allocator (c10/cuda/CUDACachingAllocator.cpp, 2.7, default settings, one
 * stream), and that of torch_npu, which differs in the rounding (NPUCachingAllocator.cpp):
 *
 *   - A request is rounded up to 512 bytes; torch_npu adds 32 first.
 *   - A request of up to 1 MiB is served by the small pool, others by the large one: best fit among the pool's
 *     free blocks.
 *   - If no block fits, a segment is taken: 2 MiB for the small pool, 20 MiB for requests below 10 MiB, else the
 *     request rounded up to 2 MiB.
 *   - A block is split if at least 512 bytes (small) or more than 1 MiB (large) would be left.
 *   - Free neighbours of a segment are merged; segments are kept.
 *   - If no segment can be taken, all segments that are entirely free are returned, and it is tried again.
 *
 * On the traces in bench/traces it reserves exactly as many bytes as PyTorch's own code
 * (bench/traces/peak_torch.cpp). */
#include <stdlib.h>

#include "replay/block.h"
#include "replay/replay_allocator.h"

enum {
  MIN_BLOCK_BYTES = 512,
  SMALL_BYTES = 1 << 20,
  SMALL_SEGMENT_BYTES = 2 << 20,
  LARGE_SEGMENT_BYTES = 20 << 20,
  MIN_LARGE_BYTES = 10 << 20,
  ROUND_LARGE_BYTES = 2 << 20,
};

typedef enum { SMALL, LARGE, N_POOLS } pool_kind;

typedef struct {
  uint64_t cap_bytes, slack_bytes;
  uint64_t end; /* start address of the next segment; addresses are never used again */
  allocator_footprint sum;
  block_set pool[N_POOLS];
  block_store store;
} caching;

static void *caching_create(uint64_t cap_bytes, uint64_t slack_bytes) {
  caching *c = replay_must_alloc(sizeof *c);
  c->cap_bytes = cap_bytes;
  c->slack_bytes = slack_bytes;
  return c;
}
static void *create_pytorch(uint64_t cap_bytes) { return caching_create(cap_bytes, 0); }
static void *create_torch_npu(uint64_t cap_bytes) { return caching_create(cap_bytes, 32); }

static uint64_t segment_bytes(uint64_t bytes) {
  if (bytes <= SMALL_BYTES) return SMALL_SEGMENT_BYTES;
  return bytes < MIN_LARGE_BYTES ? LARGE_SEGMENT_BYTES : replay_round_up(bytes, ROUND_LARGE_BYTES);
}

static block *take_segment(caching *c, uint64_t bytes, pool_kind pool) {
  if (bytes > c->cap_bytes - c->sum.committed_bytes) return NULL;
  block *b = block_new(&c->store, c->end, bytes);
  b->kind = (uint8_t)pool;
  c->end += bytes;
  c->sum.committed_bytes += bytes;
  ++c->sum.n_calls;
  return b;
}

static bool is_split(const block *b) { return b->previous || b->next; }

/* Returns the pool's segments that consist of one free block. */
static void release_cached(caching *c, pool_kind pool) {
  block_set kept = NULL;
  while (c->pool[pool]) {
    block *b = c->pool[pool];
    block_set_remove(&c->pool[pool], b);
    if (is_split(b)) {
      block_set_insert(&kept, b);
      continue;
    }
    c->sum.committed_bytes -= b->bytes;
    ++c->sum.n_calls;
    block_drop(&c->store, b);
  }
  c->pool[pool] = kept;
}

static block *caching_find(caching *c, uint64_t bytes, pool_kind pool) {
  block *b = block_set_best(&c->pool[pool], bytes);
  if (b) {
    block_set_remove(&c->pool[pool], b);
    return b;
  }
  b = take_segment(c, segment_bytes(bytes), pool);
  if (b) return b;
  release_cached(c, LARGE);
  release_cached(c, SMALL);
  return take_segment(c, segment_bytes(bytes), pool);
}

static uintptr_t caching_alloc(void *self, uint64_t bytes) {
  caching *c = self;
  bytes = replay_round_up(bytes + c->slack_bytes, MIN_BLOCK_BYTES);
  const pool_kind pool = bytes <= SMALL_BYTES ? SMALL : LARGE;
  block *b = caching_find(c, bytes, pool);
  if (!b) return 0;
  const uint64_t left = b->bytes - bytes;
  if (pool == SMALL ? left >= MIN_BLOCK_BYTES : left > SMALL_BYTES)
    block_set_insert(&c->pool[pool], block_split(&c->store, b, bytes));
  b->used = true;
  return (uintptr_t)b;
}

static void caching_free(void *self, uintptr_t handle) {
  caching *c = self;
  block *b = (block *)handle, *before = b->previous, *after = b->next;
  block_set *pool = &c->pool[b->kind];
  b->used = false;
  if (after && !after->used) {
    block_set_remove(pool, after);
    block_join(&c->store, b, after);
  }
  if (before && !before->used) {
    block_set_remove(pool, before);
    block_join(&c->store, before, b);
    b = before;
  }
  block_set_insert(pool, b);
}

static uint64_t caching_address(void *self, uintptr_t handle) {
  (void)self;
  return ((block *)handle)->address;
}

static allocator_footprint caching_footprint(void *self) { return ((caching *)self)->sum; }

static void caching_destroy(void *self) {
  caching *c = self;
  block_store_free(&c->store);
  free(c);
}

const allocator pytorch_allocator = {"pytorch",         "the policy of PyTorch's caching allocator",
                                     create_pytorch,    caching_alloc,
                                     caching_free,      caching_address,
                                     caching_footprint, caching_destroy};
const allocator torch_npu_allocator = {"torch_npu",       "the same policy with torch_npu's rounding",
                                       create_torch_npu,  caching_alloc,
                                       caching_free,      caching_address,
                                       caching_footprint, caching_destroy};
