/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/object.h"

#include <pthread.h>
#include <string.h>

#include "base/lock.h"
#include "base/sanitizer.h"
#include "base/status.h"
#include "base/store/sparse.h"
#include "runtime/context.h"
#include "runtime/graph/graph.h"
#include "runtime/stream.h"
#include "runtime/wait/event.h"
#include "runtime/wait/notify.h"

/* The capacity is CANN's limits per device (1984 streams, 65536 events, 8192 notifies) times 16 devices, and more for
 * destroyed objects that tasks still hold. Memory is committed when slots are first used. The size of a slot is a power
 * of two, so that checking a handle needs no division. */
static const struct {
  size_t bytes, capacity;
  unsigned shift;
} kinds[N_OBJECT_KINDS] = {
    [OBJECT_CONTEXT] = {sizeof(context), 1 << 14, 9},
    [OBJECT_STREAM] = {sizeof(stream), 1 << 16, STREAM_SLOT_SHIFT},
    [OBJECT_EVENT] = {sizeof(event), 1 << 21, 8},
    [OBJECT_GRAPH] = {sizeof(graph), 1 << 16, 8},
    [OBJECT_NOTIFY] = {sizeof(notify), 1 << 18, 7},
    [OBJECT_GROUP] = {sizeof(graph_group), 1 << 20, 7},
    [OBJECT_COMM] = {1 << COMM_SLOT_SHIFT, 1 << 14, COMM_SLOT_SHIFT},
};
_Static_assert(sizeof(context) <= 512 && sizeof(stream) <= 512 && sizeof(event) <= 256 && sizeof(graph) <= 256 &&
                   sizeof(graph_group) <= 128 && sizeof(notify) <= 128,
               "kinds[].shift");

/* A slot is reused only after so many others were freed later, so that stale handles are recognised. */
enum { MIN_FREE = 64 };

static struct {
  mutex lock; /* guards all but base, which is set once */
  char *_Atomic base;
  size_t n_used; /* slots that were used at least once */
  size_t n_free;
  object *oldest_free, *newest_free;
} tables[N_OBJECT_KINDS] = {{.lock = MUTEX_INITIALIZER(OBJECT_TABLE)}, {.lock = MUTEX_INITIALIZER(OBJECT_TABLE)},
                            {.lock = MUTEX_INITIALIZER(OBJECT_TABLE)}, {.lock = MUTEX_INITIALIZER(OBJECT_TABLE)},
                            {.lock = MUTEX_INITIALIZER(OBJECT_TABLE)}, {.lock = MUTEX_INITIALIZER(OBJECT_TABLE)},
                            {.lock = MUTEX_INITIALIZER(OBJECT_TABLE)}};

static _Atomic uint64_t serials;

static size_t slot_bytes(object_kind kind) { return (size_t)1 << kinds[kind].shift; }

static char *table_base(object_kind kind) {
  char *base = atomic_load_explicit(&tables[kind].base, memory_order_acquire);
  if (base) return base;
  base = sparse_new(slot_bytes(kind) * kinds[kind].capacity);
  if (!base) return NULL;
  atomic_store_explicit(&tables[kind].base, base, memory_order_release);
  return base;
}

/* For invariants: whether o is a slot of the table that was used. */
static bool object_is_slot(object_kind kind, const object *o) {
  const char *base = atomic_load(&tables[kind].base);
  const size_t distance = (size_t)((const char *)o - base);
  return base && distance < tables[kind].n_used * slot_bytes(kind) && distance % slot_bytes(kind) == 0;
}

#ifdef CANNON_INVARIANTS
/* The list of free slots has n_free different slots, without references and valid handles. */
bool object_table_is_valid(object_kind kind) {
  size_t n = 0;
  const object *last = NULL;
  if (tables[kind].n_used > kinds[kind].capacity || tables[kind].n_free > tables[kind].n_used) return false;
  for (const object *o = tables[kind].n_free ? tables[kind].oldest_free : NULL; o; last = o, o = o->next_free)
    if (++n > tables[kind].n_free || !object_is_slot(kind, o) || !o->serial || atomic_load(&o->refs) ||
        object_is_live(o))
      return false;
  return n == tables[kind].n_free && (!n || last == tables[kind].newest_free);
}
#endif

void *object_new(object_kind kind) {
  object *o = NULL;
  INVARIANT(kind < N_OBJECT_KINDS);
  mutex_lock(&tables[kind].lock);
  char *base = table_base(kind);
  if (base && (tables[kind].n_free <= MIN_FREE && tables[kind].n_used < kinds[kind].capacity)) {
    o = (object *)(base + slot_bytes(kind) * tables[kind].n_used++);
#if WITH_ASAN
    /* LeakSanitizer does not look for pointers in mmap()ed memory. At exit it reads /proc/self/maps for each region. */
    enum { REGION_SLOTS = 1024 };
    if (tables[kind].n_used % REGION_SLOTS == 1) __lsan_register_root_region(o, slot_bytes(kind) * REGION_SLOTS);
#endif
  } else if (base && tables[kind].n_free) {
    o = tables[kind].oldest_free;
    tables[kind].oldest_free = o->next_free;
    --tables[kind].n_free;
  }
  INVARIANT(!o || (object_is_slot(kind, o) && !atomic_load(&o->refs) && !object_is_live(o)));
  INVARIANT_WALK(object_table_is_valid(kind));
  mutex_unlock(&tables[kind].lock);
  if (!o) return NULL;
  memset(o + 1, 0, kinds[kind].bytes - sizeof *o);
  LOCK_SET_RANK(&o->lock, LOCK_OBJECT);
  o->serial = atomic_fetch_add(&serials, 1) + 1;
  atomic_store_explicit(&o->refs, 1, memory_order_release); /* object_next() may see it */
  return o;
}

/* Set before the first communicator is published. */
static void (*_Atomic unref_comm)(object *);
void object_on_unref_comm(void (*unref)(object *)) { atomic_store(&unref_comm, unref); }

static void object_unref_kind(object_kind kind, object *o) {
  switch (kind) {
  case OBJECT_CONTEXT: context_unref((context *)o); break;
  case OBJECT_STREAM: stream_unref((stream *)o); break;
  case OBJECT_EVENT: event_unref((event *)o); break;
  case OBJECT_NOTIFY: notify_unref((notify *)o); break;
  case OBJECT_GRAPH: graph_unref((graph *)o); break;
  case OBJECT_GROUP: graph_group_unref((graph_group *)o); break;
  case OBJECT_COMM: atomic_load (&unref_comm)(o); break;
  case N_OBJECT_KINDS: break;
  }
}

void *object_acquire(object_kind kind, const void *handle) {
  const char *base = atomic_load_explicit(&tables[kind].base, memory_order_relaxed);
  const size_t distance = (size_t)((uintptr_t)handle - (uintptr_t)base), slot = slot_bytes(kind);
  if (unlikely(!base || distance >= slot * kinds[kind].capacity || distance & (slot - 1))) return NULL;
  object *o = (object *)(uintptr_t)handle;
  if (!object_is_live(o) || !object_ref_again(o)) return NULL;
  if (likely(object_is_live(o)))
    return o; /* so it was live when the reference was taken: a thread that destroys drops
                                              its reference after object_kill() */
  object_unref_kind(kind, o);
  return NULL;
}

bool object_ref_again(object *o) {
  uint32_t refs = atomic_load_explicit(&o->refs, memory_order_relaxed);
  while (refs && !atomic_compare_exchange_weak_explicit(&o->refs, &refs, refs + 1, memory_order_acquire,
                                                        memory_order_relaxed)) {
  }
  return refs;
}

void *object_next(object_kind kind, const void *after) {
  mutex_lock(&tables[kind].lock);
  char *base = table_base(kind);
  const size_t n = tables[kind].n_used;
  mutex_unlock(&tables[kind].lock);
  size_t i = after ? (size_t)((const char *)after - base) / slot_bytes(kind) + 1 : 0;
  for (; i < n; ++i) {
    object *o = (object *)(base + slot_bytes(kind) * i);
    if (object_ref_again(o)) return o;
  }
  return NULL;
}

bool object_kill(object *o) { return atomic_exchange_explicit(&o->live, 0, memory_order_acq_rel); }

void object_release(object_kind kind, object *o) {
  INVARIANT(!atomic_load(&o->refs) && !object_is_live(o));
  mutex_lock(&tables[kind].lock);
  o->next_free = NULL;
  if (tables[kind].n_free++)
    tables[kind].newest_free->next_free = o;
  else
    tables[kind].oldest_free = o;
  tables[kind].newest_free = o;
  INVARIANT_WALK(object_table_is_valid(kind));
  mutex_unlock(&tables[kind].lock);
}
