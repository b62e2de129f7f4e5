/* Handles: contexts, streams, events, notifies, graphs and their groups are slots of a table per kind, so that a stale or
 * foreign pointer is told from a live handle without touching it. Slots are reused oldest first, and each use has a serial number of its own.
 *
 * An object is born live with one reference, which its destroyer drops; tasks, lists and runners hold further ones,
 * and the slot is free for reuse when the last is gone. Thread-safe. */
#ifndef CANNON_RUNTIME_OBJECT_H
#define CANNON_RUNTIME_OBJECT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

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

/* First member of every such struct. */
typedef struct object {
  _Atomic uint32_t live; /* 1 from birth to destruction */
  _Atomic uint32_t refs;
  spinlock lock;   /* for what the object likes; outlives it, so that it may be taken before one knows whose it is */
  uint64_t serial; /* unique in the process over all kinds, from 1 */
  struct object *next_free;
} object;

/* A live object with one reference, zero beyond its header; NULL where the table is full. */
void *object_new(object_kind kind);

/* The handle if it is that of a live object, else NULL. */
void *object_live(object_kind kind, const void *handle);

/* Makes the handle stale; false if it was already (then somebody else destroys). Drops no reference. */
bool object_kill(object *o);

static inline void object_ref(object *o) { atomic_fetch_add_explicit(&o->refs, 1, memory_order_relaxed); }

/* Drops a reference; true for the last one: the caller cleans up and calls object_release. */
static inline bool object_unref(object *o) { return atomic_fetch_sub_explicit(&o->refs, 1, memory_order_acq_rel) == 1; }

/* The next object behind `after` (NULL: the first), live or only referred to, with a reference; NULL at the end. Those
 * made or released meanwhile may be left out. */
void *object_next(object_kind kind, const void *after);

/* Frees the slot. */
void object_release(object_kind kind, object *o);

#endif
