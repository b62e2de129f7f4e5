/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE // the affinity of threads
#include "harness.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_RANKS = 64, MOST_SIZES = 32, MOST_SAMPLES = 99, MOST_ITERATIONS = 20000 };

static const char *const names[N_OPERATIONS] = {"AllReduce", "AllGather", "ReduceScatter", "Broadcast", "AlltoAll"};

/* From this size on, operations are queued back to back and waited for once, else each is waited for. */
static const size_t LONG_BYTES = 1 << 20;

void harness_fail(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
  exit(1);
}

static const char *option(int argc, char **argv, const char *name, const char *otherwise) {
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], name)) return argv[i + 1];
  return otherwise;
}

static bool flag(int argc, char **argv, const char *name) {
  for (int i = 1; i < argc; i++)
    if (!strcmp(argv[i], name)) return true;
  return false;
}

/* ---- processes --------------------------------------------------------------------------------------------------- */

static void launch(int n_ranks, int argc, char **argv) {
  char folder[] = "/tmp/bench_comm_XXXXXX", rank[16], command[64];
  if (!mkdtemp(folder)) harness_fail("mkdtemp: %s", strerror(errno));
  pid_t child[MOST_RANKS];
  char **const arguments = calloc((size_t)argc + 5, sizeof *arguments);
  if (!arguments) harness_fail("out of memory");
  memcpy(arguments, argv, (size_t)argc * sizeof *arguments);
  arguments[argc] = "--rank", arguments[argc + 1] = rank, arguments[argc + 2] = "--folder";
  arguments[argc + 3] = folder;
  for (int r = 0; r < n_ranks; r++) {
    snprintf(rank, sizeof rank, "%d", r);
    child[r] = fork();
    if (child[r] < 0) harness_fail("fork: %s", strerror(errno));
    if (child[r] == 0) {
      execv("/proc/self/exe", arguments);
      harness_fail("exec: %s", strerror(errno));
    }
  }
  int result = 0;
  for (int left = n_ranks; left > 0; left--) {
    int how;
    const pid_t ended = wait(&how);
    for (int r = 0; r < n_ranks; r++)
      if (child[r] == ended) child[r] = 0;
    if (how == 0 || result) continue;
    result = WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
    for (int r = 0; r < n_ranks; r++)
      if (child[r]) kill(child[r], SIGTERM);
  }
  snprintf(command, sizeof command, "rm -rf %s", folder);
  if (system(command)) fprintf(stderr, "%s could not be removed\n", folder);
  exit(result);
}

place harness_launch(int argc, char **argv) {
  const place p = {.rank = atoi(option(argc, argv, "--rank", "-1")),
                   .n_ranks = atoi(option(argc, argv, "--ranks", "2")),
                   .folder = option(argc, argv, "--folder", NULL)};
  if (p.n_ranks < 1 || p.n_ranks > MOST_RANKS) harness_fail("--ranks: 1 to %d", MOST_RANKS);
  if (p.rank < 0) launch(p.n_ranks, argc, argv);
  return p;
}

void harness_pin(int rank, int argc, char **argv) {
  if (flag(argc, argv, "--no-pin")) return;
  cpu_set_t all, one;
  if (sched_getaffinity(0, sizeof all, &all)) return;
  int skip = rank % CPU_COUNT(&all);
  for (int c = 0; c < CPU_SETSIZE; c++)
    if (CPU_ISSET(c, &all) && skip-- == 0) {
      CPU_ZERO(&one);
      CPU_SET(c, &one);
      sched_setaffinity(0, sizeof one, &one);
      return;
    }
}

/* ---- measurement ------------------------------------------------------------------------------------------------- */

typedef struct {
  const library *l;
  place p;
  float *note_in, *note_out; /* buffers for a float per rank */
  int n_samples;
  double seconds;
} bench;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The largest of the ranks' values; all ranks leave at about the same time. */
static double largest(const bench *b, double own) {
  const float value = (float)own;
  float all[MOST_RANKS];
  b->l->write(b->note_in, &value, 1);
  b->l->start(ALL_GATHER, b->note_in, b->note_out, 1, 0);
  b->l->wait();
  b->l->read(all, b->note_out, (size_t)b->p.n_ranks);
  double most = 0;
  for (int r = 0; r < b->p.n_ranks; r++) most = fmax(most, all[r]);
  return most;
}

/* Seconds of an operation on average. */
static double timed(const bench *b, operation op, float *in, float *out, size_t n, int iterations, bool wait_each) {
  largest(b, 0);
  const double started = now();
  for (int i = 0; i < iterations; i++) {
    b->l->start(op, in, out, n, i % b->p.n_ranks); /* or a root would be far ahead of the others */
    if (wait_each) b->l->wait();
  }
  b->l->wait();
  return (now() - started) / iterations;
}

/* How many parts of n elements an operation reads, and writes. */
static int parts_in(operation op, int n_ranks) { return op == REDUCE_SCATTER || op == ALL_TO_ALL ? n_ranks : 1; }
static int parts_out(operation op, int n_ranks) { return op == ALL_GATHER || op == ALL_TO_ALL ? n_ranks : 1; }

/* What rank r has in part j before an operation. */
static float given(int r, int j) { return (float)(1 + r + 16 * j); }

static float expected(operation op, int n_ranks, int rank, int part) {
  float sum = 0;
  for (int r = 0; r < n_ranks; r++) sum += given(r, op == REDUCE_SCATTER ? rank : 0);
  switch (op) {
  case ALL_REDUCE:
  case REDUCE_SCATTER: return sum;
  case ALL_GATHER: return given(part, 0);
  case ALL_TO_ALL: return given(part, rank);
  default: return given(n_ranks - 1, 0);
  }
}

/* Runs the operation once and ends the program if the result is wrong. */
static void check(const bench *b, operation op, float *in, float *out, size_t n) {
  float *const part = malloc(n * sizeof *part);
  if (!part) harness_fail("out of memory");
  for (int j = 0; j < parts_in(op, b->p.n_ranks); j++) {
    for (size_t i = 0; i < n; i++) part[i] = given(b->p.rank, j);
    b->l->write((op == BROADCAST ? out : in) + (size_t)j * n, part, n);
  }
  b->l->start(op, in, out, n, b->p.n_ranks - 1);
  b->l->wait();
  for (int j = 0; j < parts_out(op, b->p.n_ranks); j++) {
    const float want = expected(op, b->p.n_ranks, b->p.rank, j);
    b->l->read(part, out + (size_t)j * n, n);
    for (size_t i = 0; i < n; i++)
      if (part[i] != want)
        harness_fail("%s: element %zu of part %d of rank %d is %g, expected %g", names[op], i, j, b->p.rank,
                     (double)part[i], (double)want);
  }
  free(part);
}

static int compare(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void measure(const bench *b, operation op, size_t bytes) {
  const bool in_parts = op != ALL_REDUCE && op != BROADCAST;
  const size_t whole = bytes / sizeof(float), part = whole / (size_t)b->p.n_ranks;
  const size_t n = !in_parts ? whole : part ? part : 1; /* at least an element for each rank */
  const size_t room = n * sizeof(float) * (in_parts ? (size_t)b->p.n_ranks : 1);
  float *const in = b->l->allocate(room), *const out = b->l->allocate(room);
  check(b, op, in, out, n);
  const bool wait_each = bytes < LONG_BYTES;
  timed(b, op, in, out, n, 1, wait_each);
  const double about = largest(b, timed(b, op, in, out, n, 2, wait_each));
  const int iterations = (int)fmin(fmax(b->seconds / fmax(about, 1e-9), 1), MOST_ITERATIONS);
  double sample[MOST_SAMPLES];
  for (int s = 0; s < b->n_samples; s++) sample[s] = largest(b, timed(b, op, in, out, n, iterations, wait_each));
  qsort(sample, (size_t)b->n_samples, sizeof *sample, compare);
  if (b->p.rank == 0) {
    printf("{\"operation\": \"%s\", \"bytes\": %zu, \"ranks\": %d, \"us\": %.3f, \"low\": %.3f, \"high\": %.3f}\n",
           names[op], bytes, b->p.n_ranks, 1e6 * sample[b->n_samples / 2], 1e6 * sample[0],
           1e6 * sample[b->n_samples - 1]);
    fflush(stdout);
  }
  b->l->release(in);
  b->l->release(out);
}

static bool in_list(const char *list, const char *name) {
  const size_t length = strlen(name);
  for (const char *at = list; at; at = strchr(at, ',')) {
    if (*at == ',') at++;
    if (!strncmp(at, name, length) && (at[length] == ',' || at[length] == 0)) return true;
  }
  return false;
}

void harness_measure(const library *l, place p, int argc, char **argv) {
  bench b = {.l = l,
             .p = p,
             .note_in = l->allocate(sizeof(float)),
             .note_out = l->allocate((size_t)p.n_ranks * sizeof(float)),
             .n_samples = atoi(option(argc, argv, "--samples", "5")),
             .seconds = atof(option(argc, argv, "--seconds", "0.05"))};
  if (b.n_samples < 1 || b.n_samples > MOST_SAMPLES) harness_fail("--samples: 1 to %d", MOST_SAMPLES);
  const char *const operations = option(argc, argv, "--operations", NULL);
  const char *const sizes = option(argc, argv, "--bytes", "8,1024,65536,1048576,16777216,268435456");
  for (int op = 0; op < N_OPERATIONS; op++) {
    if (operations && !in_list(operations, names[op])) continue;
    for (const char *at = sizes; at; at = strchr(at, ',')) {
      if (*at == ',') at++;
      const size_t bytes = strtoull(at, NULL, 10);
      if (bytes < sizeof(float)) harness_fail("--bytes: %s", at);
      measure(&b, (operation)op, bytes);
    }
  }
  l->release(b.note_in);
  l->release(b.note_out);
}
