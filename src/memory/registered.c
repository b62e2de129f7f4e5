/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/registered.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "base/invariant.h"
#include "base/lock.h"
#include "base/store/host_page.h"
#include "memory/intervals.h"

typedef struct {
  interval at;
  unsigned kinds;
} range;

static struct {
  rwlock lock;
  intervals ranges; /* items are of type range */
  atomic_bool any;
} all = {.lock = RWLOCK_INITIALIZER(REGISTERED), .ranges = {.item_bytes = sizeof(range)}};

static bool is_memory(uintptr_t start, uint64_t bytes) {
  const uintptr_t page = start & -(uintptr_t)PAGE_BYTES;
  return msync((void *)page, start + bytes - page, MS_ASYNC) == 0 || errno != ENOMEM;
}

static status registered_insert(uintptr_t start, uint64_t bytes, unsigned kinds) {
  const range *there = intervals_overlap(&all.ranges, start, bytes);
  if (there)
    return fail(ST_ALREADY_REGISTERED, "ptr is %p, but %p to below %p is registered, expected memory that is not",
                (void *)start, (void *)there->at.start, (void *)(there->at.start + there->at.bytes));
  if (!intervals_insert(&all.ranges, &(range){{start, bytes}, kinds}))
    return fail(ST_NO_HOST_MEMORY, "no host memory for a registration");
  atomic_store_explicit(&all.any, true, memory_order_release);
  return ST_OK;
}

status registered_add(uintptr_t start, uint64_t bytes, unsigned kinds) {
  if (bytes == 0 || bytes > UINTPTR_MAX - start)
    return fail(ST_INVALID_VALUE, "size is %ju, expected 1 or more, up to the end of memory", (uintmax_t)bytes);
  if (!is_memory(start, bytes))
    return fail(ST_INVALID_VALUE, "ptr is %p and size %ju, where there is no memory", (void *)start, (uintmax_t)bytes);
  rwlock_write(&all.lock);
  const status st = registered_insert(start, bytes, kinds);
  rwlock_unlock(&all.lock);
  return st;
}

status registered_remove(uintptr_t start) {
  rwlock_write(&all.lock);
  range *r = intervals_find(&all.ranges, start);
  const bool found = r && r->at.start == start;
  if (found) {
    intervals_remove(&all.ranges, r);
    INVARIANT(atomic_load_explicit(&all.any, memory_order_relaxed));
    if (!all.ranges.n) atomic_store_explicit(&all.any, false, memory_order_release);
  }
  rwlock_unlock(&all.lock);
  return found ? ST_OK : fail(ST_NOT_REGISTERED, "ptr is %p, expected the start of registered memory", (void *)start);
}

bool registered_find(uintptr_t address, uintptr_t *start, uint64_t *bytes) {
  if (!atomic_load_explicit(&all.any, memory_order_acquire)) return false;
  rwlock_read(&all.lock);
  const range *r = intervals_find(&all.ranges, address);
  if (r) {
    *start = r->at.start;
    *bytes = r->at.bytes;
  }
  rwlock_unlock(&all.lock);
  return r;
}

bool registered_holds(uintptr_t start, uint64_t bytes, unsigned kind) {
  if (!atomic_load_explicit(&all.any, memory_order_acquire)) return false;
  rwlock_read(&all.lock);
  uintptr_t at = start;
  bool holds;
  do { /* the range may span several registered ranges that touch */
    const range *r = intervals_find(&all.ranges, at);
    holds = r && r->kinds & kind;
    if (holds) at = r->at.start + r->at.bytes;
  } while (holds && at - start < bytes);
  rwlock_unlock(&all.lock);
  return holds;
}
