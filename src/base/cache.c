#include "base/cache.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/sanitizer.h"
#include "base/status.h"
#include "base/sync.h"

enum { CACHE_KEEP = 64, TRADE = CACHE_KEEP / 2 };

static void *make(size_t bytes) { return aligned_alloc(64, (bytes + 63) / 64 * 64); }

#if WITH_ASAN || WITH_TSAN
void *cache_get(cache_kind kind, size_t bytes) {
  (void)kind;
  return make(bytes);
}

void cache_put(cache_kind kind, void *object) {
  (void)kind;
  free(object);
}
#else

typedef struct free_object {
  struct free_object *next;
} free_object;

/* Free objects that no thread keeps. */
static struct {
  _Alignas(64) spinlock lock;
  free_object *first;
} depot[N_CACHES];

typedef struct {
  unsigned n[N_CACHES];
  free_object *first[N_CACHES];
} magazine;

static _Thread_local magazine own;
static _Thread_local bool registered; /* flush() will run when the thread ends */
static pthread_key_t key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

static void push(cache_kind kind, void *object) {
  free_object *f = object;
  f->next = own.first[kind];
  own.first[kind] = f;
  ++own.n[kind];
}

static void *pop(cache_kind kind) {
  free_object *f = own.first[kind];
  own.first[kind] = f->next;
  --own.n[kind];
  return f;
}

static void give(cache_kind kind, unsigned n) {
  spin_lock(&depot[kind].lock);
  while (n--) {
    free_object *f = pop(kind);
    f->next = depot[kind].first;
    depot[kind].first = f;
  }
  spin_unlock(&depot[kind].lock);
}

/* In the thread that ends. */
static void flush(void *unused) {
  (void)unused;
  for (cache_kind kind = 0; kind < N_CACHES; ++kind) give(kind, own.n[kind]);
  registered = false;
}

static void make_key(void) { pthread_key_create(&key, flush); }

static void register_thread(void) {
  pthread_once(&key_once, make_key);
  pthread_setspecific(key, &own);
  registered = true;
}

__attribute__((noinline)) static void *refill(cache_kind kind, size_t bytes) {
  if (!registered) register_thread();
  spin_lock(&depot[kind].lock);
  while (own.n[kind] < TRADE && depot[kind].first) {
    free_object *f = depot[kind].first;
    depot[kind].first = f->next;
    push(kind, f);
  }
  spin_unlock(&depot[kind].lock);
  return own.n[kind] ? pop(kind) : make(bytes);
}

__attribute__((noinline)) static void spill(cache_kind kind, void *object) {
  if (!registered) register_thread();
  if (own.n[kind] == CACHE_KEEP) give(kind, TRADE);
  push(kind, object);
}

void *cache_get(cache_kind kind, size_t bytes) {
  if (likely(own.n[kind])) return pop(kind);
  return refill(kind, bytes);
}

void cache_put(cache_kind kind, void *object) {
  if (likely(registered && own.n[kind] < CACHE_KEEP))
    push(kind, object);
  else
    spill(kind, object);
}
#endif
