/* SPDX-License-Identifier: Apache-2.0 */
/* A group of threads that works through rounds of numbered tasks. The planner (plan.c, rounds.c) starts one for each
 * call of cannon_plan. A round ends with the successful task of the lowest number: all tasks before it are finished,
 * whatever task succeeded first in time, so the outcome of a round does not depend on the number of threads. All
 * functions are called by the thread that started the crew. */
#ifndef CANNON_PLAN_CREW_H
#define CANNON_PLAN_CREW_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { CREW_MAX = 256 };

/* Executes a task with the data of worker number `worker`, and returns whether it succeeded. Called by all threads
 * of the crew at once. */
typedef bool (*crew_task)(void *argument, uint32_t worker, uint32_t task);

typedef struct crew crew;

typedef struct {
  crew *of;
  uint32_t number;
  pthread_t thread;
} crew_member;

struct crew {
  uint32_t n; /* including the calling thread, which has the number 0 */
  crew_member members[CREW_MAX];
  pthread_mutex_t lock; /* guards round, n_working and dismissed; the fields of a round are written before it begins */
  pthread_cond_t begin, end;
  uint64_t round;
  uint32_t n_working;
  bool dismissed;
  crew_task task;
  void *argument;
  uint32_t n_tasks;
  atomic_uint next, first_won;
};

/* Starts n - 1 threads, n being at most CREW_MAX. Returns false where the host refuses a thread; then those already
 * started have been ended, and crew_dismiss must not be called. */
bool crew_start(crew *c, uint32_t n);

/* Ends the threads and waits for them. */
void crew_dismiss(crew *c);

/* Executes the tasks 0 to n_tasks - 1 until one succeeds. Returns the lowest number of a task that succeeded, or
 * n_tasks if none did. */
uint32_t crew_round(crew *c, uint32_t n_tasks, crew_task task, void *argument);

#endif
