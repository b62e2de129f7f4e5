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

/* Counts a member that has found the entry; the last one makes it free. Under the lock. */
static void sub_count(node_sub *entry, uint32_t n_members) {
  if (++entry->n_found == n_members) entry->key = 0;
}

status sub_node(node *of, uint64_t key, uint32_t n_members, uint64_t device_bytes, node **out) {
  node *made;
  node_sub *unused;
  /* Made before the lock is taken, and dropped where another member was faster. */
  TRY(node_create(n_members, device_bytes, &made));
  sub_lock(of->head);
  node_sub *entry = sub_find(of->head, key, &unused);
  neighbour_file file = entry ? entry->file : made->file;
  if (!entry && unused) *unused = (node_sub){.key = key, .file = made->file};
  if (entry || unused) sub_count(entry ? entry : unused, n_members);
  sub_unlock(of->head);
  if (!entry && unused) {
    *out = made;
    return ST_OK;
  }
  node_drop(made);
  if (!entry)
    return fail(ST_INVALID_VALUE,
                "%d sub-communicators wait for members, expected all members to create one before the "
                "next",
                NODE_SUBS);
  return node_open(&file, n_members, device_bytes, out);
}
