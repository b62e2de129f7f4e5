/* SPDX-License-Identifier: Apache-2.0 */
/* Common parts of the stress programs: random numbers from a seed, and checks that report the position in the sequence
 * when they fail. */
#ifndef CANNON_TESTS_STRESS_STRESS_H
#define CANNON_TESTS_STRESS_STRESS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "acl/acl.h"

static uint64_t seed;
static long n_steps;

/* Current operation of the calling thread, for messages. */
static _Thread_local const char *doing = "setting up";
static _Thread_local int thread_number = -1;
static _Thread_local long step;

static inline _Noreturn void give_up(const char *file, int line, const char *what, aclError got) {
  const char *message = aclGetRecentErrMsg();
  fprintf(stderr, "%s:%d: %s\n  gave %d; message: %s\n  seed %ju, thread %d, step %ld (%s)\n", file, line, what, got,
          message ? message : "(none)", (uintmax_t)seed, thread_number, step, doing);
  _Exit(1);
}

#define OK(call)                                                                                                       \
  do {                                                                                                                 \
    const aclError got_ = (call);                                                                                      \
    if (got_ != ACL_SUCCESS) give_up(__FILE__, __LINE__, #call, got_);                                                 \
  } while (0)
#define FAILS(call)                                                                                                    \
  do {                                                                                                                 \
    const aclError got_ = (call);                                                                                      \
    if (got_ == ACL_SUCCESS || !aclGetRecentErrMsg()) give_up(__FILE__, __LINE__, #call, got_);                        \
  } while (0)
#define GIVES(code, call)                                                                                              \
  do {                                                                                                                 \
    const aclError got_ = (call);                                                                                      \
    if (got_ != (code) || !aclGetRecentErrMsg()) give_up(__FILE__, __LINE__, #call ", expected " #code, got_);         \
  } while (0)
#define HOLDS(condition)                                                                                               \
  do {                                                                                                                 \
    if (!(condition)) give_up(__FILE__, __LINE__, #condition, 0);                                                      \
  } while (0)

/* A random number from 0 to n - 1 (splitmix64). */
static inline uint32_t random_below(uint64_t *state, uint32_t n) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return (uint32_t)((z ^ z >> 31) >> 32) % n;
}

/* Parses the arguments SEED|random STEPS. STRESS_STEPS in the environment overrides the number of steps. */
static inline void read_arguments(int argc, char **argv) {
  const char *other = getenv("STRESS_STEPS");
  if (argc != 3) {
    fprintf(stderr, "usage: %s SEED|random STEPS\n", argv[0]);
    exit(2);
  }
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  seed = strcmp(argv[1], "random") ? strtoull(argv[1], NULL, 10)
                                   : (uint64_t)now.tv_sec * 1000000007u + (uint64_t)now.tv_nsec;
  n_steps = atol(other ? other : argv[2]);
  printf("seed %ju, %ld steps\n", (uintmax_t)seed, n_steps);
  fflush(stdout);
}

#endif
