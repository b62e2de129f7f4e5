/* SPDX-License-Identifier: Apache-2.0 */
/* Physical memory: memory without an address, which handles and mappings refer to. Each one is a slot of a table; a
 * handle consists of the slot's number and its use count, so that stale handles are recognised. Used by vmm.c, which
 * holds its lock during all calls; calls the heap and share/exchange.h. Physical memory that the program itself has
 * made is reported to listeners as a block (base/hooks.h), which is freed when it has neither handles nor mappings.
 *
 * The memory is given back with the last reference, unless another process has imported it: then it is lent, and is
 * given back after that process has dropped it or ended (physical_settle). */
#ifndef CANNON_MEMORY_VMM_PHYSICAL_H
#define CANNON_MEMORY_VMM_PHYSICAL_H

#include <stdint.h>

#include "base/hooks.h"
#include "base/status.h"
#include "memory/heap/heap.h"
#include "memory/share/exchange.h"

typedef struct {
  heap *heap; /* that owns its granules, which are one piece; NULL: the physical memory owns the file */
  int device; /* VMM_HOST: host memory */
  int file;
  uint64_t bytes;
  size_t n_pieces; /* pieces of the file, whole pages */
  union {
    heap_piece one;   /* if n_pieces is 1 */
    heap_piece *many; /* else; malloc'ed, owned */
  };
  uint64_t offered, taken; /* key under which it is exported, or from which it was imported (exchange.h); 0: neither */
  char tag[EXCHANGE_TAG_BYTES];
  uint64_t number;        /* among the allocations of its device or of pinned memory; 0 if imported */
  void *site, *free_site; /* return addresses of the calls that made it, and that dropped a handle last */
  uint32_t uses;          /* how often the slot changed between unused and used; odd: it is used */
  uint32_t handles;       /* handles that were given and not dropped */
  uint32_t held;          /* handles and mappings: while there are any, it counts as a live block of the program */
  uint32_t refs;          /* handles, mappings, and former mappings that tasks may still use */
  uint32_t next;          /* in the list of unused or of lent slots */
} physical;

enum { MOST_PHYSICALS = 1 << 20 };

/* Makes the table; called before all other functions, repeated calls do nothing. ST_NO_HOST_MEMORY. */
status physical_open(void);

static inline const heap_piece *physical_pieces(const physical *p) { return p->n_pieces == 1 ? &p->one : p->many; }

/* Adds physical memory with these contents, which it owns from now on, and one handle. ST_NO_MEMORY where there are too
 * many. */
status physical_add(const physical *contents, void **handle);

/* Gives back what the contents own; also used for contents that physical_add has refused. */
void physical_release(const physical *contents);

/* Finds the id, from 1, that a live handle means; ST_INVALID_VALUE for others. */
status physical_of(void *handle, uint32_t *id);

/* The slot with that id; the pointer stays valid. */
physical *physical_at(uint32_t id);

/* Adds a reference for another handle, and returns it; drops a handle's reference. */
void *physical_retain(uint32_t id);
void physical_drop(uint32_t id, void *site);

/* Adds a reference for a mapping, and drops it; the latter in two steps where tasks may still use the memory: `later`
 * when the program unmaps it, `now` when the tasks have retired. */
void physical_map(uint32_t id);
void physical_unmap(uint32_t id);
void physical_unmap_later(uint32_t id);
void physical_unmap_now(uint32_t id);

/* Calls visit for all live physical memory that this program has made. */
void physical_each(void (*visit)(const hook_block *, void *), void *argument);

/* Gives back memory that was lent and that no process uses any more. Returns whether there was any. */
bool physical_settle(void);

/* Only in builds with CANNON_INVARIANTS: whether slots, lists and counts agree; sums over all used slots. */
typedef struct {
  uint64_t handles, held, refs;
} physical_sums;
bool physical_is_valid(physical_sums *sums);

#endif
