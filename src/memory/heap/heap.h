/* A heap: the memory of one device, or the process's pinned host memory. It gives out blocks. What exists in it:
 *
 *   store         places for blocks, and the memory behind them (store.h, pages.h)
 *   blocks        what callers hold, found by address (blocks.h)
 *   waiting       freed blocks that tasks may still use: reused when the tasks that were submitted before have retired, or
 *                 before anything is refused
 *   thread cache  freed blocks of one thread's, ready for its next allocation of that length (thread_cache.h)
 *
 * Memory is a promise: it is charged against the heap's size (and what the host has) when it is first used, and stays
 * charged while it is cached for reuse; caches go back to the host before anything is refused. All calls are safe from any
 * thread; one lock per heap, which a warm pair of allocation and free does without. */
#ifndef CANNON_MEMORY_HEAP_HEAP_H
#define CANNON_MEMORY_HEAP_HEAP_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hooks.h"
#include "base/status.h"
#include "memory/heap/blocks.h"
#include "memory/heap/pages.h"
#include "trace/stats.h"

enum {
  HEAP_GRANULE_SHIFT = GRANULE_SHIFT,
  HEAP_GRANULE_BYTES = GRANULE_BYTES,
  HEAP_SMALL_BYTES = 1 << 20, /* as CANN: above this, huge pages */
};

/* How a heap learns which tasks may still use a freed block: given by the runtime. A fence is what is pending now. */
typedef struct {
  const _Atomic int *busy;     /* 0: nothing that the caller knows of is pending; NULL: ask pending() */
  bool (*pending)(void);       /* whether any task is */
  void *(*take)(void);         /* NULL: nothing is pending, or no memory for a fence */
  bool (*passed)(void *fence); /* whether all of it has retired; frees the fence then */
} heap_fences;

typedef struct {
  const char *name;          /* for messages: "device 0" */
  int device;                /* or a kind of host memory (base/device_number.h) */
  uintptr_t window;          /* first user address, granule aligned */
  uint64_t window_bytes;     /* a multiple of the granule */
  uintptr_t view_distance;   /* 0: users and kernels share the addresses, memory is private to the process */
  unsigned unit_shift;       /* blocks start at multiples of 1 << unit_shift: 9 to 12 */
  uint64_t size_bytes;       /* what may be charged */
  bool check_host;           /* refuse what the host could not back */
  bool time_calls;           /* see heap_usage */
  const heap_fences *fences; /* NULL: freed blocks are reused at once */
  /* After so many failures but one, without locks: does what may make more room; false where nothing is left to do. Others may
   * have made some meanwhile, so that it is no matter whether this did. May be NULL. */
  bool (*find_room)(int device, unsigned failures);
  stats_heap *stats; /* NULL: nobody counts, which is faster */
} heap_config;

typedef struct heap heap;

/* A window for a heap of that size: wide enough for free addresses not to be wanting before memory is, however blocks that
 * live long are scattered. First fit needs at most size · log2(longest / shortest block), see Robson 1977, and blocks of one
 * line (store.h) are rarely 2^24 to one. For the largest heaps less, as units are counted in 32 bits. A multiple of the
 * granule. */
static inline uint64_t heap_window_bytes(uint64_t size_bytes) {
  enum { TIMES = 32 };
  const uint64_t most = UINT64_C(1) << 40, times = size_bytes < most / TIMES ? size_bytes * TIMES : most;
  const uint64_t bytes = size_bytes < times ? times : size_bytes;
  return (bytes + HEAP_GRANULE_BYTES - 1) & -(uint64_t)HEAP_GRANULE_BYTES;
}

unsigned heap_index(const heap *h); /* of threads' caches (thread_cache.h) */

status heap_create(const heap_config *config, heap **out);

/* Hands out `bytes` (already rounded), aligned to the unit. ST_NO_MEMORY with the numbers in words. */
status heap_alloc(heap *h, uint64_t bytes, uint64_t requested, block_origin origin, void *site, void **out);

/* Frees the block that starts at address; ST_INVALID_VALUE where none does. name is the argument's, site the caller's.
 * While tasks are pending, the block's memory stays what it is and is reused only when those submitted before the free have
 * retired, or before an allocation is refused. */
status heap_free(heap *h, uintptr_t address, const char *name, void *site);

/* What a pool holds between uses (pool.h): blocks with a place and memory, live or not, which only the pool frees. Those of
 * one part of the window (large or not) can be cut and joined while they are not live. The caller serialises calls for a
 * block; pool is its number, from 1. */
typedef struct {
  uintptr_t address;
  uint64_t bytes; /* of the place: a multiple of 1 << unit_shift */
  unsigned unit_shift;
  bool large;
} heap_place;
block_id heap_hold(heap *h, uint64_t bytes, uint16_t pool); /* 0: refused */
void heap_let_go(heap *h, block_id id);                     /* not live; no task uses it */
heap_place heap_place_of(const heap *h, block_id id);
block_id heap_cut(heap *h, block_id id, uint64_t bytes); /* a multiple of the unit; the rest, or 0 */
bool heap_join(heap *h, block_id id, block_id after);    /* whether they are neighbours; then after is gone */

/* Makes a held block live, as heap_alloc does, and ends its life; false where it is not live. stream: as listeners are
 * told it (base/hooks.h). */
typedef struct {
  uint64_t begun; /* what heap_begin gave when the call began */
  uint64_t bytes, requested;
  block_origin origin;
  void *site;
  int64_t stream;
  bool hit; /* it took no new memory */
} heap_loan;
uint64_t heap_begin(const heap *h);
void *heap_lend(heap *h, block_id id, const heap_loan *loan);
bool heap_take_back(heap *h, block_id id, uint64_t begun, int64_t stream, void *site);

/* Whose the block that starts at the address is, or was last; 0: no pool's. */
uint16_t heap_pool_of(const heap *h, uintptr_t address);

/* ST_NO_MEMORY, with the numbers and the largest holders in words. bytes: what was made of the request; call: as for
 * heap_alloc, NULL for whole granules. */
status heap_refuse(heap *h, uint64_t bytes, uint64_t requested, block_origin origin);

/* In words, the largest live blocks: of a pool, or of all (0). "" where there are none. */
typedef struct {
  char words[320];
} heap_holders;
void heap_largest(heap *h, uint16_t pool, heap_holders *out);

/* The live block that holds the address, or NULL. Constant time, lock-free, safe in a signal handler. */
const heap_block *heap_find(const heap *h, uintptr_t address);

/* Whole granules out of the heap's file, charged and counted as a block is, for mappings elsewhere (memory/vmm/vmm.h).
 * bytes: a multiple of the granule; *offset: in the file. They are given back at once. */
status heap_take_pages(heap *h, uint64_t bytes, uint64_t *offset);
void heap_give_pages(heap *h, uint64_t offset, uint64_t bytes);
int heap_file(const heap *h);

/* Where [address, address + bytes) of a live block lies in the file, in order; the first `most` pieces, and how many there
 * are. It stays there while the block lives. */
typedef struct {
  uint64_t offset, bytes;
} heap_piece;
void heap_pieces(heap *h, uintptr_t address, uint64_t bytes, heap_piece *pieces, size_t most, size_t *n);

/* What could still be charged, what other processes have charged taken off (ledger.h), and the whole size. */
void heap_info(heap *h, uint64_t *free_bytes, uint64_t *total_bytes);

typedef struct {
  uint64_t used_bytes;      /* of blocks, those that wait for tasks included, as the store rounds them */
  uint64_t peak_bytes;      /* highest used_bytes */
  uint64_t committed_bytes; /* charged: used or cached */
  uint64_t n_calls;         /* system calls so far that moved memory or gave it back, ... */
  uint64_t call_ns;         /* ... and the threads' own time in them, if the configuration says so */
} heap_usage;
void heap_measure(heap *h, heap_usage *out);

/* Gives cached memory back to the host until at most keep_bytes are committed, or nothing is cached; whole granules and
 * single pages, never what a task may use. Addresses of blocks stay. */
void heap_trim(heap *h, uint64_t keep_bytes);

/* Calls visit for every live block, in no order, under the heap's lock. */
void heap_each_block(heap *h, void (*visit)(const hook_block *, void *), void *argument);

/* The number of one more allocation. */
uint64_t heap_new_number(heap *h);

#endif
