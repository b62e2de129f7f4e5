/* SPDX-License-Identifier: Apache-2.0 */
/* Measures the time of an allocation and its free by size: in one thread, in 8 threads, and with the free in another
 * thread. The heap through CANN's public API and mimalloc alternate. Prints medians in ns per pair as one line of JSON.
 *
 * With several threads the figure is core time: elapsed time times the usable cores, divided by the number of pairs. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/sync.h"
#include "peers.h"

enum { ROUNDS = 15, MAX_THREADS = 8, RING = 1024 };
/* time of a turn: long against the clock's resolution, short against other programs */
static const uint64_t BATCH_NS = 2000000;

static const size_t sizes[] = {64,      512,     4 << 10,  16 << 10,  64 << 10, 256 << 10,
                               1 << 20, 2 << 20, 16 << 20, 128 << 20, 1 << 30};
static const size_t thread_sizes[] = {64, 4 << 10, 64 << 10, 2 << 20};
enum { N_SIZES = sizeof sizes / sizeof *sizes, N_THREAD_SIZES = sizeof thread_sizes / sizeof *thread_sizes };

typedef struct {
  const heap_calls *calls;
  size_t bytes;
  long n_pairs;
  pthread_barrier_t *together;
  uint64_t start_ns, end_ns;
  struct ring *ring; /* set where one thread of two allocates and the other frees */
  bool frees;
  bool refused;
} work;

typedef struct ring {
  _Alignas(64) _Atomic unsigned long put;
  _Alignas(64) _Atomic unsigned long got;
  void *block[RING];
} ring;

static void run_pairs(work *w) {
  for (long i = 0; i < w->n_pairs; ++i) {
    void *p = w->calls->alloc(w->bytes);
    if (!p) w->refused = true;
    w->calls->free(p);
  }
}

static void run_producer(work *w) {
  for (long i = 0; i < w->n_pairs; ++i) {
    while (atomic_load_explicit(&w->ring->put, memory_order_relaxed) -
               atomic_load_explicit(&w->ring->got, memory_order_acquire) ==
           RING)
      sched_yield();
    void *p = w->calls->alloc(w->bytes);
    if (!p) w->refused = true;
    const unsigned long at = atomic_load_explicit(&w->ring->put, memory_order_relaxed);
    w->ring->block[at % RING] = p;
    atomic_store_explicit(&w->ring->put, at + 1, memory_order_release);
  }
}

static void run_consumer(work *w) {
  for (long i = 0; i < w->n_pairs; ++i) {
    const unsigned long at = atomic_load_explicit(&w->ring->got, memory_order_relaxed);
    while (atomic_load_explicit(&w->ring->put, memory_order_acquire) == at) sched_yield();
    w->calls->free(w->ring->block[at % RING]);
    atomic_store_explicit(&w->ring->got, at + 1, memory_order_release);
  }
}

static void *run(void *argument) {
  work *w = argument;
  if (w->together) {
    if (w->calls->enter) w->calls->enter();
    pthread_barrier_wait(w->together);
  }
  w->start_ns = now_ns();
  if (!w->ring)
    run_pairs(w);
  else if (w->frees)
    run_consumer(w);
  else
    run_producer(w);
  w->end_ns = now_ns();
  return NULL;
}

static int cores(void) {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

/* Runs n_threads at once. Returns ns of core time per pair, or a negative number if an allocation was refused. */
static double run_threads(const heap_calls *calls, size_t bytes, long n_pairs, int n_threads, bool crossing) {
  static ring rings[MAX_THREADS / 2];
  pthread_t thread[MAX_THREADS];
  work w[MAX_THREADS];
  pthread_barrier_t together;
  pthread_barrier_init(&together, NULL, (unsigned)n_threads);
  for (int i = 0; i < n_threads; ++i) {
    w[i] = (work){.calls = calls, .bytes = bytes, .n_pairs = n_pairs, .together = &together};
    if (crossing) {
      w[i].ring = &rings[i / 2];
      w[i].frees = i % 2;
    }
    if (pthread_create(&thread[i], NULL, run, &w[i])) abort();
  }
  uint64_t start = UINT64_MAX, end = 0;
  bool refused = false;
  for (int i = 0; i < n_threads; ++i) {
    pthread_join(thread[i], NULL);
    if (w[i].start_ns < start) start = w[i].start_ns;
    if (w[i].end_ns > end) end = w[i].end_ns;
    refused |= w[i].refused;
  }
  pthread_barrier_destroy(&together);
  if (refused) return -1;
  const int at_once = cores() < n_threads ? cores() : n_threads;
  return (double)(end - start) * at_once / ((double)n_pairs * n_threads / (crossing ? 2 : 1));
}

static double run_one(const heap_calls *calls, size_t bytes, long n_pairs) {
  work w = {.calls = calls, .bytes = bytes, .n_pairs = n_pairs};
  run(&w);
  return w.refused ? -1 : (double)(w.end_ns - w.start_ns) / (double)n_pairs;
}

static double turn(const heap_calls *calls, size_t bytes, long n_pairs, int n_threads, bool crossing) {
  return n_threads == 1 ? run_one(calls, bytes, n_pairs) : run_threads(calls, bytes, n_pairs, n_threads, crossing);
}

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

enum { N_PEERS = 2 };

/* Measures both allocators, alternating. */
static void measure(const heap_calls *const calls[N_PEERS], size_t bytes, int n_threads, bool crossing,
                    double ns[N_PEERS][ROUNDS]) {
  long n[N_PEERS] = {0};
  for (int k = 0; k < N_PEERS && calls[k]; ++k) {
    const double guess = turn(calls[k], bytes, 100, n_threads, crossing); /* estimates the time of a pair */
    n[k] = guess > 0 ? (long)((double)BATCH_NS / guess) + 10 : 10;
  }
  for (int i = 0; i < ROUNDS; ++i)
    for (int k = 0; k < N_PEERS && calls[k]; ++k) ns[k][i] = turn(calls[k], bytes, n[k], n_threads, crossing);
}

static void print_row(size_t bytes, int n_threads, bool crossing, bool is_first) {
  static const char *separator = "";
  const heap_calls *const calls[N_PEERS] = {heap_calls_find("aclrt"), heap_calls_find("mimalloc")};
  double ns[N_PEERS][ROUNDS];
  /* the first measurement of its kind takes longer, so it is discarded */
  if (is_first) measure(calls, bytes, n_threads, crossing, ns);
  measure(calls, bytes, n_threads, crossing, ns);
  printf("%s{\"bytes\": %zu, \"threads\": %d, \"crossing\": %s", separator, bytes, n_threads,
         crossing ? "true" : "false");
  for (int k = 0; k < N_PEERS && calls[k]; ++k) {
    qsort(ns[k], ROUNDS, sizeof *ns[k], by_value);
    if (ns[k][0] >= 0) printf(", \"%s\": %.1f", calls[k]->name, ns[k][ROUNDS / 2]);
  }
  printf("}");
  separator = ", ";
}

int main(void) {
  if (!heap_calls_find("aclrt")) {
    fprintf(stderr, "no device\n");
    return 1;
  }
  if (!heap_calls_find("mimalloc")) fprintf(stderr, "no libmimalloc (Debian: libmimalloc2.0): no peer\n");
  printf("[");
  for (int i = 0; i < N_SIZES; ++i) print_row(sizes[i], 1, false, i == 0);
  for (int i = 0; i < N_THREAD_SIZES; ++i) print_row(thread_sizes[i], MAX_THREADS, false, i == 0);
  for (int i = 0; i < N_THREAD_SIZES; ++i) print_row(thread_sizes[i], MAX_THREADS, true, i == 0);
  printf("]\n");
  return 0;
}
