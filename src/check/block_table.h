/* What the debugger remembers of blocks: those that are live, with their stacks, and the last freed ones. It is told of
 * every allocation and free; all calls from any thread, under one lock that is the last of any. */
#ifndef CANNON_CHECK_BLOCK_TABLE_H
#define CANNON_CHECK_BLOCK_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hooks.h"

enum { BLOCK_FRAMES = 8, BLOCK_FREED = 1 << 14 /* 1 MiB of them */ };

typedef struct {
  uintptr_t address; /* or a handle; 0: an unused slot */
  bool is_handle;
  uint64_t bytes; /* as asked for */
  uint64_t number;
  uint64_t born_ns; /* CLOCK_MONOTONIC */
  const char *call;
  int device;
  unsigned n_frames;
  void *frame[BLOCK_FRAMES]; /* return addresses; the first is that of `call` */
} live_record;

typedef struct {
  uintptr_t address;
  bool is_handle;
  uint64_t bytes, number;
  const char *call;
  void *alloc_site, *free_site;
} freed_record;

/* False without memory for one more: it is not known then. */
bool block_table_add(const hook_block *block, void *const frame[], unsigned n_frames, uint64_t now_ns);
void block_table_remove(const hook_block *block, void *site);

/* The one freed last that held the address, or had the handle. */
bool block_table_find_freed(uintptr_t address, freed_record *out);

typedef struct {
  uint64_t n_allocs, n_frees, n_live, live_bytes;
  uint64_t n_unknown; /* allocations there was no memory to remember */
} block_counts;
block_counts block_table_counts(void);

/* A malloc'ed copy of all live blocks, in no order; NULL where there are none, or no memory. */
live_record *block_table_copy(size_t *n);

#endif
