/* SPDX-License-Identifier: Apache-2.0 */
/* Caches of freed blocks, one per thread and heap, from which the thread allocates without the heap's lock and without
 * an atomic read-modify-write instruction. Used by the heap, and by memory.h for the short cut of aclrtMalloc and
 * aclrtFree.
 *
 * A cache has lists of small blocks by their exact length, and a few long blocks. Only its thread uses it, but the heap
 * can empty it at any time, from any thread, before it adds memory or refuses any. For that it has a lock that is
 * biased to the owner: the owner sets `busy` and then looks whether the cache is closed; who closes it makes the kernel
 * execute a memory barrier in every running thread of the process (membarrier) and waits until the cache is not busy.
 *
 * The paths that most calls take are inline: thread_cache_alloc and thread_cache_free, for small blocks, some 25
 * instructions each. Where they give up, nothing has changed. */
#ifndef CANNON_MEMORY_HEAP_THREAD_CACHE_H
#define CANNON_MEMORY_HEAP_THREAD_CACHE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/hooks.h"
#include "base/invariant.h"
#include "base/status.h"
#include "memory/heap/blocks.h"
#include "trace/stats.h"

enum {
  THREAD_CACHE_HEAPS = 18, /* heaps with caches, from 1: those of all devices and the pinned one; 0 stands for none */
  THREAD_CACHE_SMALL = 64 << 10,  /* longest small block in bytes, as requested */
  THREAD_CACHE_UNITS = 129,       /* longest small block in units, with what the rules add */
  THREAD_CACHE_BYTES = 256 << 10, /* a list holds at most so many bytes, and at least one block */
  THREAD_CACHE_BLOCKS = 255,      /* and at most so many blocks */
  THREAD_CACHE_SET_BITS = 4,      /* there are 1 << 4 sets of long blocks */
};

/* States of a cache, and a mask of all of them. CLOSED: another thread uses it. COUNTED: its calls are counted for the
 * statistics. */
enum { THREAD_CACHE_CLOSED = 1, THREAD_CACHE_COUNTED = 2, THREAD_CACHE_ANY = UINT8_MAX };

/* A list of blocks of one length. The first block's address is kept here, too: so an allocation need not wait for three
 * dependent loads, one after the other. */
typedef struct {
  uintptr_t address; /* of the first block; 0: the list is empty */
  block_id first;    /* linked by .next */
  uint32_t room;     /* how many more blocks fit */
} thread_cache_list;

/* Two long blocks of lengths that belong to this set, the one that was freed last first. In a trace of training, half
 * of the long blocks come out of 16 such sets; with one long block in all a sixth would. */
typedef struct {
  uint32_t length[2]; /* thread_cache_length; 0: none */
  block_id block[2];
} thread_cache_set;

/* Fields are used by the owning thread while it has entered the cache, and by others while they have closed it. The
 * owning thread frees it when it ends, after `end` has given all blocks to the heap. */
typedef struct thread_cache {
  _Alignas(64) _Atomic bool busy; /* the owner has entered */
  _Atomic uint8_t state;          /* changed under the heap's lock */
  bool shared;                    /* whether more than one thread may free blocks of the heap; changed while closed */
  uint8_t unit_shift;
  uint8_t n_over;                   /* number of blocks in `over` */
  uint8_t until_timed;              /* with COUNTED: calls until the next one whose time is taken */
  block_id full, over;              /* lists that the heap takes at the next occasion: a full list, and long blocks */
  uint64_t next_number, end_number; /* numbers reserved for the thread's next allocations: [next_number, end_number) */
  /* Copied from the heap: its descriptions, its part for small blocks, and a counter that is 0 while no task is
   * pending. */
  heap_block *block;
  uintptr_t small;
  uint64_t small_bytes;
  const _Atomic block_mark *mark;
  const _Atomic int *tasks;
  stats_shard *shard; /* where the thread's calls are counted; NULL: nowhere */
  void *owner;        /* the heap */
  void (*end)(struct thread_cache *);
  struct thread_cache *next; /* in the heap's list of caches, under its lock */
  uint32_t longest; /* thread_cache_length up to which blocks have a set by their length; all longer ones share set 0 */
  thread_cache_set set[1 << THREAD_CACHE_SET_BITS];
  thread_cache_list list[THREAD_CACHE_UNITS + 1]; /* by length in units, the block's bucket; list 0 is never used */
} thread_cache;

/* The calling thread's caches, by heap_index; NULL: it has none. */
extern _Thread_local thread_cache *thread_caches[THREAD_CACHE_HEAPS];

/* Makes a cache for the calling thread, a copy of `model` with empty lists. `end` is called when the thread ends,
 * before the cache is freed. NULL: no memory, or the kernel has no membarrier, or heap_index is 0. */
thread_cache *thread_cache_make(unsigned heap_index, const thread_cache *model);

/* The bucket of a block of n_units; 0: none. */
static inline uint8_t thread_cache_bucket(uint64_t n_units) {
  return n_units <= THREAD_CACHE_UNITS ? (uint8_t)n_units : 0;
}

/* An empty list for a bucket. */
static inline thread_cache_list thread_cache_no_list(unsigned bucket, unsigned unit_shift) {
  const uint32_t n = bucket ? THREAD_CACHE_BYTES / (bucket << unit_shift) : 0;
  return (thread_cache_list){.room = n < THREAD_CACHE_BLOCKS ? n : THREAD_CACHE_BLOCKS};
}

/* The owner enters its cache before each use and leaves it afterwards. False: the cache is in one of these states; then
 * it is not entered and must not be used. */
static inline bool thread_cache_enter(thread_cache *t, uint8_t states) {
  INVARIANT(!atomic_load_explicit(&t->busy, memory_order_relaxed));
  atomic_store_explicit(&t->busy, true, memory_order_relaxed);
  atomic_signal_fence(memory_order_seq_cst); /* thread_cache_close makes the processor's fence */
  if (likely(!(atomic_load_explicit(&t->state, memory_order_acquire) & states))) return true;
  atomic_store_explicit(&t->busy, false, memory_order_release);
  return false;
}

static inline void thread_cache_leave(thread_cache *t) { atomic_store_explicit(&t->busy, false, memory_order_release); }

/* Takes the first block of a list that is not empty. The cache is entered. Description 0 has the address 0, as an empty
 * list has. */
static inline heap_block *thread_cache_pop(thread_cache *t, thread_cache_list *l) {
  heap_block *b = &t->block[l->first];
  INVARIANT(l->first && l->address == b->address && !b->bytes && l->room < THREAD_CACHE_BLOCKS);
  l->first = b->next;
  l->address = atomic_load_explicit(&t->block[b->next].address, memory_order_relaxed);
  ++l->room;
  return b;
}

/* Puts a block that is not live into a list that has room. The cache is entered. */
static inline void thread_cache_push(thread_cache *t, thread_cache_list *l, block_id id, uintptr_t address) {
  INVARIANT(id && l->room && address == t->block[id].address && !t->block[id].bytes && !t->block[id].pool);
  INVARIANT(l == &t->list[t->block[id].bucket] && t->block[id].bucket);
  t->block[id].next = l->first;
  l->first = id;
  l->address = address;
  --l->room;
}

/* Identifies the length of a long block: its units and its line (store.h). Never 0. */
static inline uint32_t thread_cache_length(uint64_t n_units, bool large) { return (uint32_t)n_units << 1 | large; }

static inline thread_cache_set *thread_cache_set_of(thread_cache *t, uint32_t length) {
  return &t->set[length > t->longest ? 0 : length * 0x9E3779B1u >> (32 - THREAD_CACHE_SET_BITS)];
}

/* Takes a long block of that length, or returns 0. The cache is entered. */
static inline block_id thread_cache_take_long(thread_cache *t, uint64_t n_units, bool large) {
  if (unlikely(n_units > UINT32_MAX / 2)) return 0;
  const uint32_t length = thread_cache_length(n_units, large);
  thread_cache_set *const s = thread_cache_set_of(t, length);
  for (int i = 0; i < 2; ++i)
    if (s->length[i] == length) {
      s->length[i] = 0;
      return s->block[i];
    }
  return 0;
}

/* Puts a long block in; returns the block that had to leave its set for that, or 0. The cache is entered. */
static inline block_id thread_cache_put_long(thread_cache *t, uint32_t length, block_id id) {
  INVARIANT(id && length && !t->block[id].bytes && !t->block[id].bucket && !t->block[id].pool);
  thread_cache_set *const s = thread_cache_set_of(t, length);
  block_id out = 0;
  if (s->length[0]) {
    if (s->length[1]) out = s->block[1];
    s->length[1] = s->length[0];
    s->block[1] = s->block[0];
  }
  s->length[0] = length;
  s->block[0] = id;
  return out;
}

/* Sets the fields that make a block live; bytes last. */
static inline void block_begin(heap_block *b, uint64_t number, uint64_t bytes, uint64_t requested, block_origin origin,
                               void *site) {
  INVARIANT(!b->bytes && bytes > 0 && requested <= bytes && number > 0 && b->n_units);
  atomic_store_explicit(&b->requested, requested, memory_order_relaxed);
  atomic_store_explicit(&b->number, number, memory_order_relaxed);
  atomic_store_explicit(&b->origin, origin, memory_order_relaxed);
  atomic_store_explicit(&b->site, site, memory_order_relaxed);
  atomic_store_explicit(&b->bytes, bytes, memory_order_release);
}

/* Ends a block's life: returns its bytes, or 0 where it was not live. Where two threads free the same block, one of
 * them gets the bytes and the other one 0; shared: whether there may be two. */
static inline uint64_t block_end(heap_block *b, bool shared) {
  if (shared) return atomic_exchange_explicit(&b->bytes, 0, memory_order_acq_rel);
  const uint64_t bytes = atomic_load_explicit(&b->bytes, memory_order_relaxed);
  if (bytes) atomic_store_explicit(&b->bytes, 0, memory_order_release);
  return bytes;
}

/* As heap_alloc where the thread's cache has a block of that bucket and calls are not counted; else NULL. Nobody
 * listens to the hooks. */
static inline void *thread_cache_alloc(thread_cache *t, uint64_t bucket, uint64_t bytes, uint64_t requested,
                                       block_origin origin, void *site) {
  INVARIANT(bucket > 0 && bucket <= THREAD_CACHE_UNITS && (bucket << t->unit_shift) >= bytes);
  if (!thread_cache_enter(t, THREAD_CACHE_ANY)) return NULL;
  thread_cache_list *const l = &t->list[bucket];
  const uintptr_t address = l->address;
  const uint64_t number = t->next_number;
  const bool taken = likely(address && number != t->end_number);
  if (likely(taken)) {
    t->next_number = number + 1;
    block_begin(thread_cache_pop(t, l), number, bytes, requested, origin, site);
  }
  thread_cache_leave(t);
  return likely(taken) ? (void *)address : NULL; // NOLINT(performance-no-int-to-ptr)
}

/* As heap_free where a small block starts at the address, no task can use it, the cache has room for it and calls are
 * not counted; else false. Nobody listens to the hooks. An address where no block starts leads to description 0, or to
 * one with another address. */
static inline bool thread_cache_free(thread_cache *t, uintptr_t address) {
  if (unlikely(atomic_load_explicit(t->tasks, memory_order_acquire)) || !thread_cache_enter(t, THREAD_CACHE_ANY))
    return false;
  const uint64_t offset = address - t->small;
  bool freed = false;
  if (likely(offset < t->small_bytes)) {
    const block_mark mark = atomic_load_explicit(&t->mark[offset >> t->unit_shift], memory_order_acquire);
    heap_block *b = &t->block[block_mark_id(mark)];
    thread_cache_list *const l = &t->list[block_mark_bucket(mark)];
    freed = atomic_load_explicit(&b->address, memory_order_relaxed) == address && l->room && block_end(b, t->shared);
    if (likely(freed)) thread_cache_push(t, l, block_mark_id(mark), address);
  }
  thread_cache_leave(t);
  return freed;
}

/* As thread_cache_alloc and thread_cache_free, but also for long blocks, and where calls are counted. Defined in
 * heap.c. */
void *heap_alloc_kept(thread_cache *t, uint64_t bytes, uint64_t requested, block_origin origin, void *site);
bool heap_free_kept(thread_cache *t, uintptr_t address);

/* Called under the heap's lock: from thread_cache_close to thread_cache_open, the caller may use all caches of the
 * list. own: the calling thread's cache, which it has not entered, or NULL. */
void thread_cache_close(thread_cache *list, const thread_cache *own);
void thread_cache_open(thread_cache *list);

#endif
