/* Handles. Contexts, streams, events, notifies, graphs and groups of tasks are slots of a table, one table per kind, so
 * a stale or foreign pointer is told from a live handle without reading what it points to. Slots are reused oldest
 * first, and each use of a slot has a serial number of its own.
 *
 *   born        object_new: the object has one reference, which belongs to its maker
 *   published   the maker has completed it: from now on its handle means it. The library's own objects are never
 *               published, so no stale handle of a user's reaches them
 *   killed      the handle is stale; whoever killed it drops the maker's reference
 *   released    the last reference is gone, and the slot is free for reuse
 *
 * Tasks, lists, runners and calls under way hold further references. A call takes its reference before it reads
 * anything but the header (object_acquire; for streams and contexts the thread holds one, thread.h). So the object
 * stays what it was until the call is over, whatever other threads destroy meanwhile. Thread-safe. */
#ifndef CANNON_RUNTIME_OBJECT_H
#define CANNON_RUNTIME_OBJECT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/invariant.h"
#include "base/status.h"
#include "base/sync.h"

typedef enum {
  OBJECT_CONTEXT,
  OBJECT_STREAM,
  OBJECT_EVENT,
  OBJECT_NOTIFY,
  OBJECT_GRAPH,
  OBJECT_GROUP,
  N_OBJECT_KINDS
} object_kind;

enum { STREAM_SLOT_SHIFT = 9 }; /* the binary logarithm of the distance between two streams */

/* First member of every such struct. */
typedef struct object {
  _Atomic uint32_t live; /* 1 while a handle can mean it: from its publication to its destruction */
  _Atomic uint32_t refs;
  spinlock lock;   /* for what the object likes; outlives it, so that it may be taken before one knows whose it is */
  uint64_t serial; /* unique in the process over all kinds, from 1 */
  struct object *next_free;
} object;

/* An object with one reference, zero beyond its header; NULL where the table is full. */
void *object_new(object_kind kind);

/* Makes the complete object one that a handle can mean. */
static inline void object_publish(object *o) {
  INVARIANT(o->serial && atomic_load_explicit(&o->refs, memory_order_relaxed) >= 1);
  INVARIANT(!atomic_load_explicit(&o->live, memory_order_relaxed));
  atomic_store_explicit(&o->live, 1, memory_order_release);
}

/* The object of a handle, with a reference; NULL unless the handle is that of a live one. */
void *object_acquire(object_kind kind, const void *handle);

/* Whether the handle of an object that the caller has a reference to still means it. */
static inline bool object_is_live(const object *o) { return atomic_load_explicit(&o->live, memory_order_acquire); }

/* Makes the handle stale; false if it was already (then somebody else destroys). Drops no reference. */
bool object_kill(object *o);

/* A further reference to an object that others may let go at the same time; false where they have. The slot may be
 * another object's by then, so the caller looks afterwards whether it has what it wanted. */
bool object_ref_again(object *o);

/* A further reference, by someone who has one. */
static inline void object_ref(object *o) {
  const uint32_t before = atomic_fetch_add_explicit(&o->refs, 1, memory_order_relaxed);
  INVARIANT(before >= 1 && before < UINT32_MAX);
}

/* Drops a reference; true for the last one: the caller cleans up and calls object_release. */
static inline bool object_unref(object *o) {
  const uint32_t before = atomic_fetch_sub_explicit(&o->refs, 1, memory_order_acq_rel);
  INVARIANT(before >= 1);
  return before == 1;
}

/* The next object behind `after` (NULL: the first) that has references, with a further one; NULL at the end. Objects
 * that are made or released meanwhile may be left out. */
void *object_next(object_kind kind, const void *after);

/* Frees the slot. */
void object_release(object_kind kind, object *o);

/* Whether the kind's table agrees with itself: see base/invariant.h. The caller holds its lock, or is the only thread. */
bool object_table_is_valid(object_kind kind);

#endif
