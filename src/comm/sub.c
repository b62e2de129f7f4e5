/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/sub.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

/* The table's lock holds the number of the process that has it, so that it can be taken over from one that has died. */
static void sub_lock(node_head *h) {
  const uint32_t own = (uint32_t)getpid();
  for (;;) {
    uint32_t holder = 0;
    if (atomic_compare_exchange_weak(&h->subs_held, &holder, own)) return;
    if (holder && holder != own && kill((pid_t)holder, 0) && errno == ESRCH &&
        atomic_compare_exchange_strong(&h->subs_held, &holder, own))
      return;
    sched_yield();
  }
}

static void sub_unlock(node_head *h) { atomic_store(&h->subs_held, 0); }

/* The entry with the key; NULL: there is none. *unused: an entry for it, or NULL. Under the lock. */
static node_sub *sub_find(node_head *h, uint64_t key, node_sub **unused) {
  *unused = NULL;
  for (int i = 0; i < NODE_SUBS; ++i) {
    if (h->subs[i].key == key) return &h->subs[i];
    if (!h->subs[i].key && !*unused) *unused = &h->subs[i];
  }
  return NULL;
}

/* Counts a member that has opened the entry's file; the last one makes the entry free. Under the lock. */
static void sub_count(node_sub *entry, uint32_t n_members) {
  if (++entry->n_found == n_members) entry->key = 0;
}

/* Whether members have yet to find a node that this process has made. Under the lock. */
static bool sub_is_awaited(const node_head *h, const node *n) {
  for (int i = 0; i < NODE_SUBS; ++i)
    if (h->subs[i].key && h->subs[i].file.inode == n->file.inode && h->subs[i].file.filesystem == n->file.filesystem)
      return true;
  return false;
}

/* Takes those out of the list of kept nodes that all members have found. Under the lock. */
static node *sub_take_found(node *of) {
  node *found = NULL;
  for (node **at = &of->kept; *at;) {
    node *n = *at;
    if (sub_is_awaited(of->head, n)) {
      at = &n->next_kept;
      continue;
    }
    *at = n->next_kept;
    n->next_kept = found;
    found = n;
  }
  return found;
}

static void sub_drop_all(node *n) {
  for (node *next; n; n = next) {
    next = n->next_kept;
    node_drop(n);
  }
}

/* Enters the node, unless another member was faster: then that one's file is in *file. Where an entry was made, the
 * node is kept for the others, even if this member's communicator is destroyed before they come. False: no entry is
 * free. */
static bool sub_enter(node *of, uint64_t key, uint32_t n_members, node *made, neighbour_file *file) {
  node *found, *unused_node = NULL;
  node_sub *unused;
  sub_lock(of->head);
  found = sub_take_found(of);
  node_sub *entry = sub_find(of->head, key, &unused);
  *file = entry ? entry->file : made->file;
  if (!entry && unused) {
    *unused = (node_sub){.key = key, .file = made->file};
    sub_count(unused, n_members);
    made->next_kept = of->kept;
    of->kept = made;
  } else
    unused_node = made;
  sub_unlock(of->head);
  sub_drop_all(found);
  if (unused_node) node_drop(unused_node);
  return entry || unused;
}

status sub_node(node *of, uint64_t key, uint32_t n_members, uint64_t device_bytes, node **out) {
  node *made, *own;
  node_sub *unused;
  neighbour_file file;
  /* Made before the lock is taken, and dropped where another member was faster. */
  TRY(node_create(n_members, device_bytes, &made));
  const status st = node_open(&made->file, n_members, device_bytes, &own); /* a second reference */
  if (st != ST_OK) node_drop(made);
  TRY(st);
  const bool entered = sub_enter(of, key, n_members, made, &file);
  if (entered && file.inode == own->file.inode && file.filesystem == own->file.filesystem) {
    *out = own;
    return ST_OK;
  }
  node_drop(own);
  if (!entered)
    return fail(ST_INVALID_VALUE,
                "%d sub-communicators wait for members, expected all members to create one before the "
                "next",
                NODE_SUBS);
  TRY(node_open(&file, n_members, device_bytes, out));
  sub_lock(of->head);
  node_sub *entry = sub_find(of->head, key, &unused);
  if (entry) sub_count(entry, n_members);
  sub_unlock(of->head);
  return ST_OK;
}
