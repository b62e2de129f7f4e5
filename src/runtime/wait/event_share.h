/* SPDX-License-Identifier: Apache-2.0 */
/* Events between processes: the generations of an exported event (runtime/wait/event.h) live in a page of memory that
 * importing processes map. Each of the processes may record, wait and query. Nobody gets a message when another process
 * reaches a record, so the scheduler's ticker looks at the page while streams wait for such events, and the host looks
 * again and again. Called by src/api, event.c and the scheduler. Thread-safe. */
#ifndef CANNON_RUNTIME_WAIT_EVENT_SHARE_H
#define CANNON_RUNTIME_WAIT_EVENT_SHARE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "memory/share/exchange.h"
#include "runtime/wait/event.h"

enum { EVENT_MARKS = 256 };

/* What processes share. A process that ends before it reaches a record leaves the others waiting for it. */
typedef struct {
  _Atomic uint64_t submitted;            /* the generation of the latest record */
  _Atomic uint64_t reached[EVENT_MARKS]; /* [g % EVENT_MARKS]: the highest such generation that was reached */
} event_marks;

/* The part of an event that is shared. It belongs to the event. */
struct event_share {
  event_marks *marks;
  uint64_t key;
  int file; /* of an exported event */
  bool imported;
  event *next, *previous; /* in the list of shared events, guarded by the lock of event_share.c */
};

/* Exports an event made with EVENT_IPC and writes its key, the same one each time. ST_INVALID_VALUE if it was imported.
 * Any process of the machine may import it. */
status event_export(event *e, char key[EXCHANGE_TEXT_BYTES]);

/* Creates an event that stands for another process's. Not published. */
status event_import(const char *key, context *c, event **out);

/* For event_unref(), at the last reference: frees e->share. */
void event_unshare(event *e);

/* Generations, for event.c: that of a new record, that of the latest one, and whether one was reached. */
static inline uint64_t event_share_add(event_share *s) { return atomic_fetch_add(&s->marks->submitted, 1) + 1; }
static inline uint64_t event_share_latest(const event_share *s) { return atomic_load(&s->marks->submitted); }
static inline bool event_share_reached(const event_share *s, uint64_t generation) {
  return atomic_load(&s->marks->reached[generation % EVENT_MARKS]) >= generation;
}
static inline void event_share_reach(event_share *s, uint64_t generation) {
  _Atomic uint64_t *mark = &s->marks->reached[generation % EVENT_MARKS];
  uint64_t seen = atomic_load(mark);
  while (seen < generation && !atomic_compare_exchange_weak(mark, &seen, generation)) {
  }
}

/* The number of streams that wait for shared events; and unblocks those whose wait is over. */
extern _Atomic int event_n_shared_waiting;
void event_look(void);

#endif
