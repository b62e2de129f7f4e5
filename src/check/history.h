/* SPDX-License-Identifier: Apache-2.0 */
/* Who has touched which bytes last: for each live block of memory, its bytes in cells, each with the last write and the
 * reads since that nothing has made superfluous. That is enough to find, for any access, one that conflicts with it and
 * is not ordered before it, if there is one (as in FastTrack, Flanagan and Freund 2009).
 *
 *   touch   an access: its component and stamp (check/clocks.h), and `what` it was, a number of the caller's
 *   cell    neighbouring bytes with the same touches; cells split where accesses begin and end, and join again
 *   block   memory with one life; bytes outside of blocks have no history
 *
 * Cells and blocks are found by trees, and those of repeated accesses by a cache. The caller serialises all calls.
 * Without memory, accesses are forgotten, so conflicts are missed, but none is made up. */
#ifndef CANNON_CHECK_HISTORY_H
#define CANNON_CHECK_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hooks.h"
#include "base/store/tree.h"
#include "check/clocks.h"

typedef struct {
  uint64_t stamp; /* 0: there was none */
  uint32_t component, what;
} touch;

typedef struct history_cell history_cell;
typedef struct history_slab history_slab;

typedef struct history_block {
  tree_node node; /* key.major: the address */
  uint64_t bytes;
  uint64_t serial; /* of this life; 0: the block is gone */
  tree cells;
  /* The caller's. */
  uint64_t requested;
  int device;
  int64_t stream; /* in whose order the block was allocated, or HOOK_NO_STREAM */
  const char *call;
  uint32_t stack;
  bool is_internal;
} history_block;

enum { HISTORY_CACHE = 1024 }; /* accesses to different ranges that a step of training has, and to spare */

typedef struct {
  tree blocks;
  uint64_t last_serial;
  history_slab *slabs;
  history_cell *free_cells;
  history_block *free_blocks;
  history_cell *cache[HISTORY_CACHE]; /* by a hash of the address; never freed, but perhaps reused */
  uint64_t n_cells;
} history;

/* The block that holds the address, or NULL. */
history_block *history_find(history *h, uintptr_t address);

/* Adds a block, whose history is empty; blocks that it overlaps are forgotten. NULL without memory. The pointer is
 * valid for ever; where the serial is another one, the block is gone. */
history_block *history_add(history *h, uintptr_t address, uint64_t bytes);

void history_remove(history *h, history_block *b);

/* Is called for each conflict: `other` writes (or reads) bytes from `begin` to `end`. */
typedef void history_conflict(void *argument, const touch *other, bool other_writes, uintptr_t begin, uintptr_t end);

/* An access, and what it conflicts with. */
typedef struct {
  touch by;
  bool writes;         /* else it reads */
  const vclock *clock; /* of the component that makes it */
  history_conflict *conflict;
  void *argument;
} history_access;

/* The bytes from begin to end, which lie in the block, are accessed. */
void history_touch(history *h, history_block *b, uintptr_t begin, uintptr_t end, const history_access *a);

/* The last write to the byte; NULL if there is none. */
const touch *history_writer(history *h, uintptr_t address);

/* Calls conflict for the block's touches that do not come before the clock's next step. */
void history_visit(const history_block *b, const vclock *clock, history_conflict *conflict, void *argument);

/* Calls visit for each run of bytes of the access: the whole of it, or the rows of its shape; at most `most` runs.
 * Returns false if there are more. */
bool history_runs(const hook_access *a, uint32_t most, void (*visit)(void *argument, uintptr_t begin, uintptr_t end),
                  void *argument);

/* Frees everything. */
void history_clear(history *h);

#endif
