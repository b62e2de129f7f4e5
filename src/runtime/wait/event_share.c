/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/wait/event_share.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "base/invariant.h"
#include "base/lock.h"
#include "base/store/host_page.h"
#include "memory/share/machine.h"
#include "runtime/context.h"
#include "runtime/scheduler.h"

_Static_assert(sizeof(event_marks) <= 4096, "an event has one page, of 4 KiB at least");

static struct {
  mutex lock; /* guards all fields, and the links of shared events */
  event *first;
  uint64_t ended[MACHINE_EXPORTS]; /* keys of events that were destroyed here while other processes had them */
  int n_ended;
} all = {.lock = MUTEX_INITIALIZER(EVENT_SHARE)};

_Atomic int event_n_shared_waiting;

/* The functions up to the next section are called with all.lock held. */
static void link_event(event *e, event_share *s) {
  s->next = all.first;
  if (all.first) all.first->share->previous = e;
  all.first = e;
}

static void unlink_event(event_share *s) {
  *(s->previous ? &s->previous->share->next : &all.first) = s->next;
  if (s->next) s->next->share->previous = s->previous;
}

/* Gives back the keys of events that no process has any more. */
static void forget_ended(void) {
  for (int i = 0; i < all.n_ended;) {
    if (exchange_withdraw(all.ended[i], true))
      ++i;
    else
      all.ended[i] = all.ended[--all.n_ended];
  }
}

static status map_marks(int file, off_t offset, event_share *s) {
  void *p = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, offset);
  if (p == MAP_FAILED) return fail(ST_NO_HOST_MEMORY, "no memory for an event between processes: %s", strerror(errno));
  madvise(p, PAGE_BYTES, MADV_DONTFORK);
  s->marks = p;
  return ST_OK;
}

static void unmap_marks(event_share *s) { munmap(s->marks, PAGE_BYTES); }

/* ---- the exporter ------------------------------------------------------------------------------------------------ */

static status offer_marks(int device, event_share *s) {
  const heap_piece piece = {.offset = 0, .bytes = PAGE_BYTES};
  const exchange_item item = {
      .kind = EXCHANGE_EVENT, .device = device, .file = s->file, .bytes = PAGE_BYTES, .pieces = &piece, .n_pieces = 1};
  TRY(map_marks(s->file, 0, s));
  const status st = exchange_offer(&item, true, &s->key);
  if (st != ST_OK) unmap_marks(s);
  return st;
}

static status make_share(int device, event_share **out) {
  event_share *s = calloc(1, sizeof *s);
  if (!s) return fail(ST_NO_HOST_MEMORY, "no host memory for an event between processes");
  s->file = file_in_memory("cannon-event", PAGE_BYTES);
  status st = ST_OK;
  if (s->file < 0)
    st = fail(ST_NO_HOST_MEMORY, "no memory for an event between processes: %s", file_error(errno));
  else if ((st = offer_marks(device, s)) != ST_OK)
    close(s->file);
  if (st != ST_OK) free(s);
  *out = st == ST_OK ? s : NULL;
  return st;
}

static status event_share_export(event *e) {
  event_share *s;
  if (!(e->flags & EVENT_IPC))
    return fail(ST_INVALID_VALUE,
                "event %u stays in its process, expected one of aclrtCreateEventExWithFlag with ACL_EVENT_IPC", e->id);
  if (e->share && e->share->imported)
    return fail(ST_INVALID_VALUE, "event %u is another process's, expected one of aclrtCreateEventExWithFlag", e->id);
  if (e->share) return ST_OK;
  forget_ended();
  TRY(make_share(e->device, &s));
  link_event(e, s);
  event_set_share(e, s);
  return ST_OK;
}

status event_export(event *e, char key[EXCHANGE_TEXT_BYTES]) {
  mutex_lock(&all.lock);
  const status st = event_share_export(e);
  if (st == ST_OK) exchange_print(e->share->key, key);
  mutex_unlock(&all.lock);
  scheduler_rouse();
  return st;
}

static void event_share_withdraw(event_share *s) {
  if (exchange_withdraw(s->key, true)) {
    INVARIANT(all.n_ended < MACHINE_EXPORTS);
    all.ended[all.n_ended++] = s->key;
  }
  close(s->file);
}

/* ---- the importer ------------------------------------------------------------------------------------------------ */

static status take_marks(uint64_t key, event_share *s) {
  exchange_item item;
  heap_piece *pieces;
  TRY(exchange_take(key, EXCHANGE_EVENT, "handle", &item, &pieces));
  const status st = map_marks(item.file, (off_t)pieces[0].offset, s);
  close(item.file);
  free(pieces);
  if (st != ST_OK) exchange_drop(key);
  s->key = key;
  s->imported = true;
  return st;
}

static void leave_marks(event_share *s) {
  unmap_marks(s);
  exchange_drop(s->key);
}

static status make_import(uint64_t key, context *c, event_share *s, event **out) {
  TRY(take_marks(key, s));
  const status st = event_create(c, EVENT_EX, EVENT_IPC, out);
  if (st != ST_OK) leave_marks(s);
  return st;
}

status event_import(const char *text, context *c, event **out) {
  uint64_t key;
  TRY(exchange_parse(text, "aclrtIpcGetEventHandle", &key));
  event_share *s = calloc(1, sizeof *s);
  if (!s) return fail(ST_NO_HOST_MEMORY, "no host memory for an event between processes");
  const status st = make_import(key, c, s, out);
  if (st != ST_OK) {
    free(s);
    return st;
  }
  mutex_lock(&all.lock);
  (*out)->share = s;
  link_event(*out, s);
  mutex_unlock(&all.lock);
  return ST_OK;
}

/* ---- both -------------------------------------------------------------------------------------------------------- */

void event_look(void) {
  stream *satisfied = NULL;
  mutex_lock(&all.lock);
  for (event *e = all.first; e; e = e->share->next) satisfied = event_take_satisfied(e, satisfied);
  mutex_unlock(&all.lock);
  stream_unblock_all(satisfied);
}

void event_unshare(event *e) {
  event_share *s = e->share;
  mutex_lock(&all.lock);
  unlink_event(s);
  if (!s->imported) event_share_withdraw(s);
  mutex_unlock(&all.lock);
  if (s->imported)
    leave_marks(s);
  else
    unmap_marks(s);
  free(s);
}
