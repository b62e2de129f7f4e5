/* SPDX-License-Identifier: Apache-2.0 */
/* What the memory debugger remembers of blocks: the live ones, with their stacks, and the last BLOCK_FREED freed ones.
 * It is told of every allocation and free. All functions may be called by any thread; they take one lock, under which
 * no other is taken. */
#ifndef CANNON_CHECK_BLOCK_TABLE_H
#define CANNON_CHECK_BLOCK_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hooks.h"

enum { BLOCK_FRAMES = 8, BLOCK_FREED = 1 << 14 /* 1 MiB of them */ };

typedef struct {
  uintptr_t address; /* an address or a handle; 0: the slot is unused */
  bool is_handle;
  uint64_t bytes; /* the requested size */
  uint64_t number;
  uint64_t born_ns; /* CLOCK_MONOTONIC */
  const char *call;
  int device;
  unsigned n_frames;
  void *frame[BLOCK_FRAMES]; /* return addresses, innermost first; the first is that of `call` */
} live_record;

typedef struct {
  uintptr_t address;
  bool is_handle;
  uint64_t bytes, number;
  const char *call;
  void *alloc_site, *free_site;
} freed_record;

/* False if there is no memory for one more record; the block is not known then. */
bool block_table_add(const hook_block *block, void *const frame[], unsigned n_frames, uint64_t now_ns);
void block_table_remove(const hook_block *block, void *site);

/* Finds the last freed block that contained the address, or had the handle. */
bool block_table_find_freed(uintptr_t address, freed_record *out);

typedef struct {
  uint64_t n_allocs, n_frees, n_live, live_bytes;
  uint64_t n_unknown; /* allocations that could not be remembered for lack of memory */
} block_counts;
block_counts block_table_counts(void);

/* A copy of all live blocks, in no order, which the caller frees; NULL if there are none, or no memory. */
live_record *block_table_copy(size_t *n);

#endif
