/* SPDX-License-Identifier: Apache-2.0 */
#include "op/unlaunched.h"

#include <stddef.h>

#include "base/invariant.h"
#include "base/store/cache.h"
#include "trace/timeline.h"

enum { LEAST_NEW = 256 }; /* some 0.5 MB of executors */

_Static_assert(offsetof(executor, watched) >= CACHE_LINK_BYTES && offsetof(tensor, ends) >= CACHE_LINK_BYTES,
               "read in objects that are free");

/* What is noted of a tensor: its address, which is a multiple of 64 and below 2^48, and the low bits of the number of
 * those that ended there before. So a new tensor in the same place is told from it. */
enum { ENDS_BITS = 22 };
static const uint64_t ENDS_MASK = (UINT64_C(1) << ENDS_BITS) - 1;

static uint64_t watch_of(const tensor *t) {
  return (uint64_t)(uintptr_t)t >> 6 << ENDS_BITS | (atomic_load_explicit(&t->ends, memory_order_acquire) & ENDS_MASK);
}

static bool is_gone(uint64_t watched) {
  return watch_of((const tensor *)(uintptr_t)(watched >> ENDS_BITS << 6)) != watched;
}

void unlaunched_watch(executor *e, const op_arg *a) {
  if (!CACHE_KEEPS_MEMORY || !e->n_operands) return;
  const tensor *first = executor_tensor(e, &e->operands[0], a);
  const tensor *second = e->n_operands > 1 ? executor_tensor(e, &e->operands[1], a) : NULL;
  if (!first) first = second;
  if (!first) return;
  const uint64_t watched = watch_of(first);
  INVARIANT(!is_gone(watched));
  atomic_store_explicit(&e->watched_second, second ? watch_of(second) : watched, memory_order_relaxed);
  atomic_store_explicit(&e->watched, watched, memory_order_release);
}

static size_t n_freed; /* in the latest search; used with is_searching set */

/* An executor that is free, is being prepared, was launched or has another owner watches nothing. One that watches a
 * tensor which is gone is no thread's any more, unless its program launches it against the rules above. Which is why it
 * is freed by the second search only. */
static void unlaunched_look_at(void *object) {
  executor *e = object;
  uint64_t watched = atomic_load_explicit(&e->watched, memory_order_acquire);
  if (!watched) return;
  if (!is_gone(watched) && !is_gone(atomic_load_explicit(&e->watched_second, memory_order_relaxed))) return;
  if (!atomic_exchange(&e->outlived, true)) return;
  /* Fails if it was launched before the tensor was destroyed. */
  if (!atomic_compare_exchange_strong(&e->watched, &watched, 0)) return;
  executor_unref(e);
  ++n_freed;
}

/* The cost of a search, which grows with the number of executors, is shared by those that were prepared since. */
static void search_unlaunched(void) {
  static _Atomic bool is_searching;
  static size_t n_before;
  if (timeline_wants(TIMELINE_TELLS_HANDLES) || atomic_exchange(&is_searching, true)) return;
  const size_t n = cache_n_made(CACHE_EXECUTOR), n_new = n - n_before + n_freed;
  if (n_new >= LEAST_NEW && n_new >= n / 4) {
    n_before = n;
    n_freed = 0;
    cache_each(CACHE_EXECUTOR, unlaunched_look_at);
  }
  atomic_store(&is_searching, false);
}

__attribute__((constructor)) static void begin_to_watch(void) { cache_on_empty(CACHE_EXECUTOR, search_unlaunched); }
