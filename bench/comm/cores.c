/* SPDX-License-Identifier: Apache-2.0 */
/* Target bench_comm_cores: prints the nanoseconds of a round trip of a cache line between the first two cores that this
 * process may use, the median of 9; "-" with one core. run.py prints it beside the collectives, as an indicator of the
 * state of a virtual machine. */
#define _GNU_SOURCE // the affinity of threads
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { TRIPS = 20000, SAMPLES = 9 };

static _Alignas(128) atomic_int there;
static _Alignas(128) atomic_int back;
static int core[2];

static void pin(int which) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core[which], &one);
  sched_setaffinity(0, sizeof one, &one);
}

static void *answer(void *unused) {
  (void)unused;
  pin(1);
  for (int i = 1; i <= TRIPS; i++) {
    while (atomic_load(&there) != i) continue;
    atomic_store(&back, i);
  }
  return NULL;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static double sample(void) {
  pthread_t thread;
  atomic_store(&there, 0);
  atomic_store(&back, 0);
  if (pthread_create(&thread, NULL, answer, NULL)) exit(1);
  double started = 0;
  for (int i = 1; i <= TRIPS; i++) {
    atomic_store(&there, i);
    while (atomic_load(&back) != i) continue;
    if (i == 1) started = now(); /* the thread has begun */
  }
  const double ns = (now() - started) / (TRIPS - 1);
  pthread_join(thread, NULL);
  return ns;
}

static int compare(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(void) {
  cpu_set_t all;
  int n = 0;
  if (sched_getaffinity(0, sizeof all, &all)) return 1;
  for (int c = 0; c < CPU_SETSIZE && n < 2; c++)
    if (CPU_ISSET(c, &all)) core[n++] = c;
  if (n < 2) {
    puts("-");
    return 0;
  }
  pin(0);
  double ns[SAMPLES];
  for (int s = 0; s < SAMPLES; s++) ns[s] = sample();
  qsort(ns, SAMPLES, sizeof *ns, compare);
  printf("%.0f\n", ns[SAMPLES / 2]);
  return 0;
}
