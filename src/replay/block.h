/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of an address range, for the allocator models: blocks that are split and merged with their neighbours, and
 * sets of free blocks ordered by size. Used by address_range.c, binning.c and caching.c. Not thread-safe: each model
 * instance has blocks of its own. */
#ifndef CANNON_REPLAY_BLOCK_H
#define CANNON_REPLAY_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

typedef struct block block;
struct block {
  uint64_t address, bytes;
  block *previous, *next; /* neighbours by address within one segment */
  bool used;
  uint8_t kind; /* meaning is up to the model */
  /* children in a block_set; `left` also links records that are unused or in a singly linked list */
  block *left, *right;
  uint32_t priority;
};

/* Allocates and recycles block records, in chunks. Freed as a whole by block_store_free. */
typedef struct {
  void *chunks;
  block *unused;
  uint32_t random;
} block_store;

/* Returns a block without neighbours, not used and in no set. Ends the program if there is no memory. */
block *block_new(block_store *s, uint64_t address, uint64_t bytes);

/* Recycles the record of a block. */
void block_drop(block_store *s, block *b);
void block_store_free(block_store *s);

/* Shortens b to `bytes`. Returns a new block with the rest, which follows b. */
block *block_split(block_store *s, block *b, uint64_t bytes);

/* Merges `after`, the next neighbour, into b, and recycles its record. */
void block_join(block_store *s, block *b, block *after);

/* A set of free blocks, ordered by (bytes, address): a treap, so an operation takes about 2 log n steps. The size
 * and address of a member must not change. */
typedef block *block_set;
void block_set_insert(block_set *set, block *b);
void block_set_remove(block_set *set, block *b);
/* returns the first block of at least `bytes` bytes, or NULL */
block *block_set_best(const block_set *set, uint64_t bytes);

#endif
