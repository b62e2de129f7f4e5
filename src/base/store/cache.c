/* SPDX-License-Identifier: Apache-2.0 */
#include "base/store/cache.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "base/status.h"
#include "base/sync.h"

static size_t round_up(size_t bytes) { return (bytes + 63) / 64 * 64; }

#if !CACHE_KEEPS_MEMORY
void *cache_get(cache_kind kind, size_t bytes) {
  (void)kind;
  return aligned_alloc(64, round_up(bytes));
}

void cache_put(cache_kind kind, void *object) {
  (void)kind;
  free(object);
}

void cache_on_empty(cache_kind kind, void (*refill)(void)) {
  (void)kind;
  (void)refill;
}

size_t cache_n_made(cache_kind kind) {
  (void)kind;
  return 0;
}

void cache_each(cache_kind kind, void (*visit)(void *object)) {
  (void)kind;
  (void)visit;
}
#else
enum {
  CHAIN = 32, /* objects that move between a thread and the depot together */
  SLAB = 8,   /* objects that are made together */
};

typedef struct free_object {
  struct free_object *next;       /* in its chain */
  struct free_object *next_chain; /* the next chain in the depot; only in a chain's first object */
  unsigned n;                     /* the number of objects in the chain; only in its first object */
} free_object;
_Static_assert(sizeof(free_object) <= CACHE_LINK_BYTES, "what cache.h says");

/* Objects that were made together, and stay for ever. */
typedef struct slab {
  _Alignas(64) struct slab *next; /* an older one of the kind */
  size_t bytes;                   /* the distance of two objects */
  _Alignas(64) char objects[];
} slab;

static slab *_Atomic slabs[N_CACHES];
static _Atomic size_t n_made[N_CACHES];
static void (*_Atomic on_empty[N_CACHES])(void);

/* Free objects that no thread holds: a stack of chains for each kind. */
static struct {
  _Alignas(64) spinlock lock;
  free_object *first;
} depot[N_CACHES] = {[0 ... N_CACHES - 1] = {.lock = SPINLOCK_INITIALIZER(DEPOT)}};

/* What a thread holds of each kind: a chain of at most CHAIN objects that it takes from and adds to, and one full spare
 * chain or none. With two chains, gets and puts that alternate around the end of one chain never go to the depot. */
typedef struct {
  unsigned n[N_CACHES];
  free_object *first[N_CACHES], *spare[N_CACHES];
} magazine;

static _Thread_local magazine own;
static _Thread_local bool registered; /* cache_flush() will run when the thread ends */
static pthread_key_t key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

static void push(cache_kind kind, void *object) {
  free_object *f = object;
  f->next = own.first[kind];
  own.first[kind] = f;
  ++own.n[kind];
}

/* The next object may lie in the processor cache of the thread that put it, so it is prefetched while this one is
 * used. */
static void *pop(cache_kind kind) {
  free_object *f = own.first[kind];
  own.first[kind] = f->next;
  __builtin_prefetch(f->next, 1);
  --own.n[kind];
  return f;
}

/* Whole chains are handed over, so the lock is held for a few instructions. */
static void depot_give(cache_kind kind, free_object *chain, unsigned n) {
  if (!chain) return;
  chain->n = n;
  spin_lock(&depot[kind].lock);
  chain->next_chain = depot[kind].first;
  depot[kind].first = chain;
  spin_unlock(&depot[kind].lock);
}

static free_object *depot_take(cache_kind kind) {
  spin_lock(&depot[kind].lock);
  free_object *chain = depot[kind].first;
  if (chain) depot[kind].first = chain->next_chain;
  spin_unlock(&depot[kind].lock);
  return chain;
}

/* Called in each thread that ends: gives all its chains to the depot. */
static void cache_flush(void *unused) {
  (void)unused;
  for (cache_kind kind = 0; kind < N_CACHES; ++kind) {
    depot_give(kind, own.first[kind], own.n[kind]);
    depot_give(kind, own.spare[kind], CHAIN);
    own.first[kind] = own.spare[kind] = NULL;
    own.n[kind] = 0;
  }
  registered = false;
}

static void cache_make_key(void) { pthread_key_create(&key, cache_flush); }

static void register_thread(void) {
  pthread_once(&key_once, cache_make_key);
  pthread_setspecific(key, &own);
  registered = true;
}

/* Makes objects, and adds them to the thread's chain, which is empty. False if there is no memory. */
static bool cache_make(cache_kind kind, size_t bytes) {
  const size_t step = round_up(bytes);
  slab *fresh = aligned_alloc(64, sizeof *fresh + SLAB * step);
  if (!fresh) return false;
  memset(fresh, 0, sizeof *fresh + SLAB * step);
  fresh->bytes = step;
  for (size_t i = SLAB; i--;) push(kind, fresh->objects + i * step);
  fresh->next = atomic_load(&slabs[kind]);
  while (!atomic_compare_exchange_weak(&slabs[kind], &fresh->next, fresh)) {
  }
  atomic_fetch_add(&n_made[kind], SLAB);
  return true;
}

/* Adds the thread's spare chain, or one of the depot, to its chain, which is empty. */
static bool cache_take_chain(cache_kind kind) {
  free_object *chain = own.spare[kind];
  unsigned n = CHAIN;
  own.spare[kind] = NULL;
  if (!chain) {
    chain = depot_take(kind);
    if (!chain) return false;
    n = chain->n;
  }
  own.first[kind] = chain;
  own.n[kind] = n;
  return true;
}

__attribute__((noinline)) static void *cache_refill(cache_kind kind, size_t bytes) {
  if (!registered) register_thread();
  if (cache_take_chain(kind)) return pop(kind);
  void (*const refill)(void) = atomic_load(&on_empty[kind]);
  if (refill) refill();
  return own.n[kind] || cache_take_chain(kind) || cache_make(kind, bytes) ? pop(kind) : NULL;
}

void cache_on_empty(cache_kind kind, void (*refill)(void)) { atomic_store(&on_empty[kind], refill); }

size_t cache_n_made(cache_kind kind) { return atomic_load(&n_made[kind]); }

void cache_each(cache_kind kind, void (*visit)(void *object)) {
  for (slab *s = atomic_load(&slabs[kind]); s; s = s->next)
    for (size_t i = 0; i < SLAB; ++i) visit(s->objects + i * s->bytes);
}

__attribute__((noinline)) static void cache_spill(cache_kind kind, void *object) {
  if (!registered) register_thread();
  if (own.n[kind] == CHAIN) {
    depot_give(kind, own.spare[kind], CHAIN);
    own.spare[kind] = own.first[kind];
    own.first[kind] = NULL;
    own.n[kind] = 0;
  }
  push(kind, object);
}

void *cache_get(cache_kind kind, size_t bytes) {
  if (likely(own.n[kind])) return pop(kind);
  return cache_refill(kind, bytes);
}

void cache_put(cache_kind kind, void *object) {
  if (likely(registered && own.n[kind] < CHAIN))
    push(kind, object);
  else
    cache_spill(kind, object);
}
#endif
