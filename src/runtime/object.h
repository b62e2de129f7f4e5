/* SPDX-License-Identifier: Apache-2.0 */
/* Handles and reference counts. Contexts, streams, events, notifies, graphs and groups of tasks are slots of a table,
 * one table for each kind, so that a stale or foreign pointer can be told from a live handle without reading what it
 * points to. The slot that has been free for longest is reused first, and each use of a slot gets a new serial number.
 *
 * The life of an object:
 *
 *   created     object_new(): the object has one reference, which belongs to its creator
 *   published   object_publish(): the object is complete, and its handle is valid from now on. Objects that the library
 *               creates for itself are never published, so that no stale handle of the user's can reach them
 *   killed      object_kill(): the handle is stale. Whoever killed the object drops the creator's reference
 *   released    object_release(): the last reference is gone, and the slot is free for reuse
 *
 * Tasks, lists, runners of streams and API calls hold further references. A call takes its reference before it reads
 * anything but the object's header (by object_acquire(); of streams and contexts the thread already holds one, see
 * thread.h). So the object keeps its meaning until the call is over, whatever other threads destroy meanwhile.
 *
 * All functions are thread-safe. They call nothing but base/, other than object_acquire(),
 * which may release an object. */
#ifndef CANNON_RUNTIME_OBJECT_H
#define CANNON_RUNTIME_OBJECT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/invariant.h"
#include "base/lock.h"
#include "base/status.h"
#include "base/sync.h"

typedef enum {
  OBJECT_CONTEXT,
  OBJECT_STREAM,
  OBJECT_EVENT,
  OBJECT_NOTIFY,
  OBJECT_GRAPH,
  OBJECT_GROUP,
  OBJECT_COMM, /* of src/comm */
  N_OBJECT_KINDS
} object_kind;

/* Log2 of the distance of two streams, and of two communicators, in their table, in bytes. */
enum { STREAM_SLOT_SHIFT = 9, COMM_SLOT_SHIFT = 9 };

/* The header of every such struct, its first member. It stays valid memory for as long as the process lives. */
typedef struct object {
  _Atomic uint32_t live; /* 1 while the handle is valid: from object_publish() to object_kill() */
  _Atomic uint32_t refs;
  spinlock lock;   /* guards what the object's struct says. As slots are never unmapped, it may be taken by who does not
                      know yet whether the slot still holds the same object */
  uint64_t serial; /* from 1, unique in the process over all kinds */
  struct object *next_free;
} object;

/* A new object with one reference, whose bytes behind the header are 0. NULL if the table is full. */
void *object_new(object_kind kind);

/* Makes the object's handle valid. The object must be complete. */
static inline void object_publish(object *o) {
  INVARIANT(o->serial && atomic_load_explicit(&o->refs, memory_order_relaxed) >= 1);
  INVARIANT(!atomic_load_explicit(&o->live, memory_order_relaxed));
  atomic_store_explicit(&o->live, 1, memory_order_release);
}

/* The object that the handle stands for, with a further reference; NULL if the handle is none of a live object. */
void *object_acquire(object_kind kind, const void *handle);

/* Whether the handle of the object is still valid. The caller has a reference. */
static inline bool object_is_live(const object *o) { return atomic_load_explicit(&o->live, memory_order_acquire); }

/* Makes the handle stale. False if it was stale already: another thread destroys the object
 * then. Drops no reference. */
bool object_kill(object *o);

/* Takes a reference without having one. False if the object was released. The slot may have been reused for another
 * object by then, so the caller must check afterwards that it has the right one. */
bool object_ref_again(object *o);

/* Takes a further reference. The caller has one. */
static inline void object_ref(object *o) {
  const uint32_t before = atomic_fetch_add_explicit(&o->refs, 1, memory_order_relaxed);
  INVARIANT(before >= 1 && before < UINT32_MAX);
}

/* Drops a reference. True if it was the last: the caller then cleans up and calls object_release(). */
static inline bool object_unref(object *o) {
  const uint32_t before = atomic_fetch_sub_explicit(&o->refs, 1, memory_order_acq_rel);
  INVARIANT(before >= 1);
  return before == 1;
}

/* Iterates over the objects of a kind that have references, published or not: the next one behind `after`
 * (NULL: the first) with a further reference, or NULL at the end. Objects that are created or released
 * meanwhile may be left out. */
void *object_next(object_kind kind, const void *after);

/* Sets how references to communicators are dropped, which src/comm, above this layer, knows. */
void object_on_unref_comm(void (*unref)(object *));

/* Gives the slot back to the table. No reference is left. */
void object_release(object_kind kind, object *o);

/* Whether the table of the kind is consistent (see base/invariant.h). The caller holds the table's
 * lock, or is the only thread. */
bool object_table_is_valid(object_kind kind);

#endif
