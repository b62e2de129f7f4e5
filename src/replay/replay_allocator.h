/* Allocators that a trace is replayed through, behind one interface. What exists:
 *
 *   pool       ours (memory/heap/heap.h), by the rule of aclrtMalloc
 *   first-fit  the lowest hole that is large enough      best-fit  the smallest one
 *   buddy      powers of two, halved and joined again
 *   binning    a list of free blocks per power of two, as RMM's binning resource; best fit above 4 MiB
 *   tlsf       memory/heap/ranges.h over units of 512 bytes
 *   pytorch    the policy of PyTorch's CUDA caching allocator; torch_npu: the same with that plug-in's rounding
 *
 * All but the pool are models: they place blocks on a line of addresses with nothing behind it. A granule of 2 MiB counts
 * as committed from the first block that touches it, as far as the cap goes; only those that give memory back ever have
 * less. An instance belongs to one thread. Where their book-keeping finds no memory, the program ends with a
 * message. */
#ifndef CANNON_REPLAY_REPLAY_ALLOCATOR_H
#define CANNON_REPLAY_REPLAY_ALLOCATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory/heap/pages.h" /* GRANULE_BYTES: what models commit at once */

enum { UNIT_BYTES = 512 }; /* what models round requests up to */

typedef struct {
  uint64_t committed_bytes;
  uint64_t n_calls; /* times that memory was taken from, or given back to, what is below; or UNKNOWN_CALLS */
  uint64_t call_ns; /* processor time in them, where they are system calls and counted */
} allocator_footprint;
#define UNKNOWN_CALLS UINT64_MAX

typedef struct {
  const char *name, *about;
  void *(*create)(uint64_t cap_bytes);               /* NULL, with the reason on stderr, where it can't be had */
  uintptr_t (*alloc)(void *self, uint64_t bytes);    /* a handle; 0: refused. bytes >= 1 */
  void (*free)(void *self, uintptr_t handle);        /* of a live block */
  uint64_t (*address)(void *self, uintptr_t handle); /* where it lies, from 0 */
  allocator_footprint (*footprint)(void *self);
  void (*destroy)(void *self);
} allocator;

extern const allocator pool_allocator, first_fit_allocator, best_fit_allocator, buddy_allocator, binning_allocator,
    tlsf_allocator, pytorch_allocator, torch_npu_allocator;

/* All of the above, NULL behind the last. */
extern const allocator *const allocators[];
const allocator *allocator_find(const char *name); /* NULL: there is none */

/* Zeroed memory; ends the program where there is none. */
void *must_alloc(size_t bytes);

static inline uint64_t round_up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

/* ---- what a model has committed ---- */

typedef struct {
  uint64_t cap_bytes; /* the last granule ends there */
  bool *granule;      /* whether it is */
  allocator_footprint sum;
} committed;

void committed_init(committed *c, uint64_t cap_bytes);

/* A block was placed at [address, address + bytes). */
void committed_touch(committed *c, uint64_t address, uint64_t bytes);

#endif
