#include "memory/registered.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef struct {
  uintptr_t start;
  uint64_t bytes;
  unsigned kinds;
} range;

static struct {
  pthread_rwlock_t lock;
  range *range; /* by address, disjoint */
  size_t n, capacity;
  atomic_bool any;
} all = {.lock = PTHREAD_RWLOCK_INITIALIZER};

/* The first that ends behind the address. */
static size_t place_of(uintptr_t address) {
  size_t low = 0, high = all.n;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (all.range[middle].start + all.range[middle].bytes > address)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

static bool is_memory(uintptr_t start, uint64_t bytes) {
  const uintptr_t page = start & -(uintptr_t)4096;
  return msync((void *)page, start + bytes - page, MS_ASYNC) == 0 || errno != ENOMEM;
}

static status insert(uintptr_t start, uint64_t bytes, unsigned kinds) {
  const size_t at = place_of(start);
  if (at < all.n && all.range[at].start < start + bytes)
    return fail(ST_ALREADY_REGISTERED, "ptr is %p, but %p to below %p is registered, expected memory that is not",
                (void *)start, (void *)all.range[at].start, (void *)(all.range[at].start + all.range[at].bytes));
  if (all.n == all.capacity) {
    const size_t capacity = all.capacity ? 2 * all.capacity : 16;
    range *grown = realloc(all.range, capacity * sizeof *grown);
    if (!grown) return fail(ST_NO_HOST_MEMORY, "no host memory for a registration");
    all.range = grown;
    all.capacity = capacity;
  }
  memmove(&all.range[at + 1], &all.range[at], (all.n - at) * sizeof *all.range);
  all.range[at] = (range){start, bytes, kinds};
  ++all.n;
  atomic_store_explicit(&all.any, true, memory_order_release);
  return ST_OK;
}

status registered_add(uintptr_t start, uint64_t bytes, unsigned kinds) {
  if (bytes == 0 || bytes > UINTPTR_MAX - start)
    return fail(ST_INVALID_VALUE, "size is %ju, expected 1 or more, up to the end of memory", (uintmax_t)bytes);
  if (!is_memory(start, bytes))
    return fail(ST_INVALID_VALUE, "ptr is %p and size %ju, where there is no memory", (void *)start, (uintmax_t)bytes);
  pthread_rwlock_wrlock(&all.lock);
  const status st = insert(start, bytes, kinds);
  pthread_rwlock_unlock(&all.lock);
  return st;
}

status registered_remove(uintptr_t start) {
  pthread_rwlock_wrlock(&all.lock);
  const size_t at = place_of(start);
  const bool found = at < all.n && all.range[at].start == start;
  if (found) {
    memmove(&all.range[at], &all.range[at + 1], (all.n - at - 1) * sizeof *all.range);
    if (--all.n == 0) atomic_store_explicit(&all.any, false, memory_order_release);
  }
  pthread_rwlock_unlock(&all.lock);
  return found ? ST_OK : fail(ST_NOT_REGISTERED, "ptr is %p, expected the start of registered memory", (void *)start);
}

bool registered_find(uintptr_t address, uintptr_t *start, uint64_t *bytes) {
  if (!atomic_load_explicit(&all.any, memory_order_acquire)) return false;
  pthread_rwlock_rdlock(&all.lock);
  const size_t at = place_of(address);
  const bool found = at < all.n && all.range[at].start <= address;
  if (found) {
    *start = all.range[at].start;
    *bytes = all.range[at].bytes;
  }
  pthread_rwlock_unlock(&all.lock);
  return found;
}

bool registered_holds(uintptr_t start, uint64_t bytes, unsigned kind) {
  if (!atomic_load_explicit(&all.any, memory_order_acquire)) return false;
  pthread_rwlock_rdlock(&all.lock);
  uintptr_t at = start;
  bool holds;
  do { /* neighbours count as one */
    const size_t i = place_of(at);
    holds = i < all.n && all.range[i].start <= at && all.range[i].kinds & kind;
    if (holds) at = all.range[i].start + all.range[i].bytes;
  } while (holds && at - start < bytes);
  pthread_rwlock_unlock(&all.lock);
  return holds;
}
