/* SPDX-License-Identifier: Apache-2.0 */
#include "feed/channel.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "base/lock.h"

typedef struct channel {
  struct channel *next; /* in the table; guarded by its lock, as n_ends */
  unsigned n_ends;      /* the channel is freed with the last one */
  int device;
  size_t capacity;
  mutex lock;             /* guards what follows, and all ends' fields */
  pthread_cond_t changed; /* the number of messages, an end's `stopped` or an end's n_inside */
  size_t n;
  channel_message *first, **last; /* last: where the next message is linked */
  char name[];
} channel;

struct channel_end {
  channel *channel;
  bool stopped;
  unsigned n_inside; /* threads that wait in it */
};

static mutex table_lock = MUTEX_INITIALIZER(CHANNELS);
static channel *table;

static bool channel_is_valid(const channel *c) {
  size_t n = 0;
  for (const channel_message *m = c->first; m; m = m->next) ++n;
  return n == c->n && n <= c->capacity && !*c->last;
}

static void channel_unlock(channel *c) {
  INVARIANT_WALK(channel_is_valid(c));
  mutex_unlock(&c->lock);
}

static channel *channel_new(int device, const char *name, size_t capacity) {
  pthread_condattr_t monotonic;
  channel *c = calloc(1, sizeof *c + strlen(name) + 1);
  if (!c) return NULL;
  strcpy(c->name, name);
  c->device = device;
  c->capacity = capacity;
  c->last = &c->first;
  mutex_init(&c->lock, LOCK_CHANNEL);
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&c->changed, &monotonic);
  pthread_condattr_destroy(&monotonic);
  return c;
}

/* The lock of the table is held. NULL: no memory. */
static channel *channel_find(int device, const char *name, size_t capacity) {
  for (channel *c = table; c; c = c->next)
    if (c->device == device && !strcmp(c->name, name)) return c;
  channel *c = channel_new(device, name, capacity);
  if (c) c->next = table, table = c;
  return c;
}

status channel_open(int device, const char *name, size_t capacity, channel_end **out) {
  INVARIANT(capacity > 0);
  channel_end *end = calloc(1, sizeof *end);
  if (!end) return fail(ST_NO_HOST_MEMORY, "no host memory for channel %s", name);
  mutex_lock(&table_lock);
  end->channel = channel_find(device, name, capacity);
  if (end->channel) ++end->channel->n_ends;
  mutex_unlock(&table_lock);
  if (!end->channel) {
    free(end);
    return fail(ST_NO_HOST_MEMORY, "no host memory for channel %s", name);
  }
  *out = end;
  return ST_OK;
}

/* Takes all messages out of the channel, whose lock is held. */
static channel_message *channel_take_all(channel *c) {
  channel_message *all = c->first;
  c->first = NULL;
  c->last = &c->first;
  c->n = 0;
  pthread_cond_broadcast(&c->changed);
  return all;
}

static void destroy_all(channel_message *m) {
  for (channel_message *next; m; m = next) {
    next = m->next;
    m->destroy(m);
  }
}

void channel_stop(channel_end *end) {
  channel *c = end->channel;
  mutex_lock(&c->lock);
  end->stopped = true;
  pthread_cond_broadcast(&c->changed);
  channel_unlock(c);
}

void channel_close(channel_end *end) {
  channel *c = end->channel;
  channel_stop(end);
  mutex_lock(&c->lock);
  while (end->n_inside) mutex_wait(&c->lock, &c->changed, NULL);
  channel_unlock(c);
  free(end);

  mutex_lock(&table_lock);
  const bool last = !--c->n_ends;
  if (last) {
    channel **at = &table;
    while (*at != c) at = &(*at)->next;
    *at = c->next;
  }
  mutex_unlock(&table_lock);
  if (!last) return;
  destroy_all(c->first);
  pthread_cond_destroy(&c->changed);
  mutex_destroy(&c->lock);
  free(c);
}

/* Waits until the channel is not full (for_room), or not empty. The lock is held. `code` when the time is over. */
static status channel_wait(channel_end *end, bool for_room, int32_t timeout_ms, status code) {
  channel *c = end->channel;
  struct timespec until;
  if (timeout_ms < -1) return fail(ST_INVALID_PARAM, "timeout is %d, expected -1, 0 or more (ms)", timeout_ms);
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += timeout_ms / 1000;
  until.tv_nsec += timeout_ms % 1000 * 1000000L;
  if (until.tv_nsec >= 1000000000) ++until.tv_sec, until.tv_nsec -= 1000000000;

  bool late = timeout_ms == 0;
  ++end->n_inside;
  while (!end->stopped && (for_room ? c->n == c->capacity : c->n == 0) && !late)
    late = mutex_wait(&c->lock, &c->changed, timeout_ms == -1 ? NULL : &until) == ETIMEDOUT;
  if (!--end->n_inside && end->stopped) pthread_cond_broadcast(&c->changed);
  if (end->stopped) return fail(ST_FAILURE, "channel %s was stopped", c->name);
  return (for_room ? c->n < c->capacity : c->n > 0) ? ST_OK : code;
}

status channel_send(channel_end *end, channel_message *message, int32_t timeout_ms) {
  channel *c = end->channel;
  mutex_lock(&c->lock);
  const status st = channel_wait(end, true, timeout_ms, ST_QUEUE_FULL);
  if (st == ST_OK) {
    message->next = NULL;
    *c->last = message;
    c->last = &message->next;
    ++c->n;
    pthread_cond_broadcast(&c->changed);
  }
  channel_unlock(c);
  return st;
}

status channel_receive(channel_end *end, int32_t timeout_ms, channel_message **out) {
  channel *c = end->channel;
  mutex_lock(&c->lock);
  const status st = channel_wait(end, false, timeout_ms, ST_QUEUE_EMPTY);
  if (st == ST_OK) {
    *out = c->first;
    c->first = (*out)->next;
    if (!c->first) c->last = &c->first;
    --c->n;
    pthread_cond_broadcast(&c->changed);
  }
  channel_unlock(c);
  return st;
}

size_t channel_size(channel_end *end) {
  channel *c = end->channel;
  mutex_lock(&c->lock);
  const size_t n = c->n;
  channel_unlock(c);
  return n;
}

void channel_clean(channel_end *end) {
  channel *c = end->channel;
  mutex_lock(&c->lock);
  channel_message *all = channel_take_all(c);
  channel_unlock(c);
  destroy_all(all);
}

const char *channel_name(const channel_end *end) { return end->channel->name; }
