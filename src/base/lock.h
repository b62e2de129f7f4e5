/* SPDX-License-Identifier: Apache-2.0 */
/* Locks with a rank: a mutex and a lock for readers and writers, on which threads sleep, and a spin lock for sections
 * of some ten nanoseconds. All of the library uses them; any thread may call any function here. locks.def has the
 * ranks; it is the one place that says in which order locks are taken.
 *
 * * Builds with CANNON_INVARIANTS keep a list of the locks that the calling thread holds, and end the program when a
 * lock is taken out of order; the message names both locks. Other builds store no rank and check nothing. */
#ifndef CANNON_BASE_LOCK_H
#define CANNON_BASE_LOCK_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/sync.h"

typedef enum {
  LOCK_UNRANKED, /* never passed to a lock that is waited for */
#define LOCK(name, guards) LOCK_##name,
#define LAST_LOCKS         LOCK_LAST_ONES,
#include "base/locks.def"
#undef LOCK
} lock_rank;

#ifdef CANNON_INVARIANTS
#  define LOCK_RANK_FIELD            lock_rank rank;
#  define LOCK_RANK_IS(name)         .rank = LOCK_##name
#  define LOCK_RANK_OF(lock)         (lock)->rank
#  define LOCK_SET_RANK(lock, value) ((lock)->rank = (value))
/* Notes that the calling thread is about to wait for the lock, and that it has released it. */
INTERNAL void lock_note_taken(const void *lock, lock_rank rank);
INTERNAL void lock_note_released(const void *lock);
/* Whether the calling thread holds the lock; for locks that it took by waiting, not by a try. For assertions. */
INTERNAL bool lock_is_held(const void *lock);
/* Ends the program when the calling thread holds a lock other than `but` (NULL: any lock). Called before a thread
 * sleeps and before it calls the user's code. */
INTERNAL void lock_expect_none(const void *but);
#else
#  define LOCK_RANK_FIELD
#  define LOCK_RANK_IS(name)
#  define LOCK_RANK_OF(lock)         LOCK_UNRANKED
#  define LOCK_SET_RANK(lock, value) ((void)(value))
static inline void lock_note_taken(const void *lock, lock_rank rank) { (void)lock, (void)rank; }
static inline void lock_note_released(const void *lock) { (void)lock; }
static inline bool lock_is_held(const void *lock) { return lock; }
static inline void lock_expect_none(const void *but) { (void)but; }
#endif

/* ---- mutexes ---- */

typedef struct {
  pthread_mutex_t mutex;
  LOCK_RANK_FIELD
} mutex;

#define MUTEX_INITIALIZER(name)                                                                                        \
  { .mutex = PTHREAD_MUTEX_INITIALIZER, LOCK_RANK_IS(name) }

static inline void mutex_init(mutex *m, lock_rank rank) {
  pthread_mutex_init(&m->mutex, NULL);
  LOCK_SET_RANK(m, rank);
}

static inline void mutex_destroy(mutex *m) { pthread_mutex_destroy(&m->mutex); }

static inline void mutex_lock(mutex *m) {
  lock_note_taken(m, LOCK_RANK_OF(m));
  pthread_mutex_lock(&m->mutex);
}

static inline void mutex_unlock(mutex *m) {
  lock_note_released(m);
  pthread_mutex_unlock(&m->mutex);
}

/* Waits for the condition, at most until `end` (NULL: without limit). The caller holds the mutex and no other lock, and
 * holds it again afterwards. Returns 0, or ETIMEDOUT. */
static inline int mutex_wait(mutex *m, pthread_cond_t *condition, const struct timespec *end) {
  lock_expect_none(m);
  return end ? pthread_cond_timedwait(condition, &m->mutex, end) : pthread_cond_wait(condition, &m->mutex);
}

/* Makes the mutex free in a forked child: a thread of the parent that held it does not exist there. */
static inline void mutex_renew(mutex *m) {
  lock_note_released(m);
  pthread_mutex_init(&m->mutex, NULL);
}

/* ---- locks for many readers or one writer ---- */

typedef struct {
  pthread_rwlock_t lock;
  LOCK_RANK_FIELD
} rwlock;

#define RWLOCK_INITIALIZER(name)                                                                                       \
  { .lock = PTHREAD_RWLOCK_INITIALIZER, LOCK_RANK_IS(name) }

static inline void rwlock_read(rwlock *l) {
  lock_note_taken(l, LOCK_RANK_OF(l));
  pthread_rwlock_rdlock(&l->lock);
}

static inline void rwlock_write(rwlock *l) {
  lock_note_taken(l, LOCK_RANK_OF(l));
  pthread_rwlock_wrlock(&l->lock);
}

static inline void rwlock_unlock(rwlock *l) {
  lock_note_released(l);
  pthread_rwlock_unlock(&l->lock);
}

/* ---- spin locks ---- */

/* Held for a few stores only, never over a call that can block. With more threads than cores the holder may lose its
 * core, so a waiter yields its own after a while. */
typedef struct {
  _Atomic uint32_t held;
  LOCK_RANK_FIELD
} spinlock;

#define SPINLOCK_INITIALIZER(name)                                                                                     \
  { .held = 0, LOCK_RANK_IS(name) }

static inline void spin_init(spinlock *lock, lock_rank rank) {
  atomic_store_explicit(&lock->held, 0, memory_order_relaxed);
  LOCK_SET_RANK(lock, rank);
}

/* Takes the lock if it is free. Its rank is not checked, since a thread that does not wait cannot deadlock. */
static inline bool spin_trylock(spinlock *lock) {
  return !atomic_load_explicit(&lock->held, memory_order_relaxed) &&
         !atomic_exchange_explicit(&lock->held, 1, memory_order_acquire);
}

/* Whether some thread held the lock at the moment of the call. */
static inline bool spin_is_held(const spinlock *lock, memory_order order) {
  return atomic_load_explicit(&lock->held, order);
}

static inline void spin_lock(spinlock *lock) {
  lock_note_taken(lock, LOCK_RANK_OF(lock));
  for (unsigned tries = 0; !spin_trylock(lock); ++tries)
    if (tries & 63)
      cpu_relax();
    else
      sched_yield();
}

static inline void spin_unlock(spinlock *lock) {
  lock_note_released(lock);
  atomic_store_explicit(&lock->held, 0, memory_order_release);
}

/* As spin_unlock, and a full barrier: what the caller reads next is not older than what it wrote before. */
static inline void spin_unlock_fence(spinlock *lock) {
  lock_note_released(lock);
#if defined __x86_64__
  atomic_exchange_explicit(&lock->held, 0, memory_order_seq_cst); /* is a barrier, and costs less than one */
#else
  atomic_store_explicit(&lock->held, 0, memory_order_release);
  atomic_thread_fence(memory_order_seq_cst);
#endif
}

#endif
