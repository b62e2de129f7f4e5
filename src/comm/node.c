/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/node.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/invariant.h"
#include "base/lock.h"
#include "memory/budget.h"

#define NODE_MAGIC 0x4d4d4f43u /* "COMM" */
enum { ARRAYS_OF_RANK = 4 };

/* The nodes that this process has mapped. */
static struct {
  mutex lock;
  node *first;
} all = {.lock = MUTEX_INITIALIZER(NODE)};

/* ---- layout ------------------------------------------------------------------------------------------------------ */

static uint64_t node_round(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

/* Sets the layout and returns the file's length. */
static uint64_t node_lay_out(node *n, uint32_t n_members, uint64_t device_bytes) {
  n->n_members = n_members;
  n->most_extents = device_bytes / HEAP_GRANULE_BYTES + 2;
  n->record_bytes = node_round(sizeof(node_record) + ARRAYS_OF_RANK * n_members * sizeof(uint64_t) +
                               2 * n->most_extents * sizeof(heap_piece));
  n->job_bytes = sizeof(node_job) + n_members * n->record_bytes;
  n->pair_bytes = sizeof(node_job) + 2 * n->record_bytes;
  n->jobs_at = (sizeof(node_head) + n_members * sizeof(node_member) + 4095) / 4096 * 4096;
  return n->jobs_at + NODE_JOBS * n->job_bytes + (uint64_t)n_members * n_members * NODE_PAIR_JOBS * n->pair_bytes;
}

node_job *node_job_of(const node *n, uint64_t number) {
  INVARIANT(number >= 1);
  return (node_job *)((char *)n->head + n->jobs_at + (number - 1) % NODE_JOBS * n->job_bytes);
}

node_job *node_pair_of(const node *n, uint32_t from, uint32_t to, uint64_t number) {
  INVARIANT(number >= 1 && from < n->n_members && to < n->n_members);
  const uint64_t pair = ((uint64_t)from * n->n_members + to) * NODE_PAIR_JOBS + (number - 1) % NODE_PAIR_JOBS;
  return (node_job *)((char *)n->head + n->jobs_at + NODE_JOBS * n->job_bytes + pair * n->pair_bytes);
}

heap_piece *node_extents(const node *n, node_record *r, bool receive) {
  return (heap_piece *)(r->arrays + ARRAYS_OF_RANK * n->n_members) + (receive ? n->most_extents : 0);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static status node_map(node *n, int file, uint64_t bytes) {
  TRY(budget_take(1));
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (p == MAP_FAILED) {
    budget_adjust(-1);
    return fail(ST_NO_HOST_MEMORY, "mmap of a communicator's %ju bytes: %s", (uintmax_t)bytes, strerror(errno));
  }
  madvise(p, bytes, MADV_DONTFORK);
  n->head = p;
  return ST_OK;
}

static node *node_new(void) {
  node *n = calloc(1, sizeof *n);
  if (!n) fail_words("no host memory for a communicator");
  return n;
}

static void node_add(node *n) {
  n->refs = 1;
  n->next = all.first;
  all.first = n;
}

status node_create(uint32_t n_members, uint64_t device_bytes, node **out) {
  node *n = node_new();
  if (!n) return ST_NO_HOST_MEMORY;
  const uint64_t bytes = node_lay_out(n, n_members, device_bytes);
  n->owned = memfd_create("cannon-communicator", MFD_CLOEXEC);
  status st = n->owned < 0 || ftruncate(n->owned, (off_t)bytes)
                  ? fail(ST_NO_HOST_MEMORY, "no memory for a communicator: %s", strerror(errno))
                  : node_map(n, n->owned, bytes);
  if (st == ST_OK) st = neighbour_describe(n->owned, &n->file);
  if (st != ST_OK) {
    if (n->head) munmap(n->head, bytes), budget_adjust(-1);
    if (n->owned >= 0) close(n->owned);
    free(n);
    return st;
  }
  n->head->magic = NODE_MAGIC;
  n->head->n_members = n_members;
  n->head->bytes = bytes;
  mutex_lock(&all.lock);
  node_add(n);
  mutex_unlock(&all.lock);
  *out = n;
  return ST_OK;
}

/* Under the lock. */
static status node_open_anew(const neighbour_file *f, uint32_t n_members, uint64_t device_bytes, node **out) {
  int file;
  TRY(neighbour_open(f, &file));
  node *n = node_new();
  status st = n ? ST_OK : ST_NO_HOST_MEMORY;
  if (n) {
    const uint64_t bytes = node_lay_out(n, n_members, device_bytes);
    n->owned = -1;
    n->file = *f;
    st = bytes == f->bytes ? node_map(n, file, bytes)
                           : fail(ST_INVALID_VALUE,
                                  "the communicator's memory has %ju bytes, expected %ju: its processes run different "
                                  "versions of this library, or have devices of different sizes",
                                  (uintmax_t)f->bytes, (uintmax_t)bytes);
  }
  close(file);
  if (st != ST_OK) {
    free(n);
    return st;
  }
  INVARIANT(n->head->magic == NODE_MAGIC && n->head->n_members == n_members);
  node_add(n);
  *out = n;
  return ST_OK;
}

status node_open(const neighbour_file *file, uint32_t n_members, uint64_t device_bytes, node **out) {
  status st = ST_OK;
  mutex_lock(&all.lock);
  node *n = all.first;
  while (n && (n->file.inode != file->inode || n->file.filesystem != file->filesystem)) n = n->next;
  if (n)
    ++n->refs;
  else
    st = node_open_anew(file, n_members, device_bytes, &n);
  if (st == ST_OK) *out = n;
  mutex_unlock(&all.lock);
  return st;
}

void node_drop(node *n) {
  mutex_lock(&all.lock);
  INVARIANT(n->refs >= 1);
  const bool last = --n->refs == 0;
  if (last) {
    node **at = &all.first;
    while (*at != n) at = &(*at)->next;
    *at = n->next;
  }
  mutex_unlock(&all.lock);
  if (!last) return;
  for (node *kept = n->kept, *next; kept; kept = next) {
    next = kept->next_kept;
    node_drop(kept);
  }
  munmap(n->head, n->file.bytes);
  budget_adjust(-1);
  if (n->owned >= 0) close(n->owned);
  free(n);
}

/* ---- failures ---------------------------------------------------------------------------------------------------- */

/* Another rank is noting a failure. It does so within microseconds, unless it is killed or stopped meanwhile. */
static void node_await_failure(const node *n) {
  enum { LOOKS = 10000 };
  for (int i = 0; i < LOOKS && atomic_load(&n->head->failed) == NODE_FAILING; ++i) sched_yield();
}

void node_fail(node *n, uint32_t rank, status code, const char *words) {
  uint32_t sound = NODE_SOUND;
  if (!atomic_compare_exchange_strong(&n->head->failed, &sound, NODE_FAILING)) {
    node_await_failure(n);
    return;
  }
  n->head->code = code;
  n->head->rank = rank;
  snprintf(n->head->words, sizeof n->head->words, "%s", words);
  atomic_store(&n->head->failed, NODE_FAILED);
}

status node_check(const node *n) {
  if (likely(atomic_load_explicit(&n->head->failed, memory_order_acquire) != NODE_FAILED)) return ST_OK;
  return fail(n->head->code, "%.*s", NODE_WORDS, n->head->words);
}
