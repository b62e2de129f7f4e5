/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/wait/notify_share.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "base/invariant.h"
#include "base/lock.h"
#include "base/store/host_page.h"
#include "memory/share/machine.h"
#include "runtime/scheduler.h"
#include "runtime/wait/notify.h"

/* The exporter's file has a page for each notify that is exported, or was exported and is still mapped by another
 * process. It is mapped as a whole; only pages that were used take memory. */
enum { MOST_EXPORTS = MACHINE_EXPORTS };
static struct {
  mutex lock; /* guards all fields, and the links of exported notifies */
  int file;   /* its descriptor + 1; 0: there is none yet */
  char *pages;
  struct {
    uint64_t key;
    bool used, ended; /* ended: the notify was destroyed in this process */
  } page[MOST_EXPORTS];
  notify *first;
} all = {.lock = MUTEX_INITIALIZER(NOTIFY_SHARE)};

_Atomic int notify_n_shared_waiting;

/* ---- pages ------------------------------------------------------------------------------------------------------- */

/* The functions of this section are called with all.lock held. */
static status make_file(void) {
  if (all.file) return ST_OK;
  const size_t bytes = (size_t)MOST_EXPORTS * PAGE_BYTES;
  const int file = file_in_memory("cannon-notifies", bytes);
  void *p = MAP_FAILED;
  if (file >= 0) p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (p == MAP_FAILED) {
    const int error = errno;
    if (file >= 0) close(file);
    return fail(ST_NO_HOST_MEMORY, "no memory for notifies between processes: %s", file_error(error));
  }
  madvise(p, bytes, MADV_DONTFORK);
  all.pages = p;
  all.file = file + 1;
  return ST_OK;
}

/* The index of a page that no process uses any more, or -1. */
static int free_page(void) {
  int i = 0;
  for (; i < MOST_EXPORTS && all.page[i].used; ++i)
    if (all.page[i].ended && !exchange_withdraw(all.page[i].key, true)) break;
  return i < MOST_EXPORTS ? i : -1;
}

static int notify_page_of(const notify_share *s) { return (int)(((char *)s->word - all.pages) / PAGE_BYTES); }

static status offer(int device, bool to_all, notify_share *s) {
  TRY(make_file());
  const int i = free_page();
  if (i < 0) return fail(ST_NO_NOTIFIES, "%d notifies are exported, expected fewer at a time", MOST_EXPORTS);
  const heap_piece piece = {.offset = (uint64_t)i * PAGE_BYTES, .bytes = PAGE_BYTES};
  const exchange_item item = {.kind = EXCHANGE_NOTIFY,
                              .device = device,
                              .file = all.file - 1,
                              .bytes = PAGE_BYTES,
                              .pieces = &piece,
                              .n_pieces = 1};
  all.page[i].used = false;
  TRY(exchange_offer(&item, to_all, &s->key));
  all.page[i].used = true;
  all.page[i].ended = false;
  all.page[i].key = s->key;
  s->word = (_Atomic uint32_t *)(void *)(all.pages + piece.offset);
  s->to_all = to_all;
  return ST_OK;
}

/* ---- the exporter ------------------------------------------------------------------------------------------------ */

/* Moves the number to the page. From now on the ticker checks the conditions of streams that wait for the notify. */
static void move_number(notify *n, notify_share *s) {
  spin_lock(&n->o.lock);
  atomic_store(s->word, n->value);
  for (const stream *w = n->waiters; w; w = w->next_waiter) atomic_fetch_add(&notify_n_shared_waiting, 1);
  n->unordered = true;
  n->share = s;
  spin_unlock(&n->o.lock);
}

static status export(notify *n, bool to_all) {
  if (n->share && n->share->imported)
    return fail(ST_INVALID_VALUE, "notify %u is another process's, expected one of aclrtCreateNotify", n->id);
  if (n->share && n->share->to_all != to_all)
    return fail(ST_INVALID_VALUE, "flags is %d, expected %d, as when notify %u was exported before", to_all ? 2 : 0,
                to_all ? 0 : 2, n->id);
  if (n->share) return ST_OK;
  notify_share *s = calloc(1, sizeof *s);
  if (!s) return fail(ST_NO_HOST_MEMORY, "no host memory for a key");
  const status st = offer(n->device, to_all, s);
  if (st != ST_OK) {
    free(s);
    return st;
  }
  s->next = all.first;
  if (all.first) all.first->share->previous = n;
  all.first = n;
  move_number(n, s);
  return ST_OK;
}

status notify_export(notify *n, bool to_all, char key[EXCHANGE_TEXT_BYTES]) {
  mutex_lock(&all.lock);
  const status st = export(n, to_all);
  if (st == ST_OK) exchange_print(n->share->key, key);
  mutex_unlock(&all.lock);
  scheduler_rouse();
  return st;
}

status notify_allow(notify *n, const int32_t *pids, size_t n_pids) {
  mutex_lock(&all.lock);
  INVARIANT(!n->share || n->share->key);
  const bool exported = n->share && !n->share->imported;
  const uint64_t key = exported ? n->share->key : 0;
  mutex_unlock(&all.lock);
  if (exported) return exchange_allow(key, pids, n_pids, "notify");
  return fail(ST_INVALID_VALUE, "notify %u is not exported, expected aclrtNotifyGetExportKey before", n->id);
}

void notify_look(void) {
  stream *satisfied = NULL;
  mutex_lock(&all.lock);
  for (notify *n = all.first; n; n = n->share->next) satisfied = notify_take_satisfied(n, satisfied);
  mutex_unlock(&all.lock);
  stream_unblock_all(satisfied);
}

/* ---- the importer ------------------------------------------------------------------------------------------------ */

static status map_word(uint64_t key, notify_share *s) {
  exchange_item item;
  heap_piece *pieces;
  TRY(exchange_take(key, EXCHANGE_NOTIFY, "key", &item, &pieces));
  void *p = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, item.file, (off_t)pieces[0].offset);
  const int error = errno;
  close(item.file);
  free(pieces);
  if (p == MAP_FAILED) {
    exchange_drop(key);
    return fail(ST_NO_HOST_MEMORY, "the notify's memory can't be mapped: %s", strerror(error));
  }
  madvise(p, PAGE_BYTES, MADV_DONTFORK);
  *s = (notify_share){.word = p, .key = key, .imported = true};
  return ST_OK;
}

status notify_import(const char *text, int device, notify **out) {
  uint64_t key;
  notify *n;
  TRY(exchange_parse(text, "aclrtNotifyGetExportKey", &key));
  notify_share *s = malloc(sizeof *s);
  if (!s) return fail(ST_NO_HOST_MEMORY, "no host memory for a notify");
  status st = map_word(key, s);
  if (st != ST_OK) {
    free(s);
    return st;
  }
  st = notify_create(device, false, &n);
  if (st != ST_OK) {
    munmap((void *)s->word, PAGE_BYTES);
    exchange_drop(key);
    free(s);
    return st;
  }
  n->share = s;
  n->unordered = true;
  *out = n;
  return ST_OK;
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

static void withdraw(notify_share *s) {
  mutex_lock(&all.lock);
  *(s->previous ? &s->previous->share->next : &all.first) = s->next;
  if (s->next) s->next->share->previous = s->previous;
  const int i = notify_page_of(s);
  INVARIANT(i >= 0 && i < MOST_EXPORTS && all.page[i].used && all.page[i].key == s->key);
  all.page[i].ended = true;
  all.page[i].used = exchange_withdraw(s->key, true); /* as long as other processes map it, the page can't be reused */
  mutex_unlock(&all.lock);
}

void notify_unshare(notify *n) {
  notify_share *s = n->share;
  if (s->imported) {
    munmap((void *)s->word, PAGE_BYTES);
    exchange_drop(s->key);
  } else {
    withdraw(s);
  }
  free(s);
}
