/* SPDX-License-Identifier: Apache-2.0 */
#include "base/store/handles.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/forks.h"
#include "base/lock.h"

static mutex lock = MUTEX_INITIALIZER(HANDLES); /* guards the lists */
FORK_RENEWS(lock)
static handle *lists[N_HANDLE_KINDS];

static handle **handle_slot(handle_kind kind, const void *pointer) {
  handle **link = &lists[kind];
  while (*link && *link != pointer) link = &(*link)->next;
  return link;
}

void *handle_new(handle_kind kind, size_t bytes) {
  handle *h = calloc(1, bytes);
  if (!h) return NULL;
  mutex_lock(&lock);
  h->next = lists[kind];
  lists[kind] = h;
  mutex_unlock(&lock);
  return h;
}

void *handle_live(handle_kind kind, const void *pointer) {
  mutex_lock(&lock);
  handle *h = pointer ? *handle_slot(kind, pointer) : NULL;
  mutex_unlock(&lock);
  return h;
}

bool handle_free(handle_kind kind, const void *pointer) {
  mutex_lock(&lock);
  handle **link = handle_slot(kind, pointer), *h = *link;
  if (h) *link = h->next;
  mutex_unlock(&lock);
  free(h);
  return h;
}
