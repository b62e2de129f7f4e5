/* Blocks that a thread freed and will take again, without the heap's lock and without a locked instruction.
 *
 * A thread has one cache per heap: lists of small blocks by their exact length, and one large block. Only its thread uses it,
 * but the heap can empty it at any time, from any thread, before it lets more memory be used or refuses any. That is a lock
 * biased to the owner: the owner says `busy` and then looks whether the cache is closed; who closes it has the kernel put a
 * barrier into every running thread (membarrier) and waits until it is not busy. */
#ifndef CANNON_MEMORY_THREAD_CACHE_H
#define CANNON_MEMORY_THREAD_CACHE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "memory/heap/blocks.h"

enum {
  THREAD_CACHE_HEAPS = 18,        /* all devices' and the pinned one; heaps beyond have none */
  THREAD_CACHE_UNITS = 129,       /* longest small block, in units: 64 KiB and what the rules add */
  THREAD_CACHE_BYTES = 256 << 10, /* of one length */
};

typedef struct thread_cache {
  _Atomic bool busy, closed;
  void *owner; /* the heap */
  void (*end)(struct thread_cache *);
  struct thread_cache *next;        /* of the same heap, under its lock */
  uint64_t next_number, end_number; /* for the next allocations */
  block_id large;
  block_id over; /* what there was no more room for, on its way to the heap: a list */
  uint8_t n[THREAD_CACHE_UNITS + 1];
  block_id first[THREAD_CACHE_UNITS + 1]; /* chained through .next */
} thread_cache;

extern _Thread_local thread_cache *thread_caches[THREAD_CACHE_HEAPS];

/* The thread's cache for a heap, or NULL: none yet. */
static inline thread_cache *thread_cache_of(unsigned heap_index) {
  return heap_index < THREAD_CACHE_HEAPS ? thread_caches[heap_index] : NULL;
}

/* A cache for the calling thread, which `end` is called for when the thread ends, before it is freed. NULL: no memory. */
thread_cache *thread_cache_make(unsigned heap_index, void *owner, void (*end)(thread_cache *));

/* By the owner, around each use. False: closed just now, the cache must not be touched. */
static inline bool thread_cache_enter(thread_cache *t) {
  atomic_store_explicit(&t->busy, true, memory_order_relaxed);
  atomic_signal_fence(memory_order_seq_cst); /* the processor's part is done by who closes */
  if (likely(!atomic_load_explicit(&t->closed, memory_order_acquire))) return true;
  atomic_store_explicit(&t->busy, false, memory_order_release);
  return false;
}

static inline void thread_cache_leave(thread_cache *t) { atomic_store_explicit(&t->busy, false, memory_order_release); }

/* By anybody who holds the heap's lock: from here to open, all caches of the list are the caller's. own: the caller's, or
 * NULL. */
void thread_cache_close(thread_cache *list, const thread_cache *own);
void thread_cache_open(thread_cache *list);

#endif
