/* SPDX-License-Identifier: Apache-2.0 */
/* A heap manages the memory of one device, or the process's pinned or managed host memory, and gives out blocks. Used
 * by memory/memory.c, pools (pool/stream_pool.h), vmm/vmm.h and share/ipc.h. Its parts:
 *
 *   store         places for blocks, and the memory behind them (store.h, pages.h)
 *   blocks        descriptions of blocks, found by address (blocks.h)
 *   waiting       freed blocks that tasks may still use: they are reused when the tasks that were submitted before
 *                 the free have retired, or when an allocation would be refused otherwise
 *   thread cache  blocks that one thread freed, for its next allocations of these lengths (thread_cache.h)
 *
 * A block's memory is charged against the heap's size, and against what the host has, when the block is allocated, but
 * the host provides it only when it is touched. It stays charged while it is cached for reuse; cached memory is given
 * back to the host before an allocation is refused. All calls are thread-safe. A heap has one lock, which an allocation
 * and a free that the thread's cache serves do not take. Heaps live until the process ends. */
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

/* How a heap learns which tasks may still use a freed block; the runtime provides the functions. A fence stands for the
 * tasks that are pending when it is taken. The functions are called under the heap's lock. */
typedef struct {
  const _Atomic int *busy;     /* 0: no task is pending that was submitted before; NULL: ask pending() each time */
  bool (*pending)(void);       /* whether any task is pending */
  void *(*take)(void);         /* takes a fence; NULL where nothing is pending, or without memory */
  bool (*passed)(void *fence); /* whether all tasks of the fence have retired; frees the fence then */
} heap_fences;

typedef struct {
  const char *name;      /* for messages: "device 0" */
  int device;            /* a device, or a kind of host memory (base/device_number.h) */
  uintptr_t window;      /* the first address that users see, granule aligned */
  uint64_t window_bytes; /* a multiple of the granule */
  uintptr_t
      view_distance; /* from users' to kernels' addresses; 0: they are the same, and memory is private to the process */
  unsigned unit_shift;       /* blocks start at multiples of 1 << unit_shift: 9 to 12 */
  uint64_t size_bytes;       /* limit of what may be charged */
  bool check_host;           /* whether allocations are refused that the host has no memory for */
  bool time_calls;           /* whether heap_usage.call_ns is measured */
  const heap_fences *fences; /* NULL: freed blocks are reused at once */
  /* Called when an allocation has failed `failures` + 1 times. Holds no lock. Tries to free memory, and returns whether
   * the heap shall try again; it does so also where nothing was freed, since others may have freed some meanwhile. May
   * be NULL. */
  bool (*find_room)(int device, unsigned failures);
  stats_heap *stats; /* where to count; NULL: nowhere, which is faster */
} heap_config;

typedef struct heap heap;

/* Length of the window for a heap of that size, a multiple of the granule: 32 times the size, so that memory runs out
 * before addresses do, however long-lived blocks are scattered. First fit needs at most size · log2(longest / shortest
 * block) addresses (Robson 1977), and within a line (store.h) lengths rarely differ by more than a factor of 2^24. At
 * most 1 TiB, or the size where that is more, since units are counted in 32 bits. */
static inline uint64_t heap_window_bytes(uint64_t size_bytes) {
  enum { TIMES = 32 };
  const uint64_t most = UINT64_C(1) << 40, times = size_bytes < most / TIMES ? size_bytes * TIMES : most;
  const uint64_t bytes = size_bytes < times ? times : size_bytes;
  return (bytes + HEAP_GRANULE_BYTES - 1) & -(uint64_t)HEAP_GRANULE_BYTES;
}

/* The heap's index in thread_caches[] (thread_cache.h); 0: its threads have no caches. */
unsigned heap_index(const heap *h);

/* Makes a heap that lives until the process ends. The window is reserved by the caller. *config is copied, what it
 * refers to must stay. ST_NO_HOST_MEMORY or ST_NO_MEMORY. */
status heap_create(const heap_config *config, heap **out);

/* Allocates a block of `bytes` >= 1, which are `requested` bytes as rounded by the rules (rules.h); it is aligned to
 * the unit. origin: the allocating function and the kind of pages; site: the return address of its caller.
 * ST_NO_MEMORY with a message that has the numbers. */
status heap_alloc(heap *h, uint64_t bytes, uint64_t requested, block_origin origin, void *site, void **out);

/* As heap_alloc, but does not ask the thread's cache: for callers that have just done so without success. */
status heap_alloc_uncached(heap *h, uint64_t bytes, uint64_t requested, block_origin origin, void *site, void **out);

/* Frees the block that starts at the address; ST_INVALID_VALUE where no live block of the heap's own does. name: the
 * argument's, for messages; site: the return address of the freeing call. While tasks are pending, the block's contents
 * stay, and its memory is reused only when the tasks that were submitted before the free have retired, or when an
 * allocation would be refused otherwise. */
status heap_free(heap *h, uintptr_t address, const char *name, void *site);

/* Blocks that a pool holds (pool/stream_pool.h): they have a place and memory whether they are live or not, and only
 * the pool frees them. Calls for one block are serialised by the pool's lock. `pool` is the pool's number, from 1. */
typedef struct {
  uintptr_t address;
  uint64_t bytes; /* a multiple of 1 << unit_shift */
  unsigned unit_shift;
  bool large; /* which part of the window (store.h) */
} heap_place;

/* Takes a block of at least `bytes`, not live, for the pool; 0 where that is refused. */
block_id heap_hold(heap *h, uint64_t bytes, uint16_t pool);

/* Gives a held block back, which is not live and which no task uses. */
void heap_let_go(heap *h, block_id id);

heap_place heap_place_of(const heap *h, block_id id);

/* Cuts a held block that is not live behind its first `bytes`, a multiple of its unit. Returns the rest as a block; 0
 * without memory. */
block_id heap_cut(heap *h, block_id id, uint64_t bytes);

/* Joins the held block `after` to `id`, both not live; then `after` is invalid. False where they are no neighbours or
 * in different parts of the window. */
bool heap_join(heap *h, block_id id, block_id after);

/* What is told of a held block when it becomes live. */
typedef struct {
  uint64_t begun; /* what heap_begin returned when the call began */
  uint64_t bytes, requested;
  block_origin origin;
  void *site;
  int64_t stream; /* number of the stream for listeners (base/hooks.h) */
  bool hit;       /* whether it took no new memory */
} heap_loan;

/* The time of a call's begin, for the statistics; 0 where nobody counts. */
uint64_t heap_begin(const heap *h);

/* Makes a held block live, as heap_alloc does; returns its address. */
void *heap_lend(heap *h, block_id id, const heap_loan *loan);

/* A held block is live no more; false where it was not. */
bool heap_take_back(heap *h, block_id id, uint64_t begun, int64_t stream, void *site);

/* The number of the pool that holds, or held last, the block that starts at the address; 0: no pool. */
uint16_t heap_pool_of(const heap *h, uintptr_t address);

/* Returns ST_NO_MEMORY with a message that has the numbers and the largest live blocks. bytes: the request as rounded;
 * origin: as for heap_alloc. Takes the lock. */
status heap_refuse(heap *h, uint64_t bytes, uint64_t requested, block_origin origin, void *site);

/* Describes the largest live blocks of a pool, or of all (0), for messages; "" where there are none. Takes the lock. */
typedef struct {
  char words[320];
} heap_holders;
void heap_largest(heap *h, uint16_t pool, heap_holders *out);

/* The live block that holds the address, or NULL. Takes constant time and no lock; safe in a signal handler. */
const heap_block *heap_find(const heap *h, uintptr_t address);

/* Takes whole granules of the heap's file, charged and counted as a block is, for mappings elsewhere
 * (memory/vmm/vmm.h). bytes: a multiple of the granule; *offset: the place in the file. heap_give_pages gives them back
 * without waiting for tasks. */
status heap_take_pages(heap *h, uint64_t bytes, uint64_t *offset);
void heap_give_pages(heap *h, uint64_t offset, uint64_t bytes);

/* The descriptor of the file with the heap's memory, which stays the heap's; -1 for host memory. */
int heap_file(const heap *h);

/* Where [address, address + bytes) of a live block lies in the file, as pieces in order. Stores the first `most` of
 * them, and in *n how many there are. They stay there while the block lives. */
typedef struct {
  uint64_t offset, bytes;
} heap_piece;
void heap_pieces(heap *h, uintptr_t address, uint64_t bytes, heap_piece *pieces, size_t most, size_t *n);

/* *free_bytes: how much of the size no block and no other process (ledger.h) uses; *total_bytes: the size. */
void heap_info(heap *h, uint64_t *free_bytes, uint64_t *total_bytes);

typedef struct {
  uint64_t used_bytes;      /* of blocks' places, including blocks that wait for tasks */
  uint64_t peak_bytes;      /* highest value of used_bytes */
  uint64_t committed_bytes; /* charged: used or cached */
  uint64_t n_calls;         /* system calls so far that moved memory or gave it back */
  uint64_t call_ns;         /* CPU time of the calling threads in them, with heap_config.time_calls */
} heap_usage;
void heap_measure(heap *h, heap_usage *out);

/* Gives cached memory back to the host until at most keep_bytes are committed, or nothing is cached: whole granules and
 * single pages, but no memory that a task may use. Blocks keep their addresses. */
void heap_trim(heap *h, uint64_t keep_bytes);

/* Calls visit for every live block, in no particular order, under the heap's lock. */
void heap_each_block(heap *h, void (*visit)(const hook_block *, void *), void *argument);

/* Returns the number of one more allocation. Takes no lock. */
uint64_t heap_new_number(heap *h);

#endif
