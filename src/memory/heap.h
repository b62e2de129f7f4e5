/* A heap: the memory of one device, or the process's pinned host memory. What exists in it:
 *
 *   granule   2 MiB of the window, the unit in which memory is charged and given back to the host
 *   run       consecutive granules; a block above HEAP_SMALL_BYTES owns one
 *   arena     one granule that small blocks share, cut in units
 *   block     what a caller got; described outside of the memory itself, so that no kernel can break the heap
 *
 * Memory is a promise: a granule is charged against the heap's size (and what the host has) when a block first touches
 * it, and stays charged while it is cached for reuse; caches go back to the host before anything is refused. This is
 * the first allocator behind this interface; all calls are safe from any thread, one lock per heap. */
#ifndef CANNON_MEMORY_HEAP_H
#define CANNON_MEMORY_HEAP_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "trace/stats.h"

enum {
  HEAP_GRANULE_SHIFT = 21,
  HEAP_GRANULE_BYTES = 1 << HEAP_GRANULE_SHIFT,
  HEAP_SMALL_BYTES = 1 << 20, /* as CANN: above this, huge pages */
};

/* How a heap learns which tasks may still use a freed block: given by the runtime. A fence is what is pending now. */
typedef struct {
  bool (*pending)(void);       /* whether any task is */
  void *(*take)(void);         /* NULL: nothing is pending, or no memory for a fence */
  bool (*passed)(void *fence); /* whether all of it has retired; frees the fence then */
} heap_fences;

typedef struct {
  const char *name;          /* for messages: "device 0" */
  int device;                /* -1: pinned host memory */
  uintptr_t window;          /* first user address, granule aligned */
  uint64_t window_bytes;     /* a multiple of the granule */
  uintptr_t view_distance;   /* 0: users and kernels share the addresses, memory is private to the process */
  unsigned unit_shift;       /* small blocks start at, and are rounded to, multiples of 1 << unit_shift */
  uint64_t size_bytes;       /* what may be charged */
  bool check_host;           /* refuse what the host could not back */
  const heap_fences *fences; /* NULL: freed blocks are reused at once */
  stats_heap *stats;
} heap_config;

/* A block as it is found by address. Fields may be read at any time; those of a freed block are stale but harmless. */
typedef struct {
  _Atomic uintptr_t address;
  _Atomic uint64_t bytes;     /* as rounded by the rules: what may be accessed; 0: freed */
  _Atomic uint64_t requested; /* what the caller asked for */
  _Atomic uint64_t number;    /* 1 for the heap's first allocation */
  const char *_Atomic call;   /* the CANN function, a string constant */
  void *_Atomic site;         /* its return address */
  _Atomic uint8_t tag;        /* whoever allocates: what kind of block this is (memory/memory.h) */
  uint32_t range, next;       /* the heap's own */
  uint64_t parked_bytes;
} heap_block;

typedef struct heap heap;

status heap_create(const heap_config *config, heap **out);

/* Hands out `bytes` (already rounded), aligned to the unit. ST_NO_MEMORY with the numbers in words. */
status heap_alloc(heap *h, uint64_t bytes, uint64_t requested, const char *call, void *site, void **out);

/* Frees the block that starts at address; ST_INVALID_VALUE where none does. name is the argument's, site the caller's. While tasks are
 * pending, the block's memory stays what it is and is reused only when those submitted before the free have retired,
 * or before an allocation is refused. */
status heap_free(heap *h, uintptr_t address, const char *name, void *site);

/* The live block that holds the address, or NULL. Constant time, lock-free, safe in a signal handler. */
const heap_block *heap_find(const heap *h, uintptr_t address);

/* Notes what kind of block it is; before the caller of heap_alloc lets go of it. */
static inline void heap_tag(const heap_block *b, uint8_t tag) {
  atomic_store_explicit((_Atomic uint8_t *)&b->tag, tag, memory_order_relaxed);
}

/* Whole granules out of the heap's file, charged and counted as a block is, for mappings elsewhere (memory/vmm.h).
 * bytes: a multiple of the granule; *offset: in the file. They are given back at once. */
status heap_take_pages(heap *h, uint64_t bytes, uint64_t *offset);
void heap_give_pages(heap *h, uint64_t offset, uint64_t bytes);
int heap_file(const heap *h);

/* What could still be charged, and the whole size. */
void heap_info(heap *h, uint64_t *free_bytes, uint64_t *total_bytes);

/* Calls visit for every live block, in no order, under the heap's lock. */
void heap_each_block(heap *h, void (*visit)(const heap_block *, void *), void *argument);

#endif
