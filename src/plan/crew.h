/* Threads that work through a round of numbered tasks. A round ends with the first task that wins, by number and not by
 * time: those before it are all finished, so its outcome does not depend on the number of threads. */
#ifndef CANNON_PLAN_CREW_H
#define CANNON_PLAN_CREW_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { CREW_MOST = 256 };

/* Does a task, in a worker's room; whether it won. */
typedef bool (*crew_task)(void *argument, uint32_t worker, uint32_t task);

typedef struct crew crew;

typedef struct {
  crew *of;
  uint32_t number;
  pthread_t thread;
} crew_member;

struct crew {
  uint32_t n; /* with the calling thread, which is number 0 */
  crew_member members[CREW_MOST];
  pthread_mutex_t lock; /* guards the rest but for the atomic ones */
  pthread_cond_t begin, end;
  uint64_t round;
  uint32_t n_working;
  bool dismissed;
  crew_task task;
  void *argument;
  uint32_t n_tasks;
  atomic_uint next, first_won;
};

/* False where the host refuses a thread; then none is left. */
bool crew_start(crew *c, uint32_t n);
void crew_dismiss(crew *c);

/* The number of the first task that won, or n_tasks. */
uint32_t crew_round(crew *c, uint32_t n_tasks, crew_task task, void *argument);

#endif
