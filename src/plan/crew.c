/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/crew.h"

static void work(crew *c, uint32_t worker) {
  for (uint32_t task; (task = atomic_fetch_add(&c->next, 1)) < c->n_tasks && task < atomic_load(&c->first_won);) {
    if (!c->task(c->argument, worker, task)) continue;
    uint32_t first = atomic_load(&c->first_won);
    while (task < first && !atomic_compare_exchange_weak(&c->first_won, &first, task)) continue;
  }
}

static void *member_main(void *argument) {
  crew_member *m = argument;
  crew *c = m->of;
  uint64_t round = 0;
  pthread_mutex_lock(&c->lock);
  for (;;) {
    while (c->round == round && !c->dismissed) pthread_cond_wait(&c->begin, &c->lock);
    if (c->dismissed) break;
    round = c->round;
    pthread_mutex_unlock(&c->lock);
    work(c, m->number);
    pthread_mutex_lock(&c->lock);
    if (--c->n_working == 0) pthread_cond_signal(&c->end);
  }
  pthread_mutex_unlock(&c->lock);
  return NULL;
}

bool crew_start(crew *c, uint32_t n) {
  c->n = 1;
  c->round = 0;
  c->dismissed = false;
  pthread_mutex_init(&c->lock, NULL);
  pthread_cond_init(&c->begin, NULL);
  pthread_cond_init(&c->end, NULL);
  for (; c->n < n; ++c->n) {
    crew_member *m = &c->members[c->n];
    *m = (crew_member){.of = c, .number = c->n};
    if (pthread_create(&m->thread, NULL, member_main, m) == 0) continue;
    crew_dismiss(c);
    return false;
  }
  return true;
}

void crew_dismiss(crew *c) {
  pthread_mutex_lock(&c->lock);
  c->dismissed = true;
  pthread_cond_broadcast(&c->begin);
  pthread_mutex_unlock(&c->lock);
  for (uint32_t i = 1; i < c->n; ++i) pthread_join(c->members[i].thread, NULL);
  pthread_cond_destroy(&c->begin);
  pthread_cond_destroy(&c->end);
  pthread_mutex_destroy(&c->lock);
}

uint32_t crew_round(crew *c, uint32_t n_tasks, crew_task task, void *argument) {
  c->task = task;
  c->argument = argument;
  c->n_tasks = n_tasks;
  atomic_store(&c->next, 0);
  atomic_store(&c->first_won, n_tasks);
  if (c->n > 1) {
    pthread_mutex_lock(&c->lock);
    ++c->round;
    c->n_working = c->n - 1;
    pthread_cond_broadcast(&c->begin);
    pthread_mutex_unlock(&c->lock);
  }
  work(c, 0);
  pthread_mutex_lock(&c->lock);
  while (c->n > 1 && c->n_working) pthread_cond_wait(&c->end, &c->lock);
  pthread_mutex_unlock(&c->lock);
  return atomic_load(&c->first_won);
}
