/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/memory/stream_allocator.h"

#include <pthread.h>

#include "base/forks.h"
#include "base/lock.h"

/* There are few entries, which are rarely looked up, so that lists with one lock are sufficient. */
typedef struct description {
  struct description *next;
  user_allocator allocator;
} description;

typedef struct registration {
  struct registration *next;
  const stream *stream;
  void *handle;
  user_allocator allocator;
} registration;

static mutex lock = MUTEX_INITIALIZER(STREAM_ALLOCATOR); /* guards the two lists below */
FORK_RENEWS(lock)
static description *descriptions;
static registration *registrations;

static description **find_description(const void *handle) {
  description **link = &descriptions;
  while (*link && *link != handle) link = &(*link)->next;
  return link;
}

static registration **find_registration(const stream *s) {
  registration **link = &registrations;
  while (*link && (*link)->stream != s) link = &(*link)->next;
  return link;
}

static status stale(const void *handle) {
  return fail(ST_INVALID_VALUE, "allocatorDesc is %p, no descriptor (destroyed?)", handle);
}

void *allocator_describe(void) {
  description *d = calloc(1, sizeof *d);
  if (!d) return NULL;
  mutex_lock(&lock);
  d->next = descriptions;
  descriptions = d;
  mutex_unlock(&lock);
  return d;
}

status allocator_undescribe(void *handle) {
  mutex_lock(&lock);
  description **link = find_description(handle), *d = *link;
  if (d) *link = d->next;
  mutex_unlock(&lock);
  if (!d) return stale(handle);
  free(d);
  return ST_OK;
}

status allocator_change(void *handle, void (*change)(user_allocator *a, const void *value), const void *value) {
  mutex_lock(&lock);
  description *d = *find_description(handle);
  if (d) change(&d->allocator, value);
  mutex_unlock(&lock);
  return d ? ST_OK : stale(handle);
}

/* Registers a copy of the description for the stream. The lock is held. */
static status allocator_enter(const stream *s, void *handle) {
  const description *d = *find_description(handle);
  if (!d) return stale(handle);
  if (!atomic_load(&s->context)) return fail(ST_INVALID_VALUE, "stream %u was destroyed by another thread", s->id);
  const user_allocator *a = &d->allocator;
  if (!a->alloc || !a->free || !a->address_of)
    return fail(ST_INVALID_PARAM, "allocatorDesc has no function to %s, expected it set",
                !a->alloc  ? "allocate"
                : !a->free ? "free"
                           : "get a block's address");
  registration *r = *find_registration(s);
  if (!r) {
    r = calloc(1, sizeof *r);
    if (!r) return fail(ST_NO_HOST_MEMORY, "no host memory to register an allocator");
    r->next = registrations;
    registrations = r;
  }
  r->stream = s;
  r->handle = handle;
  r->allocator = *a;
  return ST_OK;
}

status allocator_register(stream *s, void *handle) {
  mutex_lock(&lock);
  const status st = allocator_enter(s, handle);
  mutex_unlock(&lock);
  return st;
}

void allocator_forget(const stream *s) {
  mutex_lock(&lock);
  registration **link = find_registration(s), *r = *link;
  if (r) *link = r->next;
  mutex_unlock(&lock);
  free(r);
}

status allocator_of(const stream *s, void **handle, user_allocator *out) {
  mutex_lock(&lock);
  const registration *r = *find_registration(s);
  if (r) {
    *handle = r->handle;
    *out = r->allocator;
  }
  mutex_unlock(&lock);
  return r ? ST_OK : fail(ST_INVALID_PARAM, "stream %u has no registered allocator", s->id);
}
