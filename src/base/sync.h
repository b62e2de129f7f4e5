/* The primitives below mutexes: clocks, a spin lock for sections of some ten nanoseconds, and a futex. Any thread. */
#ifndef CANNON_BASE_SYNC_H
#define CANNON_BASE_SYNC_H

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static inline uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The processor time of the calling thread; a system call. */
static inline uint64_t thread_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline void cpu_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/* Held for a few stores only, never over a call that can block. With more threads than cores the holder may lose its
 * core, so a waiter gives up its own after a while. */
typedef _Atomic uint32_t spinlock;

static inline bool spin_trylock(spinlock *lock) {
  return !atomic_load_explicit(lock, memory_order_relaxed) && !atomic_exchange_explicit(lock, 1, memory_order_acquire);
}

static inline void spin_lock(spinlock *lock) {
  for (unsigned tries = 0; !spin_trylock(lock); ++tries)
    if (tries & 63)
      cpu_relax();
    else
      sched_yield();
}

static inline void spin_unlock(spinlock *lock) { atomic_store_explicit(lock, 0, memory_order_release); }

/* As spin_unlock, and a full barrier: what the caller reads next is not older than what it wrote before. */
static inline void spin_unlock_fence(spinlock *lock) { atomic_exchange_explicit(lock, 0, memory_order_seq_cst); }

/* Sleeps while *word is seen, timeout_ns at most (0: for ever). May return early for no reason. */
static inline void futex_wait(_Atomic uint32_t *word, uint32_t seen, uint64_t timeout_ns) {
  const struct timespec t = {.tv_sec = (time_t)(timeout_ns / 1000000000u), .tv_nsec = (long)(timeout_ns % 1000000000u)};
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, timeout_ns ? &t : NULL, NULL, 0);
}

static inline void futex_wake(_Atomic uint32_t *word, int n_threads) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n_threads, NULL, NULL, 0);
}

#endif
