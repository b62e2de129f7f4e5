/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/heap/thread_cache.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/single_threaded.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/sync.h"

_Thread_local thread_cache *thread_caches[THREAD_CACHE_HEAPS];

static pthread_key_t at_end; /* its destructor ends a thread's caches; not NULL in threads that have some */
static bool usable;          /* whether the kernel has membarrier */

static void thread_cache_end_thread(void *unused) {
  (void)unused;
  for (int i = 0; i < THREAD_CACHE_HEAPS; ++i) {
    thread_cache *t = thread_caches[i];
    if (!t) continue;
    INVARIANT(!t->busy);
    thread_caches[i] = NULL;
    t->end(t);
    free(t);
  }
}

static long membarrier(int command) { return syscall(SYS_membarrier, command, 0, 0); }

/* The kernel wants a process registered before it may have barriers. That is at once while there is only one thread;
 * else the kernel waits some 12 ms (Linux 6.18) until all processors have passed through it. */
__attribute__((constructor)) static void register_early(void) {
  if (__libc_single_threaded) (void)membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
}

static void thread_cache_start(void) {
  const long known = membarrier(MEMBARRIER_CMD_QUERY);
  usable = pthread_key_create(&at_end, thread_cache_end_thread) == 0 && known > 0 &&
           known & MEMBARRIER_CMD_PRIVATE_EXPEDITED;
}

/* A barrier in all threads. A process that has not been registered yet is when it first needs one: most never do, since
 * a single thread has a cache. */
static void barrier_everywhere(void) {
  if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0) return;
  const bool done =
      membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0 && membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0;
  INVARIANT(done);
  (void)done;
}

thread_cache *thread_cache_make(unsigned heap_index, const thread_cache *model) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, thread_cache_start);
  if (!usable || !heap_index) return NULL;
  thread_cache *t = aligned_alloc(_Alignof(thread_cache), sizeof *t);
  if (!t) return NULL;
  INVARIANT(heap_index < THREAD_CACHE_HEAPS && !thread_caches[heap_index]);
  *t = *model;
  for (unsigned i = 0; i <= THREAD_CACHE_UNITS; ++i) t->list[i] = thread_cache_no_list(i, t->unit_shift);
  if (pthread_setspecific(at_end, t)) {
    free(t);
    return NULL;
  }
  return thread_caches[heap_index] = t;
}

/* Sets or clears the state CLOSED, under the heap's lock. */
static void set_closed(thread_cache *t, uint8_t closed, memory_order order) {
  const uint8_t others = atomic_load_explicit(&t->state, memory_order_relaxed) & (uint8_t)~THREAD_CACHE_CLOSED;
  atomic_store_explicit(&t->state, others | closed, order);
}

void thread_cache_close(thread_cache *list, const thread_cache *own) {
  if (!list || (list == own && !list->next))
    return; /* the only cache is that of the calling thread, which is not using it */
  for (thread_cache *t = list; t; t = t->next) set_closed(t, THREAD_CACHE_CLOSED, memory_order_relaxed);
  barrier_everywhere();
  INVARIANT(!own || !own->busy);
  for (thread_cache *t = list; t; t = t->next)
    while (atomic_load_explicit(&t->busy, memory_order_acquire)) sched_yield();
}

void thread_cache_open(thread_cache *list) {
  for (thread_cache *t = list; t; t = t->next) set_closed(t, 0, memory_order_release);
}
