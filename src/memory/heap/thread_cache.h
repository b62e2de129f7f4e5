/* Blocks that a thread freed and will take again, without the heap's lock and without a locked instruction.
 *
 * A thread has one cache per heap: lists of small blocks by their exact length, and a few long blocks. Only its
 * thread uses it, but the heap can empty it at any time, from any thread, before it lets more memory be used or refuses any.
 * That is a lock biased to the owner: the owner says `busy` and then looks whether the cache is closed; who closes it has the
 * kernel put a barrier into every running thread (membarrier) and waits until it is not busy.
 *
 * What most calls take is inline, some 25 instructions each way: thread_cache_alloc and thread_cache_free, of small blocks.
 * Where they give up, nothing has changed. */
#ifndef CANNON_MEMORY_HEAP_THREAD_CACHE_H
#define CANNON_MEMORY_HEAP_THREAD_CACHE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/hooks.h"
#include "base/status.h"
#include "memory/heap/blocks.h"
#include "trace/stats.h"

enum {
  THREAD_CACHE_HEAPS = 18,        /* all devices' and the pinned one; 0 stands for none, heaps beyond have none */
  THREAD_CACHE_SMALL = 64 << 10,  /* longest small block as asked for, ... */
  THREAD_CACHE_UNITS = 129,       /* ... and in units, with what the rules add */
  THREAD_CACHE_BYTES = 256 << 10, /* of one length, ... */
  THREAD_CACHE_BLOCKS = 255,      /* ... and at most so many */
  THREAD_CACHE_SET_BITS = 4,      /* sets of long blocks */
};

enum { THREAD_CACHE_CLOSED = 1, THREAD_CACHE_COUNTED = 2, THREAD_CACHE_ANY = UINT8_MAX };

/* Blocks of one length. The first one's address is beside it, so that a program which allocates and frees by turns waits for
 * one look-up, by address, and not for three, one behind the other. */
typedef struct {
  uintptr_t address; /* of the first; 0: there is none */
  block_id first;    /* chained through .next */
  uint32_t room;     /* for so many more */
} thread_cache_list;

/* Two long blocks, of any of the lengths that are theirs; first the one that was freed last. A trace of training takes half
 * of its long blocks out of 16 such sets; one long block in all would serve a sixth. */
typedef struct {
  uint32_t length[2]; /* thread_cache_length; 0: none */
  block_id block[2];
} thread_cache_set;

typedef struct thread_cache {
  _Alignas(64) _Atomic bool busy;
  _Atomic uint8_t state; /* THREAD_CACHE_CLOSED while another thread has it, _COUNTED where somebody reads statistics */
  bool shared;           /* more than one thread frees blocks of the heap; changed while closed */
  uint8_t unit_shift;
  uint8_t n_over;                   /* long ones in `over` */
  uint8_t until_timed;              /* frees and allocations, where they are counted */
  block_id full, over;              /* lists on their way to the heap: one that was full, and long blocks */
  uint64_t next_number, end_number; /* for the next allocations */
  /* Of the heap: its descriptions, its part for small blocks, and whether a task may be pending (0: none). */
  heap_block *block;
  uintptr_t small;
  uint64_t small_bytes;
  const _Atomic block_mark *mark;
  const _Atomic int *tasks;
  stats_shard *shard; /* where the thread's calls are counted; NULL: nobody reads */
  void *owner;        /* the heap */
  void (*end)(struct thread_cache *);
  struct thread_cache *next; /* of the same heap, under its lock */
  uint32_t longest;          /* length of blocks that have a set by their length; all longer ones share one */
  thread_cache_set set[1 << THREAD_CACHE_SET_BITS];
  thread_cache_list list[THREAD_CACHE_UNITS + 1]; /* by length in units, which is a block's bucket; 0 is for none */
} thread_cache;

extern _Thread_local thread_cache *thread_caches[THREAD_CACHE_HEAPS];

/* A cache for the calling thread, like `model` (owner, end, and what is of the heap); `end` is called for it when the thread
 * ends, before it is freed. NULL: no memory. */
thread_cache *thread_cache_make(unsigned heap_index, const thread_cache *model);

/* The bucket of a block that long, in units. */
static inline uint8_t thread_cache_bucket(uint64_t n_units) {
  return n_units <= THREAD_CACHE_UNITS ? (uint8_t)n_units : 0;
}

/* An empty list. */
static inline thread_cache_list thread_cache_no_list(unsigned bucket, unsigned unit_shift) {
  const uint32_t n = bucket ? THREAD_CACHE_BYTES / (bucket << unit_shift) : 0;
  return (thread_cache_list){.room = n < THREAD_CACHE_BLOCKS ? n : THREAD_CACHE_BLOCKS};
}

/* By the owner, around each use. False: the cache is in one of these states and must not be touched. */
static inline bool thread_cache_enter(thread_cache *t, uint8_t states) {
  atomic_store_explicit(&t->busy, true, memory_order_relaxed);
  atomic_signal_fence(memory_order_seq_cst); /* the processor's part is done by who closes */
  if (likely(!(atomic_load_explicit(&t->state, memory_order_acquire) & states))) return true;
  atomic_store_explicit(&t->busy, false, memory_order_release);
  return false;
}

static inline void thread_cache_leave(thread_cache *t) { atomic_store_explicit(&t->busy, false, memory_order_release); }

/* Inside: the first block of a list that is not empty, and back. The description 0 has the address 0. */
static inline heap_block *thread_cache_pop(thread_cache *t, thread_cache_list *l) {
  heap_block *b = &t->block[l->first];
  l->first = b->next;
  l->address = atomic_load_explicit(&t->block[b->next].address, memory_order_relaxed);
  ++l->room;
  return b;
}

static inline void thread_cache_push(thread_cache *t, thread_cache_list *l, block_id id, uintptr_t address) {
  t->block[id].next = l->first;
  l->first = id;
  l->address = address;
  --l->room;
}

/* What tells lengths apart: units and the line (store.h); never 0. */
static inline uint32_t thread_cache_length(uint64_t n_units, bool large) { return (uint32_t)n_units << 1 | large; }

static inline thread_cache_set *thread_cache_set_of(thread_cache *t, uint32_t length) {
  return &t->set[length > t->longest ? 0 : length * 0x9E3779B1u >> (32 - THREAD_CACHE_SET_BITS)];
}

/* Inside: a long block of that length, or 0; and back, for which another one may have to go. */
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

static inline block_id thread_cache_put_long(thread_cache *t, uint32_t length, block_id id) {
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

/* The block becomes the caller's: the fields that say so. */
static inline void block_begin(heap_block *b, uint64_t number, uint64_t bytes, uint64_t requested, block_origin origin,
                               void *site) {
  atomic_store_explicit(&b->requested, requested, memory_order_relaxed);
  atomic_store_explicit(&b->number, number, memory_order_relaxed);
  atomic_store_explicit(&b->origin, origin, memory_order_relaxed);
  atomic_store_explicit(&b->site, site, memory_order_relaxed);
  atomic_store_explicit(&b->bytes, bytes, memory_order_release);
}

/* Ends it: its bytes, or 0 where it was not live. Of two threads that free the same one, one gets them. */
static inline uint64_t block_end(heap_block *b, bool shared) {
  if (shared) return atomic_exchange_explicit(&b->bytes, 0, memory_order_acq_rel);
  const uint64_t bytes = atomic_load_explicit(&b->bytes, memory_order_relaxed);
  if (bytes) atomic_store_explicit(&b->bytes, 0, memory_order_release);
  return bytes;
}

/* As heap_alloc where the thread has a block of that bucket, and nobody listens to the hooks; else NULL. */
static inline void *thread_cache_alloc(thread_cache *t, uint64_t bucket, uint64_t bytes, uint64_t requested,
                                       block_origin origin, void *site) {
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

/* As heap_free where the block starts at the address, is a small one, no task can use it, there is room for it, and nobody
 * listens; else false. An address where none starts leads to the description 0, or to one of another address. */
static inline bool thread_cache_free(thread_cache *t, uintptr_t address) {
  if (unlikely(atomic_load_explicit(t->tasks, memory_order_acquire)) || !thread_cache_enter(t, THREAD_CACHE_ANY))
    return false;
  const uint64_t offset = address - t->small;
  bool freed = false;
  if (likely(offset < t->small_bytes)) {
    const block_mark mark = atomic_load_explicit(&t->mark[offset >> t->unit_shift], memory_order_acquire);
    heap_block *b = &t->block[mark_id(mark)];
    thread_cache_list *const l = &t->list[mark_bucket(mark)];
    freed = atomic_load_explicit(&b->address, memory_order_relaxed) == address && l->room && block_end(b, t->shared);
    if (likely(freed)) thread_cache_push(t, l, mark_id(mark), address);
  }
  thread_cache_leave(t);
  return freed;
}

/* The same of long blocks too, and where calls are counted; in heap.c, since it takes some more of the heap. */
void *heap_alloc_kept(thread_cache *t, uint64_t bytes, uint64_t requested, block_origin origin, void *site);
bool heap_free_kept(thread_cache *t, uintptr_t address);

/* By anybody who holds the heap's lock: from here to open, all caches of the list are the caller's. own: the caller's, or
 * NULL. */
void thread_cache_close(thread_cache *list, const thread_cache *own);
void thread_cache_open(thread_cache *list);

#endif
