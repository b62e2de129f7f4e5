/* SPDX-License-Identifier: Apache-2.0 */
/* The allocators that a trace is replayed through, behind one interface:
 *
 *   pool       Cannon's own heap (memory/heap/heap.h), with the rule of aclrtMalloc
 *   first-fit  the hole with the lowest address that is large enough
 *   best-fit   the smallest hole that is large enough
 *   buddy      powers of two, halved and merged again
 *   binning    a list of free blocks for each power of two, like RMM's binning resource; best fit above 4 MiB
 *   tlsf       two-level segregated fit: memory/heap/ranges.h with units of 512 bytes
 *   pytorch    the policy of PyTorch's CUDA caching allocator
 *   torch_npu  the same policy with that plug-in's rounding
 *
 * All except the pool are models: they place blocks in an address range that has no memory. A granule of 2 MiB
 * counts as committed from the first block that touches it; the last granule ends at the cap. Only models that
 * return memory can have less committed later. Each instance belongs to one thread. If a model cannot allocate its
 * own bookkeeping, the program ends with a message. */
#ifndef CANNON_REPLAY_REPLAY_ALLOCATOR_H
#define CANNON_REPLAY_REPLAY_ALLOCATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory/heap/pages.h" /* for GRANULE_BYTES, the unit in which models commit memory */

enum { UNIT_BYTES = 512 }; /* models round requests up to multiples of this */

typedef struct {
  uint64_t committed_bytes;
  uint64_t n_calls; /* number of times that memory was taken from, or returned to, the level below; or UNKNOWN_CALLS */
  uint64_t call_ns; /* processor time in these, where they are system calls and counted */
} allocator_footprint;
#define UNKNOWN_CALLS UINT64_MAX

typedef struct {
  const char *name, *about;
  /* returns NULL, with the reason on stderr, if it cannot be created */
  void *(*create)(uint64_t cap_bytes);
  uintptr_t (*alloc)(void *self, uint64_t bytes);    /* returns a handle; 0: refused. bytes >= 1 */
  void (*free)(void *self, uintptr_t handle);        /* handle of a live block */
  uint64_t (*address)(void *self, uintptr_t handle); /* address of a live block, from 0 */
  allocator_footprint (*footprint)(void *self);
  void (*destroy)(void *self);
} allocator;

extern const allocator pool_allocator, first_fit_allocator, best_fit_allocator, buddy_allocator, binning_allocator,
    tlsf_allocator, pytorch_allocator, torch_npu_allocator;

/* All of the above, followed by NULL. */
extern const allocator *const allocators[];
const allocator *allocator_find(const char *name); /* returns NULL if there is none of that name */

/* Returns zeroed memory; ends the program with a message if there is none. */
void *replay_must_alloc(size_t bytes);

static inline uint64_t replay_round_up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

/* ---- memory that a model has committed ---- */

typedef struct {
  uint64_t cap_bytes; /* the last granule ends here */
  bool *granule;      /* whether each granule is committed */
  allocator_footprint sum;
} committed;

void committed_init(committed *c, uint64_t cap_bytes);

/* Records that a block was placed at [address, address + bytes). */
void committed_touch(committed *c, uint64_t address, uint64_t bytes);

#endif
