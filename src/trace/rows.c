/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of stats.h. Rows are found or made under one lock, and used without it. */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/forks.h"
#include "base/lock.h"
#include "base/settings/faults.h"
#include "base/status.h"
#include "trace/shards.h"
#include "trace/stats_write.h"

static mutex rows_lock = MUTEX_INITIALIZER(ROWS); /* guards the creation of rows */
FORK_RENEWS(rows_lock)

stats_op *trace_row(const char *name) {
  stats_file *s = trace_stats();
  mutex_lock(&rows_lock);
  const uint32_t n = atomic_load_explicit(&s->n_ops, memory_order_relaxed);
  uint32_t i = 0;
  while (i < n && strncmp(s->ops[i].name, name, sizeof s->ops[i].name - 1) != 0) ++i;
  if (i == STATS_MAX_OPS) i = STATS_MAX_OPS - 1;
  if (i == n) {
    snprintf(s->ops[i].name, sizeof s->ops[i].name, "%s", i == STATS_MAX_OPS - 1 ? "(others)" : name);
    atomic_store_explicit(&s->n_ops, n + 1, memory_order_release);
  }
  mutex_unlock(&rows_lock);
  return &s->ops[i];
}

stats_choice *trace_choice_row(const stats_op *op, const char *names, const char *reason) {
  stats_file *s = trace_stats();
  mutex_lock(&rows_lock);
  const uint32_t n = atomic_load_explicit(&s->n_choices, memory_order_relaxed), number = (uint32_t)(op - s->ops);
  stats_choice *row = s->choices, *const end = row + n;
  while (row < end && (row->op != number || strcmp(row->names, names) != 0 || strcmp(row->reason, reason) != 0)) ++row;
  if (n == STATS_MAX_CHOICES && row == end) {
    row = NULL;
  } else if (row == end) {
    row->op = number;
    snprintf(row->names, sizeof row->names, "%s", names);
    snprintf(row->reason, sizeof row->reason, "%s", reason);
    atomic_store_explicit(&s->n_choices, n + 1, memory_order_release);
  }
  mutex_unlock(&rows_lock);
  return row;
}

/* Counts a call that returned an error (error_listen). */
static void count_error(const char *call, status code, const char *words) {
  stats_file *s = trace_stats();
  trace_add(&s->n_errors, 1);
  if (!trace_is_on()) return;
  mutex_lock(&rows_lock);
  const uint32_t n = atomic_load_explicit(&s->n_error_rows, memory_order_relaxed);
  uint32_t i = 0;
  stats_error *row = s->error_rows;
  while (i < n && (row[i].code != code || strncmp(row[i].call, call, sizeof row->call - 1) != 0)) ++i;
  const bool others = i >= STATS_MAX_ERRORS - 1;
  if (others) i = STATS_MAX_ERRORS - 1;
  row += i;
  if (i == n) {
    snprintf(row->call, sizeof row->call, "%s", others ? "(others)" : call);
    snprintf(row->first_words, sizeof row->first_words, "%s", others ? "" : words);
    row->code = others ? 0 : code;
    atomic_store_explicit(&s->n_error_rows, n + 1, memory_order_release);
  }
  trace_add(&row->count, 1);
  mutex_unlock(&rows_lock);
}

/* Counts what could fail, and lists what does (fault_listen). */
static void count_fault(fault_place place, const char *name, uint64_t number, const char *spec) {
  stats_file *s = trace_stats();
  trace_add(&s->fault_events[place], 1);
  if (!spec || !trace_is_on()) return;
  const uint64_t i = atomic_fetch_add(&s->n_faults, 1);
  if (i >= STATS_MAX_FAULTS) return;
  stats_fault *row = &s->faults[i];
  row->place = place;
  row->number = number;
  snprintf(row->name, sizeof row->name, "%s", name ? name : "");
  snprintf(row->spec, sizeof row->spec, "%s", spec);
}

__attribute__((constructor)) static void listen_for_errors(void) {
  error_listen(count_error);
  fault_listen(count_fault);
}

/* The index of a row, of n, for a new user: preferably one that was never used, then one that is closed, then the
 * last. */
#define FREE_ROW(table, n)                                                                                             \
  ({                                                                                                                   \
    unsigned row_ = 0;                                                                                                 \
    while (row_ < (n)-1 && (table)[row_].state != STATS_ROW_UNUSED) ++row_;                                            \
    if (row_ == (n)-1)                                                                                                 \
      for (row_ = 0; row_ < (n)-1 && (table)[row_].state != STATS_ROW_CLOSED;) ++row_;                                 \
    row_;                                                                                                              \
  })

stats_pool *trace_pool_open(const char *name, int device) {
  if (!trace_is_on()) return NULL;
  stats_file *s = trace_stats();
  mutex_lock(&rows_lock);
  const unsigned i = FREE_ROW(s->pools, STATS_MAX_POOLS);
  stats_pool *row = &s->pools[i];
  const bool shared = i == STATS_MAX_POOLS - 1;
  if (!shared) memset(&row->memory, 0, sizeof row->memory);
  snprintf(row->name, sizeof row->name, "%s", shared ? "(others)" : name);
  row->device = device;
  atomic_store_explicit(&row->state, STATS_ROW_OPEN, memory_order_release);
  mutex_unlock(&rows_lock);
  return row;
}

void trace_pool_close(stats_pool *row) {
  if (row && row != &trace_stats()->pools[STATS_MAX_POOLS - 1]) atomic_store(&row->state, STATS_ROW_CLOSED);
}

stats_feed *trace_feed_open(const char *name, int device) {
  if (!trace_is_on()) return NULL;
  stats_file *s = trace_stats();
  mutex_lock(&rows_lock);
  unsigned i = 0;
  while (i < STATS_MAX_FEEDS - 1 && s->feeds[i].state != STATS_ROW_UNUSED) ++i;
  stats_feed *row = &s->feeds[i];
  snprintf(row->name, sizeof row->name, "%s", i == STATS_MAX_FEEDS - 1 ? "(others)" : name);
  row->device = device;
  atomic_store_explicit(&row->state, STATS_ROW_OPEN, memory_order_release);
  mutex_unlock(&rows_lock);
  return row;
}

void trace_feed_close(stats_feed *row) {
  if (row && row != &trace_stats()->feeds[STATS_MAX_FEEDS - 1]) atomic_store(&row->state, STATS_ROW_CLOSED);
}

stats_shard *trace_shard_open(const stats_heap *heap) {
  if (!trace_is_on()) return NULL;
  stats_file *s = trace_stats();
  int device = HOST_MANAGED;
  while (device < STATS_MAX_DEVICES && stats_heap_of(s, device) != heap) ++device;
  if (device == STATS_MAX_DEVICES) return NULL;
  stats_shard *found = NULL;
  mutex_lock(&rows_lock);
  for (unsigned i = 0; i < STATS_MAX_SHARDS && !found; ++i)
    if (s->shards[i].state != STATS_ROW_OPEN) found = &s->shards[i];
  if (found) {
    found->device = device;
    atomic_store_explicit(&found->state, STATS_ROW_OPEN, memory_order_release);
  }
  mutex_unlock(&rows_lock);
  return found;
}

void trace_shard_close(stats_shard *shard, stats_heap *heap) {
  mutex_lock(&rows_lock);
  shard_fold(heap, shard);
  memset(shard, 0, sizeof *shard); /* STATS_ROW_UNUSED */
  mutex_unlock(&rows_lock);
}

/* The index of the stream's row, or of the last row if it has none. The lock is held. */
static unsigned find_stream(const stats_file *s, int device, uint32_t id) {
  unsigned i = 0;
  while (i < STATS_MAX_STREAMS - 1 &&
         (s->streams[i].state != STATS_ROW_OPEN || s->streams[i].device != device || s->streams[i].id != id))
    ++i;
  return i;
}

stats_stream *trace_stream_row(int device, uint32_t id) {
  if (!trace_is_on()) return NULL;
  stats_file *s = trace_stats();
  mutex_lock(&rows_lock);
  unsigned i = find_stream(s, device, id);
  stats_stream *row = &s->streams[i];
  if (i == STATS_MAX_STREAMS - 1) {
    i = FREE_ROW(s->streams, STATS_MAX_STREAMS);
    row = &s->streams[i];
    const bool shared = i == STATS_MAX_STREAMS - 1;
    if (!shared) memset(row, 0, sizeof *row);
    row->id = shared ? UINT32_MAX : id;
    row->device = device;
    atomic_store_explicit(&row->state, STATS_ROW_OPEN, memory_order_release);
  }
  mutex_unlock(&rows_lock);
  return row;
}

/* The lock is held. */
static void close_stream_row(stats_stream *row) {
  if (row->state == STATS_ROW_ENDED && !atomic_load(&row->memory.live_bytes)) row->state = STATS_ROW_CLOSED;
}

void trace_stream_end(int device, uint32_t id) {
  if (!trace_is_on()) return;
  stats_file *s = trace_stats();
  mutex_lock(&rows_lock);
  const unsigned i = find_stream(s, device, id);
  if (i < STATS_MAX_STREAMS - 1) {
    s->streams[i].state = STATS_ROW_ENDED;
    close_stream_row(&s->streams[i]);
  }
  mutex_unlock(&rows_lock);
}

/* A free that comes between the two steps of a stream's end finds its row open or ended; in both cases somebody closes
 * it. */
void trace_stream_settle(stats_stream *row) {
  if (atomic_load(&row->state) != STATS_ROW_ENDED) return;
  mutex_lock(&rows_lock);
  close_stream_row(row);
  mutex_unlock(&rows_lock);
}

/* rows_lock is held. */
static int32_t module_row(stats_file *s, const char *path) {
  const uint32_t n = atomic_load_explicit(&s->n_modules, memory_order_relaxed);
  uint32_t i = 0;
  while (i < n && strncmp(s->modules[i].path, path, sizeof s->modules[i].path - 1) != 0) ++i;
  if (i == STATS_MAX_MODULES) return -1;
  if (i == n) {
    snprintf(s->modules[i].path, sizeof s->modules[i].path, "%s", path);
    atomic_store_explicit(&s->n_modules, n + 1, memory_order_release);
  }
  return (int32_t)i;
}

/* Uses _dl_find_object instead of dladdr: dladdr takes the loader's lock, which a library's constructor holds while it
 * allocates and waits for our lock. */
static stats_place place_in_module(stats_file *s, const void *code) {
  struct dl_find_object found;
  if (_dl_find_object((void *)code, &found) || !found.dlfo_link_map) return (stats_place){.module = -1};
  const char *path = found.dlfo_link_map->l_name;
  return (stats_place){.module = module_row(s, path[0] ? path : s->program),
                       .offset = (uintptr_t)code - found.dlfo_link_map->l_addr};
}

stats_place trace_place(const void *code) {
  stats_file *s = trace_stats();
  mutex_lock(&rows_lock);
  const stats_place place = place_in_module(s, code);
  mutex_unlock(&rows_lock);
  return place;
}

/* ---- call sites: a hash table without removal, so that finding needs no lock ------------------------------------- */

enum { N_HASHED = STATS_MAX_SITES - 1, OTHERS = 1 };

/* The row of the address, or the unused row where it would be made; NULL if there is neither. */
static stats_site *probe(stats_file *s, uint64_t address) {
  const uint64_t hash = address * UINT64_C(0x9e3779b97f4a7c15) >> 32;
  for (unsigned i = 0; i < N_HASHED; ++i) {
    stats_site *row = &s->sites[(hash + i) % N_HASHED];
    const uint64_t seen = atomic_load_explicit(&row->address, memory_order_acquire);
    if (seen == address || !seen) return row;
  }
  return NULL;
}

stats_site *trace_site(const void *code, const char *call) {
  stats_file *s = trace_stats();
  const uint64_t address = code ? (uintptr_t)code : OTHERS; /* 0 marks an unused row */
  stats_site *row = probe(s, address);
  if (row && atomic_load_explicit(&row->address, memory_order_acquire) == address) return row;
  mutex_lock(&rows_lock);
  row = probe(s, address);
  const bool others = !row;
  if (others) row = &s->sites[N_HASHED];
  if (!atomic_load_explicit(&row->address, memory_order_relaxed)) {
    row->place = others ? (stats_place){.module = -1} : place_in_module(s, code);
    snprintf(row->call, sizeof row->call, "%s", others ? "(others)" : call);
    atomic_store_explicit(&row->address, others ? OTHERS : address, memory_order_release);
  }
  mutex_unlock(&rows_lock);
  return row;
}
