/* Memory without an address: what handles are for, and mappings refer to. A slot of a table each; a handle is the
 * slot's number and how often it was used, so that a stale one is recognised. vmm.c serialises the calls. What the program
 * makes itself is told to listeners as a block (base/hooks.h), and freed when it has neither handle nor mapping.
 *
 * The memory is given back with the last reference, unless another process has imported it: then it is lent, and
 * comes back when that process has let go or ended (physical_settle). */
#ifndef CANNON_MEMORY_VMM_PHYSICAL_H
#define CANNON_MEMORY_VMM_PHYSICAL_H

#include <stdint.h>

#include "base/hooks.h"
#include "base/status.h"
#include "memory/heap/heap.h"
#include "memory/share/exchange.h"

typedef struct {
  heap *heap; /* whose granules they are, in one piece; NULL: the file is the physical's own */
  int device; /* VMM_HOST: host memory */
  int file;
  uint64_t bytes;
  size_t n_pieces; /* of the file, whole pages */
  union {
    heap_piece one;   /* n_pieces is 1 */
    heap_piece *many; /* malloc'ed */
  };
  uint64_t offered, taken; /* keys of exchange.h; 0: none */
  char tag[EXCHANGE_TAG_BYTES];
  uint64_t number;        /* among the allocations of its device or of pinned memory; not where it is taken */
  void *site, *free_site; /* where it was made, and a handle dropped last */
  uint32_t uses;          /* odd: there is one */
  uint32_t handles;       /* given, and not dropped */
  uint32_t held;          /* these, and mappings: while there are any, it is a live block of the program's */
  uint32_t refs;          /* these, and mappings that are gone but for tasks */
  uint32_t next;
} physical;

enum { MOST_PHYSICALS = 1 << 20 };

/* ST_NO_HOST_MEMORY; before the others, repeated calls do nothing. */
status physical_open(void);

static inline const heap_piece *physical_pieces(const physical *p) { return p->n_pieces == 1 ? &p->one : p->many; }

/* A new one with these contents, which it owns from now on, and one handle. ST_NO_MEMORY where there are too many. */
status physical_add(const physical *contents, void **handle);

/* Gives back what contents own: also those that physical_add refused. */
void physical_release(const physical *contents);

/* By a live handle; ST_INVALID_VALUE. By number: from 1. */
status physical_of(void *handle, uint32_t *id);
physical *physical_at(uint32_t id);

/* Another handle, and the end of one. */
void *physical_retain(uint32_t id);
void physical_drop(uint32_t id, void *site);

/* A mapping, and its end; in two steps where tasks may still use the memory. */
void physical_map(uint32_t id);
void physical_unmap(uint32_t id);
void physical_unmap_later(uint32_t id);
void physical_unmap_now(uint32_t id);

/* Calls visit for all that are the program's own and live. */
void physical_each(void (*visit)(const hook_block *, void *), void *argument);

/* Takes back what is lent no more; whether anything was. */
bool physical_settle(void);

#endif
